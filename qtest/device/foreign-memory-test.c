/*
 * rnic: queues and buffers in memory that is not RAM
 *
 * ROM can be read and not written, another device's registers can be neither,
 * and a hole is nothing at all. What the device cannot do there is a failed DMA
 * with the error that the manual gives it. QEMU answers throughout, and nothing
 * of the other device is touched.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include <glib/gstdio.h>
#include "hw/pci/pci_regs.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/watchdog.h"

enum {
    OTHER_SLOT = RNIC_TEST_SLOT + 1,
    ROM_SIZE = 64 * 1024,
    HANG_SECONDS = 25,
    /* Pages of the ROM */
    ROM_ZERO = 0,
    ROM_ONE_POSTED = 1,         /* a record whose producer index is 1 */
    ROM_DATA = 2,
    ROM_PAGE_LIST = 3,
};

/* Every x86 guest has it at the end of the first 4 GiB. */
#define BIOS_PAGE 0xfffff000ULL

typedef struct World {
    Rnic *r;
    Rnic *other;                /* its registers are what is not memory */
    uint64_t rom;               /* the other device's option ROM */
    char *romfile;
    Watchdog *dog;
    uint8_t data[RNIC_TEST_PAGE];
} World;

static void world_write_rom(World *w, uint64_t first_page)
{
    g_autofree uint8_t *rom = g_malloc0(ROM_SIZE);

    w->romfile = g_strdup_printf("%s/rnic-rom-%d", g_get_tmp_dir(),
                                 (int)getpid());
    stl_le_p(rom + ROM_ONE_POSTED * RNIC_TEST_PAGE, 1);
    rnic_pattern(w->data, sizeof(w->data), 9);
    memcpy(rom + ROM_DATA * RNIC_TEST_PAGE, w->data, sizeof(w->data));
    for (int i = 0; i < 16; i++) {
        stq_le_p(rom + ROM_PAGE_LIST * RNIC_TEST_PAGE + 8 * i,
                 first_page + i * RNIC_TEST_PAGE);
    }
    g_assert_true(g_file_set_contents(w->romfile, (char *)rom, ROM_SIZE,
                                      NULL));
}

static void world_map_rom(World *w)
{
    w->rom = QEMU_ALIGN_UP(w->r->pci->mmio_alloc_ptr, ROM_SIZE);
    w->r->pci->mmio_alloc_ptr = w->rom + ROM_SIZE;
    qpci_config_writel(w->other->dev, PCI_ROM_ADDRESS,
                       w->rom | PCI_ROM_ADDRESS_ENABLE);
    g_assert_cmphex(qtest_readl(w->r->qts, w->rom + RNIC_TEST_PAGE), ==, 1);
}

/* Where the pages of ROM_PAGE_LIST are: RAM that nobody else uses. */
#define LISTED_MEMORY (160 * 1024 * 1024)

static World *world_new(void)
{
    World *w = g_new0(World, 1);
    g_autofree char *arguments = NULL;

    world_write_rom(w, LISTED_MEMORY);
    arguments = g_strdup_printf("-device rnic,id=other,addr=%d,romfile=%s",
                                OTHER_SLOT, w->romfile);
    w->r = rnic_boot(",mpa-rtr=off", arguments);
    w->other = rnic_sibling(w->r, OTHER_SLOT);
    world_map_rom(w);
    w->dog = watchdog_new(w->r->qts, HANG_SECONDS, "memory that is not RAM");
    rnic_up(w->r);
    return w;
}

static void world_free(World *w)
{
    rnic_assert_alive(w->r);
    g_assert_cmphex(rnic_read32(w->other, RNIC_REG_BAD_ACCESSES), ==, 0);
    g_assert_cmphex(rnic_read32(w->other, RNIC_REG_BAD_DOORBELLS), ==, 0);
    g_assert_cmphex(rnic_read32(w->other, RNIC_REG_STATUS), ==, 0);
    g_assert_cmphex(rnic_read32(w->other, RNIC_REG_TEST32), ==, 0);
    rnic_sibling_free(w->other);
    rnic_quit(w->r);
    watchdog_free(w->dog);
    g_unlink(w->romfile);
    g_free(w->romfile);
    g_free(w);
}

static uint64_t rom_page(World *w, unsigned page)
{
    return w->rom + page * RNIC_TEST_PAGE;
}

/* What can be written: every kind of memory that is not RAM. */
typedef struct Place {
    const char *name;
    uint64_t address;
} Place;

enum { PLACES = 4 };

static void world_places(World *w, Place places[PLACES])
{
    places[0] = (Place) { "the BIOS", BIOS_PAGE };
    places[1] = (Place) { "an option ROM", rom_page(w, ROM_ZERO) };
    places[2] = (Place) { "registers", w->other->registers.addr };
    places[3] = (Place) { "a hole", RNIC_TEST_NOWHERE };
}

static struct rnic_queue_memory one_page(uint64_t address)
{
    return (struct rnic_queue_memory) {
        .pages.addr = cpu_to_le64(address),
        .pages.count = cpu_to_le32(1),
        .pages.page_shift = 12,
        .ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE),
    };
}

static uint32_t create_ok(Rnic *r, struct rnic_admin_sqe *sqe)
{
    struct rnic_admin_cqe cqe;

    g_assert_cmpuint(rnic_admin(r, sqe, &cqe), ==, RNIC_ST_OK);
    return le32_to_cpu(cqe.number);
}

static RnicCq create_cq_at(Rnic *r, uint64_t address, uint32_t eqn)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_CQ);
    RnicCq cq = { .depth = 16, .memory = address };

    sqe.create_cq.depth = cpu_to_le32(cq.depth);
    sqe.create_cq.eqn = cpu_to_le32(eqn);
    sqe.create_cq.memory = one_page(address);
    cq.number = create_ok(r, &sqe);
    return cq;
}

static void create_eq_at(Rnic *r, RnicEq *eq, uint8_t eq_class,
                         uint64_t address)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_EQ);

    sqe.create_eq.eq_class = eq_class;
    sqe.create_eq.vector = cpu_to_le32(0);
    sqe.create_eq.depth = cpu_to_le32(2);
    sqe.create_eq.memory = one_page(address);
    eq->number = create_ok(r, &sqe);
}

/* CQ_ERROR of the CQ, once; events of QPs that use it are no matter. */
static void expect_cq_error(Rnic *r, uint32_t cqn)
{
    struct rnic_aeqe aeqe;
    unsigned errors = 0;

    RNIC_UNTIL(r, rnic_eq_poll(r, &r->async_eq, &aeqe));
    do {
        if (le16_to_cpu(aeqe.event) == RNIC_AE_CQ_ERROR) {
            g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_CQ);
            g_assert_cmphex(le32_to_cpu(aeqe.number), ==, cqn);
            errors++;
        } else {
            g_assert_cmpint(aeqe.resource, ==, RNIC_RESOURCE_QP);
        }
        rnic_settle(r);
    } while (rnic_eq_poll(r, &r->async_eq, &aeqe));
    g_assert_cmpuint(errors, ==, 1);
}

static void expect_fatal(Rnic *r, uint32_t health)
{
    RNIC_UNTIL(r, rnic_read32(r, RNIC_REG_STATUS) & RNIC_STATUS_FATAL);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_HEALTH), ==, health);
    rnic_assert_alive(r);
    rnic_up(r);
}

/* --------------------------------------------------------- completion queue */

static void flush_into(World *w, const Place *place)
{
    Rnic *r = w->r;
    RnicCq cq = create_cq_at(r, place->address, RNIC_NO_VECTOR);
    RnicQpInit init = rnic_qp_default(r, &cq, &cq);
    RnicQp qp;

    g_test_message("CQ in %s", place->name);
    rnic_create_qp(r, &qp, &init);
    rnic_post_recv(r, &qp, 1, 0, NULL);
    rnic_post_recv(r, &qp, 2, 0, NULL);
    g_assert_cmpuint(rnic_modify_qp_state(r, &qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    expect_cq_error(r, cq.number);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_QP, qp.number),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_CQ, cq.number),
                     ==, RNIC_ST_OK);
}

static void test_cq(void)
{
    World *w = world_new();
    Place places[PLACES];

    world_places(w, places);
    for (int i = 0; i < PLACES; i++) {
        flush_into(w, &places[i]);
    }
    world_free(w);
}

/* The way back to Idle flushes once more, while the main loop waits for it. */
static void test_cq_from_error_to_idle(void)
{
    World *w = world_new();
    Rnic *r = w->r;
    RnicCq cq = create_cq_at(r, BIOS_PAGE, RNIC_NO_VECTOR);
    RnicQpInit init = rnic_qp_default(r, &cq, &cq);
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED };
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
    uint16_t status;
    RnicQp qp;

    rnic_create_qp(r, &qp, &init);
    g_assert_cmpuint(rnic_modify_qp_state(r, &qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
    rnic_settle(r);
    rnic_store_wqe(r, &qp, wqe, rnic_encode_wr(&wr, wqe));
    rnic_mem_write32(r, qp.memory, qp.sq_producer);
    status = rnic_modify_qp_state(r, &qp, RNIC_QPS_IDLE);
    g_assert_true(status == RNIC_ST_OK || status == RNIC_ST_STILL_FLUSHING);
    rnic_assert_alive(r);
    expect_cq_error(r, cq.number);
    world_free(w);
}

/* The peer goes, too: Terminate ends. */
static void end_stream(Connection *c)
{
    wire_close(c->peer);
    c->peer = NULL;
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
}

/* A QP in RTS is terminated, as with any dead CQ. */
static void test_cq_of_a_stream(void)
{
    World *w = world_new();
    Connection base = { .r = w->r };
    Connection *c = connection_prepare_second(&base, NULL);
    RnicCq cq = create_cq_at(w->r, rom_page(w, ROM_ZERO), RNIC_NO_VECTOR);
    RnicQpInit init = rnic_qp_default(w->r, &cq, &c->recv_cq);
    RnicQp first = c->qp;
    uint8_t got[100];

    rnic_create_qp(w->r, &c->qp, &init);
    connection_establish(c, NULL);
    connection_post(c, RNIC_SQ_SEND, 1, 0, 100);
    /* It is sent; then its completion fails. */
    wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
    wire_expect_terminate(c->peer, 0x0207);
    expect_cq_error(w->r, cq.number);
    end_stream(c);
    c->qp = first;
    connection_free_second(c);
    world_free(w);
}

/* -------------------------------------------------------------- event queues */

static void arm_and_complete(Rnic *r, uint32_t eqn)
{
    RnicQpInit init;
    RnicCq cq;
    RnicQp qp;

    rnic_create_cq(r, &cq, 16, eqn);
    init = rnic_qp_default(r, &cq, &cq);
    rnic_create_qp(r, &qp, &init);
    rnic_post_recv(r, &qp, 1, 0, NULL);
    rnic_cq_arm(r, &cq, RNIC_ARM_NEXT);
    g_assert_cmpuint(rnic_modify_qp_state(r, &qp, RNIC_QPS_ERROR), ==,
                     RNIC_ST_OK);
}

static void test_completion_eq(void)
{
    World *w = world_new();
    Place places[PLACES];
    RnicEq eq;

    world_places(w, places);
    for (int i = 0; i < PLACES; i++) {
        g_test_message("completion EQ in %s", places[i].name);
        create_eq_at(w->r, &eq, RNIC_EQ_COMPLETION, places[i].address);
        arm_and_complete(w->r, eq.number);
        expect_fatal(w->r, RNIC_HEALTH_EQ_DMA);
    }
    world_free(w);
}

/* Without the queue of the class that rnic_up() makes. */
static void replace_eq(Rnic *r, RnicEq *eq, uint8_t eq_class, uint64_t address)
{
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_EQ, eq->number),
                     ==, RNIC_ST_OK);
    create_eq_at(r, eq, eq_class, address);
}

/* The event is that of a CQ in a hole. */
static void test_async_eq(void)
{
    World *w = world_new();
    Place places[PLACES];

    world_places(w, places);
    for (int i = 0; i < PLACES; i++) {
        RnicCq cq = create_cq_at(w->r, RNIC_TEST_NOWHERE, RNIC_NO_VECTOR);
        RnicQpInit init = rnic_qp_default(w->r, &cq, &cq);
        RnicQp qp;

        g_test_message("asynchronous EQ in %s", places[i].name);
        replace_eq(w->r, &w->r->async_eq, RNIC_EQ_ASYNC, places[i].address);
        rnic_create_qp(w->r, &qp, &init);
        rnic_post_recv(w->r, &qp, 1, 0, NULL);
        rnic_modify_qp_state(w->r, &qp, RNIC_QPS_ERROR);
        expect_fatal(w->r, RNIC_HEALTH_EQ_DMA);
    }
    world_free(w);
}

static void test_cm_eq(void)
{
    World *w = world_new();
    Place places[PLACES];

    world_places(w, places);
    for (int i = 0; i < PLACES; i++) {
        RnicQpInit init;
        RnicCq cq;
        RnicQp qp;

        g_test_message("connection EQ in %s", places[i].name);
        replace_eq(w->r, &w->r->cm_eq, RNIC_EQ_CM, places[i].address);
        rnic_create_cq(w->r, &cq, 16, RNIC_NO_VECTOR);
        init = rnic_qp_default(w->r, &cq, &cq);
        rnic_create_qp(w->r, &qp, &init);
        /* Nothing listens there: REFUSED. */
        g_assert_cmpuint(rnic_try_connect(w->r, &qp, wire_guest_ip(2),
                                          wire_free_port(2), 1, 1, 5, NULL,
                                          0), ==, RNIC_ST_OK);
        expect_fatal(w->r, RNIC_HEALTH_EQ_DMA);
    }
    world_free(w);
}

/* -------------------------------------------------------------- admin queue */

static void enable_with_rings(Rnic *r, uint64_t sq, uint64_t cq)
{
    rnic_reset(r);
    rnic_write64(r, RNIC_REG_ADMIN_SQ_BASE, sq);
    rnic_write64(r, RNIC_REG_ADMIN_CQ_BASE, cq);
    rnic_write32(r, RNIC_REG_ADMIN_DEPTH, 8);
    rnic_write32(r, RNIC_REG_ADMIN_VECTOR, 0);
    rnic_write32(r, RNIC_REG_CONTROL, RNIC_CONTROL_ENABLE);
    rnic_write32(r, RNIC_REG_ADMIN_TAIL, 1);
}

static void test_admin_completions(void)
{
    World *w = world_new();
    Place places[PLACES];
    uint64_t nop = rnic_alloc(w->r, RNIC_TEST_PAGE);

    world_places(w, places);
    for (int i = 0; i < PLACES; i++) {
        g_test_message("admin completions in %s", places[i].name);
        enable_with_rings(w->r, nop, places[i].address);
        expect_fatal(w->r, RNIC_HEALTH_ADMIN_CQ_DMA);
    }
    world_free(w);
}

static void test_admin_commands(void)
{
    World *w = world_new();
    uint64_t answers = rnic_alloc(w->r, RNIC_TEST_PAGE);

    enable_with_rings(w->r, w->other->registers.addr, answers);
    expect_fatal(w->r, RNIC_HEALTH_ADMIN_SQ_DMA);
    /* A page of zeros is a NOP, also in ROM. */
    rnic_mem_fill(w->r, answers, 0, RNIC_TEST_PAGE);
    enable_with_rings(w->r, rom_page(w, ROM_ZERO), answers);
    RNIC_UNTIL(w->r, rnic_mem_read32(w->r, answers + 60) & RNIC_EQE_PHASE);
    g_assert_cmphex(rnic_read32(w->r, RNIC_REG_STATUS), ==,
                    RNIC_STATUS_ENABLED);
    rnic_up(w->r);
    world_free(w);
}

/* Bulk data the device writes, in a command and in the DMA test. */
static void test_bulk_data(void)
{
    World *w = world_new();
    Place places[PLACES];

    world_places(w, places);
    for (int i = 0; i < PLACES; i++) {
        struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_QUERY_DEVICE);

        g_test_message("bulk data in %s", places[i].name);
        sqe.bulk_addr = cpu_to_le64(places[i].address);
        sqe.bulk_length = cpu_to_le32(256);
        g_assert_cmpuint(rnic_admin(w->r, &sqe, NULL), ==, RNIC_ST_DMA_ERROR);
        rnic_write64(w->r, RNIC_REG_TEST_DMA_ADDR, places[i].address);
        rnic_write32(w->r, RNIC_REG_TEST_DMA_SIZE, 64);
        rnic_write32(w->r, RNIC_REG_TEST_DMA_CTRL, RNIC_TEST_DMA_FILL);
        g_assert_cmpuint(rnic_read32(w->r, RNIC_REG_TEST_DMA_STATUS), ==,
                         RNIC_TEST_DMA_FAULT);
    }
    world_free(w);
}

/* -------------------------------------------------------------- work queues */

/*
 * A connected QP whose record is at @record and whose rings are in RAM. The
 * ring of the SQ is in the second page, that of the RQ in the third.
 */
static void create_qp_with_record(World *w, Connection *c, uint64_t record)
{
    RnicQpInit init = rnic_qp_default(w->r, &c->send_cq, &c->recv_cq);
    uint64_t list = rnic_alloc(w->r, RNIC_TEST_PAGE);
    struct rnic_admin_sqe sqe;

    init.rq_shift = 5;
    init.max_sge = 1;
    sqe = rnic_qp_command(w->r, &init, &c->qp);
    c->qp.memory = rnic_alloc(w->r, 3 * RNIC_TEST_PAGE);
    c->qp.sq_offset = RNIC_TEST_PAGE;
    c->qp.rq_offset = 2 * RNIC_TEST_PAGE;
    for (int i = 0; i < 3; i++) {
        uint64_t entry = cpu_to_le64(i == 0 ? record : c->qp.memory +
                                     i * RNIC_TEST_PAGE);

        rnic_mem_write(w->r, list + 8 * i, &entry, sizeof(entry));
    }
    sqe.create_qp.memory.pages = (struct rnic_page_list) {
        .addr = cpu_to_le64(list),
        .count = cpu_to_le32(3),
        .level = RNIC_PAGE_LIST_DIRECT,
        .page_shift = 12,
    };
    sqe.create_qp.memory.ring_offset[0] = cpu_to_le32(c->qp.sq_offset);
    sqe.create_qp.memory.ring_offset[1] = cpu_to_le32(c->qp.rq_offset);
    c->qp.number = create_ok(w->r, &sqe);
}

/* As connection_establish(); the QP does not stay in RTS. */
static void establish_doomed(Connection *c)
{
    WireMpa request, reply;
    uint16_t port;
    int listener = wire_listen(2, &port);

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port, 4,
                                      4, 5, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    close(listener);
    wire_mpa_get(c->peer, &request);
    reply = wire_mpa_reply(&request);
    wire_mpa_put(c->peer, &reply);
    g_assert_cmpint(rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY).status, ==,
                    RNIC_CM_OK);
}

/* One WR is posted; the SQ cannot say that it has seen it, but may have sent it. */
static void break_qp(World *w, uint64_t record, bool sends)
{
    Connection base = { .r = w->r };
    Connection *c = connection_prepare_second(&base, NULL);
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED };
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    g_assert_cmpuint(rnic_admin_object(w->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
    create_qp_with_record(w, c, record);
    rnic_store_wqe(w->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
    establish_doomed(c);
    rnic_doorbell(w->r, 0, RNIC_DB_SQ, c->qp.number);
    rnic_expect_async(w->r, RNIC_AE_QP_CATASTROPHIC, c->qp.number);
    if (sends) {
        wire_get_send(c->peer, WIRE_SEND, 1, NULL, 0);
    }
    wire_expect_terminate(c->peer, 0x0207);
    end_stream(c);
    connection_drain_events(c);
    rnic_assert_alive(w->r);
    connection_free_second(c);
}

static void test_qp_record(void)
{
    World *w = world_new();

    break_qp(w, rom_page(w, ROM_ONE_POSTED), true);
    break_qp(w, w->other->registers.addr, false);
    break_qp(w, RNIC_TEST_NOWHERE, false);
    world_free(w);
}

/* The S-RQ cannot say that it was taken from. */
static void break_srq(World *w, uint64_t record)
{
    Connection base = { .r = w->r };
    struct rnic_admin_sqe sqe;
    RnicSrqInit init = rnic_srq_default(w->r);
    RnicSrq srq;
    Connection *c;

    sqe = rnic_srq_command(w->r, &init, &srq);
    sqe.create_srq.depth = cpu_to_le32(16);
    sqe.create_srq.memory = one_page(record);
    srq.number = create_ok(w->r, &sqe);
    c = connection_prepare_second(&base, &(ConnectionOptions) { .srq = &srq });
    connection_establish(c, NULL);
    wire_put_send(c->peer, WIRE_SEND, 0, "octets", 6);
    rnic_expect_async(w->r, RNIC_AE_SRQ_CATASTROPHIC, srq.number);
    rnic_expect_async(w->r, RNIC_AE_SRQ_QP_ERROR, c->qp.number);
    end_stream(c);
    connection_drain_events(c);
    connection_free_second(c);
}

static void test_srq_record(void)
{
    World *w = world_new();

    break_srq(w, rom_page(w, ROM_ONE_POSTED));
    break_srq(w, w->other->registers.addr);
    break_srq(w, RNIC_TEST_NOWHERE);
    world_free(w);
}

/* ------------------------------------------------------------ regions, lists */

static void register_page(World *w, RnicMr *mr, uint64_t address)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);

    *mr = (RnicMr) { .va = address, .length = RNIC_TEST_PAGE };
    sqe.register_mr.pdn = cpu_to_le32(w->r->pd);
    sqe.register_mr.va = cpu_to_le64(address);
    sqe.register_mr.length = cpu_to_le64(RNIC_TEST_PAGE);
    sqe.register_mr.pages = one_page(address).pages;
    sqe.register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    mr->stag = create_ok(w->r, &sqe);
}

/* ROM is sent and read by the peer as RAM is; nothing is placed there. */
static void test_region_in_rom(void)
{
    World *w = world_new();
    Connection base = { .r = w->r };
    Connection *c = connection_prepare_second(&base, NULL);
    uint8_t got[RNIC_TEST_PAGE];
    RnicWr wr;

    register_page(w, &c->mr, rom_page(w, ROM_DATA));
    connection_establish(c, NULL);
    wr = connection_wr(c, RNIC_SQ_SEND, 1, 0, RNIC_TEST_PAGE);
    rnic_post_send(w->r, &c->qp, &wr);
    wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), w->data, sizeof(w->data));
    rnic_expect_cqe(w->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    wire_put_read_request(c->peer, &(WireRead) {
        .size = RNIC_TEST_PAGE, .source_stag = c->mr.stag,
        .source_to = c->mr.va });
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), w->data, sizeof(w->data));
    wire_put_write(c->peer, c->mr.stag, c->mr.va, "octets", 6);
    rnic_expect_async(w->r, RNIC_AE_QP_CATASTROPHIC, c->qp.number);
    wire_expect_terminate(c->peer, 0x0207);
    rnic_mem_read(w->r, c->mr.va, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), w->data, sizeof(w->data));
    connection_recycle(c);
    connection_free_second(c);
    world_free(w);
}

/* A buffer in another device's registers: nothing is read of it or placed. */
static void test_region_in_registers(void)
{
    World *w = world_new();
    Connection base = { .r = w->r };
    Connection *c = connection_prepare_second(&base, NULL);
    uint32_t values[] = { RNIC_SQ_SEND, RNIC_SQ_RDMA_WRITE };
    WireRead read;

    register_page(w, &c->mr, w->other->registers.addr);
    for (int i = 0; i < G_N_ELEMENTS(values); i++) {
        connection_establish(c, NULL);
        connection_post(c, values[i], 1, 0, 100);
        rnic_expect_cqe(w->r, &c->send_cq, 1, RNIC_WC_QP_CATASTROPHIC);
        wire_expect_terminate(c->peer, 0x0000);
        connection_recycle(c);
    }

    connection_establish(c, NULL);
    wire_put_write(c->peer, c->mr.stag, c->mr.va + RNIC_REG_TEST32, "octets",
                   6);
    rnic_expect_async(w->r, RNIC_AE_QP_CATASTROPHIC, c->qp.number);
    wire_expect_terminate(c->peer, 0x0207);
    connection_recycle(c);

    connection_establish(c, NULL);
    connection_recv(c, 1, RNIC_REG_TEST32, 6);
    wire_put_send(c->peer, WIRE_SEND, 0, "octets", 6);
    rnic_expect_cqe(w->r, &c->recv_cq, 1, RNIC_WC_QP_CATASTROPHIC);
    wire_expect_terminate(c->peer, 0x0000);
    rnic_expect_no_async(w->r);
    connection_recycle(c);

    connection_establish(c, NULL);
    connection_post(c, RNIC_SQ_RDMA_READ, 1, RNIC_REG_TEST32, 6);
    wire_get_read_request(c->peer, 1, &read);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, "octets", 6);
    rnic_expect_cqe(w->r, &c->send_cq, 1, RNIC_WC_QP_CATASTROPHIC);
    wire_expect_terminate(c->peer, 0x0000);
    rnic_expect_no_async(w->r);
    connection_recycle(c);

    connection_establish(c, NULL);
    wire_put_read_request(c->peer, &(WireRead) {
        .size = 100, .source_stag = c->mr.stag, .source_to = c->mr.va });
    rnic_expect_async(w->r, RNIC_AE_QP_CATASTROPHIC, c->qp.number);
    wire_expect_terminate(c->peer, 0x0207);
    connection_recycle(c);
    connection_free_second(c);
    world_free(w);
    rnic_shows("V9.5.2-4");
}

/* The first 8 octets are for RAM, the others for registers. */
static void half_reachable(const Connection *c, const RnicMr *registers,
                           struct rnic_sge *sge)
{
    sge[0] = rnic_sge(&c->mr, 0, 8);
    sge[1] = rnic_sge(registers, RNIC_REG_TEST32, 8);
}

static const uint8_t halves[16] = "octets,more octe";

static void put_half(Connection *c, unsigned half)
{
    WireSegment segment = {
        .last = half == 1, .ddp_version = 1, .rdmap_version = 1,
        .opcode = WIRE_SEND, .msn = 1, .mo = half * 8,
        .payload = (void *)(halves + half * 8), .length = 8,
    };

    wire_put_segment(c->peer, &segment);
}

static bool first_half_is_there(Connection *c)
{
    uint8_t got[8];

    connection_peek(c, 0, got, sizeof(got));
    return memcmp(got, halves, sizeof(got)) == 0;
}

/* The second FPDU of a Send cannot be placed: one CQE says so, the other WR is flushed. */
static void test_second_half_of_send(void)
{
    World *w = world_new();
    Connection base = { .r = w->r };
    RnicSrqInit init = rnic_srq_default(w->r);
    RnicSrq srq;

    rnic_create_srq(w->r, &srq, &init);
    for (int shared = 0; shared < 2; shared++) {
        ConnectionOptions options = { .srq = shared ? &srq : NULL };
        Connection *c = connection_prepare_second(&base, &options);
        struct rnic_sge sge[2];
        RnicMr registers;

        register_page(w, &registers, w->other->registers.addr);
        half_reachable(c, &registers, sge);
        connection_establish(c, NULL);
        for (uint64_t id = 1; id <= 2; id++) {
            if (shared) {
                rnic_post_srq_recv(w->r, &srq, id, 2, sge);
            } else {
                rnic_post_recv(w->r, &c->qp, id, 2, sge);
            }
        }
        put_half(c, 0);
        RNIC_UNTIL(w->r, first_half_is_there(c));
        rnic_settle(w->r);
        rnic_expect_no_cqe(w->r, &c->recv_cq);
        put_half(c, 1);
        rnic_expect_cqe(w->r, &c->recv_cq, 1, RNIC_WC_QP_CATASTROPHIC);
        wire_expect_terminate(c->peer, 0x0000);
        wire_shutdown(c->peer);
        if (!shared) {
            rnic_expect_cqe(w->r, &c->recv_cq, 2, RNIC_WC_FLUSHED);
        }
        rnic_wait_qp_state(w->r, &c->qp, RNIC_QPS_ERROR);
        rnic_expect_no_cqe(w->r, &c->recv_cq);
        rnic_expect_no_async(w->r);
        connection_drain_events(c);
        connection_free_second(c);
    }
    rnic_assert_alive(w->r);
    world_free(w);
    rnic_shows("V9.5.2-4");
}

/* The second of a Read's sinks: the whole WR has one CQE, those behind it are flushed. */
static void test_second_sink_of_read(void)
{
    World *w = world_new();
    Connection base = { .r = w->r };
    ConnectionOptions options = {
        .enables = RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE |
                   RNIC_QP_READ_LIST };
    Connection *c = connection_prepare_second(&base, &options);
    RnicWr wr = connection_wr(c, RNIC_SQ_RDMA_READ, 1, 0, 0);
    RnicMr registers;
    WireRead read[3];
    uint8_t got[8];

    register_page(w, &registers, w->other->registers.addr);
    half_reachable(c, &registers, wr.sge);
    wr.num_sge = 2;
    connection_establish(c, NULL);
    rnic_post_send(w->r, &c->qp, &wr);
    connection_post(c, RNIC_SQ_RDMA_READ, 2, 64, 8);
    connection_post(c, RNIC_SQ_SEND, 3, 0, 8);
    for (uint32_t i = 0; i < 3; i++) {
        wire_get_read_request(c->peer, i + 1, &read[i]);
    }
    wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
    for (int half = 0; half < 2; half++) {
        wire_put_read_response(c->peer, read[half].sink_stag, read[half].sink_to,
                               halves + half * 8, 8);
    }
    rnic_expect_cqe(w->r, &c->send_cq, 1, RNIC_WC_QP_CATASTROPHIC);
    rnic_expect_cqe(w->r, &c->send_cq, 2, RNIC_WC_FLUSHED);
    wire_expect_terminate(c->peer, 0x0000);
    wire_shutdown(c->peer);
    rnic_expect_cqe(w->r, &c->send_cq, 3, RNIC_WC_FLUSHED);
    g_assert_true(first_half_is_there(c));
    rnic_wait_qp_state(w->r, &c->qp, RNIC_QPS_ERROR);
    rnic_expect_no_cqe(w->r, &c->send_cq);
    rnic_expect_no_async(w->r);
    connection_drain_events(c);
    connection_free_second(c);
    world_free(w);
    rnic_shows("V9.5.2-4");
}

/* A page list may be in ROM, and nowhere else that is not RAM. */
static void test_page_lists(void)
{
    World *w = world_new();
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);

    sqe.register_mr.pdn = cpu_to_le32(w->r->pd);
    sqe.register_mr.length = cpu_to_le64(16 * RNIC_TEST_PAGE);
    sqe.register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    sqe.register_mr.pages = (struct rnic_page_list) {
        .addr = cpu_to_le64(rom_page(w, ROM_PAGE_LIST)),
        .count = cpu_to_le32(16),
        .level = RNIC_PAGE_LIST_DIRECT,
        .page_shift = 12,
    };
    create_ok(w->r, &sqe);
    sqe.register_mr.pages.addr = cpu_to_le64(w->other->registers.addr);
    g_assert_cmpuint(rnic_admin(w->r, &sqe, NULL), ==, RNIC_ST_DMA_ERROR);
    sqe.register_mr.pages.addr = cpu_to_le64(RNIC_TEST_NOWHERE);
    g_assert_cmpuint(rnic_admin(w->r, &sqe, NULL), ==, RNIC_ST_DMA_ERROR);
    world_free(w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/queues-in-rom/cq", test_cq);
    qtest_add_func("rnic/queues-in-rom/cq-from-error-to-idle",
                   test_cq_from_error_to_idle);
    qtest_add_func("rnic/queues-in-rom/cq-of-a-stream", test_cq_of_a_stream);
    qtest_add_func("rnic/queues-in-rom/completion-eq", test_completion_eq);
    qtest_add_func("rnic/queues-in-rom/async-eq", test_async_eq);
    qtest_add_func("rnic/queues-in-rom/cm-eq", test_cm_eq);
    qtest_add_func("rnic/queues-in-rom/admin-completions",
                   test_admin_completions);
    qtest_add_func("rnic/queues-in-rom/admin-commands", test_admin_commands);
    qtest_add_func("rnic/queues-in-rom/bulk-data", test_bulk_data);
    qtest_add_func("rnic/queues-in-rom/qp-record", test_qp_record);
    qtest_add_func("rnic/queues-in-rom/srq-record", test_srq_record);
    qtest_add_func("rnic/queues-in-rom/region", test_region_in_rom);
    qtest_add_func("rnic/queues-in-registers/region",
                   test_region_in_registers);
    qtest_add_func("rnic/queues-in-registers/second-half-of-send",
                   test_second_half_of_send);
    qtest_add_func("rnic/queues-in-registers/second-sink-of-read",
                   test_second_sink_of_read);
    qtest_add_func("rnic/queues-in-rom/page-lists", test_page_lists);
    return g_test_run();
}
