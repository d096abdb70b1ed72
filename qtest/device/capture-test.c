/*
 * rnic: capture of the wire by the device, against what a peer put and got
 *
 * The files are read by lib/capture-file.c. The same tests run over the UNIX fabric
 * and through its shared memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/bswap.h"
#include "qobject/qdict.h"
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/qtest/rnic/lib/capture-file.h"
#include "tests/qtest/rnic/lib/certificates.h"
#include "tests/qtest/rnic/lib/connection.h"
#include "tests/qtest/rnic/lib/direct.h"
#include "tests/qtest/rnic/lib/llp.h"

enum {
    ROOM = 256 * 1024,
    START_UP_HEAD = 20,
    /* A segment does not end in so many of an FPDU's first octets. */
    HEAD_MIN = 64,
    LARGE = 200000,
    MIB = 1024 * 1024,
};

/* ------------------------------------------------------------------ a test */

typedef struct Capture {
    const char *directory;
    char *path;
    GByteArray *put;            /* what the peer has put, and got */
    GByteArray *got;
} Capture;

static Capture capture_new(void)
{
    Capture capture = {
        .directory = certificates_directory(),
        .put = g_byte_array_new(),
        .got = g_byte_array_new(),
    };

    capture.path = g_build_filename(capture.directory, "wire.pcapng", NULL);
    wire_record(capture.put, capture.got);
    return capture;
}

static void capture_free(Capture *capture)
{
    wire_record(NULL, NULL);
    g_byte_array_unref(capture->put);
    g_byte_array_unref(capture->got);
    g_free(capture->path);
}

/* Properties of a device that captures from the start. */
static char *capturing(const Capture *capture, const char *more)
{
    return g_strdup_printf(",id=nic,capture=%s%s", capture->path, more);
}

static QDict *try_set(Rnic *r, const char *property, const char *value)
{
    return qtest_qmp(r->qts, "{ 'execute': 'qom-set', 'arguments': { "
                     "'path': '/machine/peripheral/nic', 'property': %s, "
                     "'value': %s } }", property, value);
}

static void set_file(Rnic *r, const char *file)
{
    QDict *answer = try_set(r, "capture", file);

    g_assert_true(qdict_haskey(answer, "return"));
    qobject_unref(answer);
}

static char *error_of(QDict *answer)
{
    char *text;

    g_assert_true(qdict_haskey(answer, "error"));
    text = g_strdup(qdict_get_str(qdict_get_qdict(answer, "error"), "desc"));
    qobject_unref(answer);
    return text;
}

static void send_out(Connection *c, uint32_t msn, uint32_t length)
{
    g_autofree uint8_t *data = g_malloc(ROOM);
    g_autofree uint8_t *got = g_malloc(ROOM);

    rnic_pattern(data, length, msn);
    connection_fill(c, 0, data, length);
    connection_post(c, RNIC_SQ_SEND, msn, 0, length);
    g_assert_cmpuint(wire_get_send(c->peer, WIRE_SEND, msn, got, ROOM), ==,
                     length);
    g_assert_cmpmem(got, length, data, length);
    rnic_expect_cqe(c->r, &c->send_cq, msn, RNIC_WC_SUCCESS);
}

static void send_in(Connection *c, uint32_t length)
{
    g_autofree uint8_t *data = g_malloc(ROOM);

    rnic_pattern(data, length, length);
    connection_recv(c, 77, 0, ROOM);
    wire_put_send(c->peer, WIRE_SEND, 0, data, length);
    rnic_expect_cqe(c->r, &c->recv_cq, 77, RNIC_WC_SUCCESS);
}

/*
 * A Send is complete when its octets are staged.  When the device has received a message
 * behind it, it has written them, and the tap has seen them.
 */
static void end_behind_sends(Connection *c)
{
    send_in(c, 1);
    set_file(c->r, "");
}

static void write_out(Connection *c, uint32_t length)
{
    g_autofree uint8_t *got = g_malloc(ROOM);

    connection_post(c, RNIC_SQ_RDMA_WRITE, 78, 0, length);
    g_assert_cmpuint(connection_get_write(c, 0, got, ROOM), ==, length);
    rnic_expect_cqe(c->r, &c->send_cq, 78, RNIC_WC_SUCCESS);
}

static void write_in(Connection *c, uint32_t length)
{
    g_autofree uint8_t *data = g_malloc0(ROOM);

    wire_put_write(c->peer, c->mr.stag, c->mr.va, data, length);
}

/* A Write of one segment, for the test to send. Returns octets. */
static size_t encode_write(Connection *c, uint32_t length, uint8_t *fpdu)
{
    g_autofree uint8_t *ulpdu = g_malloc(WIRE_MAX_ULPDU);
    g_autofree uint8_t *payload = g_malloc0(length);
    WireSegment segment = {
        .opcode = WIRE_WRITE, .tagged = true, .last = true, .ddp_version = 1,
        .rdmap_version = 1, .stag = c->mr.stag, .to = c->mr.va,
        .length = length, .payload = payload,
    };

    return wire_encode_fpdu(c->peer, ulpdu,
                            wire_encode_segment(&segment, ulpdu), fpdu);
}

static void much(Connection *c)
{
    send_in(c, 0);
    send_out(c, 1, 1);
    send_out(c, 2, LARGE);
    write_in(c, LARGE);
    send_in(c, LARGE);
    write_out(c, LARGE);
    for (uint32_t i = 3; i < 20; i++) {
        send_out(c, i, i * 10);
    }
    send_in(c, 1500);
}

/* The device is done with the connection. */
static void end(Connection *c)
{
    wire_shutdown(c->peer);
    wire_expect_end(c->peer);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_IDLE);
}

/* --------------------------------------------------- what is in the stream */

/*
 * Where units begin in @octets: the start-up frame, then FPDUs, with a marker of 4
 * octets at each multiple of 512 of their stream or without.
 */
static GHashTable *marked_units_of(const GByteArray *octets, bool markers)
{
    GHashTable *units = g_hash_table_new(NULL, NULL);
    size_t first = START_UP_HEAD + lduw_be_p(octets->data + 18);
    size_t at = first;

    g_hash_table_add(units, GSIZE_TO_POINTER(0));
    while (at < octets->len) {
        size_t lead = markers && (at - first) % 512 == 0 ? 4 : 0;
        size_t left = ROUND_UP(2 + lduw_be_p(octets->data + at + lead), 4) + 4;

        g_hash_table_add(units, GSIZE_TO_POINTER(at));
        for (; left; left -= 4, at += 4) {
            at += markers && (at - first) % 512 == 0 ? 4 : 0;
        }
    }
    g_assert_cmpuint(at, ==, octets->len);
    return units;
}

static GHashTable *units_of(const GByteArray *octets)
{
    return marked_units_of(octets, false);
}

/* No segment of @s ends in the first octets of an FPDU, unless that ends there, too. */
static void check_cuts(const CaptureStream *s, const GByteArray *whole,
                       bool markers)
{
    g_autoptr(GHashTable) units = marked_units_of(whole, markers);

    for (unsigned i = 0; i < s->segments->len; i++) {
        size_t at = g_array_index(s->segments, size_t, i);

        if (g_hash_table_contains(units, GSIZE_TO_POINTER(at))) {
            continue;
        }
        for (size_t back = 1; back < MIN(HEAD_MIN, at); back++) {
            g_assert_false(g_hash_table_contains(units,
                                                 GSIZE_TO_POINTER(at - back)));
        }
    }
}

static void check_whole(const CaptureStream *s, const GByteArray *want)
{
    g_assert_cmpmem(s->octets->data, s->octets->len, want->data, want->len);
    g_assert_cmpuint(s->missing, ==, 0);
    g_assert_cmpuint(s->told, ==, 0);
    g_assert_cmpuint(s->syns, ==, 1);
    g_assert_cmpuint(s->fins, ==, 1);
    g_assert_cmpuint(s->resets, ==, 0);
}

/* Handshake, addresses, and acknowledgements of what has been. */
static void check_packets(const CaptureFile *file, Connection *c, bool passive)
{
    uint32_t next[2] = { };
    unsigned first = 0;

    while (!capture_packet(file, first)->tcp) {
        first++;
    }
    g_assert_cmphex(capture_packet(file, first)->flags, ==, CAPTURE_SYN);
    g_assert_cmpint(capture_packet(file, first)->sent, ==, !passive);
    g_assert_cmphex(capture_packet(file, first + 1)->flags, ==,
                    CAPTURE_SYN | CAPTURE_ACK);
    g_assert_cmpint(capture_packet(file, first + 1)->sent, ==, passive);
    g_assert_cmphex(capture_packet(file, first + 2)->flags, ==, CAPTURE_ACK);
    for (unsigned i = first; i < file->packets->len; i++) {
        const CapturePacket *p = capture_packet(file, i);
        uint32_t peer = wire_guest_ip(passive ? 3 : 2);

        if (!p->tcp) {
            continue;
        }
        g_assert_cmphex(p->sent ? p->to_ip : p->from_ip, ==, peer);
        g_assert_cmpuint(p->length, <=, 32768);
        if (p->flags & CAPTURE_ACK) {
            g_assert_cmphex(p->ack, ==, next[!p->sent]);
        }
        next[p->sent] = p->seq + p->length +
                        !!(p->flags & (CAPTURE_SYN | CAPTURE_FIN));
    }
}

static void check_connection(const ConnectionOptions *options)
{
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, options->properties ?: "");
    ConnectionOptions o = *options;
    CaptureStream *sent, *received;
    CaptureFile *file;
    Connection *c;

    o.properties = properties;
    c = connection_new(&o);
    much(c);
    end(c);
    set_file(c->r, "");
    file = capture_file_read(capture.path);
    sent = capture_stream(file, true);
    received = capture_stream(file, false);
    g_assert_true(file->complete);
    g_assert_cmpuint(file->dropped, ==, 0);
    check_packets(file, c, o.passive);
    check_whole(sent, capture.got);
    check_whole(received, capture.put);
    check_cuts(sent, capture.got, c->peer->markers_in);
    check_cuts(received, capture.put, c->peer->markers_out);
    g_assert_cmpuint(capture_comments(file, o.passive ? "the peer connects"
                                              : "this device connects"), ==, 1);
    g_assert_cmpuint(capture_comments(file, "QP 0x1 has the connection"), ==, 1);
    g_assert_cmpuint(capture_comments(file, "QP 0x1: Idle to RTS"), ==, 1);
    g_assert_cmpuint(capture_comments(file, "QP 0x1: Closing to Idle"), ==, 1);
    capture_stream_free(sent);
    capture_stream_free(received);
    capture_file_free(file);
    connection_free(c);
    capture_free(&capture);
}

static void test_device_connects(void)
{
    check_connection(&(ConnectionOptions) { });
}

static void test_peer_connects(void)
{
    check_connection(&(ConnectionOptions) { .passive = true });
}

static void test_crc(void)
{
    check_connection(&(ConnectionOptions) { .crc = true });
}

static void test_markers(void)
{
    check_connection(&(ConnectionOptions) {
        .properties = ",mpa-markers=on", .markers_in = true, .crc = true });
}

/* The file is complete when QEMU has ended. */
static void test_end_of_qemu(void)
{
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, "");
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = properties });
    CaptureStream *sent;
    CaptureFile *file;
    struct stat st;

    send_out(c, 1, LARGE);
    connection_free(c);
    file = capture_file_read(capture.path);
    sent = capture_stream(file, true);
    g_assert_true(file->complete);
    g_assert_cmpmem(sent->octets->data, sent->octets->len, capture.got->data,
                    capture.got->len);
    g_assert_cmpint(stat(capture.path, &st), ==, 0);
    g_assert_cmphex(st.st_mode & 07777, ==, 0600);
    capture_stream_free(sent);
    capture_file_free(file);
    capture_free(&capture);
}

/* A reset by either end. */
static void test_resets(void)
{
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, "");
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = properties });
    CaptureStream *s;
    CaptureFile *file;

    send_out(c, 1, 100);
    rnic_reset(c->r);
    set_file(c->r, "");
    file = capture_file_read(capture.path);
    s = capture_stream(file, true);
    g_assert_cmpuint(s->resets, ==, 1);
    g_assert_cmpuint(s->fins, ==, 0);
    g_assert_cmpuint(capture_comments(file, "The device is reset"), >=, 1);
    capture_stream_free(s);
    capture_file_free(file);
    connection_free(c);
    capture_free(&capture);
}

/* ------------------------------------------------------- begin, end, again */

/* What @s has behind the start-up is the end of @whole, from an FPDU on. */
static void check_tail(const CaptureStream *s, const GByteArray *whole,
                       size_t from, bool markers)
{
    g_autoptr(GHashTable) units = marked_units_of(whole, markers);
    size_t start_up = START_UP_HEAD + lduw_be_p(whole->data + 18);
    size_t tail = s->octets->len - start_up;
    size_t at = whole->len - tail;

    g_test_message("the file has %zu of %u octets, from %zu on", tail, whole->len,
                   at);
    g_assert_cmpmem(s->octets->data, start_up, whole->data, start_up);
    g_assert_cmpmem(s->octets->data + start_up, tail, whole->data + at, tail);
    g_assert_true(g_hash_table_contains(units, GSIZE_TO_POINTER(at)));
    g_assert_cmpuint(at, <=, from);
    g_assert_cmpuint(s->gaps->len, ==, 1);
    g_assert_cmpuint(g_array_index(s->gaps, size_t, 0), ==, start_up);
    g_assert_cmpuint(s->syns, ==, 1);
}

static void check_second_file(Capture *capture, size_t put, size_t got,
                              bool markers)
{
    CaptureFile *file = capture_file_read(capture->path);
    CaptureStream *sent = capture_stream(file, true);
    CaptureStream *received = capture_stream(file, false);

    check_tail(sent, capture->got, got, markers);
    check_tail(received, capture->put, put, markers);
    g_assert_cmpuint(capture_comments(file, "Repeated"), ==, 2);
    g_assert_cmpuint(capture_comments(file, "began before this file"), ==, 1);
    capture_stream_free(sent);
    capture_stream_free(received);
    capture_file_free(file);
}

static void check_begins_later(bool markers)
{
    Capture capture = capture_new();
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = markers ? ",id=nic,mpa-markers=on" : ",id=nic",
        .markers_in = markers });

    for (unsigned round = 0; round < 3; round++) {
        size_t put, got;

        send_out(c, 1 + 2 * round, LARGE);
        send_in(c, LARGE + round);
        g_assert_false(g_file_test(capture.path, G_FILE_TEST_EXISTS));
        put = capture.put->len;
        got = capture.got->len;
        set_file(c->r, capture.path);
        send_out(c, 2 + 2 * round, LARGE);
        send_in(c, LARGE);
        write_out(c, 10);
        send_in(c, 1);
        set_file(c->r, "");
        check_second_file(&capture, put, got, markers);
        g_assert_cmpint(g_unlink(capture.path), ==, 0);
    }
    connection_free(c);
    capture_free(&capture);
}

static void test_begins_later(void)
{
    check_begins_later(false);
}

static void test_begins_later_markers(void)
{
    check_begins_later(true);
}

/* In the middle of an FPDU that comes in: the next one is the first in the file. */
static void test_begins_in_an_fpdu(void)
{
    Capture capture = capture_new();
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = ",id=nic" });
    g_autofree uint8_t *fpdu = g_malloc(WIRE_MAX_FPDU);
    struct rnic_counters counters;
    size_t length, put;

    send_out(c, 1, 10);
    length = encode_write(c, 9000, fpdu);
    wire_put(c->peer, fpdu, 5000);
    /* The device has read these octets when it has placed the last of them. */
    rnic_settle(c->r);
    put = capture.put->len - 5000 + length;
    set_file(c->r, capture.path);
    wire_put(c->peer, fpdu + 5000, length - 5000);
    g_assert_cmpuint(capture.put->len, ==, put);
    send_in(c, LARGE);
    send_out(c, 2, 30);
    end_behind_sends(c);
    counters = rnic_query_counters(c->r);
    g_assert_cmpuint(le64_to_cpu(counters.terminates_sent), ==, 0);
    check_second_file(&capture, put, capture.got->len - 1, false);
    connection_free(c);
    capture_free(&capture);
}

/*
 * The device has terminated the stream and does not look at what comes: it does not know
 * where an FPDU begins, and nothing that the peer sends then is in the file.
 */
static void test_begins_in_terminate(void)
{
    Capture capture = capture_new();
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = ",id=nic" });
    g_autofree uint8_t *fpdu = g_malloc(WIRE_MAX_FPDU);
    size_t length = encode_write(c, 9000, fpdu);
    CaptureStream *received;
    CaptureFile *file;

    send_in(c, 10);
    g_assert_cmpuint(rnic_modify_qp_state(c->r, &c->qp, RNIC_QPS_TERMINATE), ==,
                     RNIC_ST_OK);
    wire_put(c->peer, fpdu, 5000);
    rnic_settle(c->r);
    set_file(c->r, capture.path);
    wire_put(c->peer, fpdu + 5000, length - 5000);
    wire_put(c->peer, fpdu, length);
    wire_shutdown(c->peer);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_ERROR);
    set_file(c->r, "");
    file = capture_file_read(capture.path);
    received = capture_stream(file, false);
    g_assert_cmpuint(received->octets->len, ==,
                     START_UP_HEAD + lduw_be_p(capture.put->data + 18));
    g_assert_cmpuint(received->fins, ==, 1);
    capture_stream_free(received);
    capture_file_free(file);
    connection_free(c);
    capture_free(&capture);
}

/* ------------------------------------------------------------ how much of it */

static void test_snaplen(void)
{
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, ",capture-snaplen=128");
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = properties });
    g_autoptr(GHashTable) units = NULL;
    CaptureFile *file;
    size_t at = 0, begun = 0;

    much(c);
    end(c);
    set_file(c->r, "");
    file = capture_file_read(capture.path);
    g_assert_cmpuint(file->snaplen, ==, 128);
    units = units_of(capture.put);
    for (unsigned i = 0; i < file->packets->len; i++) {
        const CapturePacket *p = capture_packet(file, i);

        if (!p->tcp || p->sent || !p->length) {
            continue;
        }
        g_assert_cmpmem(p->payload, p->kept, capture.put->data + at, p->kept);
        begun += g_hash_table_contains(units, GSIZE_TO_POINTER(at));
        at += p->length;
    }
    g_assert_cmpuint(at, ==, capture.put->len);
    /* Each unit begins a segment. */
    g_assert_cmpuint(begun, ==, g_hash_table_size(units));
    capture_file_free(file);
    connection_free(c);
    capture_free(&capture);
}

/* Sent packets with octets, those in the file as a whole and those that are cut. */
typedef struct RateCount {
    unsigned whole, cut;
    uint64_t octets;            /* of whole ones */
} RateCount;

/* Each FPDU begins a packet where these are cut, and nothing is missing. */
static RateCount count_rate(const CaptureFile *file, const GByteArray *got,
                            size_t from, size_t end)
{
    g_autoptr(GHashTable) units = units_of(got);
    RateCount count = { };
    size_t at = 0, next = 0;

    for (unsigned i = 0; i < file->packets->len; i++) {
        const CapturePacket *p = capture_packet(file, i);

        if (!p->tcp || !p->sent || !p->length) {
            continue;
        }
        g_assert_cmpmem(p->payload, p->kept, got->data + at, p->kept);
        next = at + p->length;
        if (at >= from && at < end && p->captured < p->original) {
            count.cut++;
            for (size_t in = at + 1; in < next; in++) {
                g_assert_false(g_hash_table_contains(units,
                                                     GSIZE_TO_POINTER(in)));
            }
        } else if (at >= from && at < end) {
            count.whole++;
            count.octets += p->captured;
        }
        at = next;
    }
    g_assert_cmpuint(at, ==, got->len);
    return count;
}

/*
 * The tenth of a second's octets is kept at once, and a second of the guest's clock gives
 * room for more, though the headers alone of what was beyond are more than a second's
 * octets. What is beyond has its headers in the file, and the file says so.
 */
static void test_rate(void)
{
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, ",capture-rate=1M,mulpdu=512");
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = properties });
    CaptureFile *file;
    RateCount count;
    size_t before;
    int64_t ns = qtest_clock_step(c->r->qts, 1);

    for (unsigned i = 1; i <= 40; i++) {
        send_out(c, i, LARGE - 3000 * (i % 10));
    }
    send_in(c, 1);
    before = capture.got->len;
    ns = qtest_clock_step(c->r->qts, 1) - ns;
    rnic_pass_time(c->r, 1);
    send_out(c, 41, 50000);
    end_behind_sends(c);
    file = capture_file_read_cut(capture.path);
    g_assert_true(file->complete);
    g_assert_cmpuint(file->dropped, ==, 0);
    g_assert_cmpuint(capture_comments(file, "moves more than capture-rate"), ==,
                     1);
    count = count_rate(file, capture.got, 0, before);
    g_assert_cmpuint(count.whole, >, 0);
    g_assert_cmpuint(count.cut, >, 0);
    g_assert_cmpuint(count.octets, >, MIB / 10);
    /* One packet, or a read's, may be beyond, since the next one is cut only. */
    g_assert_cmpuint(count.octets, <,
                     MIB / 10 + 2 * LARGE + MIB * ns / 1000000000);
    count = count_rate(file, capture.got, before, capture.got->len);
    g_assert_cmpuint(count.cut, ==, 0);
    g_assert_cmpuint(count.octets, >, 50000);
    capture_file_free(file);
    connection_free(c);
    capture_free(&capture);
}

static void test_ring(void)
{
    Capture capture = capture_new();
    g_autofree char *properties =
        capturing(&capture, ",capture-size=1M,capture-files=3");
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = properties });
    g_autoptr(GHashTable) units = NULL;
    uint32_t next = 0;

    /* FPDUs of several segments, so that a file ends within one. */
    for (unsigned i = 1; i <= 30; i++) {
        send_out(c, i, LARGE - 3000 * i);
    }
    end_behind_sends(c);
    units = units_of(capture.got);
    for (int age = 3; age >= 0; age--) {
        g_autofree char *path = age ? g_strdup_printf("%s.%d", capture.path, age)
                                    : g_strdup(capture.path);
        size_t start_up = START_UP_HEAD + lduw_be_p(capture.got->data + 18);
        CaptureStream *s;
        CaptureFile *file;

        if (age == 3) {
            g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
            continue;
        }
        file = capture_file_read(path);
        s = capture_stream(file, true);
        g_assert_true(file->complete);
        g_assert_cmpuint(file->dropped, ==, 0);
        g_assert_cmpuint(file->octets->len, <=, MIB);
        g_assert_cmpuint(capture_comments(file, "Repeated"), ==, 2);
        /* Each begins with an FPDU, and says what is in no file. */
        g_assert_cmpuint(s->gaps->len, ==, 1);
        g_assert_true(g_hash_table_contains(
            units, GSIZE_TO_POINTER(start_up + s->missing)));
        if (age < 2) {
            g_assert_cmpuint(s->missing, ==,
                             next - s->first - start_up + s->told);
            g_assert_cmpuint(s->told, <, 65536);
        }
        if (age == 0) {
            size_t tail = s->octets->len - start_up;

            g_assert_cmpmem(s->octets->data, start_up, capture.got->data,
                            start_up);
            g_assert_cmpmem(s->octets->data + start_up, tail,
                            capture.got->data + capture.got->len - tail, tail);
        } else {
            g_assert_cmpuint(file->octets->len, >, MIB / 2);
        }
        next = s->next;
        capture_stream_free(s);
        capture_file_free(file);
    }
    connection_free(c);
    capture_free(&capture);
}

/* Of one file: it begins anew, and its name stays. */
static void test_ring_of_one(void)
{
    Capture capture = capture_new();
    g_autofree char *second = g_strdup_printf("%s.1", capture.path);
    g_autofree char *properties =
        capturing(&capture, ",capture-size=1M,capture-files=1");
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = properties });
    size_t start_up, tail;
    CaptureStream *s;
    CaptureFile *file;

    for (unsigned i = 1; i <= 12; i++) {
        send_out(c, i, LARGE);
    }
    end_behind_sends(c);
    g_assert_false(g_file_test(second, G_FILE_TEST_EXISTS));
    file = capture_file_read(capture.path);
    g_assert_true(file->complete);
    g_assert_cmpuint(file->octets->len, <=, MIB);
    s = capture_stream(file, true);
    start_up = START_UP_HEAD + lduw_be_p(capture.got->data + 18);
    tail = s->octets->len - start_up;
    g_assert_cmpmem(s->octets->data + start_up, tail,
                    capture.got->data + capture.got->len - tail, tail);
    capture_stream_free(s);
    capture_file_free(file);
    connection_free(c);
    capture_free(&capture);
}

/* -------------------------------------------------- a file that is too slow */

/* Reads a FIFO to its end. */
typedef struct Reader {
    int fd;
    size_t count;               /* octets until now; atomic */
    GByteArray *octets;
} Reader;

static void *reader_run(void *opaque)
{
    Reader *reader = opaque;
    uint8_t octets[65536];
    ssize_t n;

    reader->octets = g_byte_array_new();
    while ((n = read(reader->fd, octets, sizeof(octets))) > 0) {
        g_byte_array_append(reader->octets, octets, n);
        qatomic_set(&reader->count, reader->octets->len);
    }
    g_assert_cmpint(n, ==, 0);
    return NULL;
}

/* Segments are missing, whole FPDUs only; sequence numbers and comments agree. */
static void check_gaps(const CaptureFile *file, bool sent,
                       const GByteArray *whole)
{
    CaptureStream *s = capture_stream(file, sent);
    g_autoptr(GHashTable) units = units_of(whole);

    g_assert_cmpuint(s->gaps->len, >, 0);
    g_assert_cmpuint(s->missing, >, 0);
    g_assert_cmpuint(s->told, ==, s->missing);
    g_assert_cmpuint(s->octets->len + s->missing, ==, whole->len);
    for (unsigned i = 0; i < file->packets->len; i++) {
        const CapturePacket *p = capture_packet(file, i);
        size_t at = p->seq - s->first;

        if (p->tcp && p->sent == sent && p->length) {
            g_assert_cmpmem(p->payload, p->length, whole->data + at, p->length);
        }
        if (p->tcp && p->sent == sent && p->length && p->comment) {
            g_assert_true(g_hash_table_contains(units, GSIZE_TO_POINTER(at)));
        }
    }
    capture_stream_free(s);
}

/* Nobody reads the FIFO for a while: the device goes on. */
static void test_fifo(void)
{
    Capture capture = capture_new();
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = ",id=nic,capture-buffer=256k" });
    g_autofree uint8_t *fpdu = g_malloc(WIRE_MAX_FPDU);
    Reader reader = { };
    CaptureFile *file;
    size_t length;
    GThread *thread;
    uint32_t msn;

    g_assert_cmpint(mkfifo(capture.path, 0600), ==, 0);
    {
        g_autofree char *why = error_of(try_set(c->r, "capture", capture.path));

        g_assert_nonnull(strstr(why, "which nothing reads"));
    }
    connection_recycle(c);
    reader.fd = open(capture.path, O_RDONLY | O_NONBLOCK);
    g_assert_cmpint(reader.fd, >=, 0);
    g_assert_true(g_unix_set_fd_nonblocking(reader.fd, false, NULL));
    set_file(c->r, capture.path);
    g_byte_array_set_size(capture.put, 0);
    g_byte_array_set_size(capture.got, 0);
    connection_establish(c, NULL);
    for (msn = 1; msn <= 10; msn++) {
        send_out(c, msn, LARGE);
    }
    /* One that comes in is left out from its begin, though there is room for its end. */
    length = encode_write(c, 9000, fpdu);
    wire_put(c->peer, fpdu, 5000);
    rnic_settle(c->r);
    thread = g_thread_new("reader", reader_run, &reader);
    /* Half of the buffer at least has been read: there is room again. */
    RNIC_UNTIL(c->r, qatomic_read(&reader.count) > 200 * 1024);
    wire_put(c->peer, fpdu + 5000, length - 5000);
    rnic_settle(c->r);
    send_in(c, 100);
    send_out(c, msn, 1000);
    end_behind_sends(c);
    g_thread_join(thread);
    close(reader.fd);
    file = capture_file_parse(reader.octets->data, reader.octets->len);
    g_assert_true(file->complete);
    g_assert_cmpuint(file->dropped, >, 0);
    check_gaps(file, true, capture.got);
    check_gaps(file, false, capture.put);
    capture_file_free(file);
    g_byte_array_unref(reader.octets);
    connection_free(c);
    capture_free(&capture);
}

/* Nobody ever reads it, and somebody has stopped to: neither holds up the end. */
static void test_stuck_fifo(void)
{
    Capture capture = capture_new();
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = ",id=nic,capture-buffer=256k" });
    int fd;

    g_assert_cmpint(mkfifo(capture.path, 0600), ==, 0);
    fd = open(capture.path, O_RDONLY | O_NONBLOCK);
    set_file(c->r, capture.path);
    for (uint32_t msn = 1; msn <= 5; msn++) {
        send_out(c, msn, LARGE);
    }
    set_file(c->r, "");
    send_out(c, 6, LARGE);
    set_file(c->r, capture.path);
    send_out(c, 7, LARGE);
    close(fd);
    for (uint32_t msn = 8; msn <= 10; msn++) {
        send_out(c, msn, LARGE);
    }
    connection_free(c);
    capture_free(&capture);
}

static char *get_file(Rnic *r)
{
    QDict *answer = qtest_qmp(r->qts, "{ 'execute': 'qom-get', 'arguments': { "
                              "'path': '/machine/peripheral/nic', "
                              "'property': 'capture' } }");
    char *file = g_strdup(qdict_get_str(answer, "return"));

    qobject_unref(answer);
    return file;
}

static bool is_file(Rnic *r, const char *want)
{
    g_autofree char *file = get_file(r);

    return g_str_equal(file, want);
}

/* Packets that have been left out of the only capture until now. */
static unsigned long dropped(const char *log)
{
    g_autofree char *text = NULL;
    const char *at;

    g_assert_true(g_file_get_contents(log, &text, NULL, NULL));
    at = strstr(text, "rnic_capture_end packets ");
    g_assert_nonnull(at);
    at = strstr(at, " dropped ");
    g_assert_nonnull(at);
    return strtoul(at + strlen(" dropped "), NULL, 10);
}

/*
 * /dev/full takes nothing: the capture ends, and says so. The device goes on, and makes
 * no packets for it; a capture that begins then is a new one.
 */
static void test_full(void)
{
    Capture capture = capture_new();
    g_autofree char *log = g_build_filename(capture.directory, "log", NULL);
    g_autofree char *arguments =
        g_strdup_printf("-D %s -trace rnic_capture_end", log);
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = ",id=nic", .arguments = arguments });
    size_t put, got;

    g_assert_true(is_file(c->r, ""));
    set_file(c->r, "/dev/full");
    send_out(c, 1, LARGE);
    RNIC_UNTIL(c->r, is_file(c->r, ""));
    for (uint32_t msn = 2; msn <= 10; msn++) {
        send_out(c, msn, LARGE);
    }
    set_file(c->r, "");
    /* Those of what was under way when the file failed, no more. */
    g_assert_cmpuint(dropped(log), <, 20);
    send_in(c, LARGE);
    put = capture.put->len;
    got = capture.got->len;
    set_file(c->r, capture.path);
    g_assert_true(is_file(c->r, capture.path));
    send_out(c, 11, LARGE);
    send_in(c, LARGE);
    set_file(c->r, "");
    check_second_file(&capture, put, got, false);
    connection_free(c);
    capture_free(&capture);
}

/* ------------------------------------------------------------- what is refused */

/* @why: a part of the error; NULL: it is taken. */
static void check_number(Rnic *r, const char *property, int64_t value,
                         const char *why)
{
    QDict *answer = qtest_qmp(r->qts, "{ 'execute': 'qom-set', 'arguments': { "
                              "'path': '/machine/peripheral/nic', "
                              "'property': %s, 'value': %" PRId64 " } }",
                              property, value);

    if (why) {
        g_autofree char *text = error_of(answer);

        g_assert_nonnull(strstr(text, why));
    } else {
        g_assert_true(qdict_haskey(answer, "return"));
        qobject_unref(answer);
    }
}

static void check_refused(Rnic *r, const char *file, const char *why)
{
    g_autofree char *text = error_of(try_set(r, "capture", file));

    g_test_message("%s", text);
    g_assert_nonnull(strstr(text, why));
    g_assert_nonnull(strstr(text, file));
}

static void test_refused(void)
{
    Capture capture = capture_new();
    g_autofree char *nowhere = g_build_filename(capture.directory, "no", "file",
                                                NULL);
    g_autofree char *link_path = g_build_filename(capture.directory, "link",
                                                  NULL);
    g_autofree char *hard = g_build_filename(capture.directory, "hard", NULL);
    Rnic *r = rnic_boot_up(",id=nic,addr=4");
    struct stat st;
    int fd;

    check_refused(r, nowhere, "No such file");
    check_refused(r, capture.directory, "Is a directory");
    g_assert_true(g_file_set_contents(capture.path, "precious", -1, NULL));
    g_assert_cmpint(g_chmod(capture.path, 0644), ==, 0);
    g_assert_cmpint(symlink(capture.path, link_path), ==, 0);
    check_refused(r, link_path, "symbolic link");
    g_assert_cmpint(link(capture.path, hard), ==, 0);
    check_refused(r, hard, "hard link");
    g_assert_cmpint(stat(capture.path, &st), ==, 0);
    g_assert_cmpint(st.st_size, ==, strlen("precious"));
    g_assert_cmpint(g_unlink(hard), ==, 0);
    /* As another capture holds it. */
    fd = open(capture.path, O_RDWR);
    g_assert_cmpint(qemu_lock_fd(fd, 0, 0, true), ==, 0);
    check_refused(r, capture.path, "in use by another capture");
    close(fd);
    check_number(r, "capture-snaplen", 127, "128");
    check_number(r, "capture-rate", 1, "1048576");
    check_number(r, "capture-rate", MIB - 1, "1048576");
    check_number(r, "capture-rate", 0, NULL);
    check_number(r, "capture-rate", MIB, NULL);
    /* After all this it works. A file that was there is nobody else's now. */
    set_file(r, capture.path);
    g_assert_cmpint(stat(capture.path, &st), ==, 0);
    g_assert_cmphex(st.st_mode & 07777, ==, 0600);
    rnic_quit(r);
    capture_file_free(capture_file_read(capture.path));
    capture_free(&capture);
}

/* QEMU may change its directory before the next file of a ring. */
static void test_relative_name(void)
{
    Capture capture = capture_new();
    g_autofree char *here = g_get_current_dir();
    g_autofree char *to_root = g_strdup("");
    g_autofree char *relative = NULL;
    Rnic *r = rnic_boot_up(",id=nic,addr=4");

    for (const char *at = here; *at; at++) {
        if (*at == '/') {
            g_autofree char *before = g_steal_pointer(&to_root);

            to_root = g_strdup_printf("%s../", before);
        }
    }
    relative = g_strdup_printf("%s%s", to_root, capture.path + 1);
    set_file(r, relative);
    g_assert_true(is_file(r, capture.path));
    rnic_quit(r);
    capture_file_free(capture_file_read(capture.path));
    capture_free(&capture);
}

/* Files and FIFOs that another user has put there. */
static void test_of_another_user(void)
{
    enum { ANOTHER = 12345 };
    Capture capture = capture_new();
    Rnic *r = rnic_boot_up(",id=nic,addr=4");
    int reader;

    g_assert_true(g_file_set_contents(capture.path, "precious", -1, NULL));
    g_assert_cmpint(chown(capture.path, ANOTHER, -1), ==, 0);
    check_refused(r, capture.path, "belongs to another user");
    g_assert_cmpint(g_unlink(capture.path), ==, 0);
    g_assert_cmpint(mkfifo(capture.path, 0622), ==, 0);
    g_assert_cmpint(chown(capture.path, ANOTHER, -1), ==, 0);
    reader = open(capture.path, O_RDONLY | O_NONBLOCK);
    g_assert_cmpint(reader, >=, 0);
    check_refused(r, capture.path, "belongs to another user");
    close(reader);
    g_assert_cmpint(g_unlink(capture.path), ==, 0);
    rnic_quit(r);
    capture_free(&capture);
}

/* -------------------------------------------------------- the device with itself */

/* Neither end is left out, and no octet is there twice. */
static void test_own_peer(void)
{
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, "");
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = properties });
    struct rnic_counters counters;
    CaptureStream *s;
    CaptureFile *file;

    direct_to_rtr(c, OURS, OURS, c->qp.number, 0x111);
    direct_to_rts(c, 0x111, TIMEOUT_16, 7);
    rnic_wait_qp_state(c->r, &c->qp, RNIC_QPS_RTS);
    direct_deliver(c, c, 5, true);
    counters = rnic_query_counters(c->r);
    set_file(c->r, "");
    file = capture_file_read(capture.path);
    g_assert_cmpuint(capture_comments(file, "Made up"), ==, 2);
    s = capture_stream(file, true);
    g_assert_cmpuint(s->octets->len, ==,
                     START_UP_HEAD + le64_to_cpu(counters.tx_octets));
    g_assert_cmpuint(s->missing, ==, 0);
    capture_stream_free(s);
    s = capture_stream(file, false);
    g_assert_cmpuint(s->octets->len, ==, START_UP_HEAD);
    capture_stream_free(s);
    capture_file_free(file);
    connection_free(c);
    capture_free(&capture);
}

/* @a connects to @b, of the same device, which still listens.  Returns the request. */
static struct rnic_cm_event connect_to_itself(Connection *a, Connection *b)
{
    uint16_t port = wire_free_port(1);
    struct rnic_cm_event event;
    uint32_t listener;

    g_assert_cmpuint(rnic_try_listen(a->r, wire_guest_ip(1), port, 1, &listener),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_try_connect(a->r, &a->qp, wire_guest_ip(1), port, 1,
                                      1, 1, NULL, 0), ==, RNIC_ST_OK);
    event = rnic_expect_cm(a->r, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpuint(rnic_try_accept(a->r, le32_to_cpu(event.endpoint), &b->qp,
                                     1, 1, 1, NULL, 0), ==, RNIC_ST_OK);
    rnic_wait_qp_state(a->r, &a->qp, RNIC_QPS_RTS);
    rnic_wait_qp_state(a->r, &b->qp, RNIC_QPS_RTS);
    return event;
}

/* Two queue pairs of one device: one connection, both directions once. */
static void test_two_of_one_device(void)
{
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, "");
    Connection *a = connection_prepare(&(ConnectionOptions) {
        .properties = properties });
    Connection *b = connection_prepare_second(a, NULL);
    struct rnic_counters counters;
    CaptureStream *sent, *received;
    CaptureFile *file;

    connect_to_itself(a, b);
    connection_drain_events(a);
    direct_deliver(a, b, 5, true);
    direct_deliver(b, a, 6, true);
    counters = rnic_query_counters(a->r);
    set_file(a->r, "");
    file = capture_file_read(capture.path);
    sent = capture_stream(file, true);
    received = capture_stream(file, false);
    g_assert_cmpuint(sent->syns, ==, 1);
    g_assert_cmpuint(received->syns, ==, 1);
    g_assert_cmpuint(sent->octets->len + received->octets->len, ==,
                     2 * START_UP_HEAD + lduw_be_p(sent->octets->data + 18) +
                     lduw_be_p(received->octets->data + 18) +
                     le64_to_cpu(counters.tx_octets));
    g_assert_cmpuint(capture_comments(file, " has the connection "), ==, 2);
    capture_stream_free(sent);
    capture_stream_free(received);
    capture_file_free(file);
    connection_free_second(b);
    connection_free(a);
    capture_free(&capture);
}

/* A socket with the name of an address, elsewhere than in the fabric's directory. */
static WirePeer *connect_as(Rnic *r, const char *directory, unsigned host,
                            uint16_t name_port, uint16_t port)
{
    g_autofree char *to = wire_socket_path(host, port);
    g_autofree char *own = wire_socket_path(host, name_port);
    g_autofree char *base = g_path_get_basename(own);
    g_autofree char *name = g_build_filename(directory, base, NULL);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    WirePeer *peer;

    g_assert_cmpuint(strlen(name), <, sizeof(un.sun_path));
    strcpy(un.sun_path, name);
    g_assert_cmpint(bind(fd, (void *)&un, sizeof(un)), ==, 0);
    g_assert_cmpint(g_unlink(name), ==, 0);
    strcpy(un.sun_path, to);
    g_assert_cmpint(connect(fd, (void *)&un, sizeof(un)), ==, 0);
    peer = g_new0(WirePeer, 1);
    peer->qts = r->qts;
    peer->fd = fd;
    return peer;
}

/*
 * A peer that takes the device's own addresses: of two connections each has the ends of
 * the other one, but neither is an end that the device has dialed.  Both are captured.
 */
static void test_own_addresses(void)
{
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, "");
    Rnic *r = rnic_boot(properties, NULL);
    WireMpa request = wire_mpa_request();
    uint16_t ports[2];
    WirePeer *peers[2];
    CaptureFile *file;

    rnic_up(r);
    for (int i = 0; i < 2; i++) {
        ports[i] = wire_free_port(1);
        g_assert_cmpuint(rnic_try_listen(r, wire_guest_ip(1), ports[i], 1, NULL),
                         ==, RNIC_ST_OK);
    }
    for (int i = 0; i < 2; i++) {
        peers[i] = connect_as(r, capture.directory, 1, ports[!i], ports[i]);
        wire_mpa_put(peers[i], &request);
        rnic_expect_cm(r, RNIC_CM_CONNECT_REQUEST);
    }
    set_file(r, "");
    file = capture_file_read(capture.path);
    g_assert_cmpuint(capture_comments(file, "the peer connects"), ==, 2);
    capture_file_free(file);
    wire_close(peers[0]);
    wire_close(peers[1]);
    rnic_quit(r);
    capture_free(&capture);
}

/*
 * A peer with the addresses of a connection that the device has with itself, and has both
 * ends of: it is one more connection.
 */
static void test_addresses_of_twins(void)
{
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, "");
    Connection *a = connection_prepare(&(ConnectionOptions) {
        .properties = properties });
    Connection *b = connection_prepare_second(a, NULL);
    WireMpa request = wire_mpa_request();
    struct rnic_cm_event event = connect_to_itself(a, b);
    WirePeer *peer;
    CaptureFile *file;

    connection_drain_events(a);
    peer = connect_as(a->r, capture.directory, 1,
                      be16_to_cpu(event.remote.port),
                      be16_to_cpu(event.local.port));
    wire_mpa_put(peer, &request);
    rnic_expect_cm(a->r, RNIC_CM_CONNECT_REQUEST);
    set_file(a->r, "");
    file = capture_file_read(capture.path);
    g_assert_cmpuint(capture_comments(file, "this device connects") +
                     capture_comments(file, "the peer connects"), ==, 2);
    capture_file_free(file);
    wire_close(peer);
    connection_free_second(b);
    connection_free(a);
    capture_free(&capture);
}

/* ------------------------------------------------------------ shared memory */

enum { REWRITTEN = 0x5a, REWRITTEN_AT_ONCE = 256 };

/* A process that writes to the ring where the device's next octets are being put. */
static pid_t start_rewriting(const WireRing *ring)
{
    pid_t parent = getpid(), child = fork();

    g_assert_cmpint(child, >=, 0);
    while (!child && getppid() == parent) {
        uint32_t head = wire_ring_word(ring, WIRE_RING_HEAD);
        uint32_t at = QEMU_ALIGN_UP(head, REWRITTEN_AT_ONCE);

        for (; at - head < LARGE / 4; at += REWRITTEN_AT_ONCE) {
            memset(ring->octets + at % ring->size, REWRITTEN,
                   REWRITTEN_AT_ONCE);
        }
    }
    if (!child) {
        _exit(0);
    }
    return child;
}

static void stop_rewriting(pid_t child)
{
    g_assert_cmpint(kill(child, SIGKILL), ==, 0);
    g_assert_cmpint(waitpid(child, NULL, 0), ==, child);
}

/* Writes of zeros that the peer takes from the ring without a look. */
static void write_to_ring(Connection *c, unsigned count)
{
    g_autofree uint8_t *octets = g_malloc0(ROOM);
    struct rnic_cqe cqe;
    unsigned done = 0;

    connection_fill(c, 0, octets, LARGE);
    for (unsigned i = 0; i < count; i++) {
        connection_post(c, RNIC_SQ_RDMA_WRITE, i, 0, LARGE);
    }
    while (done < count) {
        while (wire_ring_get(c->peer->ring_in, octets, ROOM)) {
            /* until it is empty */
        }
        if (rnic_cq_poll(c->r, &c->send_cq, &cqe)) {
            g_assert_cmpuint(cqe.status, ==, RNIC_WC_SUCCESS);
            done++;
        }
    }
}

/* The file has what the device sends, whatever the peer makes of their memory. */
static void test_rewritten_ring(void)
{
    enum { COUNT = 30 };
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, ",capture-rate=0");
    Connection *c = connection_new(&(ConnectionOptions) {
        .properties = properties, .sq_depth = 256 });
    uint8_t rewritten[64];
    CaptureStream *sent;
    CaptureFile *file;
    pid_t child;

    while (!c->peer->ring_in) {
        write_out(c, LARGE);
    }
    child = start_rewriting(c->peer->ring_in);
    write_to_ring(c, COUNT);
    stop_rewriting(child);
    set_file(c->r, "");
    file = capture_file_read(capture.path);
    sent = capture_stream(file, true);
    g_assert_cmpuint(file->dropped, ==, 0);
    g_assert_cmpuint(sent->octets->len, >, (COUNT - 2) * LARGE);
    memset(rewritten, REWRITTEN, sizeof(rewritten));
    g_assert_null(memmem(sent->octets->data, sent->octets->len, rewritten,
                         sizeof(rewritten)));
    capture_stream_free(sent);
    capture_file_free(file);
    connection_free(c);
    capture_free(&capture);
}

/* ------------------------------------------------------------- LLP streams */

#define MESSAGE "from here on it is iWARP"

/* Octets of streaming mode, both ways; the last of ours are to come. */
static uint32_t talk(Connection *c)
{
    uint32_t stream = llp_connect(c->r, 1, &c->peer);
    char got[8];

    for (int i = 0; i < 3; i++) {
        llp_send(c->r, stream, "question", 8);
        wire_get(c->peer, got, 8);
        wire_put(c->peer, "answer", 6);
        llp_expect(c->r, stream, "answer", 6);
    }
    llp_drain_events(c->r);
    return stream;
}

/* The peer's FPDU first, as it has to be. */
static void go_to_iwarp(Connection *c, uint32_t stream)
{
    char got[sizeof(MESSAGE)];

    g_assert_cmpuint(llp_try_adopt(c->r, &c->qp, stream, MESSAGE,
                                   sizeof(MESSAGE)), ==, RNIC_ST_OK);
    wire_get(c->peer, got, sizeof(got));
    send_in(c, 5);
    send_out(c, 1, LARGE);
    send_in(c, 10);
}

/* The octets of @whole, which lacks the start-up frame behind @streaming of them. */
static void check_made_up(const CaptureStream *s, const GByteArray *whole,
                          size_t streaming, const char *key)
{
    size_t rest = whole->len - streaming;

    g_assert_cmpuint(s->octets->len, ==, whole->len + START_UP_HEAD);
    g_assert_cmpmem(s->octets->data, streaming, whole->data, streaming);
    g_assert_cmpmem(s->octets->data + streaming, 16, key, 16);
    g_assert_cmpmem(s->octets->data + streaming + START_UP_HEAD, rest,
                    whole->data + streaming, rest);
    g_assert_cmpuint(s->missing, ==, 0);
    g_assert_cmpuint(s->syns, ==, 1);
}

/* Streaming mode as it is, then a start-up that dissectors want, then FPDUs. */
static void test_llp_stream(void)
{
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, "");
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = properties });
    CaptureStream *sent, *received;
    CaptureFile *file;

    go_to_iwarp(c, talk(c));
    end(c);
    set_file(c->r, "");
    file = capture_file_read(capture.path);
    g_assert_cmpuint(capture_comments(file, "Made up"), ==, 2);
    sent = capture_stream(file, true);
    received = capture_stream(file, false);
    check_made_up(sent, capture.got, 3 * 8 + sizeof(MESSAGE),
                  "MPA ID Req Frame");
    check_made_up(received, capture.put, 3 * 6, "MPA ID Rep Frame");
    check_packets(file, c, false);
    capture_stream_free(sent);
    capture_stream_free(received);
    capture_file_free(file);
    connection_free(c);
    capture_free(&capture);
}

/* The last @len octets of @s are those of @whole. */
static void check_same_end(const CaptureStream *s, const GByteArray *whole,
                           size_t len)
{
    g_assert_cmpuint(s->octets->len, >=, len);
    g_assert_cmpmem(s->octets->data + s->octets->len - len, len,
                    whole->data + whole->len - len, len);
}

typedef enum LaterBegin {
    IN_STREAMING_MODE, MESSAGE_WAITS, IN_IWARP,
} LaterBegin;

/* Octets that fill the stream, so that the message has to wait. */
static size_t fill_up(Connection *c, uint32_t stream)
{
    g_autofree uint8_t *data = g_malloc0(RNIC_LLP_MAX_OCTETS);
    size_t n = 0;

    while (llp_try_send(c->r, stream, data, RNIC_LLP_MAX_OCTETS) ==
           RNIC_ST_OK) {
        n += RNIC_LLP_MAX_OCTETS;
    }
    return n;
}

static void check_llp_stream_later(LaterBegin when)
{
    Capture capture = capture_new();
    Connection *c = connection_prepare(&(ConnectionOptions) {
        .properties = ",id=nic" });
    uint32_t stream = talk(c);
    size_t put = capture.put->len, got = capture.got->len, fill = 0;
    g_autofree uint8_t *octets = NULL;
    CaptureStream *sent, *received;
    CaptureFile *file;

    if (when == IN_STREAMING_MODE) {
        set_file(c->r, capture.path);
        go_to_iwarp(c, stream);
    } else {
        if (when == MESSAGE_WAITS) {
            fill = fill_up(c, stream);
        }
        g_assert_cmpuint(llp_try_adopt(c->r, &c->qp, stream, MESSAGE,
                                       sizeof(MESSAGE)), ==, RNIC_ST_OK);
        if (when == MESSAGE_WAITS) {
            set_file(c->r, capture.path);
        }
        octets = g_malloc(fill + sizeof(MESSAGE));
        wire_get(c->peer, octets, fill + sizeof(MESSAGE));
        llp_drain_events(c->r);
        send_in(c, 5);
        if (when == IN_IWARP) {
            send_out(c, 1, 100);
            set_file(c->r, capture.path);
            put = capture.put->len;
            got = capture.got->len;
            send_in(c, 5);
        } else {
            got = capture.got->len;
        }
        send_out(c, when == IN_IWARP ? 2 : 1, LARGE);
        send_in(c, 10);
    }
    end(c);
    set_file(c->r, "");
    file = capture_file_read(capture.path);
    g_assert_cmpuint(capture_comments(file, "Made up"), ==, 2);
    g_assert_cmpuint(capture_comments(file, "began before this file"), ==, 1);
    sent = capture_stream(file, true);
    received = capture_stream(file, false);
    /* All FPDUs, and what was sent in streaming mode meanwhile but for a gap. */
    if (when == IN_STREAMING_MODE) {
        check_same_end(sent, capture.got,
                       capture.got->len - got - sizeof(MESSAGE));
    } else {
        check_same_end(sent, capture.got, capture.got->len - got);
    }
    check_same_end(received, capture.put, capture.put->len - put);
    capture_stream_free(sent);
    capture_stream_free(received);
    capture_file_free(file);
    connection_free(c);
    capture_free(&capture);
}

static void test_llp_stream_later(void)
{
    check_llp_stream_later(IN_STREAMING_MODE);
    check_llp_stream_later(MESSAGE_WAITS);
    check_llp_stream_later(IN_IWARP);
}

/* --------------------------------------------------------------------- TLS */

static char *tls_arguments(const char *directory)
{
    g_autofree char *path = g_build_filename(directory, "keys.psk", NULL);

    g_assert_true(g_file_set_contents(
        path, "rnic:0123456789abcdef0123456789abcdef\n", -1, NULL));
    return g_strdup_printf(
        "-object tls-creds-psk,id=server,endpoint=server,dir=%s "
        "-object tls-creds-psk,id=client,endpoint=client,dir=%s,username=rnic "
        "-object rnic-fabric-tcp,id=f,map=loopback,tls-creds=server,"
        "tls-client-creds=client", directory, directory);
}

/* What is inside of TLS is in the file. */
static void test_tls(void)
{
    Capture capture = capture_new();
    g_autofree char *arguments = tls_arguments(capture.directory);
    g_autofree char *properties = capturing(&capture, ",fabric=f");
    Connection *a = connection_prepare(&(ConnectionOptions) {
        .properties = properties, .arguments = arguments });
    Connection *b = connection_prepare(&(ConnectionOptions) {
        .properties = ",fabric=f", .arguments = arguments });
    uint16_t port = wire_free_port(2);
    g_autofree uint8_t *data = g_malloc(ROOM);
    struct rnic_counters counters;
    struct rnic_cm_event event;
    CaptureStream *s;
    CaptureFile *file;
    uint32_t listener;

    rnic_pattern(data, 1000, 9);
    g_assert_cmpuint(rnic_try_listen(b->r, wire_guest_ip(2), port, 1, &listener),
                     ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_try_connect(a->r, &a->qp, wire_guest_ip(2), port, 1,
                                      1, 1, NULL, 0), ==, RNIC_ST_OK);
    event = rnic_expect_cm(b->r, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpuint(rnic_try_accept(b->r, le32_to_cpu(event.endpoint), &b->qp,
                                     1, 1, 1, NULL, 0), ==, RNIC_ST_OK);
    event = rnic_expect_cm(a->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    connection_fill(a, 0, data, 1000);
    connection_recv(b, 1, 0, ROOM);
    connection_post(a, RNIC_SQ_SEND, 2, 0, 1000);
    rnic_expect_cqe(b->r, &b->recv_cq, 1, RNIC_WC_SUCCESS);
    counters = rnic_query_counters(a->r);
    set_file(a->r, "");
    file = capture_file_read(capture.path);
    s = capture_stream(file, true);
    g_assert_cmpmem(s->octets->data, 16, "MPA ID Req Frame", 16);
    g_assert_cmpuint(s->octets->len, ==,
                     START_UP_HEAD + lduw_be_p(s->octets->data + 18) +
                     le64_to_cpu(counters.tx_octets));
    g_assert_nonnull(memmem(s->octets->data, s->octets->len, data, 1000));
    capture_stream_free(s);
    capture_file_free(file);
    connection_free(a);
    connection_free(b);
    capture_free(&capture);
}

/* ------------------------------------------------------------------- notes */

static void test_notes(void)
{
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, "");
    Rnic *r = rnic_boot(properties, NULL);
    struct rnic_admin_sqe nop = rnic_command(RNIC_ADMIN_NOP);
    CaptureFile *file;
    QDict *answer;
    RnicCq cq;
    RnicQp qp;
    RnicQpInit init;

    rnic_up(r);
    answer = qtest_qmp(r->qts, "{ 'execute': 'qom-set', 'arguments': { 'path': "
                       "'/machine/peripheral/nic', 'property': 'x-fault', "
                       "'value': { 'rules': [ { 'on': 'admin', 'do': 'status', "
                       "'status': 1 } ] } } }");
    g_assert_true(qdict_haskey(answer, "return"));
    qobject_unref(answer);
    g_assert_cmpuint(rnic_admin(r, &nop, NULL), ==, 1);
    rnic_create_cq(r, &cq, 16, RNIC_NO_VECTOR);
    init = rnic_qp_default(r, &cq, &cq);
    rnic_create_qp(r, &qp, &init);
    g_assert_cmpuint(rnic_try_connect(r, &qp, wire_guest_ip(9),
                                      wire_free_port(9), 1, 1, 1, NULL, 0), ==,
                     RNIC_ST_OK);
    rnic_expect_cm(r, RNIC_CM_CONNECT_REPLY);
    set_file(r, "");
    file = capture_file_read(capture.path);
    g_assert_cmpuint(capture_comments(file, "Fault: status, at admin of kind"),
                     ==, 1);
    g_assert_cmpuint(capture_comments(file, "A connect fails"), ==, 1);
    capture_file_free(file);
    rnic_quit(r);
    capture_free(&capture);
}

/* ------------------------------------------------------------ many connections */

/* One that is turned away is nobody's connection, and takes no room in the file. */
static void test_backlog(void)
{
    enum { BACKLOG = 64, COUNT = 80 };  /* manual: at least 64 */
    Capture capture = capture_new();
    g_autofree char *properties = capturing(&capture, "");
    Rnic *r = rnic_boot(properties, NULL);
    uint16_t port = wire_free_port(1);
    WirePeer *peers[COUNT];
    CaptureFile *file;
    uint32_t listener;

    rnic_up(r);
    g_assert_cmpuint(rnic_try_listen(r, wire_guest_ip(1), port, 1, &listener),
                     ==, RNIC_ST_OK);
    for (int i = 0; i < COUNT; i++) {
        peers[i] = wire_connect(r->qts, 2, 1, port);
    }
    wire_expect_end(peers[COUNT - 1]);
    set_file(r, "");
    file = capture_file_read(capture.path);
    g_assert_cmpuint(capture_comments(file, "the peer connects"), ==, BACKLOG);
    capture_file_free(file);
    for (int i = 0; i < COUNT; i++) {
        wire_close(peers[i]);
    }
    rnic_quit(r);
    capture_free(&capture);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/rnic/capture/device-connects", test_device_connects);
    qtest_add_func("/rnic/capture/peer-connects", test_peer_connects);
    qtest_add_func("/rnic/capture/crc", test_crc);
    qtest_add_func("/rnic/capture/markers", test_markers);
    qtest_add_func("/rnic/capture/end-of-qemu", test_end_of_qemu);
    qtest_add_func("/rnic/capture/resets", test_resets);
    qtest_add_func("/rnic/capture/begins-later", test_begins_later);
    qtest_add_func("/rnic/capture/begins-later-markers",
                   test_begins_later_markers);
    qtest_add_func("/rnic/capture/begins-in-an-fpdu", test_begins_in_an_fpdu);
    qtest_add_func("/rnic/capture/begins-in-terminate",
                   test_begins_in_terminate);
    qtest_add_func("/rnic/capture/snaplen", test_snaplen);
    qtest_add_func("/rnic/capture/rate", test_rate);
    qtest_add_func("/rnic/capture/ring", test_ring);
    qtest_add_func("/rnic/capture/ring-of-one", test_ring_of_one);
    qtest_add_func("/rnic/capture/fifo", test_fifo);
    qtest_add_func("/rnic/capture/stuck-fifo", test_stuck_fifo);
    qtest_add_func("/rnic/capture/full", test_full);
    qtest_add_func("/rnic/capture/refused", test_refused);
    qtest_add_func("/rnic/capture/relative-name", test_relative_name);
    if (geteuid() == 0) {       /* who else can make such files? */
        qtest_add_func("/rnic/capture/of-another-user", test_of_another_user);
    }
    qtest_add_func("/rnic/capture/own-peer", test_own_peer);
    qtest_add_func("/rnic/capture/two-of-one-device", test_two_of_one_device);
    if (wire_directory()) {     /* TCP gives no peer these addresses */
        qtest_add_func("/rnic/capture/own-addresses", test_own_addresses);
        qtest_add_func("/rnic/capture/addresses-of-twins",
                       test_addresses_of_twins);
    }
    if (g_strcmp0(g_getenv("RNIC_TEST_FABRIC"), "unix-rings") == 0) {
        qtest_add_func("/rnic/capture/rewritten-ring", test_rewritten_ring);
    }
    qtest_add_func("/rnic/capture/llp-stream", test_llp_stream);
    qtest_add_func("/rnic/capture/llp-stream-later", test_llp_stream_later);
    if (!wire_directory()) {
        qtest_add_func("/rnic/capture/tls", test_tls);
    }
    qtest_add_func("/rnic/capture/notes", test_notes);
    qtest_add_func("/rnic/capture/backlog", test_backlog);
    return g_test_run();
}
