/*
 * rnic: the admin queue
 *
 * Fetches commands, finds the handler in a table, writes the completion.  The
 * handlers live with the objects they act on.  Commands are started in order, in
 * the main loop; those that concern a QP or the TPT are done by a worker, and
 * others go on meanwhile.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/cutils.h"
#include "qemu/main-loop.h"
#include "admin.h"
#include "hw/rnic/base/admin-request.h"
#include "hw/rnic/connect/cm.h"
#include "hw/rnic/connect/direct.h"
#include "hw/rnic/connect/llp-stream.h"
#include "hw/rnic/stream/requests.h"
#include "hw/rnic/tpt/tpt.h"
#include "hw/rnic/verbs/cq.h"
#include "device-attr.h"
#include "hw/rnic/guest/dma.h"
#include "ethernet.h"
#include "hw/rnic/fault/fault.h"
#include "hw/rnic/guest/event-queue.h"
#include "hw/rnic/tpt/pd.h"
#include "hw/rnic/verbs/qp.h"
#include "hw/rnic/verbs/srq.h"
#include "hw/rnic/base/trace.h"

/*
 * What one turn of the main loop does, in entries of page lists; a command is
 * as much as COMMAND_WEIGHT of those.
 */
enum {
    TURN_WEIGHT = 64 * 1024,
    COMMAND_WEIGHT = 1024,
};

struct RnicAdmin {
    QEMUBH *bh;
    uint32_t fetched;           /* index of the next command to fetch */
    uint32_t completed;         /* index of the next CQE to write */
    uint32_t ended;             /* commands that are done */
    QLIST_HEAD(, RnicAdminRequest) started;     /* and not completed */
};

typedef enum rnic_admin_status AdminHandler(RnicState *s,
                                            const struct rnic_admin_sqe *sqe,
                                            struct rnic_admin_cqe *cqe);
typedef enum rnic_admin_status AdminHandlerNoResult(
    RnicState *s, const struct rnic_admin_sqe *sqe);
typedef enum rnic_admin_status AdminRequestHandler(RnicAdminRequest *q);

/* Octets within the arguments that must be zero. */
typedef struct ReservedField {
    uint8_t offset;
    uint8_t size;
} ReservedField;

typedef struct AdminCommand {
    AdminHandler *handler;      /* one of the four */
    AdminHandlerNoResult *handler_no_result;
    AdminRequestHandler *request_handler;       /* may return LATER */
    AdminRequestHandler *tpt_handler;   /* in the worker that has the TPT */
    uint8_t args;               /* octets of arguments; the rest is zero */
    uint8_t page_list;          /* 1 + offset of a queue's page list; 0: none */
    uint8_t pdn;                /* 1 + offset of a PD's number, that a TPT
                                 * handler needs; 0: none */
    bool bulk;                  /* takes bulk data */
    uint64_t needs;             /* RNIC_FEATURE_* to be accepted */
    ReservedField reserved[3];
} AdminCommand;

#define ARGS(member) sizeof(((struct rnic_admin_sqe *)0)->member)
#define RESERVED(field)                                                     \
    { OFFSET(field), ARGS(field) }
#define RESULT(fn, member) \
    .handler = fn, .args = ARGS(member)
#define NO_RESULT(fn, member) \
    .handler_no_result = fn, .args = ARGS(member)
#define REQUEST(fn, member) \
    .request_handler = fn, .args = ARGS(member)
#define TPT(fn, member) \
    .tpt_handler = fn, .args = ARGS(member)
#define OFFSET(field)                                                       \
    (offsetof(struct rnic_admin_sqe, field) -                               \
     offsetof(struct rnic_admin_sqe, raw))
#define PAGE_LIST(member) .page_list = 1 + OFFSET(member.memory.pages)
#define PDN(member) .pdn = 1 + OFFSET(member.pdn)

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
        RESULT(rnic_eq_create, create_eq), PAGE_LIST(create_eq),
        .reserved = { RESERVED(create_eq.reserved),
                      RESERVED(create_eq.reserved2) } },
    [RNIC_ADMIN_DESTROY_EQ] = { NO_RESULT(rnic_eq_destroy, object) },
    [RNIC_ADMIN_ALLOC_PD] = { .handler = rnic_pd_alloc },
    [RNIC_ADMIN_DEALLOC_PD] = {
        NO_RESULT(rnic_pd_dealloc, object) },
    [RNIC_ADMIN_CREATE_CQ] = {
        RESULT(rnic_cq_create, create_cq), PAGE_LIST(create_cq) },
    [RNIC_ADMIN_QUERY_CQ] = { RESULT(rnic_cq_query, object) },
    [RNIC_ADMIN_MODIFY_CQ] = {
        RESULT(rnic_cq_modify, modify_cq), PAGE_LIST(modify_cq),
        .reserved = { RESERVED(modify_cq.reserved) } },
    [RNIC_ADMIN_DESTROY_CQ] = { NO_RESULT(rnic_cq_destroy, object) },
    [RNIC_ADMIN_CREATE_SRQ] = {
        RESULT(rnic_srq_create, create_srq), PAGE_LIST(create_srq),
        .needs = RNIC_FEATURE_SRQ,
        .reserved = { RESERVED(create_srq.srqn),
                      RESERVED(create_srq.reserved) } },
    [RNIC_ADMIN_QUERY_SRQ] = {
        RESULT(rnic_srq_query, object), .needs = RNIC_FEATURE_SRQ },
    [RNIC_ADMIN_MODIFY_SRQ] = {
        RESULT(rnic_srq_modify, create_srq), PAGE_LIST(create_srq),
        .needs = RNIC_FEATURE_SRQ,
        .reserved = { RESERVED(create_srq.reserved) } },
    [RNIC_ADMIN_DESTROY_SRQ] = {
        NO_RESULT(rnic_srq_destroy, object),
        .needs = RNIC_FEATURE_SRQ },
    [RNIC_ADMIN_CREATE_QP] = {
        RESULT(rnic_qp_create, create_qp), PAGE_LIST(create_qp),
        .reserved = { RESERVED(create_qp.reserved) } },
    [RNIC_ADMIN_QUERY_QP] = {
        REQUEST(rnic_qp_query, object), .bulk = true },
    [RNIC_ADMIN_MODIFY_QP] = {
        REQUEST(rnic_llp_modify_qp, modify_qp), PAGE_LIST(modify_qp),
        .bulk = true,
        .reserved = { RESERVED(modify_qp.reserved),
                      RESERVED(modify_qp.reserved2) } },
    [RNIC_ADMIN_DESTROY_QP] = { REQUEST(rnic_qp_destroy, object) },
    [RNIC_ADMIN_ALLOC_STAG] = {
        TPT(rnic_tpt_alloc_stag, alloc_stag), PDN(alloc_stag),
        .needs = RNIC_FEATURE_FAST_REGISTER,
        .reserved = { RESERVED(alloc_stag.window_of_pd),
                      RESERVED(alloc_stag.reserved) } },
    [RNIC_ADMIN_REGISTER_MR] = {
        TPT(rnic_tpt_register, register_mr), PDN(register_mr),
        .reserved = { RESERVED(register_mr.reserved),
                      RESERVED(register_mr.reserved2) } },
    [RNIC_ADMIN_REREGISTER_MR] = {
        TPT(rnic_tpt_reregister, register_mr), PDN(register_mr),
        .needs = RNIC_FEATURE_REREGISTER,
        .reserved = { RESERVED(register_mr.reserved),
                      RESERVED(register_mr.reserved2) } },
    [RNIC_ADMIN_REGISTER_SHARED_MR] = {
        TPT(rnic_tpt_register_shared, shared_mr), PDN(shared_mr),
        .needs = RNIC_FEATURE_SHARED_MR,
        .reserved = { RESERVED(shared_mr.reserved) } },
    [RNIC_ADMIN_QUERY_MR] = {
        TPT(rnic_tpt_query, object), .bulk = true },
    [RNIC_ADMIN_DEALLOC_STAG] = {
        TPT(rnic_tpt_dealloc, object) },
    [RNIC_ADMIN_ALLOC_MW] = {
        TPT(rnic_tpt_alloc_mw, alloc_stag), PDN(alloc_stag),
        .needs = RNIC_FEATURE_MEMORY_WINDOW,
        .reserved = { RESERVED(alloc_stag.reserved) } },
    [RNIC_ADMIN_QUERY_MW] = {
        TPT(rnic_tpt_query, object), .bulk = true,
        .needs = RNIC_FEATURE_MEMORY_WINDOW },
    [RNIC_ADMIN_CM_LISTEN] = {
        REQUEST(rnic_cm_listen, listen),
        .reserved = { RESERVED(listen.reserved),
                      RESERVED(listen.local.reserved) } },
    [RNIC_ADMIN_CM_UNLISTEN] = { NO_RESULT(rnic_cm_unlisten, object) },
    [RNIC_ADMIN_CM_CONNECT] = {
        RESULT(rnic_cm_connect, connect), .bulk = true,
        .reserved = { RESERVED(connect.reserved),
                      RESERVED(connect.local.reserved),
                      RESERVED(connect.remote.reserved) } },
    [RNIC_ADMIN_CM_ACCEPT] = {
        NO_RESULT(rnic_cm_accept, accept), .bulk = true },
    [RNIC_ADMIN_CM_REJECT] = {
        NO_RESULT(rnic_cm_reject, accept), .bulk = true },
    [RNIC_ADMIN_CM_DIRECT_CONNECT] = {
        NO_RESULT(rnic_direct_connect, direct_connect),
        .needs = RNIC_FEATURE_DIRECT_CONNECT,
        .reserved = { RESERVED(direct_connect.reserved) } },
    [RNIC_ADMIN_CM_DIRECT_SEND] = {
        REQUEST(rnic_direct_send, direct_send),
        .needs = RNIC_FEATURE_DIRECT_CONNECT,
        .reserved = { RESERVED(direct_send.reserved) } },
    [RNIC_ADMIN_LLP_OPEN] = {
        RESULT(rnic_llp_open, llp_open), .needs = RNIC_FEATURE_LLP_STREAM,
        .reserved = { RESERVED(llp_open.reserved),
                      RESERVED(llp_open.local.reserved),
                      RESERVED(llp_open.remote.reserved) } },
    [RNIC_ADMIN_LLP_SEND] = {
        NO_RESULT(rnic_llp_send, llp_octets), .bulk = true,
        .needs = RNIC_FEATURE_LLP_STREAM },
    [RNIC_ADMIN_LLP_RECEIVE] = {
        RESULT(rnic_llp_receive, llp_octets), .bulk = true,
        .needs = RNIC_FEATURE_LLP_STREAM },
    [RNIC_ADMIN_LLP_CLOSE] = {
        NO_RESULT(rnic_llp_close, llp_close),
        .needs = RNIC_FEATURE_LLP_STREAM,
        .reserved = { RESERVED(llp_close.reserved) } },
    [RNIC_ADMIN_CREATE_ETH_QUEUE] = {
        NO_RESULT(rnic_ethernet_create_queue, eth_queue), PAGE_LIST(eth_queue),
        .needs = RNIC_FEATURE_ETHERNET,
        .reserved = { RESERVED(eth_queue.reserved) } },
    [RNIC_ADMIN_DESTROY_ETH_QUEUE] = {
        NO_RESULT(rnic_ethernet_destroy_queue, eth_queue),
        .needs = RNIC_FEATURE_ETHERNET },
    [RNIC_ADMIN_SET_RX_MODE] = {
        NO_RESULT(rnic_ethernet_set_rx_mode, rx_mode), .bulk = true,
        .needs = RNIC_FEATURE_ETHERNET },
};

static bool admin_implemented(const AdminCommand *command)
{
    return command->handler || command->handler_no_result ||
           command->request_handler || command->tpt_handler;
}

/* NULL: no command has this opcode. */
static const AdminCommand *admin_find(uint16_t opcode)
{
    if (opcode >= ARRAY_SIZE(commands)) {
        return NULL;
    }
    return admin_implemented(&commands[opcode]) ? &commands[opcode] : NULL;
}

static enum rnic_admin_status admin_check_form(const AdminCommand *command,
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

/* ----------------------------------------------------------- completion */

static bool admin_write_cqe(RnicState *s, const struct rnic_admin_cqe *cqe)
{
    const uint32_t body = offsetof(struct rnic_admin_cqe, flags);
    uint32_t index = s->admin->completed;
    uint32_t depth = s->regs.admin_depth;
    uint64_t at = s->regs.admin_cq_base +
                  (index & (depth - 1)) * sizeof(*cqe);

    return rnic_dma_write(s, at, cqe, body) &&
           rnic_dma_store32(s, at + body,
                            index & depth ? 0 : RNIC_EQE_PHASE);
}

static void admin_post_cqe(RnicState *s, const struct rnic_admin_cqe *cqe)
{
    if (!admin_write_cqe(s, cqe)) {
        rnic_fatal(s, RNIC_HEALTH_ADMIN_CQ_DMA);
        return;
    }
    s->admin->completed++;
    rnic_interrupt(s, s->regs.admin_vector);
}

/* Over what the command has answered beside its entry. */
static void admin_forge_bulk(RnicState *s, const RnicAdminRequest *q)
{
    uint32_t length = le32_to_cpu(q->sqe.bulk_length);
    const RnicFault *rule = q->fault;
    uint8_t octets[sizeof(rule->value)];

    if (rule->size > length || rule->offset > length - rule->size) {
        return;
    }
    stn_le_p(octets, rule->size, rule->value);
    if (!rnic_dma_write(s, le64_to_cpu(q->sqe.bulk_addr) + rule->offset,
                        octets, rule->size)) {
        rnic_fatal(s, RNIC_HEALTH_FAULT);
    }
}

static void admin_complete(RnicState *s, const RnicAdminRequest *q,
                           enum rnic_admin_status status)
{
    struct rnic_admin_cqe cqe = { };
    unsigned times = 1;

    trace_rnic_admin(le16_to_cpu(q->sqe.opcode),
                     le16_to_cpu(q->sqe.command_id), status,
                     le32_to_cpu(q->cqe.number));
    if (status == RNIC_ST_OK) {
        cqe = q->cqe;
        if (q->fault && q->fault->bulk) {
            admin_forge_bulk(s, q);
        }
    }
    cqe.command_id = q->sqe.command_id;
    cqe.status = cpu_to_le16(status);
    s->admin->ended++;
    if (q->fault) {
        times = rnic_fault_written(q->fault, &cqe, sizeof(cqe));
    }
    while (times--) {
        admin_post_cqe(s, &cqe);
    }
}

void rnic_admin_forget(RnicAdminRequest *q)
{
    if (q->pd) {
        rnic_object_unref(q->pd);
    }
    QLIST_REMOVE(q, next);
    timer_free(q->late);
    g_free(q->fault);
    g_free(q);
}

static void admin_answer(void *opaque)
{
    RnicAdminRequest *q = opaque;

    /* A late answer finds a device that has become FATAL since. */
    if (rnic_active(q->s) || !q->late) {
        admin_complete(q->s, q, q->status);
    }
    rnic_admin_forget(q);
}

void rnic_admin_finish(RnicAdminRequest *q, enum rnic_admin_status status)
{
    q->status = status;
    if (q->fault && q->fault->q_do == RNIC_FAULT_ACTION_LATE) {
        q->late = timer_new_ms(QEMU_CLOCK_VIRTUAL, admin_answer, q);
        timer_mod(q->late, qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL) +
                           q->fault->delay_ms);
        return;
    }
    admin_answer(q);
}

/* ------------------------------------------------- commands of the TPT */

static RnicWorkResult admin_tpt_work(RnicRequest *request)
{
    RnicAdminRequest *q = container_of(request, RnicAdminRequest, request);

    q->status = q->handler(q);
    return q->status == RNIC_ADMIN_LATER ? RNIC_WORK_AGAIN : RNIC_WORK_DONE;
}

static void admin_tpt_done(RnicRequest *request)
{
    RnicAdminRequest *q = container_of(request, RnicAdminRequest, request);

    rnic_admin_finish(q, q->status);
}

static void admin_tpt_cancel(RnicRequest *request)
{
    RnicAdminRequest *q = container_of(request, RnicAdminRequest, request);

    rnic_tpt_cancel(q);
    rnic_admin_forget(q);
}

/* The PD is looked up here, since the table of PDs is the main loop's. */
static void admin_start_tpt(RnicAdminRequest *q, const AdminCommand *command)
{
    if (command->pdn) {
        q->pd = rnic_pd_get(q->s, ldl_le_p(q->sqe.raw + command->pdn - 1));
    }
    if (q->pd) {
        rnic_object_ref(q->pd);
    }
    q->handler = command->tpt_handler;
    q->request.work = admin_tpt_work;
    q->request.done = admin_tpt_done;
    q->request.cancel = admin_tpt_cancel;
    rnic_requests_add(q->s->tpt_requests, &q->request);
}

/* -------------------------------------------------------------- start */

static enum rnic_admin_status admin_handle(RnicAdminRequest *q,
                                           const AdminCommand *command)
{
    if (command->tpt_handler) {
        admin_start_tpt(q, command);
        return RNIC_ADMIN_LATER;
    }
    if (command->request_handler) {
        return command->request_handler(q);
    }
    return command->handler ? command->handler(q->s, &q->sqe, &q->cqe)
                            : command->handler_no_result(q->s, &q->sqe);
}

static enum rnic_admin_status admin_execute(RnicAdminRequest *q,
                                            const AdminCommand *command)
{
    enum rnic_admin_status status;

    if (!command) {
        return RNIC_ST_UNKNOWN_OPCODE;
    }
    if (!rnic_accepted(q->s, command->needs)) {
        return RNIC_ST_UNSUPPORTED;
    }
    status = admin_check_form(command, &q->sqe);
    return status == RNIC_ST_OK ? admin_handle(q, command) : status;
}

/* Entries of the list that the command may read in this turn. */
static uint32_t admin_weight(const RnicAdminRequest *q,
                             const AdminCommand *command)
{
    const uint8_t *list;

    if (!command || !command->page_list) {
        return COMMAND_WEIGHT;
    }
    list = q->sqe.raw + command->page_list - 1;
    return COMMAND_WEIGHT +
           MIN(ldl_le_p(list + offsetof(struct rnic_page_list, count)),
               TURN_WEIGHT);
}

/* True: @q is not to be done, but to end with *@status. */
static bool admin_meets_fault(RnicAdminRequest *q,
                              enum rnic_admin_status *status)
{
    RnicFault rule;

    if (!rnic_fault(q->s, RNIC_FAULT_EVENT_ADMIN, le16_to_cpu(q->sqe.opcode),
                    ldl_le_p(q->sqe.raw), &rule)) {
        return false;
    }
    *status = rule.status;
    if (rule.q_do == RNIC_FAULT_ACTION_STATUS) {
        return true;
    }
    q->fault = g_memdup2(&rule, sizeof(rule));
    return false;
}

static bool admin_fetch(RnicState *s, struct rnic_admin_sqe *sqe)
{
    uint32_t slot = s->admin->fetched & (s->regs.admin_depth - 1);

    return rnic_dma_read(s, s->regs.admin_sq_base + slot * sizeof(*sqe), sqe,
                         sizeof(*sqe));
}

/* False when the queue must stop. */
static bool admin_start_next(RnicState *s, uint32_t *weight)
{
    g_autofree RnicAdminRequest *q = g_new0(RnicAdminRequest, 1);
    const AdminCommand *command;
    enum rnic_admin_status status;
    RnicAdminRequest *started;

    if (!admin_fetch(s, &q->sqe)) {
        rnic_fatal(s, RNIC_HEALTH_ADMIN_SQ_DMA);
        return false;
    }
    s->admin->fetched++;
    q->s = s;
    command = admin_find(le16_to_cpu(q->sqe.opcode));
    *weight += admin_weight(q, command);
    started = g_steal_pointer(&q);
    QLIST_INSERT_HEAD(&s->admin->started, started, next);
    if (!admin_meets_fault(started, &status)) {
        status = admin_execute(started, command);
    }
    if (status != RNIC_ADMIN_LATER) {
        rnic_admin_finish(started, status);
    }
    return true;
}

static void admin_bh(void *opaque)
{
    RnicState *s = opaque;
    uint32_t weight = 0;

    while (rnic_active(s) && s->admin->fetched != s->regs.admin_tail) {
        if (weight >= TURN_WEIGHT) {
            qemu_bh_schedule(s->admin->bh);
            return;
        }
        if (!admin_start_next(s, &weight)) {
            return;
        }
    }
}

/* --------------------------------------------------------------- life */

void rnic_admin_realize(RnicState *s)
{
    s->admin = g_new0(RnicAdmin, 1);
    QLIST_INIT(&s->admin->started);
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
    s->admin->fetched = 0;
    s->admin->completed = 0;
    s->admin->ended = 0;
    s->regs.admin_tail = 0;
    s->regs.admin_head = 0;
}

void rnic_admin_stop(RnicState *s)
{
    RnicAdminRequest *q, *next;

    qemu_bh_cancel(s->admin->bh);
    QLIST_FOREACH_SAFE(q, &s->admin->started, next, next) {
        if (q->late) {
            rnic_admin_forget(q);
        }
    }
}

bool rnic_admin_idle(const RnicState *s)
{
    return QLIST_EMPTY(&s->admin->started);
}

void rnic_admin_kick(RnicState *s)
{
    if (s->regs.admin_tail - s->admin->ended > s->regs.admin_depth) {
        rnic_fatal(s, RNIC_HEALTH_ADMIN_TAIL);
        return;
    }
    qemu_bh_schedule(s->admin->bh);
}
