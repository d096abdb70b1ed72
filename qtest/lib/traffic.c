/*
 * Traffic on a stream that goes on by itself, in threads of the test
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/stats64.h"
#include <poll.h>

#include "traffic.h"

/* How long a thread sleeps before it looks whether it should end. */
#define LOOK_MILLISECONDS 20
/* How long pump_free() waits for the peer to take the rest of a block. */
#define FINISH_SECONDS 5

struct Drain {
    GThread *thread;
    bool stop;
    Stat64 octets;
    unsigned count;
    struct pollfd *fds;
};

/* Returns false at the end of the stream. */
static bool drain_one(Drain *drain, int fd, void *room, size_t size)
{
    ssize_t n = recv(fd, room, size, MSG_DONTWAIT);

    if (n > 0) {
        stat64_add(&drain->octets, n);
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static gpointer drain_run(gpointer opaque)
{
    enum { ROOM = 256 * 1024 };
    Drain *drain = opaque;
    g_autofree uint8_t *room = g_malloc(ROOM);

    while (!qatomic_read(&drain->stop)) {
        if (poll(drain->fds, drain->count, LOOK_MILLISECONDS) <= 0) {
            continue;
        }
        for (unsigned i = 0; i < drain->count; i++) {
            if (drain->fds[i].revents &&
                !drain_one(drain, drain->fds[i].fd, room, ROOM)) {
                drain->fds[i].fd = -1;
            }
        }
    }
    return NULL;
}

Drain *drain_new(const int *fds, unsigned count)
{
    Drain *drain = g_new0(Drain, 1);

    stat64_init(&drain->octets, 0);
    drain->count = count;
    drain->fds = g_new0(struct pollfd, count);
    for (unsigned i = 0; i < count; i++) {
        drain->fds[i] = (struct pollfd) { .fd = fds[i], .events = POLLIN };
    }
    drain->thread = g_thread_new("drain", drain_run, drain);
    return drain;
}

uint64_t drain_octets(Drain *drain)
{
    return stat64_get(&drain->octets);
}

void drain_free(Drain *drain)
{
    qatomic_set(&drain->stop, true);
    g_thread_join(drain->thread);
    g_free(drain->fds);
    g_free(drain);
}

struct Pump {
    GThread *thread;
    int fd;
    uint8_t *block;
    size_t length;
    bool stop;
    Stat64 blocks;
    gint64 stopped;             /* when the thread saw the end */
};

/* Whether to go on with the rest of a block. */
static bool pump_may_wait(Pump *pump)
{
    gint64 now = g_get_monotonic_time();

    if (!qatomic_read(&pump->stop)) {
        return true;
    }
    if (!pump->stopped) {
        pump->stopped = now;
    }
    return now < pump->stopped + FINISH_SECONDS * G_USEC_PER_SEC;
}

static bool pump_block(Pump *pump)
{
    for (size_t at = 0; at < pump->length;) {
        struct pollfd p = { .fd = pump->fd, .events = POLLOUT };
        ssize_t n = send(pump->fd, pump->block + at, pump->length - at,
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n > 0) {
            at += n;
        } else if (errno != EAGAIN && errno != EINTR) {
            return false;
        } else if (!pump_may_wait(pump)) {
            return false;
        } else {
            poll(&p, 1, LOOK_MILLISECONDS);
        }
    }
    return true;
}

static gpointer pump_run(gpointer opaque)
{
    Pump *pump = opaque;

    while (!qatomic_read(&pump->stop) && pump_block(pump)) {
        stat64_add(&pump->blocks, 1);
    }
    return NULL;
}

Pump *pump_new(int fd, const void *block, size_t length)
{
    Pump *pump = g_new0(Pump, 1);

    stat64_init(&pump->blocks, 0);
    pump->fd = fd;
    pump->block = g_memdup2(block, length);
    pump->length = length;
    pump->thread = g_thread_new("pump", pump_run, pump);
    return pump;
}

uint64_t pump_blocks(Pump *pump)
{
    return stat64_get(&pump->blocks);
}

void pump_stop(Pump *pump)
{
    qatomic_set(&pump->stop, true);
}

void pump_free(Pump *pump)
{
    pump_stop(pump);
    g_thread_join(pump->thread);
    g_free(pump->block);
    g_free(pump);
}
