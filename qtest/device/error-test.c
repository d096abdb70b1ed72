/*
 * rnic: errors of the peer, from their cause to Terminate, event and flush
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/regions.h"
#include "tests/qtest/rnic/lib/stags.h"

/* ------------------------------------------------------ errors of the peer */

static void put_bad(World *w, const WireSegment *segment)
{
    w->bad_length = wire_encode_segment(segment, w->bad);
    wire_put_ulpdu(w->c->peer, w->bad, w->bad_length);
}

static void put_bad_raw(World *w, const void *ulpdu, size_t length)
{
    memcpy(w->bad, ulpdu, length);
    w->bad_length = length;
    wire_put_ulpdu(w->c->peer, w->bad, length);
}

static WireSegment send_segment(void)
{
    return (WireSegment) {
        .opcode = WIRE_SEND, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .msn = 1, .length = 8,
        .payload = (uint8_t *)"PAYLOAD!",
    };
}

static WireSegment write_segment(const RnicMr *mr)
{
    return (WireSegment) {
        .opcode = WIRE_WRITE, .tagged = true, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .stag = mr->stag, .to = mr->va, .length = 8,
        .payload = (uint8_t *)"PAYLOAD!",
    };
}

static void encode_read(const WireRead *read, uint8_t *out)
{
    stl_be_p(out, read->sink_stag);
    stq_be_p(out + 4, read->sink_to);
    stl_be_p(out + 12, read->size);
    stl_be_p(out + 16, read->source_stag);
    stq_be_p(out + 20, read->source_to);
}

static void put_bad_read(World *w, const WireRead *read, uint32_t msn,
                         uint32_t qn, bool last, uint32_t length)
{
    uint8_t header[64] = { };
    WireSegment segment = {
        .opcode = WIRE_READ_REQUEST, .last = last, .ddp_version = 1,
        .rdmap_version = 1, .qn = qn, .msn = msn, .length = length,
        .payload = header,
    };

    encode_read(read, header);
    put_bad(w, &segment);
}

static void put_bad_source(World *w, const RnicMr *mr, uint64_t to,
                           uint32_t size)
{
    WireRead read = { .sink_stag = 0x5151, .sink_to = 0x1234567890,
                      .size = size, .source_stag = mr->stag,
                      .source_to = to };

    put_bad_read(w, &read, 1, 1, true, 28);
}

typedef struct PeerError {
    const char *name;
    void (*provoke)(World *w);
    uint16_t event;             /* 0: none, a CQE shows it */
    uint16_t code;
    uint8_t flags;              /* of the Terminate */
} PeerError;

enum { M = 0x80, MD = 0xc0, MDR = 0xe0 };

#define PROVOKE(name) static void name(World *w)
#define MR (&w->c->mr)

PROVOKE(write_unknown)
{
    WireSegment s = write_segment(MR);

    s.stag = 0xdeadbe00;
    put_bad(w, &s);
}

PROVOKE(write_wrong_key)
{
    WireSegment s = write_segment(MR);

    s.stag ^= 1;
    put_bad(w, &s);
}

PROVOKE(write_stag_zero)
{
    WireSegment s = write_segment(MR);

    s.stag = 0;
    s.to = w->c->mr.bus;
    put_bad(w, &s);
}

PROVOKE(write_deallocated)
{
    WireSegment s = write_segment(&w->gone);

    put_bad(w, &s);
}

PROVOKE(write_before)
{
    WireSegment s = write_segment(MR);

    s.to -= 1;
    put_bad(w, &s);
}

PROVOKE(write_behind)
{
    WireSegment s = write_segment(MR);

    s.to += CONNECTION_MR_SIZE - 7;
    put_bad(w, &s);
}

PROVOKE(write_at_end)
{
    WireSegment s = write_segment(MR);

    s.to += CONNECTION_MR_SIZE;
    s.length = 1;
    put_bad(w, &s);
}

PROVOKE(write_wraps)
{
    WireSegment s = write_segment(MR);

    s.to = ~0ULL - 3;
    put_bad(w, &s);
}

PROVOKE(write_read_only)
{
    WireSegment s = write_segment(&w->read_only);

    put_bad(w, &s);
}

PROVOKE(write_local_only)
{
    WireSegment s = write_segment(&w->local);

    put_bad(w, &s);
}

PROVOKE(write_foreign)
{
    WireSegment s = write_segment(&w->foreign);

    put_bad(w, &s);
}

/* Where another PD's region begins and ends is not for the peer to find out. */
PROVOKE(write_foreign_before)
{
    WireSegment s = write_segment(&w->foreign);

    s.to -= 1;
    put_bad(w, &s);
}

PROVOKE(write_foreign_behind)
{
    WireSegment s = write_segment(&w->foreign);

    s.to += w->foreign.length;
    put_bad(w, &s);
}

PROVOKE(write_foreign_wraps)
{
    WireSegment s = write_segment(&w->foreign);

    s.to = ~0ULL - 3;
    put_bad(w, &s);
}

/* The first segment is good, the second leaves the region. */
PROVOKE(write_second_segment)
{
    WireSegment s = write_segment(MR);

    s.to += CONNECTION_MR_SIZE - 12;
    s.last = false;
    wire_put_segment(w->c->peer, &s);
    s.to += 8;
    s.last = true;
    put_bad(w, &s);
}

PROVOKE(read_unknown)
{
    RnicMr none = { .stag = 0xdeadbe00 };

    put_bad_source(w, &none, 0, 100);
}

PROVOKE(read_wrong_key)
{
    RnicMr wrong = { .stag = w->c->mr.stag ^ 0x80 };

    put_bad_source(w, &wrong, w->c->mr.va, 100);
}

PROVOKE(read_stag_zero)
{
    RnicMr zero = { .stag = 0 };

    put_bad_source(w, &zero, w->c->mr.bus, 100);
}

PROVOKE(read_before)
{
    put_bad_source(w, MR, w->c->mr.va - 1, 100);
}

PROVOKE(read_behind)
{
    put_bad_source(w, MR, w->c->mr.va + 1, CONNECTION_MR_SIZE);
}

PROVOKE(read_huge)
{
    put_bad_source(w, MR, w->c->mr.va, 0xffffffff);
}

PROVOKE(read_write_only)
{
    put_bad_source(w, &w->write_only, w->write_only.va, 100);
}

PROVOKE(read_foreign)
{
    put_bad_source(w, &w->foreign, w->foreign.va, 100);
}

PROVOKE(read_foreign_before)
{
    put_bad_source(w, &w->foreign, w->foreign.va - 1, 100);
}

PROVOKE(read_foreign_behind)
{
    put_bad_source(w, &w->foreign, w->foreign.va + w->foreign.length, 1);
}

PROVOKE(read_foreign_wraps)
{
    put_bad_source(w, &w->foreign, ~0ULL - 3, 8);
}

PROVOKE(read_wraps)
{
    put_bad_source(w, MR, ~0ULL - 3, 8);
}

PROVOKE(read_msn_ahead)
{
    put_bad_read(w, &(WireRead) { }, 2, 1, true, 28);
}

PROVOKE(read_msn_past)
{
    put_bad_read(w, &(WireRead) { }, 0, 1, true, 28);
}

PROVOKE(read_short)
{
    put_bad_read(w, &(WireRead) { }, 1, 1, true, 24);
}

PROVOKE(read_long)
{
    put_bad_read(w, &(WireRead) { }, 1, 1, true, 32);
}

PROVOKE(read_not_last)
{
    put_bad_read(w, &(WireRead) { }, 1, 1, false, 28);
}

PROVOKE(read_mo)
{
    uint8_t header[28] = { };
    WireSegment segment = {
        .opcode = WIRE_READ_REQUEST, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .qn = 1, .msn = 1, .mo = 4, .length = 28,
        .payload = header,
    };

    put_bad(w, &segment);
}

PROVOKE(read_on_queue_0)
{
    put_bad_read(w, &(WireRead) { }, 1, 0, true, 28);
}

PROVOKE(read_on_queue_7)
{
    put_bad_read(w, &(WireRead) { }, 1, 7, true, 28);
}

PROVOKE(send_queue_7)
{
    WireSegment s = send_segment();

    s.qn = 7;
    put_bad(w, &s);
}

PROVOKE(send_queue_huge)
{
    WireSegment s = send_segment();

    s.qn = 0xffffffff;
    put_bad(w, &s);
}

/* The first that is none, and those of other messages. */
PROVOKE(send_queue_3)
{
    WireSegment s = send_segment();

    s.qn = 3;
    put_bad(w, &s);
}

PROVOKE(send_queue_2)
{
    WireSegment s = send_segment();

    s.qn = 2;
    put_bad(w, &s);
}

PROVOKE(send_queue_1)
{
    WireSegment s = send_segment();

    s.qn = 1;
    put_bad(w, &s);
}

PROVOKE(send_msn_ahead)
{
    WireSegment s = send_segment();

    s.msn = 2;
    put_bad(w, &s);
}

PROVOKE(send_msn_past)
{
    WireSegment s = send_segment();

    s.msn = 0;
    put_bad(w, &s);
}

PROVOKE(send_mo)
{
    WireSegment s = send_segment();

    s.mo = 4;
    put_bad(w, &s);
}

PROVOKE(send_mo_second)
{
    WireSegment s = send_segment();

    s.last = false;
    wire_put_segment(w->c->peer, &s);
    s.last = true;
    s.mo = 7;
    put_bad(w, &s);
}

PROVOKE(ddp_version_untagged)
{
    WireSegment s = send_segment();

    s.ddp_version = 2;
    put_bad(w, &s);
}

PROVOKE(ddp_version_3)
{
    WireSegment s = send_segment();

    s.ddp_version = 3;
    put_bad(w, &s);
}

PROVOKE(ddp_version_tagged)
{
    WireSegment s = write_segment(MR);

    s.ddp_version = 0;
    put_bad(w, &s);
}

PROVOKE(rdmap_version_0)
{
    WireSegment s = send_segment();

    s.rdmap_version = 0;
    put_bad(w, &s);
}

PROVOKE(rdmap_version_2)
{
    WireSegment s = send_segment();

    s.rdmap_version = 2;
    put_bad(w, &s);
}

PROVOKE(rdmap_version_3)
{
    WireSegment s = write_segment(MR);

    s.rdmap_version = 3;
    put_bad(w, &s);
}

PROVOKE(opcode_8)
{
    WireSegment s = send_segment();

    s.opcode = 8;
    put_bad(w, &s);
}

PROVOKE(opcode_10)
{
    WireSegment s = send_segment();

    s.opcode = 10;
    s.qn = 1;
    put_bad(w, &s);
}

PROVOKE(opcode_15)
{
    WireSegment s = send_segment();

    s.opcode = 15;
    put_bad(w, &s);
}

PROVOKE(send_tagged)
{
    WireSegment s = write_segment(MR);

    s.opcode = WIRE_SEND;
    put_bad(w, &s);
}

PROVOKE(write_untagged)
{
    WireSegment s = send_segment();

    s.opcode = WIRE_WRITE;
    put_bad(w, &s);
}

PROVOKE(response_unasked)
{
    WireSegment s = write_segment(MR);

    s.opcode = WIRE_READ_RESPONSE;
    put_bad(w, &s);
}

PROVOKE(empty_response_unasked)
{
    WireSegment s = write_segment(MR);

    s.opcode = WIRE_READ_RESPONSE;
    s.stag = 0;
    s.to = 0;
    s.length = 0;
    put_bad(w, &s);
}

/* A Send of two segments with another message in between. */
PROVOKE(interleaved)
{
    WireSegment s = send_segment();

    s.last = false;
    wire_put_segment(w->c->peer, &s);
    s = write_segment(MR);
    put_bad(w, &s);
}

PROVOKE(opcode_changes)
{
    WireSegment s = send_segment();

    s.last = false;
    wire_put_segment(w->c->peer, &s);
    s.opcode = WIRE_SEND_SE;
    s.last = true;
    s.mo = 8;
    put_bad(w, &s);
}

PROVOKE(ulpdu_empty)
{
    put_bad_raw(w, "", 0);
}

PROVOKE(ulpdu_short)
{
    put_bad_raw(w, "\x41\x43\0\0", 4);
}

PROVOKE(ulpdu_short_untagged)
{
    put_bad_raw(w, "\x41\x43\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0", 17);
}

PROVOKE(ulpdu_short_tagged)
{
    put_bad_raw(w, "\xc1\x40\0\0\0\1\0\0\0\0\0\0\0", 13);
}

/* No octets, and no L either. */
PROVOKE(send_empty_not_last)
{
    WireSegment s = send_segment();

    s.length = 0;
    s.last = false;
    put_bad(w, &s);
}

PROVOKE(write_empty_not_last)
{
    WireSegment s = write_segment(MR);

    s.length = 0;
    s.last = false;
    put_bad(w, &s);
}

PROVOKE(crc_wrong)
{
    WireSegment s = write_segment(MR);

    w->c->peer->bad_crc = true;
    put_bad(w, &s);
    w->c->peer->bad_crc = false;
}

PROVOKE(marker_wrong)
{
    WireSegment s = write_segment(MR);

    w->c->peer->bad_marker = true;
    put_bad(w, &s);
    w->c->peer->bad_marker = false;
}

static const PeerError tagged_errors[] = {
    { "write-unknown-stag", write_unknown,
      RNIC_AE_TAGGED_INVALID_STAG, 0x1100, MD },
    { "write-wrong-key", write_wrong_key,
      RNIC_AE_TAGGED_INVALID_STAG, 0x1100, MD },
    { "write-stag-zero", write_stag_zero,
      RNIC_AE_TAGGED_INVALID_STAG, 0x1100, MD },
    { "write-deallocated", write_deallocated,
      RNIC_AE_TAGGED_INVALID_STAG, 0x1100, MD },
    { "write-before", write_before, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101, MD },
    { "write-behind", write_behind, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101, MD },
    { "write-at-end", write_at_end, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101, MD },
    { "write-second-segment", write_second_segment,
      RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101, MD },
    { "write-wraps", write_wraps, RNIC_AE_TAGGED_WRAP, 0x1103, MD },
    { "write-read-only", write_read_only, RNIC_AE_TAGGED_ACCESS, 0x1102, MD },
    { "write-local-only", write_local_only,
      RNIC_AE_TAGGED_ACCESS, 0x1102, MD },
    { "write-foreign-pd", write_foreign,
      RNIC_AE_TAGGED_INVALID_PD, 0x1102, MD },
};

static const PeerError read_errors[] = {
    { "read-unknown-stag", read_unknown,
      RNIC_AE_IRRQ_INVALID_STAG, 0x0100, MDR },
    { "read-wrong-key", read_wrong_key,
      RNIC_AE_IRRQ_INVALID_STAG, 0x0100, MDR },
    { "read-stag-zero", read_stag_zero,
      RNIC_AE_IRRQ_INVALID_STAG, 0x0100, MDR },
    { "read-before", read_before, RNIC_AE_IRRQ_BASE_BOUNDS, 0x0101, MDR },
    { "read-behind", read_behind, RNIC_AE_IRRQ_BASE_BOUNDS, 0x0101, MDR },
    { "read-huge", read_huge, RNIC_AE_IRRQ_BASE_BOUNDS, 0x0101, MDR },
    { "read-write-only", read_write_only, RNIC_AE_IRRQ_ACCESS, 0x0102, MDR },
    { "read-foreign-pd", read_foreign, RNIC_AE_IRRQ_INVALID_PD, 0x0103, MDR },
    { "read-wraps", read_wraps, RNIC_AE_IRRQ_WRAP, 0x0104, MDR },
    { "read-msn-ahead", read_msn_ahead, RNIC_AE_IRRQ_MSN_GAP, 0x1203, MD },
    { "read-msn-past", read_msn_past, RNIC_AE_IRRQ_MSN_RANGE, 0x1203, MD },
    { "read-short", read_short, RNIC_AE_BAD_READ_REQUEST, 0x02ff, MD },
    { "read-long", read_long, RNIC_AE_BAD_READ_REQUEST, 0x1205, MD },
    { "read-mo", read_mo, RNIC_AE_BAD_READ_REQUEST, 0x1204, MD },
    { "read-not-last", read_not_last, RNIC_AE_NO_LAST_BIT, 0x02ff, MDR },
    { "read-on-queue-0", read_on_queue_0,
      RNIC_AE_INVALID_QUEUE_NUMBER, 0x1201, MD },
    { "read-on-queue-7", read_on_queue_7,
      RNIC_AE_INVALID_QUEUE_NUMBER, 0x1201, MD },
};

static const PeerError untagged_errors[] = {
    { "send-queue-3", send_queue_3, RNIC_AE_INVALID_QUEUE_NUMBER, 0x1201, MD },
    { "send-queue-7", send_queue_7, RNIC_AE_INVALID_QUEUE_NUMBER, 0x1201, MD },
    { "send-queue-huge", send_queue_huge,
      RNIC_AE_INVALID_QUEUE_NUMBER, 0x1201, MD },
    { "send-queue-1", send_queue_1, RNIC_AE_INVALID_QUEUE_NUMBER, 0x1201, MD },
    { "send-queue-2", send_queue_2, RNIC_AE_INVALID_QUEUE_NUMBER, 0x1201, MD },
    { "send-msn-ahead", send_msn_ahead, RNIC_AE_RQ_MSN_GAP, 0x1203, MD },
    { "send-msn-past", send_msn_past, RNIC_AE_RQ_MSN_RANGE, 0x1203, MD },
};

static const PeerError operation_errors[] = {
    { "ddp-version-untagged", ddp_version_untagged,
      RNIC_AE_DDP_VERSION, 0x1206, 0 },
    { "ddp-version-tagged", ddp_version_tagged,
      RNIC_AE_DDP_VERSION, 0x1104, 0 },
    { "ddp-version-3", ddp_version_3, RNIC_AE_DDP_VERSION, 0x1206, 0 },
    { "rdmap-version-0", rdmap_version_0, RNIC_AE_RDMAP_VERSION, 0x0205, MD },
    { "rdmap-version-2", rdmap_version_2, RNIC_AE_RDMAP_VERSION, 0x0205, MD },
    { "rdmap-version-3", rdmap_version_3, RNIC_AE_RDMAP_VERSION, 0x0205, MD },
    { "opcode-8", opcode_8, RNIC_AE_UNEXPECTED_OPCODE, 0x0206, MD },
    { "opcode-10", opcode_10, RNIC_AE_UNEXPECTED_OPCODE, 0x0206, MD },
    { "opcode-15", opcode_15, RNIC_AE_UNEXPECTED_OPCODE, 0x0206, MD },
    { "send-tagged", send_tagged, RNIC_AE_UNEXPECTED_OPCODE, 0x0206, MD },
    { "write-untagged", write_untagged,
      RNIC_AE_UNEXPECTED_OPCODE, 0x0206, MD },
    { "response-unasked", response_unasked,
      RNIC_AE_UNEXPECTED_OPCODE, 0x0206, MD },
    { "empty-response-unasked", empty_response_unasked,
      RNIC_AE_UNEXPECTED_OPCODE, 0x0206, MD },
    { "interleaved", interleaved, RNIC_AE_UNEXPECTED_OPCODE, 0x0206, MD },
    { "opcode-changes", opcode_changes,
      RNIC_AE_UNEXPECTED_OPCODE, 0x0206, MD },
};

static const PeerError framing_errors[] = {
    { "ulpdu-empty", ulpdu_empty, RNIC_AE_LLP_SEGMENT_SIZE, 0x2003, 0 },
    { "ulpdu-short", ulpdu_short, RNIC_AE_LLP_SEGMENT_SIZE, 0x2003, 0 },
    { "ulpdu-short-untagged", ulpdu_short_untagged,
      RNIC_AE_LLP_SEGMENT_SIZE, 0x2003, 0 },
    { "ulpdu-short-tagged", ulpdu_short_tagged,
      RNIC_AE_LLP_SEGMENT_SIZE, 0x2003, 0 },
};

/* The Terminate shows the headers of the segment that was wrong. */
static void check_echo(const World *w, const WireTerminate *t)
{
    if (t->flags & M) {
        g_assert_cmpuint(t->segment_length, ==, w->bad_length);
    }
    if (t->ddp_length) {
        g_assert_cmpmem(t->ddp, t->ddp_length, w->bad, t->ddp_length);
    }
    if (t->read_length) {
        g_assert_cmpmem(t->read, 28, w->bad + 18, 28);
    }
}

/* The regions that the peer has no right to change. */
static void mark_others(const World *w)
{
    rnic_mem_fill(w->c->r, w->foreign.bus, 0xf0, 4096);
    rnic_mem_fill(w->c->r, w->read_only.bus, 0xf1, 4096);
    rnic_mem_fill(w->c->r, w->local.bus, 0xf2, 4096);
}

static void assert_as_marked(const World *w)
{
    const RnicMr *others[] = { &w->foreign, &w->read_only, &w->local };
    uint8_t got[4096];

    for (unsigned i = 0; i < G_N_ELEMENTS(others); i++) {
        rnic_mem_read(w->c->r, others[i]->bus, got, sizeof(got));
        for (unsigned at = 0; at < sizeof(got); at++) {
            g_assert_cmphex(got[at], ==, 0xf0 + i);
        }
    }
}

/*
 * The codes that there are: RFC 5040 figure 9, RFC 5041 7.2, RFC 5044 8, RFC 6581
 * 9.
 */
static void assert_registered(uint16_t code)
{
    static const uint16_t registered[] = {
        0x0100, 0x0101, 0x0102, 0x0103, 0x0104, 0x0109, 0x01ff,
        0x0205, 0x0206, 0x0207, 0x0208, 0x0209, 0x02ff,
        0x1000, 0x1100, 0x1101, 0x1102, 0x1103, 0x1104,
        0x1201, 0x1202, 0x1203, 0x1204, 0x1205, 0x1206,
        0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007,
    };
    bool found = code >> 8 == 0;        /* local: any code will do */

    for (unsigned i = 0; i < G_N_ELEMENTS(registered); i++) {
        found |= registered[i] == code;
    }
    g_assert_true(found);
}

/* Everything that must follow any error. */
static void check_peer_error(World *w, const PeerError *e)
{
    enum { RECEIVES = 3 };
    Connection *c = w->c;
    Rnic *r = c->r;
    g_autofree uint8_t *before = g_malloc(CONNECTION_MR_SIZE);
    g_autofree uint8_t *after = g_malloc(CONNECTION_MR_SIZE);
    struct rnic_cm_event event;
    struct rnic_qp_attr attr;
    struct rnic_aeqe aeqe;
    WireSegment late = write_segment(&c->mr);
    WireTerminate t;

    rnic_pattern(before, CONNECTION_MR_SIZE, 1);
    connection_fill(c, 0, before, CONNECTION_MR_SIZE);
    mark_others(w);
    for (int i = 0; i < RECEIVES; i++) {
        connection_recv(c, 10 + i, 100 * i, 64);
    }
    e->provoke(w);
    /*
     * What follows a bad segment is not looked at; but a bad source shows only
     * when the response is made.
     */
    if (e->flags != MDR) {
        late.length = 4;
        late.payload = (uint8_t *)"LATE";
        wire_put_segment(c->peer, &late);
    }

    wire_get_terminate(c->peer, &t);
    g_assert_cmphex(t.code, ==, e->code);
    assert_registered(t.code);
    g_assert_cmphex(t.flags, ==, e->flags);
    check_echo(w, &t);
    /* Nothing comes behind a Terminate. */
    wire_expect_end(c->peer);
    aeqe = rnic_expect_async(r, e->event, c->qp.number);
    g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_QP);
    g_assert_cmphex(le16_to_cpu(aeqe.terminate), ==, e->code);
    g_assert_cmpint(aeqe.qp_state, ==, RNIC_QPS_TERMINATE);

    /* Modify is refused while in Terminate, and it can be read there. */
    attr = rnic_query_qp(r, &c->qp);
    g_assert_true(attr.state == RNIC_QPS_TERMINATE ||
                  attr.state == RNIC_QPS_ERROR);
    g_assert_cmpint(attr.terminate_origin, ==, 1);
    g_assert_cmpmem(attr.terminate, attr.terminate_length, t.octets,
                    t.length);

    wire_shutdown(c->peer);
    rnic_wait_qp_state(r, &c->qp, RNIC_QPS_ERROR);
    for (int i = 0; i < RECEIVES; i++) {
        rnic_expect_cqe(r, &c->recv_cq, 10 + i, RNIC_WC_FLUSHED);
    }
    event = rnic_expect_cm(r, RNIC_CM_DISCONNECTED);
    g_assert_cmphex(le32_to_cpu(event.qpn), ==, c->qp.number);
    g_assert_cmphex(le64_to_cpu(event.cookie), ==, CONNECTION_COOKIE);
    g_assert_cmphex(le16_to_cpu(event.terminate), ==, e->code);
    attr = rnic_query_qp(r, &c->qp);
    g_assert_cmpint(attr.terminate_origin, ==, 1);
    g_assert_cmpmem(attr.terminate, attr.terminate_length, t.octets,
                    t.length);
    g_assert_cmphex(attr.llp_stream, ==, 0);
    rnic_settle(r);
    rnic_expect_no_async(r);
    rnic_expect_no_cm(r);
    rnic_expect_no_cqe(r, &c->recv_cq);
    rnic_expect_no_cqe(r, &c->send_cq);
    assert_as_marked(w);
    connection_peek(c, 0, after, CONNECTION_MR_SIZE);
    if (e->provoke == write_second_segment) {
        memcpy(before + CONNECTION_MR_SIZE - 12, "PAYLOAD!", 8);
    } else if (e->provoke == opcode_changes || e->provoke == interleaved ||
               e->provoke == send_mo_second) {
        memcpy(before, "PAYLOAD!", 8);
        memcpy(after, "PAYLOAD!", 8);
    }
    g_assert_cmpmem(after, CONNECTION_MR_SIZE, before, CONNECTION_MR_SIZE);
}

/* Each error without CRC and with. */
static void run_errors(const PeerError *errors, unsigned count,
                       const ConnectionOptions *prepared)
{
    World w;

    world_init(&w, prepared);
    for (unsigned i = 0; i < count; i++) {
        for (int crc = 0; crc < 2; crc++) {
            ConnectionOptions options = { .crc = crc };

            if (errors[i].provoke == crc_wrong && !crc) {
                continue;
            }
            g_test_message("%s", errors[i].name);
            connection_establish(w.c, &options);
            check_peer_error(&w, &errors[i]);
            connection_recycle(w.c);
        }
    }
    world_cleanup(&w);
}

#define RUN_ERRORS(errors) run_errors(errors, G_N_ELEMENTS(errors), NULL)

/* A Send, a Write and a Read Request, each of which fails. */
static const PeerError one_of_each[] = {
    { "send-queue-7", send_queue_7, RNIC_AE_INVALID_QUEUE_NUMBER, 0x1201, MD },
    { "write-unknown-stag", write_unknown,
      RNIC_AE_TAGGED_INVALID_STAG, 0x1100, MD },
    { "read-unknown-stag", read_unknown,
      RNIC_AE_IRRQ_INVALID_STAG, 0x0100, MDR },
};

static void test_tagged(void)
{
    RUN_ERRORS(tagged_errors);
    rnic_shows("V7.9-1 V8.1.3.2.1-2 V8.3.3-11 V9.5.3-16 V9.5.3-17 V9.5.3-18 "
               "V9.5.3-19 V9.5.3-20 V7.4.2-3 R4.8-1 R4.8-6 R5.1-3 "
               "V6.2.2-5 V6.2.2.3-4 V6.4-12 V8.3.3-3 R3.1-6 R7-1 R7-3");
}

/*
 * The answer to a good Read Request is whole, and in place of that to a bad one
 * is a Terminate, with nothing between them.
 */
static void test_good_then_bad_read(void)
{
    static const struct {
        uint16_t event, code;
    } cases[] = {
        { RNIC_AE_IRRQ_INVALID_STAG, 0x0100 },
        { RNIC_AE_IRRQ_BASE_BOUNDS, 0x0101 },
        { RNIC_AE_IRRQ_ACCESS, 0x0102 },
        { RNIC_AE_IRRQ_INVALID_PD, 0x0103 },
        { RNIC_AE_IRRQ_WRAP, 0x0104 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        World w;
        WireRead good = { .sink_stag = 0x1d, .sink_to = 7, .size = 1000 };
        WireRead bad = { .sink_stag = 0x1e, .size = 8 };
        uint8_t data[1000], got[1000];
        const RnicMr *source;
        WireTerminate t;

        world_init(&w, NULL);
        connection_establish(w.c, NULL);
        rnic_pattern(data, sizeof(data), 3);
        connection_fill(w.c, 0, data, sizeof(data));
        good.source_stag = w.c->mr.stag;
        good.source_to = w.c->mr.va;
        source = i == 2 ? &w.write_only : i == 3 ? &w.foreign : &w.c->mr;
        bad.source_stag = i == 0 ? 0xdeadbe00 : source->stag;
        bad.source_to = i == 1 ? source->va - 1 : i == 4 ? ~0ULL - 3
                                                         : source->va;
        wire_put_read_request(w.c->peer, &good);
        put_bad_read(&w, &bad, 2, 1, true, 28);
        g_assert_cmpuint(wire_get_tagged(w.c->peer, WIRE_READ_RESPONSE, 0x1d,
                                         7, got, sizeof(got)), ==, 1000);
        g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
        t = wire_expect_terminate(w.c->peer, cases[i].code);
        g_assert_cmphex(t.flags, ==, MDR);
        check_echo(&w, &t);
        rnic_expect_async(w.c->r, cases[i].event, w.c->qp.number);
        world_cleanup(&w);
    }
    rnic_shows("V6.4-8");
}

static void test_read_requests(void)
{
    static const PeerError others[] = {
        { "write-foreign-pd", write_foreign,
          RNIC_AE_TAGGED_INVALID_PD, 0x1102, MD },
        { "write-foreign-before", write_foreign_before,
          RNIC_AE_TAGGED_INVALID_PD, 0x1102, MD },
        { "write-foreign-behind", write_foreign_behind,
          RNIC_AE_TAGGED_INVALID_PD, 0x1102, MD },
        { "write-foreign-wraps", write_foreign_wraps,
          RNIC_AE_TAGGED_INVALID_PD, 0x1102, MD },
        { "read-foreign-before", read_foreign_before,
          RNIC_AE_IRRQ_INVALID_PD, 0x0103, MDR },
        { "read-foreign-behind", read_foreign_behind,
          RNIC_AE_IRRQ_INVALID_PD, 0x0103, MDR },
        { "read-foreign-wraps", read_foreign_wraps,
          RNIC_AE_IRRQ_INVALID_PD, 0x0103, MDR },
        { "send-empty-not-last", send_empty_not_last,
          RNIC_AE_NO_LAST_BIT, 0x02ff, MD },
        { "write-empty-not-last", write_empty_not_last,
          RNIC_AE_NO_LAST_BIT, 0x02ff, MD },
    };

    RUN_ERRORS(read_errors);
    RUN_ERRORS(others);
    rnic_shows("V7.2.1-7 V7.4.2-4 V8.3.3-15 V9.5.3-11 V9.5.3-14 V9.5.3-15 "
               "V9.5.3-25 V9.5.3-26 V9.5.3-27 V9.5.3-28 R4.8-8 R4.8-9 "
               "R5.2.1-3 R5.2.1-10 R7.1-4 R7.2-6 R7.2-7 R7.2-8 R7.2-9 "
               "R7.2-10 R7.2-11 V10.3-1");
}

static void test_untagged(void)
{
    RUN_ERRORS(untagged_errors);
    rnic_shows("V9.5.3-11");
}

PROVOKE(read_good)
{
    put_bad_source(w, MR, w->c->mr.va, 100);
}

static void test_operations(void)
{
    static const PeerError others[] = {
        { "send-queue-7", send_queue_7,
          RNIC_AE_INVALID_QUEUE_NUMBER, 0x1201, MD },
        { "read-not-last", read_not_last, RNIC_AE_NO_LAST_BIT, 0x02ff, MDR },
    };
    static const PeerError disabled[] = {
        { "read-disabled", read_good, RNIC_AE_READ_NOT_ENABLED, 0x1201, MD },
    };

    RUN_ERRORS(operation_errors);
    RUN_ERRORS(others);
    run_errors(disabled, 1, &(ConnectionOptions) {
        .enables = RNIC_QP_ENABLE_WRITE });
    rnic_shows("V8.3.3-10 V9.5.3-9 V9.5.3-10 R4.1-6 R7.2-2 R7.2-3");
}

static void test_framing(void)
{
    static const PeerError crc[] = {
        { "crc", crc_wrong, RNIC_AE_LLP_CRC, 0x2002, 0 },
    };
    static const PeerError marker[] = {
        { "marker", marker_wrong, RNIC_AE_LLP_BAD_FPDU, 0x2003, 0 },
    };
    static const ConnectionOptions markers = {
        .properties = ",mpa-markers=on" };

    RUN_ERRORS(framing_errors);
    RUN_ERRORS(crc);
    run_errors(marker, 1, &markers);
    rnic_shows("V8.3.3-9 V9.5.3-6 V9.5.3-7 V9.5.3-8");
}

static void test_reserved_opcodes(void)
{
    Connection *c = connection_prepare(NULL);

    for (uint8_t opcode = 8; opcode < 16; opcode++) {
        for (int tagged = 0; tagged < 2; tagged++) {
            WireSegment s = tagged ? write_segment(&c->mr) : send_segment();

            connection_establish(c, NULL);
            connection_recv(c, 1, 0, 64);
            s.opcode = opcode;
            wire_put_segment(c->peer, &s);
            wire_expect_terminate(c->peer, 0x0206);
            rnic_expect_async(c->r, RNIC_AE_UNEXPECTED_OPCODE, c->qp.number);
            rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_FLUSHED);
            connection_recycle(c);
        }
    }
    connection_free(c);
    rnic_shows("R4.1-4 R7.2-2");
}

/* MO: figure 37 has no event for it, so only that there is one. */
static void check_bad_mo(void (*provoke)(World *w))
{
    World w;
    struct rnic_aeqe aeqe;
    WireTerminate t;

    world_init(&w, NULL);
    connection_establish(w.c, NULL);
    connection_recv(w.c, 1, 0, 64);
    provoke(&w);
    t = wire_expect_terminate(w.c->peer, 0x1204);
    g_assert_cmphex(t.flags, ==, MD);
    check_echo(&w, &t);
    rnic_eq_wait(w.c->r, &w.c->r->async_eq, &aeqe);
    g_assert_cmphex(le32_to_cpu(aeqe.number), ==, w.c->qp.number);
    g_assert_cmphex(le16_to_cpu(aeqe.terminate), ==, 0x1204);
    rnic_expect_cqe(w.c->r, &w.c->recv_cq, 1, RNIC_WC_FLUSHED);
    world_cleanup(&w);
}

static void test_bad_mo(void)
{
    check_bad_mo(send_mo);
    check_bad_mo(send_mo_second);
}

/* Whatever of a Send's header may be wrong. */
static void test_bad_sends(void)
{
    static const PeerError forms[] = {
        { "ddp-version-untagged", ddp_version_untagged,
          RNIC_AE_DDP_VERSION, 0x1206, 0 },
        { "rdmap-version-0", rdmap_version_0,
          RNIC_AE_RDMAP_VERSION, 0x0205, MD },
        { "opcode-15", opcode_15, RNIC_AE_UNEXPECTED_OPCODE, 0x0206, MD },
        { "send-tagged", send_tagged, RNIC_AE_UNEXPECTED_OPCODE, 0x0206, MD },
    };

    RUN_ERRORS(untagged_errors);
    RUN_ERRORS(forms);
    check_bad_mo(send_mo);
    rnic_shows("R5.3-6");
}

/* The QP's permission and the STag's: both, or nothing happens. */
static void test_not_enabled(void)
{
    static const struct {
        uint32_t enables;
        bool read, of_stag;
        uint16_t event, code;   /* 0: it is done */
    } cases[] = {
        { RNIC_QP_ENABLE_WRITE, true, true, RNIC_AE_READ_NOT_ENABLED, 0x1201 },
        { RNIC_QP_ENABLE_WRITE, true, false, RNIC_AE_READ_NOT_ENABLED, 0x1201 },
        { RNIC_QP_ENABLE_READ, true, false, RNIC_AE_IRRQ_ACCESS, 0x0102 },
        { RNIC_QP_ENABLE_READ, true, true, 0, 0 },
        { RNIC_QP_ENABLE_READ, false, true, RNIC_AE_WRITE_NOT_ENABLED, 0x1102 },
        { RNIC_QP_ENABLE_READ, false, false, RNIC_AE_WRITE_NOT_ENABLED,
          0x1102 },
        { RNIC_QP_ENABLE_WRITE, false, false, RNIC_AE_TAGGED_ACCESS, 0x1102 },
        { RNIC_QP_ENABLE_WRITE, false, true, 0, 0 },
        { RNIC_QP_SIGNAL_ALL, true, true, RNIC_AE_READ_NOT_ENABLED, 0x1201 },
        { RNIC_QP_SIGNAL_ALL, false, true, RNIC_AE_WRITE_NOT_ENABLED, 0x1102 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        ConnectionOptions options = { .enables = cases[i].enables };
        WireTerminate t;
        uint8_t got[8];
        const RnicMr *mr;
        World w;

        world_init(&w, &options);
        connection_establish(w.c, &options);
        mr = cases[i].of_stag ? &w.c->mr : &w.local;
        rnic_mem_write(w.c->r, mr->bus, "original", 8);
        /* The right at the other side is for that side to look at. */
        connection_post(w.c, RNIC_SQ_RDMA_WRITE, 1, 100, 8);
        g_assert_cmpuint(connection_get_write(w.c, 0, got, 8), ==, 8);
        rnic_expect_cqe(w.c->r, &w.c->send_cq, 1, RNIC_WC_SUCCESS);
        if (cases[i].read) {
            put_bad_source(&w, mr, mr->va, 8);
        } else {
            WireSegment s = write_segment(mr);

            put_bad(&w, &s);
        }
        if (cases[i].code) {
            t = wire_expect_terminate(w.c->peer, cases[i].code);
            check_echo(&w, &t);
            rnic_expect_async(w.c->r, cases[i].event, w.c->qp.number);
        } else if (cases[i].read) {
            wire_get_tagged(w.c->peer, WIRE_READ_RESPONSE, 0x5151,
                            0x1234567890, got, 8);
            g_assert_cmpmem(got, 8, "original", 8);
        } else {
            RNIC_UNTIL(w.c->r, (rnic_mem_read32(w.c->r, mr->bus) & 0xff) ==
                               'P');
            wire_expect_silence(w.c->peer);
        }
        rnic_mem_read(w.c->r, mr->bus, got, 8);
        g_assert_cmpmem(got, 8, cases[i].code || cases[i].read ? "original"
                                                              : "PAYLOAD!", 8);
        world_cleanup(&w);
    }
    rnic_shows("V8.1.2.2-5 V8.1.2.2-6 V8.1.2.2-11 V9.2.5.1-6 V9.5.3-12");
}

static void check_no_receive(void)
{
    World w;
    WireSegment s = send_segment();
    WireTerminate t;

    world_init(&w, NULL);
    connection_establish(w.c, NULL);
    put_bad(&w, &s);
    t = wire_expect_terminate(w.c->peer, 0x1202);
    g_assert_cmphex(t.flags, ==, MD);
    check_echo(&w, &t);
    rnic_expect_async(w.c->r, RNIC_AE_RQ_MSN_RANGE, w.c->qp.number);
    rnic_settle(w.c->r);
    rnic_expect_no_async(w.c->r);
    world_cleanup(&w);
}

/* No receive for it, an MSN of long ago, an MSN left out: range, range, gap. */
static void test_no_receive(void)
{
    static const PeerError msn[] = {
        { "send-msn-ahead", send_msn_ahead, RNIC_AE_RQ_MSN_GAP, 0x1203, MD },
        { "send-msn-past", send_msn_past, RNIC_AE_RQ_MSN_RANGE, 0x1203, MD },
    };

    check_no_receive();
    RUN_ERRORS(msn);
    rnic_shows("V8.1.2.1-2 V13.2-1 V8.3.3-14 V9.5.3-23");
}

/* The room in one SGE or in several; the message in one segment or in several. */
static void check_too_long(uint32_t room, bool pieces)
{
    struct rnic_sge sge[3];
    World w;
    uint8_t data[4097], got[4097 + 16];
    WireTerminate t;

    world_init(&w, NULL);
    connection_establish(w.c, NULL);
    rnic_mem_fill(w.c->r, w.c->mr.bus, 0xee, sizeof(got));
    if (pieces) {
        w.c->peer->segment_size = 100;
        sge[0] = rnic_sge(&w.c->mr, 0, room / 3);
        sge[1] = rnic_sge(&w.c->mr, room / 3, 0);
        sge[2] = rnic_sge(&w.c->mr, room / 3, room - room / 3);
        rnic_post_recv(w.c->r, &w.c->qp, 1, 3, sge);
    } else {
        connection_recv(w.c, 1, 0, room);
    }
    connection_recv(w.c, 2, 5000, 64);
    rnic_pattern(data, sizeof(data), 2);
    wire_put_send(w.c->peer, WIRE_SEND, 0, data, room + 1);
    t = wire_expect_terminate(w.c->peer, 0x1205);
    g_assert_cmphex(t.flags, ==, MD);
    rnic_expect_cqe(w.c->r, &w.c->recv_cq, 1, RNIC_WC_MESSAGE_TOO_LONG);
    rnic_expect_cqe(w.c->r, &w.c->recv_cq, 2, RNIC_WC_FLUSHED);
    connection_peek(w.c, 0, got, sizeof(got));
    for (unsigned at = room; at < sizeof(got); at++) {
        g_assert_cmphex(got[at], ==, 0xee);
    }
    rnic_settle(w.c->r);
    rnic_expect_no_async(w.c->r);
    world_cleanup(&w);
}

static void test_too_long(void)
{
    static const uint32_t room[] = { 0, 1, 64, 4096 };

    for (unsigned i = 0; i < G_N_ELEMENTS(room); i++) {
        check_too_long(room[i], false);
        check_too_long(room[i], true);
    }
    rnic_shows("R5.3-3 V8.1.2.1-5 V8.3.2-3");
}

/* Each code that RFC 5041 has for a segment: 1/1/00 to 04, 1/2/01 to 06. */
static void test_ddp_codes(void)
{
    static const PeerError errors[] = {
        { "write-unknown-stag", write_unknown,
          RNIC_AE_TAGGED_INVALID_STAG, 0x1100, MD },
        { "write-behind", write_behind,
          RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101, MD },
        { "write-foreign-pd", write_foreign,
          RNIC_AE_TAGGED_INVALID_PD, 0x1102, MD },
        { "write-wraps", write_wraps, RNIC_AE_TAGGED_WRAP, 0x1103, MD },
        { "ddp-version-tagged", ddp_version_tagged,
          RNIC_AE_DDP_VERSION, 0x1104, 0 },
        { "send-queue-7", send_queue_7,
          RNIC_AE_INVALID_QUEUE_NUMBER, 0x1201, MD },
        { "send-msn-ahead", send_msn_ahead, RNIC_AE_RQ_MSN_GAP, 0x1203, MD },
        { "ddp-version-untagged", ddp_version_untagged,
          RNIC_AE_DDP_VERSION, 0x1206, 0 },
    };

    RUN_ERRORS(errors);
    check_no_receive();
    check_bad_mo(send_mo);
    check_too_long(1, false);
    /* All the others of this file. */
    RUN_ERRORS(tagged_errors);
    RUN_ERRORS(read_errors);
    RUN_ERRORS(operation_errors);
    RUN_ERRORS(framing_errors);
    rnic_shows("R4.8-2 R7.2-1");
}

/*
 * A code is that of the layer that found the error; M, D and R are as RFC 5040,
 * 4.8, has them: all for remote protection, none for the LLP and for what is local,
 * or else the DDP header. Of another version of DDP no header can be told.
 */
static void test_layers(void)
{
    static const PeerError errors[] = {
        { "crc", crc_wrong, RNIC_AE_LLP_CRC, 0x2002, 0 },
        { "ulpdu-short", ulpdu_short, RNIC_AE_LLP_SEGMENT_SIZE, 0x2003, 0 },
        { "send-queue-7", send_queue_7,
          RNIC_AE_INVALID_QUEUE_NUMBER, 0x1201, MD },
        { "write-unknown-stag", write_unknown,
          RNIC_AE_TAGGED_INVALID_STAG, 0x1100, MD },
        { "rdmap-version-0", rdmap_version_0,
          RNIC_AE_RDMAP_VERSION, 0x0205, MD },
        { "opcode-15", opcode_15, RNIC_AE_UNEXPECTED_OPCODE, 0x0206, MD },
        { "read-unknown-stag", read_unknown,
          RNIC_AE_IRRQ_INVALID_STAG, 0x0100, MDR },
    };
    World w;
    RnicWr wr;
    WireTerminate t;

    RUN_ERRORS(errors);
    world_init(&w, NULL);
    connection_establish(w.c, NULL);
    wr = connection_wr(w.c, RNIC_SQ_SEND, 1, 0, 8);
    wr.sge[0].stag = cpu_to_le32(0xdeadbe00);
    rnic_post_send(w.c->r, &w.c->qp, &wr);
    t = wire_expect_terminate(w.c->peer, 0x0000);
    g_assert_cmphex(t.flags, ==, 0);
    rnic_expect_cqe(w.c->r, &w.c->send_cq, 1, RNIC_WC_INVALID_STAG);
    world_cleanup(&w);
    rnic_shows("R4.8-3 R4.8-4 R6.2.1-1");
}

/* More Reads than IRD while none can be answered. */
static void check_ird_overflow(void)
{
    enum { LARGE = 16 * 1024 * 1024, IRD = 2 };
    const ConnectionOptions options = { .ird = IRD };
    Connection *c = connection_new(&options);
    Connection *other = connection_prepare_second(c, &options);
    struct rnic_device_attr attr = rnic_query_device(c->r);
    g_autofree uint8_t *got = g_malloc(LARGE);
    RnicMr mr;
    WireRead read = { .size = LARGE };
    WireTerminate t;

    g_assert_cmpuint(le32_to_cpu(attr.max_ird), >=, IRD);
    g_assert_cmpuint(le32_to_cpu(attr.max_ird), <=, 0xffff);
    g_assert_cmpuint(le16_to_cpu(rnic_query_qp(c->r, &c->qp).ird), ==, IRD);
    connection_establish(other, &options);
    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    read.source_stag = mr.stag;
    read.source_to = mr.va;
    for (int i = 0; i < IRD; i++) {
        wire_put_read_request(c->peer, &read);
    }
    /* That many it takes. */
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    g_assert_cmpuint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
    /* The neighbour has its own, as many, and has them now. */
    for (int i = 0; i < IRD; i++) {
        wire_put_read_request(other->peer, &read);
    }
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
    g_assert_cmpuint(rnic_qp_state(c->r, &other->qp), ==, RNIC_QPS_RTS);
    for (int i = 0; i < IRD; i++) {
        wire_get_tagged(other->peer, WIRE_READ_RESPONSE, 0, 0, got, LARGE);
    }
    wire_put_read_request(c->peer, &read);
    rnic_expect_async(c->r, RNIC_AE_IRRQ_TOO_MANY, c->qp.number);
    /* What had begun of the first response precedes it. */
    wire_skip_to_terminate(c->peer, &t);
    g_assert_cmphex(t.code, ==, 0x1202);
    wire_expect_end(c->peer);
    wire_put_read_request(other->peer, &(WireRead) {
        .size = 8, .source_stag = c->mr.stag, .source_to = c->mr.va });
    wire_get_tagged(other->peer, WIRE_READ_RESPONSE, 0, 0, got, 8);
    connection_free_second(other);
    connection_free(c);
}

/* The three that can be wrong with a Read Request's MSN. */
static void test_ird_overflow(void)
{
    static const PeerError msn[] = {
        { "read-msn-ahead", read_msn_ahead, RNIC_AE_IRRQ_MSN_GAP, 0x1203, MD },
        { "read-msn-past", read_msn_past, RNIC_AE_IRRQ_MSN_RANGE, 0x1203, MD },
    };

    check_ird_overflow();
    RUN_ERRORS(msn);
    rnic_shows("V6.5-12 R6.1-5 R8.1.1-11 R8.1.2-7 V8.3.3-16 V9.2.5.1-10 "
               "V9.5.3-24");
}

/* Both Read Requests have come when the first one's answer cannot be made. */
static void check_first_of_reads(void)
{
    WireRead a = { .sink_stag = 0x5151, .sink_to = 7, .size = 100,
                   .source_stag = 0xdeadbe00, .source_to = 9 };
    WireRead b = { .sink_stag = 0x5252, .sink_to = 8, .size = 200 };
    uint8_t header[28], octets[256], ulpdu[64];
    WireSegment s = {
        .opcode = WIRE_READ_REQUEST, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .qn = 1, .msn = 1, .length = 28,
        .payload = header,
    };
    WireTerminate t;
    size_t length;
    World w;

    world_init(&w, NULL);
    connection_establish(w.c, NULL);
    b.source_stag = w.c->mr.stag;
    b.source_to = w.c->mr.va - 1;
    encode_read(&a, header);
    w.bad_length = wire_encode_segment(&s, w.bad);
    length = wire_encode_fpdu(w.c->peer, w.bad, w.bad_length, octets);
    encode_read(&b, header);
    s.msn = 2;
    length += wire_encode_fpdu(w.c->peer, ulpdu,
                               wire_encode_segment(&s, ulpdu),
                               octets + length);
    wire_put(w.c->peer, octets, length);
    t = wire_expect_terminate(w.c->peer, 0x0100);
    g_assert_cmphex(t.flags, ==, MDR);
    check_echo(&w, &t);
    rnic_expect_async(w.c->r, RNIC_AE_IRRQ_INVALID_STAG, w.c->qp.number);
    rnic_settle(w.c->r);
    rnic_expect_no_async(w.c->r);
    world_cleanup(&w);
}

/* Two bad segments in one piece: the first one counts. */
static void test_first_error(void)
{
    World w;
    WireSegment a = send_segment(), b;
    uint8_t octets[256], ulpdu[64];
    size_t length;
    WireTerminate t;

    world_init(&w, NULL);
    connection_establish(w.c, NULL);
    a.qn = 7;
    b = write_segment(&w.c->mr);
    b.stag = 0x1234;
    w.bad_length = wire_encode_segment(&a, w.bad);
    length = wire_encode_fpdu(w.c->peer, w.bad, w.bad_length, octets);
    length += wire_encode_fpdu(w.c->peer, ulpdu,
                               wire_encode_segment(&b, ulpdu),
                               octets + length);
    wire_put(w.c->peer, octets, length);
    t = wire_expect_terminate(w.c->peer, 0x1201);
    check_echo(&w, &t);
    rnic_expect_async(w.c->r, RNIC_AE_INVALID_QUEUE_NUMBER, w.c->qp.number);
    rnic_settle(w.c->r);
    rnic_expect_no_async(w.c->r);
    world_cleanup(&w);
    check_first_of_reads();
    rnic_shows("R7.1-5");
}

/* ---------------------------------------------------------- Read Responses */

typedef struct BadResponse {
    const char *name;
    int32_t stag_delta;
    int64_t to_delta;
    uint32_t length;            /* of 100 asked for */
    bool last;
    uint16_t event, code;
    uint32_t good;              /* octets of a segment before it, of these 100 */
    bool shared;                /* the STag is another region's, of these octets */
} BadResponse;

/* The first @length octets of the response. */
static void put_good_part(World *w, const WireRead *read, void *data,
                          uint32_t length)
{
    WireSegment s = {
        .opcode = WIRE_READ_RESPONSE, .tagged = true, .ddp_version = 1,
        .rdmap_version = 1, .stag = read->sink_stag, .to = read->sink_to,
        .length = length, .payload = data,
    };

    wire_put_segment(w->c->peer, &s);
}

/* Another region of the buffer's octets, with the same TOs and all rights. */
static uint32_t share_buffer(World *w)
{
    StagRegion region = {
        .pd = w->c->r->pd, .va = w->c->mr.va, .access = RNIC_TEST_ACCESS_ALL };

    stag_share(w->c->r, w->c->mr.stag, &region);
    return region.stag;
}

/* What is placed is the good part alone. */
static void check_bad_response(const BadResponse *bad)
{
    World w;
    uint8_t data[200], got[300], canary[300];
    WireSegment s;
    WireRead read;
    WireTerminate t;

    world_init(&w, NULL);
    connection_establish(w.c, NULL);
    rnic_pattern(canary, sizeof(canary), 4);
    connection_fill(w.c, 0, canary, sizeof(canary));
    memset(data, 0x33, sizeof(data));
    connection_post(w.c, RNIC_SQ_RDMA_READ, 1, 100, 100);
    connection_post(w.c, RNIC_SQ_SEND, 2, 0, 0);
    wire_get_read_request(w.c->peer, 1, &read);
    wire_get_send(w.c->peer, WIRE_SEND, 1, NULL, 0);
    s = (WireSegment) {
        .opcode = WIRE_READ_RESPONSE, .tagged = true,
        .last = bad->last, .ddp_version = 1, .rdmap_version = 1,
        .stag = read.sink_stag + bad->stag_delta,
        .to = read.sink_to + bad->good + bad->to_delta,
        .length = bad->length, .payload = data,
    };
    if (bad->shared) {
        s.stag = share_buffer(&w);
    }
    if (bad->good) {
        memset(canary + 100, 0x44, bad->good);
        put_good_part(&w, &read, canary + 100, bad->good);
    }
    put_bad(&w, &s);
    t = wire_expect_terminate(w.c->peer, bad->code);
    g_assert_cmphex(t.flags, ==, MD);
    check_echo(&w, &t);
    rnic_expect_async(w.c->r, bad->event, w.c->qp.number);
    rnic_expect_cqe(w.c->r, &w.c->send_cq, 1, RNIC_WC_FLUSHED);
    rnic_expect_cqe(w.c->r, &w.c->send_cq, 2, RNIC_WC_FLUSHED);
    connection_peek(w.c, 0, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), canary, sizeof(canary));
    world_cleanup(&w);
}

static void test_bad_responses(void)
{
    static const BadResponse cases[] = {
        { "other stag", 1, 0, 100, true, RNIC_AE_TAGGED_INVALID_STAG,
          0x1100 },
        { "other region", 0, 0, 100, true, RNIC_AE_TAGGED_INVALID_STAG,
          0x1100, 0, true },
        { "other to", 0, 1, 100, true, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101 },
        { "before", 0, -1, 100, true, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101 },
        { "too long", 0, 0, 101, true, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101 },
        { "too long, not last", 0, 0, 101, false, RNIC_AE_TAGGED_BASE_BOUNDS,
          0x1101 },
        { "too short", 0, 0, 99, true, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101 },
        { "empty", 0, 0, 0, true, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101 },
        { "second, other stag", 1, 0, 60, true, RNIC_AE_TAGGED_INVALID_STAG,
          0x1100, 40 },
        { "second, gap", 0, 1, 59, true, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101, 40 },
        { "second, again", 0, -40, 60, true, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101,
          40 },
        { "second, before", 0, -1, 60, true, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101,
          40 },
        { "second, too long", 0, 0, 61, true, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101,
          40 },
        { "second, too long, not last", 0, 0, 61, false,
          RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101, 40 },
        { "second, too short", 0, 0, 59, true, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101,
          40 },
        { "second, empty", 0, 0, 0, true, RNIC_AE_TAGGED_BASE_BOUNDS, 0x1101,
          40 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        check_bad_response(&cases[i]);
    }
    /* The same for the other messages that are not asked for. */
    run_errors(one_of_each, 2, NULL);
    rnic_shows("R5.2.2-4 R5.2.2-6 R7.1-3 V9.5.3-16 V9.5.3-17");
}

/* The sink goes away while the response is on its way. */
static void test_sink_deallocated(void)
{
    Connection *c = connection_new(NULL);
    uint8_t data[100] = { 1 }, zero[100] = { }, got[100];
    WireRead read;

    connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 100);
    wire_get_read_request(c->peer, 1, &read);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DEALLOC_STAG,
                                       c->mr.stag), ==, RNIC_ST_OK);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, data, 100);
    wire_expect_terminate(c->peer, 0x1100);
    rnic_expect_async(c->r, RNIC_AE_TAGGED_INVALID_STAG, c->qp.number);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_FLUSHED);
    connection_peek(c, 0, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), zero, sizeof(zero));
    connection_free(c);
    rnic_shows("V9.2.6.4-2");
}

/* The source goes away in the middle of a response: header moved on. */
static void test_source_deallocated(void)
{
    enum { LARGE = 16 * 1024 * 1024 };
    Connection *c = connection_new(NULL);
    RnicMr mr;
    WireRead read = { .sink_stag = 7, .sink_to = 1000, .size = LARGE };
    WireSegment segment;
    WireTerminate t = { };
    uint64_t got = 0;

    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    read.source_stag = mr.stag;
    read.source_to = mr.va;
    wire_put_read_request(c->peer, &read);
    wire_get_segment(c->peer, &segment);
    got += segment.length;
    g_free(segment.payload);
    rnic_settle(c->r);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DEALLOC_STAG,
                                       mr.stag), ==, RNIC_ST_OK);
    for (;;) {
        wire_get_segment(c->peer, &segment);
        if (segment.opcode != WIRE_READ_RESPONSE) {
            break;
        }
        g_assert_cmphex(segment.to, ==, 1000 + got);
        g_assert_false(segment.last);
        got += segment.length;
        g_free(segment.payload);
    }
    g_assert_cmpint(segment.opcode, ==, WIRE_TERMINATE);
    g_assert_cmpuint(segment.length, ==, 52);
    t.code = lduw_be_p(segment.payload);
    g_assert_cmphex(t.code, ==, 0x0100);
    g_assert_cmphex(segment.payload[2], ==, MDR);
    memcpy(t.read, segment.payload + 24, 28);
    g_free(segment.payload);
    g_assert_cmpuint(got, >, 0);
    g_assert_cmphex(ldl_be_p(t.read), ==, 7);
    g_assert_cmphex(ldq_be_p(t.read + 4), ==, 1000 + got);
    g_assert_cmpuint((uint32_t)ldl_be_p(t.read + 12), ==, LARGE - got);
    g_assert_cmphex((uint32_t)ldl_be_p(t.read + 16), ==, mr.stag);
    g_assert_cmphex(ldq_be_p(t.read + 20), ==, mr.va + got);
    rnic_expect_async(c->r, RNIC_AE_IRRQ_INVALID_STAG, c->qp.number);
    connection_free(c);
    rnic_shows("R4.8-10 V7.9-5 V9.2.6.4-2 V9.5.3-25");
}

/* ------------------------------------------------- Terminates of the peer */

static void test_terminate_received(void)
{
    static const uint16_t codes[] = { 0x0000, 0x0207, 0x02ff, 0x1101, 0x2002,
                                      0xffff };

    for (unsigned i = 0; i < G_N_ELEMENTS(codes); i++) {
        Connection *c = connection_new(&(ConnectionOptions) {
            .sq_depth = 64 });
        struct rnic_cm_event event;
        struct rnic_qp_attr attr;
        struct rnic_aeqe aeqe;
        WireRead read;
        WireSegment s;
        RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 12, 0, 4);

        connection_recv(c, 1, 0, 64);
        connection_recv(c, 2, 0, 64);
        connection_post(c, RNIC_SQ_RDMA_READ, 10, 0, 64);
        connection_post(c, RNIC_SQ_RDMA_READ, 11, 0, 64);
        wr.flags = RNIC_WQE_READ_FENCE;
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_read_request(c->peer, 1, &read);
        wire_get_read_request(c->peer, 2, &read);
        wire_put_terminate(c->peer, codes[i]);
        aeqe = rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED,
                                 c->qp.number);
        g_assert_cmphex(le16_to_cpu(aeqe.terminate), ==, codes[i]);
        g_assert_cmpint(aeqe.qp_state, ==, RNIC_QPS_TERMINATE);
        attr = rnic_query_qp(c->r, &c->qp);
        g_assert_true(attr.state == RNIC_QPS_TERMINATE ||
                      attr.state == RNIC_QPS_ERROR);
        g_assert_cmpint(attr.terminate_origin, ==, 2);
        g_assert_cmphex(lduw_be_p(attr.terminate), ==, codes[i]);
        /* No Terminate comes back, and no reset. */
        g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
        rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
        attr = rnic_query_qp(c->r, &c->qp);
        g_assert_cmphex(attr.llp_stream, ==, 0);
        g_assert_cmpint(attr.terminate_origin, ==, 2);
        g_assert_cmpuint(attr.terminate_length, ==, 4);
        g_assert_cmphex(lduw_be_p(attr.terminate), ==, codes[i]);
        g_assert_cmphex(lduw_be_p(attr.terminate + 2), ==, 0);
        for (int id = 10; id <= 12; id++) {
            rnic_expect_cqe(c->r, &c->send_cq, id, RNIC_WC_FLUSHED);
        }
        rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_FLUSHED);
        rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_FLUSHED);
        event = rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
        g_assert_cmphex(le16_to_cpu(event.terminate), ==, codes[i]);
        rnic_settle(c->r);
        rnic_expect_no_async(c->r);
        s = send_segment();
        wire_try_put_segment(c->peer, &s);
        connection_free(c);
    }
    /* A Terminate of its own is sent, once, and is found in the same place. */
    RUN_ERRORS(one_of_each);
    rnic_shows("V6.2.2.3-6 V6.6.2.4-1 V8.3.3-7 V9.5.3-3 R5.4-5 R6.2.1-2 "
               "V6.2.2.3-7 V6.2.3-2 V6.2.4-6 V8.3.3-6 V9.2.5.2-5 R3.2-4 R3.2-8 "
               "R5.4-7 R6.2.1-3");
}

/* About a Read Request of ours: the oldest Read is the one. */
static void test_terminate_about_read(void)
{
    Connection *c = connection_new(NULL);
    struct rnic_cqe cqe;
    WireRead read;
    uint8_t header[52] = { 0x01, 0x00, 0xe0, 0, 0, 46 };
    struct rnic_qp_attr attr;
    WireSegment request, terminate = {
        .opcode = WIRE_TERMINATE, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .qn = 2, .msn = 1, .length = 52,
        .payload = header,
    };

    connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 64);
    connection_post(c, RNIC_SQ_RDMA_READ, 2, 0, 64);
    wire_get_segment(c->peer, &request);
    wire_get_read_request(c->peer, 2, &read);
    header[6] = 0x41;
    header[7] = 0x41;
    header[15] = 1;
    header[19] = 1;
    memcpy(header + 24, request.payload, 28);
    wire_put_segment(c->peer, &terminate);
    rnic_expect_async(c->r, RNIC_AE_TERMINATE_RECEIVED, c->qp.number);
    cqe = rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_REMOTE_TERMINATION);
    g_assert_cmphex(le32_to_cpu(cqe.imm), ==, 0x0100);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_FLUSHED);
    attr = rnic_query_qp(c->r, &c->qp);
    g_assert_cmpint(attr.terminate_origin, ==, 2);
    g_assert_cmpint(attr.terminate_length, ==, sizeof(header));
    g_assert_cmpmem(attr.terminate, sizeof(header), header, sizeof(header));
    g_free(request.payload);
    connection_free(c);
    rnic_shows("V9.5.2-5 V7.5.2-3 V9.2.5.2-5");
}

/* A Terminate that is wrong in itself is answered by one, and nothing loops. */
static void test_bad_terminates(void)
{
    static const struct {
        uint32_t qn, msn, mo, length;
        bool more;              /* without the L flag */
        uint16_t code;
    } cases[] = {
        { 0, 1, 0, 4, false, 0x1201 }, { 1, 1, 0, 4, false, 0x1201 },
        { 7, 1, 0, 4, false, 0x1201 },
        { 2, 2, 0, 4, false, 0x1203 }, { 2, 0, 0, 4, false, 0x1203 },
        { 2, 1, 4, 4, false, 0x1204 },
        { 2, 1, 0, 56, false, 0x1205 }, { 2, 1, 0, 2, false, 0x02ff },
        { 2, 1, 0, 4, true, 0x02ff },
    };
    World w;

    world_init(&w, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint8_t header[56] = { 2, 0xff };
        WireSegment s = {
            .opcode = WIRE_TERMINATE, .last = !cases[i].more,
            .ddp_version = 1, .rdmap_version = 1, .qn = cases[i].qn,
            .msn = cases[i].msn, .mo = cases[i].mo,
            .length = cases[i].length, .payload = header,
        };
        struct rnic_aeqe aeqe;
        WireTerminate t;

        connection_establish(w.c, NULL);
        connection_recv(w.c, 1, 0, 64);
        put_bad(&w, &s);
        t = wire_expect_terminate(w.c->peer, cases[i].code);
        g_assert_cmphex(t.flags, ==, MD);
        check_echo(&w, &t);
        rnic_eq_wait(w.c->r, &w.c->r->async_eq, &aeqe);
        g_assert_cmphex(le32_to_cpu(aeqe.number), ==, w.c->qp.number);
        g_assert_cmphex(le16_to_cpu(aeqe.terminate), ==, cases[i].code);
        wire_shutdown(w.c->peer);
        rnic_wait_qp_state(w.c->r, &w.c->qp, RNIC_QPS_ERROR);
        rnic_expect_cqe(w.c->r, &w.c->recv_cq, 1, RNIC_WC_FLUSHED);
        rnic_settle(w.c->r);
        rnic_expect_no_async(w.c->r);
        connection_recycle(w.c);
    }
    world_cleanup(&w);
    rnic_shows("R5.4-4");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/error/tagged", test_tagged);
    qtest_add_func("rnic/error/read-requests", test_read_requests);
    qtest_add_func("rnic/error/untagged", test_untagged);
    qtest_add_func("rnic/error/operations", test_operations);
    qtest_add_func("rnic/error/good-then-bad-read", test_good_then_bad_read);
    qtest_add_func("rnic/error/sends", test_bad_sends);
    qtest_add_func("rnic/error/ddp-codes", test_ddp_codes);
    qtest_add_func("rnic/error/layers", test_layers);
    qtest_add_func("rnic/error/reserved-opcodes", test_reserved_opcodes);
    qtest_add_func("rnic/error/framing", test_framing);
    qtest_add_func("rnic/error/mo", test_bad_mo);
    qtest_add_func("rnic/error/not-enabled", test_not_enabled);
    qtest_add_func("rnic/error/no-receive", test_no_receive);
    qtest_add_func("rnic/error/too-long", test_too_long);
    qtest_add_func("rnic/error/ird-overflow", test_ird_overflow);
    qtest_add_func("rnic/error/first-error", test_first_error);
    qtest_add_func("rnic/error/responses", test_bad_responses);
    qtest_add_func("rnic/error/sink-deallocated", test_sink_deallocated);
    qtest_add_func("rnic/error/source-deallocated", test_source_deallocated);
    qtest_add_func("rnic/error/terminate", test_terminate_received);
    qtest_add_func("rnic/error/terminate-about-read",
                   test_terminate_about_read);
    qtest_add_func("rnic/error/bad-terminates", test_bad_terminates);
    return g_test_run();
}
