/*
 * rnic: what Query RNIC tells (9.2.1.2), and whether it is true
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "hw/pci/pci_regs.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/stags.h"

#define ALL_ABILITIES (RNIC_ABILITY_MODIFY_IRD | RNIC_ABILITY_INCREASE_ORD | \
                       RNIC_ABILITY_MODIFY_WRS | RNIC_ABILITY_CQ_OVERFLOW)
#define PAGE_SIZES 0x1fffffff000ULL     /* 4 KiB to 1 TiB */

/* ---------------------------------------------------------------- attributes */

/* All of the specification's list, by its numbers there. */
static void assert_all_attributes(const struct rnic_device_attr *a)
{
    g_assert_cmpuint(le32_to_cpu(a->max_qp), ==, 11);                   /* 2 */
    g_assert_cmpuint(le32_to_cpu(a->max_sq_units), ==, 1 << 18);        /* 3 */
    g_assert_cmpuint(le32_to_cpu(a->max_rq_wr), ==, 1 << 16);
    g_assert_cmpuint(le32_to_cpu(a->max_srq_wr), ==, 1 << 16);          /* 4 */
    g_assert_cmpuint(le32_to_cpu(a->max_send_sge), ==, 16);             /* 5 */
    g_assert_cmpuint(le32_to_cpu(a->max_recv_sge), ==, 16);
    g_assert_cmpuint(le32_to_cpu(a->max_write_sge), ==, 16);            /* 6 */
    g_assert_cmpuint(le32_to_cpu(a->max_cq), ==, 12);                   /* 7 */
    g_assert_cmpuint(le32_to_cpu(a->max_cqe), ==, 1 << 20);             /* 8 */
    g_assert_cmpuint(le32_to_cpu(a->max_eq), ==, 13);                   /* 9 */
    g_assert_cmpuint(le32_to_cpu(a->max_mr), ==, 14);                   /* 10 */
    g_assert_cmpuint(le32_to_cpu(a->max_fast_register_pages), >, 0);    /* 11 */
    g_assert_cmpuint(le32_to_cpu(a->max_pd), ==, 15);                   /* 12 */
    g_assert_cmpuint(le32_to_cpu(a->max_total_ird), ==, 0);             /* 13 */
    g_assert_cmpuint(le32_to_cpu(a->max_total_ord), ==, 0);             /* 14 */
    g_assert_cmpuint(le32_to_cpu(a->max_ird), ==, 16);                  /* 15 */
    g_assert_cmpuint(le32_to_cpu(a->max_ord), ==, 17);                  /* 16 */
    g_assert_cmpuint(le32_to_cpu(a->max_mw), ==, 14);                   /* 19 */
    g_assert_cmphex(le32_to_cpu(a->abilities), ==, ALL_ABILITIES); /* 17, 18, 20, 25 */
    g_assert_cmpuint(le32_to_cpu(a->list_mode), ==, RNIC_LIST_MODE_BLOCK); /* 21 */
    g_assert_cmpuint(le64_to_cpu(a->min_block_size), ==, 1);            /* 22 */
    g_assert_cmpuint(le64_to_cpu(a->max_block_size), ==, 1ULL << 40);
    g_assert_cmphex(le64_to_cpu(a->page_size_cap), ==, PAGE_SIZES);     /* 23 */
    g_assert_cmpuint(le32_to_cpu(a->max_srq), ==, 18);              /* 24, 26 */
    g_assert_cmpuint(le32_to_cpu(a->srq_order), ==, RNIC_SRQ_ORDER_ARRIVAL);
}

/* Whoever knows less of the structure gets less, and the same. */
static void assert_shorter_answers(Rnic *r, const struct rnic_device_attr *all)
{
    for (unsigned size = 4; size < sizeof(*all); size += 36) {
        uint8_t answer[sizeof(*all)] = { };

        rnic_mem_write(r, r->scratch, answer, sizeof(answer));
        g_assert_cmpuint(rnic_admin_query(r, RNIC_ADMIN_QUERY_DEVICE, 0,
                                          answer, size), ==, RNIC_ST_OK);
        g_assert_cmpmem(answer, size, all, size);
        rnic_mem_read(r, r->scratch, answer, sizeof(answer));
        for (unsigned i = size; i < sizeof(answer); i++) {
            g_assert_cmphex(answer[i], ==, 0);
        }
    }
}

static void test_attributes(void)
{
    Rnic *r = rnic_boot_up(",max-qp=11,max-cq=12,max-eq=13,max-mr=14,max-pd=15,"
                           "max-ird=16,max-ord=17,max-srq=18,"
                           "max-llp-streams=19");
    struct rnic_device_attr attr = rnic_query_device(r);

    assert_all_attributes(&attr);
    g_assert_cmpuint(le32_to_cpu(attr.max_llp_streams), ==, 19);
    g_assert_cmpuint(le32_to_cpu(attr.max_llp_octets), ==,
                     RNIC_LLP_MAX_OCTETS);
    for (unsigned i = 0; i < G_N_ELEMENTS(attr.reserved); i++) {
        g_assert_cmphex(attr.reserved[i], ==, 0);
    }
    /* Vendor, part and version, which need no command. */
    g_assert_cmphex(qpci_config_readw(r->dev, PCI_VENDOR_ID), ==,
                    RNIC_PCI_VENDOR_ID);
    g_assert_cmphex(qpci_config_readw(r->dev, PCI_DEVICE_ID), ==,
                    RNIC_PCI_DEVICE_ID);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_HW_VERSION), !=, 0);
    assert_shorter_answers(r, &attr);
    rnic_quit(r);
    rnic_shows("V5.1.3-1 V9.2.1.2-1");
}

/* ----------------------------------------------------------------- abilities */

static uint16_t modify(Connection *c, uint32_t mask, uint16_t ird, uint16_t ord)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(mask);
    sqe.modify_qp.ird = cpu_to_le16(ird);
    sqe.modify_qp.ord = cpu_to_le16(ord);
    return rnic_admin(c->r, &sqe, NULL);
}

static uint16_t deepen(Connection *c)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);
    uint32_t sq = c->qp.sq_depth * 2, rq = c->qp.rq_depth * 2;
    uint64_t size = RNIC_QUEUE_RECORD_SIZE + sq * RNIC_SQ_UNIT +
                    (rq << c->qp.rq_shift);
    uint16_t status;

    sqe.modify_qp.qpn = cpu_to_le32(c->qp.number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_SQ_DEPTH |
                                     RNIC_QP_MODIFY_RQ_DEPTH);
    sqe.modify_qp.sq_depth = cpu_to_le32(sq);
    sqe.modify_qp.rq_depth = cpu_to_le32(rq);
    sqe.modify_qp.memory.pages = rnic_pages(c->r, rnic_alloc(c->r, size), size);
    sqe.modify_qp.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    sqe.modify_qp.memory.ring_offset[1] =
        cpu_to_le32(RNIC_QUEUE_RECORD_SIZE + sq * RNIC_SQ_UNIT);
    status = rnic_admin(c->r, &sqe, NULL);
    g_assert_cmpuint(le32_to_cpu(rnic_query_qp(c->r, &c->qp).sq_depth), ==,
                     status == RNIC_ST_OK ? sq : sq / 2);
    return status;
}

/* As many Reads leave as ORD says: it was increased in Idle, and in RTS. */
static void assert_ord_counts(Connection *c, unsigned before, unsigned ord)
{
    WireRead read;

    for (unsigned i = before; i < ord + 1; i++) {
        connection_post(c, RNIC_SQ_RDMA_READ, i, 0, 8);
    }
    for (unsigned i = before; i < ord; i++) {
        wire_get_read_request(c->peer, i + 1, &read);
    }
    wire_expect_silence(c->peer);
}

static void test_abilities(void)
{
    for (int off = 0; off < 2; off++) {
        Connection *c = connection_prepare(&(ConnectionOptions) {
            .features_off = off ? RNIC_FEATURE_RESIZE_QP : 0 });
        uint32_t abilities = le32_to_cpu(rnic_query_device(c->r).abilities);
        WireRead read;

        g_assert_cmphex(abilities, ==, ALL_ABILITIES &
                        ~(off ? RNIC_ABILITY_MODIFY_WRS : 0));
        g_assert_cmpuint(deepen(c), ==, off ? RNIC_ST_CANNOT_CHANGE_ATTRIBUTE
                                            : RNIC_ST_OK);
        if (!off) {
            connection_free(c);
            continue;
        }
        g_assert_cmpuint(modify(c, RNIC_QP_MODIFY_IRD, 7, 0), ==, RNIC_ST_OK);
        g_assert_cmpuint(modify(c, RNIC_QP_MODIFY_ORD, 0, 7), ==, RNIC_ST_OK);
        g_assert_cmpuint(le16_to_cpu(rnic_query_qp(c->r, &c->qp).ird), ==, 7);
        g_assert_cmpuint(le16_to_cpu(rnic_query_qp(c->r, &c->qp).ord), ==, 7);
        connection_establish(c, &(ConnectionOptions) { .ird = 7, .ord = 3 });
        assert_ord_counts(c, 0, 3);
        g_assert_cmpuint(modify(c, RNIC_QP_MODIFY_ORD, 0, 6), ==, RNIC_ST_OK);
        wire_get_read_request(c->peer, 4, &read);
        assert_ord_counts(c, 4, 6);
        connection_free(c);
    }
    rnic_shows("V6.1.3-7 V9.2.1.2-5");
}

/* It says that it detects an overflow, and it does. */
static void test_cq_overflow(void)
{
    Connection *c = connection_new(&(ConnectionOptions) { .cq_depth = 2 });
    uint8_t got[8];
    bool told = false;

    g_assert_cmphex(le32_to_cpu(rnic_query_device(c->r).abilities) &
                    RNIC_ABILITY_CQ_OVERFLOW, !=, 0);
    for (int i = 0; i < 3; i++) {
        connection_post(c, RNIC_SQ_SEND, i, 0, 8);
        wire_get_send(c->peer, WIRE_SEND, i + 1, got, 8);
    }
    for (int i = 0; i < 2; i++) {
        struct rnic_aeqe aeqe;

        rnic_eq_wait(c->r, &c->r->async_eq, &aeqe);
        if (aeqe.resource == RNIC_RESOURCE_CQ) {
            g_assert_cmpuint(le16_to_cpu(aeqe.event), ==, RNIC_AE_CQ_OVERFLOW);
            g_assert_cmphex(le32_to_cpu(aeqe.number), ==, c->send_cq.number);
            told = true;
        }
    }
    g_assert_true(told);
    connection_free(c);
    rnic_shows("V9.2.1.2-8");
}

/* ----------------------------------------------------------------- list mode */

/* One page of 1 << @shift, at zero, which is aligned to all sizes. */
static uint16_t register_page(Rnic *r, unsigned shift)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);
    struct rnic_admin_cqe cqe;
    uint16_t status;

    sqe.register_mr.pdn = cpu_to_le32(r->pd);
    sqe.register_mr.length = cpu_to_le64(1);
    sqe.register_mr.access = cpu_to_le32(RNIC_ACCESS_LOCAL_READ);
    sqe.register_mr.pages = (struct rnic_page_list) {
        .count = cpu_to_le32(1),
        .level = RNIC_PAGE_LIST_INLINE,
        .page_shift = shift,
    };
    status = rnic_admin(r, &sqe, &cqe);
    if (status == RNIC_ST_OK) {
        stag_dealloc(r, le32_to_cpu(cqe.number));
    }
    return status;
}

static uint16_t register_block(Rnic *r, uint64_t size)
{
    StagRegion region = stag_region(r, 1);
    uint16_t status;

    region.block_size = size;
    region.page_shift = 0;
    region.length = 1;
    region.access = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_ZERO_BASED;
    status = stag_try_register(r, &region);
    if (status == RNIC_ST_OK) {
        stag_dealloc(r, region.stag);
    }
    return status;
}

static void check_sizes(Rnic *r, bool block_mode)
{
    struct rnic_device_attr attr = rnic_query_device(r);
    uint64_t least = le64_to_cpu(attr.min_block_size);
    uint64_t most = le64_to_cpu(attr.max_block_size);

    g_assert_cmpuint(le32_to_cpu(attr.list_mode), ==,
                     block_mode ? RNIC_LIST_MODE_BLOCK : RNIC_LIST_MODE_PAGE);
    g_assert_cmphex(le64_to_cpu(attr.page_size_cap), ==, PAGE_SIZES);
    for (unsigned shift = 0; shift < 256; shift++) {
        bool listed = shift < 64 &&
                      (le64_to_cpu(attr.page_size_cap) >> shift & 1);

        g_assert_cmpuint(register_page(r, shift), ==,
                         listed ? RNIC_ST_OK : RNIC_ST_INVALID_PBL_SIZE);
    }
    if (!block_mode) {
        g_assert_cmpuint(most, ==, 0);
        g_assert_cmpuint(least, ==, 0);
        g_assert_cmpuint(register_block(r, 4096), ==, RNIC_ST_UNSUPPORTED);
        return;
    }
    g_assert_cmpuint(register_block(r, least), ==, RNIC_ST_OK);
    g_assert_cmpuint(register_block(r, least - 1), !=, RNIC_ST_OK);
    g_assert_cmpuint(register_block(r, most), ==, RNIC_ST_OK);
    g_assert_cmpuint(register_block(r, most + 1), ==, RNIC_ST_INVALID_PBL_SIZE);
}

/* As the device was opened, and the next time in the other mode. */
static void test_list_mode(void)
{
    Rnic *r = rnic_boot_up("");

    check_sizes(r, true);
    rnic_up_with(r, rnic_features(r) & ~RNIC_FEATURE_BLOCK_LIST);
    check_sizes(r, false);
    rnic_up(r);
    check_sizes(r, true);
    rnic_quit(r);
    rnic_shows("V9.2.1.2-6 V9.2.1.1-2 V9.2.6.2-3");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/query-device/attributes", test_attributes);
    qtest_add_func("rnic/query-device/abilities", test_abilities);
    qtest_add_func("rnic/query-device/cq-overflow", test_cq_overflow);
    qtest_add_func("rnic/query-device/list-mode", test_list_mode);
    return g_test_run();
}
