/*
 * rnic: the admin queue
 *
 * Fetches commands, finds the handler in a table, writes the completion.  The
 * handlers live with the objects they act on.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/cutils.h"
#include "qemu/main-loop.h"
#include "admin.h"
#include "hw/rnic/connect/cm.h"
#include "hw/rnic/verbs/cq.h"
#include "device-attr.h"
#include "hw/rnic/guest/dma.h"
#include "ethernet.h"
#include "hw/rnic/guest/event-queue.h"
#include "hw/rnic/tpt/pd.h"
#include "hw/rnic/verbs/qp.h"
#include "hw/rnic/verbs/srq.h"
#include "hw/rnic/base/trace.h"

enum { COMMANDS_PER_TURN = 64 };

struct RnicAdmin {
    QEMUBH *bh;
    uint32_t head;              /* next command to fetch, next CQE to write */
};

typedef enum rnic_admin_status AdminHandler(RnicState *s,
                                            const struct rnic_admin_sqe *sqe,
                                            struct rnic_admin_cqe *cqe);
typedef enum rnic_admin_status AdminHandlerNoResult(
    RnicState *s, const struct rnic_admin_sqe *sqe);

/* Octets within the arguments that must be zero. */
typedef struct ReservedField {
    uint8_t offset;
    uint8_t size;
} ReservedField;

typedef struct AdminCommand {
    AdminHandler *handler;      /* either of the two */
    AdminHandlerNoResult *handler_no_result;
    uint8_t args;               /* octets of arguments; the rest is zero */
    bool bulk;                  /* takes bulk data */
    bool reserved_command;      /* kept for a feature not offered */
    bool tpt;                   /* runs under the TPT lock, for writing */
    uint64_t needs;             /* RNIC_FEATURE_* to be accepted */
    ReservedField reserved[3];
} AdminCommand;

#define ARGS(member) sizeof(((struct rnic_admin_sqe *)0)->member)
#define RESERVED(field)                                                     \
    { offsetof(struct rnic_admin_sqe, field) -                              \
      offsetof(struct rnic_admin_sqe, raw), ARGS(field) }
#define RESULT(fn, member) \
    .handler = fn, .args = ARGS(member)
#define NO_RESULT(fn, member) \
    .handler_no_result = fn, .args = ARGS(member)
#define NOT_OFFERED { .reserved_command = true }

static enum rnic_admin_status admin_nop(RnicState *s,
                                        const struct rnic_admin_sqe *sqe)
{
    return RNIC_ST_OK;
}

static const AdminCommand commands[] = {
    [RNIC_ADMIN_NOP] = { .handler_no_result = admin_nop },
    [RNIC_ADMIN_QUERY_DEVICE] = {
        .handler_no_result = rnic_device_attr_query, .bulk = true },
    [RNIC_ADMIN_QUERY_COUNTERS] = {
        .handler_no_result = rnic_counters_query, .bulk = true },
    [RNIC_ADMIN_CREATE_EQ] = {
        RESULT(rnic_eq_create, create_eq),
        .reserved = { RESERVED(create_eq.reserved),
                      RESERVED(create_eq.reserved2) } },
    [RNIC_ADMIN_DESTROY_EQ] = { NO_RESULT(rnic_eq_destroy, object) },
    [RNIC_ADMIN_ALLOC_PD] = { .handler = rnic_pd_alloc, .tpt = true },
    [RNIC_ADMIN_DEALLOC_PD] = {
        NO_RESULT(rnic_pd_dealloc, object), .tpt = true },
    [RNIC_ADMIN_CREATE_CQ] = {
        RESULT(rnic_cq_create, create_cq),
        .reserved = { RESERVED(create_cq.cqn) } },
    [RNIC_ADMIN_QUERY_CQ] = { RESULT(rnic_cq_query, object) },
    [RNIC_ADMIN_MODIFY_CQ] = NOT_OFFERED,
    [RNIC_ADMIN_DESTROY_CQ] = { NO_RESULT(rnic_cq_destroy, object) },
    [RNIC_ADMIN_CREATE_SRQ] = {
        RESULT(rnic_srq_create, create_srq), .tpt = true,
        .needs = RNIC_FEATURE_SRQ,
        .reserved = { RESERVED(create_srq.srqn),
                      RESERVED(create_srq.reserved) } },
    [RNIC_ADMIN_QUERY_SRQ] = {
        RESULT(rnic_srq_query, object), .needs = RNIC_FEATURE_SRQ },
    [RNIC_ADMIN_MODIFY_SRQ] = {
        RESULT(rnic_srq_modify, create_srq), .needs = RNIC_FEATURE_SRQ,
        .reserved = { RESERVED(create_srq.reserved) } },
    [RNIC_ADMIN_DESTROY_SRQ] = {
        NO_RESULT(rnic_srq_destroy, object), .tpt = true,
        .needs = RNIC_FEATURE_SRQ },
    [RNIC_ADMIN_CREATE_QP] = {
        RESULT(rnic_qp_create, create_qp), .tpt = true,
        .reserved = { RESERVED(create_qp.reserved) } },
    [RNIC_ADMIN_QUERY_QP] = {
        NO_RESULT(rnic_qp_query, object), .bulk = true },
    [RNIC_ADMIN_MODIFY_QP] = {
        RESULT(rnic_qp_modify, modify_qp),
        .reserved = { RESERVED(modify_qp.reserved),
                      RESERVED(modify_qp.reserved2) } },
    [RNIC_ADMIN_DESTROY_QP] = { NO_RESULT(rnic_qp_destroy, object) },
    [RNIC_ADMIN_ALLOC_STAG] = {
        RESULT(rnic_tpt_alloc_stag, alloc_stag), .tpt = true,
        .reserved = { RESERVED(alloc_stag.reserved) } },
    [RNIC_ADMIN_REGISTER_MR] = {
        RESULT(rnic_tpt_register, register_mr), .tpt = true,
        .reserved = { RESERVED(register_mr.reserved),
                      RESERVED(register_mr.reserved2) } },
    [RNIC_ADMIN_REREGISTER_MR] = {
        RESULT(rnic_tpt_reregister, register_mr), .tpt = true,
        .reserved = { RESERVED(register_mr.reserved),
                      RESERVED(register_mr.reserved2) } },
    [RNIC_ADMIN_REGISTER_SHARED_MR] = {
        RESULT(rnic_tpt_register_shared, shared_mr), .tpt = true,
        .reserved = { RESERVED(shared_mr.reserved) } },
    [RNIC_ADMIN_QUERY_MR] = {
        NO_RESULT(rnic_tpt_query_mr, object), .tpt = true, .bulk = true },
    [RNIC_ADMIN_DEALLOC_STAG] = {
        NO_RESULT(rnic_tpt_dealloc, object), .tpt = true },
    [RNIC_ADMIN_ALLOC_MW] = {
        RESULT(rnic_tpt_alloc_mw, alloc_stag), .tpt = true,
        .reserved = { RESERVED(alloc_stag.reserved) } },
    [RNIC_ADMIN_QUERY_MW] = {
        NO_RESULT(rnic_tpt_query_mw, object), .tpt = true, .bulk = true },
    [RNIC_ADMIN_CM_LISTEN] = {
        RESULT(rnic_cm_listen, listen),
        .reserved = { RESERVED(listen.reserved),
                      RESERVED(listen.local.reserved) } },
    [RNIC_ADMIN_CM_UNLISTEN] = { NO_RESULT(rnic_cm_unlisten, object) },
    [RNIC_ADMIN_CM_CONNECT] = {
        RESULT(rnic_cm_connect, connect), .bulk = true,
        .reserved = { RESERVED(connect.local.reserved),
                      RESERVED(connect.remote.reserved) } },
    [RNIC_ADMIN_CM_ACCEPT] = {
        NO_RESULT(rnic_cm_accept, accept), .bulk = true },
    [RNIC_ADMIN_CM_REJECT] = {
        NO_RESULT(rnic_cm_reject, accept), .bulk = true },
    [RNIC_ADMIN_CM_DIRECT_CONNECT] = NOT_OFFERED,
    [RNIC_ADMIN_LLP_OPEN] = NOT_OFFERED,
    [RNIC_ADMIN_LLP_SEND] = NOT_OFFERED,
    [RNIC_ADMIN_LLP_RECEIVE] = NOT_OFFERED,
    [RNIC_ADMIN_LLP_CLOSE] = NOT_OFFERED,
    [RNIC_ADMIN_CREATE_ETH_QUEUE] = {
        NO_RESULT(rnic_ethernet_create_queue, eth_queue),
        .reserved = { RESERVED(eth_queue.reserved) } },
    [RNIC_ADMIN_DESTROY_ETH_QUEUE] = {
        NO_RESULT(rnic_ethernet_destroy_queue, eth_queue) },
    [RNIC_ADMIN_SET_RX_MODE] = {
        NO_RESULT(rnic_ethernet_set_rx_mode, rx_mode), .bulk = true },
};

static bool implemented(const AdminCommand *command)
{
    return command->handler || command->handler_no_result;
}

/* NULL: no command has this opcode. */
static const AdminCommand *find(uint16_t opcode)
{
    if (opcode >= ARRAY_SIZE(commands)) {
        return NULL;
    }
    return implemented(&commands[opcode]) || commands[opcode].reserved_command
           ? &commands[opcode] : NULL;
}

static enum rnic_admin_status check_form(const AdminCommand *command,
                                         const struct rnic_admin_sqe *sqe)
{
    if (!buffer_is_zero(sqe->raw + command->args,
                        sizeof(sqe->raw) - command->args)) {
        return RNIC_ST_RESERVED_NOT_ZERO;
    }
    for (size_t i = 0; i < ARRAY_SIZE(command->reserved); i++) {
        if (!buffer_is_zero(sqe->raw + command->reserved[i].offset,
                            command->reserved[i].size)) {
            return RNIC_ST_RESERVED_NOT_ZERO;
        }
    }
    if (!command->bulk && (sqe->bulk_addr || sqe->bulk_length)) {
        return RNIC_ST_RESERVED_NOT_ZERO;
    }
    return RNIC_ST_OK;
}

static enum rnic_admin_status handle(RnicState *s, const AdminCommand *command,
                                     const struct rnic_admin_sqe *sqe,
                                     struct rnic_admin_cqe *cqe)
{
    enum rnic_admin_status status;

    if (command->tpt) {
        rnic_tpt_write_lock(s);
    }
    status = command->handler ? command->handler(s, sqe, cqe)
                              : command->handler_no_result(s, sqe);
    if (command->tpt) {
        rnic_tpt_write_unlock(s);
    }
    return status;
}

static enum rnic_admin_status execute(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      struct rnic_admin_cqe *cqe)
{
    const AdminCommand *command = find(le16_to_cpu(sqe->opcode));
    enum rnic_admin_status status;

    if (!command) {
        return RNIC_ST_UNKNOWN_OPCODE;
    }
    if (!implemented(command) || !rnic_accepted(s, command->needs)) {
        return RNIC_ST_UNSUPPORTED;
    }
    status = check_form(command, sqe);
    return status == RNIC_ST_OK ? handle(s, command, sqe, cqe) : status;
}

static bool fetch(RnicState *s, struct rnic_admin_sqe *sqe)
{
    uint32_t slot = s->admin->head & (s->regs.admin_depth - 1);

    return rnic_dma_read(s, s->regs.admin_sq_base + slot * sizeof(*sqe), sqe,
                         sizeof(*sqe));
}

static bool complete(RnicState *s, struct rnic_admin_cqe *cqe)
{
    const uint32_t body = offsetof(struct rnic_admin_cqe, flags);
    uint32_t depth = s->regs.admin_depth;
    uint64_t at = s->regs.admin_cq_base +
                  (s->admin->head & (depth - 1)) * sizeof(*cqe);

    return rnic_dma_write(s, at, cqe, body) &&
           rnic_dma_store32(s, at + body, s->admin->head & depth
                                          ? 0 : RNIC_EQE_PHASE);
}

/* False when the queue must stop. */
static bool process_one(RnicState *s)
{
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe = { };
    enum rnic_admin_status status;

    if (!fetch(s, &sqe)) {
        rnic_fatal(s, RNIC_HEALTH_ADMIN_SQ_DMA);
        return false;
    }
    status = execute(s, &sqe, &cqe);
    trace_rnic_admin(le16_to_cpu(sqe.opcode), le16_to_cpu(sqe.command_id),
                     status, le32_to_cpu(cqe.number));
    if (status != RNIC_ST_OK) {
        cqe = (struct rnic_admin_cqe) { };
    }
    cqe.command_id = sqe.command_id;
    cqe.status = cpu_to_le16(status);
    if (!complete(s, &cqe)) {
        rnic_fatal(s, RNIC_HEALTH_ADMIN_CQ_DMA);
        return false;
    }
    s->admin->head++;
    return true;
}

static void admin_bh(void *opaque)
{
    RnicState *s = opaque;
    unsigned done = 0;

    while (rnic_enabled(s) && s->admin->head != s->regs.admin_tail) {
        if (done == COMMANDS_PER_TURN) {
            qemu_bh_schedule(s->admin->bh);
            break;
        }
        if (!process_one(s)) {
            return;
        }
        done++;
    }
    if (done) {
        rnic_interrupt(s, s->regs.admin_vector);
    }
}

void rnic_admin_realize(RnicState *s)
{
    s->admin = g_new0(RnicAdmin, 1);
    s->admin->bh = qemu_bh_new_guarded(admin_bh, s,
                                       &DEVICE(s)->mem_reentrancy_guard);
}

void rnic_admin_unrealize(RnicState *s)
{
    qemu_bh_delete(s->admin->bh);
    g_clear_pointer(&s->admin, g_free);
}

void rnic_admin_start(RnicState *s)
{
    s->admin->head = 0;
    s->regs.admin_tail = 0;
    s->regs.admin_head = 0;
}

void rnic_admin_stop(RnicState *s)
{
    qemu_bh_cancel(s->admin->bh);
}

void rnic_admin_kick(RnicState *s)
{
    if (s->regs.admin_tail - s->admin->head > s->regs.admin_depth) {
        rnic_fatal(s, RNIC_HEALTH_ADMIN_TAIL);
        return;
    }
    qemu_bh_schedule(s->admin->bh);
}

enum rnic_admin_status rnic_admin_bulk_read(RnicState *s,
                                            const struct rnic_admin_sqe *sqe,
                                            void *buf, uint32_t len)
{
    uint64_t addr = le64_to_cpu(sqe->bulk_addr);

    if (le32_to_cpu(sqe->bulk_length) != len || (addr & 7)) {
        return RNIC_ST_BAD_BUFFER;
    }
    if (len && !rnic_dma_read(s, addr, buf, len)) {
        return RNIC_ST_DMA_ERROR;
    }
    return RNIC_ST_OK;
}

enum rnic_admin_status rnic_admin_bulk_write(RnicState *s,
                                             const struct rnic_admin_sqe *sqe,
                                             const void *buf, uint32_t len)
{
    uint64_t addr = le64_to_cpu(sqe->bulk_addr);
    uint32_t room = le32_to_cpu(sqe->bulk_length);

    if (room == 0 || (addr & 7)) {
        return RNIC_ST_BAD_BUFFER;
    }
    return rnic_dma_write(s, addr, buf, MIN(room, len)) ? RNIC_ST_OK
                                                        : RNIC_ST_DMA_ERROR;
}
