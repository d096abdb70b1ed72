/*
 * A connection and regions of every kind of right, for tests of errors
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "regions.h"

void world_init(World *w, const ConnectionOptions *options)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);
    struct rnic_admin_cqe cqe;
    Rnic *r;

    memset(w, 0, sizeof(*w));
    w->c = connection_prepare(options);
    r = w->c->r;
    rnic_create_mr(r, &w->read_only, r->pd, 4096,
                   RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_REMOTE_READ);
    rnic_create_mr(r, &w->write_only, r->pd, 4096,
                   RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE);
    rnic_create_mr(r, &w->local, r->pd, 4096,
                   RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_LOCAL_WRITE);
    rnic_create_mr(r, &w->foreign, rnic_alloc_pd(r), 4096,
                   RNIC_TEST_ACCESS_ALL);
    rnic_create_mr(r, &w->gone, r->pd, 4096, RNIC_TEST_ACCESS_ALL);
    g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_STAG,
                                       w->gone.stag), ==, RNIC_ST_OK);
    sqe.register_mr.pdn = cpu_to_le32(r->pd);
    sqe.register_mr.length = cpu_to_le64(4096);
    sqe.register_mr.pages.addr = cpu_to_le64(RNIC_TEST_NOWHERE);
    sqe.register_mr.pages.count = cpu_to_le32(1);
    sqe.register_mr.pages.page_shift = 12;
    sqe.register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    w->broken.stag = le32_to_cpu(cqe.number);
}

void world_cleanup(World *w)
{
    connection_free(w->c);
}
