/*
 * rnic: a worker serves all its queue pairs, whatever one of them does
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/units.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/monitor-probe.h"
#include "tests/qtest/rnic/lib/traffic.h"
#include "tests/qtest/rnic/lib/watchdog.h"

/* ------------------------------------------------------------- busy polling */

/*
 * A worker that has sent a small message for the only QP it serves polls for
 * the answer for 100 ms. What else is asked of it meanwhile is not to wait.
 */
#define LONG_POLL ",busy-poll-us=100000"

enum {
    POLL_MILLISECONDS = 100,
    ROUNDS = 100,
    LATE_ROUNDS = 2,            /* a busy host is late, too */
    TURNS_ALONE = 16,
    SMALL = 64,
    TURN = 1024 * 1024,         /* octets that make a turn of their own */
    ANSWER = 3 * CONNECTION_MR_SIZE / 4,
};

typedef struct Pair {
    Connection *a;              /* polls */
    Connection *b;
    Drain *drain;               /* of the peer of a */
    GRand *rand;
    uint64_t wr_id;
    uint32_t msn;               /* of the next Send of b */
} Pair;

static Pair *pair_new(void)
{
    Pair *p = g_new0(Pair, 1);

    p->a = connection_new(&(ConnectionOptions) { .properties = LONG_POLL });
    p->b = connection_prepare_second(p->a, NULL);
    connection_establish(p->b, NULL);
    p->drain = drain_new(&p->a->peer->fd, 1);
    p->rand = g_rand_new_with_seed(1);
    p->msn = 1;
    return p;
}

static void pair_free(Pair *p)
{
    drain_free(p->drain);
    connection_free_second(p->b);
    connection_free(p->a);
    g_rand_free(p->rand);
    g_free(p);
}

/* Of @octets, SMALL or TURN: the buffer, four times. */
static void store_write(Pair *p, uint32_t octets)
{
    RnicWr wr = connection_wr(p->a, RNIC_SQ_RDMA_WRITE, p->wr_id++, 0,
                              MIN(octets, CONNECTION_MR_SIZE));
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    for (; wr.num_sge * CONNECTION_MR_SIZE < octets; wr.num_sge++) {
        wr.sge[wr.num_sge] = wr.sge[0];
    }
    rnic_store_wqe(p->a->r, &p->a->qp, wqe, rnic_encode_wr(&wr, wqe));
}

static void expect_done(Pair *p, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        rnic_expect_cqe(p->a->r, &p->a->send_cq, p->wr_id - count + i,
                        RNIC_WC_SUCCESS);
    }
}

/* An answer that comes makes the worker poll after the next message, too. */
static void ask_and_be_answered(Pair *p)
{
    connection_recv(p->a, 77, ANSWER, SMALL);
    store_write(p, SMALL);
    rnic_ring_sq(p->a->r, &p->a->qp);
    expect_done(p, 1);
    wire_put_send(p->a->peer, WIRE_SEND, 0, "answer", 6);
    rnic_expect_cqe(p->a->r, &p->a->recv_cq, 77, RNIC_WC_SUCCESS);
}

static void be_alone(Pair *p)
{
    for (int i = 0; i < TURNS_ALONE; i++) {
        rnic_query_qp(p->a->r, &p->a->qp);
    }
    for (int i = 0; i < 4; i++) {
        ask_and_be_answered(p);
    }
}

/*
 * Some long turns, then the one that polls. What is asked for while a long one
 * runs is there when the polling one begins.
 */
static unsigned begin_to_poll(Pair *p)
{
    unsigned turns = 1 + g_rand_int_range(p->rand, 0, 3);

    be_alone(p);
    for (unsigned i = 0; i < turns; i++) {
        store_write(p, TURN);
    }
    store_write(p, SMALL);
    rnic_ring_sq(p->a->r, &p->a->qp);
    g_usleep(g_rand_int_range(p->rand, 0, 500));
    return turns + 1;
}

static double milliseconds_since(gint64 start)
{
    return (g_get_monotonic_time() - start) / 1000.0;
}

static void busy_poll_rounds(const char *what, void (*ask)(Pair *p))
{
    Pair *p = pair_new();
    double longest = 0;
    unsigned late = 0;

    for (int i = 0; i < ROUNDS; i++) {
        unsigned writes = begin_to_poll(p);
        gint64 start = g_get_monotonic_time();
        double took;

        ask(p);
        took = milliseconds_since(start);
        late += took >= 0.8 * POLL_MILLISECONDS;
        longest = MAX(longest, took);
        expect_done(p, writes);
    }
    g_test_message("%s: longest %.1f ms, %u of %d late", what, longest, late,
                   ROUNDS);
    g_assert_cmpuint(late, <=, LATE_ROUNDS);
    pair_free(p);
}

static void query_same(Pair *p)
{
    rnic_query_qp(p->a->r, &p->a->qp);
}

static void query_other(Pair *p)
{
    rnic_query_qp(p->b->r, &p->b->qp);
}

static void ring_other(Pair *p)
{
    uint8_t got[SMALL];
    uint64_t wr_id = 1000 + p->msn;

    connection_post(p->b, RNIC_SQ_SEND, wr_id, 0, SMALL);
    wire_get_send(p->b->peer, WIRE_SEND, p->msn++, got, SMALL);
    rnic_expect_cqe(p->b->r, &p->b->send_cq, wr_id, RNIC_WC_SUCCESS);
}

static void test_query_of_the_polling_qp(void)
{
    busy_poll_rounds("QUERY_QP of the QP that polls", query_same);
}

static void test_query_of_another_qp(void)
{
    busy_poll_rounds("QUERY_QP of another QP", query_other);
}

static void test_doorbell_of_another_qp(void)
{
    busy_poll_rounds("a Send of another QP", ring_other);
}

/* --------------------------------------------------------------- tiny blocks */

enum {
    BLOCKS = 1 << 20,           /* of an octet each */
    MESSAGES = 16,
    PINGS_MIN = 8,              /* one or two if a turn is a MiB */
};

/* ROM: memory in another piece than RAM is. */
#define BIOS_PAGE 0xfffff000ULL

/* In RAM, in the order of their addresses. */
static uint64_t block_in_ram(const RnicMr *mr, uint32_t i)
{
    return mr->bus + i;
}

/* In RAM and in ROM in turn, so that no two of them are in one piece. */
static uint64_t block_in_patchwork(const RnicMr *mr, uint32_t i)
{
    return i & 1 ? BIOS_PAGE + (i & (RNIC_TEST_PAGE - 1)) : mr->bus + i;
}

static void register_tiny_blocks(Connection *c, RnicMr *mr,
                                 uint64_t (*block)(const RnicMr *, uint32_t))
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);
    g_autofree uint64_t *list = g_new(uint64_t, BLOCKS);
    uint64_t where = rnic_alloc(c->r, BLOCKS * 8);
    struct rnic_admin_cqe cqe;

    *mr = (RnicMr) { .length = BLOCKS, .bus = rnic_alloc(c->r, BLOCKS) };
    mr->va = mr->bus;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        list[i] = cpu_to_le64(block(mr, i));
    }
    rnic_mem_write(c->r, where, list, BLOCKS * 8);
    sqe.register_mr.pdn = cpu_to_le32(c->r->pd);
    sqe.register_mr.va = cpu_to_le64(mr->va);
    sqe.register_mr.length = cpu_to_le64(BLOCKS);
    sqe.register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    sqe.register_mr.mr_flags |= RNIC_MR_BLOCK_LIST;
    sqe.register_mr.block_size = cpu_to_le64(1);
    sqe.register_mr.pages = (struct rnic_page_list) {
        .addr = cpu_to_le64(where),
        .count = cpu_to_le32(BLOCKS),
        .level = RNIC_PAGE_LIST_DIRECT,
    };
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    mr->stag = le32_to_cpu(cqe.number);
}

/* A Send, a received Write and a Read Response of all blocks. */
static void move_all_blocks(Connection *c)
{
    g_autofree uint8_t *data = g_malloc(BLOCKS);
    g_autofree uint8_t *got = g_malloc(BLOCKS);
    WireRead fence = { };

    rnic_pattern(data, BLOCKS, 1);
    connection_fill(c, 0, data, BLOCKS);
    connection_post(c, RNIC_SQ_SEND, 1, 0, BLOCKS);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 1, got, BLOCKS), ==,
                     BLOCKS);
    g_assert_cmpmem(got, BLOCKS, data, BLOCKS);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);

    rnic_pattern(data, BLOCKS, 2);
    c->peer->segment_size = 60000;
    wire_put_write(c->peer, c->mr.stag, c->mr.va, data, BLOCKS);
    wire_put_read_request(c->peer, &fence);
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, NULL, 0);
    connection_peek(c, 0, got, BLOCKS);
    g_assert_cmpmem(got, BLOCKS, data, BLOCKS);

    wire_put_read_request(c->peer, &(WireRead) {
        .size = BLOCKS, .source_stag = c->mr.stag, .source_to = c->mr.va });
    g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got,
                                     BLOCKS), ==, BLOCKS);
    g_assert_cmpmem(got, BLOCKS, data, BLOCKS);
}

static void test_tiny_blocks_data(void)
{
    Connection *c = connection_new(NULL);

    register_tiny_blocks(c, &c->mr, block_in_ram);
    move_all_blocks(c);
    connection_free(c);
}

static uint32_t ping(Connection *c, uint32_t msn)
{
    uint8_t got[SMALL];

    connection_post(c, RNIC_SQ_SEND, msn, 0, SMALL);
    wire_get_send(c->peer, WIRE_SEND, msn, got, SMALL);
    rnic_expect_cqe(c->r, &c->send_cq, msn, RNIC_WC_SUCCESS);
    return msn + 1;
}

/* Small messages of @other while @c sends all its blocks. */
static unsigned ping_meanwhile(Connection *c, Connection *other)
{
    struct rnic_cqe cqe;
    uint32_t msn = 1;

    for (int done = 0; done < MESSAGES;) {
        msn = ping(other, msn);
        while (rnic_cq_poll(c->r, &c->send_cq, &cqe)) {
            g_assert_cmpint(cqe.status, ==, RNIC_WC_SUCCESS);
            done++;
        }
    }
    return msn - 1;
}

static void post_all_blocks(Connection *c)
{
    for (int i = 0; i < MESSAGES; i++) {
        RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, i, 0, BLOCKS);
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

        rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
    }
    rnic_ring_sq(c->r, &c->qp);
}

/*
 * Turns have so few pieces that another QP has its turns in between.  In the main
 * loop turns of both go with each command of this test, so that the number of
 * messages does not depend on how fast the host is.
 */
static void test_tiny_blocks_turns(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = ",io-threads=0" });
    Connection *other = connection_prepare_second(c, NULL);
    Drain *drain = drain_new(&c->peer->fd, 1);
    unsigned pings;

    register_tiny_blocks(c, &c->mr, block_in_patchwork);
    connection_establish(other, NULL);
    post_all_blocks(c);
    pings = ping_meanwhile(c, other);
    g_test_message("%u messages of another QP during %d MiB in blocks of an "
                   "octet", pings, MESSAGES);
    g_assert_cmpuint(pings, >=, PINGS_MIN);
    drain_free(drain);
    connection_free_second(other);
    connection_free(c);
}

static double hold_once(void)
{
    MonitorProbe *probe = monitor_probe_new();
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = ",io-threads=0",
        .arguments = monitor_probe_arguments(probe) });
    Drain *drain = drain_new(&c->peer->fd, 1);
    double longest;

    register_tiny_blocks(c, &c->mr, block_in_patchwork);
    monitor_probe_start(probe);
    monitor_probe_begin(probe);
    post_all_blocks(c);
    for (int i = 0; i < MESSAGES; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    longest = monitor_probe_end(probe);
    monitor_probe_stop(probe);
    drain_free(drain);
    connection_free(c);
    monitor_probe_free(probe);
    printf("# main loop held at most %.1f ms during Writes from blocks of an "
           "octet\n", longest);
    fflush(stdout);
    return longest;
}

/* A busy host adds to what it is, and to a turn of a MiB even more. */
static void test_tiny_blocks_in_main_loop(void)
{
    g_assert_cmpfloat(hold_once(), <=, 500 * watchdog_patience());
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/busy-poll-wanted/query-of-the-polling-qp",
                   test_query_of_the_polling_qp);
    qtest_add_func("rnic/busy-poll-wanted/query-of-another-qp",
                   test_query_of_another_qp);
    qtest_add_func("rnic/busy-poll-wanted/doorbell-of-another-qp",
                   test_doorbell_of_another_qp);
    qtest_add_func("rnic/tiny-blocks/data", test_tiny_blocks_data);
    qtest_add_func("rnic/tiny-blocks/turns", test_tiny_blocks_turns);
    qtest_add_func("rnic/tiny-blocks/in-main-loop",
                   test_tiny_blocks_in_main_loop);
    return g_test_run();
}
