/*
 * rnic: TLS under a stream, with QEMU's credentials objects
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/iov.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/timer.h"
#include "crypto/tlssession.h"
#include "io/channel-tls.h"
#include "hw/rnic/base/compat.h"
#include "tls.h"
#include "hw/rnic/base/trace.h"

enum {
    /* As long as a peer has for its MPA Request, in the guest's time too. */
    HANDSHAKE_TIMEOUT_MS = 10 * 1000,
    /* How long a closed channel goes on sending what it has accepted. */
    LINGER_MS = 10 * 1000,
    RECORD = 16384,             /* payload of the longest TLS record */
};

/* ------------------------------------------------------------- channel */

#define TYPE_RNIC_TLS_CHANNEL "rnic-tls-channel"
OBJECT_DECLARE_SIMPLE_TYPE(RnicTlsChannel, RNIC_TLS_CHANNEL)

struct RnicTlsChannel {
    QIOChannel parent_obj;

    QIOChannelTLS *tls;
    /* The record being sent.  What gnutls could not send whole it keeps, and
     * wants the same octets again: they stay here until it took them all. */
    uint8_t *out;
    size_t out_len;
    bool fin_wanted;            /* close_notify and FIN behind the record */
    bool fin_sent;
    bool broken;
    bool closing;               /* by its user; sends on by itself */
    QEMUTimer *linger;

    /* The user's handlers.  All of the channel is for the thread of ctx. */
    AioContext *ctx;
    IOHandler *on_readable;
    IOHandler *on_writable;
    void *opaque;
    QEMUBH *more;               /* readable, though the socket is not */
};

static bool has_output(const RnicTlsChannel *t)
{
    return !t->broken && (t->out_len || (t->fin_wanted && !t->fin_sent));
}

/* Nothing of the channel is in its context any more. */
static void leave_context(RnicTlsChannel *t)
{
    AioContext *ctx = t->ctx ?: iohandler_get_aio_context();

    qio_channel_set_aio_fd_handler(QIO_CHANNEL(t->tls), ctx, NULL, ctx, NULL,
                                   NULL);
    if (t->more) {
        qemu_bh_delete(t->more);
        t->more = NULL;
    }
}

static void real_close(RnicTlsChannel *t)
{
    leave_context(t);
    qio_channel_close(QIO_CHANNEL(t->tls), NULL);
}

/* Ends a linger: the reference that kept the channel goes. */
static void end_linger(RnicTlsChannel *t)
{
    timer_free(t->linger);
    t->linger = NULL;
    real_close(t);
    object_unref(OBJECT(t));
}

/* QCRYPTO_TLS_SESSION_ERR_BLOCK, -1, or 0: nothing is left to send. */
static int flush_record(RnicTlsChannel *t)
{
    while (t->out_len) {
        ssize_t n = qio_channel_write(QIO_CHANNEL(t->tls), (char *)t->out,
                                      t->out_len, NULL);

        if (n == QIO_CHANNEL_ERR_BLOCK) {
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

static int flush(RnicTlsChannel *t)
{
    int status;

    if (t->broken) {
        return -1;
    }
    status = flush_record(t);
    if (status || !t->fin_wanted || t->fin_sent) {
        return status;
    }
    status = qcrypto_tls_session_bye(t->tls->session, NULL);
    if (status == QCRYPTO_TLS_BYE_SENDING) {
        return QCRYPTO_TLS_SESSION_ERR_BLOCK;
    }
    t->fin_sent = true;
    qio_channel_shutdown(t->tls->master, QIO_CHANNEL_SHUTDOWN_WRITE, NULL);
    return 0;
}

static void socket_readable(void *opaque);
static void socket_writable(void *opaque);

static void update_handlers(RnicTlsChannel *t)
{
    bool write = has_output(t) || t->on_writable;

    qio_channel_set_aio_fd_handler(QIO_CHANNEL(t->tls), t->ctx,
                                   t->on_readable ? socket_readable : NULL,
                                   t->ctx, write ? socket_writable : NULL, t);
}

/* Octets that are decrypted: the socket may never become readable again. */
static void look_for_more(RnicTlsChannel *t)
{
    if (t->on_readable && !t->closing &&
        qcrypto_tls_session_check_pending(t->tls->session) > 0) {
        qemu_bh_schedule(t->more);
    }
}

/* A handler may give the channel to another thread: then it is that one's. */
static void socket_readable(void *opaque)
{
    RnicTlsChannel *t = opaque;
    AioContext *ctx = t->ctx;

    object_ref(OBJECT(t));
    if (t->on_readable) {
        t->on_readable(t->opaque);
        if (t->ctx == ctx) {
            look_for_more(t);
        }
    }
    object_unref(OBJECT(t));
}

static void socket_writable(void *opaque)
{
    RnicTlsChannel *t = opaque;
    int status;

    object_ref(OBJECT(t));
    status = flush(t);
    if (t->closing) {
        if (status != QCRYPTO_TLS_SESSION_ERR_BLOCK) {
            end_linger(t);
        }
    } else {
        update_handlers(t);
        if (t->on_writable && status != QCRYPTO_TLS_SESSION_ERR_BLOCK) {
            t->on_writable(t->opaque);
        }
    }
    object_unref(OBJECT(t));
}

static void channel_set_aio_fd_handler(QIOChannel *ioc, AioContext *read_ctx,
                                       IOHandler *io_read,
                                       AioContext *write_ctx,
                                       IOHandler *io_write, void *opaque)
{
    RnicTlsChannel *t = RNIC_TLS_CHANNEL(ioc);

    if (t->ctx != read_ctx) {
        leave_context(t);
        t->ctx = read_ctx;
    }
    if (!t->more) {
        t->more = aio_bh_new(read_ctx, socket_readable, t);
    }
    t->on_readable = io_read;
    t->on_writable = io_write;
    t->opaque = opaque;
    update_handlers(t);
    look_for_more(t);
}

static ssize_t channel_readv(QIOChannel *ioc, const struct iovec *iov,
                             size_t niov, int **fds, size_t *nfds, int flags,
                             Error **errp)
{
    RnicTlsChannel *t = RNIC_TLS_CHANNEL(ioc);
    ssize_t n = qio_channel_readv(QIO_CHANNEL(t->tls), iov, niov, errp);

    if (n < 0 && n != QIO_CHANNEL_ERR_BLOCK) {
        errno = ECONNRESET;     /* what was wrong with it gnutls cannot say */
    }
    return n;
}

/* One record at a time; how many octets of @iov were taken. */
static ssize_t channel_writev(QIOChannel *ioc, const struct iovec *iov,
                              size_t niov, int *fds, size_t nfds, int flags,
                              Error **errp)
{
    RnicTlsChannel *t = RNIC_TLS_CHANNEL(ioc);
    size_t total = iov_size(iov, niov);
    size_t done = 0;
    int status = flush(t);

    if (!t->out) {
        t->out = g_malloc(RECORD);
    }
    while (!status && done < total) {
        t->out_len = iov_to_buf(iov, niov, done, t->out,
                                MIN(total - done, RECORD));
        done += t->out_len;
        status = flush(t);
    }
    if (t->broken) {
        error_setg(errp, "the TLS session has failed");
        errno = ECONNRESET;
        return -1;
    }
    if (status && t->ctx) {
        update_handlers(t);     /* to send the rest of the record */
    }
    return done || !status ? done : QIO_CHANNEL_ERR_BLOCK;
}

static int channel_shutdown(QIOChannel *ioc, QIOChannelShutdown how,
                            Error **errp)
{
    RnicTlsChannel *t = RNIC_TLS_CHANNEL(ioc);

    if (how != QIO_CHANNEL_SHUTDOWN_WRITE) {
        return qio_channel_shutdown(QIO_CHANNEL(t->tls), how, errp);
    }
    t->fin_wanted = true;
    if (flush(t) == QCRYPTO_TLS_SESSION_ERR_BLOCK && t->ctx) {
        update_handlers(t);
    }
    return 0;
}

static void linger_over(void *opaque)
{
    end_linger(opaque);
}

static void linger_begins(void *opaque)
{
    RnicTlsChannel *t = opaque;

    t->linger = timer_new_ms(QEMU_CLOCK_REALTIME, linger_over, t);
    timer_mod(t->linger, qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + LINGER_MS);
    update_handlers(t);
}

/* What the channel has accepted still goes out, and so does the end.  The main
 * loop sees to that: the thread of ctx may end before. */
static int channel_close(QIOChannel *ioc, Error **errp)
{
    RnicTlsChannel *t = RNIC_TLS_CHANNEL(ioc);

    if (t->closing) {
        return 0;
    }
    t->closing = true;
    t->on_readable = NULL;
    t->on_writable = NULL;
    t->fin_wanted = true;
    if (flush(t) != QCRYPTO_TLS_SESSION_ERR_BLOCK) {
        real_close(t);
        return 0;
    }
    object_ref(OBJECT(t));
    leave_context(t);
    t->ctx = iohandler_get_aio_context();
    aio_bh_schedule_oneshot(t->ctx, linger_begins, t);
    return 0;
}

static int channel_set_blocking(QIOChannel *ioc, bool enabled, Error **errp)
{
    RnicTlsChannel *t = RNIC_TLS_CHANNEL(ioc);

    return qio_channel_set_blocking(QIO_CHANNEL(t->tls), enabled, errp);
}

static GSource *channel_create_watch(QIOChannel *ioc, GIOCondition condition)
{
    RnicTlsChannel *t = RNIC_TLS_CHANNEL(ioc);

    return qio_channel_create_watch(QIO_CHANNEL(t->tls), condition);
}

QIOChannel *rnic_tls_give_up(QIOChannel *ioc)
{
    RnicTlsChannel *t = (RnicTlsChannel *)object_dynamic_cast(
        OBJECT(ioc), TYPE_RNIC_TLS_CHANNEL);

    if (!t) {
        return ioc;
    }
    t->broken = true;
    return t->tls->master;
}

static void channel_finalize(Object *obj)
{
    RnicTlsChannel *t = RNIC_TLS_CHANNEL(obj);

    if (t->more) {
        qemu_bh_delete(t->more);
    }
    object_unref(OBJECT(t->tls));
    g_free(t->out);
}

static void channel_class_init(ObjectClass *klass, RNIC_CLASS_DATA *data)
{
    QIOChannelClass *ioc = QIO_CHANNEL_CLASS(klass);

    ioc->io_readv = channel_readv;
    ioc->io_writev = channel_writev;
    ioc->io_shutdown = channel_shutdown;
    ioc->io_close = channel_close;
    ioc->io_set_blocking = channel_set_blocking;
    ioc->io_create_watch = channel_create_watch;
    ioc->io_set_aio_fd_handler = channel_set_aio_fd_handler;
}

/* Takes the reference to @tls. */
static QIOChannel *channel_new(QIOChannelTLS *tls)
{
    RnicTlsChannel *t = RNIC_TLS_CHANNEL(object_new(TYPE_RNIC_TLS_CHANNEL));

    t->tls = tls;
    qio_channel_set_feature(QIO_CHANNEL(t), QIO_CHANNEL_FEATURE_SHUTDOWN);
    return QIO_CHANNEL(t);
}

/* ----------------------------------------------------------- handshake */

struct RnicTlsHandshake {
    QIOChannelTLS *tls;         /* NULL: it could not be made */
    char *peer;                 /* for messages */
    QEMUBH *start;
    QEMUTimer *timeout;
    Error *error;
    RnicTlsDone *done;
    void *opaque;
};

static void handshake_free(RnicTlsHandshake *h)
{
    if (h->tls) {
        qio_channel_close(QIO_CHANNEL(h->tls), NULL);
        object_unref(OBJECT(h->tls));
    }
    qemu_bh_delete(h->start);
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

static void handshake_end(QIOTask *task, gpointer data)
{
    RnicTlsHandshake *h = data;
    RnicTlsDone *done = h->done;
    void *opaque = h->opaque;
    QIOChannel *ioc;

    if (qio_task_propagate_error(task, &h->error)) {
        handshake_fail(h, error_get_pretty(h->error));
        return;
    }
    ioc = channel_new(h->tls);
    h->tls = NULL;
    trace_rnic_tls_established(h, ioc);
    handshake_free(h);
    done(opaque, ioc, NULL);
}

static void handshake_start(void *opaque)
{
    RnicTlsHandshake *h = opaque;

    if (h->tls) {
        qio_channel_tls_handshake(h->tls, handshake_end, h, NULL, NULL);
    } else {
        handshake_fail(h, error_get_pretty(h->error));
    }
}

static void handshake_timeout(void *opaque)
{
    handshake_fail(opaque, "the handshake took too long");
}

RnicTlsHandshake *rnic_tls_handshake(QIOChannel *socket,
                                     QCryptoTLSCreds *creds, bool server,
                                     const char *name, const char *peer,
                                     RnicTlsDone *done, void *opaque)
{
    RnicTlsHandshake *h = g_new0(RnicTlsHandshake, 1);

    h->peer = g_strdup(peer);
    h->done = done;
    h->opaque = opaque;
    h->tls = server
        ? qio_channel_tls_new_server(socket, creds, name, &h->error)
        : qio_channel_tls_new_client(socket, creds, name, &h->error);
    object_unref(OBJECT(socket));
    h->start = aio_bh_new(iohandler_get_aio_context(), handshake_start, h);
    qemu_bh_schedule(h->start);
    h->timeout = timer_new_ms(QEMU_CLOCK_VIRTUAL, handshake_timeout, h);
    timer_mod(h->timeout, qemu_clock_get_ms(QEMU_CLOCK_VIRTUAL) +
                          HANDSHAKE_TIMEOUT_MS);
    trace_rnic_tls_handshake(h, server ? "server" : "client", h->peer);
    return h;
}

QCryptoTLSCreds *rnic_tls_creds(const char *id, bool server, Error **errp)
{
    Object *obj = object_resolve_path_component(object_get_objects_root(), id);
    QCryptoTLSCreds *creds;

    if (!obj) {
        error_setg(errp, "no TLS credentials with id '%s' (their -object has "
                   "to come first)", id);
        return NULL;
    }
    creds = (QCryptoTLSCreds *)object_dynamic_cast(obj,
                                                   TYPE_QCRYPTO_TLS_CREDS);
    if (!creds) {
        error_setg(errp, "the object '%s' is not TLS credentials", id);
        return NULL;
    }
    if (!qcrypto_tls_creds_check_endpoint(
            creds, server ? QCRYPTO_TLS_CREDS_ENDPOINT_SERVER
                          : QCRYPTO_TLS_CREDS_ENDPOINT_CLIENT, errp)) {
        return NULL;
    }
    object_ref(obj);
    return creds;
}

static const TypeInfo tls_types[] = {
    {
        .name = TYPE_RNIC_TLS_CHANNEL,
        .parent = TYPE_QIO_CHANNEL,
        .instance_size = sizeof(RnicTlsChannel),
        .instance_finalize = channel_finalize,
        .class_init = channel_class_init,
    },
};

DEFINE_TYPES(tls_types)
