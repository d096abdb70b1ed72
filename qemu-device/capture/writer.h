/*
 * rnic: the writer of a capture, a bounded buffer and a thread
 *
 * Blocks of a pcapng file go into the buffer, one thread at a time; the writer's own
 * thread puts them into the file.  Nothing here waits for the file but that thread,
 * and rnic_capture_writer_end() for a bounded time.
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
} RnicCaptureTarget;

/* What the file says in the end. */
typedef struct RnicCaptureCounts {
    uint64_t received;          /* packets */
    uint64_t dropped;           /* of them */
} RnicCaptureCounts;

/* Opens the file.  NULL with *@errp. */
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
 * Write what is in the buffer and close the file.  If the file takes nothing, what
 * is left is lost.  The writer is gone, though its thread may go on for a moment.
 */
void rnic_capture_writer_end(RnicCaptureWriter *w,
                             const RnicCaptureCounts *counts);

#endif /* HW_RNIC_CAPTURE_WRITER_H */
