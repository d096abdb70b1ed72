/*
 * rnic: the Ethernet function, with the test at the other end of the netdev
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include <poll.h>

#include "tests/qtest/rnic/lib/librnic.h"

#define OUR_MAC "\x02\x11\x22\x33\x44\x55"
#define BROADCAST "\xff\xff\xff\xff\xff\xff"

enum { DEPTH = 16, ROOM = 2048, TX_VECTOR = 2, RX_VECTOR = 3 };

typedef struct Queue {
    uint64_t memory;
    uint64_t buffers;
    uint32_t producer;
    uint32_t depth;
} Queue;

typedef struct Net {
    Rnic *r;
    int fd;                     /* frames, each after its length */
    Queue tx, rx;
} Net;

static uint16_t create_queue(Rnic *r, Queue *q, uint32_t which,
                             uint32_t vector, uint32_t depth)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_ETH_QUEUE);
    uint64_t size = RNIC_QUEUE_RECORD_SIZE +
                    depth * sizeof(struct rnic_eth_desc);

    *q = (Queue) { .depth = depth };
    q->memory = rnic_alloc(r, size);
    q->buffers = rnic_alloc(r, depth * 16384);
    sqe.eth_queue.queue = cpu_to_le32(which);
    sqe.eth_queue.vector = cpu_to_le32(vector);
    sqe.eth_queue.depth = cpu_to_le32(depth);
    sqe.eth_queue.memory.pages = rnic_pages(r, q->memory, size);
    sqe.eth_queue.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    return rnic_admin(r, &sqe, NULL);
}

static uint16_t destroy_queue(Rnic *r, uint32_t which)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_DESTROY_ETH_QUEUE);

    sqe.eth_queue.queue = cpu_to_le32(which);
    return rnic_admin(r, &sqe, NULL);
}

static Net *net_new(void)
{
    Net *n = g_new0(Net, 1);
    g_autofree char *netdev = NULL;
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    netdev = g_strdup_printf("-netdev socket,fd=%d,id=net0", fds[1]);
    n->fd = fds[0];
    n->r = rnic_boot(",netdev=net0,mac=02:11:22:33:44:55", netdev);
    close(fds[1]);
    rnic_up(n->r);
    g_assert_cmphex(rnic_features(n->r) & RNIC_FEATURE_ETHERNET, !=, 0);
    rnic_msix_enable(n->r);
    g_assert_cmpuint(create_queue(n->r, &n->tx, RNIC_ETH_QUEUE_TX, TX_VECTOR,
                                  DEPTH), ==, RNIC_ST_OK);
    g_assert_cmpuint(create_queue(n->r, &n->rx, RNIC_ETH_QUEUE_RX, RX_VECTOR,
                                  DEPTH), ==, RNIC_ST_OK);
    return n;
}

static void net_free(Net *n)
{
    close(n->fd);
    rnic_quit(n->r);
    g_free(n);
}

/* ------------------------------------------------------------- descriptors */

static uint64_t desc_address(const Queue *q, uint32_t index)
{
    return q->memory + RNIC_QUEUE_RECORD_SIZE +
           (index & (q->depth - 1)) * sizeof(struct rnic_eth_desc);
}

static uint64_t buffer_address(const Queue *q, uint32_t index)
{
    return q->buffers + (index & (q->depth - 1)) * 16384;
}

static void put_desc(Net *n, Queue *q, uint64_t addr, uint32_t length,
                     uint32_t flags)
{
    struct rnic_eth_desc desc = {
        .addr = cpu_to_le64(addr),
        .length = cpu_to_le32(length),
        .flags = cpu_to_le32(flags),
    };

    rnic_mem_write(n->r, desc_address(q, q->producer++), &desc, sizeof(desc));
}

static struct rnic_eth_desc get_desc(Net *n, const Queue *q, uint32_t index)
{
    struct rnic_eth_desc desc;

    rnic_mem_read(n->r, desc_address(q, index), &desc, sizeof(desc));
    return desc;
}

static void kick(Net *n, Queue *q)
{
    rnic_mem_write32(n->r, q->memory +
                     offsetof(struct rnic_eth_record, producer), q->producer);
    rnic_write32(n->r, RNIC_REG_ETH_KICK,
                 q == &n->tx ? RNIC_ETH_QUEUE_TX : RNIC_ETH_QUEUE_RX);
}

static uint32_t done(Net *n, const Queue *q)
{
    return rnic_mem_read32(n->r, q->memory +
                           offsetof(struct rnic_eth_record, done));
}

static void arm(Net *n, Queue *q, uint32_t seen)
{
    rnic_mem_write32(n->r, q->memory + offsetof(struct rnic_eth_record, seen),
                     seen);
    rnic_write32(n->r, RNIC_REG_ETH_ARM,
                 q == &n->tx ? RNIC_ETH_QUEUE_TX : RNIC_ETH_QUEUE_RX);
}

/* -------------------------------------------------------------- the far end */

static void make_frame(uint8_t *frame, const char *to, uint32_t length,
                       uint32_t seed)
{
    rnic_pattern(frame, length, seed);
    memcpy(frame, to, 6);
    memcpy(frame + 6, "\x02\x99\x99\x99\x99\x99\x08\x00", 8);
}

static void far_send(Net *n, const void *frame, uint32_t length)
{
    uint8_t head[4];

    stl_be_p(head, length);
    g_assert_cmpint(write(n->fd, head, 4), ==, 4);
    g_assert_cmpint(write(n->fd, frame, length), ==, length);
}

static bool far_readable(Net *n, int milliseconds)
{
    struct pollfd p = { .fd = n->fd, .events = POLLIN };

    return poll(&p, 1, milliseconds) > 0;
}

static void read_all(int fd, void *to, size_t length)
{
    for (size_t at = 0; at < length;) {
        ssize_t got = read(fd, (uint8_t *)to + at, length - at);

        g_assert_cmpint(got, >, 0);
        at += got;
    }
}

static uint32_t far_receive(Net *n, uint8_t *frame)
{
    uint8_t head[4];
    uint32_t length;

    g_assert_true(far_readable(n, 60000));
    read_all(n->fd, head, 4);
    length = ldl_be_p(head);
    g_assert_cmpuint(length, <=, 65536);
    read_all(n->fd, frame, length);
    return length;
}

/* ----------------------------------------------------------------- transmit */

static void test_transmit(void)
{
    static const uint32_t sizes[] = { 14, 60, 61, 1514, 1518, 9018 };
    Net *n = net_new();
    g_autofree uint8_t *got = g_malloc(65536);
    uint8_t frame[9018];

    for (unsigned round = 0; round < 60; round++) {
        uint32_t size = sizes[round % G_N_ELEMENTS(sizes)];
        uint64_t where = buffer_address(&n->tx, n->tx.producer) + round % 7;

        make_frame(frame, "\xff\xff\xff\xff\xff\xff", size, round);
        rnic_mem_write(n->r, where, frame, size);
        put_desc(n, &n->tx, where, size, 0);
        kick(n, &n->tx);
        g_assert_cmpuint(far_receive(n, got), >=, size);
        g_assert_cmpmem(got, size, frame, size);
        RNIC_UNTIL(n->r, done(n, &n->tx) == round + 1);
        g_assert_cmphex(get_desc(n, &n->tx, round).flags, ==, 0);
    }
    net_free(n);
}

/* Descriptors that cannot be sent: marked, and what follows is sent. */
static void test_transmit_errors(void)
{
    Net *n = net_new();
    uint8_t frame[60], got[2000];
    uint64_t where = buffer_address(&n->tx, 0);
    static const struct {
        uint64_t addr;          /* 0: good */
        uint32_t length, flags;
        bool error;
    } cases[] = {
        { 0, 0, 0, true }, { 0, 13, 0, true }, { 0, 9019, 0, true },
        { 0, 0xffffffff, 0, true }, { RNIC_TEST_NOWHERE, 60, 0, true },
        { ~0ULL, 60, 0, true }, { 0, 60, 1, true }, { 0, 60, 0, false },
    };

    make_frame(frame, OUR_MAC, sizeof(frame), 1);
    rnic_mem_write(n->r, where, frame, sizeof(frame));
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        put_desc(n, &n->tx, cases[i].addr ? cases[i].addr : where,
                 cases[i].length, cases[i].flags);
    }
    kick(n, &n->tx);
    RNIC_UNTIL(n->r, done(n, &n->tx) == G_N_ELEMENTS(cases));
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct rnic_eth_desc desc = get_desc(n, &n->tx, i);

        g_assert_cmphex(le32_to_cpu(desc.flags), ==,
                        cases[i].error ? RNIC_ETH_DESC_ERROR : 0);
    }
    g_assert_cmpuint(far_receive(n, got), ==, 60);
    g_assert_cmpmem(got, 60, frame, 60);
    g_assert_false(far_readable(n, 30));
    net_free(n);
}

/* ------------------------------------------------------------------ receive */

static void give_buffers(Net *n, unsigned count, uint32_t room)
{
    for (unsigned i = 0; i < count; i++) {
        put_desc(n, &n->rx, buffer_address(&n->rx, n->rx.producer), room, 0);
    }
    kick(n, &n->rx);
}

static void test_receive(void)
{
    static const uint32_t sizes[] = { 60, 61, 1514, 1518, 9018 };
    Net *n = net_new();
    uint8_t frame[9018], got[9018];

    give_buffers(n, DEPTH, 9018);
    for (unsigned round = 0; round < 60; round++) {
        uint32_t size = sizes[round % G_N_ELEMENTS(sizes)];
        struct rnic_eth_desc desc;

        make_frame(frame, OUR_MAC, size, round);
        far_send(n, frame, size);
        RNIC_UNTIL(n->r, done(n, &n->rx) == round + 1);
        desc = get_desc(n, &n->rx, round);
        g_assert_cmphex(desc.flags, ==, 0);
        g_assert_cmpuint(le32_to_cpu(desc.length), ==, size);
        rnic_mem_read(n->r, buffer_address(&n->rx, round), got, size);
        g_assert_cmpmem(got, size, frame, size);
        give_buffers(n, 1, 9018);
    }
    net_free(n);
}

/* A frame that finds no buffer waits; one too long for its buffer is lost. */
static void test_receive_no_buffer(void)
{
    Net *n = net_new();
    uint8_t frame[1514], got[1514];
    struct rnic_eth_desc desc;

    make_frame(frame, OUR_MAC, sizeof(frame), 1);
    far_send(n, frame, sizeof(frame));
    rnic_settle(n->r);
    g_assert_cmpuint(done(n, &n->rx), ==, 0);
    give_buffers(n, 1, ROOM);
    RNIC_UNTIL(n->r, done(n, &n->rx) == 1);
    rnic_mem_read(n->r, buffer_address(&n->rx, 0), got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), frame, sizeof(frame));

    put_desc(n, &n->rx, buffer_address(&n->rx, 1), 1513, 0);
    put_desc(n, &n->rx, RNIC_TEST_NOWHERE, 2000, 0);
    put_desc(n, &n->rx, buffer_address(&n->rx, 3), 2000, 0);
    kick(n, &n->rx);
    for (int i = 0; i < 3; i++) {
        far_send(n, frame, sizeof(frame));
    }
    RNIC_UNTIL(n->r, done(n, &n->rx) == 4);
    for (int i = 1; i < 3; i++) {
        desc = get_desc(n, &n->rx, i);
        g_assert_cmphex(le32_to_cpu(desc.flags), ==, RNIC_ETH_DESC_ERROR);
        g_assert_cmpuint(le32_to_cpu(desc.length), ==, 0);
    }
    desc = get_desc(n, &n->rx, 3);
    g_assert_cmphex(desc.flags, ==, 0);
    g_assert_cmpuint(le32_to_cpu(desc.length), ==, 1514);
    g_assert_cmphex(rnic_mem_read32(n->r, buffer_address(&n->rx, 1) + 1512) >>
                    8, ==, 0);
    g_assert_cmpuint(le64_to_cpu(rnic_query_counters(n->r).eth_rx_drops), ==,
                     2);
    net_free(n);
}

static uint16_t set_rx_mode(Net *n, uint32_t mode, const char *list,
                            uint32_t count)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_SET_RX_MODE);

    sqe.rx_mode.mode = cpu_to_le32(mode);
    sqe.rx_mode.count = cpu_to_le32(count);
    if (count) {
        uint64_t bulk = rnic_alloc(n->r, count * 6);

        rnic_mem_write(n->r, bulk, list, count * 6);
        sqe.bulk_addr = cpu_to_le64(bulk);
        sqe.bulk_length = cpu_to_le32(count * 6);
    }
    return rnic_admin(n->r, &sqe, NULL);
}

/* Whether each of the five kinds of address is let in. */
static void check_filter(Net *n, unsigned expected)
{
    static const char *const addresses[] = {
        OUR_MAC, BROADCAST, "\x01\x00\x5e\x00\x00\x01",
        "\x01\x00\x5e\x00\x00\x02", "\x02\x77\x77\x77\x77\x77",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(addresses); i++) {
        uint8_t frame[64], got[64];
        uint32_t before = done(n, &n->rx);

        /* A broadcast comes last, so that it is known what came before it. */
        make_frame(frame, addresses[i], sizeof(frame), i);
        far_send(n, frame, sizeof(frame));
        make_frame(frame, BROADCAST, sizeof(frame), 99);
        far_send(n, frame, sizeof(frame));
        RNIC_UNTIL(n->r, done(n, &n->rx) > before);
        if (expected & (1u << i)) {
            RNIC_UNTIL(n->r, done(n, &n->rx) == before + 2);
        }
        rnic_settle(n->r);
        g_assert_cmpuint(done(n, &n->rx), ==,
                         before + (expected & (1u << i) ? 2 : 1));
        rnic_mem_read(n->r, buffer_address(&n->rx, done(n, &n->rx) - 1), got,
                      sizeof(got));
        g_assert_cmpmem(got, sizeof(got), frame, sizeof(frame));
        give_buffers(n, done(n, &n->rx) - before, ROOM);
    }
}

static void test_filter(void)
{
    Net *n = net_new();
    char many[65 * 6] = { };

    give_buffers(n, DEPTH, ROOM);
    check_filter(n, 0x03);
    g_assert_cmpuint(set_rx_mode(n, 0, "\x01\x00\x5e\x00\x00\x02", 1), ==,
                     RNIC_ST_OK);
    check_filter(n, 0x0b);
    g_assert_cmpuint(set_rx_mode(n, RNIC_RX_ALL_MULTICAST, NULL, 0), ==,
                     RNIC_ST_OK);
    check_filter(n, 0x0f);
    g_assert_cmpuint(set_rx_mode(n, RNIC_RX_PROMISCUOUS, NULL, 0), ==,
                     RNIC_ST_OK);
    check_filter(n, 0x1f);
    g_assert_cmpuint(set_rx_mode(n, 0, many, 64), ==, RNIC_ST_OK);
    check_filter(n, 0x03);

    g_assert_cmpuint(set_rx_mode(n, 0, many, 65), ==,
                     RNIC_ST_INVALID_MODIFIER);
    g_assert_cmpuint(set_rx_mode(n, 8, NULL, 0), ==,
                     RNIC_ST_INVALID_MODIFIER);
    {
        struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_SET_RX_MODE);

        sqe.rx_mode.count = cpu_to_le32(2);
        sqe.bulk_addr = cpu_to_le64(n->tx.buffers);
        sqe.bulk_length = cpu_to_le32(11);
        g_assert_cmpuint(rnic_admin(n->r, &sqe, NULL), ==,
                         RNIC_ST_BAD_BUFFER);
        sqe.bulk_length = cpu_to_le32(12);
        sqe.bulk_addr = cpu_to_le64(RNIC_TEST_NOWHERE);
        g_assert_cmpuint(rnic_admin(n->r, &sqe, NULL), ==, RNIC_ST_DMA_ERROR);
    }
    /* Refusals changed nothing. */
    check_filter(n, 0x03);
    net_free(n);
}

/* The list alone says which unicast addresses are let in; until a reset. */
static void test_listed_only(void)
{
    static const char list[] = "\x02\x77\x77\x77\x77\x77"
                               "\x01\x00\x5e\x00\x00\x02" OUR_MAC;
    const uint32_t listed = RNIC_RX_LISTED_ONLY;
    Net *n = net_new();

    g_assert_cmphex(rnic_features(n->r) & RNIC_FEATURE_UNICAST_LIST, !=, 0);
    give_buffers(n, DEPTH, ROOM);
    g_assert_cmpuint(set_rx_mode(n, listed, list, 2), ==, RNIC_ST_OK);
    check_filter(n, 0x1a);
    g_assert_cmpuint(set_rx_mode(n, listed, list, 3), ==, RNIC_ST_OK);
    check_filter(n, 0x1b);
    g_assert_cmpuint(set_rx_mode(n, listed | RNIC_RX_ALL_MULTICAST, list, 1),
                     ==, RNIC_ST_OK);
    check_filter(n, 0x1e);
    g_assert_cmpuint(set_rx_mode(n, listed | RNIC_RX_PROMISCUOUS, NULL, 0),
                     ==, RNIC_ST_OK);
    check_filter(n, 0x1f);
    g_assert_cmpuint(set_rx_mode(n, listed, NULL, 0), ==, RNIC_ST_OK);
    check_filter(n, 0x02);
    /* Without it a unicast address in the list says nothing. */
    g_assert_cmpuint(set_rx_mode(n, 0, list, 2), ==, RNIC_ST_OK);
    check_filter(n, 0x0b);

    rnic_up_with(n->r, RNIC_FEATURE_ETHERNET);
    g_assert_cmpuint(set_rx_mode(n, listed, list, 2), ==,
                     RNIC_ST_INVALID_MODIFIER);
    net_free(n);
}

/* --------------------------------------------------------------- interrupts */

static void test_arm(void)
{
    Net *n = net_new();
    uint8_t frame[60];

    make_frame(frame, OUR_MAC, sizeof(frame), 1);
    give_buffers(n, DEPTH, ROOM);
    /* Not armed: none. */
    far_send(n, frame, sizeof(frame));
    RNIC_UNTIL(n->r, done(n, &n->rx) == 1);
    g_assert_false(rnic_msix_fired(n->r, RX_VECTOR));
    /* Armed with something not seen yet: at once. */
    arm(n, &n->rx, 0);
    g_assert_true(rnic_msix_fired(n->r, RX_VECTOR));
    /* Armed with all seen: with the next frame, and only once. */
    arm(n, &n->rx, 1);
    rnic_settle(n->r);
    g_assert_false(rnic_msix_fired(n->r, RX_VECTOR));
    far_send(n, frame, sizeof(frame));
    RNIC_UNTIL(n->r, done(n, &n->rx) == 2);
    RNIC_UNTIL(n->r, rnic_msix_fired(n->r, RX_VECTOR));
    far_send(n, frame, sizeof(frame));
    RNIC_UNTIL(n->r, done(n, &n->rx) == 3);
    rnic_settle(n->r);
    g_assert_false(rnic_msix_fired(n->r, RX_VECTOR));
    g_assert_false(rnic_msix_fired(n->r, TX_VECTOR));
    /* The same for transmit. */
    arm(n, &n->tx, 0);
    rnic_mem_write(n->r, n->tx.buffers, frame, sizeof(frame));
    put_desc(n, &n->tx, n->tx.buffers, sizeof(frame), 0);
    kick(n, &n->tx);
    RNIC_UNTIL(n->r, rnic_msix_fired(n->r, TX_VECTOR));
    g_assert_cmpuint(done(n, &n->tx), ==, 1);
    /* Queues that do not exist. */
    rnic_write32(n->r, RNIC_REG_ETH_ARM, 2);
    rnic_write32(n->r, RNIC_REG_ETH_KICK, 0xffffffff);
    net_free(n);
}

/* -------------------------------------------------------------------- admin */

static void test_admin(void)
{
    Net *n = net_new();
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_ETH_QUEUE);
    Queue q;

    g_assert_cmpuint(create_queue(n->r, &q, RNIC_ETH_QUEUE_TX, 0, 16), ==,
                     RNIC_ST_ETH_QUEUE_IN_USE);
    g_assert_cmpuint(create_queue(n->r, &q, RNIC_ETH_QUEUE_RX, 0, 16), ==,
                     RNIC_ST_ETH_QUEUE_IN_USE);
    g_assert_cmpuint(create_queue(n->r, &q, 2, 0, 16), ==,
                     RNIC_ST_INVALID_MODIFIER);
    g_assert_cmpuint(destroy_queue(n->r, 2), ==, RNIC_ST_INVALID_MODIFIER);
    g_assert_cmpuint(destroy_queue(n->r, RNIC_ETH_QUEUE_TX), ==, RNIC_ST_OK);
    g_assert_cmpuint(destroy_queue(n->r, RNIC_ETH_QUEUE_TX), ==,
                     RNIC_ST_INVALID_MODIFIER);
    g_assert_cmpuint(create_queue(n->r, &q, RNIC_ETH_QUEUE_TX, 99, 16), ==,
                     RNIC_ST_BAD_VECTOR);
    g_assert_cmpuint(create_queue(n->r, &q, RNIC_ETH_QUEUE_TX, 0, 1), ==,
                     RNIC_ST_BAD_QUEUE_MEMORY);
    g_assert_cmpuint(create_queue(n->r, &q, RNIC_ETH_QUEUE_TX, 0, 15), ==,
                     RNIC_ST_BAD_QUEUE_MEMORY);
    sqe.eth_queue.depth = cpu_to_le32(8192);
    g_assert_cmpuint(rnic_admin(n->r, &sqe, NULL), ==,
                     RNIC_ST_BAD_QUEUE_MEMORY);
    sqe.eth_queue.reserved = cpu_to_le32(1);
    g_assert_cmpuint(rnic_admin(n->r, &sqe, NULL), ==,
                     RNIC_ST_RESERVED_NOT_ZERO);
    g_assert_cmpuint(create_queue(n->r, &n->tx, RNIC_ETH_QUEUE_TX,
                                  RNIC_NO_VECTOR, 2), ==, RNIC_ST_OK);
    net_free(n);
}

/* More given than the ring holds: that queue stops, nothing else. */
static void test_overshoot(void)
{
    Net *n = net_new();
    uint8_t frame[60], got[2000];

    make_frame(frame, OUR_MAC, sizeof(frame), 1);
    n->tx.producer += DEPTH + 1;
    kick(n, &n->tx);
    n->rx.producer += 0x80000000;
    kick(n, &n->rx);
    far_send(n, frame, sizeof(frame));
    rnic_settle(n->r);
    g_assert_cmpuint(done(n, &n->tx), ==, 0);
    g_assert_cmpuint(done(n, &n->rx), ==, 0);
    g_assert_false(far_readable(n, 10));
    g_assert_cmphex(rnic_read32(n->r, RNIC_REG_STATUS), ==,
                    RNIC_STATUS_ENABLED);
    /* Anew. */
    g_assert_cmpuint(destroy_queue(n->r, RNIC_ETH_QUEUE_TX), ==, RNIC_ST_OK);
    g_assert_cmpuint(create_queue(n->r, &n->tx, RNIC_ETH_QUEUE_TX, 0, DEPTH),
                     ==, RNIC_ST_OK);
    rnic_mem_write(n->r, n->tx.buffers, frame, sizeof(frame));
    put_desc(n, &n->tx, n->tx.buffers, sizeof(frame), 0);
    kick(n, &n->tx);
    g_assert_cmpuint(far_receive(n, got), ==, 60);
    net_free(n);
}

static void test_link(void)
{
    Net *n = net_new();
    struct rnic_aeqe aeqe;

    g_assert_cmpuint(rnic_read32(n->r, RNIC_REG_LINK) & 1, ==, 1);
    for (int up = 0; up < 2; up++) {
        qtest_qmp_assert_success(n->r->qts, "{ 'execute': 'set_link', "
                                 "'arguments': { 'name': 'net0', 'up': %i }}",
                                 up);
        aeqe = rnic_expect_async(n->r, RNIC_AE_LINK_CHANGE, 0);
        g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_NONE);
        g_assert_cmpuint(rnic_read32(n->r, RNIC_REG_LINK) & 1, ==, up);
    }
    net_free(n);
}

/* Reset takes the queues; the frames of before go nowhere. */
static void test_reset(void)
{
    Net *n = net_new();
    uint8_t frame[60];
    Queue old;

    make_frame(frame, OUR_MAC, sizeof(frame), 1);
    give_buffers(n, DEPTH, ROOM);
    old = n->rx;
    rnic_reset(n->r);
    far_send(n, frame, sizeof(frame));
    rnic_settle(n->r);
    g_assert_cmpuint(done(n, &old), ==, 0);
    g_assert_cmphex(rnic_mem_read32(n->r, buffer_address(&old, 0)), ==, 0);
    rnic_up(n->r);
    g_assert_cmpuint(create_queue(n->r, &n->rx, RNIC_ETH_QUEUE_RX, 0, DEPTH),
                     ==, RNIC_ST_OK);
    give_buffers(n, 2, ROOM);
    far_send(n, frame, sizeof(frame));
    RNIC_UNTIL(n->r, done(n, &n->rx) != 0);
    net_free(n);
}

/* Without a netdev: the link is up, and there are no queues. */
static void test_no_netdev(void)
{
    Rnic *r = rnic_boot_up("");
    Queue q;

    g_assert_cmphex(rnic_features(r) & RNIC_FEATURE_ETHERNET, ==, 0);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_LINK) & 1, ==, 1);
    g_assert_cmpuint(create_queue(r, &q, RNIC_ETH_QUEUE_TX, 0, 16), ==,
                     RNIC_ST_UNSUPPORTED);
    rnic_write32(r, RNIC_REG_ETH_KICK, 0);
    rnic_write32(r, RNIC_REG_ETH_ARM, 1);
    rnic_quit(r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/ethernet/transmit", test_transmit);
    qtest_add_func("rnic/ethernet/transmit-errors", test_transmit_errors);
    qtest_add_func("rnic/ethernet/receive", test_receive);
    qtest_add_func("rnic/ethernet/receive-no-buffer", test_receive_no_buffer);
    qtest_add_func("rnic/ethernet/filter", test_filter);
    qtest_add_func("rnic/ethernet/listed-only", test_listed_only);
    qtest_add_func("rnic/ethernet/arm", test_arm);
    qtest_add_func("rnic/ethernet/admin", test_admin);
    qtest_add_func("rnic/ethernet/overshoot", test_overshoot);
    qtest_add_func("rnic/ethernet/link", test_link);
    qtest_add_func("rnic/ethernet/reset", test_reset);
    qtest_add_func("rnic/ethernet/no-netdev", test_no_netdev);
    return g_test_run();
}
