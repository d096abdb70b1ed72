/*
 * rnic: TLS as a transport, with QEMU's credentials objects
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/atomic.h"
#include "qemu/error-report.h"
#include "qemu/iov.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "hw/rnic/base/compat.h"
#include "tls.h"
#include "hw/rnic/base/trace.h"

enum {
    /* As long as a peer has for its MPA Request, in the guest's time too. */
    HANDSHAKE_TIMEOUT_MS = 10 * 1000,
    RECORD = 16384,             /* payload of the longest TLS record */
    STEPS_PER_TURN = 4,         /* of the main loop; 1 to 3 ms each */
};

/* ----------------------------------------------------------- transport */

typedef struct TlsTransport {
    RnicTransport transport;
    RnicTransport *below;
    QCryptoTLSSession *session;
    int error;                  /* errno of the transport below, 0: none */
    /* The record being sent.  What gnutls could not send whole it keeps, and
     * wants the same octets again: they stay here until it took them all. */
    uint8_t *out;
    size_t out_len;
    bool fin_wanted;            /* close_notify and FIN behind the record */
    bool fin_sent;
    bool broken;
} TlsTransport;

static TlsTransport *tls_of(RnicTransport *t)
{
    return container_of(t, TlsTransport, transport);
}

/* The session's way down: what it is told of the transport's @n. */
static ssize_t tls_below_result(TlsTransport *t, ssize_t n, Error **errp)
{
    if (n < 0 && errno == EAGAIN) {
        return QCRYPTO_TLS_SESSION_ERR_BLOCK;
    }
    if (n < 0) {
        t->error = errno;
        error_setg_errno(errp, errno, "the socket failed");
    }
    return n;
}

static ssize_t tls_push(const RnicTlsOctets *octets, size_t len, void *opaque,
                        Error **errp)
{
    TlsTransport *t = opaque;

    return tls_below_result(t, rnic_transport_write(t->below, octets, len),
                            errp);
}

static ssize_t tls_pull(RnicTlsOctets *octets, size_t len, void *opaque,
                        Error **errp)
{
    TlsTransport *t = opaque;

    return tls_below_result(t, rnic_transport_read(t->below, octets, len),
                            errp);
}

/* -1 with errno: what was wrong with the session gnutls cannot say. */
static ssize_t tls_failed(const TlsTransport *t)
{
    errno = t->error ?: ECONNRESET;
    return -1;
}

static bool tls_has_output(const TlsTransport *t)
{
    return !t->broken && (t->out_len || (t->fin_wanted && !t->fin_sent));
}

/* QCRYPTO_TLS_SESSION_ERR_BLOCK, -1, or 0: nothing is left to send. */
static int tls_flush_record(TlsTransport *t)
{
    while (t->out_len) {
        ssize_t n = qcrypto_tls_session_write(t->session, (char *)t->out,
                                              t->out_len, NULL);

        if (n == QCRYPTO_TLS_SESSION_ERR_BLOCK) {
            return QCRYPTO_TLS_SESSION_ERR_BLOCK;
        }
        if (n <= 0) {
            t->broken = true;
            return -1;
        }
        t->out_len -= n;
        memmove(t->out, t->out + n, t->out_len);
    }
    return 0;
}

static int tls_flush(TlsTransport *t)
{
    int status;

    if (t->broken) {
        return -1;
    }
    status = tls_flush_record(t);
    if (status || !t->fin_wanted || t->fin_sent) {
        return status;
    }
    status = qcrypto_tls_session_bye(t->session, NULL);
    if (status == QCRYPTO_TLS_BYE_SENDING) {
        return QCRYPTO_TLS_SESSION_ERR_BLOCK;
    }
    t->fin_sent = true;
    rnic_transport_shut_down(t->below);
    return 0;
}

static void tls_writable(void *opaque);

static void tls_readable(void *opaque)
{
    rnic_transport_readable(opaque);
}

static void tls_watch(RnicTransport *transport)
{
    TlsTransport *t = tls_of(transport);
    bool write = tls_has_output(t) || transport->writable;

    if (!transport->ctx) {
        rnic_transport_leave_loop(t->below);
        return;
    }
    rnic_transport_set_handlers(t->below, transport->ctx,
                                transport->readable ? tls_readable : NULL,
                                write ? tls_writable : NULL, t);
}

static void tls_writable(void *opaque)
{
    TlsTransport *t = opaque;
    int status = tls_flush(t);

    tls_watch(&t->transport);
    if (status != QCRYPTO_TLS_SESSION_ERR_BLOCK) {
        rnic_transport_writable(&t->transport);
    }
}

/* What is decrypted already. */
static bool tls_pending(RnicTransport *t)
{
    return qcrypto_tls_session_check_pending(tls_of(t)->session) > 0;
}

static ssize_t tls_readv(RnicTransport *transport, const struct iovec *iov,
                         size_t count)
{
    TlsTransport *t = tls_of(transport);
    size_t done = 0;

    for (size_t i = 0; i < count; i++) {
        ssize_t n = rnic_tls_session_read(t->session, iov[i].iov_base,
                                          iov[i].iov_len);

        if (n < 0 && done == 0) {
            if (n != QCRYPTO_TLS_SESSION_ERR_BLOCK) {
                return tls_failed(t);
            }
            errno = EAGAIN;
            return -1;
        }
        done += MAX(n, 0);
        if (n < (ssize_t)iov[i].iov_len) {
            break;
        }
    }
    return done;
}

/* One record at a time; how many octets of @iov were taken. */
static ssize_t tls_writev(RnicTransport *transport, const struct iovec *iov,
                          size_t count)
{
    TlsTransport *t = tls_of(transport);
    size_t total = iov_size(iov, count);
    size_t done = 0;
    int status = tls_flush(t);

    if (!t->out) {
        t->out = g_malloc(RECORD);
    }
    while (!status && done < total) {
        t->out_len = iov_to_buf(iov, count, done, t->out,
                                MIN(total - done, RECORD));
        done += t->out_len;
        status = tls_flush(t);
    }
    if (t->broken) {
        return tls_failed(t);
    }
    if (status && transport->ctx) {
        tls_watch(transport);           /* to send the rest of the record */
    }
    if (status && !done) {
        errno = EAGAIN;
        return -1;
    }
    return done;
}

static bool tls_shut_down(RnicTransport *transport)
{
    TlsTransport *t = tls_of(transport);

    t->fin_wanted = true;
    if (tls_flush(t) != QCRYPTO_TLS_SESSION_ERR_BLOCK) {
        return true;
    }
    if (transport->ctx) {
        tls_watch(transport);
    }
    return false;
}

static void tls_close(RnicTransport *transport, bool reset)
{
    TlsTransport *t = tls_of(transport);

    (reset ? rnic_transport_abort : rnic_transport_close)(t->below);
    qcrypto_tls_session_free(t->session);
    g_free(t->out);
}

static RnicTransportEnd tls_end(RnicTransport *t)
{
    return rnic_transport_end(tls_of(t)->below);
}

static const RnicTransportOps tls_ops = {
    .readv = tls_readv,
    .writev = tls_writev,
    .shut_down = tls_shut_down,
    .close = tls_close,
    .watch = tls_watch,
    .end = tls_end,
    .pending = tls_pending,
};

/* Takes @below.  NULL with @errp: it is closed. */
static TlsTransport *tls_new(RnicTransport *below, QCryptoTLSCreds *creds,
                             bool server, const char *name, Error **errp)
{
    TlsTransport *t;
    QCryptoTLSSession *session = qcrypto_tls_session_new(
        creds, server ? NULL : name, server ? name : NULL,
        server ? QCRYPTO_TLS_CREDS_ENDPOINT_SERVER
               : QCRYPTO_TLS_CREDS_ENDPOINT_CLIENT, errp);

    if (!session) {
        rnic_transport_close(below);
        return NULL;
    }
    t = g_new0(TlsTransport, 1);
    t->transport.ops = &tls_ops;
    t->below = below;
    t->session = session;
    qcrypto_tls_session_set_callbacks(session, tls_push, tls_pull, t);
    return t;
}

/* ----------------------------------------------------------- handshake */

struct RnicTlsHandshake {
    TlsTransport *tls;          /* NULL: it could not be made */
    char *peer;                 /* for messages */
    QEMUTimer *timeout;
    Error *error;
    RnicTlsDone *done;
    void *opaque;
};

static void handshake_watch(RnicTlsHandshake *h, IOHandler *readable,
                            IOHandler *writable)
{
    rnic_transport_set_handlers(h->tls->below, iohandler_get_aio_context(),
                                readable, writable, h);
}

static void handshake_free(RnicTlsHandshake *h)
{
    if (h->tls) {
        rnic_transport_close(&h->tls->transport);
    }
    timer_free(h->timeout);
    error_free(h->error);
    g_free(h->peer);
    g_free(h);
}

void rnic_tls_cancel(RnicTlsHandshake *h)
{
    trace_rnic_tls_cancel(h);
    handshake_free(h);
}

/* A peer can cause as many of these as it likes: one line, then traces. */
static void handshake_fail(RnicTlsHandshake *h, const char *why)
{
    g_autofree char *text = g_strdup(why);
    RnicTlsDone *done = h->done;
    void *opaque = h->opaque;

    trace_rnic_err_tls_handshake(h, why);
    warn_report_once("rnic: no TLS connection with %s: %s "
                     "(later ones are only traced)", h->peer, why);
    handshake_free(h);
    done(opaque, NULL, text);
}

static void handshake_succeed(RnicTlsHandshake *h)
{
    RnicTlsDone *done = h->done;
    void *opaque = h->opaque;
    TlsTransport *tls = h->tls;

    rnic_transport_leave_loop(tls->below);
    h->tls = NULL;
    trace_rnic_tls_established(h, &tls->transport);
    handshake_free(h);
    done(opaque, &tls->transport, NULL);
}

static unsigned handshake_steps;        /* in this turn of the main loop */

static void handshake_next_turn(void *unused)
{
    handshake_steps = 0;
}

/* More steps have to wait: what the handshake watches stays ready. */
static bool handshake_may_step(void)
{
    if (handshake_steps == 0) {
        aio_bh_schedule_oneshot(iohandler_get_aio_context(),
                                handshake_next_turn, NULL);
    }
    return handshake_steps++ < STEPS_PER_TURN;
}

static void handshake_step(void *opaque)
{
    RnicTlsHandshake *h = opaque;

    if (!handshake_may_step()) {
        return;
    }
    switch (qcrypto_tls_session_handshake(h->tls->session, &h->error)) {
    case QCRYPTO_TLS_HANDSHAKE_SENDING:
        handshake_watch(h, NULL, handshake_step);
        break;
    case QCRYPTO_TLS_HANDSHAKE_RECVING:
        handshake_watch(h, handshake_step, NULL);
        break;
    case QCRYPTO_TLS_HANDSHAKE_COMPLETE:
        if (qcrypto_tls_session_check_credentials(h->tls->session,
                                                  &h->error) == 0) {
            handshake_succeed(h);
            break;
        }
        /* fall through */
    default:
        handshake_fail(h, error_get_pretty(h->error));
    }
}

static void handshake_timeout(void *opaque)
{
    RnicTlsHandshake *h = opaque;

    handshake_fail(h, h->error ? error_get_pretty(h->error)
                               : "the handshake took too long");
}

RnicTlsHandshake *rnic_tls_handshake(RnicTransport *below,
                                     QCryptoTLSCreds *creds, bool server,
                                     const char *name, const char *peer,
                                     RnicTlsDone *done, void *opaque)
{
    RnicTlsHandshake *h = g_new0(RnicTlsHandshake, 1);

    h->peer = g_strdup(peer);
    h->done = done;
    h->opaque = opaque;
    h->tls = tls_new(below, creds, server, name, &h->error);
    h->timeout = timer_new_ms(QEMU_CLOCK_VIRTUAL, handshake_timeout, h);
    timer_mod(h->timeout, qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL) +
                          (h->tls ? HANDSHAKE_TIMEOUT_MS : 0));
    if (h->tls) {
        handshake_watch(h, NULL, handshake_step);
    }
    trace_rnic_tls_handshake(h, server ? "server" : "client", h->peer);
    return h;
}
