/*
 * rnic: faults on demand, the property x-fault
 *
 * Each action at each event that has it, by what a driver sees; which events a
 * rule counts; what is refused. The device must be as good as new when the rules
 * are gone.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "qemu/bswap.h"
#include "hw/pci/pci_regs.h"
#include "qapi/error.h"
#include "qobject/qdict.h"
#include "qobject/qjson.h"
#include "qobject/qlist.h"

#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/librnic.h"
#include "tests/qtest/rnic/lib/wire-peer.h"

#define NAMED ",id=nic"
#define PATH "'path': '/machine/peripheral/nic', 'property': 'x-fault'"

enum {
    LENGTH = 64,
    LIE = 0x5a5a5a5a,
};

/* The answer to setting @rules, a JSON list. */
static QDict *fault_try(Rnic *r, const char *rules)
{
    g_autofree char *command = g_strdup_printf(
        "{ 'execute': 'qom-set', 'arguments': { " PATH ", "
        "'value': { 'rules': [ %s ] } } }", rules);

    return qtest_qmp(r->qts, "%p", qobject_from_json(command, &error_abort));
}

static void fault_set(Rnic *r, const char *rules)
{
    QDict *answer = fault_try(r, rules);

    g_assert_true(qdict_haskey(answer, "return"));
    qobject_unref(answer);
}

static void fault_refused(Rnic *r, const char *rules, const char *why)
{
    QDict *answer = fault_try(r, rules);

    g_assert_true(qdict_haskey(answer, "error"));
    g_test_message("%s", qdict_get_str(qdict_get_qdict(answer, "error"), "desc"));
    g_assert_nonnull(strstr(qdict_get_str(qdict_get_qdict(answer, "error"),
                                          "desc"), why));
    qobject_unref(answer);
}

/* Of the first rule. */
static int64_t fault_number(Rnic *r, const char *name)
{
    QDict *answer = qtest_qmp(r->qts, "{ 'execute': 'qom-get', 'arguments': { "
                              PATH " } }");
    QList *rules = qdict_get_qlist(qdict_get_qdict(answer, "return"), "rules");
    int64_t number = qdict_get_int(qobject_to(QDict, qlist_peek(rules)), name);

    qobject_unref(answer);
    return number;
}

static uint16_t nop(Rnic *r)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_NOP);

    return rnic_admin(r, &sqe, NULL);
}

static void submit_nop(Rnic *r)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_NOP);

    rnic_admin_fill(r, &sqe);
    rnic_admin_tail(r);
}

/* ----------------------------------------------------------------- grammar */

static void test_refused(void)
{
    Rnic *r = rnic_boot_up(NAMED);

    fault_set(r, "{ 'on': 'admin', 'do': 'status', 'status': 1, 'nth': 7777 }");
    fault_refused(r, "{ 'on': 'admin' }", "do");
    fault_refused(r, "{ 'do': 'lose' }", "on");
    fault_refused(r, "{ 'on': 'tea', 'do': 'lose' }", "tea");
    fault_refused(r, "{ 'on': 'admin', 'do': 'lose', 'often': 1 }", "often");
    fault_refused(r, "{ 'on': 'completion', 'do': 'status', 'status': 1 }",
                  "no status of completion");
    fault_refused(r, "{ 'on': 'interrupt', 'do': 'forge' }",
                  "no forge of interrupt");
    fault_refused(r, "{ 'on': 'register', 'do': 'lose' }",
                  "no lose of register");
    fault_refused(r, "{ 'on': 'admin', 'do': 'status' }", "needs status");
    fault_refused(r, "{ 'on': 'admin', 'do': 'status', 'status': 65535 }",
                  "status 65535");
    fault_refused(r, "{ 'on': 'admin', 'do': 'late' }", "needs delay-ms");
    fault_refused(r, "{ 'on': 'admin', 'do': 'lose', 'nth': 0 }", "nth");
    fault_refused(r, "{ 'on': 'admin', 'do': 'lose', 'seen': 1 }", "seen");
    fault_refused(r, "{ 'on': 'admin', 'do': 'forge', 'size': 3 }", "size 3");
    fault_refused(r, "{ 'on': 'admin', 'do': 'forge', 'size': 16 }", "size 16");
    fault_refused(r, "{ 'on': 'completion', 'do': 'forge', 'offset': 255 }",
                  "32 octets to forge");
    fault_refused(r, "{ 'on': 'completion', 'do': 'forge', 'offset': 29 }",
                  "32 octets to forge");
    fault_refused(r, "{ 'on': 'completion-event', 'do': 'forge', 'offset': 12 }",
                  "12 octets to forge");
    fault_refused(r, "{ 'on': 'completion', 'do': 'flood' }",
                  "no flood of completion");
    fault_refused(r, "{ 'on': 'completion', 'do': 'forge', 'bulk': true }",
                  "bulk is of");
    fault_refused(r, "{ 'on': 'admin', 'do': 'lose', 'bulk': true }",
                  "bulk is of");
    /* The rules of before are still there. */
    g_assert_cmpint(fault_number(r, "nth"), ==, 7777);
    g_assert_cmpint(fault_number(r, "times"), ==, 1);
    rnic_quit(r);
}

/* Which events count: nth, times, kind, object. */
static void test_counting(void)
{
    Rnic *r = rnic_boot_up(NAMED);

    fault_set(r, "{ 'on': 'admin', 'kind': 0, 'nth': 3, 'times': 2, "
              "'do': 'status', 'status': 9 }");
    for (unsigned i = 1; i <= 6; i++) {
        g_assert_cmpint(nop(r), ==, i == 3 || i == 4 ? 9 : RNIC_ST_OK);
        rnic_query_device(r);
    }
    g_assert_cmpint(fault_number(r, "seen"), ==, 6);
    g_assert_cmpint(fault_number(r, "done"), ==, 2);

    /* The rules outlive a reset. */
    fault_set(r, "{ 'on': 'admin', 'kind': 0, 'times': 0, 'do': 'status', "
              "'status': 9 }");
    rnic_reset(r);
    rnic_up(r);
    for (unsigned i = 0; i < 5; i++) {
        g_assert_cmpint(nop(r), ==, 9);
    }
    fault_set(r, "");
    g_assert_cmpint(nop(r), ==, RNIC_ST_OK);

    /* The first rule that applies; what the others count is not changed by it. */
    fault_set(r, "{ 'on': 'admin', 'nth': 2, 'do': 'status', 'status': 5 }, "
              "{ 'on': 'admin', 'nth': 2, 'times': 2, 'do': 'status', "
              "'status': 6 }");
    g_assert_cmpint(nop(r), ==, RNIC_ST_OK);
    g_assert_cmpint(nop(r), ==, 5);
    g_assert_cmpint(nop(r), ==, 6);
    g_assert_cmpint(nop(r), ==, RNIC_ST_OK);
    rnic_quit(r);
}

/* ------------------------------------------------------------------- admin */

/* A command that ends with a status of the rule has not been done. */
static void test_admin_status(void)
{
    Rnic *r = rnic_boot_up(NAMED);
    g_autofree char *rule = NULL;
    uint32_t pd = rnic_alloc_pd(r);

    rule = g_strdup_printf("{ 'on': 'admin', 'kind': %d, 'object': %u, "
                           "'do': 'status', 'status': %d }",
                           RNIC_ADMIN_DEALLOC_PD, pd, RNIC_ST_PD_IN_USE);
    fault_set(r, rule);
    g_assert_cmpint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, r->pd + 77), ==,
                    RNIC_ST_INVALID_PD);
    g_assert_cmpint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                    RNIC_ST_PD_IN_USE);
    g_assert_cmpint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_PD, pd), ==,
                    RNIC_ST_OK);
    rnic_quit(r);
}

static void test_admin_late(void)
{
    Rnic *r = rnic_boot_up(NAMED);
    struct rnic_admin_cqe cqe;
    uint16_t late;

    fault_set(r, "{ 'on': 'admin', 'do': 'late', 'delay-ms': 3000 }");
    submit_nop(r);
    late = r->command_id;
    g_assert_false(rnic_admin_try_completion(r, &cqe));
    submit_nop(r);
    rnic_admin_completion(r, &cqe);
    g_assert_cmpint(le16_to_cpu(cqe.command_id), !=, late);
    rnic_pass_time(r, 2);
    g_assert_false(rnic_admin_try_completion(r, &cqe));
    rnic_pass_time(r, 2);
    rnic_admin_completion(r, &cqe);
    g_assert_cmpint(le16_to_cpu(cqe.command_id), ==, late);

    /* One that is still to come ends with a reset. */
    fault_set(r, "{ 'on': 'admin', 'do': 'late', 'delay-ms': 3000 }");
    submit_nop(r);
    rnic_reset(r);
    rnic_up(r);
    rnic_pass_time(r, 4);
    g_assert_false(rnic_admin_try_completion(r, &cqe));
    g_assert_cmpint(nop(r), ==, RNIC_ST_OK);
    rnic_quit(r);
}

/* More than the queue is deep: the device goes on. */
static void test_admin_lost(void)
{
    Rnic *r = rnic_boot_up(NAMED);
    struct rnic_admin_cqe cqe;
    unsigned count = 3 * r->admin_depth;
    g_autofree char *rule = g_strdup_printf(
        "{ 'on': 'admin', 'times': %u, 'do': 'lose' }", count);

    fault_set(r, rule);
    for (unsigned i = 0; i < count; i++) {
        submit_nop(r);
        r->admin_unanswered++;
        rnic_settle_fast(r);
    }
    g_assert_false(rnic_admin_try_completion(r, &cqe));
    g_assert_cmpint(nop(r), ==, RNIC_ST_OK);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, RNIC_STATUS_ENABLED);
    rnic_quit(r);
}

static void test_admin_repeated(void)
{
    Rnic *r = rnic_boot_up(NAMED);
    struct rnic_admin_cqe first, second;

    fault_set(r, "{ 'on': 'admin', 'do': 'repeat' }");
    submit_nop(r);
    rnic_admin_completion(r, &first);
    rnic_admin_completion(r, &second);
    r->admin_unanswered--;
    g_assert_cmpint(first.command_id, ==, second.command_id);
    g_assert_cmpint(nop(r), ==, RNIC_ST_OK);
    rnic_quit(r);
}

static void test_admin_forged(void)
{
    Rnic *r = rnic_boot_up(NAMED);
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_ALLOC_PD);
    struct rnic_admin_cqe cqe;
    g_autofree char *rule = g_strdup_printf(
        "{ 'on': 'admin', 'do': 'forge', 'offset': %zu, 'value': %u }",
        offsetof(struct rnic_admin_cqe, number), LIE);

    fault_set(r, rule);
    rnic_admin_fill(r, &sqe);
    rnic_admin_tail(r);
    rnic_admin_completion(r, &cqe);
    g_assert_cmphex(le32_to_cpu(cqe.number), ==, LIE);
    g_assert_cmpint(le16_to_cpu(cqe.status), ==, RNIC_ST_OK);
    rnic_reset(r);              /* nothing knows the PD's number */
    rnic_up(r);
    rnic_quit(r);
}

static void forge_bulk(Rnic *r, unsigned offset, unsigned size)
{
    g_autofree char *rule = g_strdup_printf(
        "{ 'on': 'admin', 'do': 'forge', 'bulk': true, 'offset': %u, "
        "'size': %u, 'value': %u }", offset, size, LIE);

    fault_set(r, rule);
}

/* Forged are the octets of the answer, no others, and none of a command that fails. */
static void test_admin_bulk_forged(void)
{
    Rnic *r = rnic_boot_up(NAMED);
    struct rnic_device_attr truth = rnic_query_device(r), told;
    struct rnic_qp_attr attr;

    forge_bulk(r, offsetof(struct rnic_device_attr, max_cq), 4);
    told = rnic_query_device(r);
    g_assert_cmphex(le32_to_cpu(told.max_cq), ==, LIE);
    told.max_cq = truth.max_cq;
    g_assert_cmpmem(&told, sizeof(told), &truth, sizeof(truth));

    forge_bulk(r, sizeof(told) - 1, 1);
    told = rnic_query_device(r);
    g_assert_cmphex(((uint8_t *)&told)[sizeof(told) - 1], ==, LIE & 0xff);
    forge_bulk(r, sizeof(told) - 3, 4);
    told = rnic_query_device(r);
    g_assert_cmpmem(&told, sizeof(told), &truth, sizeof(truth));
    g_assert_cmpint(fault_number(r, "done"), ==, 1);

    forge_bulk(r, 0, 4);
    g_assert_cmpint(rnic_admin_query(r, RNIC_ADMIN_QUERY_QP, 1, &attr,
                                     sizeof(attr)), ==, RNIC_ST_INVALID_QP);
    /* The memory still has the last answer. */
    g_assert_cmpmem(&attr, sizeof(attr), &truth, sizeof(attr));
    g_assert_cmpint(fault_number(r, "done"), ==, 1);
    rnic_quit(r);
}

/* -------------------------------------------------------------- completions */

static void send_one(Connection *c, uint64_t wr_id)
{
    connection_post(c, RNIC_SQ_SEND, wr_id, 0, LENGTH);
    rnic_settle(c->r);
}

static void test_completion(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = NAMED });
    g_autofree char *forge = NULL;
    struct rnic_cqe cqe;

    fault_set(c->r, "{ 'on': 'completion', 'object': 99999, 'do': 'lose' }");
    send_one(c, 1);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);

    fault_set(c->r, "{ 'on': 'completion', 'do': 'lose' }");
    send_one(c, 2);
    rnic_expect_no_cqe(c->r, &c->send_cq);
    send_one(c, 3);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_SUCCESS);

    fault_set(c->r, "{ 'on': 'completion', 'do': 'repeat' }");
    send_one(c, 4);
    rnic_expect_cqe(c->r, &c->send_cq, 4, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 4, RNIC_WC_SUCCESS);

    forge = g_strdup_printf("{ 'on': 'completion', 'kind': %d, 'object': %u, "
                            "'do': 'forge', 'offset': %zu, 'size': 8, "
                            "'value': %llu }", RNIC_SQ_SEND, c->qp.number,
                            offsetof(struct rnic_cqe, wr_id), ~0ULL >> 1);
    fault_set(c->r, forge);
    send_one(c, 5);
    rnic_cq_wait(c->r, &c->send_cq, &cqe);
    g_assert_cmphex(le64_to_cpu(cqe.wr_id), ==, ~0ULL >> 1);
    g_assert_cmpint(cqe.status, ==, RNIC_WC_SUCCESS);
    send_one(c, 6);
    rnic_expect_cqe(c->r, &c->send_cq, 6, RNIC_WC_SUCCESS);
    connection_free(c);
}

/* ------------------------------------------------------------------- events */

static unsigned completion_events(Connection *c)
{
    struct rnic_ceqe event;
    unsigned count = 0;

    rnic_settle(c->r);
    while (rnic_eq_poll(c->r, &c->r->comp_eq, &event)) {
        count++;
    }
    return count;
}

static unsigned events_of_a_send(Connection *c, uint64_t wr_id)
{
    rnic_cq_arm(c->r, &c->send_cq, RNIC_ARM_NEXT);
    send_one(c, wr_id);
    rnic_expect_cqe(c->r, &c->send_cq, wr_id, RNIC_WC_SUCCESS);
    return completion_events(c);
}

static void test_completion_event(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = NAMED ",event-hold-us=0" });
    struct rnic_ceqe event;

    g_assert_cmpint(events_of_a_send(c, 1), ==, 1);
    fault_set(c->r, "{ 'on': 'completion-event', 'do': 'repeat' }");
    g_assert_cmpint(events_of_a_send(c, 2), ==, 2);
    fault_set(c->r, "{ 'on': 'completion-event', 'do': 'forge', "
              "'value': 1515870810 }");
    rnic_cq_arm(c->r, &c->send_cq, RNIC_ARM_NEXT);
    send_one(c, 3);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_SUCCESS);
    rnic_eq_wait(c->r, &c->r->comp_eq, &event);
    g_assert_cmphex(le32_to_cpu(event.cqn), ==, LIE);
    g_assert_cmpint(events_of_a_send(c, 4), ==, 1);
    fault_set(c->r, "{ 'on': 'completion-event', 'do': 'lose' }");
    g_assert_cmpint(events_of_a_send(c, 5), ==, 0);
    connection_free(c);
}

/* What is in the queue is the rest, although there is room for more. */
static void expect_rest_of_flood(Rnic *r, RnicEq *eq)
{
    g_autofree void *event = g_malloc(eq->entry_size);
    unsigned rest = eq->depth;

    while (rest && rnic_eq_poll(r, eq, event)) {
        rest--;
    }
    rnic_settle_fast(r);
    g_assert_false(rnic_eq_poll(r, eq, event));
}

/* The queue never becomes empty: a driver that takes all there is never ends. */
static void test_flood(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = NAMED ",event-hold-us=0" });
    Rnic *r = c->r;
    unsigned count = 10 * r->comp_eq.depth;
    struct rnic_ceqe event;

    fault_set(r, "{ 'on': 'completion-event', 'do': 'flood' }");
    rnic_cq_arm(r, &c->send_cq, RNIC_ARM_NEXT);
    send_one(c, 1);
    rnic_expect_cqe(r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    while (count--) {
        rnic_eq_wait(r, &r->comp_eq, &event);
        g_assert_cmpuint(le32_to_cpu(event.cqn), ==, c->send_cq.number);
    }
    g_assert_cmpint(fault_number(r, "done"), ==, 1);
    fault_set(r, "");
    expect_rest_of_flood(r, &r->comp_eq);
    g_assert_cmpint(events_of_a_send(c, 2), ==, 1);

    /* One that is not over ends with a reset. */
    fault_set(r, "{ 'on': 'completion-event', 'do': 'flood' }");
    rnic_cq_arm(r, &c->send_cq, RNIC_ARM_NEXT);
    send_one(c, 3);
    rnic_eq_wait(r, &r->comp_eq, &event);
    rnic_reset(r);
    rnic_up(r);
    rnic_settle(r);
    g_assert_false(rnic_eq_poll(r, &r->comp_eq, &event));
    wire_close(g_steal_pointer(&c->peer));
    rnic_quit(r);
    g_free(c);
}

/* The event of a Send comes without end, and some of it has been taken. */
static Connection *flooded(const char *rules)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = NAMED ",event-hold-us=0" });
    unsigned count = 2 * c->r->comp_eq.depth;
    struct rnic_ceqe event;

    fault_set(c->r, rules);
    rnic_cq_arm(c->r, &c->send_cq, RNIC_ARM_NEXT);
    connection_post(c, RNIC_SQ_SEND, 1, 0, LENGTH);
    while (count--) {
        rnic_eq_wait(c->r, &c->r->comp_eq, &event);
    }
    return c;
}

static void test_flood_fatal(void)
{
    Connection *c = flooded("{ 'on': 'completion-event', 'do': 'flood' }, "
                            "{ 'on': 'admin', 'do': 'fatal' }");
    Rnic *r = c->r;

    submit_nop(r);
    RNIC_UNTIL(r, rnic_read32(r, RNIC_REG_STATUS) & RNIC_STATUS_FATAL);
    expect_rest_of_flood(r, &r->comp_eq);
    wire_close(g_steal_pointer(&c->peer));
    rnic_quit(r);
    g_free(c);
}

static void test_flood_stopped(void)
{
    Connection *c = flooded("{ 'on': 'completion-event', 'do': 'flood' }");

    qtest_qmp_assert_success(c->r->qts, "{ 'execute': 'stop' }");
    expect_rest_of_flood(c->r, &c->r->comp_eq);
    qtest_qmp_assert_success(c->r->qts, "{ 'execute': 'cont' }");
    expect_rest_of_flood(c->r, &c->r->comp_eq);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    g_assert_cmpint(events_of_a_send(c, 2), ==, 1);
    connection_free(c);
}

/* The peer's reset is the event; @rule is done to it. */
static Connection *peer_resets(const char *rule)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = NAMED });

    fault_set(c->r, rule);
    wire_abort(g_steal_pointer(&c->peer));
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
    rnic_settle(c->r);
    return c;
}

static void test_async_event(void)
{
    Connection *c = peer_resets("{ 'on': 'async-event', 'do': 'lose' }");

    rnic_expect_no_async(c->r);
    rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    connection_free(c);

    c = peer_resets("{ 'on': 'async-event', 'do': 'repeat' }");
    rnic_expect_async(c->r, RNIC_AE_LLP_RESET, c->qp.number);
    rnic_expect_async(c->r, RNIC_AE_LLP_RESET, c->qp.number);
    connection_free(c);

    c = peer_resets("{ 'on': 'async-event', 'do': 'flood' }");
    for (unsigned i = 0; i < 3 * c->r->async_eq.depth; i++) {
        rnic_expect_async(c->r, RNIC_AE_LLP_RESET, c->qp.number);
    }
    fault_set(c->r, "");
    expect_rest_of_flood(c->r, &c->r->async_eq);
    connection_free(c);

    c = peer_resets("{ 'on': 'async-event', 'do': 'forge', 'offset': 4, "
                    "'value': 1515870810 }");
    rnic_expect_async(c->r, RNIC_AE_LLP_RESET, LIE);
    connection_free(c);
}

static void test_connection_event(void)
{
    struct rnic_cm_event event;
    Connection *c;
    g_autofree char *forge = g_strdup_printf(
        "{ 'on': 'connection-event', 'do': 'forge', 'offset': %zu, "
        "'value': %u }", offsetof(struct rnic_cm_event, qpn), LIE);

    c = peer_resets("{ 'on': 'connection-event', 'do': 'lose' }");
    rnic_expect_no_cm(c->r);
    rnic_expect_async(c->r, RNIC_AE_LLP_RESET, c->qp.number);
    connection_free(c);

    c = peer_resets("{ 'on': 'connection-event', 'kind': 99, 'do': 'lose' }, "
                    "{ 'on': 'connection-event', 'do': 'repeat' }");
    rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    connection_free(c);

    c = peer_resets(forge);
    event = rnic_expect_cm(c->r, RNIC_CM_DISCONNECTED);
    g_assert_cmphex(le32_to_cpu(event.qpn), ==, LIE);
    connection_free(c);
}

/* ----------------------------------------------------- interrupts, registers */

static void test_interrupt(void)
{
    Rnic *r = rnic_boot_up(NAMED);

    rnic_msix_enable(r);
    fault_set(r, "{ 'on': 'interrupt', 'object': 3, 'do': 'lose' }");
    rnic_write32(r, RNIC_REG_TEST_IRQ, 2);
    rnic_settle(r);
    g_assert_true(rnic_msix_fired(r, 2));
    rnic_write32(r, RNIC_REG_TEST_IRQ, 3);
    rnic_settle(r);
    g_assert_false(rnic_msix_fired(r, 3));
    rnic_write32(r, RNIC_REG_TEST_IRQ, 3);
    rnic_settle(r);
    g_assert_true(rnic_msix_fired(r, 3));
    /* What is repeated is no other event, which would be repeated, too. */
    fault_set(r, "{ 'on': 'interrupt', 'object': 4, 'do': 'repeat', 'times': 0 }");
    rnic_write32(r, RNIC_REG_TEST_IRQ, 4);
    rnic_settle(r);
    g_assert_true(rnic_msix_fired(r, 4));
    rnic_settle(r);
    g_assert_cmpint(fault_number(r, "seen"), ==, 1);
    g_assert_cmpint(fault_number(r, "done"), ==, 1);
    rnic_quit(r);
}

static void test_register(void)
{
    Rnic *r = rnic_boot(NAMED, "");
    uint64_t mac = rnic_read64(r, RNIC_REG_MAC);
    g_autofree char *rules = g_strdup_printf(
        "{ 'on': 'register', 'object': %d, 'do': 'forge', 'value': %u }, "
        "{ 'on': 'register', 'object': %d, 'times': 0, 'do': 'forge', "
        "'offset': 4, 'size': 1, 'value': 238 }",
        RNIC_REG_MAGIC, LIE, RNIC_REG_MAC);

    fault_set(r, rules);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_ABI_VERSION) >> 16, ==,
                    RNIC_ABI_MAJOR);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_MAGIC), ==, LIE);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_MAGIC), ==, RNIC_MAGIC);
    mac = deposit64(mac, 32, 8, 238);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_MAC), ==, mac);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_MAC), ==, (uint32_t)mac);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_MAC + 4), ==, mac >> 32);
    rnic_quit(r);
}

/* ---------------------------------------------------------- FATAL, vanishing */

static void test_fatal(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = NAMED });

    fault_set(c->r, "{ 'on': 'completion', 'do': 'fatal' }");
    connection_post(c, RNIC_SQ_SEND, 1, 0, LENGTH);
    RNIC_UNTIL(c->r, rnic_read32(c->r, RNIC_REG_STATUS) ==
                     (RNIC_STATUS_ENABLED | RNIC_STATUS_FATAL));
    g_assert_cmpint(rnic_read32(c->r, RNIC_REG_HEALTH), ==, RNIC_HEALTH_FAULT);
    rnic_reset(c->r);
    g_assert_cmphex(rnic_read32(c->r, RNIC_REG_STATUS), ==, 0);
    rnic_up(c->r);
    fault_set(c->r, "{ 'on': 'admin', 'do': 'fatal', 'value': 1234 }");
    submit_nop(c->r);
    RNIC_UNTIL(c->r, rnic_read32(c->r, RNIC_REG_HEALTH) == 1234);
    rnic_reset(c->r);
    rnic_up(c->r);
    g_assert_cmpint(nop(c->r), ==, RNIC_ST_OK);
    wire_close(g_steal_pointer(&c->peer));
    rnic_quit(c->r);
    g_free(c);
}

/* All ones, no effect, nothing left of before; then a device that was reset. */
static void test_vanish(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = NAMED });
    Rnic *r = c->r;
    WireSegment segment;

    fault_set(r, "{ 'on': 'completion', 'do': 'vanish' }");
    connection_post(c, RNIC_SQ_SEND, 1, 0, LENGTH);
    RNIC_UNTIL(r, rnic_read32(r, RNIC_REG_STATUS) == UINT32_MAX);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_MAC), ==, UINT64_MAX);
    g_assert_cmphex(qpci_config_readl(r->dev, PCI_VENDOR_ID), ==, UINT32_MAX);
    rnic_write32(r, RNIC_REG_TEST32, 5);
    qpci_config_writew(r->dev, PCI_COMMAND, 0);
    rnic_doorbell(r, 0, RNIC_DB_SQ, c->qp.number);
    wire_get_segment(c->peer, &segment);        /* that was sent before */
    wire_expect_end(c->peer);

    fault_set(r, "");
    g_assert_cmphex(qpci_config_readw(r->dev, PCI_VENDOR_ID), ==,
                    RNIC_PCI_VENDOR_ID);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, 0);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_TEST32), ==, 0);
    rnic_up(r);
    g_assert_cmpint(nop(r), ==, RNIC_ST_OK);
    wire_close(g_steal_pointer(&c->peer));
    rnic_quit(r);
    g_free(c);
}

/* With a read that nobody expects anything from, and twice at once. */
static void test_vanish_by_read(void)
{
    Rnic *r = rnic_boot_up(NAMED);

    fault_set(r, "{ 'on': 'register', 'do': 'vanish' }, "
              "{ 'on': 'admin', 'do': 'vanish' }");
    submit_nop(r);
    rnic_read32(r, RNIC_REG_LINK);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_LINK), ==, UINT32_MAX);
    rnic_pass_time(r, 1);
    fault_set(r, "");
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, 0);
    rnic_up(r);
    g_assert_cmpint(nop(r), ==, RNIC_ST_OK);
    rnic_quit(r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/fault/refused", test_refused);
    qtest_add_func("rnic/fault/counting", test_counting);
    qtest_add_func("rnic/fault/admin-status", test_admin_status);
    qtest_add_func("rnic/fault/admin-late", test_admin_late);
    qtest_add_func("rnic/fault/admin-lost", test_admin_lost);
    qtest_add_func("rnic/fault/admin-repeated", test_admin_repeated);
    qtest_add_func("rnic/fault/admin-forged", test_admin_forged);
    qtest_add_func("rnic/fault/admin-bulk-forged", test_admin_bulk_forged);
    qtest_add_func("rnic/fault/completion", test_completion);
    qtest_add_func("rnic/fault/completion-event", test_completion_event);
    qtest_add_func("rnic/fault/flood", test_flood);
    qtest_add_func("rnic/fault/flood-fatal", test_flood_fatal);
    qtest_add_func("rnic/fault/flood-stopped", test_flood_stopped);
    qtest_add_func("rnic/fault/async-event", test_async_event);
    qtest_add_func("rnic/fault/connection-event", test_connection_event);
    qtest_add_func("rnic/fault/interrupt", test_interrupt);
    qtest_add_func("rnic/fault/register", test_register);
    qtest_add_func("rnic/fault/fatal", test_fatal);
    qtest_add_func("rnic/fault/vanish", test_vanish);
    qtest_add_func("rnic/fault/vanish-by-read", test_vanish_by_read);
    return g_test_run();
}
