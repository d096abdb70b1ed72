/*
 * rnic: the writer of a capture, a bounded buffer and a thread
 *
 * Blocks of a pcapng file go into the buffer, one thread at a time; the writer's own
 * thread opens the file and puts them there.  Nothing here waits for the file but
 * that thread, and the two functions for begin and end, for a bounded time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_CAPTURE_WRITER_H
#define HW_RNIC_CAPTURE_WRITER_H

typedef struct RnicCaptureWriter RnicCaptureWriter;

typedef struct RnicCaptureTarget {
    const char *file;
    uint64_t buffer;            /* octets */
    uint32_t snaplen;           /* 0: no limit */
    uint64_t size;              /* of a file; 0: no limit, and one file */
    uint32_t files;             /* kept; the older ones are FILE.1, FILE.2 ... */
    uint64_t octets_per_s;      /* beyond these packets are cut; 0: no limit */
} RnicCaptureTarget;

/* What the file says in the end. */
typedef struct RnicCaptureCounts {
    uint64_t received;          /* packets */
    uint64_t dropped;           /* of them */
    uint64_t truncated;         /* of those in the file, by the rate */
} RnicCaptureCounts;

/*
 * Has the file opened, and waits for that up to 5 s.  NULL with *@errp; a thread whose
 * file has not answered by then ends by itself when it does.
 */
RnicCaptureWriter *rnic_capture_writer_new(const RnicCaptureTarget *target,
                                           Error **errp);

/*
 * Where to put @len octets, a multiple of 4 and no more than half of the buffer;
 * NULL: there is no room.  Then that they are there.
 */
uint8_t *rnic_capture_writer_reserve(RnicCaptureWriter *w, size_t len);
void rnic_capture_writer_commit(RnicCaptureWriter *w, size_t len);

/* What comes from now on is for the next file.  False: no room to say so. */
bool rnic_capture_writer_next_file(RnicCaptureWriter *w,
                                   const RnicCaptureCounts *counts);

/* Nothing more can be written: what is put into the buffer is lost. */
bool rnic_capture_writer_failed(RnicCaptureWriter *w);

/*
 * Write what is in the buffer and close the file.  Waits as long as the file takes
 * something within each 2 s, and up to @limit_ms in all; then the rest is left out, and
 * a warning says so.  The writer is gone, though the thread of one whose file does not
 * answer goes on until it does.
 */
void rnic_capture_writer_end(RnicCaptureWriter *w,
                             const RnicCaptureCounts *counts,
                             int64_t limit_ms);

#endif /* HW_RNIC_CAPTURE_WRITER_H */
