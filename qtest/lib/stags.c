/*
 * STags of every kind: regions, shared regions, windows, and work about them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "stags.h"

const ConnectionOptions stag_options = {
    .enables = STAG_ENABLES,
    .sq_depth = 256,
};

StagRegion stag_region(Rnic *r, unsigned pages)
{
    StagRegion region = {
        .pd = r->pd,
        .access = RNIC_TEST_ACCESS_ALL | RNIC_ACCESS_MW_BIND,
        .page_shift = 12,
        .count = pages,
        .length = pages * 4096,
        .key = 0x31,
    };
    uint64_t bus = rnic_alloc(r, pages * 4096);

    for (unsigned i = 0; i < pages; i++) {
        region.bus[i] = bus + i * 4096;
    }
    region.va = bus + 0x6600000000;
    return region;
}

/* --------------------------------------------------------------- commands */

/* Nothing else is there. One at a time: the device reads it as it works. */
#define LIST (255 * 1024 * 1024)

static uint64_t write_list(Rnic *r, const StagRegion *region)
{
    g_assert_cmphex(r->next_free, <=, LIST);
    for (unsigned i = 0; i < region->count && i < STAG_MAX_PAGES; i++) {
        uint64_t entry = cpu_to_le64(region->bus[i]);

        rnic_mem_write(r, LIST + 8 * i, &entry, 8);
    }
    return LIST;
}

static struct rnic_page_list page_list(Rnic *r, const StagRegion *region)
{
    return (struct rnic_page_list) {
        .addr = cpu_to_le64(write_list(r, region)),
        .count = cpu_to_le32(region->count),
        .level = RNIC_PAGE_LIST_DIRECT,
        .page_shift = region->page_shift,
    };
}

struct rnic_admin_sqe stag_command(Rnic *r, uint16_t opcode,
                                   const StagRegion *region)
{
    struct rnic_admin_sqe sqe = rnic_command(opcode);

    sqe.register_mr.pdn = cpu_to_le32(region->pd);
    sqe.register_mr.va = cpu_to_le64(region->va);
    sqe.register_mr.length = cpu_to_le64(region->length);
    sqe.register_mr.first_byte_offset = cpu_to_le64(region->offset);
    sqe.register_mr.access = cpu_to_le32(region->access);
    sqe.register_mr.key = region->key;
    sqe.register_mr.pages = page_list(r, region);
    sqe.register_mr.mr_flags =
        (region->block_size ? RNIC_MR_BLOCK_LIST : 0) |
        (region->local_only ? 0 : RNIC_MR_REMOTE_ACCESS);
    sqe.register_mr.block_size = cpu_to_le64(region->block_size);
    return sqe;
}

static uint16_t run(Rnic *r, struct rnic_admin_sqe *sqe, StagRegion *region)
{
    struct rnic_admin_cqe cqe;
    uint16_t status = rnic_admin(r, sqe, &cqe);

    if (status == RNIC_ST_OK) {
        region->stag = le32_to_cpu(cqe.number);
        region->granted = le32_to_cpu(cqe.mr.pages);
        g_assert_cmphex(region->stag >> 8, !=, 0);
        g_assert_cmphex(region->stag & 0xff, ==, region->key);
    }
    return status;
}

uint16_t stag_try_register(Rnic *r, StagRegion *region)
{
    struct rnic_admin_sqe sqe = stag_command(r, RNIC_ADMIN_REGISTER_MR,
                                             region);

    return run(r, &sqe, region);
}

void stag_register(Rnic *r, StagRegion *region)
{
    g_assert_cmpuint(stag_try_register(r, region), ==, RNIC_ST_OK);
    g_assert_cmpuint(region->granted, >=, region->count);
}

uint16_t stag_try_reregister(Rnic *r, StagRegion *region, uint32_t change)
{
    struct rnic_admin_sqe sqe = stag_command(r, RNIC_ADMIN_REREGISTER_MR,
                                             region);
    uint16_t status;

    sqe.register_mr.stag = cpu_to_le32(region->stag);
    sqe.register_mr.change = cpu_to_le32(change);
    status = run(r, &sqe, region);
    if (status == RNIC_ST_OK) {
        g_assert_cmpuint(region->granted, ==,
                         le32_to_cpu(stag_query_mr(r, region->stag).max_pages));
    }
    return status;
}

uint16_t stag_try_share(Rnic *r, uint32_t source, StagRegion *region)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_SHARED_MR);

    sqe.shared_mr.stag = cpu_to_le32(source);
    sqe.shared_mr.pdn = cpu_to_le32(region->pd);
    sqe.shared_mr.va = cpu_to_le64(region->va);
    sqe.shared_mr.access = cpu_to_le32(region->access);
    sqe.shared_mr.key = region->key;
    return run(r, &sqe, region);
}

void stag_share(Rnic *r, uint32_t source, StagRegion *region)
{
    g_assert_cmpuint(stag_try_share(r, source, region), ==, RNIC_ST_OK);
    g_assert_cmphex(region->stag >> 8, !=, source >> 8);
}

static uint32_t alloc(Rnic *r, uint16_t opcode, uint32_t pd, uint32_t pages,
                      uint8_t key, bool remote)
{
    struct rnic_admin_sqe sqe = rnic_command(opcode);
    struct rnic_admin_cqe cqe;
    uint32_t stag;

    sqe.alloc_stag.pdn = cpu_to_le32(pd);
    sqe.alloc_stag.max_pages = cpu_to_le32(pages);
    sqe.alloc_stag.key = key;
    sqe.alloc_stag.remote_access = remote;
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    stag = le32_to_cpu(cqe.number);
    g_assert_cmphex(stag >> 8, !=, 0);
    g_assert_cmphex(stag & 0xff, ==, key);
    return stag;
}

uint32_t stag_alloc(Rnic *r, uint32_t pd, uint32_t pages, uint8_t key,
                    bool remote)
{
    return alloc(r, RNIC_ADMIN_ALLOC_STAG, pd, pages, key, remote);
}

uint32_t stag_alloc_mw(Rnic *r, uint32_t pd, uint8_t key)
{
    return alloc(r, RNIC_ADMIN_ALLOC_MW, pd, 0, key, false);
}

static struct rnic_mr_attr query(Rnic *r, uint16_t opcode, uint32_t stag)
{
    struct rnic_mr_attr attr;

    g_assert_cmpuint(rnic_admin_query(r, opcode, stag, &attr, sizeof(attr)),
                     ==, RNIC_ST_OK);
    g_assert_cmphex(le32_to_cpu(attr.stag) >> 8, ==, stag >> 8);
    return attr;
}

struct rnic_mr_attr stag_query_mr(Rnic *r, uint32_t stag)
{
    return query(r, RNIC_ADMIN_QUERY_MR, stag);
}

struct rnic_mr_attr stag_query_mw(Rnic *r, uint32_t stag)
{
    return query(r, RNIC_ADMIN_QUERY_MW, stag);
}

bool stag_exists(Rnic *r, uint32_t stag)
{
    struct rnic_mr_attr attr;

    return rnic_admin_query(r, RNIC_ADMIN_QUERY_MR, stag, &attr,
                            sizeof(attr)) == RNIC_ST_OK ||
           rnic_admin_query(r, RNIC_ADMIN_QUERY_MW, stag, &attr,
                            sizeof(attr)) == RNIC_ST_OK;
}

uint16_t stag_try_dealloc(Rnic *r, uint32_t stag)
{
    return rnic_admin_object(r, RNIC_ADMIN_DEALLOC_STAG, stag);
}

void stag_dealloc(Rnic *r, uint32_t stag)
{
    g_assert_cmpuint(stag_try_dealloc(r, stag), ==, RNIC_ST_OK);
}

/* ------------------------------------------------------------------- work */

void stag_store_bind(Connection *c, uint64_t wr_id, uint8_t flags,
                     const StagBind *bind)
{
    struct {
        struct rnic_sq_wqe head;
        struct rnic_bind_wqe args;
    } wqe = {
        .head = {
            .opcode = RNIC_SQ_BIND_MW,
            .flags = flags,
            .units = 1,
            .wr_id = cpu_to_le64(wr_id),
        },
        .args = {
            .mw_stag = cpu_to_le32(bind->mw),
            .mr_stag = cpu_to_le32(bind->mr),
            .va = cpu_to_le64(bind->va),
            .length = cpu_to_le64(bind->length),
            .access = bind->access,
        },
    };

    QEMU_BUILD_BUG_ON(sizeof(wqe) != RNIC_SQ_UNIT);
    rnic_store_wqe(c->r, &c->qp, &wqe, 1);
}

void stag_post_bind(Connection *c, uint64_t wr_id, const StagBind *bind)
{
    stag_store_bind(c, wr_id, RNIC_WQE_SIGNALED | bind->flags, bind);
    rnic_ring_sq(c->r, &c->qp);
}

void stag_post_invalidate(Connection *c, uint64_t wr_id, uint32_t stag)
{
    RnicWr wr = { .opcode = RNIC_SQ_LOCAL_INVALIDATE,
                  .flags = RNIC_WQE_SIGNALED, .wr_id = wr_id,
                  .invalidate_stag = stag };

    rnic_post_send(c->r, &c->qp, &wr);
}

void stag_store_fast_register_of(Connection *c, uint64_t wr_id, uint8_t flags,
                                 const StagRegion *region,
                                 const struct rnic_page_list *list)
{
    struct {
        struct rnic_sq_wqe head;
        struct rnic_fast_register_wqe args;
        uint8_t rest[32];
    } wqe = {
        .head = {
            .opcode = RNIC_SQ_FAST_REGISTER,
            .flags = flags,
            .units = 2,
            .wr_id = cpu_to_le64(wr_id),
        },
        .args = {
            .stag = cpu_to_le32(region->stag),
            .first_byte_offset = cpu_to_le32(region->offset),
            .va = cpu_to_le64(region->va),
            .length = cpu_to_le64(region->length),
            .access = region->access,
            .pages = *list,
        },
    };

    QEMU_BUILD_BUG_ON(sizeof(wqe) != 2 * RNIC_SQ_UNIT);
    rnic_store_wqe(c->r, &c->qp, &wqe, 2);
}

void stag_store_fast_register(Connection *c, uint64_t wr_id, uint8_t flags,
                              const StagRegion *region)
{
    struct rnic_page_list list = page_list(c->r, region);

    stag_store_fast_register_of(c, wr_id, flags, region, &list);
}

void stag_post_fast_register(Connection *c, uint64_t wr_id,
                             const StagRegion *region)
{
    stag_store_fast_register(c, wr_id, RNIC_WQE_SIGNALED, region);
    rnic_ring_sq(c->r, &c->qp);
}

uint8_t stag_status_of(Connection *c, uint64_t wr_id)
{
    struct rnic_cqe cqe;

    rnic_cq_wait(c->r, &c->send_cq, &cqe);
    g_assert_cmphex(le64_to_cpu(cqe.wr_id), ==, wr_id);
    return cqe.status;
}

uint8_t stag_bind(Connection *c, const StagBind *bind)
{
    stag_post_bind(c, 0xb1d, bind);
    return stag_status_of(c, 0xb1d);
}

uint8_t stag_invalidate(Connection *c, uint32_t stag)
{
    stag_post_invalidate(c, 0x1d, stag);
    return stag_status_of(c, 0x1d);
}

uint8_t stag_fast_register(Connection *c, const StagRegion *region)
{
    stag_post_fast_register(c, 0xf4, region);
    return stag_status_of(c, 0xf4);
}

StagBind stag_window(uint32_t mw, const StagRegion *region, uint64_t va,
                     uint64_t length, uint8_t access)
{
    return (StagBind) { .mw = mw, .mr = region->stag, .va = va,
                        .length = length, .access = access };
}

/* --------------------------------------------------------------- the peer */

void stag_peer_writes(Connection *c, uint32_t stag, uint64_t to,
                      const void *data, uint32_t length)
{
    WireRead fence = { };

    wire_put_write(c->peer, stag, to, data, length);
    wire_put_read_request(c->peer, &fence);
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, NULL, 0);
}

void stag_peer_reads(Connection *c, uint32_t stag, uint64_t to, void *data,
                     uint32_t length)
{
    WireRead read = { .size = length, .source_stag = stag,
                      .source_to = to };

    wire_put_read_request(c->peer, &read);
    g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, data,
                                     length), ==, length);
}

void stag_reconnect(Connection *c)
{
    connection_recycle(c);
    connection_establish(c, &stag_options);
}

static Connection *second_qp(Connection *first, const ConnectionOptions *options)
{
    Connection *other = connection_prepare_second(first, options);

    connection_establish(other, options);
    return other;
}

Connection *stag_second_qp(Connection *first, uint32_t pd)
{
    ConnectionOptions options = stag_options;

    options.pd = pd;
    return second_qp(first, &options);
}

Connection *stag_unprivileged_qp(Connection *first)
{
    ConnectionOptions options = stag_options;

    options.enables &= ~RNIC_QP_PRIVILEGED;
    return second_qp(first, &options);
}

void stag_peer_write_refused(Connection *c, uint32_t stag, uint64_t to,
                             uint32_t length, uint16_t code)
{
    g_autofree uint8_t *data = g_malloc(length);

    memset(data, 0x66, length);
    wire_put_write(c->peer, stag, to, data, length);
    wire_expect_terminate(c->peer, code);
    stag_reconnect(c);
}

void stag_peer_read_refused(Connection *c, uint32_t stag, uint64_t to,
                            uint32_t length, uint16_t code)
{
    WireRead read = { .size = length, .source_stag = stag,
                      .source_to = to };

    wire_put_read_request(c->peer, &read);
    wire_expect_terminate(c->peer, code);
    stag_reconnect(c);
}

void stag_assert_no_leak(Rnic *r, const struct rnic_counters *before)
{
    struct rnic_counters after = rnic_query_counters(r);

    g_assert_cmpuint(after.stags, ==, before->stags);
    g_assert_cmpuint(after.pds, ==, before->pds);
    g_assert_cmpuint(after.qps, ==, before->qps);
    g_assert_cmpuint(after.cqs, ==, before->cqs);
}
