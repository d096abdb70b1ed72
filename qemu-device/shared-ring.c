/*
 * rnic: the shared ring, octets of one direction in memory that both ends have
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/host-utils.h"
#include "qemu/iov.h"
#include "qemu/memfd.h"
#include "qemu/sockets.h"
#include "keep-apart.h"
#include "shared-ring.h"

#ifdef CONFIG_LINUX

#include <linux/magic.h>
#include <sys/vfs.h>

QEMU_BUILD_BUG_ON(offsetof(RnicSharedRingPage, tail) != 128);
QEMU_BUILD_BUG_ON(sizeof(RnicSharedRingPage) != 256);

enum {
    /* Octets that the other end sees at a time: it may begin meanwhile. */
    PUBLISH = 64 * 1024,

    /*
     * A sender that waits is told when the ring has drained to this part of
     * its size, to run for much and not for little.
     */
    DRAINED = 8,
};

struct RnicSharedRing {
    uint8_t *mapping;           /* the page, the octets, the octets again */
    RnicSharedRingPage *shared;
    uint8_t *octets;
    uint32_t size;
    uint32_t position;          /* this end's, as published */
    uint32_t waits;             /* this end's, as published */
    uint32_t answered;          /* the other's, when the bell was last rung */
    int bell;
    bool silent;                /* nobody rings the bell any more */
    bool waiting;               /* the receiver, see the header */
};

/* ------------------------------------------------------------- mapping */

static size_t mapping_size(uint32_t size)
{
    return qemu_real_host_page_size() + 2 * (size_t)size;
}

static bool map_at(uint8_t *place, size_t size, int memory, off_t offset)
{
    return mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                memory, offset) != MAP_FAILED;
}

/* The octets twice in a row: what wraps around is in one piece, too. */
static bool map_memory(RnicSharedRing *ring, int memory)
{
    size_t page = qemu_real_host_page_size();
    uint8_t *m = mmap(NULL, mapping_size(ring->size), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (m == MAP_FAILED) {
        return false;
    }
    ring->mapping = m;
    ring->shared = (RnicSharedRingPage *)m;
    ring->octets = m + page;
    return map_at(m, page + ring->size, memory, 0) &&
           map_at(m + page + ring->size, ring->size, memory, page);
}

void rnic_shared_ring_free(RnicSharedRing *ring)
{
    int error = errno;

    if (ring->mapping) {
        munmap(ring->mapping, mapping_size(ring->size));
    }
    if (ring->bell >= 0) {
        close(ring->bell);
    }
    g_free(ring);
    errno = error;
}

int rnic_shared_ring_bell(const RnicSharedRing *ring)
{
    return ring->bell;
}

/* -------------------------------------------------------- the sender's */

RnicSharedRing *rnic_shared_ring_create(int *memory, int *bell)
{
    RnicSharedRing *ring = g_new0(RnicSharedRing, 1);
    int pair[2];

    ring->size = RNIC_SHARED_RING_SIZE;
    ring->bell = -1;
    *memory = qemu_memfd_create("rnic-ring",
                                qemu_real_host_page_size() + ring->size, false,
                                0, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
                                NULL);
    if (*memory < 0) {
        rnic_shared_ring_free(ring);
        return NULL;
    }
    if (!map_memory(ring, *memory) ||
        qemu_socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) {
        int error = errno;

        close(*memory);
        rnic_shared_ring_free(ring);
        errno = error;
        return NULL;
    }
    ring->bell = pair[0];
    *bell = pair[1];
    ring->shared->receiver_waits = 1;
    return ring;
}

/* ------------------------------------------------------ the receiver's */

/*
 * Memory that is nothing but memory: reading it does not fail, does not wait
 * for anybody, and it does not become less.
 */
static bool check_memory(RnicSharedRing *ring, int memory)
{
    int seals = fcntl(memory, F_GET_SEALS);
    size_t page = qemu_real_host_page_size();
    struct statfs fs;
    struct stat st;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstatfs(memory, &fs) < 0 ||
        fs.f_type != TMPFS_MAGIC || fstat(memory, &st) < 0 ||
        st.st_size < page + RNIC_SHARED_RING_MIN ||
        st.st_size > page + RNIC_SHARED_RING_MAX ||
        !is_power_of_2(st.st_size - page)) {
        return false;
    }
    ring->size = st.st_size - page;
    return true;
}

RnicSharedRing *rnic_shared_ring_open(int memory, int bell)
{
    RnicSharedRing *ring = g_new0(RnicSharedRing, 1);
    int error = EPROTO;
    bool ok;

    ring->bell = bell;
    ok = check_memory(ring, memory);
    if (ok && !map_memory(ring, memory)) {
        error = errno;
        ok = false;
    }
    close(memory);
    if (ok) {
        ring->waits = 1;
        ring->waiting = true;
        return ring;
    }
    rnic_shared_ring_free(ring);
    errno = error;
    return NULL;
}

/* ------------------------------------------------------------ the bell */

/* If the other end waits and has not been told. */
static void tell(RnicSharedRing *ring, const uint32_t *other_waits)
{
    uint32_t waits;

    smp_mb();
    waits = qatomic_read(other_waits);
    if (waits != ring->answered) {
        ring->answered = waits;
        RETRY_ON_EINTR(send(ring->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
    }
}

/* The caller has to look once more: the other end may have missed it. */
static void announce_wait(RnicSharedRing *ring, uint32_t *own_waits)
{
    qatomic_set(own_waits, ++ring->waits);
    smp_mb();
}

static void tell_receiver(RnicSharedRing *ring)
{
    qatomic_set(&ring->shared->sender_processor, rnic_own_processor() + 1);
    tell(ring, &ring->shared->receiver_waits);
}

bool rnic_shared_ring_rung(RnicSharedRing *ring)
{
    uint8_t rung[64];
    ssize_t n = RETRY_ON_EINTR(recv(ring->bell, rung, sizeof(rung),
                                    MSG_DONTWAIT));

    ring->waiting = false;
    ring->silent = n == 0 || (n < 0 && errno != EAGAIN);
    return !ring->silent;
}

/* ------------------------------------------------------------ transfer */

static uint8_t *place(const RnicSharedRing *ring)
{
    return ring->octets + (ring->position & (ring->size - 1));
}

/* More than the size: the peer has broken the ring. */
static uint32_t filled(const RnicSharedRing *ring)
{
    return ring->position - qatomic_load_acquire(&ring->shared->tail);
}

/* The ring is full; what it holds by now. */
static uint32_t look_again(RnicSharedRing *ring)
{
    tell_receiver(ring);
    announce_wait(ring, &ring->shared->sender_waits);
    return filled(ring);
}

ssize_t rnic_shared_ring_write(RnicSharedRing *ring, const struct iovec *iov,
                               size_t count)
{
    size_t total = iov_size(iov, count);
    size_t done = 0;

    while (done < total) {
        uint32_t used = filled(ring);
        size_t n;

        if (used == ring->size) {
            used = look_again(ring);
            if (ring->silent) {
                errno = EPIPE;
                return -1;
            }
            if (used > ring->size / DRAINED && used <= ring->size) {
                return done;
            }
        }
        if (used > ring->size) {
            errno = EPROTO;
            return -1;
        }
        n = iov_to_buf(iov, count, done, place(ring),
                       MIN(PUBLISH, ring->size - used));
        done += n;
        ring->position += n;
        qatomic_store_release(&ring->shared->head, ring->position);
    }
    tell_receiver(ring);
    return done;
}

void *rnic_shared_ring_room(const RnicSharedRing *ring, size_t len)
{
    uint32_t used = filled(ring);

    return used <= ring->size && len <= ring->size - used ? place(ring) : NULL;
}

void rnic_shared_ring_commit(RnicSharedRing *ring, size_t len)
{
    ring->position += len;
    qatomic_store_release(&ring->shared->head, ring->position);
}

void rnic_shared_ring_tell(RnicSharedRing *ring)
{
    tell_receiver(ring);
}

static uint32_t available(const RnicSharedRing *ring)
{
    return qatomic_load_acquire(&ring->shared->head) - ring->position;
}

bool rnic_shared_ring_waits(const RnicSharedRing *ring)
{
    return ring->waiting;
}

int rnic_shared_ring_sender_processor(const RnicSharedRing *ring)
{
    uint32_t from_1 = qatomic_read(&ring->shared->sender_processor);

    return from_1 <= INT_MAX ? (int)from_1 - 1 : -1;
}

ssize_t rnic_shared_ring_read(RnicSharedRing *ring, const struct iovec *iov,
                              size_t count)
{
    uint32_t octets = available(ring);
    size_t n;

    if (octets == 0) {
        announce_wait(ring, &ring->shared->receiver_waits);
        octets = available(ring);
    }
    if (octets > ring->size) {
        errno = EPROTO;
        return -1;
    }
    n = iov_from_buf(iov, count, 0, place(ring), octets);
    ring->waiting = n == 0;
    if (n > 0) {
        ring->position += n;
        qatomic_store_release(&ring->shared->tail, ring->position);
    }
    if (octets - n <= ring->size / DRAINED) {
        tell(ring, &ring->shared->sender_waits);
    }
    return n;
}

const void *rnic_shared_ring_peek(const RnicSharedRing *ring, size_t *n)
{
    uint32_t octets = available(ring);

    *n = octets <= ring->size ? octets : 0;
    return place(ring);
}

void rnic_shared_ring_consume(RnicSharedRing *ring, size_t n)
{
    ring->waiting = false;
    ring->position += n;
    qatomic_store_release(&ring->shared->tail, ring->position);
    if (available(ring) <= ring->size / DRAINED) {
        tell(ring, &ring->shared->sender_waits);
    }
}

#else

RnicSharedRing *rnic_shared_ring_create(int *memory, int *bell)
{
    errno = ENOSYS;
    return NULL;
}

RnicSharedRing *rnic_shared_ring_open(int memory, int bell)
{
    close(memory);
    close(bell);
    errno = ENOSYS;
    return NULL;
}

void rnic_shared_ring_free(RnicSharedRing *ring)
{
}

int rnic_shared_ring_bell(const RnicSharedRing *ring)
{
    return -1;
}

bool rnic_shared_ring_waits(const RnicSharedRing *ring)
{
    return true;
}

bool rnic_shared_ring_rung(RnicSharedRing *ring)
{
    return false;
}

ssize_t rnic_shared_ring_write(RnicSharedRing *ring, const struct iovec *iov,
                               size_t count)
{
    g_assert_not_reached();
}

void *rnic_shared_ring_room(const RnicSharedRing *ring, size_t len)
{
    return NULL;
}

void rnic_shared_ring_commit(RnicSharedRing *ring, size_t len)
{
    g_assert_not_reached();
}

void rnic_shared_ring_tell(RnicSharedRing *ring)
{
    g_assert_not_reached();
}

int rnic_shared_ring_sender_processor(const RnicSharedRing *ring)
{
    return -1;
}

ssize_t rnic_shared_ring_read(RnicSharedRing *ring, const struct iovec *iov,
                              size_t count)
{
    g_assert_not_reached();
}

const void *rnic_shared_ring_peek(const RnicSharedRing *ring, size_t *n)
{
    *n = 0;
    return NULL;
}

void rnic_shared_ring_consume(RnicSharedRing *ring, size_t n)
{
    g_assert_not_reached();
}

#endif
