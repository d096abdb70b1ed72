/*
 * rnic: behind an IOMMU (intel-iommu), also one whose mappings go away
 *
 * The test is the guest that programs the IOMMU: a root table, a context table
 * and three levels of page tables. Where mappings are removed the machine runs
 * with TCG, and the IOMMU tells of each fault by an interrupt to the processor,
 * which is what a thread of the device must not raise itself.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/units.h"
#include <glib/gstdio.h>

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/guest-clock.h"
#include "tests/qtest/rnic/lib/traffic.h"
#include "tests/qtest/rnic/lib/watchdog.h"

/* Registers, and bits of them */
#define IOMMU 0xfed90000ULL
#define IOMMU_GCMD (IOMMU + 0x18)
#define IOMMU_GSTS (IOMMU + 0x1c)
#define IOMMU_RTADDR (IOMMU + 0x20)
#define IOMMU_CCMD (IOMMU + 0x28)
#define IOMMU_FSTS (IOMMU + 0x34)
#define IOMMU_FECTL (IOMMU + 0x38)
#define IOMMU_FEDATA (IOMMU + 0x3c)
#define IOMMU_FEADDR (IOMMU + 0x40)
#define IOMMU_IOTLB (IOMMU + 0xf8)
#define IOMMU_FRCD_3 (IOMMU + 0x22c)
#define GCMD_TE (1u << 31)
#define GCMD_SRTP (1u << 30)
#define CCMD_GLOBAL (1ULL << 63 | 1ULL << 61)
#define IOTLB_GLOBAL (1ULL << 63 | 1ULL << 60)
#define FSTS_PPF (1u << 1)
#define FRCD_F (1u << 31)

/* Tables, in memory that nobody else uses */
enum {
    ROOT_TABLE = 0x100000,
    CONTEXT_TABLE = 0x101000,
    LEVEL_3 = 0x102000,
    LEVEL_2 = 0x103000,
    LEVEL_1 = 0x200000,         /* a page for each 2 MiB */
    PRESENT = 3,                /* to be read and written */
    DOMAIN = 1,
    THREE_LEVELS = 1,
    RAM = 256 * 1024 * 1024,
};

/*
 * All RAM is mapped twice: at its own addresses, and behind them, where there
 * is nothing without the IOMMU.
 */
#define ALIAS RAM

enum { HANG_SECONDS = 60 };

typedef struct World {
    Rnic *r;
    Connection *c;
    char *bios;
    Watchdog *dog;
} World;

/* -------------------------------------------------------------- the IOMMU */

static void write_level_1(QTestState *qts)
{
    enum { ENTRIES = 2 * (RAM / RNIC_TEST_PAGE) };
    g_autofree uint64_t *entries = g_new(uint64_t, ENTRIES);

    for (uint64_t i = 0; i < ENTRIES; i++) {
        entries[i] = cpu_to_le64(i * RNIC_TEST_PAGE % RAM | PRESENT);
    }
    qtest_memwrite(qts, LEVEL_1, entries, ENTRIES * 8);
}

static void write_tables(QTestState *qts)
{
    uint32_t context = CONTEXT_TABLE + (RNIC_TEST_SLOT << 3) * 16;

    write_level_1(qts);
    for (uint64_t i = 0; i < 2 * RAM / (2 * MiB); i++) {
        qtest_writeq(qts, LEVEL_2 + 8 * i,
                     (LEVEL_1 + i * RNIC_TEST_PAGE) | PRESENT);
    }
    qtest_writeq(qts, LEVEL_3, LEVEL_2 | PRESENT);
    qtest_writeq(qts, context, LEVEL_3 | 1);
    qtest_writeq(qts, context + 8, DOMAIN << 8 | THREE_LEVELS);
    qtest_writeq(qts, ROOT_TABLE, CONTEXT_TABLE | 1);
}

static void wait_status(QTestState *qts, uint32_t bit)
{
    for (int i = 0; !(qtest_readl(qts, IOMMU_GSTS) & bit); i++) {
        g_assert_cmpint(i, <, 1000);
        g_usleep(1000);
    }
}

static void iommu_flush(QTestState *qts)
{
    qtest_writeq(qts, IOMMU_CCMD, CCMD_GLOBAL);
    qtest_writeq(qts, IOMMU_IOTLB, IOTLB_GLOBAL);
}

static void iommu_enable(QTestState *qts)
{
    write_tables(qts);
    qtest_writeq(qts, IOMMU_RTADDR, ROOT_TABLE);
    qtest_writel(qts, IOMMU_GCMD, GCMD_SRTP);
    wait_status(qts, GCMD_SRTP);
    iommu_flush(qts);
    qtest_writel(qts, IOMMU_GCMD, GCMD_TE);
    wait_status(qts, GCMD_TE);
}

/* Of pages at their own addresses and at the alias. */
static void iommu_map(QTestState *qts, uint64_t bus, uint64_t size, bool map)
{
    for (uint64_t at = bus; at < bus + size; at += RNIC_TEST_PAGE) {
        uint64_t entry = map ? at | PRESENT : 0;

        qtest_writeq(qts, LEVEL_1 + at / RNIC_TEST_PAGE * 8, entry);
        qtest_writeq(qts, LEVEL_1 + (ALIAS + at) / RNIC_TEST_PAGE * 8, entry);
    }
    iommu_flush(qts);
}

/* A fault is an NMI: no other interrupt gets through to this processor. */
static void iommu_tell_of_faults(QTestState *qts)
{
    qtest_writel(qts, IOMMU_FEDATA, 0x400);
    qtest_writel(qts, IOMMU_FEADDR, 0xfee00000);
    qtest_writel(qts, IOMMU_FECTL, 0);
}

/* Whether there was a fault; the next one is told of again. */
static bool iommu_take_fault(QTestState *qts)
{
    bool fault = qtest_readl(qts, IOMMU_FSTS) & FSTS_PPF;

    qtest_writel(qts, IOMMU_FRCD_3, FRCD_F);
    return fault;
}

/* --------------------------------------------------------------- the machine */

#define IOMMU_DEVICE "-device intel-iommu,aw-bits=39,intremap=off"

static World *world_up(World *w)
{
    Connection base = { .r = w->r };

    w->dog = watchdog_new(w->r->qts, HANG_SECONDS, "behind an IOMMU");
    iommu_enable(w->r->qts);
    rnic_up(w->r);
    w->c = connection_prepare_second(&base, NULL);
    return w;
}

/* The processor does nothing. */
static World *world_new(void)
{
    World *w = g_new0(World, 1);

    w->r = rnic_boot(",mpa-rtr=off", IOMMU_DEVICE);
    return world_up(w);
}

/* Firmware that halts, also after an NMI. */
static char *write_bios(void)
{
    static const uint8_t halt[] = { 0xfa, 0xf4, 0xeb, 0xfd };
    g_autofree uint8_t *bios = g_malloc0(64 * KiB);
    char *name = g_strdup_printf("%s/rnic-bios-%d", g_get_tmp_dir(),
                                 (int)getpid());

    memcpy(bios + 64 * KiB - 16, halt, sizeof(halt));
    g_assert_true(g_file_set_contents(name, (char *)bios, 64 * KiB, NULL));
    return name;
}

static World *world_new_running(const char *properties)
{
    World *w = g_new0(World, 1);
    g_autofree char *arguments = NULL;
    g_autofree char *all = g_strconcat(",mpa-rtr=off", properties, NULL);

    w->bios = write_bios();
    arguments = g_strdup_printf(IOMMU_DEVICE " -accel tcg -bios %s "
                                "-object iothread,id=iothread0", w->bios);
    guest_clock_set_running(true);
    w->r = rnic_boot(all, arguments);
    qtest_writel(w->r->qts, 2 * 4, 0xf000fff0);
    world_up(w);
    iommu_tell_of_faults(w->r->qts);
    return w;
}

static void world_free(World *w)
{
    connection_free_second(w->c);
    rnic_quit(w->r);
    watchdog_free(w->dog);
    guest_clock_set_running(false);
    if (w->bios) {
        g_unlink(w->bios);
        g_free(w->bios);
    }
    g_free(w);
}

/* ------------------------------------------------------------------- it works */

enum { LENGTH = 100000 };

/* The pages of c->mr, by addresses that only the IOMMU knows. */
static void register_alias(Connection *c)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);
    uint64_t bus = c->mr.bus + ALIAS;
    struct rnic_admin_cqe cqe;

    sqe.register_mr.pdn = cpu_to_le32(c->r->pd);
    sqe.register_mr.va = cpu_to_le64(c->mr.va);
    sqe.register_mr.length = cpu_to_le64(c->mr.length);
    sqe.register_mr.pages = rnic_pages(c->r, bus, c->mr.length);
    sqe.register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    g_assert_cmpuint(rnic_admin(c->r, &sqe, &cqe), ==, RNIC_ST_OK);
    c->mr.stag = le32_to_cpu(cqe.number);
}

/* A message each way, a Read each way. */
static void exchange(Connection *c)
{
    g_autofree uint8_t *data = g_malloc(LENGTH);
    g_autofree uint8_t *got = g_malloc(LENGTH);
    WireRead read;

    rnic_pattern(data, LENGTH, 1);
    connection_fill(c, 0, data, LENGTH);
    connection_post(c, RNIC_SQ_SEND, 1, 0, LENGTH);
    wire_get_send(c->peer, WIRE_SEND, 1, got, LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    connection_recv(c, 2, LENGTH, LENGTH);
    wire_put_send(c->peer, WIRE_SEND, 0, data, LENGTH);
    rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_SUCCESS);
    connection_peek(c, LENGTH, got, LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);

    rnic_pattern(data, LENGTH, 2);
    connection_post(c, RNIC_SQ_RDMA_READ, 3, 0, LENGTH);
    wire_get_read_request(c->peer, 1, &read);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, data,
                           LENGTH);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_SUCCESS);
    connection_peek(c, 0, got, LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
    wire_put_read_request(c->peer, &(WireRead) {
        .size = LENGTH, .source_stag = c->mr.stag, .source_to = c->mr.va });
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
}

static void test_data(void)
{
    World *w = world_new();

    register_alias(w->c);
    connection_establish(w->c, NULL);
    exchange(w->c);
    g_assert_false(iommu_take_fault(w->r->qts));
    world_free(w);
}

static void test_data_in_a_running_machine(gconstpointer properties)
{
    World *w = world_new_running(properties);

    register_alias(w->c);
    connection_establish(w->c, NULL);
    exchange(w->c);
    g_assert_false(iommu_take_fault(w->r->qts));
    world_free(w);
}

/* ---------------------------------------------------------- mappings removed */

/* All is mapped again. */
static void map_again(World *w, uint64_t bus, uint64_t size)
{
    g_assert_true(iommu_take_fault(w->r->qts));
    rnic_assert_alive(w->r);
    iommu_map(w->r->qts, bus, size, true);
}

/* ... and all is well with the same QP. */
static void recover(World *w, uint64_t bus, uint64_t size)
{
    map_again(w, bus, size);
    connection_recycle(w->c);
    connection_establish(w->c, NULL);
    exchange(w->c);
}

/* ... with another one: what is left of this one can only be destroyed. */
static void recover_with_another(World *w, uint64_t bus, uint64_t size)
{
    Connection *other;

    map_again(w, bus, size);
    connection_drain_events(w->c);
    other = connection_prepare_second(w->c, NULL);
    connection_establish(other, NULL);
    exchange(other);
    connection_free_second(other);
}

/* A block of Writes to all of the region. */
static Pump *pump_writes(Connection *c)
{
    enum { PIECE = 8192 };
    g_autoptr(GByteArray) block = g_byte_array_new();
    static uint8_t payload[PIECE], ulpdu[2 * PIECE], fpdu[2 * PIECE];

    for (uint32_t at = 0; at < CONNECTION_MR_SIZE; at += PIECE) {
        WireSegment segment = {
            .opcode = WIRE_WRITE, .tagged = true, .last = true,
            .ddp_version = 1, .rdmap_version = 1, .stag = c->mr.stag,
            .to = c->mr.va + at, .length = PIECE, .payload = payload,
        };
        size_t length = wire_encode_segment(&segment, ulpdu);

        length = wire_encode_fpdu(c->peer, ulpdu, length, fpdu);
        g_byte_array_append(block, fpdu, length);
    }
    return pump_new(c->peer->fd, block->data, block->len);
}

static void test_target_removed(gconstpointer properties)
{
    World *w = world_new_running(properties);
    Connection *c = w->c;
    Pump *pump;

    register_alias(c);
    for (int i = 0; i < 10; i++) {
        connection_establish(c, NULL);
        pump = pump_writes(c);
        RNIC_UNTIL(w->r, pump_blocks(pump) > 5);
        iommu_map(w->r->qts, c->mr.bus + 64 * KiB, 64 * KiB, false);
        rnic_expect_async(w->r, RNIC_AE_QP_CATASTROPHIC, c->qp.number);
        pump_free(pump);
        recover(w, c->mr.bus + 64 * KiB, 64 * KiB);
        connection_recycle(c);
    }
    world_free(w);
}

/* More work than can be done before the mapping is gone. */
static void post_writes(Connection *c)
{
    for (int i = 0; i < 64; i++) {
        RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_WRITE, i, 0,
                                  CONNECTION_MR_SIZE);
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

        rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
    }
    rnic_ring_sq(c->r, &c->qp);
}

/* CQEs up to the first that fails. */
static uint8_t first_failure(Connection *c)
{
    struct rnic_cqe cqe;

    do {
        rnic_cq_wait(c->r, &c->send_cq, &cqe);
    } while (cqe.status == RNIC_WC_SUCCESS);
    return cqe.status;
}

static void test_source_removed(gconstpointer properties)
{
    World *w = world_new_running(properties);
    Connection *c = w->c;

    register_alias(c);
    for (int i = 0; i < 10; i++) {
        Drain *drain;

        connection_establish(c, NULL);
        /* Nothing is read of it: the work cannot end before. */
        post_writes(c);
        rnic_settle_fast(w->r);
        iommu_map(w->r->qts, c->mr.bus + 64 * KiB, 64 * KiB, false);
        drain = drain_new(&c->peer->fd, 1);
        g_assert_cmpint(first_failure(c), ==, RNIC_WC_QP_CATASTROPHIC);
        drain_free(drain);
        recover(w, c->mr.bus + 64 * KiB, 64 * KiB);
        connection_recycle(c);
    }
    world_free(w);
}

static void test_cq_removed(void)
{
    World *w = world_new_running("");
    Connection *c = w->c;
    uint64_t size = RNIC_QUEUE_RECORD_SIZE +
                    c->recv_cq.depth * sizeof(struct rnic_cqe);
    struct rnic_aeqe aeqe;
    bool told = false;

    connection_establish(c, NULL);
    connection_recv(c, 1, 0, 100);
    iommu_map(w->r->qts, c->recv_cq.memory, size, false);
    wire_put_send(c->peer, WIRE_SEND, 0, "octets", 6);
    wire_expect_terminate(c->peer, 0x0207);
    while (rnic_eq_poll(w->r, &w->r->async_eq, &aeqe)) {
        told |= le16_to_cpu(aeqe.event) == RNIC_AE_CQ_ERROR &&
                le32_to_cpu(aeqe.number) == c->recv_cq.number;
    }
    g_assert_true(told);
    recover_with_another(w, c->recv_cq.memory, size);
    world_free(w);
}

static void test_qp_removed(void)
{
    World *w = world_new_running("");
    Connection *c = w->c;

    connection_establish(c, NULL);
    iommu_map(w->r->qts, c->qp.memory, RNIC_TEST_PAGE, false);
    connection_post(c, RNIC_SQ_SEND, 1, 0, 100);
    rnic_expect_async(w->r, RNIC_AE_QP_CATASTROPHIC, c->qp.number);
    wire_expect_terminate(c->peer, 0x0207);
    recover_with_another(w, c->qp.memory, RNIC_TEST_PAGE);
    world_free(w);
}

static void expect_fatal(World *w, uint32_t health)
{
    RNIC_UNTIL(w->r, rnic_read32(w->r, RNIC_REG_STATUS) & RNIC_STATUS_FATAL);
    g_assert_cmpuint(rnic_read32(w->r, RNIC_REG_HEALTH), ==, health);
    g_assert_true(iommu_take_fault(w->r->qts));
    rnic_assert_alive(w->r);
}

static void test_eq_removed(gconstpointer properties)
{
    World *w = world_new_running(properties);
    Connection *c = w->c;

    connection_establish(c, NULL);
    iommu_map(w->r->qts, w->r->async_eq.memory, RNIC_QUEUE_RECORD_SIZE +
              w->r->async_eq.depth * sizeof(struct rnic_aeqe), false);
    wire_abort(c->peer);
    c->peer = NULL;
    expect_fatal(w, RNIC_HEALTH_EQ_DMA);
    world_free(w);
}

static void test_admin_queue_removed(void)
{
    World *w = world_new_running("");
    struct rnic_admin_sqe nop = rnic_command(RNIC_ADMIN_NOP);

    iommu_map(w->r->qts, w->r->admin_cq, 64 * sizeof(struct rnic_admin_cqe),
              false);
    rnic_admin_fill(w->r, &nop);
    rnic_admin_tail(w->r);
    expect_fatal(w, RNIC_HEALTH_ADMIN_CQ_DMA);
    world_free(w);
}

/* Threads that the device is given, or makes, do not reach guest memory. */
static void add(const char *name, GTestDataFunc test)
{
    static const char *properties[] = { "", ",io-threads=3",
                                        ",iothread=iothread0" };
    static const char *suffixes[] = { "", "-threads", "-iothread" };

    for (int i = 0; i < G_N_ELEMENTS(properties); i++) {
        g_autofree char *path = g_strdup_printf("rnic/iommu/%s%s", name,
                                                suffixes[i]);

        qtest_add_data_func(path, properties[i], test);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/iommu/data", test_data);
    add("data-in-a-running-machine", test_data_in_a_running_machine);
    add("target-removed", test_target_removed);
    add("source-removed", test_source_removed);
    add("eq-removed", test_eq_removed);
    qtest_add_func("rnic/iommu/cq-removed", test_cq_removed);
    qtest_add_func("rnic/iommu/qp-removed", test_qp_removed);
    qtest_add_func("rnic/iommu/admin-queue-removed",
                   test_admin_queue_removed);
    return g_test_run();
}
