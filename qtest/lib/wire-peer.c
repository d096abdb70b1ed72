/*
 * A peer on the wire: a socket that speaks MPA, DDP and RDMAP by hand
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include <glib/gstdio.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>

#include "guest-clock.h"
#include "wire-peer.h"

#define WAIT_SECONDS 60
#define SMALLEST_RING (256 * 1024)
#define MARKER_DISTANCE 512
#define MPA_HEADER 20

/* ------------------------------------------------------------------ fabric */

static char *directory;

static void remove_directory(void)
{
    GDir *dir = g_dir_open(directory, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(directory, name, NULL);

        g_remove(path);
    }
    g_clear_pointer(&dir, g_dir_close);
    g_rmdir(directory);
}

const char *wire_directory(void)
{
    const char *fabric = g_getenv("RNIC_TEST_FABRIC");

    if (!directory && fabric && g_str_has_prefix(fabric, "unix")) {
        directory = g_dir_make_tmp("rnic-test-XXXXXX", NULL);
        g_assert_nonnull(directory);
        atexit(remove_directory);
    }
    return directory;
}

char *wire_socket_path(unsigned host, uint16_t port)
{
    uint32_t ip = wire_guest_ip(host);

    return g_strdup_printf("%s/%u.%u.%u.%u:%u", wire_directory(), ip >> 24,
                           ip >> 16 & 0xff, ip >> 8 & 0xff, ip & 0xff, port);
}

/* --------------------------------------------------------------- addresses */

/*
 * A process id has up to 22 bits. 16 of them are the middle of the address,
 * the rest decides where ports are searched from.
 */
static uint32_t by_process(unsigned host)
{
    uint32_t pid = getpid();

    g_assert(host >= 1 && host <= 250);
    return (pid & 0xffff) << 8 | host;
}

uint32_t wire_guest_ip(unsigned host)
{
    return 10u << 24 | by_process(host);
}

uint32_t wire_host_ip(unsigned host)
{
    return 127u << 24 | by_process(host);
}

typedef struct HostAddress {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_un un;
    };
    socklen_t length;
} HostAddress;

static HostAddress host_address(unsigned host, uint16_t port)
{
    HostAddress a = {
        .in = {
            .sin_family = AF_INET,
            .sin_addr.s_addr = htonl(wire_host_ip(host)),
            .sin_port = htons(port),
        },
        .length = sizeof(a.in),
    };

    if (wire_directory()) {
        g_autofree char *path = wire_socket_path(host, port);

        a = (HostAddress) { .un.sun_family = AF_UNIX, .length = sizeof(a.un) };
        g_assert_cmpuint(strlen(path), <, sizeof(a.un.sun_path));
        strcpy(a.un.sun_path, path);
    }
    return a;
}

static int bound_tcp_socket(unsigned host, uint16_t *port)
{
    HostAddress address = host_address(host, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(bind(fd, &address.any, address.length), ==, 0);
    g_assert_cmpint(getsockname(fd, &address.any, &address.length), ==, 0);
    *port = ntohs(address.in.sin_port);
    return fd;
}

static int bound_unix_socket(unsigned host, uint16_t *port)
{
    static uint16_t next = 20000;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    HostAddress address;

    g_assert_cmpint(fd, >=, 0);
    *port = next++;
    address = host_address(host, *port);
    g_assert_cmpint(bind(fd, &address.any, address.length), ==, 0);
    return fd;
}

static int bound_socket(unsigned host, uint16_t *port)
{
    return wire_directory() ? bound_unix_socket(host, port)
                            : bound_tcp_socket(host, port);
}

static void remove_name(unsigned host, uint16_t port)
{
    if (wire_directory()) {
        g_autofree char *path = wire_socket_path(host, port);

        g_assert_cmpint(unlink(path), ==, 0);
    }
}

/* Of a listener of an earlier test, if there is one. */
static void remove_old_name(unsigned host, uint16_t port)
{
    if (wire_directory()) {
        g_autofree char *path = wire_socket_path(host, port);

        unlink(path);
    }
}

uint16_t wire_free_port(unsigned host)
{
    uint16_t port;

    close(bound_socket(host, &port));
    remove_name(host, port);
    return port;
}

/* -------------------------------------------------------------- connecting */

static WirePeer *new_peer(QTestState *qts, int fd)
{
    WirePeer *peer = g_new0(WirePeer, 1);
    int one = 1;

    g_assert_cmpint(fd, >=, 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    peer->fd = fd;
    peer->qts = qts;
    peer->send_msn = 1;
    peer->read_msn = 1;
    peer->segment_size = 1400;
    peer->rings = g_strcmp0(g_getenv("RNIC_TEST_FABRIC"), "unix-rings") == 0;
    return peer;
}

int wire_listen(unsigned host, uint16_t *port)
{
    int fd = bound_socket(host, port);

    g_assert_cmpint(listen(fd, 16), ==, 0);
    return fd;
}

int wire_listen_at(unsigned host, uint16_t port)
{
    HostAddress address = host_address(host, port);
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;

    g_assert_cmpint(fd, >=, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    remove_old_name(host, port);
    g_assert_cmpint(bind(fd, &address.any, address.length), ==, 0);
    g_assert_cmpint(listen(fd, 16), ==, 0);
    return fd;
}

/* Wait until @events; the guest's clock goes on a little. */
static bool wait_fd(QTestState *qts, int fd, short events, int milliseconds)
{
    gint64 end = g_get_monotonic_time() + milliseconds * 1000;

    for (;;) {
        struct pollfd p = { .fd = fd, .events = events };

        if (poll(&p, 1, 2) > 0) {
            return true;
        }
        if (g_get_monotonic_time() > end) {
            return false;
        }
        if (qts) {
            guest_clock_step(qts, 10 * 1000);
        }
    }
}

/* As wait_fd(); also for octets in the ring, and room there. */
static bool wait_peer(WirePeer *peer, short events, int milliseconds)
{
    gint64 end = g_get_monotonic_time() + milliseconds * 1000;
    bool out = events == POLLOUT;

    if (!(out ? peer->ring_out : peer->ring_in)) {
        return wait_fd(peer->qts, peer->fd, events, milliseconds);
    }
    do {
        if (out ? wire_ring_room(peer->ring_out)
                : wire_ring_filled(peer->ring_in)) {
            return true;
        }
        /* These say that the stream has ended. */
        if (wait_fd(peer->qts, out ? peer->ring_out->bell : peer->fd, POLLIN,
                    2)) {
            return true;
        }
    } while (g_get_monotonic_time() < end);
    return false;
}

static void must_wait(WirePeer *peer, short events, const char *what)
{
    if (!wait_peer(peer, events, WAIT_SECONDS * 1000)) {
        g_printerr("wire peer: nothing came, waiting to %s\n", what);
        abort();
    }
}

WirePeer *wire_accept(QTestState *qts, int listener)
{
    g_assert_true(wait_fd(qts, listener, POLLIN, WAIT_SECONDS * 1000));
    return new_peer(qts, accept4(listener, NULL, NULL, SOCK_CLOEXEC));
}

WirePeer *wire_connect(QTestState *qts, unsigned from, unsigned to,
                       uint16_t port)
{
    HostAddress address = host_address(to, port);
    uint16_t own;
    int fd = bound_socket(from, &own);

    /* Reset: accepted, and turned away before this thread ran again. */
    if (connect(fd, &address.any, address.length) < 0 && errno != ECONNRESET) {
        g_error("wire peer: connect to port %u: %s", port, strerror(errno));
    }
    remove_name(from, own);
    return new_peer(qts, fd);
}

void wire_close(WirePeer *peer)
{
    close(peer->fd);
    g_clear_pointer(&peer->ring_out, wire_ring_free);
    g_clear_pointer(&peer->ring_in, wire_ring_free);
    g_free(peer);
}

void wire_shutdown(WirePeer *peer)
{
    g_assert_cmpint(shutdown(peer->fd, SHUT_WR), ==, 0);
}

void wire_abort(WirePeer *peer)
{
    struct linger linger = { .l_onoff = 1, .l_linger = 0 };

    setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    wire_close(peer);
}

/* ------------------------------------------------------------------ octets */

/* The ring goes with the next octet, which is the last by the socket. */
static ssize_t send_ring(WirePeer *peer, const void *octet)
{
    int fds[2];
    WireRing *ring = wire_ring_new(peer->ring_size ?: SMALLEST_RING, fds);
    ssize_t n;

    n = wire_send_with(peer->fd, octet, 1, fds, 2);

    close(fds[0]);
    close(fds[1]);
    if (n == 1) {
        peer->ring_out = ring;
    } else {
        wire_ring_free(ring);
    }
    return n;
}

static ssize_t send_offer(WirePeer *peer, const void *octets, size_t length)
{
    int fd = wire_ring_offer();
    ssize_t n = wire_send_with(peer->fd, octets, length, &fd, 1);

    close(fd);
    peer->offered = n > 0;
    return n;
}

/* As send(). */
static ssize_t put_some(WirePeer *peer, const void *octets, size_t length)
{
    if (peer->ring_out) {
        size_t n = wire_ring_put(peer->ring_out, octets, length);

        errno = wire_ring_gone(peer->ring_out) ? EPIPE : EAGAIN;
        return n ? n : -1;
    }
    if (peer->rings && !peer->offered) {
        return send_offer(peer, octets, length);
    }
    if (peer->rings && peer->offered_to) {
        return send_ring(peer, octets);
    }
    return send(peer->fd, octets, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void take_descriptors(WirePeer *peer, const int *fds, unsigned count)
{
    if (count == 1) {
        g_assert_false(peer->offered_to);
        g_assert_true(wire_ring_is_offer(fds[0]));
        peer->offered_to = true;
        close(fds[0]);
    } else if (count == 2) {
        g_assert_true(peer->offered);
        g_assert_null(peer->ring_in);
        peer->ring_in = wire_ring_take(fds);
    }
}

/* As recv(). */
static ssize_t get_some(WirePeer *peer, void *octets, size_t length)
{
    size_t in_ring = 0;
    unsigned count;
    int fds[2];
    ssize_t n;

    if (peer->ring_in) {
        in_ring = wire_ring_get(peer->ring_in, octets, length);
    }
    if (in_ring) {
        return in_ring;
    }
    n = wire_receive_with(peer->fd, octets, length, fds, &count);
    if (n > 0) {
        g_assert_null(peer->ring_in);
        take_descriptors(peer, fds, count);
    }
    if (n == 0 && peer->ring_in && wire_ring_filled(peer->ring_in)) {
        return wire_ring_get(peer->ring_in, octets, length);
    }
    return n;
}

static GByteArray *recorded_put, *recorded_got;

void wire_record(GByteArray *put, GByteArray *got)
{
    recorded_put = put;
    recorded_got = got;
}

static void record(GByteArray *to, const void *octets, size_t length)
{
    if (to) {
        g_byte_array_append(to, octets, length);
    }
}

bool wire_try_put(WirePeer *peer, const void *data, size_t length)
{
    const uint8_t *octets = data;

    while (length > 0) {
        ssize_t n = put_some(peer, octets, length);

        if (n > 0) {
            record(recorded_put, octets, n);
            octets += n;
            length -= n;
        } else if (errno == EAGAIN) {
            must_wait(peer, POLLOUT, "send");
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

void wire_put(WirePeer *peer, const void *data, size_t length)
{
    g_assert_true(wire_try_put(peer, data, length));
}

void wire_get(WirePeer *peer, void *data, size_t length)
{
    uint8_t *octets = data;

    while (length > 0) {
        ssize_t n = get_some(peer, octets, length);

        if (n > 0) {
            record(recorded_got, octets, n);
            octets += n;
            length -= n;
        } else if (n < 0 && errno == EAGAIN) {
            must_wait(peer, POLLIN, "receive");
        } else if (n == 0 || errno != EINTR) {
            g_printerr("wire peer: stream ended (%s), %zu octets missing\n",
                       n == 0 ? "FIN" : strerror(errno), length);
            abort();
        }
    }
}

WireEnd wire_end(WirePeer *peer)
{
    for (;;) {
        uint8_t octet;
        ssize_t n;

        must_wait(peer, POLLIN, "see the end");
        if (peer->ring_in && wire_ring_filled(peer->ring_in)) {
            return WIRE_DATA;
        }
        n = recv(peer->fd, &octet, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n > 0) {
            return WIRE_DATA;
        }
        if (n == 0) {
            return WIRE_FIN;
        }
        /* ENOTCONN: connect() has told of it already. */
        if (errno == ECONNRESET || errno == EPIPE || errno == ENOTCONN) {
            return WIRE_RST;
        }
        g_assert_true(errno == EAGAIN || errno == EINTR);
    }
}

void wire_expect_end(WirePeer *peer)
{
    g_assert_cmpint(wire_end(peer), !=, WIRE_DATA);
}

void wire_expect_silence(WirePeer *peer)
{
    g_assert_false(wait_peer(peer, POLLIN, 60));
}

/* --------------------------------------------------------------------- MPA */

WireMpa wire_mpa_request(void)
{
    return (WireMpa) {
        .revision = 2,
        .enhanced = true,
        .ird = 4,
        .ord = 4,
    };
}

WireMpa wire_mpa_reply(const WireMpa *request)
{
    return (WireMpa) {
        .reply = true,
        .revision = request->revision,
        .crc = request->crc,
        .enhanced = request->enhanced,
        .ird = 4,
        .ord = 4,
    };
}

static const char *mpa_key(bool reply)
{
    return reply ? "MPA ID Rep Frame" : "MPA ID Req Frame";
}

size_t wire_mpa_encode(const WireMpa *mpa, uint8_t *out)
{
    uint16_t length = mpa->length + (mpa->enhanced ? 4 : 0);
    uint8_t *at = out + MPA_HEADER;

    memcpy(out, mpa_key(mpa->reply), 16);
    out[16] = (mpa->markers ? 0x80 : 0) | (mpa->crc ? 0x40 : 0) |
              (mpa->reject ? 0x20 : 0) | (mpa->enhanced ? 0x10 : 0);
    out[17] = mpa->revision;
    stw_be_p(out + 18, length);
    if (mpa->enhanced) {
        stw_be_p(at, mpa->ird);
        stw_be_p(at + 2, mpa->ord);
        at += 4;
    }
    memcpy(at, mpa->data, mpa->length);
    return MPA_HEADER + length;
}

void wire_mpa_put(WirePeer *peer, const WireMpa *mpa)
{
    uint8_t frame[MPA_HEADER + 4 + 512];

    wire_put(peer, frame, wire_mpa_encode(mpa, frame));
}

void wire_mpa_get(WirePeer *peer, WireMpa *mpa)
{
    uint8_t header[MPA_HEADER];
    uint16_t length;

    memset(mpa, 0, sizeof(*mpa));
    wire_get(peer, header, sizeof(header));
    mpa->reply = memcmp(header, mpa_key(true), 16) == 0;
    if (!mpa->reply) {
        g_assert_cmpmem(header, 16, mpa_key(false), 16);
    }
    mpa->markers = header[16] & 0x80;
    mpa->crc = header[16] & 0x40;
    mpa->reject = header[16] & 0x20;
    mpa->enhanced = header[16] & 0x10;
    g_assert_cmphex(header[16] & 0x0f, ==, 0);
    mpa->revision = header[17];
    length = lduw_be_p(header + 18);
    g_assert_cmpuint(length, <=, 512);
    if (mpa->enhanced) {
        uint8_t resources[4];

        g_assert_cmpuint(mpa->revision, >=, 2);
        g_assert_cmpuint(length, >=, 4);
        wire_get(peer, resources, sizeof(resources));
        mpa->ird = lduw_be_p(resources);
        mpa->ord = lduw_be_p(resources + 2);
        length -= 4;
    }
    mpa->length = length;
    wire_get(peer, mpa->data, length);
}

/* CRC-32C, polynomial 0x1EDC6F41 reflected; RFC 5044 section 4.4. */
uint32_t wire_crc32c(const void *data, size_t length)
{
    static uint32_t table[256];
    const uint8_t *octets = data;
    uint32_t crc = 0xffffffff;

    if (!table[1]) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;

            for (int bit = 0; bit < 8; bit++) {
                c = c & 1 ? c >> 1 ^ 0x82f63b78 : c >> 1;
            }
            table[i] = c;
        }
    }
    while (length--) {
        crc = table[(crc ^ *octets++) & 0xff] ^ crc >> 8;
    }
    return ~crc;
}

/* ------------------------------------------------------------ FPDUs, DDP */

/*
 * Copies octets of an FPDU to @out and puts a marker wherever one is due:
 * before the octet that would stand at a multiple of 512 of the stream.
 */
typedef struct Inserter {
    uint8_t *out;
    size_t length;
    uint64_t start;             /* position of the FPDU's length field */
    uint64_t position;
    bool markers;
    bool wrong;
} Inserter;

static void insert_marker_if_due(Inserter *ins)
{
    if (ins->markers && ins->position % MARKER_DISTANCE == 0) {
        uint16_t back = ins->position - ins->start;

        if (ins->wrong) {
            back += 4;
        }
        stl_be_p(ins->out + ins->length, back);
        ins->length += 4;
        ins->position += 4;
    }
}

static void insert(Inserter *ins, const uint8_t *octets, size_t length)
{
    while (length--) {
        insert_marker_if_due(ins);
        ins->out[ins->length++] = *octets++;
        ins->position++;
    }
}

size_t wire_encode_fpdu(WirePeer *peer, const void *ulpdu, size_t length,
                        uint8_t *out)
{
    static const uint8_t zero[3];
    Inserter ins = {
        .out = out,
        .position = peer->out_position,
        .markers = peer->markers_out,
        .wrong = peer->bad_marker,
    };
    uint8_t head[2], tail[4];
    uint32_t crc = 0;

    /* A marker right before the FPDU points to what follows it: offset 0. */
    ins.start = ins.position;
    insert_marker_if_due(&ins);
    ins.start = ins.position;
    stw_be_p(head, length);
    insert(&ins, head, sizeof(head));
    insert(&ins, ulpdu, length);
    insert(&ins, zero, -(2 + length) & 3);
    /* A marker right before the CRC field is covered, too. */
    insert_marker_if_due(&ins);
    if (peer->crc) {
        crc = wire_crc32c(out, ins.length);
    }
    if (peer->bad_crc) {
        crc ^= 1;
    }
    stl_le_p(tail, crc);
    insert(&ins, tail, sizeof(tail));
    peer->out_position = ins.position;
    return ins.length;
}

void wire_put_ulpdu(WirePeer *peer, const void *ulpdu, size_t length)
{
    g_autofree uint8_t *fpdu = g_malloc(WIRE_MAX_FPDU);

    wire_put(peer, fpdu, wire_encode_fpdu(peer, ulpdu, length, fpdu));
}

size_t wire_encode_segment(const WireSegment *segment, uint8_t *ulpdu)
{
    size_t header = segment->tagged ? 14 : 18;

    ulpdu[0] = (segment->tagged ? 0x80 : 0) | (segment->last ? 0x40 : 0) |
               (segment->reserved & 0x3c) | (segment->ddp_version & 3);
    ulpdu[1] = (segment->rdmap_version & 3) << 6 |
               (segment->reserved & 3) << 4 | (segment->opcode & 15);
    stl_be_p(ulpdu + 2, segment->stag);
    if (segment->tagged) {
        stq_be_p(ulpdu + 6, segment->to);
    } else {
        stl_be_p(ulpdu + 6, segment->qn);
        stl_be_p(ulpdu + 10, segment->msn);
        stl_be_p(ulpdu + 14, segment->mo);
    }
    if (segment->length) {
        memcpy(ulpdu + header, segment->payload, segment->length);
    }
    return header + segment->length;
}

void wire_put_segment(WirePeer *peer, const WireSegment *segment)
{
    g_autofree uint8_t *ulpdu = g_malloc(18 + segment->length);

    wire_put_ulpdu(peer, ulpdu, wire_encode_segment(segment, ulpdu));
}

bool wire_try_put_segment(WirePeer *peer, const WireSegment *segment)
{
    uint8_t ulpdu[2048], fpdu[2100];

    g_assert_cmpuint(segment->length, <=, 2000);
    return wire_try_put(peer, fpdu,
                        wire_encode_fpdu(peer, ulpdu,
                                         wire_encode_segment(segment, ulpdu),
                                         fpdu));
}

/* Reads octets of an FPDU, takes markers out and checks them. */
typedef struct Extractor {
    WirePeer *peer;
    uint8_t *raw;               /* all that came, for the CRC */
    size_t raw_length;
    uint64_t start;             /* position of the length field */
    bool started;
} Extractor;

static void take(Extractor *ex, void *to, size_t length)
{
    wire_get(ex->peer, ex->raw + ex->raw_length, length);
    if (to) {
        memcpy(to, ex->raw + ex->raw_length, length);
    }
    ex->raw_length += length;
    ex->peer->in_position += length;
}

static void take_marker_if_due(Extractor *ex)
{
    uint8_t marker[4];

    if (!ex->peer->markers_in ||
        ex->peer->in_position % MARKER_DISTANCE != 0) {
        return;
    }
    if (ex->started) {
        uint64_t back = ex->peer->in_position - ex->start;

        take(ex, marker, sizeof(marker));
        g_assert_cmpuint(lduw_be_p(marker + 2), ==, back);
    } else {
        take(ex, marker, sizeof(marker));
        g_assert_cmpuint(lduw_be_p(marker + 2), ==, 0);
    }
    g_assert_cmphex(lduw_be_p(marker), ==, 0);
}

static void extract(Extractor *ex, void *to, size_t length)
{
    uint8_t *out = to;

    while (length > 0) {
        size_t run = length;

        take_marker_if_due(ex);
        if (ex->peer->markers_in) {
            run = MIN(run, MARKER_DISTANCE -
                      ex->peer->in_position % MARKER_DISTANCE);
        }
        take(ex, out, run);
        out += run;
        length -= run;
    }
}

static size_t get_ulpdu(WirePeer *peer, uint8_t *ulpdu)
{
    g_autofree uint8_t *raw = g_malloc(WIRE_MAX_FPDU);
    Extractor ex = { .peer = peer, .raw = raw };
    uint8_t head[2], pad[3], tail[4];
    size_t length, padding;

    take_marker_if_due(&ex);
    ex.start = peer->in_position;
    ex.started = true;
    extract(&ex, head, sizeof(head));
    length = lduw_be_p(head);
    extract(&ex, ulpdu, length);
    padding = -(2 + length) & 3;
    extract(&ex, pad, padding);
    for (size_t i = 0; i < padding; i++) {
        g_assert_cmphex(pad[i], ==, 0);
    }
    take_marker_if_due(&ex);
    if (peer->crc) {
        uint32_t crc = wire_crc32c(raw, ex.raw_length);

        extract(&ex, tail, sizeof(tail));
        g_assert_cmphex((uint32_t)ldl_le_p(tail), ==, crc);
    } else {
        extract(&ex, tail, sizeof(tail));
    }
    peer->last_ulpdu_length = length;
    return length;
}

static bool opcode_is_tagged(uint8_t opcode)
{
    return opcode == WIRE_WRITE || opcode == WIRE_READ_RESPONSE;
}

void wire_get_segment(WirePeer *peer, WireSegment *segment)
{
    g_autofree uint8_t *ulpdu = g_malloc(WIRE_MAX_ULPDU);
    size_t length = get_ulpdu(peer, ulpdu);
    size_t header;

    memset(segment, 0, sizeof(*segment));
    g_assert_cmpuint(length, >=, 14);
    segment->tagged = ulpdu[0] & 0x80;
    segment->last = ulpdu[0] & 0x40;
    g_assert_cmphex(ulpdu[0] & 0x3c, ==, 0);
    g_assert_cmphex(ulpdu[0] & 0x03, ==, 1);
    g_assert_cmphex(ulpdu[1] & 0xc0, ==, 0x40);
    g_assert_cmphex(ulpdu[1] & 0x30, ==, 0);
    segment->ddp_version = 1;
    segment->rdmap_version = 1;
    segment->opcode = ulpdu[1] & 15;
    g_assert_cmpint(segment->tagged, ==, opcode_is_tagged(segment->opcode));
    segment->stag = ldl_be_p(ulpdu + 2);
    if (segment->tagged) {
        header = 14;
        segment->to = ldq_be_p(ulpdu + 6);
    } else {
        header = 18;
        g_assert_cmpuint(length, >=, header);
        segment->qn = ldl_be_p(ulpdu + 6);
        segment->msn = ldl_be_p(ulpdu + 10);
        segment->mo = ldl_be_p(ulpdu + 14);
    }
    segment->length = length - header;
    segment->payload = g_memdup2(ulpdu + header, segment->length);
}

/* ---------------------------------------------------------------- messages */

static void put_untagged(WirePeer *peer, uint8_t opcode, uint32_t stag,
                         uint32_t qn, uint32_t msn, const void *data,
                         uint32_t length)
{
    uint32_t done = 0;

    do {
        uint32_t run = MIN(length - done, peer->segment_size);
        WireSegment segment = {
            .opcode = opcode,
            .last = done + run == length,
            .ddp_version = 1,
            .rdmap_version = 1,
            .stag = stag,
            .qn = qn,
            .msn = msn,
            .mo = done,
            .length = run,
            .payload = (uint8_t *)data + done,
        };

        wire_put_segment(peer, &segment);
        done += run;
    } while (done < length);
}

static void put_tagged(WirePeer *peer, uint8_t opcode, uint32_t stag,
                       uint64_t to, const void *data, uint32_t length)
{
    uint32_t done = 0;

    do {
        uint32_t run = MIN(length - done, peer->segment_size);
        WireSegment segment = {
            .opcode = opcode,
            .tagged = true,
            .last = done + run == length,
            .ddp_version = 1,
            .rdmap_version = 1,
            .stag = stag,
            .to = to + done,
            .length = run,
            .payload = (uint8_t *)data + done,
        };

        wire_put_segment(peer, &segment);
        done += run;
    } while (done < length);
}

void wire_put_send(WirePeer *peer, uint8_t opcode, uint32_t stag,
                   const void *data, uint32_t length)
{
    put_untagged(peer, opcode, stag, 0, peer->send_msn++, data, length);
}

void wire_put_write(WirePeer *peer, uint32_t stag, uint64_t to,
                    const void *data, uint32_t length)
{
    put_tagged(peer, WIRE_WRITE, stag, to, data, length);
}

static void encode_read(const WireRead *read, uint8_t *out)
{
    stl_be_p(out, read->sink_stag);
    stq_be_p(out + 4, read->sink_to);
    stl_be_p(out + 12, read->size);
    stl_be_p(out + 16, read->source_stag);
    stq_be_p(out + 20, read->source_to);
}

void wire_put_read_request(WirePeer *peer, const WireRead *read)
{
    uint8_t header[28];

    encode_read(read, header);
    put_untagged(peer, WIRE_READ_REQUEST, 0, 1, peer->read_msn++, header,
                 sizeof(header));
}

void wire_put_read_response(WirePeer *peer, uint32_t stag, uint64_t to,
                            const void *data, uint32_t length)
{
    put_tagged(peer, WIRE_READ_RESPONSE, stag, to, data, length);
}

void wire_put_terminate(WirePeer *peer, uint16_t code)
{
    uint8_t header[4] = { code >> 8, code & 0xff };

    put_untagged(peer, WIRE_TERMINATE, 0, 2, 1, header, sizeof(header));
}

/* Copies and frees it; an empty one may have no place to go to. */
static uint32_t take_payload(WireSegment *segment, uint8_t *to, uint32_t at)
{
    if (segment->length) {
        memcpy(to + at, segment->payload, segment->length);
    }
    g_free(segment->payload);
    return segment->length;
}

uint32_t wire_get_send(WirePeer *peer, uint8_t opcode, uint32_t msn,
                       void *data, uint32_t size)
{
    WireSegment segment;
    uint32_t done = 0;

    do {
        wire_get_segment(peer, &segment);
        g_assert_cmpint(segment.opcode, ==, opcode);
        g_assert_cmpuint(segment.qn, ==, 0);
        g_assert_cmpuint(segment.msn, ==, msn);
        g_assert_cmpuint(segment.mo, ==, done);
        if (opcode == WIRE_SEND || opcode == WIRE_SEND_SE) {
            g_assert_cmphex(segment.stag, ==, 0);
        }
        g_assert_cmpuint(segment.length, <=, size - done);
        done += take_payload(&segment, data, done);
    } while (!segment.last);
    return done;
}

uint32_t wire_get_tagged(WirePeer *peer, uint8_t opcode, uint32_t stag,
                         uint64_t to, void *data, uint32_t size)
{
    WireSegment segment;
    uint32_t done = 0;

    do {
        wire_get_segment(peer, &segment);
        g_assert_cmpint(segment.opcode, ==, opcode);
        g_assert_cmphex(segment.stag, ==, stag);
        g_assert_cmphex(segment.to, ==, to + done);
        g_assert_cmpuint(segment.length, <=, size - done);
        done += take_payload(&segment, data, done);
    } while (!segment.last);
    return done;
}

void wire_get_read_request(WirePeer *peer, uint32_t msn, WireRead *read)
{
    WireSegment segment;

    wire_get_segment(peer, &segment);
    g_assert_cmpint(segment.opcode, ==, WIRE_READ_REQUEST);
    g_assert_true(segment.last);
    g_assert_cmphex(segment.stag, ==, 0);
    g_assert_cmpuint(segment.qn, ==, 1);
    g_assert_cmpuint(segment.msn, ==, msn);
    g_assert_cmpuint(segment.mo, ==, 0);
    g_assert_cmpuint(segment.length, ==, 28);
    read->sink_stag = ldl_be_p(segment.payload);
    read->sink_to = ldq_be_p(segment.payload + 4);
    read->size = ldl_be_p(segment.payload + 12);
    read->source_stag = ldl_be_p(segment.payload + 16);
    read->source_to = ldq_be_p(segment.payload + 20);
    g_free(segment.payload);
}

static void decode_terminate(const WireSegment *segment, WireTerminate *t)
{
    const uint8_t *at = segment->payload;
    const uint8_t *end = at + segment->length;

    g_assert_true(segment->last);
    g_assert_cmphex(segment->stag, ==, 0);
    g_assert_cmpuint(segment->qn, ==, 2);
    g_assert_cmpuint(segment->msn, ==, 1);
    g_assert_cmpuint(segment->mo, ==, 0);
    g_assert_cmpuint(segment->length, >=, 4);
    g_assert_cmpuint(segment->length, <=, sizeof(t->octets));

    memset(t, 0, sizeof(*t));
    t->length = segment->length;
    memcpy(t->octets, at, t->length);
    t->code = lduw_be_p(at);
    t->flags = at[2] & 0xe0;
    g_assert_cmphex(at[2] & 0x1f, ==, 0);
    g_assert_cmphex(at[3], ==, 0);
    at += 4;
    if (t->flags & 0xc0) {
        g_assert_cmpint(end - at, >=, 2);
        t->segment_length = lduw_be_p(at);
        at += 2;
    }
    if (t->flags & 0x40) {
        g_assert_cmpint(end - at, >=, 14);
        t->ddp_length = at[0] & 0x80 ? 14 : 18;
        g_assert_cmpint(end - at, >=, t->ddp_length);
        memcpy(t->ddp, at, t->ddp_length);
        at += t->ddp_length;
    }
    if (t->flags & 0x20) {
        g_assert_cmpint(end - at, >=, 28);
        t->read_length = 28;
        memcpy(t->read, at, 28);
        at += 28;
    }
    g_assert_true(at == end);
}

void wire_get_terminate(WirePeer *peer, WireTerminate *t)
{
    WireSegment segment;

    wire_get_segment(peer, &segment);
    g_assert_cmpint(segment.opcode, ==, WIRE_TERMINATE);
    decode_terminate(&segment, t);
    g_free(segment.payload);
}

void wire_skip_to_terminate(WirePeer *peer, WireTerminate *t)
{
    WireSegment segment;

    wire_get_segment(peer, &segment);
    while (segment.opcode != WIRE_TERMINATE) {
        g_free(segment.payload);
        wire_get_segment(peer, &segment);
    }
    decode_terminate(&segment, t);
    g_free(segment.payload);
}

WireTerminate wire_expect_terminate(WirePeer *peer, uint16_t code)
{
    WireTerminate t;

    wire_get_terminate(peer, &t);
    g_assert_cmphex(t.code, ==, code);
    wire_expect_end(peer);
    return t;
}
