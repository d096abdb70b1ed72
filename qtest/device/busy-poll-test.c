/*
 * rnic: busy polling (busy-poll-us=)
 *
 * After a small message the worker may look for the answer for a while before
 * it sleeps.  That, and how it ended, can be seen in a trace only; what
 * these tests show besides is that nothing else changes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "glib/gstdio.h"

#include "tests/qtest/rnic/lib/connection.h"

/* Long enough for anything to happen meanwhile. */
#define LONG_POLL ",busy-poll-us=100000"

enum {
    MESSAGE = 64,
    LARGE = 64 * 1024,
    TRIES = 500,
    TURNS_ALONE = 16,           /* those of busy-poll.c */
};

typedef struct World {
    Connection *c;
    char *log;                  /* a line for each poll */
    uint64_t wr_id;
    uint8_t message[LARGE];
} World;

static World *world_new(const char *properties)
{
    g_autofree char *arguments = NULL;
    World *w = g_new0(World, 1);

    w->log = g_strdup_printf("%s/rnic-busy-poll-%d.log", g_get_tmp_dir(),
                             (int)getpid());
    g_unlink(w->log);
    arguments = g_strdup_printf("-D %s -trace rnic_busy_poll", w->log);
    w->c = connection_new(&(ConnectionOptions) {
        .arguments = arguments, .properties = properties });
    rnic_pattern(w->message, LARGE, 5);
    return w;
}

static void world_free(World *w)
{
    connection_free(w->c);
    g_unlink(w->log);
    g_free(w->log);
    g_free(w);
}

/* Polls that ended so; NULL: all. */
static unsigned polls(World *w, const char *end)
{
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;
    unsigned n = 0;

    if (!g_file_get_contents(w->log, &text, NULL, NULL)) {
        return 0;
    }
    lines = g_strsplit(text, "\n", 0);
    for (unsigned i = 0; lines[i]; i++) {
        n += strstr(lines[i], "rnic_busy_poll") &&
             (!end || strstr(lines[i], end));
    }
    return n;
}

/* A turn that sends, and nothing else. */
static void ask(World *w)
{
    uint8_t got[MESSAGE];

    connection_fill(w->c, 0, w->message, MESSAGE);
    connection_post(w->c, RNIC_SQ_RDMA_WRITE, w->wr_id, 0, MESSAGE);
    connection_get_write(w->c, 0, got, MESSAGE);
    g_assert_cmpmem(got, MESSAGE, w->message, MESSAGE);
    rnic_expect_cqe(w->c->r, &w->c->send_cq, w->wr_id, RNIC_WC_SUCCESS);
    w->wr_id++;
}

/* The receive is there before, as its doorbell would end the poll. */
static void ask_and_answer(World *w, uint32_t length)
{
    static uint8_t got[LARGE];
    uint64_t wr_id = w->wr_id++;

    connection_recv(w->c, wr_id, LARGE, length);
    ask(w);
    wire_put_send(w->c->peer, WIRE_SEND, 0, w->message, length);
    rnic_expect_cqe(w->c->r, &w->c->recv_cq, wr_id, RNIC_WC_SUCCESS);
    connection_peek(w->c, LARGE, got, length);
    g_assert_cmpmem(got, length, w->message, length);
}

/* The worker serves nobody else. */
static void be_alone(World *w)
{
    for (unsigned i = 0; i < TURNS_ALONE; i++) {
        rnic_query_qp(w->c->r, &w->c->qp);
    }
}

static void test_answered(void)
{
    World *w = world_new(LONG_POLL);
    unsigned i;

    for (i = 0; i < TRIES && polls(w, "answered") < 10; i++) {
        ask_and_answer(w, 1 + i % MESSAGE);
    }
    g_test_message("found ten answers after %u", i);
    g_assert_cmpuint(polls(w, "answered"), >=, 10);
    world_free(w);
}

/* Where no answers come, ever fewer polls: 1, then 1, 2, 4 ... 64 left out. */
static void test_in_vain(void)
{
    World *w = world_new(",busy-poll-us=1");

    be_alone(w);
    for (unsigned i = 0; i < 200; i++) {
        ask(w);
    }
    g_assert_cmpuint(polls(w, "in vain"), >=, 1);
    g_assert_cmpuint(polls(w, NULL), <=, 9);
    world_free(w);
}

/* What comes by the kilobyte is no answer to wait for. */
static void test_large_answers(void)
{
    World *w = world_new(LONG_POLL);

    be_alone(w);
    for (unsigned i = 0; i < 200; i++) {
        ask_and_answer(w, LARGE);
    }
    g_assert_cmpuint(polls(w, NULL), >=, 1);
    /* One that finds the beginning only, on a slow host, counts as answered. */
    g_assert_cmpuint(polls(w, "in vain"), ==, 0);
    world_free(w);
}

/* The main loop wants the worker: it does not wait for the poll's end. */
static void test_called_away(void)
{
    World *w = world_new(LONG_POLL);
    unsigned i;

    be_alone(w);
    for (i = 0; i < TRIES && !polls(w, "called away"); i++) {
        ask(w);
        rnic_query_qp(w->c->r, &w->c->qp);
    }
    g_test_message("called away at try %u", i);
    g_assert_cmpuint(polls(w, "called away"), >=, 1);
    world_free(w);
}

/* So does a guest that posts more. */
static void test_more_posted(void)
{
    World *w = world_new(LONG_POLL);
    unsigned i;

    be_alone(w);
    for (i = 0; i < TRIES && !polls(w, "called away"); i++) {
        ask(w);
    }
    g_assert_cmpuint(polls(w, "called away"), >=, 1);
    g_assert_cmpuint(polls(w, "in vain"), ==, 0);
    world_free(w);
}

static void never(const char *properties)
{
    World *w = world_new(properties);

    be_alone(w);
    for (unsigned i = 0; i < 50; i++) {
        ask_and_answer(w, MESSAGE);
    }
    g_assert_cmpuint(polls(w, NULL), ==, 0);
    world_free(w);
}

static void test_off(void)
{
    never(",busy-poll-us=0");
}

/* There everything else waits for it, too. */
static void test_not_in_main_loop(void)
{
    never(",io-threads=0" LONG_POLL);
}

/* Queue pairs that take turns: each would wait for the other's poll. */
static void test_not_beside_others(void)
{
    World *w = world_new(LONG_POLL);
    Connection *c[2] = { w->c };

    c[1] = connection_prepare_second(c[0], &(ConnectionOptions) { });
    connection_establish(c[1], NULL);
    for (unsigned i = 0; i < 100; i++) {
        w->c = c[i % 2];
        ask(w);
    }
    g_assert_cmpuint(polls(w, NULL), ==, 0);
    w->c = c[0];
    connection_free_second(c[1]);
    world_free(w);
}

static void end_by_reset(World *w)
{
    wire_abort(w->c->peer);
    w->c->peer = NULL;
    rnic_expect_async(w->c->r, RNIC_AE_LLP_RESET, w->c->qp.number);
}

static void end_by_fin(World *w)
{
    wire_shutdown(w->c->peer);
    rnic_expect_async(w->c->r, RNIC_AE_LLP_CLOSE_COMPLETE, w->c->qp.number);
}

static void end_by_modify(World *w)
{
    g_assert_cmphex(rnic_modify_qp_state(w->c->r, &w->c->qp, RNIC_QPS_ERROR),
                    ==, RNIC_ST_OK);
}

/* A stream that ends during the poll. */
static void test_ends(void)
{
    static void (*const ends[])(World *w) = {
        end_by_reset, end_by_fin, end_by_modify,
    };
    World *w = world_new(LONG_POLL);
    unsigned i;

    for (i = 0; i < 30 || (i < TRIES && !polls(w, "ended")); i++) {
        be_alone(w);
        ask(w);
        ends[i % G_N_ELEMENTS(ends)](w);
        connection_recycle(w->c);
        connection_establish(w->c, NULL);
    }
    g_test_message("ended during a poll by try %u", i);
    g_assert_cmpuint(polls(w, "ended"), >=, 1);
    ask_and_answer(w, MESSAGE);
    world_free(w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/busy-poll/answered", test_answered);
    qtest_add_func("rnic/busy-poll/in-vain", test_in_vain);
    qtest_add_func("rnic/busy-poll/large-answers", test_large_answers);
    qtest_add_func("rnic/busy-poll/called-away", test_called_away);
    qtest_add_func("rnic/busy-poll/more-posted", test_more_posted);
    qtest_add_func("rnic/busy-poll/off", test_off);
    qtest_add_func("rnic/busy-poll/not-in-main-loop", test_not_in_main_loop);
    qtest_add_func("rnic/busy-poll/not-beside-others", test_not_beside_others);
    qtest_add_func("rnic/busy-poll/ends", test_ends);
    return g_test_run();
}
