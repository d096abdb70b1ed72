/*
 * rnic: what a guest or a peer can take of the host has a bound
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/units.h"
#include <poll.h>

#include "tests/qtest/rnic/lib/process.h"
#include "tests/qtest/rnic/lib/stags.h"
#include "tests/qtest/rnic/lib/traffic.h"
#include "tests/qtest/rnic/lib/watchdog.h"

/* --------------------------------------------- work behind an unanswered Read */

enum {
    IN_PROGRESS_MAX = 1024,     /* WRs begun and not complete, of a QP */
    MILLIONS = 10,
    QUIET_MILLISECONDS = 300,
};

static Connection *connection_with_sq(uint32_t depth)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .enables = STAG_ENABLES });
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);

    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
    init.enables = STAG_ENABLES;
    init.sq_depth = depth;
    rnic_create_qp(c->r, &c->qp, &init);
    connection_establish(c, NULL);
    return c;
}

/* Every slot has the same WR, of one unit. */
static void fill_sq(Connection *c, const RnicWr *wr)
{
    enum { PIECE = 16 * 1024 };
    uint32_t units = MIN(c->qp.sq_depth, PIECE);
    g_autofree uint8_t *piece = g_malloc(units * RNIC_SQ_UNIT);
    uint64_t ring = c->qp.memory + c->qp.sq_offset;

    for (uint32_t i = 0; i < units; i++) {
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

        g_assert_cmpuint(rnic_encode_wr(wr, wqe), ==, 1);
        memcpy(piece + i * RNIC_SQ_UNIT, wqe, RNIC_SQ_UNIT);
    }
    for (uint32_t at = 0; at < c->qp.sq_depth; at += units) {
        rnic_mem_write(c->r, ring + (uint64_t)at * RNIC_SQ_UNIT, piece,
                       units * RNIC_SQ_UNIT);
    }
}

static void post_read(Connection *c)
{
    connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 100);
}

static bool peer_has_octets(Connection *c)
{
    struct pollfd p = { .fd = c->peer->fd, .events = POLLIN };

    return poll(&p, 1, QUIET_MILLISECONDS * watchdog_patience()) > 0;
}

static unsigned count_empty_writes(Connection *c)
{
    unsigned count = 0;

    while (peer_has_octets(c)) {
        WireSegment segment;

        wire_get_segment(c->peer, &segment);
        g_assert_cmpint(segment.opcode, ==, WIRE_WRITE);
        g_assert_cmpuint(segment.length, ==, 0);
        g_free(segment.payload);
        count++;
    }
    return count;
}

static const RnicWr empty_write = { .opcode = RNIC_SQ_RDMA_WRITE };

/* The ring is full: not all of it begins, and all is done in the end. */
static void test_unanswered_read_within_depth(void)
{
    enum { DEPTH = 4096 };
    Connection *c = connection_with_sq(DEPTH);
    unsigned early, late;
    uint8_t data[100];
    WireRead read;

    fill_sq(c, &empty_write);
    post_read(c);
    wire_get_read_request(c->peer, 1, &read);
    c->qp.sq_producer = DEPTH;
    rnic_ring_sq(c->r, &c->qp);
    early = count_empty_writes(c);
    g_test_message("%u WRs went out behind the Read", early);
    g_assert_cmpuint(early, >=, 1);
    g_assert_cmpuint(early, <=, IN_PROGRESS_MAX);
    rnic_pattern(data, sizeof(data), 3);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, data,
                           sizeof(data));
    late = count_empty_writes(c);
    g_assert_cmpuint(early + late, ==, DEPTH - 1);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
    connection_free(c);
}

/*
 * The device has taken all, or takes no more for a while; false: it has ended
 * the stream. *@consumer is how far it came, and how far it had come before.
 */
static bool sq_comes_to_rest(Connection *c, uint32_t *consumer)
{
    gint64 patience = watchdog_patience() * G_USEC_PER_SEC / 20;
    gint64 moved = g_get_monotonic_time();

    for (;;) {
        struct rnic_qp_attr attr = rnic_query_qp(c->r, &c->qp);
        uint32_t now = le32_to_cpu(attr.sq_consumer);

        if (attr.state != RNIC_QPS_RTS) {
            return false;
        }
        if (now != *consumer) {
            *consumer = now;
            moved = g_get_monotonic_time();
            patience = watchdog_patience() * G_USEC_PER_SEC;
        }
        if (now == c->qp.sq_producer ||
            g_get_monotonic_time() > moved + patience) {
            return true;
        }
        rnic_settle_fast(c->r);
    }
}

/* A Read, then everything else; the Read's slot is one of the others' then. */
static void begin_with_read(Connection *c, const RnicWr *wr, WireRead *read)
{
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    fill_sq(c, wr);
    post_read(c);
    wire_get_read_request(c->peer, 1, read);
    g_assert_cmpuint(rnic_encode_wr(wr, wqe), ==, 1);
    rnic_mem_write(c->r, c->qp.memory + c->qp.sq_offset, wqe, RNIC_SQ_UNIT);
}

static int64_t assert_little_growth(Connection *c, uint64_t before)
{
    return process_assert_growth(c->r->qts, before, 64 * MiB);
}

/* A device may look at the producer index when it next wants a WQE. */
static void expect_broken_queue(Connection *c, const WireRead *read)
{
    static const uint8_t data[100];

    if (rnic_qp_state(c->r, &c->qp) == RNIC_QPS_RTS) {
        wire_put_read_response(c->peer, read->sink_stag, read->sink_to, data,
                               sizeof(data));
    }
    rnic_expect_async(c->r, RNIC_AE_QP_CATASTROPHIC, c->qp.number);
}

/* The guest posts on and on, as if all that was taken were complete. */
static void post_millions(Connection *c, const RnicWr *wr)
{
    uint32_t rings, consumer = 0;
    uint64_t before;
    WireRead read;
    Drain *drain;

    begin_with_read(c, wr, &read);
    drain = drain_new(&c->peer->fd, 1);
    before = process_memory(c->r->qts);
    for (rings = 1; rings * RNIC_SQ_MAX_DEPTH < MILLIONS * 1000000; rings++) {
        c->qp.sq_producer = rings * RNIC_SQ_MAX_DEPTH;
        rnic_ring_sq(c->r, &c->qp);
        if (!sq_comes_to_rest(c, &consumer)) {
            break;
        }
        assert_little_growth(c, before);
    }
    expect_broken_queue(c, &read);
    g_test_message("QEMU grew by %" PRId64 " KiB in %u rings",
                   assert_little_growth(c, before) / 1024, rings);
    drain_free(drain);
    connection_free(c);
}

static void test_unanswered_read_and_writes(void)
{
    post_millions(connection_with_sq(RNIC_SQ_MAX_DEPTH), &empty_write);
}

/* Local work is not even sent. An STag may be invalidated again and again. */
static void test_unanswered_read_and_local_work(void)
{
    Connection *c = connection_with_sq(RNIC_SQ_MAX_DEPTH);
    RnicWr wr = { .opcode = RNIC_SQ_LOCAL_INVALIDATE };

    wr.invalidate_stag = stag_alloc(c->r, c->r->pd, 1, 7, false);
    post_millions(c, &wr);
}

/* ------------------------------------------------------------ page lists */

/* Every page is the same one. */
static uint64_t same_page_list(Rnic *r, uint32_t count)
{
    uint64_t list = rnic_alloc(r, count * 8);
    uint64_t page = cpu_to_le64(rnic_alloc(r, RNIC_TEST_PAGE));
    g_autofree uint64_t *entries = g_new(uint64_t, count);

    for (uint32_t i = 0; i < count; i++) {
        entries[i] = page;
    }
    rnic_mem_write(r, list, entries, count * 8);
    return list;
}

static struct rnic_queue_memory queue_memory(uint64_t list, uint32_t count,
                                             uint32_t ring, uint32_t second)
{
    return (struct rnic_queue_memory) {
        .pages = {
            .addr = cpu_to_le64(list),
            .count = cpu_to_le32(count),
            .level = RNIC_PAGE_LIST_DIRECT,
            .page_shift = 12,
        },
        .ring_offset = { cpu_to_le32(ring), cpu_to_le32(second) },
    };
}

static struct rnic_admin_sqe cq_command(uint64_t list, uint32_t count,
                                        uint32_t ring)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_CQ);

    sqe.create_cq.depth = cpu_to_le32(128);
    sqe.create_cq.eqn = cpu_to_le32(RNIC_NO_VECTOR);
    sqe.create_cq.memory = queue_memory(list, count, ring, 0);
    return sqe;
}

static struct rnic_admin_sqe srq_command(Rnic *r, uint64_t list,
                                         uint32_t count, uint32_t ring)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_SRQ);

    sqe.create_srq.pdn = cpu_to_le32(r->pd);
    sqe.create_srq.depth = cpu_to_le32(128);
    sqe.create_srq.wqe_shift = 5;
    sqe.create_srq.max_sge = 1;
    sqe.create_srq.memory = queue_memory(list, count, ring, 0);
    return sqe;
}

static struct rnic_admin_sqe eq_command(uint64_t list, uint32_t count)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_EQ);

    sqe.create_eq.eq_class = RNIC_EQ_COMPLETION;
    sqe.create_eq.vector = cpu_to_le32(RNIC_NO_VECTOR);
    sqe.create_eq.depth = cpu_to_le32(256);
    sqe.create_eq.memory = queue_memory(list, count, 4096, 0);
    return sqe;
}

/* The RQ comes first, the SQ ends the memory. */
static struct rnic_admin_sqe qp_command(Rnic *r, RnicCq *cq, uint64_t list,
                                        uint32_t count)
{
    RnicQpInit init = rnic_qp_default(r, cq, cq);
    struct rnic_admin_sqe sqe;
    RnicQp qp;

    init.sq_depth = 64;
    sqe = rnic_qp_command(r, &init, &qp);
    sqe.create_qp.memory = queue_memory(list, count, 2 * 4096, 4096);
    return sqe;
}

static struct rnic_admin_sqe eth_command(uint64_t list, uint32_t count,
                                         uint32_t which)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_ETH_QUEUE);

    sqe.eth_queue.queue = cpu_to_le32(which);
    sqe.eth_queue.vector = cpu_to_le32(RNIC_NO_VECTOR);
    sqe.eth_queue.depth = cpu_to_le32(256);
    sqe.eth_queue.memory = queue_memory(list, count, 4096, 0);
    return sqe;
}

#define HUB "-netdev hubport,id=net0,hubid=0"

/* Each ring ends where a page ends; that page is the last there may be. */
static void test_lists_fit_the_rings(void)
{
    Rnic *r = rnic_boot(",netdev=net0", HUB);
    struct rnic_admin_cqe cqe;
    uint64_t list;
    RnicCq cq;

    rnic_up(r);
    list = same_page_list(r, 65536);
    rnic_create_cq(r, &cq, 16, RNIC_NO_VECTOR);
    for (uint32_t more = 0; more < 3; more++) {
        uint32_t many = more == 2 ? 65536 : more;
        struct rnic_admin_sqe commands[] = {
            cq_command(list, MIN(2 + many, 65536), 4096),
            srq_command(r, list, MIN(2 + many, 65536), 4096),
            eq_command(list, MIN(2 + many, 65536)),
            qp_command(r, &cq, list, MIN(3 + many, 65536)),
            eth_command(list, MIN(2 + many, 65536),
                        more ? RNIC_ETH_QUEUE_RX : RNIC_ETH_QUEUE_TX),
        };

        for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++) {
            g_test_message("queue %u, %u pages more than needed", i, many);
            g_assert_cmpuint(rnic_admin(r, &commands[i], &cqe), ==,
                             more ? RNIC_ST_BAD_QUEUE_MEMORY : RNIC_ST_OK);
        }
    }
    rnic_quit(r);
}

/* The longest list there is: the ring is in its last page. */
static struct rnic_admin_sqe longest(Rnic *r, uint64_t list, bool srq)
{
    uint32_t ring = 65535 * 4096;

    return srq ? srq_command(r, list, 65536, ring)
               : cq_command(list, 65536, ring);
}

/* Returns how many were granted; the others must be refused. */
static unsigned create_longest(Rnic *r, uint64_t list, unsigned count)
{
    enum { BATCH = 64 };
    uint64_t before = process_memory(r->qts);
    struct rnic_admin_sqe sqe[BATCH];
    struct rnic_admin_cqe cqe[BATCH];
    unsigned granted = 0;

    for (unsigned i = 0; i < count; i += BATCH) {
        for (unsigned k = 0; k < BATCH; k++) {
            sqe[k] = longest(r, list, k & 1);
        }
        rnic_admin_many(r, sqe, BATCH, cqe);
        for (unsigned k = 0; k < BATCH; k++) {
            uint16_t status = le16_to_cpu(cqe[k].status);

            granted += status == RNIC_ST_OK;
            g_assert_true(status == RNIC_ST_OK ||
                          status == RNIC_ST_INSUFFICIENT_RESOURCES);
        }
        process_assert_growth(r->qts, before, 192 * MiB);
    }
    return granted;
}

static void test_longest_page_lists(void)
{
    Rnic *r = rnic_boot_up("");
    uint64_t list = same_page_list(r, 65536);
    uint64_t before = process_memory(r->qts);
    unsigned granted = create_longest(r, list, 16384);
    /* 8 Mi entries of 8 octets, and what lists of other queues take. */
    int64_t growth = process_assert_growth(r->qts, before, 96 * MiB);

    g_test_message("%u of 16384 granted, QEMU grew by %" PRId64 " KiB",
                   granted, growth / KiB);
    g_assert_cmpuint(granted, >=, 126);
    g_assert_cmpuint(granted, <=, 128);
    rnic_quit(r);
}

/* What is charged is given back: by destruction, by reset, by refusal. */
static void test_queue_pages_are_given_back(void)
{
    enum { LIMIT = 3 * 65536 + 1000 };
    Rnic *r = rnic_boot_up(",max-queue-pages=197608");
    uint64_t list = same_page_list(r, 65536);
    struct rnic_admin_sqe bad = cq_command(list, 65536, 4096);
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;
    uint32_t number = 0;

    QEMU_BUILD_BUG_ON(LIMIT != 197608);
    for (int round = 0; round < 3; round++) {
        g_assert_cmpuint(rnic_admin(r, &bad, NULL), ==,
                         RNIC_ST_BAD_QUEUE_MEMORY);
        for (int i = 0; i < 4; i++) {
            sqe = longest(r, list, false);
            g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, i < 3
                             ? RNIC_ST_OK : RNIC_ST_INSUFFICIENT_RESOURCES);
            number = i < 3 ? le32_to_cpu(cqe.number) : number;
        }
        g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_CQ, number),
                         ==, RNIC_ST_OK);
        sqe = longest(r, list, true);
        g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_OK);
        sqe = longest(r, list, true);
        g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
        if (round == 0) {
            rnic_flr(r);
        }
        rnic_up(r);
    }
    rnic_quit(r);
}

/* Refused as one more than there can be of its kind, a queue costs no pages. */
static void test_refused_queues_cost_no_pages(void)
{
    enum { PAGES = 64, TIMES = 150 };
    Rnic *r = rnic_boot_up(",max-queue-pages=256,max-cq=1,max-srq=1,max-qp=1,"
                           "max-eq=3");
    uint64_t list = same_page_list(r, PAGES);
    RnicSrqInit srq_init = rnic_srq_default(r);
    struct rnic_admin_sqe large = cq_command(list, PAGES, (PAGES - 1) * 4096);
    RnicQpInit init;
    RnicSrq srq;
    RnicCq cq;
    RnicQp qp;

    rnic_create_cq(r, &cq, 16, RNIC_NO_VECTOR);
    rnic_create_srq(r, &srq, &srq_init);
    init = rnic_qp_default(r, &cq, &cq);
    rnic_create_qp(r, &qp, &init);
    for (unsigned i = 0; i < TIMES; i++) {
        struct rnic_admin_sqe commands[] = {
            cq_command(list, 2, 4096), srq_command(r, list, 2, 4096),
            eq_command(list, 2), qp_command(r, &cq, list, 3),
        };

        for (unsigned k = 0; k < G_N_ELEMENTS(commands); k++) {
            g_assert_cmpuint(rnic_admin(r, &commands[k], NULL), ==,
                             RNIC_ST_INSUFFICIENT_RESOURCES);
        }
    }
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_QP, qp.number),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_CQ, cq.number),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin(r, &large, NULL), ==, RNIC_ST_OK);
    rnic_quit(r);
    rnic_shows("V8.3.1-1 V9.2.4.1-7");
}

/* V6.1.4-1: of QPs, S-RQs and EQs too, one after the other. */
static void test_queue_pages_of_the_destroyed(void)
{
    enum { ROUNDS = 200 };      /* of at least one page each */
    static const uint16_t destroy[] = {
        RNIC_ADMIN_DESTROY_QP, RNIC_ADMIN_DESTROY_SRQ, RNIC_ADMIN_DESTROY_EQ,
    };
    Rnic *r = rnic_boot_up(",max-queue-pages=100");
    uint64_t list = same_page_list(r, 3);
    RnicCq cq;

    rnic_create_cq(r, &cq, 16, RNIC_NO_VECTOR);
    for (unsigned i = 0; i < G_N_ELEMENTS(destroy); i++) {
        struct rnic_admin_sqe commands[] = {
            qp_command(r, &cq, list, 3), srq_command(r, list, 2, 4096),
            eq_command(list, 2),
        };
        struct rnic_admin_cqe cqe;

        for (int round = 0; round < ROUNDS; round++) {
            g_assert_cmpuint(rnic_admin(r, &commands[i], &cqe), ==,
                             RNIC_ST_OK);
            g_assert_cmpuint(rnic_admin_object(r, destroy[i],
                                               le32_to_cpu(cqe.number)), ==,
                             RNIC_ST_OK);
        }
    }
    rnic_quit(r);
    rnic_shows("V6.1.4-1");
}

/* ---------------------------------------------------------- Fast-Register */

/* Of a region that ALLOC_STAG makes; others: fast-register-parts-test.c. */
static void test_fast_register_limit(void)
{
    Connection *c = connection_new(&stag_options);
    uint32_t limit = le32_to_cpu(rnic_query_device(c->r)
                                 .max_fast_register_pages);
    StagRegion region = stag_region(c->r, 1);

    region.stag = stag_alloc(c->r, c->r->pd, limit, region.key, true);
    /* Those beyond STAG_MAX_PAGES are the first page of RAM, all of them. */
    region.count = limit + 1;
    region.length = (uint64_t)region.count * 4096;
    g_assert_cmpint(stag_fast_register(c, &region), ==, RNIC_WC_PBL_TOO_LONG);
    connection_recycle(c);
    connection_establish(c, &stag_options);
    region.count = limit;
    region.length = (uint64_t)limit * 4096;
    g_assert_cmpint(stag_fast_register(c, &region), ==, RNIC_WC_SUCCESS);
    connection_free(c);
}

/* ---------------------------------------------------------------- endpoints */

enum { ENDPOINTS = 4 };
#define FEW_ENDPOINTS ",max-endpoints=4"

static void request_connection(Connection *c, WirePeer **peer, uint16_t port)
{
    WireMpa request = wire_mpa_request();

    *peer = wire_connect(c->r->qts, 3, 1, port);
    wire_mpa_put(*peer, &request);
}

/* Requests that the guest leaves unanswered use up all that come in. */
static void test_endpoints_incoming_exhausted(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = FEW_ENDPOINTS });
    uint16_t port = wire_free_port(1);
    WirePeer *peers[ENDPOINTS];
    struct rnic_cm_event event;

    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 7, NULL),
                     ==, RNIC_ST_OK);
    for (int i = 0; i < ENDPOINTS; i++) {
        request_connection(c, &peers[i], port);
        event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REQUEST);
    }
    connection_establish(c, NULL);
    g_assert_cmpuint(rnic_try_reject(c->r, le32_to_cpu(event.endpoint), NULL,
                                     0), ==, RNIC_ST_OK);
    for (int i = 0; i < ENDPOINTS; i++) {
        wire_close(peers[i]);
    }
    RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints == 0);
    connection_free(c);
}

/* Peers that never reply use up all that go out. */
static void test_endpoints_outgoing_exhausted(void)
{
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = FEW_ENDPOINTS });
    RnicQpInit init = rnic_qp_default(c->r, &c->send_cq, &c->recv_cq);
    uint16_t port;
    int listener = wire_listen(2, &port);
    RnicQp qps[ENDPOINTS + 1];

    for (int i = 0; i <= ENDPOINTS; i++) {
        rnic_create_qp(c->r, &qps[i], &init);
        g_assert_cmpuint(rnic_try_connect(c->r, &qps[i], wire_guest_ip(2),
                                          port, 1, 1, 5, NULL, 0), ==,
                         i < ENDPOINTS ? RNIC_ST_OK
                                       : RNIC_ST_INSUFFICIENT_RESOURCES);
    }
    connection_establish(c, &(ConnectionOptions) { .passive = true });
    close(listener);
    connection_free(c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/unanswered-read/within-depth",
                   test_unanswered_read_within_depth);
    qtest_add_func("rnic/unanswered-read/millions-of-writes",
                   test_unanswered_read_and_writes);
    qtest_add_func("rnic/unanswered-read/millions-of-local-operations",
                   test_unanswered_read_and_local_work);
    qtest_add_func("rnic/longest-page-lists/no-longer-than-the-rings",
                   test_lists_fit_the_rings);
    qtest_add_func("rnic/longest-page-lists/16384-objects",
                   test_longest_page_lists);
    qtest_add_func("rnic/longest-page-lists/given-back",
                   test_queue_pages_are_given_back);
    qtest_add_func("rnic/queue-pages/refused-queues",
                   test_refused_queues_cost_no_pages);
    qtest_add_func("rnic/longest-page-lists/destroyed",
                   test_queue_pages_of_the_destroyed);
    qtest_add_func("rnic/fast-register-limit", test_fast_register_limit);
    qtest_add_func("rnic/endpoints-each-way/incoming-exhausted",
                   test_endpoints_incoming_exhausted);
    qtest_add_func("rnic/endpoints-each-way/outgoing-exhausted",
                   test_endpoints_outgoing_exhausted);
    return g_test_run();
}
