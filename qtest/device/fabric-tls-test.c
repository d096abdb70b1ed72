/*
 * rnic: TLS on the TCP fabric, by pre-shared keys and by certificates
 *
 * Two devices talk through a relay that lives in the test: it sees the wire,
 * can hold it up, cut it and change it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/bswap.h"
#include "qobject/qdict.h"
#include <poll.h>

#include "tests/qtest/rnic/lib/certificates.h"
#include "tests/qtest/rnic/lib/connection.h"

enum {
    CLIENT = 1,                 /* hosts */
    SERVER = 2,
    RELAY = 3,
    SIZE = 100000,
};

/* ------------------------------------------------------------ credentials */

static const char *key_directory(const char *key)
{
    const char *dir = certificates_directory();
    g_autofree char *path = g_build_filename(dir, "keys.psk", NULL);
    g_autofree char *line = g_strdup_printf("rnic:%s\n", key);

    g_assert_true(g_file_set_contents(path, line, -1, NULL));
    return dir;
}

#define KEY "0123456789abcdef0123456789abcdef"
#define OTHER_KEY "fedcba9876543210fedcba9876543210"

/* Credentials for both roles, and a fabric f with these properties. */
static char *fabric_options(const char *dir, const char *fabric)
{
    return g_strdup_printf(
        "-object tls-creds-psk,id=server,endpoint=server,dir=%s "
        "-object tls-creds-psk,id=client,endpoint=client,dir=%s,username=rnic "
        "-object rnic-fabric-tcp,id=f,map=loopback%s", dir, dir, fabric);
}

#define BOTH ",tls-creds=server,tls-client-creds=client"

static Connection *new_device(const char *key, const char *fabric)
{
    g_autofree char *arguments = fabric_options(key_directory(key), fabric);

    return connection_prepare(&(ConnectionOptions) {
        .properties = ",fabric=f", .arguments = arguments, .sq_depth = 64,
        .rq_depth = 64 });
}

/* ------------------------------------------------------------------ relay */

typedef struct Relay {
    int client, server;
    GThread *thread;
    /* Set by the test, read by the thread. */
    int hold;
    int cut;                    /* both ends, without a word inside of TLS */
    int corrupt;                /* what the client sends next */
    /* Set by the thread, for the test to read after its end. */
    GByteArray *seen;           /* the first octets of both directions */
} Relay;

enum { SEEN_MAX = 4 * 1024 * 1024 };

static bool pass(Relay *relay, int from, int to)
{
    uint8_t buffer[16384];
    ssize_t n = read(from, buffer, sizeof(buffer));

    if (n <= 0) {
        shutdown(to, SHUT_WR);
        return false;
    }
    if (relay->seen->len + n <= SEEN_MAX) {
        g_byte_array_append(relay->seen, buffer, n);
    }
    if (from == relay->client && qatomic_read(&relay->corrupt)) {
        buffer[n - 1] ^= 1;
    }
    for (ssize_t done = 0; done < n; ) {
        ssize_t m = send(to, buffer + done, n - done, MSG_NOSIGNAL);

        if (m <= 0) {
            return false;
        }
        done += m;
    }
    return true;
}

static void *relay_run(void *opaque)
{
    Relay *relay = opaque;
    struct pollfd p[2] = {
        { .fd = relay->client, .events = POLLIN },
        { .fd = relay->server, .events = POLLIN },
    };

    while ((p[0].fd >= 0 || p[1].fd >= 0) && !qatomic_read(&relay->cut)) {
        if (qatomic_read(&relay->hold) || poll(p, 2, 10) <= 0) {
            g_usleep(1000);
            continue;
        }
        if (p[0].fd >= 0 && p[0].revents &&
            !pass(relay, relay->client, relay->server)) {
            p[0].fd = -1;
        }
        if (p[1].fd >= 0 && p[1].revents &&
            !pass(relay, relay->server, relay->client)) {
            p[1].fd = -1;
        }
    }
    close(relay->client);
    close(relay->server);
    return NULL;
}

static Relay *relay_new(int client, int server)
{
    Relay *relay = g_new0(Relay, 1);
    int small = 65536;

    /* What waits here is soon enough to block those who send. */
    setsockopt(client, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    setsockopt(server, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    relay->client = client;
    relay->server = server;
    relay->seen = g_byte_array_new();
    relay->thread = g_thread_new("relay", relay_run, relay);
    return relay;
}

static void relay_free(Relay *relay)
{
    g_thread_join(relay->thread);
    g_byte_array_unref(relay->seen);
    g_free(relay);
}

/* ------------------------------------------------------------- connecting */

typedef struct Pair {
    Connection *client, *server;
    uint16_t port;
    Relay *relay;
} Pair;

static Pair pair_prepare(const char *client_key)
{
    Pair p = {
        .client = new_device(client_key, BOTH),
        .server = new_device(KEY, BOTH),
        .port = wire_free_port(SERVER),
    };

    g_assert_cmpuint(rnic_try_listen(p.server->r, wire_guest_ip(SERVER),
                                     p.port, 1, NULL), ==, RNIC_ST_OK);
    return p;
}

/* The client begins to connect, by way of a relay. */
static void pair_dial(Pair *p)
{
    uint16_t port;
    int listener = wire_listen(RELAY, &port);
    WirePeer *to_client, *to_server;

    g_assert_cmpuint(rnic_try_connect(p->client->r, &p->client->qp,
                                      wire_guest_ip(RELAY), port, 4, 4,
                                      CONNECTION_COOKIE, "hello", 5), ==,
                     RNIC_ST_OK);
    to_client = wire_accept(p->client->r->qts, listener);
    to_server = wire_connect(p->server->r->qts, RELAY, SERVER, p->port);
    p->relay = relay_new(dup(to_client->fd), dup(to_server->fd));
    wire_close(to_client);
    wire_close(to_server);
    close(listener);
}

static void pair_establish(Pair *p)
{
    struct rnic_cm_event event;

    pair_dial(p);
    event = rnic_expect_cm(p->server->r, RNIC_CM_CONNECT_REQUEST);
    g_assert_cmpmem(event.private_data, 5, "hello", 5);
    g_assert_cmpuint(rnic_try_accept(p->server->r, le32_to_cpu(event.endpoint),
                                     &p->server->qp, 4, 4, CONNECTION_COOKIE,
                                     "welcome", 7), ==, RNIC_ST_OK);
    event = rnic_expect_cm(p->client->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
    g_assert_cmpmem(event.private_data, 7, "welcome", 7);
    event = rnic_expect_cm(p->server->r, RNIC_CM_ESTABLISHED);
    g_assert_cmpint(event.status, ==, RNIC_CM_OK);
}

static void pair_free(Pair *p)
{
    connection_free(p->client);
    connection_free(p->server);
    if (p->relay) {
        relay_free(p->relay);
    }
}

/* A message from one to the other, whole and right. */
static void send_message(Connection *from, Connection *to, uint32_t seed)
{
    g_autofree uint8_t *data = g_malloc(SIZE), *got = g_malloc(SIZE);

    rnic_pattern(data, SIZE, seed);
    connection_fill(from, 0, data, SIZE);
    connection_recv(to, seed, SIZE, SIZE);
    connection_post(from, RNIC_SQ_SEND, seed, 0, SIZE);
    rnic_expect_cqe(to->r, &to->recv_cq, seed, RNIC_WC_SUCCESS);
    rnic_expect_cqe(from->r, &from->send_cq, seed, RNIC_WC_SUCCESS);
    connection_peek(to, SIZE, got, SIZE);
    g_assert_cmpmem(got, SIZE, data, SIZE);
}

static bool contains(const GByteArray *seen, const void *text, size_t length)
{
    return memmem(seen->data, seen->len, text, length) != NULL;
}

/* ------------------------------------------------------------------- data */

/* Both ways, and nothing of it can be seen on the wire. */
static void test_data(void)
{
    Pair p = pair_prepare(KEY);
    uint8_t data[SIZE];
    GByteArray *seen;

    pair_establish(&p);
    for (uint32_t i = 1; i <= 4; i++) {
        send_message(p.client, p.server, 10 * i);
        send_message(p.server, p.client, 10 * i + 1);
    }
    seen = g_byte_array_ref(p.relay->seen);
    pair_free(&p);
    g_assert_cmpuint(seen->len, >, 8 * SIZE);
    g_assert_cmphex(seen->data[0], ==, 0x16);   /* a TLS handshake */
    g_assert_false(contains(seen, "MPA ID", 6));
    g_assert_false(contains(seen, "hello", 5));
    rnic_pattern(data, SIZE, 10);
    for (unsigned i = 0; i + 32 < SIZE; i += 1000) {
        g_assert_false(contains(seen, data + i, 32));
    }
    g_byte_array_unref(seen);
}

/* How many Sends have completed, of at most @max. */
static int completions(Connection *c, int max)
{
    struct rnic_cqe cqe;
    int n = 0;

    while (n < max && rnic_cq_poll(c->r, &c->send_cq, &cqe)) {
        g_assert_cmpuint(le64_to_cpu(cqe.wr_id), ==, n);
        g_assert_cmpint(cqe.status, ==, RNIC_WC_SUCCESS);
        n++;
    }
    return n;
}

/* The wire takes nothing for a while, in both directions at once. */
static void test_held_up(void)
{
    enum { COUNT = 60 };
    Pair p = pair_prepare(KEY);
    g_autofree uint8_t *data = g_malloc(SIZE), *got = g_malloc(SIZE);
    Connection *ends[2];
    int sent[2];

    pair_establish(&p);
    /* The responder may speak once the initiator has. */
    send_message(p.client, p.server, 1);
    ends[0] = p.client;
    ends[1] = p.server;
    for (int e = 0; e < 2; e++) {
        rnic_pattern(data, SIZE, 20 + e);
        connection_fill(ends[e], 0, data, SIZE);
    }
    for (int round = 0; round < 3; round++) {
        qatomic_set(&p.relay->hold, 1);
        for (int i = 0; i < COUNT; i++) {
            for (int e = 0; e < 2; e++) {
                connection_recv(ends[e], i, SIZE, SIZE);
                connection_post(ends[e], RNIC_SQ_SEND, i, 0, SIZE);
            }
        }
        for (int e = 0; e < 2; e++) {
            rnic_settle(ends[e]->r);
            sent[e] = completions(ends[e], COUNT);
            g_assert_cmpint(sent[e], <, COUNT);     /* it is held up */
        }
        qatomic_set(&p.relay->hold, 0);
        for (int i = 0; i < COUNT; i++) {
            for (int e = 0; e < 2; e++) {
                rnic_expect_cqe(ends[e]->r, &ends[e]->recv_cq, i,
                                RNIC_WC_SUCCESS);
                if (i >= sent[e]) {
                    rnic_expect_cqe(ends[e]->r, &ends[e]->send_cq, i,
                                    RNIC_WC_SUCCESS);
                }
            }
        }
    }
    for (int e = 0; e < 2; e++) {
        rnic_pattern(data, SIZE, 21 - e);
        connection_peek(ends[e], SIZE, got, SIZE);
        g_assert_cmpmem(got, SIZE, data, SIZE);
    }
    pair_free(&p);
}

/* ------------------------------------------------------------------- ends */

static void expect_end(Connection *c, uint16_t async)
{
    rnic_expect_async(c->r, async, c->qp.number);
    rnic_settle(c->r);
    rnic_expect_no_async(c->r);
}

/* The end is said inside the encryption: both sides believe it. */
static void test_close(void)
{
    Pair p = pair_prepare(KEY);

    pair_establish(&p);
    send_message(p.client, p.server, 1);
    g_assert_cmpuint(rnic_modify_qp_state(p.client->r, &p.client->qp,
                                          RNIC_QPS_CLOSING), ==, RNIC_ST_OK);
    rnic_expect_cm(p.server->r, RNIC_CM_PEER_CLOSE);
    expect_end(p.server, RNIC_AE_LLP_CLOSE_COMPLETE);
    expect_end(p.client, RNIC_AE_LLP_CLOSE_COMPLETE);
    pair_free(&p);
}

/* ... and without that word, an end is none. */
static void test_cut(void)
{
    Pair p = pair_prepare(KEY);

    pair_establish(&p);
    send_message(p.client, p.server, 1);
    qatomic_set(&p.relay->cut, 1);
    expect_end(p.server, RNIC_AE_LLP_RESET);
    expect_end(p.client, RNIC_AE_LLP_RESET);
    pair_free(&p);
}

static void test_tampered(void)
{
    Pair p = pair_prepare(KEY);
    uint8_t zero[4] = { }, got[4];

    pair_establish(&p);
    send_message(p.client, p.server, 1);
    connection_fill(p.server, 0, zero, 4);
    connection_recv(p.server, 2, 0, 4);
    qatomic_set(&p.relay->corrupt, 1);
    connection_fill(p.client, 0, "evil", 4);
    connection_post(p.client, RNIC_SQ_SEND, 2, 0, 4);
    expect_end(p.server, RNIC_AE_LLP_RESET);
    rnic_expect_cqe(p.server->r, &p.server->recv_cq, 2, RNIC_WC_FLUSHED);
    connection_peek(p.server, 0, got, 4);
    g_assert_cmpmem(got, 4, zero, 4);
    pair_free(&p);
}

/* A Terminate still arrives before the end. */
static void test_terminate(void)
{
    Pair p = pair_prepare(KEY);
    struct rnic_qp_attr attr;

    pair_establish(&p);
    send_message(p.client, p.server, 1);
    connection_post(p.client, RNIC_SQ_SEND, 2, 0, 4);   /* no receive there */
    expect_end(p.server, RNIC_AE_RQ_MSN_RANGE);
    expect_end(p.client, RNIC_AE_TERMINATE_RECEIVED);
    attr = rnic_query_qp(p.client->r, &p.client->qp);
    g_assert_cmpint(attr.state, ==, RNIC_QPS_ERROR);
    pair_free(&p);
}

/* ------------------------------------------------------------- handshakes */

static void test_wrong_key(void)
{
    Pair p = pair_prepare(OTHER_KEY);
    struct rnic_cm_event event;

    pair_dial(&p);
    event = rnic_expect_cm(p.client->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_TLS);
    g_assert_cmpint(rnic_qp_state(p.client->r, &p.client->qp), ==,
                    RNIC_QPS_IDLE);
    rnic_settle(p.server->r);
    rnic_expect_no_cm(p.server->r);
    g_assert_cmpuint(rnic_query_counters(p.client->r).endpoints, ==, 0);
    pair_free(&p);
}

/* Who speaks plain is not let in, and does not keep others out. */
static void test_plain_client(void)
{
    Pair p = pair_prepare(KEY);
    WireMpa request = wire_mpa_request();
    uint8_t octets[64];
    size_t length = wire_mpa_encode(&request, octets);

    for (int i = 0; i < 3; i++) {
        WirePeer *peer = wire_connect(p.server->r->qts, 4, SERVER, p.port);

        wire_try_put(peer, octets, length);
        /* An alert may come, the end must. */
        while (wire_end(peer) == WIRE_DATA) {
            wire_get(peer, octets, 1);
            g_assert_cmphex(octets[0], !=, 'M');
        }
        wire_close(peer);
        length = wire_mpa_encode(&request, octets);
    }
    rnic_expect_no_cm(p.server->r);
    g_assert_cmpuint(rnic_query_counters(p.server->r).endpoints, ==, 0);
    pair_establish(&p);
    send_message(p.client, p.server, 1);
    pair_free(&p);
}

/* Nothing is said in the clear to a server that has no TLS. */
static void test_plain_server(void)
{
    Connection *c = new_device(KEY, BOTH);
    struct rnic_cm_event event;
    uint16_t port;
    int listener = wire_listen(2, &port);
    WireMpa request = wire_mpa_request();
    uint8_t record[3];

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port, 1,
                                      1, 5, "secret", 6), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    wire_get(c->peer, record, sizeof(record));
    g_assert_cmphex(record[0], ==, 0x16);
    g_assert_cmphex(record[1], ==, 3);
    request.reply = true;
    wire_mpa_put(c->peer, &request);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_cmpint(event.status, ==, RNIC_CM_TLS);
    close(listener);
    connection_free(c);
}

/* Peers that say nothing: bounded in number and in time. */
static void test_silent_clients(void)
{
    enum { COUNT = 80 };        /* the backlog is at least 64 */
    Pair p = pair_prepare(KEY);
    WirePeer *peers[COUNT];

    for (int i = 0; i < COUNT; i++) {
        peers[i] = wire_connect(p.server->r->qts, 4, SERVER, p.port);
    }
    /* Beyond the backlog they are turned away at once. */
    wire_expect_end(peers[COUNT - 1]);
    wire_expect_silence(peers[0]);
    rnic_pass_time(p.server->r, 11);
    for (int i = 0; i < COUNT; i++) {
        wire_expect_end(peers[i]);
        wire_close(peers[i]);
    }
    pair_establish(&p);
    send_message(p.client, p.server, 1);
    pair_free(&p);
}

/* The listener, or the QP that connects, goes during the handshake. */
static void test_gone_meanwhile(void)
{
    Connection *c = new_device(KEY, BOTH);
    uint16_t port = wire_free_port(1), peers;
    int listener = wire_listen(2, &peers);
    uint32_t number;
    WirePeer *silent;

    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 1,
                                     &number), ==, RNIC_ST_OK);
    silent = wire_connect(c->r->qts, 4, 1, port);
    wire_expect_silence(silent);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_CM_UNLISTEN, number),
                     ==, RNIC_ST_OK);
    wire_expect_end(silent);
    wire_close(silent);

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), peers, 1,
                                      1, 5, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_DATA);
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DESTROY_QP,
                                       c->qp.number), ==, RNIC_ST_OK);
    rnic_settle(c->r);
    rnic_expect_no_cm(c->r);
    close(listener);
    connection_free(c);
}

/* A connection that takes too long, from the client's side. */
static void test_silent_server(void)
{
    Connection *c = new_device(KEY, BOTH);
    struct rnic_cm_event event;
    uint16_t port;
    int listener = wire_listen(2, &port);

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), port, 1,
                                      1, 5, NULL, 0), ==, RNIC_ST_OK);
    c->peer = wire_accept(c->r->qts, listener);
    g_assert_cmpint(wire_end(c->peer), ==, WIRE_DATA);
    rnic_pass_time(c->r, 11);
    event = rnic_expect_cm(c->r, RNIC_CM_CONNECT_REPLY);
    g_assert_true(event.status == RNIC_CM_TIMED_OUT ||
                  event.status == RNIC_CM_TLS);
    close(listener);
    connection_free(c);
}

/* ----------------------------------------------------------- certificates */

typedef struct CertificateCase {
    const char *fabric;         /* more properties of the client's fabric */
    const char *client;         /* name of the client */
    unsigned host;              /* the server's certificate is for it */
    bool stranger;              /* the client's authority is another one */
    bool good;
} CertificateCase;

static Connection *new_x509_device(const char *dir, const char *fabric)
{
    g_autofree char *arguments = g_strdup_printf(
        "-object tls-creds-x509,id=server,endpoint=server,dir=%s "
        "-object tls-creds-x509,id=client,endpoint=client,dir=%s "
        "-object authz-simple,id=a,identity=CN=friend "
        "-object rnic-fabric-tcp,id=f,map=loopback%s", dir, dir, fabric);

    return connection_prepare(&(ConnectionOptions) {
        .properties = ",fabric=f", .arguments = arguments });
}

static void try_certificates(const CertificateCase *t)
{
    g_autofree char *fabric = g_strdup_printf(BOTH "%s", t->fabric);
    Connection *client = new_x509_device(
        certificates_new(wire_host_ip(CLIENT), t->client, t->stranger),
        fabric);
    Connection *server = new_x509_device(
        certificates_new(wire_host_ip(t->host), "nobody", false),
        BOTH ",tls-authz=a");
    uint16_t port = wire_free_port(SERVER);
    struct rnic_cm_event event;

    g_assert_cmpuint(rnic_try_listen(server->r, wire_guest_ip(SERVER), port, 1,
                                     NULL), ==, RNIC_ST_OK);
    g_assert_cmpuint(rnic_try_connect(client->r, &client->qp,
                                      wire_guest_ip(SERVER), port, 1, 1, 5,
                                      "hello", 5), ==, RNIC_ST_OK);
    if (t->good) {
        event = rnic_expect_cm(server->r, RNIC_CM_CONNECT_REQUEST);
        g_assert_cmpmem(event.private_data, 5, "hello", 5);
    } else {
        /* In TLS 1.3 a client may hear of its rejection after the handshake. */
        event = rnic_expect_cm(client->r, RNIC_CM_CONNECT_REPLY);
        g_assert_true(event.status == RNIC_CM_TLS ||
                      event.status == RNIC_CM_RESET);
        rnic_settle(server->r);
        rnic_expect_no_cm(server->r);
    }
    connection_free(client);
    connection_free(server);
}

/* The server is who it should be, and the client one it knows. */
static void test_certificates(void)
{
    static const CertificateCase cases[] = {
        { "", "friend", SERVER, false, true },
        { "", "friend", RELAY, false, false },          /* another host's */
        { ",tls-hostname=server.test", "friend", RELAY, false, true },
        { ",tls-hostname=other.test", "friend", SERVER, false, false },
        { "", "foe", SERVER, false, false },
        { "", "friend", SERVER, true, false },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        try_certificates(&cases[i]);
    }
}

/* ------------------------------------------------------------- properties */

/* With credentials for one direction only, the other one is closed. */
static void test_one_direction(void)
{
    Connection *c = new_device(KEY, ",tls-creds=server");
    uint16_t port = wire_free_port(1);

    g_assert_cmpuint(rnic_try_connect(c->r, &c->qp, wire_guest_ip(2), 1, 1, 1,
                                      5, NULL, 0), ==, RNIC_ST_FABRIC_ERROR);
    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 1, NULL),
                     ==, RNIC_ST_OK);
    connection_free(c);

    c = new_device(KEY, ",tls-client-creds=client");
    g_assert_cmpuint(rnic_try_listen(c->r, wire_guest_ip(1), port, 1, NULL),
                     ==, RNIC_ST_FABRIC_ERROR);
    connection_free(c);
}

static void assert_refused(Rnic *r, const char *name, const char *value,
                           const char *reason)
{
    QDict *answer = qtest_qmp(r->qts, "{ 'execute': 'object-add', 'arguments':"
                              " { 'qom-type': 'rnic-fabric-tcp', 'id': 'x',"
                              " 'map': 'loopback',"
                              " %s: %s } }", name, value);
    const char *error;

    g_assert_true(qdict_haskey(answer, "error"));
    error = qdict_get_str(qdict_get_qdict(answer, "error"), "desc");
    if (!strstr(error, reason)) {
        g_printerr("%s=%s: no word of '%s' in: %s\n", name, value, reason,
                   error);
        g_assert_not_reached();
    }
    qobject_unref(answer);
}

static void test_properties(void)
{
    g_autofree char *options = fabric_options(key_directory(KEY), "");
    Rnic *r = rnic_boot("", options);

    assert_refused(r, "tls-creds", "nobody", "'nobody' not found");
    assert_refused(r, "tls-creds", "f", "expected: tls-creds");
    assert_refused(r, "tls-creds", "client", "server");
    assert_refused(r, "tls-client-creds", "server", "client");
    assert_refused(r, "tls-authz", "a", "without tls-creds");
    assert_refused(r, "tls-hostname", "a", "without tls-client-creds");
    rnic_quit(r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/fabric-tls/data", test_data);
    qtest_add_func("rnic/fabric-tls/held-up", test_held_up);
    qtest_add_func("rnic/fabric-tls/close", test_close);
    qtest_add_func("rnic/fabric-tls/cut", test_cut);
    qtest_add_func("rnic/fabric-tls/tampered", test_tampered);
    qtest_add_func("rnic/fabric-tls/terminate", test_terminate);
    qtest_add_func("rnic/fabric-tls/wrong-key", test_wrong_key);
    qtest_add_func("rnic/fabric-tls/plain-client", test_plain_client);
    qtest_add_func("rnic/fabric-tls/plain-server", test_plain_server);
    qtest_add_func("rnic/fabric-tls/silent-clients", test_silent_clients);
    qtest_add_func("rnic/fabric-tls/silent-server", test_silent_server);
    qtest_add_func("rnic/fabric-tls/gone-meanwhile", test_gone_meanwhile);
    qtest_add_func("rnic/fabric-tls/certificates", test_certificates);
    qtest_add_func("rnic/fabric-tls/one-direction", test_one_direction);
    qtest_add_func("rnic/fabric-tls/properties", test_properties);
    return g_test_run();
}
