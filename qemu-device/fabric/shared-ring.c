/*
 * rnic: the shared ring, octets of one direction in memory that both ends have
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <linux/magic.h>
#include <sys/vfs.h>
#include "qemu/atomic.h"
#include "qemu/host-utils.h"
#include "qemu/iov.h"
#include "qemu/memfd.h"
#include "qemu/sockets.h"
#include "shared-ring.h"
#include "unix-socket.h"

QEMU_BUILD_BUG_ON(offsetof(RnicSharedRingPage, tail) != 128);
QEMU_BUILD_BUG_ON(sizeof(RnicSharedRingPage) != 256);

enum {
    /* Octets that the other end sees at a time: it may begin meanwhile. */
    PUBLISH = 32 * 1024,

    /* A receiver that waits is told of this part of the ring at the latest, so
     * that it reads while there is still room. */
    TOLD = 4,

    /*
     * A sender that waits is told when the ring has drained to this part of
     * its size: to run for much and not for little, and before the receiver has
     * nothing left to do.
     */
    DRAINED = 2,

    /* What a receiver wants: the size stays. */
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW,

    /* Octets that a ring's memory may hold: the kernel may use a huge page. */
    HELD = 32 * 1024 * 1024,
};

struct RnicSharedRing {
    uint8_t *mapping;           /* the page, and the octets twice in a row */
    RnicSharedRingPage *shared;
    uint8_t *octets;            /* what wraps around is in one piece */
    uint32_t size;
    uint32_t position;          /* this end's, as published */
    uint32_t waits;             /* this end's, as published */
    uint32_t answered;          /* the other's, when the bell was last rung */
    int bell;
    bool silent;                /* the peer rings the bell no more */
    bool waiting;               /* the receiver, see the header */
    uint32_t untold;            /* the sender, octets since it last told */
};

/* ------------------------------------------------------------- mapping */

static size_t ring_mapping_size(const RnicSharedRing *ring)
{
    return qemu_real_host_page_size() + 2 * (size_t)ring->size;
}

static bool ring_map_at(uint8_t *at, size_t size, int memory, off_t offset)
{
    return mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                memory, offset) != MAP_FAILED;
}

/* @size: of the octets. */
static bool ring_map_memory(RnicSharedRing *ring, int memory, uint32_t size)
{
    size_t page = qemu_real_host_page_size();
    uint8_t *m;

    ring->size = size;
    m = mmap(NULL, ring_mapping_size(ring), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) {
        return false;
    }
    ring->mapping = m;
    ring->shared = (RnicSharedRingPage *)m;
    ring->octets = m + page;
    return ring_map_at(m, page, memory, 0) &&
           ring_map_at(ring->octets, size, memory, page) &&
           ring_map_at(ring->octets + size, size, memory, page);
}

void rnic_shared_ring_free(RnicSharedRing *ring)
{
    int error = errno;

    if (ring->mapping) {
        munmap(ring->mapping, ring_mapping_size(ring));
    }
    if (ring->bell >= 0) {
        rnic_unix_close(ring->bell);
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

    ring->bell = -1;
    *memory = qemu_memfd_create("rnic-ring",
                                qemu_real_host_page_size() +
                                RNIC_SHARED_RING_SIZE, false, 0,
                                SEALS | F_SEAL_SEAL, NULL);
    if (*memory < 0) {
        rnic_shared_ring_free(ring);
        return NULL;
    }
    if (!ring_map_memory(ring, *memory, RNIC_SHARED_RING_SIZE) ||
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

/* Blocks behind the end of the file count as well. */
static bool ring_holds_little(const struct stat *st)
{
    return st->st_blocks <= HELD / S_BLKSIZE;
}

/*
 * The octets of memory that is nothing but memory: reading it does not fail,
 * does not wait for anybody, it becomes neither less nor more, and to free it
 * takes no time.  Else 0.
 */
static uint32_t ring_check_memory(int memory)
{
    int seals = fcntl(memory, F_GET_SEALS);
    size_t page = qemu_real_host_page_size();
    struct statfs fs;
    struct stat st;

    if (seals < 0 || (seals & SEALS) != SEALS || fstatfs(memory, &fs) < 0 ||
        fs.f_type != TMPFS_MAGIC || fstat(memory, &st) < 0 ||
        st.st_size < page + RNIC_SHARED_RING_MIN ||
        st.st_size > page + RNIC_SHARED_RING_SIZE ||
        !is_power_of_2(st.st_size - page) || !ring_holds_little(&st)) {
        return 0;
    }
    return st.st_size - page;
}

RnicSharedRing *rnic_shared_ring_open(int memory, int bell)
{
    RnicSharedRing *ring = g_new0(RnicSharedRing, 1);
    uint32_t size = ring_check_memory(memory);
    int error = EPROTO;
    bool ok = size > 0;

    ring->bell = bell;
    if (ok && !ring_map_memory(ring, memory, size)) {
        error = errno;
        ok = false;
    }
    rnic_unix_discard(&memory, 1);
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
static void ring_tell(RnicSharedRing *ring, const uint32_t *other_waits)
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
static void ring_announce_wait(RnicSharedRing *ring, uint32_t *own_waits)
{
    qatomic_set(own_waits, ++ring->waits);
    smp_mb();
}

void rnic_shared_ring_tell(RnicSharedRing *ring)
{
    ring->untold = 0;
    ring_tell(ring, &ring->shared->receiver_waits);
}

bool rnic_shared_ring_rung(RnicSharedRing *ring)
{
    uint8_t rung[64];
    size_t none;
    ssize_t n = rnic_unix_receive(ring->bell,
                                  &(struct iovec) { rung, sizeof(rung) }, 1,
                                  NULL, 0, &none);

    ring->waiting = false;
    ring->silent = n == 0 || (n < 0 && errno != EAGAIN);
    return !ring->silent;
}

bool rnic_shared_ring_silent(const RnicSharedRing *ring)
{
    return ring->silent;
}

/* ------------------------------------------------------------ transfer */

static uint8_t *ring_place(const RnicSharedRing *ring)
{
    return ring->octets + (ring->position & (ring->size - 1));
}

/* Octets that are in the ring. */
static uint32_t ring_used(const RnicSharedRing *ring)
{
    return ring->position - qatomic_load_acquire(&ring->shared->tail);
}

/*
 * There is too little room: tell the receiver what there is, and that the sender
 * waits.  Returns what is in the ring by now.
 */
static uint32_t ring_wait_for_room(RnicSharedRing *ring)
{
    rnic_shared_ring_tell(ring);
    ring_announce_wait(ring, &ring->shared->sender_waits);
    return ring_used(ring);
}

/* More than that cannot be in it: the peer has broken the ring. */
static bool ring_broken(const RnicSharedRing *ring, uint32_t used)
{
    return used > ring->size;
}

/* Of a ring that is not broken. */
static uint32_t ring_room(const RnicSharedRing *ring, uint32_t used)
{
    return ring->size - used;
}

/* It is worth waiting. */
static bool ring_little_room(const RnicSharedRing *ring, uint32_t used)
{
    return !ring_broken(ring, used) &&
           ring_room(ring, used) < ring->size - ring->size / DRAINED;
}

void rnic_shared_ring_commit(RnicSharedRing *ring, size_t n)
{
    ring->position += n;
    ring->untold += n;
    qatomic_store_release(&ring->shared->head, ring->position);
}

/* As much of it as there is room for, at most PUBLISH. */
static size_t ring_write_some(RnicSharedRing *ring, uint32_t used,
                              const struct iovec *iov, size_t count,
                              size_t skip)
{
    size_t n = iov_to_buf(iov, count, skip, ring_place(ring),
                          MIN(PUBLISH, ring_room(ring, used)));

    rnic_shared_ring_commit(ring, n);
    if (ring->untold >= ring->size / TOLD) {
        rnic_shared_ring_tell(ring);
    }
    return n;
}

ssize_t rnic_shared_ring_write(RnicSharedRing *ring, const struct iovec *iov,
                               size_t count)
{
    size_t total = iov_size(iov, count);
    size_t done = 0;

    while (done < total) {
        uint32_t used = ring_used(ring);

        if (!ring_broken(ring, used) && ring_room(ring, used) == 0) {
            used = ring_wait_for_room(ring);
            if (ring->silent) {
                errno = EPIPE;
                return -1;
            }
            if (ring_little_room(ring, used)) {
                return done;
            }
        }
        if (ring_broken(ring, used)) {
            errno = EPROTO;
            return -1;
        }
        done += ring_write_some(ring, used, iov, count, done);
    }
    return done;
}

void *rnic_shared_ring_place(RnicSharedRing *ring, size_t len)
{
    uint32_t used = ring_used(ring);

    return !ring_broken(ring, used) && len <= ring_room(ring, used)
           ? ring_place(ring) : NULL;
}

static uint32_t ring_available(const RnicSharedRing *ring)
{
    return qatomic_load_acquire(&ring->shared->head) - ring->position;
}

bool rnic_shared_ring_waits(const RnicSharedRing *ring)
{
    return ring->waiting;
}

ssize_t rnic_shared_ring_read(RnicSharedRing *ring, const struct iovec *iov,
                              size_t count)
{
    uint32_t octets = ring_available(ring);
    size_t n;

    if (octets == 0) {
        ring_announce_wait(ring, &ring->shared->receiver_waits);
        octets = ring_available(ring);
    }
    if (octets > ring->size) {
        errno = EPROTO;
        return -1;
    }
    n = iov_from_buf(iov, count, 0, ring_place(ring), octets);
    ring->waiting = n == 0;
    if (n > 0) {
        ring->position += n;
        qatomic_store_release(&ring->shared->tail, ring->position);
    }
    if (octets - n <= ring->size / DRAINED) {
        ring_tell(ring, &ring->shared->sender_waits);
    }
    return n;
}
