/*
 * rnic: moving data, towards a peer on the wire and from it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/stags.h"

static const uint32_t sizes[] = {
    0, 1, 2, 3, 4, 63, 64, 65, 1399, 1400, 1401, 1500, 4095, 4096, 4097,
    16384, 65535, 65536, 65537, 100000, 200000,
};

enum { ROOM = 256 * 1024 };

/* ------------------------------------------------------------------- sends */

static void check_sends_out(const ConnectionOptions *options)
{
    Connection *c = connection_new(options);
    g_autofree uint8_t *data = g_malloc(ROOM);
    g_autofree uint8_t *got = g_malloc(ROOM);

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        struct rnic_cqe cqe;

        rnic_pattern(data, sizes[i], i);
        connection_fill(c, i, data, sizes[i]);
        connection_post(c, RNIC_SQ_SEND, 1000 + i, i, sizes[i]);
        g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, i + 1, got, ROOM),
                         ==, sizes[i]);
        g_assert_cmpmem(got, sizes[i], data, sizes[i]);
        cqe = rnic_expect_cqe(c->r, &c->send_cq, 1000 + i, RNIC_WC_SUCCESS);
        g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c->qp.number);
        g_assert_cmpint(cqe.opcode, ==, RNIC_SQ_SEND);
        g_assert_cmpint(cqe.flags & RNIC_CQE_RECEIVE, ==, 0);
        g_assert_cmpuint(le32_to_cpu(cqe.wq_consumer), ==, c->qp.sq_producer);
    }
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    rnic_expect_no_async(c->r);
    connection_free(c);
}

static void test_sends_out(void)
{
    check_sends_out(NULL);
    rnic_shows("R3.1-3 R5.3-8 V8.2.3-1");
}

static void test_sends_out_crc(void)
{
    check_sends_out(&(ConnectionOptions) { .crc = true });
}

static void test_sends_out_markers(void)
{
    check_sends_out(&(ConnectionOptions) { .markers_in = true });
    check_sends_out(&(ConnectionOptions) { .markers_in = true, .crc = true });
}

static void check_sends_in(const ConnectionOptions *options)
{
    Connection *c = connection_new(options);
    g_autofree uint8_t *data = g_malloc(ROOM);
    g_autofree uint8_t *got = g_malloc(ROOM);

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        struct rnic_cqe cqe;

        rnic_pattern(data, sizes[i], i);
        rnic_mem_fill(c->r, c->mr.bus, 0xee, sizes[i] + 100);
        connection_recv(c, 2000 + i, 5, ROOM - 100);
        wire_put_send(c->peer, WIRE_SEND, 0, data, sizes[i]);
        cqe = rnic_expect_cqe(c->r, &c->recv_cq, 2000 + i, RNIC_WC_SUCCESS);
        g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, sizes[i]);
        g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c->qp.number);
        g_assert_cmphex(cqe.flags & ~RNIC_CQE_PHASE, ==, RNIC_CQE_RECEIVE);
        g_assert_cmpuint(le32_to_cpu(cqe.wq_consumer), ==, i + 1);
        connection_peek(c, 0, got, sizes[i] + 100);
        for (unsigned at = 0; at < 5; at++) {
            g_assert_cmphex(got[at], ==, 0xee);
        }
        g_assert_cmpmem(got + 5, sizes[i], data, sizes[i]);
        for (unsigned at = sizes[i] + 5; at < sizes[i] + 100; at++) {
            g_assert_cmphex(got[at], ==, 0xee);
        }
    }
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    connection_free(c);
}

static void test_sends_in(void)
{
    check_sends_in(NULL);
    rnic_shows("R3.1-4 R5.3-2 R5.3-9 V8.1.2.1-1 V8.1.2.1-6 V8.1.2.1-7 "
               "V8.2.2-5 V8.2.3-1 V9.3.2.1-5");
}

static void test_sends_in_crc(void)
{
    check_sends_in(&(ConnectionOptions) { .crc = true });
}

/* The device asks for markers: ours are there. */
static void test_sends_in_markers(void)
{
    check_sends_in(&(ConnectionOptions) { .properties = ",mpa-markers=on" });
    check_sends_in(&(ConnectionOptions) { .properties = ",mpa-markers=on",
                                          .crc = true });
}

/* The sink of a Read of nothing: its STag is no one's, and is not looked at. */
static void read_nothing_into_junk(Connection *c)
{
    RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_READ, 20, 0, 0);
    WireRead read;

    wr.sge[0].stag = cpu_to_le32(0xdeadbeef);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_read_request(c->peer, 1, &read);
    g_assert_cmpuint(read.size, ==, 0);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, NULL, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 20, RNIC_WC_SUCCESS);
}

/* Uneven SGEs, empty ones with a junk STag among them. */
static void test_scatter_gather(void)
{
    static const uint32_t lengths[] = { 1, 0, 4095, 7 };
    static const uint32_t room[] = { 100, 3, 0, 9000 };
    Connection *c = connection_new(NULL);
    g_autofree uint8_t *data = g_malloc(ROOM);
    g_autofree uint8_t *got = g_malloc(ROOM);
    g_autofree uint8_t *expected = g_malloc0(ROOM);
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 1, 0, 0);
    struct rnic_sge sge[4];
    uint32_t total = 0;
    struct rnic_cqe cqe;

    rnic_pattern(data, ROOM, 3);
    connection_fill(c, 0, data, ROOM);
    wr.num_sge = 4;
    for (int i = 0; i < 4; i++) {
        uint32_t offset = 30000 - i * 8000;

        wr.sge[i] = rnic_sge(&c->mr, offset, lengths[i]);
        if (lengths[i] == 0) {
            wr.sge[i].stag = cpu_to_le32(0xdeadbeef);
        }
        memcpy(expected + total, data + offset, lengths[i]);
        total += lengths[i];
    }
    rnic_post_send(c->r, &c->qp, &wr);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 1, got, ROOM), ==,
                     total);
    g_assert_cmpmem(got, total, expected, total);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);

    wr.opcode = RNIC_SQ_RDMA_WRITE;
    wr.wr_id = 2;
    wr.remote_stag = 0x11223344;
    wr.remote_to = 0xfffffff0;
    rnic_post_send(c->r, &c->qp, &wr);
    g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_WRITE, 0x11223344,
                                     0xfffffff0, got, ROOM), ==, total);
    g_assert_cmpmem(got, total, expected, total);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);

    for (int i = 0; i < 4; i++) {
        sge[i] = rnic_sge(&c->mr, 100000 + 20000 * (3 - i), room[i]);
        if (room[i] == 0) {
            sge[i].stag = cpu_to_le32(0xdeadbeef);
        }
    }
    rnic_post_recv(c->r, &c->qp, 0xfedcba9876543210, 4, sge);
    wire_put_send(c->peer, WIRE_SEND, 0, data, 5000);
    cqe = rnic_expect_cqe(c->r, &c->recv_cq, 0xfedcba9876543210,
                          RNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, 5000);
    connection_peek(c, 160000, got, 101);
    g_assert_cmpmem(got, 100, data, 100);
    g_assert_cmphex(got[100], ==, data[160100]);
    connection_peek(c, 140000, got, 4);
    g_assert_cmpmem(got, 3, data + 100, 3);
    g_assert_cmphex(got[3], ==, data[140003]);
    connection_peek(c, 100000, got, 9000);
    g_assert_cmpmem(got, 4897, data + 103, 4897);
    g_assert_cmpmem(got + 4897, 9000 - 4897, data + 104897, 9000 - 4897);

    /* A receive without any SGE takes an empty message. */
    rnic_post_recv(c->r, &c->qp, 4, 0, NULL);
    wire_put_send(c->peer, WIRE_SEND, 0, NULL, 0);
    rnic_expect_cqe(c->r, &c->recv_cq, 4, RNIC_WC_SUCCESS);
    /* So is what has no SGE, or none but empty ones, at the other side. */
    for (int i = 0; i < 4; i++) {
        wr = connection_wr(c, i & 1 ? RNIC_SQ_RDMA_WRITE : RNIC_SQ_SEND,
                           10 + i, 0, 0);
        wr.num_sge = i & 2 ? 0 : 4;
        for (int at = 1; at < 4; at++) {
            wr.sge[at] = wr.sge[0];
        }
        rnic_post_send(c->r, &c->qp, &wr);
        g_assert_cmpuint(i & 1 ? connection_get_write(c, 0, got, ROOM)
                               : wire_get_send(c->peer, WIRE_SEND, 2 + i / 2,
                                               got, ROOM), ==, 0);
        rnic_expect_cqe(c->r, &c->send_cq, 10 + i, RNIC_WC_SUCCESS);
    }
    read_nothing_into_junk(c);
    connection_free(c);
    rnic_shows("V7.6.3-7 V8.1.2.1-9 V8.1.2.2-2 V8.1.3.2-5 V8.1.3.2-6 V8.1.3.3-2 "
               "V9.3.1.1-10 V9.3.1.2-2 R5.1-9 V9.3.1.1-7");
}

/* Each SGE has a region of its own, which ends where the SGE does. */
static void test_regions_of_list(void)
{
    static const uint32_t lengths[] = { 20, 7, 33 };
    enum { COUNT = G_N_ELEMENTS(lengths), TOTAL = 60 };
    Connection *c = connection_new(NULL);
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 1, 0, 0);
    uint8_t data[TOTAL], got[TOTAL];
    RnicMr mrs[COUNT];
    uint32_t at = 0;

    rnic_pattern(data, TOTAL, 12);
    wr.num_sge = COUNT;
    for (int i = 0; i < COUNT; i++) {
        rnic_create_mr(c->r, &mrs[i], c->r->pd, lengths[i],
                       RNIC_TEST_ACCESS_ALL);
        rnic_mem_write(c->r, mrs[i].bus, data + at, lengths[i]);
        wr.sge[i] = rnic_sge(&mrs[i], 0, lengths[i]);
        at += lengths[i];
    }
    rnic_post_send(c->r, &c->qp, &wr);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 1, got, TOTAL), ==,
                     TOTAL);
    g_assert_cmpmem(got, TOTAL, data, TOTAL);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    wr.opcode = RNIC_SQ_RDMA_WRITE;
    wr.remote_stag = CONNECTION_REMOTE_STAG;
    memset(got, 0, TOTAL);
    rnic_post_send(c->r, &c->qp, &wr);
    g_assert_cmpuint(connection_get_write(c, 0, got, TOTAL), ==, TOTAL);
    g_assert_cmpmem(got, TOTAL, data, TOTAL);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);

    rnic_pattern(data, TOTAL, 13);
    rnic_post_recv(c->r, &c->qp, 2, COUNT, wr.sge);
    wire_put_send(c->peer, WIRE_SEND, 0, data, TOTAL);
    rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_SUCCESS);
    at = 0;
    for (int i = 0; i < COUNT; i++) {
        rnic_mem_read(c->r, mrs[i].bus, got, lengths[i]);
        g_assert_cmpmem(got, lengths[i], data + at, lengths[i]);
        at += lengths[i];
    }
    connection_free(c);
    rnic_shows("V8.1.3.2-1");
}

/* As many SGEs as the device says. */
static void test_most_sges(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .max_sge = RNIC_MAX_SGE, .cq_depth = 64 });
    struct rnic_device_attr attr = rnic_query_device(c->r);
    unsigned count = le32_to_cpu(attr.max_send_sge);
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 1, 0, 0);
    uint8_t data[RNIC_MAX_SGE * 3], got[RNIC_MAX_SGE * 3];
    uint8_t expected[RNIC_MAX_SGE * 3];

    g_assert_cmpuint(count, ==, RNIC_MAX_SGE);
    g_assert_cmpuint(le32_to_cpu(attr.max_recv_sge), ==, RNIC_MAX_SGE);
    g_assert_cmpuint(le32_to_cpu(attr.max_write_sge), ==, RNIC_MAX_SGE);
    rnic_pattern(data, sizeof(data), 1);
    connection_fill(c, 0, data, sizeof(data));
    wr.num_sge = count;
    for (unsigned i = 0; i < count; i++) {
        wr.sge[i] = rnic_sge(&c->mr, (count - 1 - i) * 3, 3);
        memcpy(expected + 3 * i, data + (count - 1 - i) * 3, 3);
    }
    for (int round = 0; round < 40; round++) {
        uint8_t opcode = round & 1 ? RNIC_SQ_RDMA_WRITE : RNIC_SQ_SEND;

        wr.opcode = opcode;
        wr.wr_id = round;
        wr.remote_stag = opcode == RNIC_SQ_SEND ? 0 : CONNECTION_REMOTE_STAG;
        rnic_post_send(c->r, &c->qp, &wr);
        if (opcode == RNIC_SQ_SEND) {
            wire_get_send(c->peer, WIRE_SEND, round / 2 + 1, got, sizeof(got));
        } else {
            connection_get_write(c, 0, got, sizeof(got));
        }
        g_assert_cmpmem(got, sizeof(got), expected, sizeof(expected));
        rnic_expect_cqe(c->r, &c->send_cq, round, RNIC_WC_SUCCESS);
        rnic_post_recv(c->r, &c->qp, round, count, wr.sge);
        wire_put_send(c->peer, WIRE_SEND, 0, expected, sizeof(expected));
        rnic_expect_cqe(c->r, &c->recv_cq, round, RNIC_WC_SUCCESS);
        connection_peek(c, 0, got, sizeof(got));
        g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
    }
    connection_free(c);
    rnic_shows("V8.1.3.2-7 V8.1.3.2-8 V8.1.3.2-10 V8.1.3.2-11 V9.2.1.2-3");
}

static void test_inline(void)
{
    static const uint32_t lengths[] = { 0, 1, 31, 32, 33, 96, 97, 480 };
    Connection *c = connection_new(NULL);
    uint8_t data[480], got[480];

    rnic_pattern(data, sizeof(data), 9);
    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++) {
        RnicWr wr = {
            .opcode = RNIC_SQ_SEND,
            .flags = RNIC_WQE_SIGNALED | RNIC_WQE_INLINE,
            .wr_id = i,
            .inline_data = data,
            .inline_length = lengths[i],
        };

        rnic_post_send(c->r, &c->qp, &wr);
        g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, i + 1, got, 480),
                         ==, lengths[i]);
        g_assert_cmpmem(got, lengths[i], data, lengths[i]);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
        wr.opcode = RNIC_SQ_RDMA_WRITE;
        wr.remote_stag = 77;
        wr.remote_to = 1;
        rnic_post_send(c->r, &c->qp, &wr);
        g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_WRITE, 77, 1, got,
                                         480), ==, lengths[i]);
        g_assert_cmpmem(got, lengths[i], data, lengths[i]);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free(c);
}

/* WQEs of every length, many times around the ring. */
static void test_ring_wraps(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .sq_depth = 8, .rq_depth = 1, .cq_depth = 2 });
    uint8_t data[480], got[480];

    rnic_pattern(data, sizeof(data), 11);
    for (unsigned i = 0; i < 100; i++) {
        uint32_t length = i * 37 % 481;
        /* 0, all ones, and those whose halves have nothing in common. */
        uint64_t wr_id = i < 2 ? -(uint64_t)i : i * 0x9e3779b97f4a7c15;
        RnicWr wr = {
            .opcode = RNIC_SQ_SEND,
            .flags = RNIC_WQE_SIGNALED | RNIC_WQE_INLINE,
            .wr_id = wr_id,
            .inline_data = data,
            .inline_length = length,
        };
        struct rnic_cqe cqe;

        rnic_post_send(c->r, &c->qp, &wr);
        g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, i + 1, got, 480),
                         ==, length);
        g_assert_cmpmem(got, length, data, length);
        cqe = rnic_expect_cqe(c->r, &c->send_cq, wr_id, RNIC_WC_SUCCESS);
        g_assert_cmpuint(le32_to_cpu(cqe.wq_consumer), ==, c->qp.sq_producer);
        connection_recv(c, ~wr_id, 0, 480);
        wire_put_send(c->peer, WIRE_SEND, 0, data, length);
        rnic_expect_cqe(c->r, &c->recv_cq, ~wr_id, RNIC_WC_SUCCESS);
    }
    connection_free(c);
    rnic_shows("V5.3-1 V8.2.4-4 V9.3.1.1-5 V9.3.1.2-2");
}

/* Every register read, every doorbell rung: none of that is work. */
static void touch_registers(Connection *c)
{
    static const uint32_t arms[] = { 0, RNIC_ARM_SOLICITED, RNIC_ARM_NEXT };

    for (unsigned offset = 0; offset <= RNIC_REG_TEST_DMA_CTRL; offset += 4) {
        rnic_read32(c->r, offset);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(arms); i++) {
        rnic_cq_arm(c->r, &c->send_cq, arms[i]);
        rnic_cq_arm(c->r, &c->recv_cq, arms[i]);
    }
    rnic_doorbell(c->r, 0, RNIC_DB_SQ, c->qp.number);
    rnic_doorbell(c->r, 0, RNIC_DB_RQ, c->qp.number);
    rnic_doorbell(c->r, 0, RNIC_DB_SRQ, c->qp.number);
    rnic_write32(c->r, RNIC_REG_EQ_KICK, c->r->comp_eq.number);
    rnic_write32(c->r, RNIC_REG_ADMIN_TAIL, c->r->admin_tail);
}

static void store_send(Connection *c, uint64_t wr_id)
{
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, wr_id, 0, 8);
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
}

/* The doorbell rule to the letter: what it does not ask for is not rung. */
static void test_doorbell_rule(void)
{
    enum { COUNT = 400 };
    Connection *c = connection_new(NULL);
    uint64_t event_at = c->qp.memory +
                        offsetof(struct rnic_qp_record, sq_event);
    unsigned rung = 0;
    unsigned done = 0;

    for (unsigned i = 0; i < COUNT; i++) {
        RnicWr wr = connection_wr(c, RNIC_SQ_SEND, i, i, 8);
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
        uint32_t old = c->qp.sq_producer;
        uint32_t event;
        uint8_t got[8];

        rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
        rnic_mem_write32(c->r, c->qp.memory, c->qp.sq_producer);
        event = rnic_mem_read32(c->r, event_at);
        if ((uint32_t)(c->qp.sq_producer - event - 1) <
            (uint32_t)(c->qp.sq_producer - old)) {
            rnic_doorbell(c->r, 0, RNIC_DB_SQ, c->qp.number);
            rung++;
        }
        if (i % 16 == 15) {
            for (; done <= i; done++) {
                wire_get_send(c->peer, WIRE_SEND, done + 1, got, 8);
                rnic_expect_cqe(c->r, &c->send_cq, done, RNIC_WC_SUCCESS);
            }
        }
    }
    g_assert_cmpuint(done, ==, COUNT);
    g_assert_cmpuint(rung, >, 0);
    /* Ringing for nothing does nothing, though there is a receive to complete. */
    connection_recv(c, COUNT, 0, 8);
    for (int i = 0; i < 10; i++) {
        rnic_doorbell(c->r, 0, RNIC_DB_SQ, c->qp.number);
        rnic_doorbell(c->r, 0, RNIC_DB_RQ, c->qp.number);
    }
    touch_registers(c);
    wire_expect_silence(c->peer);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
    /* What a stored WQE waits for is the producer index. */
    store_send(c, COUNT + 1);
    touch_registers(c);
    wire_expect_silence(c->peer);
    rnic_ring_sq(c->r, &c->qp);
    wire_get_send(c->peer, WIRE_SEND, COUNT + 1, (uint8_t[8]) { }, 8);
    rnic_expect_cqe(c->r, &c->send_cq, COUNT + 1, RNIC_WC_SUCCESS);
    connection_free(c);
    rnic_shows("V8.1.1-1");
}

/* ------------------------------------------------------------------ writes */

static void test_writes_out(void)
{
    Connection *c = connection_new(NULL);
    g_autofree uint8_t *data = g_malloc(ROOM);
    g_autofree uint8_t *got = g_malloc(ROOM);

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, i, 3, sizes[i]);

        wr.remote_stag = 0xa0b0c000 + i;
        wr.remote_to = 0xffffffff00000000ULL - 100 + i;
        rnic_pattern(data, sizes[i], i);
        connection_fill(c, 3, data, sizes[i]);
        rnic_post_send(c->r, &c->qp, &wr);
        g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_WRITE, wr.remote_stag,
                                         wr.remote_to, got, ROOM),
                         ==, sizes[i]);
        g_assert_cmpmem(got, sizes[i], data, sizes[i]);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free(c);
    rnic_shows("R5.1-1 R5.1-7 V8.1.3.3-2");
}

static void test_writes_in(void)
{
    Connection *c = connection_new(NULL);
    g_autofree uint8_t *before = g_malloc(ROOM);
    g_autofree uint8_t *data = g_malloc(ROOM);
    g_autofree uint8_t *got = g_malloc(ROOM);
    struct rnic_cqe cqe;

    connection_recv(c, 99, ROOM - 8, 8);
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        uint32_t size = sizes[i];
        uint32_t at[3] = { 0, 12345, ROOM - 64 - size };

        rnic_pattern(data, size, i);
        rnic_pattern(before, ROOM, 100 + i);
        for (int where = 0; where < 3; where++) {
            WireRead fence = { .sink_stag = i };

            connection_fill(c, 0, before, ROOM);
            wire_put_write(c->peer, c->mr.stag, c->mr.va + at[where], data,
                           size);
            /* A Read Response proves that the Write was placed. */
            wire_put_read_request(c->peer, &fence);
            wire_get_tagged(c->peer, WIRE_READ_RESPONSE, i, 0, got, 0);
            fence = (WireRead) { .sink_stag = i, .size = size,
                                 .source_stag = c->mr.stag,
                                 .source_to = c->mr.va + at[where] };
            wire_put_read_request(c->peer, &fence);
            g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_READ_RESPONSE, i, 0,
                                             got, ROOM), ==, size);
            g_assert_cmpmem(got, size, data, size);
            connection_peek(c, 0, got, ROOM);
            g_assert_cmpmem(got, at[where], before, at[where]);
            g_assert_cmpmem(got + at[where], size, data, size);
            g_assert_cmpmem(got + at[where] + size, ROOM - at[where] - size,
                            before + at[where] + size,
                            ROOM - at[where] - size);
        }
    }
    /* No CQE, no receive used, no event. */
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_async(c->r);
    wire_put_send(c->peer, WIRE_SEND, 0, data, 4);
    cqe = rnic_expect_cqe(c->r, &c->recv_cq, 99, RNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, 4);
    connection_free(c);
    rnic_shows("R1.2-2 R3.2-5 R5.1-2 R5.1-4 V8.1.2.2-1");
}

/* Nobody looks at the STag of an empty tagged message. */
static void test_empty_tagged(void)
{
    Connection *c = connection_new(NULL);
    RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, 1, 0, 0);
    WireRead read = {
        .sink_stag = 0xffffffff, .sink_to = ~0ULL,
        .source_stag = 0xffffffff, .source_to = ~0ULL,
    };
    uint8_t got[1];

    wire_put_write(c->peer, 0xffffffff, ~0ULL, NULL, 0);
    wire_put_write(c->peer, 0, 0, NULL, 0);
    wire_put_read_request(c->peer, &read);
    g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0xffffffff,
                                     ~0ULL, got, 1), ==, 0);
    g_assert_cmpuint(c->peer->last_ulpdu_length, ==, 14);
    wr.sge[0].stag = cpu_to_le32(0xdeadbeef);
    wr.remote_stag = 0xdeadbeef;
    rnic_post_send(c->r, &c->qp, &wr);
    g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_WRITE, 0xdeadbeef, 0, got,
                                     1), ==, 0);
    g_assert_cmpuint(c->peer->last_ulpdu_length, ==, 14);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    read_nothing_into_junk(c);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
    rnic_expect_no_async(c->r);
    connection_free(c);
    rnic_shows("V7.6.3-8 R5.1-8 R5.2.1-11");
}

/* ------------------------------------------------------------------- reads */

static void test_reads_out(void)
{
    Connection *c = connection_new(NULL);
    g_autofree uint8_t *data = g_malloc(ROOM);
    g_autofree uint8_t *got = g_malloc(ROOM);

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        uint32_t size = sizes[i];
        RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_READ, i, 17, size);
        WireRead read;
        uint32_t half = size / 2;

        wr.remote_stag = 0x01020304 + i;
        wr.remote_to = 0x8000000000000001ULL + i;
        rnic_pattern(data, size, i);
        rnic_mem_fill(c->r, c->mr.bus, 0xee, size + 64);
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_read_request(c->peer, i + 1, &read);
        g_assert_cmphex(read.source_stag, ==, wr.remote_stag);
        g_assert_cmphex(read.source_to, ==, wr.remote_to);
        g_assert_cmpuint(read.size, ==, size);
        g_assert_cmphex(read.sink_stag, ==, c->mr.stag);
        g_assert_cmphex(read.sink_to, ==, c->mr.va + 17);
        if (half) {
            WireSegment part = {
                .opcode = WIRE_READ_RESPONSE, .tagged = true,
                .ddp_version = 1, .rdmap_version = 1,
                .stag = read.sink_stag, .to = read.sink_to,
                .length = MIN(half, 1000), .payload = data,
            };

            wire_put_segment(c->peer, &part);
            rnic_settle(c->r);
            rnic_expect_no_cqe(c->r, &c->send_cq);
            wire_put_read_response(c->peer, read.sink_stag,
                                   read.sink_to + part.length,
                                   data + part.length, size - part.length);
        } else {
            rnic_settle(c->r);
            rnic_expect_no_cqe(c->r, &c->send_cq);
            wire_put_read_response(c->peer, read.sink_stag, read.sink_to,
                                   data, size);
        }
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
        connection_peek(c, 0, got, size + 64);
        for (unsigned at = 0; at < 17; at++) {
            g_assert_cmphex(got[at], ==, 0xee);
        }
        g_assert_cmpmem(got + 17, size, data, size);
        for (unsigned at = size + 17; at < size + 64; at++) {
            g_assert_cmphex(got[at], ==, 0xee);
        }
    }
    wire_expect_silence(c->peer);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    connection_free(c);
    rnic_shows("R3.2-6 R4-1 R4.4-1 R5.2-1 R5.2.1-1 R5.2.1-9 "
               "R5.2.2-3 R5.5-16 R5.5-18 V4-2 V7.5.2-2 V8.1.3.3-1 "
               "V8.2.2-7");
}

/* A Read is complete with the end of the segment that has L, not with its last octet. */
static void test_read_ends(void)
{
    Connection *c = connection_new(NULL);
    WireSegment part = {
        .opcode = WIRE_READ_RESPONSE, .tagged = true, .ddp_version = 1,
        .rdmap_version = 1, .length = 8, .payload = (uint8_t *)"12345678",
    };
    uint8_t ulpdu[64], fpdu[128];
    WireRead read;
    size_t length;

    for (unsigned i = 0; i < 2; i++) {
        RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_READ, i, 0, 8);

        wr.remote_stag = CONNECTION_REMOTE_STAG;
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_read_request(c->peer, i + 1, &read);
        part.stag = read.sink_stag;
        part.to = read.sink_to;
        part.last = i;
        length = wire_encode_fpdu(c->peer, ulpdu,
                                  wire_encode_segment(&part, ulpdu), fpdu);
        wire_put(c->peer, fpdu, length - i);
        rnic_settle(c->r);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        if (i) {
            wire_put(c->peer, fpdu + length - 1, 1);
        } else {
            wire_put_read_response(c->peer, part.stag, part.to + 8, NULL, 0);
        }
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free(c);
    rnic_shows("R5.5-16");
}

static void test_reads_in(void)
{
    Connection *c = connection_new(NULL);
    g_autofree uint8_t *data = g_malloc(ROOM);
    g_autofree uint8_t *got = g_malloc(ROOM);

    rnic_pattern(data, ROOM, 5);
    connection_fill(c, 0, data, ROOM);
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        uint32_t offset = i * 31 % 1000;
        WireRead read = {
            .sink_stag = 0xff000000 + i,
            .sink_to = 0xffffffff00000123ULL,
            .size = sizes[i],
            .source_stag = c->mr.stag,
            .source_to = c->mr.va + offset,
        };

        wire_put_read_request(c->peer, &read);
        g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_READ_RESPONSE,
                                         read.sink_stag, read.sink_to, got,
                                         ROOM), ==, sizes[i]);
        g_assert_cmpmem(got, sizes[i], data + offset, sizes[i]);
    }
    rnic_expect_no_cqe(c->r, &c->send_cq);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    rnic_expect_no_async(c->r);
    connection_free(c);
    rnic_shows("R1.2-4 R4.4-2 R4.4-3 R4.4-4 R4.4-5 R5.2.1-2 R5.2.1-7 "
               "R5.2.1-8 R5.2.2-1 R5.2.2-7 R5.2.2-8 V4-2");
}

/* Request number @n of the peer: the size differs from one to the next. */
static WireRead numbered_read(Connection *c, unsigned n)
{
    return (WireRead) {
        .sink_stag = n, .size = (n * 3 + n / 8) % 8 * 5000,
        .source_stag = c->mr.stag, .source_to = c->mr.va + n % 8,
    };
}

static void expect_numbered(Connection *c, unsigned n, const uint8_t *data,
                            uint8_t *got)
{
    WireRead read = numbered_read(c, n);

    g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_READ_RESPONSE, n, 0, got,
                                     ROOM), ==, read.size);
    g_assert_cmpmem(got, read.size, data + n % 8, read.size);
}

static void put_numbered(Connection *c, unsigned n)
{
    WireRead read = numbered_read(c, n);

    wire_put_read_request(c->peer, &read);
}

/*
 * As many requests as IRD at once, answered in order, again and again; then there are
 * always as many: a response that is complete makes room for a request.
 */
static void test_reads_in_order(void)
{
    enum { IRD = 8, READS = 8 * IRD };
    Connection *c = connection_new(&(ConnectionOptions) { .ird = IRD });
    g_autofree uint8_t *data = g_malloc(ROOM);
    g_autofree uint8_t *got = g_malloc(ROOM);

    rnic_pattern(data, ROOM, 6);
    connection_fill(c, 0, data, ROOM);
    for (unsigned n = 0; n < READS; n++) {
        put_numbered(c, n);
        if (n % IRD == IRD - 1) {
            for (unsigned i = n + 1 - IRD; i <= n; i++) {
                expect_numbered(c, i, data, got);
            }
        }
    }
    for (unsigned n = READS; n < 2 * READS + IRD; n++) {
        if (n >= READS + IRD) {
            expect_numbered(c, n - IRD, data, got);
        }
        if (n < 2 * READS) {
            put_numbered(c, n);
        }
    }
    rnic_expect_no_async(c->r);
    connection_free(c);
    rnic_shows("V6-2 R5.2.1-5 R5.2.2-2 R5.2.2-5 R5.5-17 R6.1-2 V6.5-11");
}

/* The answer, in two segments. Between them the Read is still under way. */
static void answer_in_two(Connection *c, const WireRead *read)
{
    uint8_t data[64];
    WireSegment first = {
        .opcode = WIRE_READ_RESPONSE, .tagged = true, .ddp_version = 1,
        .rdmap_version = 1, .stag = read->sink_stag, .to = read->sink_to,
        .length = read->size / 2, .payload = data,
    };

    rnic_pattern(data, sizeof(data), read->sink_to);
    wire_put_segment(c->peer, &first);
    wire_expect_silence(c->peer);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    wire_put_read_response(c->peer, read->sink_stag,
                           read->sink_to + first.length, data + first.length,
                           read->size - first.length);
}

/*
 * No more requests than @ord; what is behind waits, whatever it is; nothing is
 * refused, though the queue is full.
 */
static void check_ord(unsigned ord, uint8_t behind)
{
    enum { DEPTH = 16, READS = DEPTH - 1 };
    Connection *c = connection_new(&(ConnectionOptions) {
        .ord = ord, .sq_depth = DEPTH });
    WireRead read[READS];
    uint8_t got[64];

    /* Those with Invalidate count like the others. */
    for (unsigned i = 0; i < READS; i++) {
        RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_READ, i, i * 64, 64);

        if (i % 2) {
            RnicMr sink;

            rnic_create_mr(c->r, &sink, c->r->pd, 64, RNIC_TEST_ACCESS_ALL);
            wr.opcode = RNIC_SQ_RDMA_READ_INVALIDATE;
            wr.sge[0] = rnic_sge(&sink, 0, 64);
        }
        rnic_post_send(c->r, &c->qp, &wr);
    }
    connection_post(c, behind, READS, 0, 5);
    for (unsigned i = 0; i < ord; i++) {
        wire_get_read_request(c->peer, i + 1, &read[i]);
    }
    for (unsigned i = 0; i < READS; i++) {
        answer_in_two(c, &read[i]);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
        if (i + ord < READS) {
            wire_get_read_request(c->peer, i + ord + 1, &read[i + ord]);
        }
        if (i + ord == READS - 1) {
            /* The last Read is out, so what is behind may be. */
            if (behind == RNIC_SQ_SEND) {
                wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
            } else {
                connection_get_write(c, 0, got, sizeof(got));
            }
        }
    }
    rnic_expect_cqe(c->r, &c->send_cq, READS, RNIC_WC_SUCCESS);
    rnic_expect_no_async(c->r);
    connection_free(c);
}

static void test_ord(void)
{
    check_ord(1, RNIC_SQ_SEND);
    check_ord(2, RNIC_SQ_RDMA_WRITE);
    check_ord(4, RNIC_SQ_SEND);
    rnic_shows("V6.5-3 V6.5-4 V6.5-5 V6.5-11 V8.2.2-17 R6.1-3 R6.1-4");
}

static void assert_read_resources(Connection *c, uint8_t state, uint16_t ird,
                                  uint16_t ord)
{
    struct rnic_qp_attr attr = rnic_query_qp(c->r, &c->qp);

    g_assert_cmpint(attr.state, ==, state);
    g_assert_cmpuint(le16_to_cpu(attr.ird), ==, ird);
    g_assert_cmpuint(le16_to_cpu(attr.ord), ==, ord);
}

/* ORD lowered, in Idle and while connected. */
static void test_ord_lowered(void)
{
    Connection *c = connection_prepare(NULL);
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);
    struct rnic_admin_cqe cqe;
    WireRead read, out[5];

    assert_read_resources(c, RNIC_QPS_IDLE, 4, 4);
    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_ORD |
                                     RNIC_QP_MODIFY_IRD |
                                     RNIC_QP_MODIFY_STATE);
    sqe.modify_qp.next_state = RNIC_QPS_IDLE;
    /* Nothing is asked for, and nothing is got. */
    sqe.modify_qp.ird = cpu_to_le16(4);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ord), ==, 0);
    assert_read_resources(c, RNIC_QPS_IDLE, 4, 0);
    /* More than there is. */
    sqe.modify_qp.ord = cpu_to_le16(
        le32_to_cpu(rnic_query_device(c->r).max_ord) + 1);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, NULL), ==, RNIC_ST_ORD_EXCEEDED);
    assert_read_resources(c, RNIC_QPS_IDLE, 4, 0);
    sqe.modify_qp.ord = cpu_to_le16(3);
    sqe.modify_qp.ird = cpu_to_le16(5);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ord), ==, 3);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ird), ==, 5);
    g_assert_cmpint(cqe.qp.state, ==, RNIC_QPS_IDLE);
    assert_read_resources(c, RNIC_QPS_IDLE, 5, 3);
    connection_establish(c, NULL);
    /* Four Reads are under way, the fifth waits. */
    g_assert_cmpuint(le16_to_cpu(rnic_query_qp(c->r, &c->qp).ord), ==, 4);
    for (unsigned i = 0; i < 5; i++) {
        connection_post(c, RNIC_SQ_RDMA_READ, 10 + i, 0, 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        wire_get_read_request(c->peer, i + 1, &out[i]);
    }
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_ORD |
                                     RNIC_QP_MODIFY_STATE);
    sqe.modify_qp.next_state = RNIC_QPS_RTS;
    sqe.modify_qp.ord = cpu_to_le16(1);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le16_to_cpu(cqe.qp.ord), ==, 1);
    g_assert_cmpint(cqe.qp.state, ==, RNIC_QPS_RTS);
    g_assert_cmpuint(le16_to_cpu(rnic_query_qp(c->r, &c->qp).ord), ==, 1);
    for (unsigned i = 0; i < 5; i++) {
        if (i < 4) {
            wire_expect_silence(c->peer);
        } else {
            wire_get_read_request(c->peer, 5, &out[4]);
        }
        wire_put_read_response(c->peer, out[i].sink_stag, out[i].sink_to, NULL,
                               0);
        rnic_expect_cqe(c->r, &c->send_cq, 10 + i, RNIC_WC_SUCCESS);
    }
    for (unsigned i = 0; i < 3; i++) {
        connection_post(c, RNIC_SQ_RDMA_READ, i, 0, 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        wire_get_read_request(c->peer, i + 6, &read);
        wire_expect_silence(c->peer);
        wire_put_read_response(c->peer, read.sink_stag, read.sink_to, NULL, 0);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free(c);
    rnic_shows("V6.2.2.1-1 V6.5-7 V9.2.5.2-3 V9.2.5.3-1 V9.2.5.3-6 V13.1-4");
}

static void test_read_fence(void)
{
    Connection *c = connection_new(NULL);
    RnicWr wr;
    WireRead read;
    uint8_t got[64];

    for (int is_write = 0; is_write < 2; is_write++) {
        uint8_t opcode = is_write ? RNIC_SQ_RDMA_WRITE : RNIC_SQ_SEND;

        connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 16);
        /* Unfenced: goes out, completes later. */
        connection_post(c, opcode, 2, 0, 8);
        wr = connection_wr(c, opcode, 3, 0, 9);
        wr.flags |= RNIC_WQE_READ_FENCE;
        rnic_post_send(c->r, &c->qp, &wr);
        connection_post(c, opcode, 4, 0, 10);
        wire_get_read_request(c->peer, is_write + 1, &read);
        if (is_write) {
            g_assert_cmpuint(connection_get_write(c, 0, got, 64), ==, 8);
        } else {
            g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 1, got, 64),
                             ==, 8);
        }
        wire_expect_silence(c->peer);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        wire_put_read_response(c->peer, read.sink_stag, read.sink_to, got,
                               16);
        for (int more = 0; more < 2; more++) {
            if (is_write) {
                g_assert_cmpuint(connection_get_write(c, 0, got, 64), ==,
                                 9 + more);
            } else {
                g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 2 + more,
                                               got, 64), ==, 9 + more);
            }
        }
        for (int i = 1; i <= 4; i++) {
            rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
        }
    }
    /* Without a Read before it a fence does not hold. */
    wr = connection_wr(c, RNIC_SQ_SEND, 5, 0, 3);
    wr.flags |= RNIC_WQE_READ_FENCE;
    connection_post(c, RNIC_SQ_RDMA_WRITE, 6, 0, 3);
    rnic_post_send(c->r, &c->qp, &wr);
    connection_get_write(c, 0, got, 64);
    wire_get_send(c->peer, WIRE_SEND, 4, got, 64);
    rnic_expect_cqe(c->r, &c->send_cq, 6, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 5, RNIC_WC_SUCCESS);
    connection_free(c);
    rnic_shows("V8.2.2-14 V8.2.2.2-3 V9.3.1.1-13 R5.5-9 R5.5-12 V8.2.2-2");
}

/* What a peer wrote or sent, it can read back, however it is cut up. */
static void test_write_then_read(void)
{
    Connection *c = connection_new(&(ConnectionOptions) { .rq_depth = 64 });
    uint8_t data[3000], got[3000];

    c->peer->segment_size = 700;
    for (unsigned round = 0; round < 60; round++) {
        uint32_t size = 1 + round * 49;
        WireRead read = {
            .size = size, .source_stag = c->mr.stag,
            .source_to = c->mr.va + round,
        };

        rnic_pattern(data, size, round);
        if (round % 3 == 2) {
            connection_recv(c, round, round, size);
            wire_put_send(c->peer, WIRE_SEND, 0, data, size);
        } else {
            wire_put_write(c->peer, c->mr.stag, c->mr.va + round, data, size);
        }
        wire_put_read_request(c->peer, &read);
        wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, sizeof(got));
        g_assert_cmpmem(got, size, data, size);
        if (round % 3 == 2) {
            struct rnic_cqe cqe;

            /* It had been delivered when the Read was served. */
            g_assert_true(rnic_cq_poll(c->r, &c->recv_cq, &cqe));
            g_assert_cmpuint(le64_to_cpu(cqe.wr_id), ==, round);
            g_assert_cmpint(cqe.status, ==, RNIC_WC_SUCCESS);
        }
    }
    connection_free(c);
    rnic_shows("V8.2.2-15 R5.5-6 R5.5-7 V6.6.2.5-4");
}

/*
 * The source is read when the request is there: what is in it then is what comes,
 * not what was in it when the request's first octets, or those of the Write before
 * it, came.
 */
static void test_read_waits(void)
{
    Connection *c = connection_new(&(ConnectionOptions) { .crc = true });
    uint8_t data[100], got[100];
    uint8_t octets[400], ulpdu[200], header[28] = { };
    WireSegment write = {
        .opcode = WIRE_WRITE, .tagged = true, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .stag = c->mr.stag, .to = c->mr.va,
        .length = 100, .payload = data,
    };
    WireSegment request = {
        .opcode = WIRE_READ_REQUEST, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .qn = 1, .msn = 1, .length = 28,
        .payload = header,
    };
    size_t first, length;

    header[15] = 100;
    stl_be_p(header + 16, c->mr.stag);
    stq_be_p(header + 20, c->mr.va);
    rnic_pattern(data, sizeof(data), 4);
    first = wire_encode_fpdu(c->peer, ulpdu,
                             wire_encode_segment(&write, ulpdu), octets);
    length = first + wire_encode_fpdu(c->peer, ulpdu,
                                      wire_encode_segment(&request, ulpdu),
                                      octets + first);
    wire_put(c->peer, octets, first - 1);
    wire_expect_silence(c->peer);
    wire_put(c->peer, octets + first - 1, length - first);
    RNIC_UNTIL(c->r, (connection_peek(c, 0, got, 100),
                      memcmp(got, data, 100) == 0));
    wire_expect_silence(c->peer);
    data[0] ^= 0xff;
    data[99] ^= 0xff;
    connection_fill(c, 0, data, 100);
    wire_put(c->peer, octets + length - 1, 1);
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
    connection_free(c);
    rnic_shows("R5.5-14");
}

/* A Send delivered: every earlier Write is there, and every earlier Send. */
static void test_write_then_send(void)
{
    Connection *c = connection_new(NULL);
    uint8_t data[5000], got[5000];

    for (unsigned round = 0; round < 60; round++) {
        rnic_pattern(data, sizeof(data), round);
        connection_recv(c, 1000 + round, 50000, 5000);
        connection_recv(c, round, 100000, 16);
        wire_put_send(c->peer, WIRE_SEND, 0, data, 5000);
        wire_put_write(c->peer, c->mr.stag, c->mr.va, data, 5000);
        wire_put_send(c->peer, WIRE_SEND, 0, data, 16);
        rnic_expect_cqe(c->r, &c->recv_cq, 1000 + round, RNIC_WC_SUCCESS);
        connection_peek(c, 50000, got, 5000);
        g_assert_cmpmem(got, 5000, data, 5000);
        rnic_expect_cqe(c->r, &c->recv_cq, round, RNIC_WC_SUCCESS);
        connection_peek(c, 0, got, 5000);
        g_assert_cmpmem(got, 5000, data, 5000);
    }
    connection_free(c);
    rnic_shows("V8.2.2-6 V8.2.2-12 R5.1-6 R5.5-4");
}

/* ------------------------------------------------------------ order, chunks */

/* Everything in one stream, cut at any octet. */
static void check_chunks(const ConnectionOptions *options)
{
    enum { COUNT = 24 };
    Connection *c = connection_new(options);
    g_autofree uint8_t *stream = g_malloc(256 * 1024);
    uint8_t data[COUNT][300], got[300];
    size_t length = 0;
    uint32_t x = 12345;

    for (unsigned i = 0; i < COUNT; i++) {
        uint8_t ulpdu[400];
        WireSegment segment = {
            .opcode = WIRE_SEND, .last = true, .ddp_version = 1,
            .rdmap_version = 1, .msn = i + 1, .length = i * 12,
            .payload = data[i],
        };

        rnic_pattern(data[i], sizeof(data[i]), i);
        connection_recv(c, i, i * 1000, 300);
        length += wire_encode_fpdu(c->peer, ulpdu,
                                   wire_encode_segment(&segment, ulpdu),
                                   stream + length);
    }
    for (size_t at = 0; at < length;) {
        size_t run;

        x = x * 1664525 + 1013904223;
        run = MIN(1 + (x >> 24) % 7, length - at);
        wire_put(c->peer, stream + at, run);
        if ((x & 15) == 0) {
            g_usleep(100);
        }
        at += run;
    }
    for (unsigned i = 0; i < COUNT; i++) {
        struct rnic_cqe cqe = rnic_expect_cqe(c->r, &c->recv_cq, i,
                                              RNIC_WC_SUCCESS);

        g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, i * 12);
        connection_peek(c, i * 1000, got, sizeof(got));
        g_assert_cmpmem(got, i * 12, data[i], i * 12);
    }
    connection_free(c);
}

static void test_chunks(void)
{
    check_chunks(NULL);
    check_chunks(&(ConnectionOptions) { .crc = true });
    check_chunks(&(ConnectionOptions) { .properties = ",mpa-markers=on" });
    rnic_shows("R3.1-8");
}

/* Numbered messages of all kinds: out in post order, complete in post order. */
static void test_order(void)
{
    enum { ROUNDS = 60 };
    Connection *c = connection_new(&(ConnectionOptions) { .sq_depth = 256 });
    uint32_t sends = 0, reads = 0;
    uint64_t next = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        static const uint8_t kinds[3] = { RNIC_SQ_SEND, RNIC_SQ_RDMA_WRITE,
                                          RNIC_SQ_RDMA_READ };
        RnicWr wr = connection_wr(c, kinds[i % 3], i, i * 16, i % 16 + 1);

        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

        wr.remote_to = i;
        rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
    }
    /* A list of them: nothing begins before the producer index says so. */
    wire_expect_silence(c->peer);
    rnic_ring_sq(c->r, &c->qp);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint8_t got[16];
        WireRead read;

        switch (i % 3) {
        case 0:
            g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, ++sends, got,
                                           16), ==, i % 16 + 1);
            break;
        case 1:
            g_assert_cmpuint(connection_get_write(c, i, got, 16), ==,
                             i % 16 + 1);
            break;
        default:
            wire_get_read_request(c->peer, ++reads, &read);
            g_assert_cmpuint(read.source_to, ==, i);
            wire_put_read_response(c->peer, read.sink_stag, read.sink_to, got,
                                   read.size);
        }
    }
    while (next < ROUNDS) {
        rnic_expect_cqe(c->r, &c->send_cq, next++, RNIC_WC_SUCCESS);
    }
    connection_free(c);
    rnic_shows("R5.1-5 R5.2.1-4 R5.3-7 R5.5-10 V8.2.1-1 V8.2.2-1 V8.2.2-2 "
               "V9.3.1.1-1");
}

/* Sends arrive in the order sent, none lost, two per CQE slot at most. */
static void test_receive_order(void)
{
    enum { COUNT = 300 };
    Connection *c = connection_new(&(ConnectionOptions) { .rq_depth = 512 });

    for (unsigned i = 0; i < COUNT; i++) {
        struct rnic_sge sge = rnic_sge(&c->mr, i * 4, 4);

        rnic_store_recv(c->r, &c->qp, i, 1, &sge);
    }
    rnic_ring_rq(c->r, &c->qp);
    for (uint32_t i = 0; i < COUNT; i++) {
        wire_put_send(c->peer, WIRE_SEND, 0, &i, 4);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t got;

        rnic_expect_cqe(c->r, &c->recv_cq, i, RNIC_WC_SUCCESS);
        connection_peek(c, i * 4, &got, 4);
        g_assert_cmpuint(got, ==, i);
    }
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    connection_free(c);
    rnic_shows("R5.3-4 V8.2.2-2 V8.2.2-11 V9.3.1.2-1");
}

/* ------------------------------------------------------------- completions */

static void test_unsignaled(void)
{
    Connection *c = connection_new(&(ConnectionOptions) { .sq_depth = 256 });
    uint8_t got[16];
    uint32_t msn = 0;
    struct rnic_cqe cqe;

    for (int round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 32; i++) {
            RnicWr wr = connection_wr(c, i & 1 ? RNIC_SQ_SEND
                                               : RNIC_SQ_RDMA_WRITE,
                                      i, 0, 8);

            if (i != 31) {
                wr.flags = 0;
            }
            rnic_post_send(c->r, &c->qp, &wr);
        }
        for (unsigned i = 0; i < 32; i++) {
            if (i & 1) {
                wire_get_send(c->peer, WIRE_SEND, ++msn, got, 16);
            } else {
                connection_get_write(c, 0, got, 16);
            }
        }
        cqe = rnic_expect_cqe(c->r, &c->send_cq, 31, RNIC_WC_SUCCESS);
        /* The slots of all before it are free again. */
        g_assert_cmpuint(le32_to_cpu(cqe.wq_consumer), ==, c->qp.sq_producer);
        rnic_expect_no_cqe(c->r, &c->send_cq);
    }
    connection_free(c);
    rnic_shows("V8.1.3.1-6");
}

static void test_signal_all(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .enables = RNIC_QP_SIGNAL_ALL });
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 5, 0, 1);
    uint8_t got[1];

    wr.flags = 0;
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 1);
    rnic_expect_cqe(c->r, &c->send_cq, 5, RNIC_WC_SUCCESS);
    connection_free(c);
}

/* Two QPs, one CQ for everything. */
static void test_shared_cq(void)
{
    Connection *a = connection_new(&(ConnectionOptions) { .one_cq = true });
    Connection *b = connection_prepare_second(a, NULL);
    RnicQpInit init = rnic_qp_default(a->r, &a->send_cq, &a->send_cq);
    uint8_t got[8];
    unsigned next[2] = { };
    struct rnic_cqe cqe;

    /* First with a CQ for each of its queues. */
    connection_establish(b, NULL);
    connection_recv(b, 1, 0, 8);
    wire_put_send(b->peer, WIRE_SEND, 0, "12345678", 8);
    rnic_expect_cqe(a->r, &b->recv_cq, 1, RNIC_WC_SUCCESS);
    rnic_expect_no_cqe(a->r, &b->send_cq);
    connection_post(b, RNIC_SQ_SEND, 2, 0, 8);
    wire_get_send(b->peer, WIRE_SEND, 1, got, 8);
    rnic_expect_cqe(a->r, &b->send_cq, 2, RNIC_WC_SUCCESS);
    rnic_expect_no_cqe(a->r, &b->recv_cq);
    rnic_expect_no_cqe(a->r, &a->send_cq);
    connection_recycle(b);

    rnic_create_qp(a->r, &b->qp, &init);
    connection_establish(b, NULL);
    for (int i = 0; i < 10; i++) {
        Connection *c = i & 1 ? b : a;

        connection_recv(c, 100 + i, 0, 8);
        wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
        cqe = rnic_expect_cqe(a->r, &a->send_cq, 100 + i, RNIC_WC_SUCCESS);
        g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c->qp.number);
        g_assert_cmphex(cqe.flags & RNIC_CQE_RECEIVE, !=, 0);
        connection_post(c, RNIC_SQ_SEND, 200 + i, 0, 8);
        wire_get_send(c->peer, WIRE_SEND, i / 2 + 1, got, 8);
        cqe = rnic_expect_cqe(a->r, &a->send_cq, 200 + i, RNIC_WC_SUCCESS);
        g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, c->qp.number);
        g_assert_cmphex(cqe.flags & RNIC_CQE_RECEIVE, ==, 0);
        rnic_expect_no_cqe(a->r, &a->send_cq);
        rnic_expect_no_cqe(a->r, &b->send_cq);
        rnic_expect_no_cqe(a->r, &b->recv_cq);
    }
    /* Some at once: each queue's in order, each once, then none. */
    for (int i = 0; i < 6; i++) {
        Connection *c = i & 1 ? b : a;

        connection_post(c, RNIC_SQ_SEND, i / 2, 0, 8);
        wire_get_send(c->peer, WIRE_SEND, 6 + i / 2, got, 8);
    }
    for (int i = 0; i < 6; i++) {
        unsigned *of = next + 1;

        rnic_cq_wait(a->r, &a->send_cq, &cqe);
        if (le32_to_cpu(cqe.qpn) == a->qp.number) {
            of = next;
        } else {
            g_assert_cmphex(le32_to_cpu(cqe.qpn), ==, b->qp.number);
        }
        g_assert_cmpuint(le64_to_cpu(cqe.wr_id), ==, (*of)++);
    }
    rnic_expect_no_cqe(a->r, &a->send_cq);
    g_assert_cmphex(a->qp.number, !=, b->qp.number);
    g_assert_cmphex(le32_to_cpu(rnic_query_qp(a->r, &a->qp).qpn), ==,
                    a->qp.number);
    g_assert_cmphex(le32_to_cpu(rnic_query_qp(a->r, &b->qp).qpn), ==,
                    b->qp.number);
    connection_free_second(b);
    connection_free(a);
    rnic_shows("V5.3-4 V5.3.2-2 V6.1.1-4 V9.2.5.1-1 V9.2.5.1-13 V9.3.2.1-1 "
               "V9.3.2.1-8");
}

/* ----------------------------------------------------------- notification */

typedef enum Kind {
    PLAIN, SOLICITED, PLAIN_INVALIDATE, SOLICITED_INVALIDATE,
    LOCAL, LOCAL_WRITE, LOCAL_READ, LOCAL_UNSIGNALED,
    LOCAL_SEND_SE, LOCAL_SEND_INVALIDATE, LOCAL_READ_INVALIDATE,
    LOCAL_INVALIDATE, LOCAL_BIND, LOCAL_FAST_REGISTER,
} Kind;

/* Work on STags, which nothing of goes to the peer. */
static void complete_stag_work(Connection *c, Kind kind)
{
    StagRegion region = stag_region(c->r, 1);
    StagBind bind;

    if (kind == LOCAL_FAST_REGISTER) {
        region.stag = stag_alloc(c->r, c->r->pd, 1, region.key, true);
        g_assert_cmpint(stag_fast_register(c, &region), ==, RNIC_WC_SUCCESS);
        return;
    }
    stag_register(c->r, &region);
    if (kind == LOCAL_INVALIDATE) {
        g_assert_cmpint(stag_invalidate(c, region.stag), ==, RNIC_WC_SUCCESS);
        return;
    }
    bind = stag_window(stag_alloc_mw(c->r, c->r->pd, 7), &region, region.va, 8,
                       RNIC_ACCESS_REMOTE_WRITE);
    g_assert_cmpint(stag_bind(c, &bind), ==, RNIC_WC_SUCCESS);
}

static void complete_one(Connection *c, Kind kind, uint32_t *msn)
{
    static const uint8_t opcodes[] = {
        [PLAIN] = WIRE_SEND,
        [SOLICITED] = WIRE_SEND_SE,
        [PLAIN_INVALIDATE] = WIRE_SEND_INVALIDATE,
        [SOLICITED_INVALIDATE] = WIRE_SEND_SE_INVALIDATE,
    };
    RnicMr mr = { };
    WireSegment segment;
    WireRead read;
    RnicWr wr;
    uint8_t got[4];

    switch (kind) {
    case PLAIN_INVALIDATE:
    case SOLICITED_INVALIDATE:
        rnic_create_mr(c->r, &mr, c->r->pd, 64, RNIC_TEST_ACCESS_ALL);
        /* fall through */
    case PLAIN:
    case SOLICITED:
        connection_recv(c, 1, 0, 4);
        wire_put_send(c->peer, opcodes[kind], mr.stag, "abcd", 4);
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
        break;
    case LOCAL_WRITE:
        connection_post(c, RNIC_SQ_RDMA_WRITE, 2, 0, 4);
        connection_get_write(c, 0, got, 4);
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
        break;
    case LOCAL_READ:
    case LOCAL_READ_INVALIDATE:
        if (kind == LOCAL_READ) {
            connection_post(c, RNIC_SQ_RDMA_READ, 2, 0, 0);
        } else {
            rnic_create_mr(c->r, &mr, c->r->pd, 64, RNIC_TEST_ACCESS_ALL);
            wr = connection_wr(c, RNIC_SQ_RDMA_READ_INVALIDATE, 2, 0, 0);
            wr.remote_stag = CONNECTION_REMOTE_STAG;
            wr.sge[0] = rnic_sge(&mr, 0, 0);
            rnic_post_send(c->r, &c->qp, &wr);
        }
        wire_get_segment(c->peer, &segment);
        read.sink_stag = ldl_be_p(segment.payload);
        read.sink_to = ldq_be_p(segment.payload + 4);
        g_free(segment.payload);
        wire_put_read_response(c->peer, read.sink_stag, read.sink_to, NULL,
                               0);
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
        break;
    case LOCAL:
        connection_post(c, RNIC_SQ_SEND, 2, 0, 4);
        wire_get_send(c->peer, WIRE_SEND, ++*msn, got, 4);
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
        break;
    case LOCAL_SEND_SE:
        wr = connection_wr(c, RNIC_SQ_SEND, 2, 0, 4);
        wr.flags |= RNIC_WQE_SOLICITED;
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_send(c->peer, WIRE_SEND_SE, ++*msn, got, 4);
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
        break;
    case LOCAL_SEND_INVALIDATE:
        connection_post(c, RNIC_SQ_SEND_INVALIDATE, 2, 0, 4);
        wire_get_send(c->peer, WIRE_SEND_INVALIDATE, ++*msn, got, 4);
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
        break;
    case LOCAL_INVALIDATE:
    case LOCAL_BIND:
    case LOCAL_FAST_REGISTER:
        complete_stag_work(c, kind);
        break;
    case LOCAL_UNSIGNALED:
        wr = connection_wr(c, RNIC_SQ_SEND, 3, 0, 4);
        wr.flags = 0;
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_send(c->peer, WIRE_SEND, ++*msn, got, 4);
        break;
    }
}

static void expect_event(Connection *c, bool expected)
{
    struct rnic_ceqe event;

    if (expected) {
        rnic_eq_wait(c->r, &c->r->comp_eq, &event);
        g_assert_cmphex(le32_to_cpu(event.cqn), ==, c->send_cq.number);
    }
    rnic_settle(c->r);
    g_assert_false(rnic_eq_poll(c->r, &c->r->comp_eq, &event));
}

static void test_notification(void)
{
    static const struct {
        uint32_t arm[2];        /* in this order, 0: not */
        Kind kind;
        bool event;
    } cases[] = {
        { { 0, 0 }, PLAIN, false },
        { { RNIC_ARM_NEXT, 0 }, PLAIN, true },
        { { RNIC_ARM_NEXT, 0 }, SOLICITED, true },
        { { RNIC_ARM_NEXT, 0 }, PLAIN_INVALIDATE, true },
        { { RNIC_ARM_NEXT, 0 }, SOLICITED_INVALIDATE, true },
        { { RNIC_ARM_NEXT, 0 }, LOCAL, true },
        { { RNIC_ARM_NEXT, 0 }, LOCAL_WRITE, true },
        { { RNIC_ARM_NEXT, 0 }, LOCAL_READ, true },
        { { RNIC_ARM_NEXT, 0 }, LOCAL_SEND_SE, true },
        { { RNIC_ARM_NEXT, 0 }, LOCAL_SEND_INVALIDATE, true },
        { { RNIC_ARM_NEXT, 0 }, LOCAL_READ_INVALIDATE, true },
        { { RNIC_ARM_NEXT, 0 }, LOCAL_INVALIDATE, true },
        { { RNIC_ARM_NEXT, 0 }, LOCAL_BIND, true },
        { { RNIC_ARM_NEXT, 0 }, LOCAL_FAST_REGISTER, true },
        { { RNIC_ARM_NEXT, 0 }, LOCAL_UNSIGNALED, false },
        { { RNIC_ARM_NEXT, RNIC_ARM_NEXT }, PLAIN, true },
        { { RNIC_ARM_SOLICITED, 0 }, SOLICITED, true },
        { { RNIC_ARM_SOLICITED, 0 }, SOLICITED_INVALIDATE, true },
        { { RNIC_ARM_SOLICITED, RNIC_ARM_NEXT }, PLAIN, true },
        { { RNIC_ARM_NEXT, RNIC_ARM_SOLICITED }, PLAIN, true },
        { { RNIC_ARM_NEXT, RNIC_ARM_SOLICITED }, LOCAL, true },
    };
    Connection *c = connection_new(&(ConnectionOptions) {
        .one_cq = true, .sq_depth = 256, .enables = STAG_ENABLES });
    uint32_t msn = 0;

    rnic_msix_enable(c->r);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        for (int a = 0; a < 2; a++) {
            if (cases[i].arm[a]) {
                rnic_cq_arm(c->r, &c->send_cq, cases[i].arm[a]);
            }
        }
        complete_one(c, cases[i].kind, &msn);
        expect_event(c, cases[i].event);
        g_assert_cmpint(rnic_msix_fired(c->r, c->r->comp_eq.vector), ==,
                        cases[i].event);
        if (!cases[i].event && cases[i].arm[0]) {
            /* Still armed. */
            complete_one(c, LOCAL, &msn);
            expect_event(c, true);
            rnic_msix_fired(c->r, c->r->comp_eq.vector);
        }
        /* Once is all. */
        complete_one(c, PLAIN, &msn);
        complete_one(c, SOLICITED, &msn);
        complete_one(c, LOCAL, &msn);
        expect_event(c, false);
    }

    /* Solicited mode passes over what is not, and then fires. */
    for (int se = 0; se < 2; se++) {
        rnic_cq_arm(c->r, &c->send_cq, RNIC_ARM_SOLICITED);
        complete_one(c, PLAIN, &msn);
        complete_one(c, PLAIN_INVALIDATE, &msn);
        for (Kind kind = LOCAL; kind <= LOCAL_FAST_REGISTER; kind++) {
            complete_one(c, kind, &msn);
        }
        expect_event(c, false);
        complete_one(c, se ? SOLICITED_INVALIDATE : SOLICITED, &msn);
        expect_event(c, true);
    }

    /* CQEs there before arming do not count. */
    complete_one(c, PLAIN, &msn);
    rnic_cq_arm(c->r, &c->send_cq, RNIC_ARM_NEXT);
    expect_event(c, false);
    complete_one(c, PLAIN, &msn);
    expect_event(c, true);

    /* An error is solicited, flushes included. */
    connection_recv(c, 9, 0, 4);
    rnic_cq_arm(c->r, &c->send_cq, RNIC_ARM_SOLICITED);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    rnic_expect_cqe(c->r, &c->send_cq, 9, RNIC_WC_FLUSHED);
    expect_event(c, true);
    connection_free(c);
    rnic_shows("V4-4 V8.2.5-3 V8.2.5-4 V8.2.5-8 V8.2.5-9 V8.2.5-11 V8.2.5-12 "
               "V8.2.5-14 V9.3.2.2-2 V9.3.2.2-3 V9.3.2.2-5 V9.4.1-4 V9.4.1-5 "
               "R5.3-5");
}

/* While an event of a CQ is not consumed no second one is posted. */
static void test_notification_suppressed(void)
{
    Connection *c = connection_new(&(ConnectionOptions) { .one_cq = true });
    uint32_t msn = 0;
    RnicEq *eq = &c->r->comp_eq;
    struct rnic_ceqe event;
    uint32_t slot;

    for (int i = 0; i < 5; i++) {
        rnic_cq_arm(c->r, &c->send_cq, RNIC_ARM_NEXT);
        complete_one(c, PLAIN, &msn);
    }
    rnic_settle(c->r);
    rnic_eq_wait(c->r, eq, &event);
    slot = eq->index & (eq->depth - 1);
    g_assert_cmphex(rnic_mem_read32(c->r, eq->memory + RNIC_QUEUE_RECORD_SIZE +
                                    slot * sizeof(event)), ==, 0);
    /* Consumed: the next one comes. */
    rnic_cq_arm(c->r, &c->send_cq, RNIC_ARM_NEXT);
    complete_one(c, PLAIN, &msn);
    rnic_eq_wait(c->r, eq, &event);
    connection_free(c);
}

/* Two CQs on two event queues and vectors: each its own. */
static void test_notification_vectors(void)
{
    Connection *a = connection_new(&(ConnectionOptions) { .one_cq = true });
    RnicEq other;
    RnicCq cq, deaf;
    RnicQp qp;
    RnicQpInit init;
    struct rnic_ceqe event;
    struct rnic_sge none = { };

    rnic_msix_enable(a->r);
    rnic_create_eq(a->r, &other, RNIC_EQ_COMPLETION, 5, 8);
    rnic_create_cq(a->r, &cq, 8, other.number);
    rnic_create_cq(a->r, &deaf, 8, RNIC_NO_VECTOR);
    init = rnic_qp_default(a->r, &deaf, &cq);
    rnic_create_qp(a->r, &qp, &init);
    rnic_post_recv(a->r, &qp, 1, 0, &none);
    rnic_post_send(a->r, &qp, &(RnicWr) { .opcode = RNIC_SQ_SEND,
                                          .wr_id = 2 });
    rnic_cq_arm(a->r, &cq, RNIC_ARM_NEXT);
    rnic_cq_arm(a->r, &deaf, RNIC_ARM_NEXT);
    rnic_cq_arm(a->r, &a->send_cq, RNIC_ARM_NEXT);
    for (unsigned v = 0; v < RNIC_TEST_VECTORS; v++) {
        rnic_msix_fired(a->r, v);
    }
    g_assert_cmpuint(rnic_modify_qp_state(a->r, &qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    rnic_expect_cqe(a->r, &cq, 1, RNIC_WC_FLUSHED);
    rnic_expect_cqe(a->r, &deaf, 2, RNIC_WC_FLUSHED);
    rnic_eq_wait(a->r, &other, &event);
    g_assert_cmphex(le32_to_cpu(event.cqn), ==, cq.number);
    rnic_settle(a->r);
    g_assert_false(rnic_eq_poll(a->r, &other, &event));
    g_assert_false(rnic_eq_poll(a->r, &a->r->comp_eq, &event));
    /* Vector 0 is that of commands. */
    for (unsigned v = 1; v < RNIC_TEST_VECTORS; v++) {
        g_assert_cmpint(rnic_msix_fired(a->r, v), ==, v == 5);
    }
    connection_free(a);
    rnic_shows("V8.2.5-1 V8.2.5-5 V9.2.3.1-4 V9.3.2.2-4 V9.4.1-1");
}

/* --------------------------------------------------------------- the octets */

/* The worked examples: made with a program that reproduces RFC 5044's. */
static void test_wire_octets(void)
{
    static const uint8_t hi[] = {
        0x00, 0x15, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        0, 0, 0, 0, 0x68, 0x69, 0x21, 0, 0x46, 0xb1, 0x49, 0x8b,
    };
    static const uint8_t empty_write[] = {
        0x00, 0x0e, 0xc1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
        0xeb, 0xd3, 0x4c, 0x5f,
    };
    static const uint8_t empty_read[] = {
        0x00, 0x2e, 0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
        0xba, 0x10, 0xe3, 0xc9,
    };
    static const uint8_t empty_response[] = {
        0x00, 0x0e, 0xc1, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0x69, 0x75, 0xd6, 0xca,
    };
    Connection *c = connection_new(&(ConnectionOptions) { .crc = true });
    RnicWr wr;
    uint8_t got[64];

    g_assert_cmphex(wire_crc32c("123456789", 9), ==, 0xe3069283);

    connection_fill(c, 0, "hi!", 3);
    connection_post(c, RNIC_SQ_SEND, 1, 0, 3);
    wire_get(c->peer, got, sizeof(hi));
    g_assert_cmpmem(got, sizeof(hi), hi, sizeof(hi));
    wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, 2, 0, 0);
    wr.num_sge = 0;
    wr.remote_stag = 1;
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get(c->peer, got, sizeof(empty_write));
    g_assert_cmpmem(got, sizeof(empty_write), empty_write,
                    sizeof(empty_write));
    wr.opcode = RNIC_SQ_RDMA_READ;
    wr.wr_id = 3;
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get(c->peer, got, sizeof(empty_read));
    g_assert_cmpmem(got, sizeof(empty_read), empty_read, sizeof(empty_read));
    wire_put(c->peer, empty_response, sizeof(empty_response));
    for (int i = 1; i <= 3; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    wr = connection_wr(c, RNIC_SQ_SEND, 5, 0, 0);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get(c->peer, got, 24);
    g_assert_cmphex(got[1], ==, 18);
    g_assert_cmphex(got[15], ==, 2);
    rnic_expect_cqe(c->r, &c->send_cq, 5, RNIC_WC_SUCCESS);
    wire_put(c->peer, empty_write, sizeof(empty_write));
    wire_put(c->peer, empty_read, sizeof(empty_read));
    wire_get(c->peer, got, sizeof(empty_response));
    g_assert_cmpmem(got, sizeof(empty_response), empty_response,
                    sizeof(empty_response));
    connection_recv(c, 4, 100, 10);
    wire_put(c->peer, hi, sizeof(hi));
    rnic_expect_cqe(c->r, &c->recv_cq, 4, RNIC_WC_SUCCESS);
    connection_peek(c, 100, got, 3);
    g_assert_cmpmem(got, 3, "hi!", 3);
    connection_free(c);
    rnic_shows("R4.1-1 R4.4-1 V8.1.3.2-6");
}

/* Reserved bits are not looked at; the Invalidate STag of a Send neither. */
static void test_reserved_on_wire(void)
{
    Connection *c = connection_new(NULL);
    WireSegment segment = {
        .opcode = WIRE_SEND, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .reserved = 0x3f, .stag = c->mr.stag, .msn = 1,
        .length = 3, .payload = (uint8_t *)"abc",
    };
    uint8_t got[3];

    connection_recv(c, 1, 0, 10);
    wire_put_segment(c->peer, &segment);
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    segment = (WireSegment) {
        .opcode = WIRE_WRITE, .tagged = true, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .reserved = 0x3f, .stag = c->mr.stag,
        .to = c->mr.va + 50, .length = 3, .payload = (uint8_t *)"xyz",
    };
    wire_put_segment(c->peer, &segment);
    wire_put_read_request(c->peer, &(WireRead) {
        .size = 3, .source_stag = c->mr.stag, .source_to = c->mr.va + 50 });
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, 3);
    g_assert_cmpmem(got, 3, "xyz", 3);
    connection_free(c);
    rnic_shows("R4.1-7");
}

static void test_solicited_out(void)
{
    Connection *c = connection_new(NULL);
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 1, 0, 4);
    struct rnic_cqe cqe;
    uint8_t got[4];

    wr.flags |= RNIC_WQE_SOLICITED;
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_send(c->peer, WIRE_SEND_SE, 1, got, 4);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    connection_post(c, RNIC_SQ_SEND, 2, 0, 4);
    wire_get_send(c->peer, WIRE_SEND, 2, got, 4);
    rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);

    connection_recv(c, 3, 0, 4);
    wire_put_send(c->peer, WIRE_SEND_SE, 0, got, 4);
    cqe = rnic_expect_cqe(c->r, &c->recv_cq, 3, RNIC_WC_SUCCESS);
    g_assert_cmphex(cqe.flags & RNIC_CQE_SOLICITED, !=, 0);
    connection_free(c);
}

/*
 * A message for each operation, two for a Read; from the MPA reply to the FIN
 * nothing on the stream is anything but RDMAP in DDP in FPDUs.
 */
static void test_one_message_each(void)
{
    static const struct {
        uint8_t opcode, flags, sent;
    } kinds[] = {
        { RNIC_SQ_SEND, 0, WIRE_SEND },
        { RNIC_SQ_SEND, RNIC_WQE_SOLICITED, WIRE_SEND_SE },
        { RNIC_SQ_SEND_INVALIDATE, 0, WIRE_SEND_INVALIDATE },
        { RNIC_SQ_SEND_INVALIDATE, RNIC_WQE_SOLICITED,
          WIRE_SEND_SE_INVALIDATE },
        { RNIC_SQ_RDMA_WRITE, 0, WIRE_WRITE },
        { RNIC_SQ_RDMA_READ, 0, WIRE_READ_REQUEST },
    };
    Connection *c = connection_new(NULL);
    struct rnic_admin_sqe llp = rnic_command(RNIC_ADMIN_LLP_SEND);
    uint32_t got = 0, segments = 0;
    WireSegment segment;

    for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++) {
        RnicWr wr = connection_wr(c, kinds[i].opcode, i, 0, 50);
        uint8_t octets[50];

        wr.flags |= kinds[i].flags;
        wr.remote_stag = CONNECTION_REMOTE_STAG;
        wr.invalidate_stag = 0x1234;
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_segment(c->peer, &segment);
        g_assert_cmpint(segment.opcode, ==, kinds[i].sent);
        g_assert_true(segment.last);
        wire_expect_silence(c->peer);
        if (segment.opcode == WIRE_READ_REQUEST) {
            memset(octets, 7, sizeof(octets));
            wire_put_read_response(c->peer, ldl_be_p(segment.payload),
                                   ldq_be_p(segment.payload + 4), octets, 50);
        }
        g_free(segment.payload);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    /* The answer to a large Read: many segments, one message. */
    wire_put_read_request(c->peer, &(WireRead) {
        .sink_stag = 5, .size = CONNECTION_MR_SIZE,
        .source_stag = c->mr.stag, .source_to = c->mr.va });
    do {
        wire_get_segment(c->peer, &segment);
        g_assert_cmpint(segment.opcode, ==, WIRE_READ_RESPONSE);
        got += segment.length;
        g_assert_cmpint(segment.last, ==, got == CONNECTION_MR_SIZE);
        segments++;
        g_free(segment.payload);
    } while (got < CONNECTION_MR_SIZE);
    g_assert_cmpuint(segments, >, 1);
    wire_expect_silence(c->peer);
    /* Streaming mode is over, and there is no way back. */
    llp.llp_octets.stream = rnic_query_qp(c->r, &c->qp).llp_stream;
    g_assert_cmpuint(rnic_admin(c->r, &llp, NULL), ==,
                     RNIC_ST_INVALID_LLP_STREAM);
    wire_expect_silence(c->peer);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_CLOSING), ==,
                     RNIC_ST_OK);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_FIN);
    connection_free(c);
    rnic_shows("V6.6.1-3 R1.2-3 R3.1-1 R6.1-1");
}

/* Fields that are another operation's say nothing. */
static void test_foreign_modifiers(void)
{
    static const uint8_t opcodes[] = {
        RNIC_SQ_SEND, RNIC_SQ_RDMA_WRITE, RNIC_SQ_RDMA_READ,
        RNIC_SQ_SEND_INVALIDATE,
    };
    Connection *c = connection_new(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        RnicWr wr = connection_wr(c, opcodes[i], i, 0, 8);
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
        struct rnic_sq_wqe *head = (void *)wqe;
        bool remote = opcodes[i] == RNIC_SQ_RDMA_WRITE ||
                      opcodes[i] == RNIC_SQ_RDMA_READ;
        WireSegment segment;
        uint8_t got[8];
        WireRead read;

        wr.invalidate_stag = 0x11223344;
        connection_fill(c, 0, "contents", 8);
        rnic_encode_wr(&wr, wqe);
        if (remote) {
            head->invalidate_stag = cpu_to_le32(0xdeadbeef);
        } else {
            head->remote_stag = cpu_to_le32(0xdeadbeef);
            head->remote_to = cpu_to_le64(0xdeadbeefdeadbeef);
        }
        if (opcodes[i] == RNIC_SQ_SEND) {
            head->invalidate_stag = cpu_to_le32(0xdeadbeef);
        }
        rnic_store_wqe(c->r, &c->qp, wqe, 1);
        rnic_ring_sq(c->r, &c->qp);
        switch (opcodes[i]) {
        case RNIC_SQ_SEND:
            wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
            g_assert_cmpmem(got, 8, "contents", 8);
            break;
        case RNIC_SQ_RDMA_WRITE:
            connection_get_write(c, 0, got, 8);
            g_assert_cmpmem(got, 8, "contents", 8);
            break;
        case RNIC_SQ_RDMA_READ:
            wire_get_read_request(c->peer, 1, &read);
            g_assert_cmphex(read.source_stag, ==, CONNECTION_REMOTE_STAG);
            wire_put_read_response(c->peer, read.sink_stag, read.sink_to,
                                   "response", 8);
            break;
        default:
            wire_get_segment(c->peer, &segment);
            g_assert_cmpint(segment.opcode, ==, WIRE_SEND_INVALIDATE);
            g_assert_cmphex(segment.stag, ==, 0x11223344);
            g_free(segment.payload);
        }
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free(c);
    rnic_shows("V9.3.1.1-4");
}

/* Ten Reads at once: each completes with its last segment, in their order. */
static void test_responses_in_order(void)
{
    enum { READS = 10 };
    Connection *c = connection_new(&(ConnectionOptions) {
        .ord = READS, .ird = READS });
    WireRead reads[READS];
    uint8_t data[200], got[200];

    for (unsigned i = 0; i < READS; i++) {
        connection_post(c, RNIC_SQ_RDMA_READ, i, i * 200, 200);
    }
    for (unsigned i = 0; i < READS; i++) {
        wire_get_read_request(c->peer, i + 1, &reads[i]);
    }
    for (unsigned i = 0; i < READS; i++) {
        WireSegment segment = {
            .opcode = WIRE_READ_RESPONSE, .tagged = true, .ddp_version = 1,
            .rdmap_version = 1, .stag = reads[i].sink_stag,
            .to = reads[i].sink_to, .length = 120, .payload = data,
        };

        rnic_pattern(data, sizeof(data), i);
        wire_put_segment(c->peer, &segment);
        rnic_settle(c->r);
        rnic_expect_no_cqe(c->r, &c->send_cq);
        segment.last = true;
        segment.to += 120;
        segment.length = 80;
        segment.payload = data + 120;
        wire_put_segment(c->peer, &segment);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
        connection_peek(c, i * 200, got, 200);
        g_assert_cmpmem(got, 200, data, 200);
    }
    rnic_expect_no_cqe(c->r, &c->send_cq);
    connection_free(c);
    rnic_shows("R5.5-5");
}

/* A message far larger than any socket buffer, while the peer is slow. */
static void test_large(void)
{
    enum { LARGE = 8 * 1024 * 1024 };
    Connection *c = connection_new(NULL);
    g_autofree uint8_t *data = g_malloc(LARGE);
    g_autofree uint8_t *got = g_malloc(LARGE);
    struct rnic_sge sge;
    RnicMr mr;
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                  .wr_id = 1, .num_sge = 1 };

    rnic_create_mr(c->r, &mr, c->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    rnic_pattern(data, LARGE, 8);
    rnic_mem_write(c->r, mr.bus, data, LARGE);
    wr.sge[0] = rnic_sge(&mr, 0, LARGE);
    rnic_post_send(c->r, &c->qp, &wr);
    /* The device is not held up by a peer that does not read. */
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    for (int i = 0; i < 30; i++) {
        connection_post(c, RNIC_SQ_SEND, 10 + i, 0, 4);
    }
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, 1, got, LARGE), ==,
                     LARGE);
    g_assert_cmpmem(got, LARGE, data, LARGE);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    for (int i = 0; i < 30; i++) {
        uint8_t small[4];

        wire_get_send(c->peer, WIRE_SEND, 2 + i, small, 4);
        rnic_expect_cqe(c->r, &c->send_cq, 10 + i, RNIC_WC_SUCCESS);
    }

    rnic_mem_fill(c->r, mr.bus, 0, LARGE);
    sge = rnic_sge(&mr, 0, LARGE);
    rnic_post_recv(c->r, &c->qp, 2, 1, &sge);
    c->peer->segment_size = 60000;
    wire_put_send(c->peer, WIRE_SEND, 0, data, LARGE);
    rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_SUCCESS);
    rnic_mem_read(c->r, mr.bus, got, LARGE);
    g_assert_cmpmem(got, LARGE, data, LARGE);
    connection_free(c);
    rnic_shows("V8.2.1-6 R5.5-11");
}

/* 4 GiB of which all pages are one of 2 MiB, at @memory, filled with @data. */
static struct rnic_sge endless_region(Connection *c, const uint8_t *data,
                                      uint64_t *memory)
{
    enum { PAGES = 2048, PAGE = 2 * 1024 * 1024 };
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);
    struct rnic_admin_cqe cqe;
    uint64_t list = rnic_alloc(c->r, 8 * PAGES), page;

    *memory = QEMU_ALIGN_UP(rnic_alloc(c->r, 2 * PAGE), PAGE);
    page = cpu_to_le64(*memory);
    rnic_mem_write(c->r, *memory, data, PAGE);
    for (int i = 0; i < PAGES; i++) {
        rnic_mem_write(c->r, list + 8 * i, &page, 8);
    }
    sqe.register_mr.pdn = cpu_to_le32(c->r->pd);
    sqe.register_mr.length = cpu_to_le64((uint64_t)PAGES * PAGE);
    sqe.register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    sqe.register_mr.pages.addr = cpu_to_le64(list);
    sqe.register_mr.pages.count = cpu_to_le32(PAGES);
    sqe.register_mr.pages.level = RNIC_PAGE_LIST_DIRECT;
    sqe.register_mr.pages.page_shift = 21;
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    return (struct rnic_sge) { .stag = cqe.number,
                               .length = cpu_to_le32(UINT32_MAX) };
}

/* The message of @opcode that goes on until the last octet there can be. */
static void get_longest(Connection *c, uint8_t opcode, const uint8_t *data)
{
    enum { PAGE = 2 * 1024 * 1024 };
    WireSegment segment;
    uint64_t got = 0;

    do {
        unsigned piece;

        wire_get_segment(c->peer, &segment);
        g_assert_cmpint(segment.opcode, ==, opcode);
        g_assert_cmpuint(segment.tagged ? segment.to : segment.mo, ==, got);
        /* The first octets of each. */
        piece = MIN(MIN(64, segment.length), PAGE - got % PAGE);
        g_assert_cmpmem(segment.payload, piece, data + got % PAGE, piece);
        got += segment.length;
        g_assert_cmpint(segment.last, ==, got == UINT32_MAX);
        g_free(segment.payload);
    } while (got < UINT32_MAX);
    g_assert_cmpuint(got, ==, UINT32_MAX);
}

/* The same Send, of many segments, to the device. */
static void put_longest(Connection *c, const uint8_t *data)
{
    enum { PAGE = 2 * 1024 * 1024, PIECE = 32768 };
    WireSegment segment = {
        .opcode = WIRE_SEND, .ddp_version = 1, .rdmap_version = 1, .msn = 1,
    };
    uint64_t put = 0;

    do {
        segment.mo = put;
        segment.length = MIN(PIECE, UINT32_MAX - put);
        segment.payload = (uint8_t *)data + put % PAGE;
        put += segment.length;
        segment.last = put == UINT32_MAX;
        wire_put_segment(c->peer, &segment);
    } while (!segment.last);
}

/* As long as a message can be, each way: four gigabytes less one octet. */
static void test_longest_send(void)
{
    enum { PAGE = 2 * 1024 * 1024 };
    Connection *c = connection_new(NULL);
    g_autofree uint8_t *data = g_malloc(PAGE);
    g_autofree uint8_t *got = g_malloc(PAGE);
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                  .wr_id = 1, .num_sge = 1 };
    struct rnic_cqe cqe;
    uint64_t memory;

    rnic_pattern(data, PAGE, 5);
    wr.sge[0] = endless_region(c, data, &memory);
    rnic_post_send(c->r, &c->qp, &wr);
    get_longest(c, WIRE_SEND, data);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);

    rnic_mem_fill(c->r, memory, 0, PAGE);
    rnic_post_recv(c->r, &c->qp, 2, 1, wr.sge);
    put_longest(c, data);
    cqe = rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_SUCCESS);
    g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, UINT32_MAX);
    rnic_mem_read(c->r, memory, got, PAGE);
    g_assert_cmpmem(got, PAGE, data, PAGE);
    connection_free(c);
    rnic_shows("V8.1.2.1-8");
}

/* Of each operation one message, of no octet and of the most. */
static void test_longest_each(void)
{
    enum { PAGE = 2 * 1024 * 1024, PIECE = 65000 };
    Connection *c = connection_new(NULL);
    g_autofree uint8_t *data = g_malloc(PAGE);
    struct rnic_sge sge;
    uint64_t memory;

    rnic_pattern(data, PAGE, 6);
    sge = endless_region(c, data, &memory);
    for (int empty = 0; empty < 2; empty++) {
        RnicWr wr = { .opcode = RNIC_SQ_RDMA_WRITE, .wr_id = 2, .sge = { sge },
                      .flags = RNIC_WQE_SIGNALED, .num_sge = 1,
                      .remote_stag = CONNECTION_REMOTE_STAG };
        WireSegment segment = {
            .opcode = WIRE_READ_RESPONSE, .tagged = true, .ddp_version = 1,
            .rdmap_version = 1, .payload = data,
        };
        uint64_t put = 0;
        struct rnic_cqe cqe;
        WireRead read;

        if (empty) {
            wr.sge[0].length = 0;
        }
        rnic_post_send(c->r, &c->qp, &wr);
        if (empty) {
            g_assert_cmpuint(connection_get_write(c, 0, NULL, 0), ==, 0);
            connection_post(c, RNIC_SQ_SEND, 4, 0, 0);
            wire_get_send(c->peer, WIRE_SEND, 2, NULL, 0);
        } else {
            get_longest(c, WIRE_WRITE, data);
            wr.opcode = RNIC_SQ_SEND;
            wr.wr_id = 4;
            wr.remote_stag = 0;
            rnic_post_send(c->r, &c->qp, &wr);
            get_longest(c, WIRE_SEND, data);
        }
        rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_SUCCESS);
        rnic_expect_cqe(c->r, &c->send_cq, 4, RNIC_WC_SUCCESS);
        wr.opcode = RNIC_SQ_RDMA_READ;
        wr.wr_id = 3;
        wr.remote_stag = CONNECTION_REMOTE_STAG;
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_read_request(c->peer, empty + 1, &read);
        g_assert_cmpuint(read.size, ==, empty ? 0 : UINT32_MAX);
        segment.stag = read.sink_stag;
        do {
            segment.to = read.sink_to + put;
            segment.length = MIN(PIECE, read.size - put);
            put += segment.length;
            segment.last = put == read.size;
            wire_put_segment(c->peer, &segment);
        } while (!segment.last);
        cqe = rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_SUCCESS);
        g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, read.size);
    }
    connection_free(c);
    rnic_shows("R1.1-1 V7.5.2-2");
}

/* A Read Request asks for as much as a message can have, and gets just that. */
static void test_longest_response(void)
{
    enum { PAGE = 2 * 1024 * 1024 };
    Connection *c = connection_new(NULL);
    g_autofree uint8_t *data = g_malloc(PAGE);
    WireRead read = { .sink_stag = 0xff000001, .size = UINT32_MAX };
    uint64_t memory;

    rnic_pattern(data, PAGE, 7);
    read.source_stag = le32_to_cpu(endless_region(c, data, &memory).stag);
    wire_put_read_request(c->peer, &read);
    get_longest(c, WIRE_READ_RESPONSE, data);
    wire_expect_silence(c->peer);
    rnic_expect_no_async(c->r);
    connection_free(c);
    rnic_shows("R4.4-5");
}

/* A peer that does not read one stream does not hold up the other. */
static void test_streams_independent(void)
{
    enum { LARGE = 8 * 1024 * 1024 };
    Connection *a = connection_new(NULL);
    Connection *b = connection_prepare_second(a, NULL);
    RnicMr mr;
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_WRITE, .num_sge = 1 };
    uint8_t got[4];

    connection_establish(b, NULL);
    rnic_create_mr(a->r, &mr, a->r->pd, LARGE, RNIC_TEST_ACCESS_ALL);
    wr.sge[0] = rnic_sge(&mr, 0, LARGE);
    rnic_post_send(a->r, &a->qp, &wr);
    for (unsigned i = 0; i < 20; i++) {
        connection_post(b, RNIC_SQ_SEND, i, 0, 4);
        wire_get_send(b->peer, WIRE_SEND, i + 1, got, 4);
        rnic_expect_cqe(b->r, &b->send_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free_second(b);
    connection_free(a);
    rnic_shows("R1.1-2");
}

/* The peer's Reads are answered while the own SQ waits for a Read. */
static void test_no_deadlock(void)
{
    Connection *c = connection_new(&(ConnectionOptions) { .ord = 1 });
    WireRead out, in = { .size = 100, .source_stag = c->mr.stag,
                         .source_to = c->mr.va };
    uint8_t got[100];

    connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 50);
    connection_post(c, RNIC_SQ_RDMA_READ, 2, 0, 50);
    wire_get_read_request(c->peer, 1, &out);
    for (int i = 0; i < 3; i++) {
        wire_put_read_request(c->peer, &in);
        wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, 100);
    }
    for (int i = 1; i <= 2; i++) {
        wire_put_read_response(c->peer, out.sink_stag, out.sink_to, got, 50);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
        if (i == 1) {
            wire_get_read_request(c->peer, 2, &out);
        }
    }
    connection_free(c);
}

/* Sockets and device are full long before the peer reads; then all is right. */
static void check_late_reader(bool crc)
{
    enum { LENGTH = 240000, COUNT = 60 };
    Connection *c = connection_new(&(ConnectionOptions) { .crc = crc });
    g_autofree uint8_t *data = g_malloc(CONNECTION_MR_SIZE);
    g_autofree uint8_t *got = g_malloc(LENGTH);

    rnic_pattern(data, CONNECTION_MR_SIZE, 3);
    connection_fill(c, 0, data, CONNECTION_MR_SIZE);
    for (unsigned i = 0; i < COUNT; i++) {
        connection_post(c, RNIC_SQ_RDMA_WRITE, i, i * 97, LENGTH);
    }
    rnic_settle(c->r);
    for (unsigned i = 0; i < COUNT; i++) {
        g_assert_cmpuint(connection_get_write(c, 0, got, LENGTH), ==, LENGTH);
        g_assert_cmpmem(got, LENGTH, data + i * 97, LENGTH);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    connection_free(c);
}

static void test_late_reader(void)
{
    check_late_reader(false);
    check_late_reader(true);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/data/sends-out", test_sends_out);
    qtest_add_func("rnic/data/sends-out-crc", test_sends_out_crc);
    qtest_add_func("rnic/data/sends-out-markers", test_sends_out_markers);
    qtest_add_func("rnic/data/sends-in", test_sends_in);
    qtest_add_func("rnic/data/sends-in-crc", test_sends_in_crc);
    qtest_add_func("rnic/data/sends-in-markers", test_sends_in_markers);
    qtest_add_func("rnic/data/late-reader", test_late_reader);
    qtest_add_func("rnic/data/scatter-gather", test_scatter_gather);
    qtest_add_func("rnic/data/regions-of-list", test_regions_of_list);
    qtest_add_func("rnic/data/most-sges", test_most_sges);
    qtest_add_func("rnic/data/inline", test_inline);
    qtest_add_func("rnic/data/ring-wraps", test_ring_wraps);
    qtest_add_func("rnic/data/doorbell-rule", test_doorbell_rule);
    qtest_add_func("rnic/data/writes-out", test_writes_out);
    qtest_add_func("rnic/data/writes-in", test_writes_in);
    qtest_add_func("rnic/data/empty-tagged", test_empty_tagged);
    qtest_add_func("rnic/data/reads-out", test_reads_out);
    qtest_add_func("rnic/data/read-ends", test_read_ends);
    qtest_add_func("rnic/data/reads-in", test_reads_in);
    qtest_add_func("rnic/data/reads-in-order", test_reads_in_order);
    qtest_add_func("rnic/data/ord", test_ord);
    qtest_add_func("rnic/data/ord-lowered", test_ord_lowered);
    qtest_add_func("rnic/data/read-fence", test_read_fence);
    qtest_add_func("rnic/data/write-then-read", test_write_then_read);
    qtest_add_func("rnic/data/read-waits", test_read_waits);
    qtest_add_func("rnic/data/write-then-send", test_write_then_send);
    qtest_add_func("rnic/data/chunks", test_chunks);
    qtest_add_func("rnic/data/order", test_order);
    qtest_add_func("rnic/data/receive-order", test_receive_order);
    qtest_add_func("rnic/data/unsignaled", test_unsignaled);
    qtest_add_func("rnic/data/signal-all", test_signal_all);
    qtest_add_func("rnic/data/shared-cq", test_shared_cq);
    qtest_add_func("rnic/data/notification", test_notification);
    qtest_add_func("rnic/data/notification-suppressed",
                   test_notification_suppressed);
    qtest_add_func("rnic/data/notification-vectors",
                   test_notification_vectors);
    qtest_add_func("rnic/data/wire-octets", test_wire_octets);
    qtest_add_func("rnic/data/reserved-on-wire", test_reserved_on_wire);
    qtest_add_func("rnic/data/solicited-out", test_solicited_out);
    qtest_add_func("rnic/data/one-message-each", test_one_message_each);
    qtest_add_func("rnic/data/foreign-modifiers", test_foreign_modifiers);
    qtest_add_func("rnic/data/responses-in-order", test_responses_in_order);
    qtest_add_func("rnic/data/large", test_large);
    qtest_add_func("rnic/data/longest-send", test_longest_send);
    /* What these show does not depend on the fabric and the threads. */
    if (!g_getenv("RNIC_TEST_FABRIC") && !g_getenv("RNIC_TEST_PROPERTIES")) {
        qtest_add_func("rnic/data/longest-each", test_longest_each);
        qtest_add_func("rnic/data/longest-response", test_longest_response);
    }
    qtest_add_func("rnic/data/streams-independent", test_streams_independent);
    qtest_add_func("rnic/data/no-deadlock", test_no_deadlock);
    return g_test_run();
}
