/*
 * rnic: streams in full flow, which rest when they have been read empty
 *
 * A stream that is empty in the middle of a message, while its worker reads a
 * lot, is read on after a moment.  A thread with several of them, or with one
 * with CRC over TCP, does not stay on the processor of the thread that sends
 * them.  All this can be seen in a trace only; what these tests show is that
 * nothing else changes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "glib/gstdio.h"

#include "tests/qtest/rnic/lib/connection.h"

enum {
    MESSAGE = 4 * 60000,
    SEGMENT = 60000,
    SMALL_SEGMENT = 2000,       /* less than is worth waiting for */
    HELD = 20000,               /* octets that come last */
    TRIES = 500,
};

typedef struct World {
    Connection *c;
    char *log;                  /* a line for each rest, and so on */
    bool in_main_loop;          /* its data path */
    uint32_t segment;           /* octets of each but the last */
    uint32_t held;              /* octets of the message that come last */
    uint8_t message[MESSAGE];
    uint8_t octets[MESSAGE + 16 * 1024];        /* the same on the wire */
    size_t length;
} World;

static void world_init(World *w, const char *properties, bool crc)
{
    g_autofree char *arguments = NULL;

    w->log = g_strdup_printf("%s/rnic-rests-%d.log", g_get_tmp_dir(),
                             (int)getpid());
    g_unlink(w->log);
    w->in_main_loop = properties && strstr(properties, "io-threads=0");
    arguments = g_strdup_printf("-name rnic,debug-threads=on -D %s "
                                "-trace rnic_stream_rests "
                                "-trace rnic_worker_leaves", w->log);
    w->c = connection_new(&(ConnectionOptions) {
        .arguments = arguments, .properties = properties, .crc = crc });
    rnic_pattern(w->message, MESSAGE, 5);
    w->segment = SEGMENT;
    w->held = HELD;
}

static void world_cleanup(World *w)
{
    connection_free(w->c);
    g_unlink(w->log);
    g_free(w->log);
}

static bool logged(World *w, const char *what)
{
    g_autofree char *text = NULL;

    return g_file_get_contents(w->log, &text, NULL, NULL) && strstr(text, what);
}

static bool rested(World *w)
{
    return logged(w, "rnic_stream_rests");
}

/* A Send of @length octets as it appears on the wire. */
static void encode(World *w, uint32_t length)
{
    static uint8_t ulpdu[SEGMENT + 64];
    WirePeer *peer = w->c->peer;

    w->length = 0;
    for (uint32_t mo = 0; mo < length; mo += w->segment) {
        uint32_t part = MIN(length - mo, w->segment);
        WireSegment segment = {
            .opcode = WIRE_SEND, .ddp_version = 1, .rdmap_version = 1,
            .last = mo + part == length, .msn = peer->send_msn, .mo = mo,
            .payload = w->message + mo, .length = part,
        };

        w->length += wire_encode_fpdu(peer, ulpdu,
                                      wire_encode_segment(&segment, ulpdu),
                                      w->octets + w->length);
    }
    peer->send_msn++;
}

static void put_most(World *w)
{
    wire_put(w->c->peer, w->octets, w->length - w->held);
}

static void put_rest(World *w)
{
    wire_put(w->c->peer, w->octets + w->length - w->held, w->held);
}

/* One message in two parts; is it whole, and is nothing complete before? */
static void check_message(World *w, uint64_t wr_id, uint32_t length)
{
    static uint8_t got[MESSAGE];

    connection_recv(w->c, wr_id, 0, length);
    encode(w, length);
    put_most(w);
    rnic_query_qp(w->c->r, &w->c->qp);
    rnic_expect_no_cqe(w->c->r, &w->c->recv_cq);
    put_rest(w);
    rnic_expect_cqe(w->c->r, &w->c->recv_cq, wr_id, RNIC_WC_SUCCESS);
    connection_peek(w->c, 0, got, length);
    g_assert_cmpmem(got, length, w->message, length);
    connection_fill(w->c, 0, w->octets, length);
}

/* How much a turn finds is up to the host, so until one has found enough. */
static void check_goes_on(bool crc, uint32_t segment)
{
    g_autofree World *w = g_new(World, 1);
    unsigned i;

    world_init(w, NULL, crc);
    w->segment = segment;
    for (i = 0; i < TRIES && !rested(w); i++) {
        check_message(w, i, MESSAGE);
    }
    g_test_message("rested at try %u", i);
    g_assert_true(rested(w));
    check_message(w, i, MESSAGE);
    world_cleanup(w);
}

static void test_goes_on(void)
{
    check_goes_on(false, SEGMENT);
}

/* FPDUs that come whole or not at all. */
static void test_goes_on_crc(void)
{
    check_goes_on(true, SEGMENT);
}

/* Whole FPDUs have come, but not the whole message. */
static void test_goes_on_amid_message(void)
{
    check_goes_on(false, SMALL_SEGMENT);
}

/* What brings little is waited for as ever. */
static void test_small_never(void)
{
    g_autofree World *w = g_new(World, 1);

    world_init(w, NULL, false);
    for (unsigned i = 0; i < 50; i++) {
        check_message(w, i, 60000);
    }
    g_assert_false(rested(w));
    world_cleanup(w);
}

/* The main loop's timers are too coarse for it. */
static void test_not_in_main_loop(void)
{
    g_autofree World *w = g_new(World, 1);

    world_init(w, ",io-threads=0", false);
    for (unsigned i = 0; i < 50; i++) {
        check_message(w, i, MESSAGE);
    }
    g_assert_false(rested(w));
    world_cleanup(w);
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
    rnic_expect_async(w->c->r, RNIC_AE_BAD_LLP_CLOSE, w->c->qp.number);
}

static void end_by_modify(World *w)
{
    g_assert_cmphex(rnic_modify_qp_state(w->c->r, &w->c->qp, RNIC_QPS_ERROR),
                    ==, RNIC_ST_OK);
}

/* Whether it rests or not, a stream's end is seen at once. */
static void test_ends(void)
{
    static void (*const ends[])(World *w) = {
        end_by_reset, end_by_fin, end_by_modify,
    };
    g_autofree World *w = g_new(World, 1);

    world_init(w, NULL, false);
    for (unsigned i = 0; i < 30 || (i < TRIES && !rested(w)); i++) {
        connection_recv(w->c, i, 0, MESSAGE);
        encode(w, MESSAGE);
        put_most(w);
        ends[i % G_N_ELEMENTS(ends)](w);
        connection_recycle(w->c);
        connection_establish(w->c, NULL);
    }
    g_assert_true(rested(w));
    check_message(w, TRIES, MESSAGE);
    world_cleanup(w);
}

/* ------------------------------------------------- threads that keep apart */

/* The device's thread for data, as /proc has it. */
static char *data_thread(World *w)
{
    int pid = qtest_pid(w->c->r->qts);
    g_autofree char *tasks = g_strdup_printf("/proc/%d/task", pid);
    g_autoptr(GDir) dir = g_dir_open(tasks, 0, NULL);
    const char *id;

    if (w->in_main_loop) {
        return g_strdup_printf("%s/%d", tasks, pid);
    }
    while ((id = g_dir_read_name(dir))) {
        g_autofree char *path = g_strdup_printf("%s/%s/comm", tasks, id);
        g_autofree char *name = NULL;

        if (g_file_get_contents(path, &name, NULL, NULL) &&
            g_str_has_prefix(name, "IO rnic-io")) {
            return g_strdup_printf("%s/%s", tasks, id);
        }
    }
    g_assert_not_reached();
}

/* Where it ran last: the 39th field of its stat, the 37th behind its name. */
static int processor_of(const char *thread)
{
    g_autofree char *path = g_strdup_printf("%s/stat", thread);
    g_autofree char *text = NULL;
    g_auto(GStrv) fields = NULL;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    fields = g_strsplit(strrchr(text, ')') + 2, " ", 0);
    g_assert_cmpuint(g_strv_length(fields), >, 36);
    return atoi(fields[36]);
}

static int number_of(const char *thread)
{
    return atoi(strrchr(thread, '/') + 1);
}

static cpu_set_t permitted(int thread)
{
    cpu_set_t set;

    g_assert_cmpint(sched_getaffinity(thread, sizeof(set), &set), ==, 0);
    return set;
}

static void permit(int thread, const cpu_set_t *set)
{
    g_assert_cmpint(sched_setaffinity(thread, sizeof(*set), set), ==, 0);
}

/* A peer that puts a Write again and again: as much as it can. */
typedef struct Source {
    Connection *c;
    uint8_t fpdu[SEGMENT + 64];         /* encoded once: a CRC takes its time */
    size_t length;
} Source;

static void source_init(Source *source, World *w, Connection *c)
{
    static uint8_t ulpdu[SEGMENT + 64];
    WireSegment segment = {
        .opcode = WIRE_WRITE, .tagged = true, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .stag = c->mr.stag, .to = c->mr.va,
        .payload = w->message, .length = SEGMENT,
    };

    source->c = c;
    c->peer->ring_size = 1024 * 1024;
    source->length = wire_encode_fpdu(c->peer, ulpdu,
                                      wire_encode_segment(&segment, ulpdu),
                                      source->fpdu);
}

static void pour(const Source *source, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        wire_put(source->c->peer, source->fpdu, source->length);
    }
}

/* A peer with a ring can say so; over TCP it has to be true. */
static void be_at(Connection *c, int processor)
{
    cpu_set_t set;

    if (c->peer->ring_out) {
        wire_ring_set_word(c->peer->ring_out, WIRE_RING_SENDER_PROCESSOR,
                           processor + 1);
        return;
    }
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    permit(0, &set);
}

/*
 * Does the thread try to leave, within so many tries?  The peers are where it
 * is, and it is held there, as it might go anywhere on a host with little to
 * do: so it cannot succeed.  That it can is what unit-keep-apart shows.
 */
static bool tries_to_leave(World *w, const Source *sources, unsigned streams,
                           unsigned tries)
{
    g_autofree char *thread = data_thread(w);
    int processor = processor_of(thread);
    g_autofree char *line = g_strdup_printf(
        "rnic_worker_leaves processor %d left 0\n", processor);
    cpu_set_t before = permitted(number_of(thread));
    cpu_set_t own = permitted(0);
    cpu_set_t held, after;
    unsigned i;

    CPU_ZERO(&held);
    CPU_SET(processor, &held);
    permit(number_of(thread), &held);
    for (i = 0; i < tries && !logged(w, line); i++) {
        for (unsigned j = 0; j < streams; j++) {
            be_at(sources[j].c, processor);
            pour(&sources[j], 8);
        }
    }
    g_test_message("after %u tries", i);
    after = permitted(number_of(thread));
    g_assert_true(CPU_EQUAL(&held, &after));
    permit(number_of(thread), &before);
    permit(0, &own);
    return logged(w, line);
}

static void begin_sources(World *w, Source *sources, unsigned streams)
{
    source_init(&sources[0], w, w->c);
    for (unsigned i = 1; i < streams; i++) {
        Connection *c = connection_prepare_second(w->c,
                                                  &(ConnectionOptions) { });

        connection_establish(c, NULL);
        source_init(&sources[i], w, c);
    }
    for (unsigned i = 0; i < streams; i++) {
        pour(&sources[i], 1);   /* from then on it may be a ring */
    }
}

/* In the fabric of the process. */
static void check_leaves(const char *properties, bool crc, unsigned streams,
                         bool expected)
{
    g_autofree World *w = g_new(World, 1);
    g_autofree Source *sources = g_new(Source, streams);
    unsigned tries = expected ? 40 * TRIES : TRIES;

    world_init(w, properties, crc);
    begin_sources(w, sources, streams);
    g_assert_cmpint(tries_to_leave(w, sources, streams, tries), ==, expected);
    for (unsigned i = 1; i < streams; i++) {
        connection_free_second(sources[i].c);
    }
    world_cleanup(w);
}

static void test_several_leave(void)
{
    check_leaves(NULL, false, 2, true);
}

/* One stream's two ends may share one. */
static void test_alone_stays(void)
{
    check_leaves(NULL, false, 1, false);
}

/* Unless both have sums to make. */
static void test_crc_leaves(void)
{
    check_leaves(NULL, true, 1, true);
}

/* That thread is not the device's. */
static void test_main_loop_stays(void)
{
    check_leaves(",io-threads=0", true, 2, false);
}

static void test_several_rings_leave(void)
{
    g_setenv("RNIC_TEST_FABRIC", "unix-rings", true);
    check_leaves(NULL, false, 2, true);
}

/* The ends of a ring wait for each other in turn, with CRC as well. */
static void test_ring_stays(void)
{
    g_setenv("RNIC_TEST_FABRIC", "unix-rings", true);
    check_leaves(NULL, false, 1, false);
    check_leaves(NULL, true, 1, false);
}

/* A UNIX socket holds too little for its sender to go on meanwhile. */
static void test_not_over_unix(void)
{
    g_autofree World *w = g_new(World, 1);

    g_setenv("RNIC_TEST_FABRIC", "unix", true);
    world_init(w, NULL, false);
    for (unsigned i = 0; i < 200; i++) {
        check_message(w, i, MESSAGE);
    }
    g_assert_false(rested(w));
    world_cleanup(w);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/full-flow/goes-on", test_goes_on);
    qtest_add_func("rnic/full-flow/goes-on-crc", test_goes_on_crc);
    qtest_add_func("rnic/full-flow/goes-on-amid-message",
                   test_goes_on_amid_message);
    qtest_add_func("rnic/full-flow/small-never", test_small_never);
    qtest_add_func("rnic/full-flow/not-in-main-loop", test_not_in_main_loop);
    qtest_add_func("rnic/full-flow/ends", test_ends);
    qtest_add_func("rnic/full-flow/several-leave", test_several_leave);
    qtest_add_func("rnic/full-flow/alone-stays", test_alone_stays);
    qtest_add_func("rnic/full-flow/crc-leaves", test_crc_leaves);
    qtest_add_func("rnic/full-flow/main-loop-stays", test_main_loop_stays);
    /* The last: the process keeps to its fabric. */
    qtest_add_func("rnic/full-flow/not-over-unix", test_not_over_unix);
    qtest_add_func("rnic/full-flow/several-rings-leave",
                   test_several_rings_leave);
    qtest_add_func("rnic/full-flow/ring-stays", test_ring_stays);
    return g_test_run();
}
