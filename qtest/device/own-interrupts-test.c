/*
 * rnic: MSI-X vectors that are aimed at the device's own registers
 *
 * An MSI is a write to an address that the guest chooses. If it is one of the
 * device's own registers or doorbells, QEMU's re-entrancy guard blocks the
 * write: nothing happens, above all no deadlock, in every context in which the
 * device raises an interrupt.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "hw/pci/pci_regs.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/watchdog.h"

/* Each source of interrupts has a vector of its own. */
enum {
    ADMIN_VECTOR = 0,
    COMP_VECTOR = 1,
    ASYNC_VECTOR = 2,
    CM_VECTOR = 3,
    ETH_VECTOR = 4,
    TEST_VECTOR = 5,
    HANG_SECONDS = 30,
};

typedef struct World {
    Rnic *r;
    Connection *c;              /* in RTS or, for completions, in Error */
    uint64_t eth;               /* memory of the receive queue */
    int netdev;                 /* the far end of the device's */
    uint16_t closed_port;
    uint32_t vector;            /* what is aimed at the device */
    Watchdog *dog;
} World;

/* ------------------------------------------------------------------- targets */

typedef struct Target {
    const char *name;
    uint32_t bar;
    uint32_t offset;
    uint32_t data;
} Target;

enum { TARGETS_MAX = 48 };

static unsigned add_registers(World *w, Target *t)
{
    const Target registers[] = {
        { "DRIVER_FEATURES", RNIC_BAR_REGISTERS, RNIC_REG_DRIVER_FEATURES, 0 },
        { "CONTROL reset", RNIC_BAR_REGISTERS, RNIC_REG_CONTROL,
          RNIC_CONTROL_RESET },
        { "CONTROL enable", RNIC_BAR_REGISTERS, RNIC_REG_CONTROL,
          RNIC_CONTROL_ENABLE },
        { "CONTROL zero", RNIC_BAR_REGISTERS, RNIC_REG_CONTROL, 0 },
        { "ADMIN_SQ_BASE", RNIC_BAR_REGISTERS, RNIC_REG_ADMIN_SQ_BASE, 0 },
        { "ADMIN_CQ_BASE", RNIC_BAR_REGISTERS, RNIC_REG_ADMIN_CQ_BASE, 0 },
        { "ADMIN_DEPTH", RNIC_BAR_REGISTERS, RNIC_REG_ADMIN_DEPTH, 2 },
        { "ADMIN_VECTOR", RNIC_BAR_REGISTERS, RNIC_REG_ADMIN_VECTOR, 6 },
        { "ADMIN_TAIL", RNIC_BAR_REGISTERS, RNIC_REG_ADMIN_TAIL, 0x1000000 },
        { "ADMIN_HEAD", RNIC_BAR_REGISTERS, RNIC_REG_ADMIN_HEAD, 0x1000000 },
        { "EQ_KICK async", RNIC_BAR_REGISTERS, RNIC_REG_EQ_KICK,
          w->r->async_eq.number },
        { "EQ_KICK cm", RNIC_BAR_REGISTERS, RNIC_REG_EQ_KICK,
          w->r->cm_eq.number },
        { "EQ_KICK completion", RNIC_BAR_REGISTERS, RNIC_REG_EQ_KICK,
          w->r->comp_eq.number },
        { "ETH_KICK tx", RNIC_BAR_REGISTERS, RNIC_REG_ETH_KICK,
          RNIC_ETH_QUEUE_TX },
        { "ETH_KICK rx", RNIC_BAR_REGISTERS, RNIC_REG_ETH_KICK,
          RNIC_ETH_QUEUE_RX },
        { "ETH_ARM tx", RNIC_BAR_REGISTERS, RNIC_REG_ETH_ARM,
          RNIC_ETH_QUEUE_TX },
        { "ETH_ARM rx", RNIC_BAR_REGISTERS, RNIC_REG_ETH_ARM,
          RNIC_ETH_QUEUE_RX },
        { "TEST32", RNIC_BAR_REGISTERS, RNIC_REG_TEST32, 21 },
        { "TEST64", RNIC_BAR_REGISTERS, RNIC_REG_TEST64, 21 },
        { "TEST_IRQ itself", RNIC_BAR_REGISTERS, RNIC_REG_TEST_IRQ,
          w->vector },
        { "TEST_IRQ another", RNIC_BAR_REGISTERS, RNIC_REG_TEST_IRQ, 7 },
        { "TEST_DMA_ADDR", RNIC_BAR_REGISTERS, RNIC_REG_TEST_DMA_ADDR, 4096 },
        { "TEST_DMA_SIZE", RNIC_BAR_REGISTERS, RNIC_REG_TEST_DMA_SIZE, 64 },
        { "TEST_DMA_CTRL", RNIC_BAR_REGISTERS, RNIC_REG_TEST_DMA_CTRL,
          RNIC_TEST_DMA_CLEAR },
        { "a read-only register", RNIC_BAR_REGISTERS, RNIC_REG_MAGIC, 1 },
        { "a hole", RNIC_BAR_REGISTERS, 0xff0, 1 },
    };

    memcpy(t, registers, sizeof(registers));
    return G_N_ELEMENTS(registers);
}

static unsigned add_doorbells(World *w, Target *t)
{
    uint32_t cq = w->c->recv_cq.number, qp = w->c->qp.number;
    const Target doorbells[] = {
        { "SQ doorbell", RNIC_BAR_DOORBELLS, RNIC_DB_SQ, qp },
        { "RQ doorbell", RNIC_BAR_DOORBELLS, RNIC_DB_RQ, qp },
        { "S-RQ doorbell", RNIC_BAR_DOORBELLS, RNIC_DB_SRQ, 1 },
        { "CQ_ARM next", RNIC_BAR_DOORBELLS, RNIC_DB_CQ_ARM,
          cq | RNIC_ARM_NEXT },
        { "CQ_ARM solicited", RNIC_BAR_DOORBELLS, RNIC_DB_CQ_ARM,
          cq | RNIC_ARM_SOLICITED },
        { "hole", RNIC_BAR_DOORBELLS, 0x10, cq },
        { "doorbell of no object", RNIC_BAR_DOORBELLS, RNIC_DB_SQ, 0xffff },
    };

    memcpy(t, doorbells, sizeof(doorbells));
    return G_N_ELEMENTS(doorbells);
}

static void write_entry(World *w, uint32_t vector, uint64_t addr,
                        uint32_t data)
{
    QPCIDevice *dev = w->r->dev;
    uint64_t entry = dev->msix_table_off + vector * PCI_MSIX_ENTRY_SIZE;

    qpci_io_writel(dev, dev->msix_table_bar, entry + PCI_MSIX_ENTRY_LOWER_ADDR,
                   addr);
    qpci_io_writel(dev, dev->msix_table_bar, entry + PCI_MSIX_ENTRY_UPPER_ADDR,
                   addr >> 32);
    qpci_io_writel(dev, dev->msix_table_bar, entry + PCI_MSIX_ENTRY_DATA,
                   data);
}

static void aim(World *w, const Target *t)
{
    QPCIBar bar = t->bar == RNIC_BAR_REGISTERS ? w->r->registers
                                               : w->r->doorbells;

    write_entry(w, w->vector, bar.addr + t->offset, t->data);
}

/* In RAM. */
static uint64_t harmless_target(World *w)
{
    return w->r->msi + RNIC_TEST_PAGE / 2;
}

static void aim_away(World *w)
{
    write_entry(w, w->vector, harmless_target(w), 1);
}

/* --------------------------------------------------------------------- world */

static void create_eth_queue(World *w)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_ETH_QUEUE);
    uint64_t size = RNIC_QUEUE_RECORD_SIZE +
                    64 * sizeof(struct rnic_eth_desc);

    w->eth = rnic_alloc(w->r, size);
    sqe.eth_queue.queue = cpu_to_le32(RNIC_ETH_QUEUE_RX);
    sqe.eth_queue.vector = cpu_to_le32(ETH_VECTOR);
    sqe.eth_queue.depth = cpu_to_le32(64);
    sqe.eth_queue.memory.pages = rnic_pages(w->r, w->eth, size);
    sqe.eth_queue.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    g_assert_cmpuint(rnic_admin(w->r, &sqe, NULL), ==, RNIC_ST_OK);
}

static Rnic *boot_with_netdev(World *w, const char *properties)
{
    g_autofree char *netdev = NULL;
    g_autofree char *all = NULL;
    int fds[2];
    Rnic *r;

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    netdev = g_strdup_printf("-netdev socket,fd=%d,id=net0", fds[1]);
    all = g_strdup_printf(",mpa-rtr=off,netdev=net0%s", properties);
    r = rnic_boot(all, netdev);
    close(fds[1]);
    w->netdev = fds[0];
    return r;
}

static World *world_new(const char *properties, uint32_t vector)
{
    World *w = g_new0(World, 1);
    Connection base = { };

    w->r = boot_with_netdev(w, properties);
    w->vector = vector;
    w->dog = watchdog_new(w->r->qts, HANG_SECONDS,
                          "a vector aimed at the device itself");
    rnic_reset(w->r);
    rnic_enable(w->r, 64, ADMIN_VECTOR, rnic_features(w->r));
    rnic_create_eq(w->r, &w->r->async_eq, RNIC_EQ_ASYNC, ASYNC_VECTOR, 256);
    rnic_create_eq(w->r, &w->r->cm_eq, RNIC_EQ_CM, CM_VECTOR, 64);
    rnic_create_eq(w->r, &w->r->comp_eq, RNIC_EQ_COMPLETION, COMP_VECTOR,
                   256);
    w->r->pd = rnic_alloc_pd(w->r);
    rnic_msix_enable(w->r);
    create_eth_queue(w);
    base.r = w->r;
    w->c = connection_prepare_second(&base, NULL);
    w->closed_port = wire_free_port(2);
    aim_away(w);
    return w;
}

static void world_free(World *w)
{
    connection_free_second(w->c);
    rnic_quit(w->r);
    watchdog_free(w->dog);
    close(w->netdev);
    g_free(w);
}

/* No register has what was written, nothing is reset, nothing is counted. */
static void assert_untouched(World *w, const struct rnic_counters *before)
{
    struct rnic_counters now = rnic_query_counters(w->r);

    g_assert_cmphex(rnic_read32(w->r, RNIC_REG_STATUS), ==,
                    RNIC_STATUS_ENABLED);
    g_assert_cmphex(rnic_read32(w->r, RNIC_REG_TEST32), ==, 0);
    g_assert_cmphex(rnic_read64(w->r, RNIC_REG_TEST64), ==, 0);
    g_assert_cmphex(rnic_read64(w->r, RNIC_REG_TEST_DMA_ADDR), ==, 0);
    g_assert_cmphex(rnic_read32(w->r, RNIC_REG_TEST_DMA_SIZE), ==, 0);
    g_assert_cmphex(rnic_read32(w->r, RNIC_REG_BAD_ACCESSES), ==, 0);
    g_assert_cmphex(rnic_read32(w->r, RNIC_REG_BAD_DOORBELLS), ==, 0);
    g_assert_cmpuint(le32_to_cpu(now.qps), ==, le32_to_cpu(before->qps));
    g_assert_cmpuint(le32_to_cpu(now.cqs), ==, le32_to_cpu(before->cqs));
    g_assert_false(rnic_msix_fired(w->r, 7));
}

/* -------------------------------------------------------- what interrupts */

static void raise_admin(World *w)
{
    struct rnic_admin_sqe nop = rnic_command(RNIC_ADMIN_NOP);

    g_assert_cmpuint(rnic_admin(w->r, &nop, NULL), ==, RNIC_ST_OK);
}

static void prepare_nothing(World *w)
{
}

/* The peer resets the stream: the worker tells. */
static void prepare_async(World *w)
{
    connection_establish(w->c, NULL);
}

static void raise_async(World *w)
{
    wire_abort(w->c->peer);
    w->c->peer = NULL;
    rnic_expect_async(w->r, RNIC_AE_LLP_RESET, w->c->qp.number);
}

static void settle_async(World *w)
{
    connection_recycle(w->c);
    connection_establish(w->c, NULL);
}

/* A receive of a QP in Error is flushed by the worker. */
static void prepare_completion(World *w)
{
    g_assert_cmpuint(rnic_modify_qp_state(w->r, &w->c->qp, RNIC_QPS_ERROR),
                     ==, RNIC_ST_OK);
}

static void raise_completion(World *w)
{
    struct rnic_ceqe event;

    rnic_cq_arm(w->r, &w->c->recv_cq, RNIC_ARM_NEXT);
    rnic_post_recv(w->r, &w->c->qp, 1, 0, NULL);
    rnic_expect_cqe(w->r, &w->c->recv_cq, 1, RNIC_WC_FLUSHED);
    rnic_eq_wait(w->r, &w->r->comp_eq, &event);
}

/* Nothing listens there: the main loop tells. */
static void raise_cm(World *w)
{
    struct rnic_cm_event event;

    g_assert_cmpuint(rnic_try_connect(w->r, &w->c->qp, wire_guest_ip(2),
                                      w->closed_port, 1, 1, 5, NULL, 0), ==,
                     RNIC_ST_OK);
    event = rnic_expect_cm(w->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_REFUSED);
}

static void raise_link(World *w)
{
    bool up = rnic_read32(w->r, RNIC_REG_LINK) & 1;

    qtest_qmp_assert_success(w->r->qts, "{ 'execute': 'set_link', "
                             "'arguments': { 'name': 'net0', 'up': %i } }",
                             !up);
    rnic_expect_async(w->r, RNIC_AE_LINK_CHANGE, 0);
}

static void raise_test(World *w)
{
    rnic_write32(w->r, RNIC_REG_TEST_IRQ, TEST_VECTOR);
}

/* A frame arrives while the receive queue is armed. */
static void raise_ethernet(World *w)
{
    uint8_t frame[64] = { 0, 0, 0, 60, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    uint32_t done = rnic_mem_read32(w->r, w->eth +
                                    offsetof(struct rnic_eth_record, done));
    struct rnic_eth_desc desc = {
        .addr = cpu_to_le64(w->eth + RNIC_TEST_PAGE),
        .length = cpu_to_le32(2048),
    };

    rnic_mem_write(w->r, w->eth + RNIC_QUEUE_RECORD_SIZE +
                   (done & 63) * sizeof(desc), &desc, sizeof(desc));
    rnic_mem_write32(w->r, w->eth, done + 1);
    rnic_mem_write32(w->r, w->eth + offsetof(struct rnic_eth_record, seen),
                     done);
    rnic_write32(w->r, RNIC_REG_ETH_KICK, RNIC_ETH_QUEUE_RX);
    rnic_write32(w->r, RNIC_REG_ETH_ARM, RNIC_ETH_QUEUE_RX);
    g_assert_cmpint(write(w->netdev, frame, sizeof(frame)), ==,
                    sizeof(frame));
    RNIC_UNTIL(w->r, rnic_mem_read32(w->r, w->eth +
                                     offsetof(struct rnic_eth_record, done))
               == done + 1);
}

typedef struct Source {
    uint32_t vector;
    void (*prepare)(World *w);
    void (*raise)(World *w);
    void (*settle)(World *w);   /* ready for another one */
} Source;

static const Source sources[] = {
    { ADMIN_VECTOR, prepare_nothing, raise_admin, prepare_nothing },
    { ASYNC_VECTOR, prepare_async, raise_async, settle_async },
    { COMP_VECTOR, prepare_completion, raise_completion, prepare_nothing },
    { CM_VECTOR, prepare_nothing, raise_cm, prepare_nothing },
    { ASYNC_VECTOR, prepare_nothing, raise_link, prepare_nothing },
    { TEST_VECTOR, prepare_nothing, raise_test, prepare_nothing },
    { ETH_VECTOR, prepare_nothing, raise_ethernet, prepare_nothing },
};

/* The source does raise the vector, and the vector goes where it is aimed. */
static void assert_source_raises(World *w, const Source *source)
{
    rnic_mem_write32(w->r, harmless_target(w), 0);
    source->raise(w);
    RNIC_UNTIL(w->r, rnic_mem_read32(w->r, harmless_target(w)) == 1);
    source->settle(w);
}

static void raise_at_targets(const Source *source, const char *properties)
{
    World *w = world_new(properties, source->vector);
    Target targets[TARGETS_MAX];
    struct rnic_counters before;
    unsigned count;

    source->prepare(w);
    assert_source_raises(w, source);
    before = rnic_query_counters(w->r);
    count = add_registers(w, targets);
    count += add_doorbells(w, targets + count);
    for (unsigned i = 0; i < count; i++) {
        g_test_message("vector %u aimed at %s", w->vector, targets[i].name);
        aim(w, &targets[i]);
        source->raise(w);
        rnic_settle_fast(w->r);
        aim_away(w);
        rnic_assert_alive(w->r);
        assert_untouched(w, &before);
        source->settle(w);
    }
    world_free(w);
}

static void test_source(gconstpointer data)
{
    raise_at_targets(data, "");
}

static void test_source_in_main_loop(gconstpointer data)
{
    raise_at_targets(data, ",io-threads=0");
}

static void add_source(const char *name, const Source *source)
{
    g_autofree char *path = g_strdup_printf("rnic/own-interrupts/%s", name);
    g_autofree char *path_0 = g_strdup_printf("%s-in-main-loop", path);

    qtest_add_data_func(path, source, test_source);
    qtest_add_data_func(path_0, source, test_source_in_main_loop);
}

int main(int argc, char **argv)
{
    static const char *names[] = { "admin", "async-event", "completion-event",
                                   "connection-event", "link", "test-register",
                                   "ethernet" };

    g_test_init(&argc, &argv, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(sources); i++) {
        add_source(names[i], &sources[i]);
    }
    return g_test_run();
}
