/*
 * rnic: Modify QP and Modify S-RQ, new rings for queues in use
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/resize.h"

enum { MESSAGE = 32, DEPTH = 16 };

typedef struct World {
    Connection *c;
    Rnic *r;
    uint64_t sent;              /* wr_id of the next message of the peer */
    uint64_t posted;            /* ... receive */
    uint64_t received;
} World;

static World *world_new(const char *properties)
{
    World *w = g_new0(World, 1);

    w->c = connection_new(&(ConnectionOptions) {
        .properties = properties, .sq_depth = DEPTH, .rq_depth = DEPTH });
    w->r = w->c->r;
    return w;
}

static void world_free(World *w)
{
    connection_free(w->c);
    g_free(w);
}

static void assert_depths(World *w, uint32_t sq_depth, uint32_t rq_depth)
{
    struct rnic_qp_attr attr = rnic_query_qp(w->r, &w->c->qp);

    g_assert_cmpuint(le32_to_cpu(attr.sq_depth), ==, sq_depth);
    g_assert_cmpuint(le32_to_cpu(attr.rq_depth), ==, rq_depth);
}

static void resize(World *w, uint32_t sq_depth, uint32_t rq_depth)
{
    RnicQp next;
    struct rnic_admin_sqe sqe = resize_qp_command(w->r, &w->c->qp, sq_depth,
                                                  rq_depth, &next);
    struct rnic_admin_cqe cqe;

    g_assert_cmpint(rnic_admin(w->r, &sqe, &cqe), ==, RNIC_ST_OK);
    w->c->qp = next;
    g_assert_cmpuint(le32_to_cpu(cqe.qp.sq_depth), ==, sq_depth);
    g_assert_cmpuint(le32_to_cpu(cqe.qp.rq_depth), ==, rq_depth);
    assert_depths(w, sq_depth, rq_depth);
}

static void assert_same_qp(World *w, const struct rnic_qp_attr *before)
{
    struct rnic_qp_attr after = rnic_query_qp(w->r, &w->c->qp);

    g_assert_cmpmem(&after, sizeof(after), before, sizeof(*before));
}

static void refuse(World *w, uint32_t sq_depth, uint32_t rq_depth,
                   uint16_t status)
{
    struct rnic_qp_attr before = rnic_query_qp(w->r, &w->c->qp);

    g_assert_cmpint(resize_qp(w->r, &w->c->qp, sq_depth, rq_depth), ==,
                    status);
    assert_same_qp(w, &before);
}

/* ------------------------------------------------------------------- SQ */

/* Send @n messages, and see that they come. */
static void send_some(World *w, unsigned n)
{
    uint64_t value;

    for (unsigned i = 0; i < n; i++) {
        value = cpu_to_le64(w->sent + i);
        connection_fill(w->c, i * 8, &value, 8);
        connection_post(w->c, RNIC_SQ_SEND, w->sent + i, i * 8, 8);
    }
    for (unsigned i = 0; i < n; i++, w->sent++) {
        g_assert_cmpuint(wire_get_send(w->c->peer, WIRE_SEND, w->sent + 1,
                                       &value, 8), ==, 8);
        g_assert_cmpuint(le64_to_cpu(value), ==, w->sent);
        rnic_expect_cqe(w->r, &w->c->send_cq, w->sent, RNIC_WC_SUCCESS);
    }
}

/* Each WQE of one unit; a Read that is not answered keeps all in the queue. */
static void post_read(World *w, WireRead *read)
{
    connection_post(w->c, RNIC_SQ_RDMA_READ, 1000, 0, 8);
    wire_get_read_request(w->c->peer, 1, read);
}

static void post_behind_read(World *w, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        RnicWr wr = connection_wr(w->c, RNIC_SQ_RDMA_WRITE, 1000 + i, 8 * i,
                                  8);

        wr.flags |= RNIC_WQE_READ_FENCE;
        rnic_post_send(w->r, &w->c->qp, &wr);
    }
}

static void expect_behind_read(World *w, unsigned n, const WireRead *read)
{
    uint8_t data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, got[8];

    wire_put_read_response(w->c->peer, read->sink_stag, read->sink_to, data,
                           sizeof(data));
    for (unsigned i = 1; i < n; i++) {
        connection_get_write(w->c, 0, got, sizeof(got));
    }
    for (unsigned i = 0; i < n; i++) {
        rnic_expect_cqe(w->r, &w->c->send_cq, 1000 + i, RNIC_WC_SUCCESS);
    }
    connection_peek(w->c, 0, got, 8);
    g_assert_cmpmem(got, 8, data, 8);
}

static void test_sq(void)
{
    World *w = world_new("");
    WireRead read;

    send_some(w, 11);
    resize(w, 64, DEPTH);
    send_some(w, 50);
    resize(w, 8, DEPTH);
    send_some(w, 8);
    send_some(w, 8);
    resize(w, 32, DEPTH);
    /* WQEs that the device has begun, copied and not seen: all of them are there. */
    post_read(w, &read);
    post_behind_read(w, 1, 8);
    resize(w, 8, DEPTH);        /* just what is there */
    resize(w, 32, DEPTH);
    post_behind_read(w, 8, 9);
    refuse(w, 8, DEPTH, RNIC_ST_SHRINK_TOO_SMALL);
    resize(w, 16, DEPTH);
    resize(w, 128, DEPTH);
    expect_behind_read(w, 9, &read);
    send_some(w, 60);
    rnic_expect_no_async(w->r);
    world_free(w);
    rnic_shows("V6.1.3-8 V6.1.3-9 V9.2.5.3-8 V9.2.5.3-9");
}

/* ------------------------------------------------------------------- RQ */

static void post_receives(World *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++, w->posted++) {
        connection_recv(w->c, w->posted, w->posted % 64 * MESSAGE, MESSAGE);
    }
}

static void receive_some(World *w, unsigned n)
{
    uint64_t value;

    for (unsigned i = 0; i < n; i++) {
        value = cpu_to_le64(w->received + i);
        wire_put_send(w->c->peer, WIRE_SEND, 0, &value, 8);
    }
    for (unsigned i = 0; i < n; i++, w->received++) {
        rnic_expect_cqe(w->r, &w->c->recv_cq, w->received, RNIC_WC_SUCCESS);
        connection_peek(w->c, w->received % 64 * MESSAGE, &value, 8);
        g_assert_cmpuint(le64_to_cpu(value), ==, w->received);
    }
}

static void test_rq(void)
{
    World *w = world_new("");

    post_receives(w, 16);
    receive_some(w, 7);
    resize(w, DEPTH, 64);
    post_receives(w, 30);
    receive_some(w, 20);
    refuse(w, DEPTH, 16, RNIC_ST_SHRINK_TOO_SMALL);
    receive_some(w, 2);         /* 17 are left, then 16 */
    refuse(w, DEPTH, 16, RNIC_ST_SHRINK_TOO_SMALL);
    receive_some(w, 1);
    resize(w, DEPTH, 16);
    receive_some(w, 16);
    resize(w, DEPTH, 1);
    for (int i = 0; i < 5; i++) {
        post_receives(w, 1);
        receive_some(w, 1);
    }
    resize(w, DEPTH, 128);
    post_receives(w, 60);
    receive_some(w, 60);
    rnic_expect_no_async(w->r);
    /* While it is Idle, with receives that wait for a connection. */
    connection_recycle(w->c);
    post_receives(w, 20);
    resize(w, DEPTH, 32);
    resize(w, DEPTH, 64);
    connection_establish(w->c, NULL);
    receive_some(w, 20);
    rnic_expect_no_async(w->r);
    world_free(w);
    rnic_shows("V6.1.3-8 V6.1.3-9 V9.2.5.3-8 V9.2.5.3-9");
}

static uint32_t event_of(World *w, size_t offset)
{
    return rnic_mem_read32(w->r, w->c->qp.memory + offset);
}

/* Who has to ring stays so: the new record has the indices of the old one. */
static void test_event_indices(void)
{
    World *w = world_new("");
    size_t sq = offsetof(struct rnic_qp_record, sq_event);
    size_t rq = offsetof(struct rnic_qp_record, rq_event);
    uint64_t before = w->c->qp.memory;

    post_receives(w, 3);
    send_some(w, 5);
    receive_some(w, 3);
    RNIC_UNTIL(w->r, event_of(w, sq) == w->c->qp.sq_producer);
    resize(w, 64, 64);
    g_assert_cmphex(w->c->qp.memory, !=, before);
    g_assert_cmpuint(event_of(w, sq), ==, w->c->qp.sq_producer);
    g_assert_cmpuint(event_of(w, rq), ==, rnic_mem_read32(w->r, before + rq));
    world_free(w);
}

/* -------------------------------------------------------------- refused */

#define REFUSE(w, good, field, value, status)                           \
    do {                                                                \
        struct rnic_qp_attr before_ = rnic_query_qp((w)->r, &(w)->c->qp); \
        struct rnic_admin_sqe bad_ = (good);                            \
        bad_.modify_qp.field = (value);                                 \
        g_assert_cmpint(rnic_admin((w)->r, &bad_, NULL), ==, (status)); \
        assert_same_qp((w), &before_);                                  \
    } while (0)

static void test_refused(void)
{
    World *w = world_new("");
    struct rnic_admin_sqe good;
    RnicQp next;

    good = resize_qp_command(w->r, &w->c->qp, 64, 32, &next);
    REFUSE(w, good, qpn, cpu_to_le32(77777), RNIC_ST_INVALID_QP);
    REFUSE(w, good, mask, cpu_to_le32(RNIC_QP_MODIFY_SQ_DEPTH),
           RNIC_ST_INVALID_MODIFIER);
    REFUSE(w, good, mask, cpu_to_le32(RNIC_QP_MODIFY_RQ_DEPTH),
           RNIC_ST_INVALID_MODIFIER);
    REFUSE(w, good, mask, good.modify_qp.mask | cpu_to_le32(1u << 30),
           RNIC_ST_INVALID_MODIFIER);
    REFUSE(w, good, mask, good.modify_qp.mask |
           cpu_to_le32(RNIC_QP_MODIFY_RQ_LIMIT),
           RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    REFUSE(w, good, sq_depth, cpu_to_le32(RNIC_SQ_MAX_DEPTH + 1),
           RNIC_ST_SQ_WRS_EXCEEDED);
    REFUSE(w, good, rq_depth, cpu_to_le32(RNIC_RQ_MAX_DEPTH + 1),
           RNIC_ST_RQ_WRS_EXCEEDED);
    REFUSE(w, good, sq_depth, cpu_to_le32(2 * RNIC_SQ_MAX_DEPTH),
           RNIC_ST_SQ_WRS_EXCEEDED);
    REFUSE(w, good, rq_depth, cpu_to_le32(2 * RNIC_RQ_MAX_DEPTH),
           RNIC_ST_RQ_WRS_EXCEEDED);
    REFUSE(w, good, sq_depth, cpu_to_le32(4), RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE(w, good, sq_depth, cpu_to_le32(65), RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE(w, good, rq_depth, cpu_to_le32(0), RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE(w, good, rq_depth, cpu_to_le32(4096), RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE(w, good, memory.ring_offset[1], cpu_to_le32(128),
           RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE(w, good, memory.pages.addr, cpu_to_le64(RNIC_TEST_NOWHERE),
           RNIC_ST_DMA_ERROR);
    /* Indices that cannot be. */
    rnic_mem_write32(w->r, next.memory +
                     offsetof(struct rnic_qp_record, sq_producer), 0x80000000);
    REFUSE(w, good, mask, good.modify_qp.mask, RNIC_ST_SHRINK_TOO_SMALL);
    /* With attributes that could change: none does. */
    good.modify_qp.ord = cpu_to_le16(1);
    good.modify_qp.enables = cpu_to_le32(RNIC_QP_ENABLE_READ);
    REFUSE(w, good, mask, good.modify_qp.mask |
           cpu_to_le32(RNIC_QP_MODIFY_ORD | RNIC_QP_MODIFY_ENABLES),
           RNIC_ST_SHRINK_TOO_SMALL);
    post_receives(w, 4);
    send_some(w, 4);
    receive_some(w, 4);
    /* Not together with a transition, and not in Error. */
    good.modify_qp.next_state = RNIC_QPS_ERROR;
    REFUSE(w, good, mask, good.modify_qp.mask |
           cpu_to_le32(RNIC_QP_MODIFY_STATE), RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    g_assert_cmpint(rnic_modify_qp_state(w->r, &w->c->qp, RNIC_QPS_ERROR), ==,
                    RNIC_ST_OK);
    refuse(w, 64, 64, RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    world_free(w);
    rnic_shows("V9.2.5.3-2 V9.2.5.3-10 V9.2.5.3-14");
}

/* No memory is kept of commands that were refused or done. */
static void test_page_lists(void)
{
    World *w = world_new(",max-queue-pages=64");

    for (int i = 0; i < 100; i++) {
        refuse(w, 64, 4096, RNIC_ST_INSUFFICIENT_RESOURCES);
        refuse(w, 4, 64, RNIC_ST_BAD_QUEUE_MEMORY);
        resize(w, i % 2 ? 256 : 512, DEPTH);
    }
    send_some(w, 8);
    world_free(w);
    rnic_shows("V9.2.5.3-14");
}

static void test_needs_feature(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .features_off = RNIC_FEATURE_RESIZE_QP });
    RnicSrqInit init = rnic_srq_default(c->r);
    RnicSrq srq;

    g_assert_cmpint(resize_qp(c->r, &c->qp, 64, 64), ==,
                    RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    rnic_create_srq(c->r, &srq, &init);
    g_assert_cmpint(resize_srq(c->r, &srq, 64), ==, RNIC_ST_INVALID_MODIFIER);
    connection_free(c);
}

/* -------------------------------------------------------- under traffic */

enum { RESIZES = 3000, BURST = 8 };

/* V6.1.3-8: both queues, all the time. */
static void test_under_traffic(void)
{
    static const uint32_t depths[] = { 8, 32, 16, 64 };
    World *w = world_new("");
    GRand *rand = g_rand_new_with_seed(1);

    for (int i = 0; i < RESIZES / BURST; i++) {
        unsigned n = g_rand_int_range(rand, 1, BURST + 1);
        uint64_t value;

        post_receives(w, n);
        for (unsigned k = 0; k < n; k++) {
            connection_post(w->c, RNIC_SQ_RDMA_WRITE, k, 0, MESSAGE);
            value = cpu_to_le64(w->received + k);
            wire_put_send(w->c->peer, WIRE_SEND, 0, &value, 8);
            g_assert_cmpint(resize_qp(w->r, &w->c->qp,
                                      depths[g_rand_int_range(rand, 0, 4)],
                                      depths[g_rand_int_range(rand, 0, 4)]),
                            ==, RNIC_ST_OK);
        }
        for (unsigned k = 0; k < n; k++, w->received++) {
            uint8_t got[MESSAGE];

            connection_get_write(w->c, 0, got, sizeof(got));
            rnic_expect_cqe(w->r, &w->c->send_cq, k, RNIC_WC_SUCCESS);
            rnic_expect_cqe(w->r, &w->c->recv_cq, w->received,
                            RNIC_WC_SUCCESS);
            connection_peek(w->c, w->received % 64 * MESSAGE, &value, 8);
            g_assert_cmpuint(le64_to_cpu(value), ==, w->received);
        }
    }
    rnic_expect_no_async(w->r);
    g_rand_free(rand);
    world_free(w);
    rnic_shows("V6.1.3-8");
}

/* ----------------------------------------------------------------- S-RQ */

typedef struct Shared {
    Connection *c;              /* its QP receives by the S-RQ */
    Rnic *r;
    RnicSrq srq;
    uint64_t posted, received;
} Shared;

static void shared_init(Shared *s, const char *properties, uint32_t depth)
{
    g_autofree char *all = g_strconcat(",mpa-rtr=off", properties, NULL);
    RnicSrqInit init;

    *s = (Shared) { .r = rnic_boot(all, "") };
    rnic_up(s->r);
    init = rnic_srq_default(s->r);
    init.depth = depth;
    rnic_create_srq(s->r, &s->srq, &init);
    s->c = connection_prepare_on(s->r, &(ConnectionOptions) {
        .srq = &s->srq });
    connection_establish(s->c, NULL);
}

static void shared_post(Shared *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++, s->posted++) {
        struct rnic_sge sge = rnic_sge(&s->c->mr, s->posted % 64 * MESSAGE,
                                       MESSAGE);

        rnic_post_srq_recv(s->r, &s->srq, s->posted, 1, &sge);
    }
}

static void shared_receive(Shared *s, unsigned n)
{
    uint64_t value;

    for (unsigned i = 0; i < n; i++, s->received++) {
        value = cpu_to_le64(s->received);
        wire_put_send(s->c->peer, WIRE_SEND, 0, &value, 8);
        rnic_expect_cqe(s->r, &s->c->recv_cq, s->received, RNIC_WC_SUCCESS);
        connection_peek(s->c, s->received % 64 * MESSAGE, &value, 8);
        g_assert_cmpuint(le64_to_cpu(value), ==, s->received);
    }
}

static void shared_resize(Shared *s, uint32_t depth)
{
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;
    RnicSrq next;

    sqe = resize_srq_command(s->r, &s->srq, depth, &next);
    g_assert_cmpint(rnic_admin(s->r, &sqe, &cqe), ==, RNIC_ST_OK);
    s->srq = next;
    g_assert_cmpuint(le32_to_cpu(cqe.srq.depth), ==, depth);
    cqe = rnic_query_srq(s->r, &s->srq);
    g_assert_cmpuint(le32_to_cpu(cqe.srq.depth), ==, depth);
    g_assert_cmpuint(rnic_mem_read32(s->r, s->srq.memory +
                                     offsetof(struct rnic_srq_record,
                                              consumer)),
                     ==, s->received);
}

static void assert_same_srq(Shared *s, const struct rnic_admin_cqe *before)
{
    struct rnic_admin_cqe after = rnic_query_srq(s->r, &s->srq);

    g_assert_cmpmem(&after.srq, sizeof(after.srq), &before->srq,
                    sizeof(before->srq));
}

/* Refused, and nothing is different. */
static void shared_refuse(Shared *s, uint32_t depth)
{
    struct rnic_admin_cqe before = rnic_query_srq(s->r, &s->srq);

    g_assert_cmpint(resize_srq(s->r, &s->srq, depth), ==,
                    RNIC_ST_SHRINK_TOO_SMALL);
    assert_same_srq(s, &before);
}

/* The ring changes while a message has begun to fill a WQE of the former one. */
static void resize_within_message(Shared *s, uint32_t depth)
{
    uint64_t value = cpu_to_le64(s->received);
    WireSegment half = {
        .opcode = WIRE_SEND, .ddp_version = 1, .rdmap_version = 1,
        .msn = s->received + 1, .length = 4, .payload = (uint8_t *)&value,
    };
    uint32_t taken;

    wire_put_segment(s->c->peer, &half);
    RNIC_UNTIL(s->r, rnic_mem_read32(s->r, s->srq.memory +
                                     offsetof(struct rnic_srq_record,
                                              consumer)) == s->received + 1);
    g_assert_cmpint(resize_srq(s->r, &s->srq, depth), ==, RNIC_ST_OK);
    taken = rnic_mem_read32(s->r, s->srq.memory +
                            offsetof(struct rnic_srq_record, consumer));
    g_assert_cmpuint(taken, ==, s->received + 1);
    half.mo = 4;
    half.payload += 4;
    half.last = true;
    wire_put_segment(s->c->peer, &half);
    s->c->peer->send_msn++;
    rnic_expect_cqe(s->r, &s->c->recv_cq, s->received, RNIC_WC_SUCCESS);
    connection_peek(s->c, s->received % 64 * MESSAGE, &value, 8);
    g_assert_cmpuint(le64_to_cpu(value), ==, s->received);
    s->received++;
}

static void test_srq(void)
{
    Shared s;
    Connection *other;
    ConnectionOptions options = { .srq = &s.srq };

    shared_init(&s, "", 16);
    /* It takes none until the end. */
    other = connection_prepare_second(s.c, &options);
    connection_establish(other, &options);
    shared_post(&s, 16);
    shared_receive(&s, 5);
    shared_resize(&s, 64);
    shared_post(&s, 53);        /* one QP can have all of them */
    shared_receive(&s, 50);
    shared_refuse(&s, 8);
    shared_resize(&s, 16);
    resize_within_message(&s, 32);
    shared_post(&s, 1);
    shared_receive(&s, 5);      /* 9 are left, then 8 */
    shared_refuse(&s, 8);
    shared_receive(&s, 1);
    shared_resize(&s, 8);
    shared_resize(&s, 16);
    shared_post(&s, 6);
    shared_receive(&s, 14);
    for (unsigned i = 0; i < 300; i++) {
        shared_post(&s, 1 + i % 3);
        shared_resize(&s, 4u << i % 4);
        shared_receive(&s, 1 + i % 3);
    }
    shared_post(&s, 1);
    wire_put_send(other->peer, WIRE_SEND, 0, "other", 5);
    rnic_expect_cqe(s.r, &other->recv_cq, s.received++, RNIC_WC_SUCCESS);
    rnic_settle(s.r);
    rnic_expect_no_async(s.r);
    rnic_expect_no_cqe(s.r, &s.c->recv_cq);
    connection_free_second(other);
    connection_free(s.c);
    rnic_shows("V6.3.2-1 V6.3.2-2 V6.3.2-3 V6.3.7-1 V9.2.4.3-1 V9.2.4.3-4");
}

/* Its SQ keeps what is in it. */
static void refuse_sq_too_small(Shared *s)
{
    World w = { .c = s->c, .r = s->r };
    struct rnic_qp_attr before;
    struct rnic_admin_sqe sqe;
    WireRead read;
    RnicQp next;

    post_read(&w, &read);
    post_behind_read(&w, 1, 9);
    before = rnic_query_qp(s->r, &s->c->qp);
    sqe = resize_qp_command(s->r, &s->c->qp, 8, 64, &next);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_SQ_DEPTH);
    g_assert_cmpint(rnic_admin(s->r, &sqe, NULL), ==,
                    RNIC_ST_SHRINK_TOO_SMALL);
    assert_same_qp(&w, &before);
    expect_behind_read(&w, 9, &read);
}

/* The depth of an RQ that a QP does not have: nothing is different for it. */
static void test_no_rq(void)
{
    Shared s;
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe before, cqe;
    struct rnic_qp_attr attr, now;
    uint8_t got[8];
    RnicQp next;

    shared_init(&s, "", 16);
    shared_post(&s, 10);
    before = rnic_query_srq(s.r, &s.srq);
    attr = rnic_query_qp(s.r, &s.c->qp);
    sqe = resize_qp_command(s.r, &s.c->qp, 128, 64, &next);
    /* It may not be named. */
    sqe.modify_qp.mask |= cpu_to_le32(RNIC_QP_MODIFY_RQ_DEPTH);
    g_assert_cmpint(rnic_admin(s.r, &sqe, NULL), ==,
                    RNIC_ST_CANNOT_CHANGE_ATTRIBUTE);
    now = rnic_query_qp(s.r, &s.c->qp);
    g_assert_cmpmem(&now, sizeof(now), &attr, sizeof(attr));
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_SQ_DEPTH);
    g_assert_cmpint(rnic_admin(s.r, &sqe, &cqe), ==, RNIC_ST_OK);
    s.c->qp = next;
    g_assert_cmpuint(le32_to_cpu(cqe.qp.sq_depth), ==, 128);
    g_assert_cmpuint(le32_to_cpu(cqe.qp.rq_depth), ==, 0);
    assert_same_srq(&s, &before);
    shared_receive(&s, 10);
    shared_post(&s, 16);
    shared_receive(&s, 16);
    connection_post(s.c, RNIC_SQ_SEND, 1, 0, 8);
    wire_get_send(s.c->peer, WIRE_SEND, 1, got, 8);
    rnic_expect_cqe(s.r, &s.c->send_cq, 1, RNIC_WC_SUCCESS);
    refuse_sq_too_small(&s);
    rnic_expect_no_async(s.r);
    connection_free(s.c);
    rnic_shows("V6.1.3-10 V9.2.5.3-8 V9.2.5.3-9 V9.2.5.3-13");
}

#define REFUSE_SRQ(s, good, field, value, status)                       \
    do {                                                                \
        struct rnic_admin_cqe before_ = rnic_query_srq((s)->r, &(s)->srq); \
        struct rnic_admin_sqe bad_ = (good);                            \
        bad_.create_srq.field = (value);                                \
        g_assert_cmpint(rnic_admin((s)->r, &bad_, NULL), ==, (status)); \
        assert_same_srq((s), &before_);                                 \
    } while (0)

static void test_srq_refused(void)
{
    struct rnic_admin_sqe good;
    struct rnic_admin_cqe before;
    RnicSrq next;
    Shared s;

    shared_init(&s, "", 16);
    good = resize_srq_command(s.r, &s.srq, 64, &next);
    REFUSE_SRQ(&s, good, depth, cpu_to_le32(RNIC_SRQ_MAX_DEPTH + 1),
               RNIC_ST_TOO_MANY_WRS);
    REFUSE_SRQ(&s, good, depth, cpu_to_le32(2 * RNIC_SRQ_MAX_DEPTH),
               RNIC_ST_TOO_MANY_WRS);
    REFUSE_SRQ(&s, good, depth, cpu_to_le32(0), RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE_SRQ(&s, good, depth, cpu_to_le32(48), RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE_SRQ(&s, good, depth, cpu_to_le32(8192), RNIC_ST_BAD_QUEUE_MEMORY);
    REFUSE_SRQ(&s, good, mask, 0x82, RNIC_ST_INVALID_MODIFIER);
    REFUSE_SRQ(&s, good, memory.pages.addr, cpu_to_le64(RNIC_TEST_NOWHERE),
               RNIC_ST_DMA_ERROR);
    /* V6.3.8-4: an armed limit, and a new one for the new depth. */
    g_assert_cmpint(rnic_modify_srq_limit(s.r, &s.srq, 12), ==, RNIC_ST_OK);
    before = rnic_query_srq(s.r, &s.srq);
    g_assert_cmpint(resize_srq(s.r, &s.srq, 8), ==, RNIC_ST_INVALID_MODIFIER);
    assert_same_srq(&s, &before);
    good.create_srq.limit = cpu_to_le32(65);
    REFUSE_SRQ(&s, good, mask, RNIC_SRQ_MODIFY_DEPTH | RNIC_SRQ_MODIFY_LIMIT,
               RNIC_ST_SRQ_LIMIT_RANGE);
    g_assert_cmpuint(le32_to_cpu(rnic_query_srq(s.r, &s.srq).srq.limit), ==,
                     12);
    good.create_srq.limit = cpu_to_le32(64);
    good.create_srq.mask |= RNIC_SRQ_MODIFY_LIMIT;
    g_assert_cmpint(rnic_admin(s.r, &good, NULL), ==, RNIC_ST_OK);
    g_assert_cmpuint(le32_to_cpu(rnic_query_srq(s.r, &s.srq).srq.limit), ==,
                     64);
    s.srq = next;
    g_assert_cmpint(rnic_modify_srq_limit(s.r, &s.srq, 0), ==, RNIC_ST_OK);
    shared_post(&s, 40);
    shared_receive(&s, 40);
    rnic_expect_no_async(s.r);
    connection_free(s.c);
    rnic_shows("V6.3.8-4 V9.2.4.3-5 V9.2.4.3-6 V9.2.4.3-7");
}

/* Too little room for the list of a ring: the ring, and what is in it, stay. */
static void test_srq_page_lists(void)
{
    Shared s;

    shared_init(&s, ",max-queue-pages=64", 16);
    shared_post(&s, 10);
    for (int i = 0; i < 100; i++) {
        struct rnic_admin_cqe before = rnic_query_srq(s.r, &s.srq);

        g_assert_cmpuint(le32_to_cpu(before.srq.depth), ==, i % 2 ? 32 : 16);
        g_assert_cmpint(resize_srq(s.r, &s.srq, 8192), ==,
                        RNIC_ST_INSUFFICIENT_RESOURCES);
        assert_same_srq(&s, &before);
        shared_resize(&s, i % 2 ? 16 : 32);
    }
    shared_receive(&s, 10);
    shared_post(&s, 16);
    shared_receive(&s, 16);
    rnic_expect_no_async(s.r);
    connection_free(s.c);
    rnic_shows("V9.2.4.3-7");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/rnic/resize-queues/sq", test_sq);
    qtest_add_func("/rnic/resize-queues/rq", test_rq);
    qtest_add_func("/rnic/resize-queues/event-indices", test_event_indices);
    qtest_add_func("/rnic/resize-queues/refused", test_refused);
    qtest_add_func("/rnic/resize-queues/page-lists", test_page_lists);
    qtest_add_func("/rnic/resize-queues/needs-feature", test_needs_feature);
    qtest_add_func("/rnic/resize-queues/under-traffic", test_under_traffic);
    qtest_add_func("/rnic/resize-queues/srq", test_srq);
    qtest_add_func("/rnic/resize-queues/no-rq", test_no_rq);
    qtest_add_func("/rnic/resize-queues/srq-refused", test_srq_refused);
    qtest_add_func("/rnic/resize-queues/srq-page-lists", test_srq_page_lists);
    return g_test_run();
}
