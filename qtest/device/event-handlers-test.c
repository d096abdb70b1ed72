/*
 * rnic: the handler of an event queue is replaced, and cleared
 *
 * The identifier of a handler is the event queue's number, its address what the
 * guest has put into the MSI-X table for the queue's vector: a handler is replaced
 * by another address, and cleared by a mask. CQs stay attached meanwhile.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "hw/pci/pci_regs.h"

#include "tests/qtest/rnic/lib/connection.h"

enum { HANDLER_A = 0xaaaa0001, HANDLER_B = 0xbbbb0002 };

typedef struct Handlers {
    Connection *c;
    uint64_t a, b;              /* where the interrupts of either arrive */
    uint64_t wr_id;
} Handlers;

static void set_handler_of(Handlers *h, uint32_t vector, uint64_t address,
                           uint32_t data)
{
    QPCIDevice *dev = h->c->r->dev;
    uint64_t entry = dev->msix_table_off + vector * PCI_MSIX_ENTRY_SIZE;

    qpci_io_writel(dev, dev->msix_table_bar, entry + PCI_MSIX_ENTRY_LOWER_ADDR,
                   address);
    qpci_io_writel(dev, dev->msix_table_bar, entry + PCI_MSIX_ENTRY_DATA,
                   data);
}

static void set_handler(Handlers *h, uint64_t address, uint32_t data)
{
    set_handler_of(h, h->c->r->comp_eq.vector, address, data);
}

static Handlers handlers_new(void)
{
    Handlers h = { .c = connection_new(NULL) };

    rnic_msix_enable(h.c->r);
    h.a = rnic_alloc(h.c->r, RNIC_TEST_PAGE);
    h.b = h.a + 64;
    set_handler(&h, h.a, HANDLER_A);
    return h;
}

/* A completion that the CQ is armed for; it can be polled. */
static void complete(Handlers *h)
{
    Connection *c = h->c;

    rnic_cq_arm(c->r, &c->recv_cq, RNIC_ARM_NEXT);
    connection_recv(c, ++h->wr_id, 0, 8);
    wire_put_send(c->peer, WIRE_SEND, 0, "12345678", 8);
    rnic_expect_cqe(c->r, &c->recv_cq, h->wr_id, RNIC_WC_SUCCESS);
}

/* Only this one is called, with an event of the CQ. */
static void expect_called(Handlers *h, uint64_t handler, uint32_t data)
{
    uint64_t other = handler == h->a ? h->b : h->a;
    struct rnic_ceqe event;
    Rnic *r = h->c->r;

    rnic_eq_wait(r, &r->comp_eq, &event);
    g_assert_cmphex(le32_to_cpu(event.cqn), ==, h->c->recv_cq.number);
    RNIC_UNTIL(r, rnic_mem_read32(r, handler) == data);
    rnic_mem_write32(r, handler, 0);
    rnic_settle(r);
    g_assert_cmphex(rnic_mem_read32(r, other), ==, 0);
    g_assert_false(rnic_msix_fired(r, r->comp_eq.vector));
}

static void expect_none_called(Handlers *h)
{
    Rnic *r = h->c->r;

    rnic_settle(r);
    g_assert_cmphex(rnic_mem_read32(r, h->a), ==, 0);
    g_assert_cmphex(rnic_mem_read32(r, h->b), ==, 0);
}

static void test_replaced(void)
{
    Handlers h = handlers_new();
    Rnic *r = h.c->r;
    struct rnic_ceqe event;

    for (int round = 0; round < 3; round++) {
        set_handler(&h, h.a, HANDLER_A);
        complete(&h);
        expect_called(&h, h.a, HANDLER_A);
        set_handler(&h, h.b, HANDLER_B);
        complete(&h);
        expect_called(&h, h.b, HANDLER_B);
    }
    /* Cleared: no call; what the CQ has is there all the same. */
    rnic_msix_mask(r, r->comp_eq.vector, true);
    complete(&h);
    complete(&h);
    expect_none_called(&h);
    while (rnic_eq_poll(r, &r->comp_eq, &event)) {
        g_assert_cmphex(le32_to_cpu(event.cqn), ==, h.c->recv_cq.number);
    }
    /* A new one is told of what comes, and what came is pending in PCI's sense. */
    set_handler(&h, h.a, HANDLER_A);
    rnic_msix_mask(r, r->comp_eq.vector, false);
    rnic_settle(r);
    rnic_mem_write32(r, h.a, 0);
    complete(&h);
    expect_called(&h, h.a, HANDLER_A);
    connection_free(h.c);
    rnic_shows("V9.4.1-3");
}

/* A Write that is refused: an event of the QP. */
static void refuse_write(Connection *c)
{
    wire_put_write(c->peer, 0x77777700, 0, "x", 1);
    wire_expect_terminate(c->peer, 0x1100);
}

/*
 * The asynchronous handler: there is one, the latest. Each event is told once, to it,
 * and to no one while it is cleared.
 */
static void test_async_replaced(void)
{
    enum { ROUNDS = 4 };
    Handlers h = handlers_new();
    Connection *c = h.c;
    struct rnic_aeqe event;

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t latest = round & 1 ? h.b : h.a, former = round & 1 ? h.a : h.b;

        set_handler_of(&h, c->r->async_eq.vector, latest, HANDLER_A + round);
        refuse_write(c);
        RNIC_UNTIL(c->r, rnic_mem_read32(c->r, latest) == HANDLER_A + round);
        rnic_mem_write32(c->r, latest, 0);
        g_assert_cmphex(rnic_mem_read32(c->r, former), ==, 0);
        rnic_expect_async(c->r, RNIC_AE_TAGGED_INVALID_STAG, c->qp.number);
        rnic_settle(c->r);
        g_assert_false(rnic_eq_poll(c->r, &c->r->async_eq, &event));
        connection_recycle(c);
        rnic_mem_write32(c->r, latest, 0);
        connection_establish(c, NULL);
        rnic_settle(c->r);
        rnic_mem_write32(c->r, latest, 0);
    }
    rnic_msix_mask(c->r, c->r->async_eq.vector, true);
    refuse_write(c);
    expect_none_called(&h);
    rnic_expect_async(c->r, RNIC_AE_TAGGED_INVALID_STAG, c->qp.number);
    connection_recycle(c);
    connection_establish(c, NULL);
    connection_free(c);
    rnic_shows("V9.4.2-1 V9.4.2-2");
}

/* The queue itself cannot go while CQs name it; with its handler gone they work. */
static void test_cleared_with_cqs(void)
{
    Handlers h = handlers_new();
    Rnic *r = h.c->r;
    RnicCq more;

    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_EQ,
                                       r->comp_eq.number), ==,
                     RNIC_ST_EQ_IN_USE);
    rnic_msix_mask(r, r->comp_eq.vector, true);
    for (int i = 0; i < 100; i++) {
        complete(&h);
    }
    expect_none_called(&h);
    rnic_create_cq(r, &more, 16, r->comp_eq.number);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DESTROY_CQ, more.number),
                     ==, RNIC_ST_OK);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, RNIC_STATUS_ENABLED);
    complete(&h);
    connection_free(h.c);
    rnic_shows("V8.2.5-2");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/event-handlers/replaced", test_replaced);
    qtest_add_func("rnic/event-handlers/async-replaced", test_async_replaced);
    qtest_add_func("rnic/event-handlers/cleared-with-cqs",
                   test_cleared_with_cqs);
    return g_test_run();
}
