/*
 * rnic: closing transports in order
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/queue.h"
#include "qemu/timer.h"
#include "linger.h"
#include "hw/rnic/base/trace.h"

enum {
    DISCARD = 64 * 1024,        /* octets of one read */
    DISCARDS_PER_TURN = 16,
};

typedef struct Linger {
    RnicLingers *lingers;
    RnicTransport *transport;
    int64_t deadline_ms;
    uint8_t *octets;            /* to be sent: those from sent to end */
    size_t sent;
    size_t end;
    bool said;                  /* the end of this direction */
    bool heard;                 /* the peer's */
    QTAILQ_ENTRY(Linger) next;
} Linger;

struct RnicLingers {
    AioContext *ctx;
    QEMUTimer *timer;           /* the oldest deadline */
    unsigned count;
    QTAILQ_HEAD(, Linger) list; /* the oldest first */
};

static void linger_end(Linger *l, const char *why)
{
    trace_rnic_linger_end(l->transport, why);
    QTAILQ_REMOVE(&l->lingers->list, l, next);
    l->lingers->count--;
    rnic_transport_close(l->transport);
    g_free(l->octets);
    g_free(l);
}

/* What is left, then the end.  False: the transport has failed. */
static bool linger_send(Linger *l)
{
    while (l->sent < l->end) {
        ssize_t n = rnic_transport_write(l->transport, l->octets + l->sent,
                                         l->end - l->sent);

        if (n < 0) {
            return errno == EAGAIN;
        }
        l->sent += n;
    }
    l->said = rnic_transport_shut_down(l->transport);
    return true;
}

/* Until nothing is left to read, the peer's end, or the turn's. */
static bool linger_discard(Linger *l)
{
    g_autofree uint8_t *octets = g_malloc(DISCARD);

    for (int i = 0; i < DISCARDS_PER_TURN && !l->heard; i++) {
        ssize_t n = rnic_transport_read(l->transport, octets, DISCARD);

        if (n < 0) {
            return errno == EAGAIN;
        }
        l->heard = n == 0;
    }
    return true;
}

static void linger_go_on(void *opaque);

static void linger_watch(Linger *l)
{
    rnic_transport_set_handlers(l->transport, l->lingers->ctx,
                                l->heard ? NULL : linger_go_on,
                                l->said ? NULL : linger_go_on, l);
}

/* The transport can be read or written again. */
static void linger_go_on(void *opaque)
{
    Linger *l = opaque;

    if (!linger_send(l) || !linger_discard(l)) {
        linger_end(l, "failed");
    } else if (l->said && l->heard) {
        linger_end(l, "both ends");
    } else {
        linger_watch(l);
    }
}

/* The timer runs only while there is something in the list. */
static void lingers_set_timer(RnicLingers *lingers)
{
    Linger *oldest = QTAILQ_FIRST(&lingers->list);

    if (oldest) {
        timer_mod(lingers->timer, oldest->deadline_ms);
    }
}

static void lingers_time_up(void *opaque)
{
    RnicLingers *lingers = opaque;
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    Linger *l, *next;

    QTAILQ_FOREACH_SAFE(l, &lingers->list, next, next) {
        if (l->deadline_ms > now) {
            break;
        }
        linger_end(l, "time is up");
    }
    lingers_set_timer(lingers);
}

/* One more than there may be: the oldest that has sent all, or just the oldest. */
static void lingers_evict(RnicLingers *lingers)
{
    Linger *l;

    QTAILQ_FOREACH(l, &lingers->list, next) {
        if (l->said) {
            break;
        }
    }
    linger_end(l ?: QTAILQ_FIRST(&lingers->list), "too many");
}

void rnic_linger(RnicLingers *lingers, RnicTransport *t, uint8_t *octets,
                 size_t from, size_t to)
{
    Linger *l = g_new0(Linger, 1);

    trace_rnic_linger(t, lingers->count);
    if (lingers->count == RNIC_LINGER_MAX) {
        lingers_evict(lingers);
    }
    l->lingers = lingers;
    l->transport = t;
    l->octets = octets;
    l->sent = from;
    l->end = to;
    l->deadline_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + RNIC_LINGER_MS;
    QTAILQ_INSERT_TAIL(&lingers->list, l, next);
    if (lingers->count++ == 0) {
        lingers_set_timer(lingers);
    }
    linger_go_on(l);
}

void rnic_lingers_end(RnicLingers *lingers)
{
    Linger *l, *next;

    QTAILQ_FOREACH_SAFE(l, &lingers->list, next, next) {
        linger_end(l, "the device is reset");
    }
    timer_del(lingers->timer);
}

RnicLingers *rnic_lingers_new(AioContext *ctx)
{
    RnicLingers *lingers = g_new0(RnicLingers, 1);

    lingers->ctx = ctx;
    lingers->timer = aio_timer_new(ctx, QEMU_CLOCK_REALTIME, SCALE_MS,
                                   lingers_time_up, lingers);
    QTAILQ_INIT(&lingers->list);
    return lingers;
}

void rnic_lingers_free(RnicLingers *lingers)
{
    timer_free(lingers->timer);
    g_free(lingers);
}
