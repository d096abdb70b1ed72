/*
 * rnic: guests and peers that write nonsense, with a fixed seed
 *
 * Nothing here has an expected answer but this: QEMU is alive, the device can
 * be reset, and it then moves data as if nothing had been.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"

enum { SEED = 20241105 };

/* After a reset: a connection, a message each way, a Write and a Read. */
static void prove_sound(Rnic *r)
{
    Connection whole = { .r = r };
    Connection *c;
    uint8_t data[3000], got[3000];
    WireRead read;

    r->next_free = 128 * 1024 * 1024;
    r->scratch = 0;
    rnic_mem_fill(r, r->next_free, 0, 8 * 1024 * 1024);
    rnic_up(r);
    c = connection_prepare_second(&whole, NULL);
    connection_establish(c, NULL);
    rnic_pattern(data, sizeof(data), 1);
    connection_fill(c, 0, data, sizeof(data));
    connection_post(c, RNIC_SQ_SEND, 1, 0, sizeof(data));
    wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
    rnic_expect_cqe(r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    connection_recv(c, 2, 10000, sizeof(data));
    wire_put_send(c->peer, WIRE_SEND, 0, data, sizeof(data));
    rnic_expect_cqe(r, &c->recv_cq, 2, RNIC_WC_SUCCESS);
    connection_peek(c, 10000, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
    connection_post(c, RNIC_SQ_RDMA_READ, 3, 20000, sizeof(data));
    wire_get_read_request(c->peer, 1, &read);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, data,
                           sizeof(data));
    rnic_expect_cqe(r, &c->send_cq, 3, RNIC_WC_SUCCESS);
    connection_peek(c, 20000, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
    wire_put_read_request(c->peer, &(WireRead) {
        .size = sizeof(data), .source_stag = c->mr.stag,
        .source_to = c->mr.va });
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
    connection_free_second(c);
}

static uint64_t any64(GRand *rand)
{
    static const uint64_t favourites[] = {
        0, 1, 2, 4, 8, 63, 64, 127, 128, 255, 256, 4095, 4096, 65535, 65536,
        0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0x100000000,
        0x7fffffffffffffff, 0x8000000000000000, ~0ULL, ~0ULL - 3,
        RNIC_TEST_NOWHERE, 0x01000000, 0x02000000, 0xfee00000, 0xe0000000,
    };

    switch (g_rand_int_range(rand, 0, 4)) {
    case 0:
        return favourites[g_rand_int_range(rand, 0,
                                           G_N_ELEMENTS(favourites))];
    case 1:
        return g_rand_int_range(rand, 0, 64);
    case 2:
        return g_rand_int(rand);
    default:
        return (uint64_t)g_rand_int(rand) << 32 | g_rand_int(rand);
    }
}

static void any_octets(GRand *rand, void *to, size_t size)
{
    uint8_t *octets = to;

    for (size_t i = 0; i < size; i += 8) {
        uint64_t value = any64(rand);

        memcpy(octets + i, &value, MIN(8, size - i));
    }
}

/* ---------------------------------------------------------------- registers */

static void test_registers(void)
{
    Rnic *r = rnic_boot("", NULL);
    GRand *rand = g_rand_new_with_seed(SEED);

    for (int round = 0; round < 6; round++) {
        if (round & 1) {
            rnic_up(r);
        }
        for (int i = 0; i < 700; i++) {
            uint32_t offset = g_rand_int_range(rand, 0, 0xc0);
            uint8_t octets[8];
            size_t size = 1 << g_rand_int_range(rand, 0, 4);

            if (g_rand_int_range(rand, 0, 10) == 0) {
                offset = g_rand_int_range(rand, 0, 4096 - 8);
            }
            if (size >= 4 && g_rand_boolean(rand)) {
                offset &= ~3;
            }
            if (g_rand_boolean(rand)) {
                any_octets(rand, octets, sizeof(octets));
                qpci_memwrite(r->dev, r->registers, offset, octets, size);
            } else {
                qpci_memread(r->dev, r->registers, offset, octets, size);
            }
        }
        rnic_assert_alive(r);
        rnic_reset(r);
        rnic_mem_fill(r, 16 * 1024 * 1024, 0, 4 * 1024 * 1024);
        r->next_free = 16 * 1024 * 1024;
        r->scratch = 0;
    }
    prove_sound(r);
    g_rand_free(rand);
    rnic_quit(r);
}

static void test_doorbells(void)
{
    Connection *c = connection_new(&(ConnectionOptions) { .rq_depth = 64 });
    GRand *rand = g_rand_new_with_seed(SEED + 1);
    uint8_t got[8];

    for (int i = 0; i < 3000; i++) {
        uint64_t offset = g_rand_int_range(rand, 0, 4) *
                          RNIC_DOORBELL_PAGE_SIZE +
                          g_rand_int_range(rand, 0, 24);
        uint8_t octets[8];

        any_octets(rand, octets, sizeof(octets));
        if (g_rand_boolean(rand)) {
            offset &= ~3ULL;
            stl_le_p(octets, g_rand_int_range(rand, 0, 16) |
                     (g_rand_int(rand) & 0xc0000000));
        }
        qpci_memwrite(c->r->dev, c->r->doorbells, offset, octets,
                      1 << g_rand_int_range(rand, 0, 4));
    }
    /* No harm to the connection that was there. */
    connection_post(c, RNIC_SQ_SEND, 1, 0, 8);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_RTS);
    g_rand_free(rand);
    connection_free(c);
}

/* -------------------------------------------------------------- admin queue */

static const uint16_t opcodes[] = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
    21, 22, 23, 24, 25, 26, 32, 33, 34, 35, 36, 37, 40, 41, 42, 43, 48, 49,
    50, 51, 255, 0xffff,
};

/* Fields that are nearly right: numbers that exist, memory that is there. */
static void plausible(GRand *rand, struct rnic_admin_sqe *sqe)
{
    uint32_t *words = (uint32_t *)sqe->raw;

    for (unsigned i = 0; i < sizeof(sqe->raw) / 4; i++) {
        switch (g_rand_int_range(rand, 0, 6)) {
        case 0:
            words[i] = cpu_to_le32(any64(rand));
            break;
        case 1:
            words[i] = cpu_to_le32(g_rand_int_range(rand, 0, 12));
            break;
        case 2:
            words[i] = cpu_to_le32(1u << g_rand_int_range(rand, 0, 16));
            break;
        case 3:
            words[i] = cpu_to_le32(0x01000000 +
                                   g_rand_int_range(rand, 0, 256) * 4096);
            break;
        default:
            words[i] = 0;
        }
    }
    if (g_rand_boolean(rand)) {
        sqe->bulk_addr = cpu_to_le64(0x01800000);
        sqe->bulk_length = cpu_to_le32(g_rand_int_range(rand, 0, 600));
    }
}

/* Never a stranger on this host: the address is one of ours. */
static void tame_addresses(struct rnic_admin_sqe *sqe, uint16_t port)
{
    switch (le16_to_cpu(sqe->opcode)) {
    case RNIC_ADMIN_CM_LISTEN:
        sqe->listen.local = rnic_addr(wire_guest_ip(1), port);
        break;
    case RNIC_ADMIN_CM_CONNECT:
        sqe->connect.local = rnic_addr(0, 0);
        sqe->connect.remote = rnic_addr(wire_guest_ip(2), port);
        break;
    default:
        break;
    }
}

static void test_admin(void)
{
    Rnic *r = rnic_boot(",max-mr=64,max-eq=64", NULL);
    GRand *rand = g_rand_new_with_seed(SEED + 2);
    uint16_t port = wire_free_port(1);

    for (int round = 0; round < 8; round++) {
        rnic_mem_fill(r, 16 * 1024 * 1024, 0, 16 * 1024 * 1024);
        r->next_free = 16 * 1024 * 1024;
        r->scratch = 0;
        rnic_up(r);
        /* What nearly right commands write to must not be our own rings. */
        for (int i = 0; i < 400; i++) {
            struct rnic_admin_sqe sqe = { };
            struct rnic_admin_cqe cqe;

            if (round < 2) {
                any_octets(rand, &sqe, sizeof(sqe));
                /* Not to random places: that would be RAM of ours. */
                sqe.bulk_addr = cpu_to_le64(RNIC_TEST_NOWHERE);
            } else {
                plausible(rand, &sqe);
            }
            sqe.opcode = cpu_to_le16(
                opcodes[g_rand_int_range(rand, 0, G_N_ELEMENTS(opcodes))]);
            tame_addresses(&sqe, port);
            rnic_admin_fill(r, &sqe);
            rnic_admin_tail(r);
            /*
             * The device may have been told to write over its completion
             * ring; then this round is over.
             */
            RNIC_UNTIL(r, rnic_read32(r, RNIC_REG_STATUS) != 0);
            if (rnic_read32(r, RNIC_REG_STATUS) & RNIC_STATUS_FATAL) {
                break;
            }
            rnic_settle_fast(r);
            if (!rnic_admin_try_completion(r, &cqe)) {
                break;
            }
        }
        rnic_assert_alive(r);
        rnic_reset(r);
    }
    prove_sound(r);
    g_rand_free(rand);
    rnic_quit(r);
}

/* -------------------------------------------------------------- work queues */

/* Any octets as WQEs; any numbers as producer indices. */
static void test_work_queues(void)
{
    Connection *c = connection_new(NULL);
    GRand *rand = g_rand_new_with_seed(SEED + 3);

    for (int round = 0; round < 150; round++) {
        bool wild = g_rand_int_range(rand, 0, 10) == 0;
        int units = g_rand_int_range(rand, 1, 20);

        for (int i = 0; i < units; i++) {
            uint8_t unit[RNIC_SQ_UNIT];

            any_octets(rand, unit, sizeof(unit));
            if (!wild) {
                unit[0] = g_rand_int_range(rand, 0, 14);
                unit[1] &= 0x1f;
                unit[2] = g_rand_int_range(rand, 0, 5);
                unit[3] = (32 + 16 * unit[2] + 63) / 64;
                memset(unit + 4, 0, 4);
                stl_le_p(unit + 40, g_rand_boolean(rand)
                                    ? c->mr.stag : g_rand_int(rand));
                if (g_rand_boolean(rand)) {
                    stq_le_p(unit + 32, c->mr.va +
                             g_rand_int_range(rand, 0, 70000));
                    stl_le_p(unit + 44, g_rand_int_range(rand, 0, 5000));
                }
            }
            rnic_store_wqe(c->r, &c->qp, unit, 1);
        }
        if (wild && g_rand_boolean(rand)) {
            c->qp.sq_producer = any64(rand);
        }
        rnic_ring_sq(c->r, &c->qp);
        if (g_rand_boolean(rand)) {
            uint8_t wqe[128];

            any_octets(rand, wqe, sizeof(wqe));
            rnic_mem_write(c->r, c->qp.memory + c->qp.rq_offset +
                           ((c->qp.rq_producer & (c->qp.rq_depth - 1)) <<
                            c->qp.rq_shift), wqe, sizeof(wqe));
            c->qp.rq_producer++;
            if (wild) {
                c->qp.rq_producer = any64(rand);
            }
            rnic_ring_rq(c->r, &c->qp);
            wire_put_send(c->peer, WIRE_SEND, 0, wqe, 100);
        }
        rnic_settle_fast(c->r);
        rnic_assert_alive(c->r);
        /* The rings are beyond repair: a new QP. */
        wire_close(c->peer);
        c->peer = NULL;
        g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                           c->qp.number), ==, RNIC_ST_OK);
        {
            Connection *next = connection_prepare_second(c, NULL);

            connection_drain_events(c);
            g_free(c);
            c = next;
        }
        connection_establish(c, NULL);
        if (round % 16 == 15) {
            /* Guest memory is used up otherwise. */
            Rnic *r = c->r;
            Connection base = { .r = r };

            wire_close(c->peer);
            g_free(c);
            rnic_reset(r);
            rnic_mem_fill(r, 16 * 1024 * 1024, 0, r->next_free -
                          16 * 1024 * 1024);
            r->next_free = 16 * 1024 * 1024;
            r->scratch = 0;
            rnic_up(r);
            c = connection_prepare_second(&base, NULL);
            connection_establish(c, NULL);
        }
    }
    {
        Rnic *r = c->r;

        wire_close(c->peer);
        g_free(c);
        prove_sound(r);
        rnic_quit(r);
    }
    g_rand_free(rand);
}

/* ------------------------------------------------------------ DMA to itself */

/* Registered "memory" that is the device's own registers and doorbells. */
static void test_own_bars(void)
{
    Connection *c = connection_new(NULL);
    uint64_t bars[2] = { c->r->registers.addr, c->r->doorbells.addr };

    for (int i = 0; i < 2; i++) {
        struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);
        struct rnic_admin_cqe cqe;
        struct rnic_sge sge = { .length = cpu_to_le32(8) };
        RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                      .wr_id = 1, .num_sge = 1 };

        sqe.register_mr.pdn = cpu_to_le32(c->r->pd);
        sqe.register_mr.length = cpu_to_le64(4096);
        sqe.register_mr.pages.addr = cpu_to_le64(bars[i]);
        sqe.register_mr.pages.count = cpu_to_le32(1);
        sqe.register_mr.pages.page_shift = 12;
        sqe.register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
        g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
        sge.stag = cqe.number;
        wr.sge[0] = sge;
        rnic_post_send(c->r, &c->qp, &wr);
        wire_expect_terminate(c->peer, 0);
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_QP_CATASTROPHIC);
        connection_recycle(c);
        connection_establish(c, NULL);
        rnic_post_recv(c->r, &c->qp, 2, 1, &sge);
        wire_put_send(c->peer, WIRE_SEND, 0, "\2\0\0\0\2\0\0\0", 8);
        rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_TERMINATE);
        connection_recycle(c);
        connection_establish(c, NULL);
        /* CONTROL.RESET by RDMA Write, if it were possible. */
        wire_put_write(c->peer, le32_to_cpu(cqe.number), RNIC_REG_CONTROL,
                       "\2\0\0\0", 4);
        rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_TERMINATE);
        connection_recycle(c);
        connection_establish(c, NULL);
        g_assert_cmphex(rnic_read32(c->r, RNIC_REG_STATUS), ==,
                        RNIC_STATUS_ENABLED);
    }
    prove_sound(c->r);
    connection_free(c);
}

/* An admin ring, and queues, in the device's own BARs. */
static void test_rings_in_bars(void)
{
    Rnic *r = rnic_boot("", NULL);
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;

    rnic_write64(r, RNIC_REG_ADMIN_SQ_BASE, r->registers.addr);
    rnic_write64(r, RNIC_REG_ADMIN_CQ_BASE, r->doorbells.addr);
    rnic_write32(r, RNIC_REG_ADMIN_DEPTH, 8);
    rnic_write32(r, RNIC_REG_CONTROL, RNIC_CONTROL_ENABLE);
    rnic_write32(r, RNIC_REG_ADMIN_TAIL, 1);
    RNIC_UNTIL(r, rnic_read32(r, RNIC_REG_STATUS) & RNIC_STATUS_FATAL);
    rnic_up(r);
    sqe = rnic_command(RNIC_ADMIN_QUERY_DEVICE);
    sqe.bulk_addr = cpu_to_le64(r->registers.addr);
    sqe.bulk_length = cpu_to_le32(256);
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_DMA_ERROR);
    sqe = rnic_command(RNIC_ADMIN_CREATE_CQ);
    sqe.create_cq.depth = cpu_to_le32(16);
    sqe.create_cq.eqn = cpu_to_le32(RNIC_NO_VECTOR);
    sqe.create_cq.memory.pages.addr = cpu_to_le64(r->doorbells.addr);
    sqe.create_cq.memory.pages.count = cpu_to_le32(1);
    sqe.create_cq.memory.pages.page_shift = 12;
    sqe.create_cq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    if (rnic_admin(r, &sqe, &cqe) == RNIC_ST_OK) {
        RnicCq cq = { .number = le32_to_cpu(cqe.number), .depth = 16 };
        RnicQpInit init = rnic_qp_default(r, &cq, &cq);
        RnicQp qp;

        rnic_create_qp(r, &qp, &init);
        rnic_post_recv(r, &qp, 1, 0, NULL);
        rnic_modify_qp_state(r, &qp, RNIC_QPS_ERROR);
        rnic_settle(r);
    }
    g_assert_cmphex(rnic_read32(r, RNIC_REG_TEST32), ==, 0);
    prove_sound(r);
    rnic_quit(r);
}

/* ----------------------------------------------------------------- the wire */

static size_t any_segment(GRand *rand, Connection *c, uint8_t *ulpdu)
{
    static uint8_t payload[2000];
    WireSegment s = {
        .opcode = g_rand_int_range(rand, 0, 16),
        .tagged = g_rand_boolean(rand),
        .last = g_rand_int_range(rand, 0, 4) != 0,
        .ddp_version = 1,
        .rdmap_version = 1,
        .stag = g_rand_boolean(rand) ? c->mr.stag : g_rand_int(rand),
        .to = g_rand_boolean(rand)
              ? c->mr.va + g_rand_int_range(rand, 0, CONNECTION_MR_SIZE)
              : any64(rand),
        .qn = g_rand_int_range(rand, 0, 4),
        .msn = g_rand_int_range(rand, 0, 4),
        .mo = g_rand_boolean(rand) ? 0 : any64(rand),
        .length = g_rand_int_range(rand, 0, sizeof(payload)),
        .payload = payload,
    };

    if (g_rand_int_range(rand, 0, 3)) {
        s.tagged = s.opcode == WIRE_WRITE || s.opcode == WIRE_READ_RESPONSE;
        s.qn = s.opcode == WIRE_READ_REQUEST ? 1
             : s.opcode == WIRE_TERMINATE ? 2 : 0;
        s.msn = 1;
        s.mo = 0;
        if (s.opcode == WIRE_READ_REQUEST) {
            s.length = 28;
        }
    }
    any_octets(rand, payload, 64);
    return wire_encode_segment(&s, ulpdu);
}

/* Everything from white noise to streams with one bit wrong. */
static void test_wire(void)
{
    enum { ROUNDS = 250, RECEIVES = 4 };
    Connection *good = connection_new(NULL);
    Connection *c = connection_prepare_second(good, &(ConnectionOptions) {
        .rq_depth = 32 });
    GRand *rand = g_rand_new_with_seed(SEED + 4);
    g_autofree uint8_t *octets = g_malloc(WIRE_MAX_FPDU * 4);
    g_autofree uint8_t *before = g_malloc(CONNECTION_MR_SIZE);
    g_autofree uint8_t *after = g_malloc(CONNECTION_MR_SIZE);
    uint32_t msn = 0;

    rnic_pattern(before, CONNECTION_MR_SIZE, 1);
    connection_fill(good, 0, before, CONNECTION_MR_SIZE);
    for (int i = 0; i < RECEIVES; i++) {
        connection_recv(good, i, CONNECTION_MR_SIZE - 8 * RECEIVES + 8 * i, 8);
    }
    for (int round = 0; round < ROUNDS; round++) {
        ConnectionOptions options = {
            .passive = round & 1, .crc = round & 2, };
        size_t length = 0;
        uint8_t got[8];

        connection_establish(c, &options);
        for (int i = 0; i < 6; i++) {
            connection_recv(c, i, i * 3000, 3000);
        }
        if (round & 4) {
            connection_post(c, RNIC_SQ_RDMA_READ, 1, 50000, 1000);
        }
        if (round % 5 == 0) {
            length = g_rand_int_range(rand, 1, 3000);
            any_octets(rand, octets, length);
        } else {
            for (int i = 0; i < 4; i++) {
                uint8_t ulpdu[2100];

                length += wire_encode_fpdu(c->peer, ulpdu,
                                           any_segment(rand, c, ulpdu),
                                           octets + length);
            }
            if (round % 5 > 2) {
                octets[g_rand_int_range(rand, 0, length)] ^=
                    1 << g_rand_int_range(rand, 0, 8);
            }
        }
        wire_try_put(c->peer, octets, length);
        if (g_rand_boolean(rand)) {
            rnic_settle_fast(c->r);
        }
        connection_recycle(c);
        if (round % 10 == 0) {
            /* The neighbour does not feel it. */
            msn++;
            connection_post(good, RNIC_SQ_SEND, msn, 0, 8);
            wire_get_send(good->peer, WIRE_SEND, msn, got, 8);
            g_assert_cmpmem(got, 8, before, 8);
            rnic_expect_cqe(good->r, &good->send_cq, msn, RNIC_WC_SUCCESS);
        }
    }
    connection_free_second(c);
    /* Its memory is as it was, and its receives are all there. */
    connection_peek(good, 0, after, CONNECTION_MR_SIZE);
    g_assert_cmpmem(after, CONNECTION_MR_SIZE, before, CONNECTION_MR_SIZE);
    rnic_expect_no_cqe(good->r, &good->recv_cq);
    for (int i = 0; i < RECEIVES; i++) {
        wire_put_send(good->peer, WIRE_SEND, 0, "received", 8);
        rnic_expect_cqe(good->r, &good->recv_cq, i, RNIC_WC_SUCCESS);
    }
    prove_sound(good->r);
    g_rand_free(rand);
    connection_free(good);
    rnic_shows("V10-1");
}

/* Noise instead of MPA frames, in both roles. */
static void test_start_up(void)
{
    Connection *c = connection_prepare(NULL);
    GRand *rand = g_rand_new_with_seed(SEED + 5);
    uint16_t port = wire_free_port(1), theirs;
    int listener = wire_listen(2, &theirs);

    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 1, NULL),
                     ==, RNIC_ST_OK);
    for (int round = 0; round < 200; round++) {
        WireMpa frame = wire_mpa_request();
        uint8_t octets[1024];
        size_t length;
        WirePeer *peer;
        WireMpa request;

        frame.reply = round & 1;
        frame.ird = g_rand_int(rand);
        frame.ord = g_rand_int(rand);
        frame.revision = g_rand_int_range(rand, 0, 4);
        frame.enhanced = g_rand_boolean(rand);
        frame.length = g_rand_int_range(rand, 0, 513);
        frame.markers = g_rand_boolean(rand);
        frame.crc = g_rand_boolean(rand);
        frame.reject = g_rand_int_range(rand, 0, 4) == 0;
        any_octets(rand, frame.data, sizeof(frame.data));
        length = wire_mpa_encode(&frame, octets);
        for (int i = g_rand_int_range(rand, 0, 4); i > 0; i--) {
            octets[g_rand_int_range(rand, 0, MIN(length, 24))] ^=
                1 << g_rand_int_range(rand, 0, 8);
        }
        length += g_rand_int_range(rand, 0, 64);
        if (round & 1) {
            if (rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), theirs, 4, 4,
                                 1, NULL, 0) != RNIC_ST_OK) {
                connection_recycle(c);
                continue;
            }
            peer = wire_accept(c->r->qts, listener);
            wire_mpa_get(peer, &request);
        } else {
            peer = wire_connect(c->r->qts, 3, 1, port);
        }
        wire_try_put(peer, octets, length);
        if (g_rand_boolean(rand)) {
            rnic_settle_fast(c->r);
        }
        c->peer = peer;
        if (round & 1) {
            /* Whatever came of it, the QP is let go. */
            wire_close(peer);
            c->peer = NULL;
            RNIC_UNTIL(c->r, rnic_query_counters(c->r).endpoints == 0);
        }
        connection_recycle(c);
    }
    close(listener);
    prove_sound(c->r);
    g_rand_free(rand);
    connection_free(c);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/hostile/registers", test_registers);
    qtest_add_func("rnic/hostile/doorbells", test_doorbells);
    qtest_add_func("rnic/hostile/admin", test_admin);
    qtest_add_func("rnic/hostile/work-queues", test_work_queues);
    qtest_add_func("rnic/hostile/own-bars", test_own_bars);
    qtest_add_func("rnic/hostile/rings-in-bars", test_rings_in_bars);
    qtest_add_func("rnic/hostile/wire", test_wire);
    qtest_add_func("rnic/hostile/start-up", test_start_up);
    return g_test_run();
}
