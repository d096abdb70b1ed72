/*
 * rnic: a doorbell acts on objects of its own page alone
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"

enum { OWN, OTHER };

static uint32_t rejected(Connection *c)
{
    return rnic_read32(c->r, RNIC_REG_BAD_DOORBELLS);
}

/* A Send of 8 octets that the device has no way to know of but a doorbell. */
static void post_unrung(Connection *c)
{
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 7, 0, 8);
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    rnic_settle(c->r);
    rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
    rnic_mem_write32(c->r, c->qp.memory +
                     offsetof(struct rnic_qp_record, sq_producer),
                     c->qp.sq_producer);
}

/* Only its own page counts. */
static void test_send_queue(void)
{
    Connection *c = connection_new(NULL);
    uint32_t wrs = le64_to_cpu(rnic_query_qp(c->r, &c->qp).sq_wrs);
    uint32_t before = rejected(c);
    uint8_t got[8];

    post_unrung(c);
    for (uint32_t page = OTHER; page < 4; page++) {
        rnic_doorbell(c->r, page, RNIC_DB_SQ, c->qp.number);
    }
    g_assert_cmpuint(rejected(c) - before, ==, 3);
    wire_expect_silence(c->peer);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    g_assert_cmpuint(le64_to_cpu(rnic_query_qp(c->r, &c->qp).sq_wrs), ==, wrs);
    rnic_doorbell(c->r, OWN, RNIC_DB_SQ, c->qp.number);
    wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
    rnic_expect_cqe(c->r, &c->send_cq, 7, RNIC_WC_SUCCESS);
    g_assert_cmpuint(rejected(c) - before, ==, 3);
    connection_free(c);
    rnic_shows("V10.6-2");
}

/* The number of the QP in another width than the doorbell's is none. */
static void test_width(void)
{
    Connection *c = connection_new(NULL);
    uint64_t bell = c->r->doorbells.addr + OWN * RNIC_DOORBELL_PAGE_SIZE +
                    RNIC_DB_SQ;
    uint32_t before = rejected(c);
    uint8_t got[8];

    post_unrung(c);
    g_assert_cmpuint(c->qp.number, <=, UINT8_MAX);
    qtest_writeb(c->r->qts, bell, c->qp.number);
    qtest_writew(c->r->qts, bell, c->qp.number);
    qtest_writeq(c->r->qts, bell, c->qp.number);
    g_assert_cmpuint(rejected(c) - before, ==, 3);
    wire_expect_silence(c->peer);
    rnic_doorbell(c->r, OWN, RNIC_DB_SQ, c->qp.number);
    wire_get_send(c->peer, WIRE_SEND, 1, got, sizeof(got));
    rnic_expect_cqe(c->r, &c->send_cq, 7, RNIC_WC_SUCCESS);
    connection_free(c);
}

/* Armed from another page it is not armed. */
static void test_completion_queue(void)
{
    Connection *c = connection_new(NULL);
    uint32_t before = rejected(c);
    struct rnic_ceqe event;

    for (int own = 0; own < 2; own++) {
        for (int solicited = 0; solicited < 2; solicited++) {
            uint32_t how = solicited ? RNIC_ARM_SOLICITED : RNIC_ARM_NEXT;

            rnic_doorbell(c->r, own ? OWN : OTHER, RNIC_DB_CQ_ARM,
                          c->recv_cq.number | how);
            connection_recv(c, 1, 0, 8);
            wire_put_send(c->peer, WIRE_SEND_SE, 0, "12345678", 8);
            rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
            if (own) {
                rnic_eq_wait(c->r, &c->r->comp_eq, &event);
                g_assert_cmphex(le32_to_cpu(event.cqn), ==,
                                c->recv_cq.number);
            }
            rnic_settle(c->r);
            g_assert_false(rnic_eq_poll(c->r, &c->r->comp_eq, &event));
        }
    }
    g_assert_cmpuint(rejected(c) - before, ==, 2);
    connection_free(c);
    rnic_shows("V9.3.2.2-6 V10.6-2");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/doorbell-pages/send-queue", test_send_queue);
    qtest_add_func("rnic/doorbell-pages/width", test_width);
    qtest_add_func("rnic/doorbell-pages/completion-queue",
                   test_completion_queue);
    return g_test_run();
}
