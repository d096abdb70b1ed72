/*
 * rnic: the inside of capture, shared by the files of this folder
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_CAPTURE_TAP_H
#define HW_RNIC_CAPTURE_TAP_H

#include "qemu/notify.h"
#include "qemu/throttle.h"
#include "capture.h"
#include "fpdus.h"
#include "packet.h"
#include "pcapng.h"
#include "writer.h"
#include "hw/rnic/iwarp/mpa-startup.h"

enum {
    /*
     * Stream octets of a made-up segment, which do not end within so many of an
     * FPDU's first ones, unless the FPDU does: Wireshark 4.0 loses its place there.
     */
    RNIC_TAP_SEGMENT_MAX = 32 * 1024,
    RNIC_TAP_HEAD_MIN = 64,
};

typedef enum RnicTapPlace {
    RNIC_TAP_LOST,              /* not known where FPDUs begin */
    RNIC_TAP_SKIPS,             /* up to the next one */
    RNIC_TAP_FOLLOWS,
} RnicTapPlace;

/* One direction of a connection. */
typedef struct RnicTapWay {
    RnicTapPlace place;
    RnicFpdus fpdus;
    uint8_t *start_up;          /* the frame, kept */
    uint16_t start_up_len;
    bool start_up_made;         /* the capture has made it up */
    uint32_t first;             /* TCP sequence number in front of all octets */
    uint32_t next;              /* of the next octet to go to the file */
    uint8_t carry[RNIC_TAP_HEAD_MIN];   /* the last octets, of a unit's head */
    size_t carry_len;
    size_t skip;                /* with SKIPS */
    uint64_t missing;           /* octets left out since the last segment */
    bool dropping;              /* for want of room, up to an FPDU's begin */
    bool ended;                 /* FIN or RST is in the file */
    bool begun;                 /* a unit has, in the file of the announcement */
    uint32_t unacknowledged;
} RnicTapWay;

typedef struct RnicTap {
    RnicTransportTap tap;
    RnicCapture *capture;
    RnicTransport *transport;
    QLIST_ENTRY(RnicTap) next;
    RnicPacketEnd end[2];       /* the peer's, ours: by "sent" */
    RnicTapWay way[2];          /* received, sent */
    bool initiator;
    bool loop;                  /* what is received is what was sent */
    bool streaming;             /* an LLP stream: no start-up, no FPDUs yet */
    size_t raw_left;            /* octets to be sent before FPDUs begin */
    bool twin;                  /* the connection's other end had a tap before */
    bool has_twin;              /* that end: the twin has come */
    bool broken;
    bool old;                   /* there are octets that no tap has seen */
    bool announced;             /* in the file of this epoch: */
    uint32_t epoch;
    uint32_t qpn;               /* 0: none yet */
} RnicTap;

struct RnicCapture {
    RnicState *s;
    QemuMutex lock;             /* of all below, and of the taps; only the writer's is
                                 * taken behind it */
    QLIST_HEAD(, RnicTap) taps;
    GHashTable *by_ends;        /* of them, those that are no twins */
    uint32_t taps_made;
    RnicCaptureWriter *writer;  /* NULL: off */
    uint32_t epoch;             /* grows with each new file */
    uint64_t file_octets;       /* of this one */
    RnicCaptureCounts counts;
    RnicCaptureTarget running;  /* without the file's name */
    LeakyBucket rate;           /* octets that the file has had while within it */
    int64_t rate_ns;            /* guest's clock: when it leaked last */
    uint32_t truncation_told;   /* the epoch of the file that says it */

    char *file;                 /* the properties; main loop, as the rest */
    uint32_t snaplen;
    uint64_t size;
    uint32_t files;
    uint64_t buffer;
    uint64_t octets_per_s;
    Notifier exit;
};

/* All that follows is for those with the lock. */

/* Packets and notes are for a file. */
bool rnic_capture_runs(RnicCapture *c);

/*
 * There is room for @octets more, and they are for this file or for the next one,
 * which makes another epoch.  False: count what cannot be put as dropped.
 */
bool rnic_capture_begin(RnicCapture *c, size_t octets);

/* A packet, whose payload is @head and then as much as it has of @iov from @at. */
typedef struct RnicCapturePacket {
    RnicPacket packet;
    RnicPcapngWay way;
    const char *comment;
    bool truncated;             /* since it is beyond the rate */
    const uint8_t *head;
    size_t head_len;
    const struct iovec *iov;
    size_t count;
    size_t at;
} RnicCapturePacket;

/*
 * The device moves more than the file may cost: copies of all octets would take the
 * processors from the streams.  FPDUs are to be truncated.
 */
bool rnic_capture_beyond_rate(RnicCapture *c);

void rnic_capture_put(RnicCapture *c, const RnicCapturePacket *p);
void rnic_capture_put_note(RnicCapture *c, const char *text);

/* For by_ends: ends that are equal, in this order. */
guint rnic_tap_hash(gconstpointer tap);
gboolean rnic_tap_equal(gconstpointer a, gconstpointer b);

/* Capture has begun: there is an announcement to be made, and places to be told. */
void rnic_tap_begin(RnicTap *tap);
/* It ends: what is held back goes to the file. */
void rnic_tap_end(RnicTap *tap);

#endif /* HW_RNIC_CAPTURE_TAP_H */
