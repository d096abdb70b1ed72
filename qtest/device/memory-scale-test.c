/*
 * Many memory regions at once: a hundred thousand of them, and one too many
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "tests/qtest/rnic/lib/stags.h"

enum { REGIONS = 100000, PIECE = 64 };

/* All are pieces of one page, each with a VA of its own. */
typedef struct Crowd {
    Connection *c;
    uint64_t page;
    uint64_t *registered;       /* STags */
    struct rnic_admin_sqe *sqe;
    struct rnic_admin_cqe *cqe;
} Crowd;

static uint64_t va_of(unsigned i)
{
    return ((uint64_t)i << 20) + i % (4096 / PIECE) * PIECE;
}

static void crowd_init(Crowd *crowd)
{
    crowd->c = connection_new(&stag_options);
    crowd->page = rnic_alloc(crowd->c->r, 4096);
    crowd->registered = g_new(uint64_t, REGIONS);
    crowd->sqe = g_new0(struct rnic_admin_sqe, REGIONS);
    crowd->cqe = g_new0(struct rnic_admin_cqe, REGIONS);
}

static void crowd_cleanup(Crowd *crowd)
{
    connection_free(crowd->c);
    g_free(crowd->registered);
    g_free(crowd->sqe);
    g_free(crowd->cqe);
}

static struct rnic_admin_sqe registration(const Crowd *crowd, unsigned i)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);

    sqe.register_mr.pdn = cpu_to_le32(crowd->c->r->pd);
    sqe.register_mr.va = cpu_to_le64(va_of(i));
    sqe.register_mr.first_byte_offset = cpu_to_le64(va_of(i) % 4096);
    sqe.register_mr.length = cpu_to_le64(PIECE);
    sqe.register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    sqe.register_mr.key = i;
    sqe.register_mr.pages = (struct rnic_page_list) {
        .addr = cpu_to_le64(crowd->page),
        .count = cpu_to_le32(1),
        .level = RNIC_PAGE_LIST_INLINE,
        .page_shift = 12,
    };
    return sqe;
}

static int compare_stags(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static void register_all(Crowd *crowd)
{
    g_autofree uint64_t *sorted = g_new(uint64_t, REGIONS);

    for (unsigned i = 0; i < REGIONS; i++) {
        crowd->sqe[i] = registration(crowd, i);
    }
    rnic_admin_many(crowd->c->r, crowd->sqe, REGIONS, crowd->cqe);
    for (unsigned i = 0; i < REGIONS; i++) {
        g_assert_cmpint(le16_to_cpu(crowd->cqe[i].status), ==, RNIC_ST_OK);
        crowd->registered[i] = le32_to_cpu(crowd->cqe[i].number);
        g_assert_cmphex(crowd->registered[i] & 0xff, ==, i & 0xff);
        sorted[i] = crowd->registered[i] >> 8;
    }
    qsort(sorted, REGIONS, sizeof(*sorted), compare_stags);
    for (unsigned i = 1; i < REGIONS; i++) {
        g_assert_cmphex(sorted[i], !=, sorted[i - 1]);
    }
}

static void deregister(Crowd *crowd, unsigned first, unsigned step)
{
    unsigned count = 0;

    for (unsigned i = first; i < REGIONS; i += step) {
        crowd->sqe[count] = rnic_command(RNIC_ADMIN_DEALLOC_STAG);
        crowd->sqe[count].object.number = cpu_to_le32(crowd->registered[i]);
        count++;
    }
    rnic_admin_many(crowd->c->r, crowd->sqe, count, crowd->cqe);
    for (unsigned i = 0; i < count; i++) {
        g_assert_cmpint(le16_to_cpu(crowd->cqe[i].status), ==, RNIC_ST_OK);
    }
}

/* Each reaches its own octets, by its own VA. */
static void use(Crowd *crowd, unsigned i)
{
    uint8_t data[PIECE], got[PIECE];

    rnic_pattern(data, PIECE, i);
    stag_peer_writes(crowd->c, crowd->registered[i], va_of(i), data, PIECE);
    rnic_mem_read(crowd->c->r, crowd->page + va_of(i) % 4096, got, PIECE);
    g_assert_cmpmem(got, PIECE, data, PIECE);
}

static void test_many_regions(void)
{
    struct rnic_counters before;
    Crowd crowd;

    crowd_init(&crowd);
    before = rnic_query_counters(crowd.c->r);
    register_all(&crowd);
    for (unsigned i = 0; i < REGIONS; i += REGIONS / 50) {
        use(&crowd, i);
    }
    use(&crowd, REGIONS - 1);
    /* Every other one goes; the others do not notice. */
    deregister(&crowd, 0, 2);
    use(&crowd, 1);
    use(&crowd, REGIONS - 1);
    stag_peer_write_refused(crowd.c, crowd.registered[2], va_of(2), 1, 0x1100);
    deregister(&crowd, 1, 2);
    stag_assert_no_leak(crowd.c->r, &before);
    crowd_cleanup(&crowd);
}

/* V9.2.6: one more than max-mr is refused, until one of them goes. */
static void test_one_too_many(void)
{
    enum { LIMIT = 500 };
    Rnic *r = rnic_boot_up(",max-mr=500");
    struct rnic_admin_sqe sqe[LIMIT + 1];
    struct rnic_admin_cqe cqe[LIMIT + 1];

    for (unsigned i = 0; i <= LIMIT; i++) {
        sqe[i] = rnic_command(RNIC_ADMIN_ALLOC_MW);
        sqe[i].alloc_stag.pdn = cpu_to_le32(r->pd);
    }
    rnic_admin_many(r, sqe, LIMIT + 1, cqe);
    for (unsigned i = 0; i < LIMIT; i++) {
        g_assert_cmpint(le16_to_cpu(cqe[i].status), ==, RNIC_ST_OK);
    }
    g_assert_cmpint(le16_to_cpu(cqe[LIMIT].status), ==,
                    RNIC_ST_INSUFFICIENT_RESOURCES);
    stag_dealloc(r, le32_to_cpu(cqe[7].number));
    cqe[7].number = cpu_to_le32(stag_alloc_mw(r, r->pd, 0));
    for (unsigned i = 0; i < LIMIT; i++) {
        stag_dealloc(r, le32_to_cpu(cqe[i].number));
    }
    rnic_quit(r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/rnic/memory-scale/many-regions", test_many_regions);
    qtest_add_func("/rnic/memory-scale/one-too-many", test_one_too_many);
    return g_test_run();
}
