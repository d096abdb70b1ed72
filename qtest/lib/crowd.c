/*
 * Many connected QPs between two devices of one machine, and traffic on all
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/units.h"
#include <glib/gstdio.h>
#include <sys/resource.h>

#include "crowd.h"
#include "wire-peer.h"

enum {
    SQ_DEPTH = 32,
    /* Regions repeat one page, so that long messages take no memory. */
    REGION_PAGES = 16384,
    LISTENER_HOST = 11,
    SENDER_HOST = 12,
    PORT = 7000,
};

#define REGION_SIZE ((uint64_t)REGION_PAGES * RNIC_TEST_PAGE)

/* ------------------------------------------------------------------ machine */

/* A socket of each side of each connection. */
static void allow_descriptors(void)
{
    struct rlimit limit;

    g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    limit.rlim_cur = limit.rlim_max;
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
}

char *crowd_sender_options(void)
{
    return g_strdup_printf("rnic,id=sender,addr=%d,fabric=crowd", CROWD_SLOT);
}

Crowd *crowd_new(const char *arguments, unsigned senders)
{
    Crowd *crowd = g_new0(Crowd, 1);
    g_autofree char *sender = crowd_sender_options();
    g_autofree char *all = NULL;

    allow_descriptors();
    crowd->directory = g_dir_make_tmp("rnic-crowd-XXXXXX", NULL);
    g_assert_nonnull(crowd->directory);
    all = g_strdup_printf("-object rnic-fabric-unix,id=crowd,dir=%s,rings=off "
                          "%s%s %s", crowd->directory,
                          senders ? "-device " : "", senders ? sender : "",
                          arguments);
    crowd->listener = rnic_boot(",fabric=crowd", all);
    rnic_up(crowd->listener);
    if (senders) {
        crowd_take_sender(crowd);
    }
    return crowd;
}

void crowd_take_sender(Crowd *crowd)
{
    crowd->sender = rnic_sibling(crowd->listener, CROWD_SLOT);
    rnic_up(crowd->sender);
}

/* -------------------------------------------------------------------- QPs */

static void create_region(Rnic *r, RnicMr *mr)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);
    g_autofree uint64_t *list = g_new(uint64_t, REGION_PAGES);
    uint64_t where = rnic_alloc(r, REGION_PAGES * 8);
    struct rnic_admin_cqe cqe;

    *mr = (RnicMr) { .va = 1 * TiB, .bus = rnic_alloc(r, RNIC_TEST_PAGE) };
    for (unsigned i = 0; i < REGION_PAGES; i++) {
        list[i] = cpu_to_le64(mr->bus);
    }
    rnic_mem_write(r, where, list, REGION_PAGES * 8);
    sqe.register_mr.pdn = cpu_to_le32(r->pd);
    sqe.register_mr.va = cpu_to_le64(mr->va);
    sqe.register_mr.length = cpu_to_le64(REGION_SIZE);
    sqe.register_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    sqe.register_mr.pages = (struct rnic_page_list) {
        .addr = cpu_to_le64(where),
        .count = cpu_to_le32(REGION_PAGES),
        .level = RNIC_PAGE_LIST_DIRECT,
        .page_shift = 12,
    };
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    mr->stag = le32_to_cpu(cqe.number);
    mr->length = REGION_SIZE;
}

/* Its memory is one page. */
static void create_qp(Rnic *r, RnicQp *qp, RnicCq *cq)
{
    RnicQpInit init = rnic_qp_default(r, cq, cq);

    init.sq_depth = SQ_DEPTH;
    init.rq_depth = 2;
    init.rq_shift = RNIC_RQ_MIN_WQE_SHIFT;
    init.max_sge = 1;
    rnic_create_qp(r, qp, &init);
}

static void connect_to_listener(Rnic *r, const RnicQp *qp)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_CONNECT);

    sqe.connect.qpn = cpu_to_le32(qp->number);
    sqe.connect.local = rnic_addr(wire_guest_ip(SENDER_HOST), 0);
    sqe.connect.remote = rnic_addr(wire_guest_ip(LISTENER_HOST), PORT);
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_OK);
}

static void connect_pair(Crowd *crowd, RnicQp *qp)
{
    struct rnic_cm_event event;
    RnicQp other;

    create_qp(crowd->sender, qp, &crowd->sender_cq);
    create_qp(crowd->listener, &other, &crowd->listener_cq);
    connect_to_listener(crowd->sender, qp);
    event = rnic_expect_cm(crowd->listener, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpuint(rnic_try_accept(crowd->listener,
                                     le32_to_cpu(event.endpoint), &other, 0, 0,
                                     1, NULL, 0), ==, RNIC_ST_OK);
    event = rnic_expect_cm(crowd->sender, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    event = rnic_expect_cm(crowd->listener, RNIC_CM_ESTABLISHED);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
}

void crowd_connect(Crowd *crowd, unsigned count)
{
    uint32_t number;

    crowd->count = count;
    crowd->qps = g_renew(RnicQp, crowd->qps, count);
    rnic_create_cq(crowd->listener, &crowd->listener_cq, 16, RNIC_NO_VECTOR);
    rnic_create_cq(crowd->sender, &crowd->sender_cq, 16, RNIC_NO_VECTOR);
    create_region(crowd->listener, &crowd->target);
    create_region(crowd->sender, &crowd->source);
    g_assert_cmpuint(rnic_try_listen(crowd->listener,
                                     wire_guest_ip(LISTENER_HOST), PORT, 1,
                                     &number), ==, RNIC_ST_OK);
    for (unsigned i = 0; i < count; i++) {
        connect_pair(crowd, &crowd->qps[i]);
    }
    g_assert_cmpuint(rnic_admin_object(crowd->listener,
                                       RNIC_ADMIN_CM_UNLISTEN, number), ==,
                     RNIC_ST_OK);
}

/* ------------------------------------------------------------------ traffic */

void crowd_send(Crowd *crowd)
{
    RnicWr wr = {
        .opcode = RNIC_SQ_RDMA_WRITE,
        .num_sge = 1,
        .sge[0] = rnic_sge(&crowd->source, 0, REGION_SIZE),
        .remote_stag = crowd->target.stag,
        .remote_to = crowd->target.va,
    };
    uint8_t ring[SQ_DEPTH * RNIC_SQ_UNIT];

    for (unsigned i = 0; i < SQ_DEPTH; i++) {
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

        g_assert_cmpuint(rnic_encode_wr(&wr, wqe), ==, 1);
        memcpy(ring + i * RNIC_SQ_UNIT, wqe, RNIC_SQ_UNIT);
    }
    for (unsigned i = 0; i < crowd->count; i++) {
        RnicQp *qp = &crowd->qps[i];

        rnic_mem_write(crowd->sender, qp->memory + qp->sq_offset, ring,
                       sizeof(ring));
        qp->sq_producer = SQ_DEPTH;
        rnic_ring_sq(crowd->sender, qp);
    }
}

void crowd_assert_busy(Crowd *crowd)
{
    uint64_t before = rnic_query_counters(crowd->sender).tx_octets;

    g_assert_cmpint(rnic_qp_state(crowd->sender, &crowd->qps[0]), ==,
                    RNIC_QPS_RTS);
    g_assert_cmpint(rnic_qp_state(crowd->sender,
                                  &crowd->qps[crowd->count - 1]), ==,
                    RNIC_QPS_RTS);
    RNIC_UNTIL(crowd->sender,
               rnic_query_counters(crowd->sender).tx_octets != before);
}

void crowd_forget_sender(Crowd *crowd)
{
    g_clear_pointer(&crowd->sender, rnic_sibling_free);
}

void crowd_free(Crowd *crowd)
{
    if (crowd->sender) {
        rnic_reset(crowd->sender);
        crowd_forget_sender(crowd);
    }
    rnic_reset(crowd->listener);
    rnic_quit(crowd->listener);
    g_rmdir(crowd->directory);
    g_free(crowd->directory);
    g_free(crowd->qps);
    g_free(crowd);
}
