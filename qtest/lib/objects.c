/*
 * What exists in the device, as the commands given and answered say
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "objects.h"

enum { MAX_ENDPOINTS = 4096 };

/* In the order in which they can go: windows before regions and QPs, ... */
typedef enum Kind {
    WINDOW,
    REGION,
    LISTENER,
    QP,
    SRQ,
    CQ,
    EQ,
    PD,
    KINDS,
    NONE,
} Kind;

static const uint16_t destroy_commands[KINDS] = {
    [WINDOW] = RNIC_ADMIN_DEALLOC_STAG,
    [REGION] = RNIC_ADMIN_DEALLOC_STAG,
    [LISTENER] = RNIC_ADMIN_CM_UNLISTEN,
    [QP] = RNIC_ADMIN_DESTROY_QP,
    [SRQ] = RNIC_ADMIN_DESTROY_SRQ,
    [CQ] = RNIC_ADMIN_DESTROY_CQ,
    [EQ] = RNIC_ADMIN_DESTROY_EQ,
    [PD] = RNIC_ADMIN_DEALLOC_PD,
};

static Kind created_by(uint16_t opcode)
{
    switch (opcode) {
    case RNIC_ADMIN_ALLOC_MW:
        return WINDOW;
    case RNIC_ADMIN_ALLOC_STAG:
    case RNIC_ADMIN_REGISTER_MR:
    case RNIC_ADMIN_REGISTER_SHARED_MR:
        return REGION;
    case RNIC_ADMIN_CM_LISTEN:
        return LISTENER;
    case RNIC_ADMIN_CREATE_QP:
        return QP;
    case RNIC_ADMIN_CREATE_SRQ:
        return SRQ;
    case RNIC_ADMIN_CREATE_CQ:
        return CQ;
    case RNIC_ADMIN_CREATE_EQ:
        return EQ;
    case RNIC_ADMIN_ALLOC_PD:
        return PD;
    default:
        return NONE;
    }
}

/* STags by their index. */
static uint32_t name_of(Kind kind, uint32_t number)
{
    return kind == WINDOW || kind == REGION ? number >> 8 : number;
}

static uint64_t *key_of(Kind kind, uint32_t number)
{
    uint64_t key = (uint64_t)kind << 32 | name_of(kind, number);

    return g_memdup2(&key, sizeof(key));
}

static void add(RnicObjects *o, Kind kind, uint32_t number)
{
    g_hash_table_add(o->alive, key_of(kind, number));
}

static void drop(RnicObjects *o, Kind kind, uint32_t number)
{
    g_autofree uint64_t *key = key_of(kind, number);

    g_hash_table_remove(o->alive, key);
}

RnicObjects *rnic_objects_new(void)
{
    RnicObjects *o = g_new0(RnicObjects, 1);

    o->commands = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    o->alive = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
                                     NULL);
    return o;
}

void rnic_objects_free(RnicObjects *o)
{
    g_hash_table_destroy(o->commands);
    g_hash_table_destroy(o->alive);
    g_free(o);
}

void rnic_objects_forget(RnicObjects *o)
{
    g_hash_table_remove_all(o->commands);
    g_hash_table_remove_all(o->alive);
}

void rnic_objects_given(RnicObjects *o, const struct rnic_admin_sqe *sqe)
{
    g_hash_table_insert(o->commands,
                        GUINT_TO_POINTER(le16_to_cpu(sqe->command_id)),
                        g_memdup2(sqe, sizeof(*sqe)));
}

/* V7.3.2.3-7: a region does not survive most failures of Reregister. */
static bool region_gone(const struct rnic_admin_sqe *sqe, uint16_t status)
{
    return le16_to_cpu(sqe->opcode) == RNIC_ADMIN_REREGISTER_MR &&
           status != RNIC_ST_OK && status != RNIC_ST_INVALID_STAG &&
           status != RNIC_ST_MW_BOUND_TO_MR &&
           status != RNIC_ST_RESERVED_NOT_ZERO;
}

static void learn(RnicObjects *o, const struct rnic_admin_sqe *sqe,
                  const struct rnic_admin_cqe *cqe)
{
    uint16_t opcode = le16_to_cpu(sqe->opcode);
    uint16_t status = le16_to_cpu(cqe->status);

    if (region_gone(sqe, status)) {
        drop(o, REGION, le32_to_cpu(sqe->register_mr.stag));
    }
    if (status != RNIC_ST_OK) {
        return;
    }
    if (created_by(opcode) != NONE) {
        add(o, created_by(opcode), le32_to_cpu(cqe->number));
        return;
    }
    for (Kind kind = 0; kind < KINDS; kind++) {
        if (opcode == destroy_commands[kind]) {
            drop(o, kind, le32_to_cpu(sqe->object.number));
        }
    }
}

void rnic_objects_answered(RnicObjects *o, const struct rnic_admin_cqe *cqe)
{
    gpointer id = GUINT_TO_POINTER(le16_to_cpu(cqe->command_id));
    const struct rnic_admin_sqe *sqe = g_hash_table_lookup(o->commands, id);

    if (sqe) {
        learn(o, sqe, cqe);
        g_hash_table_remove(o->commands, id);
    }
}

static void destroy_kind(Rnic *r, Kind kind)
{
    g_autofree gpointer *keys = NULL;
    guint count;

    keys = g_hash_table_get_keys_as_array(r->objects->alive, &count);
    for (guint i = 0; i < count; i++) {
        uint64_t key = *(uint64_t *)keys[i];
        uint32_t number = key;

        if (key >> 32 != kind) {
            continue;
        }
        if (kind == WINDOW || kind == REGION) {
            number <<= 8;
        }
        g_assert_cmpuint(rnic_admin_object(r, destroy_commands[kind], number),
                         ==, RNIC_ST_OK);
    }
}

/* Requests that nobody answered are known to the peer and the device only. */
static void reject_endpoints(Rnic *r)
{
    for (uint32_t i = 1; i <= MAX_ENDPOINTS; i++) {
        if (rnic_query_counters(r).endpoints == 0) {
            return;
        }
        rnic_try_reject(r, i, NULL, 0);
    }
}

/* Streams too: none of them belongs to anything. */
static void close_streams(Rnic *r)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_LLP_CLOSE);

    sqe.llp_close.reset = 1;
    for (uint32_t i = 1; i <= MAX_ENDPOINTS; i++) {
        if (rnic_query_counters(r).llp_streams == 0) {
            return;
        }
        sqe.llp_close.stream = cpu_to_le32(i);
        rnic_admin(r, &sqe, NULL);
    }
}

static void assert_nothing_left(Rnic *r)
{
    struct rnic_counters c = rnic_query_counters(r);

    g_assert_cmpuint(le32_to_cpu(c.qps), ==, 0);
    g_assert_cmpuint(le32_to_cpu(c.cqs), ==, 0);
    g_assert_cmpuint(le32_to_cpu(c.srqs), ==, 0);
    g_assert_cmpuint(le32_to_cpu(c.eqs), ==, 0);
    g_assert_cmpuint(le32_to_cpu(c.pds), ==, 0);
    g_assert_cmpuint(le32_to_cpu(c.stags), ==, 0);
    g_assert_cmpuint(le32_to_cpu(c.listeners), ==, 0);
    g_assert_cmpuint(le32_to_cpu(c.endpoints), ==, 0);
    g_assert_cmpuint(le32_to_cpu(c.llp_streams), ==, 0);
}

void rnic_objects_tear_down(Rnic *r)
{
    for (Kind kind = 0; kind < KINDS; kind++) {
        destroy_kind(r, kind);
        if (kind == QP) {
            reject_endpoints(r);
            close_streams(r);
        }
    }
    assert_nothing_left(r);
}
