/*
 * Fuzzer of the fabric: a shared ring whose other end writes what it likes
 *
 * The control words are the peer's: it may put any number there at any time, and any
 * octets into the ring.  Reads and writes then take no more than there is room for,
 * end with an error or go on, and touch nothing outside the ring.
 *
 *     0   which end is the device's
 *     1   steps: what to do (1), a number (4)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "hw/rnic/fabric/descriptors.h"
#include "hw/rnic/fabric/shared-ring.h"
#include "hw/rnic/fabric/unix-socket.h"
#include "fuzz.h"

enum {
    STEPS = 64,
    OCTETS = 3 * RNIC_SHARED_RING_SIZE / 2,
};

typedef struct World {
    RnicSharedRing *ring;       /* the device's end */
    RnicSharedRing *other;      /* an honest one, for its half of the words */
    RnicSharedRingPage *page;   /* as the peer sees it */
    int bell;                   /* a copy of the peer's */
    uint32_t position;          /* octets that have passed the device's end */
    bool receives;
    bool broken;
} World;

static uint8_t octets[OCTETS];

static size_t memory_size(void)
{
    return qemu_real_host_page_size() + RNIC_SHARED_RING_SIZE;
}

static void world_init(World *w, bool receives)
{
    RnicSharedRing *sender, *receiver;
    int memory, bell;

    rnic_unix_closers_start();
    while (!rnic_descriptors_take(2)) {
        g_usleep(1000);         /* threads close those of earlier runs */
    }
    sender = rnic_shared_ring_create(&memory, &bell);
    must(sender != NULL);
    w->page = mmap(NULL, memory_size(), PROT_READ | PROT_WRITE, MAP_SHARED,
                   memory, 0);
    must(w->page != MAP_FAILED);
    receiver = rnic_shared_ring_open(memory, bell);
    must(receiver != NULL);
    w->receives = receives;
    w->ring = receives ? receiver : sender;
    w->other = receives ? sender : receiver;
    w->bell = rnic_shared_ring_bell(w->other);
}

static void world_cleanup(World *w)
{
    munmap(w->page, memory_size());
    rnic_shared_ring_free(w->ring);
    if (w->other) {
        rnic_shared_ring_free(w->other);
    }
}

/* Small and large amounts, around the ring's size most of all. */
static size_t amount(uint32_t number)
{
    switch (number >> 30) {
    case 0:
        return number % 17;
    case 1:
        return number % OCTETS;
    case 2:
        return RNIC_SHARED_RING_SIZE - number % 17;
    default:
        return RNIC_SHARED_RING_SIZE + number % 17;
    }
}

/* Octets that can be read, or room to write; more than the ring has: broken. */
static uint32_t possible(const World *w)
{
    return w->receives
           ? w->page->head - w->position
           : RNIC_SHARED_RING_SIZE - (w->position - w->page->tail);
}

/* No other thread is there: so much and no less. */
static void check_result(World *w, uint32_t before, ssize_t n, size_t len)
{
    if (before > RNIC_SHARED_RING_SIZE && (w->receives || len > 0)) {
        must(n < 0 && errno == EPROTO);
    } else if (n < 0) {
        must(errno == EPIPE && rnic_shared_ring_silent(w->ring));
        must(!w->receives && len > before);
    } else {
        must(n == (ssize_t)MIN(len, before));
        w->position += n;
    }
    w->broken = n < 0;
}

/* Two spans, so that the cut is somewhere. */
static void transfer(World *w, size_t len)
{
    uint32_t before = possible(w);
    struct iovec iov[2] = {
        { octets, len / 3 },
        { octets + len / 3, len - len / 3 },
    };
    ssize_t n = w->receives ? rnic_shared_ring_read(w->ring, iov, 2)
                            : rnic_shared_ring_write(w->ring, iov, 2);

    check_result(w, before, n, len);
    if (w->receives && n >= 0) {
        must(rnic_shared_ring_waits(w->ring) == (n == 0));
    }
}

static void place(World *w, size_t len)
{
    uint8_t *at;

    if (w->receives) {
        return;
    }
    at = rnic_shared_ring_place(w->ring, len);
    must(!!at == (possible(w) <= RNIC_SHARED_RING_SIZE && len <= possible(w)));
    if (at) {
        memset(at, 0x5a, len);
        rnic_shared_ring_commit(w->ring, len);
        w->position += len;
    }
}

static void step(World *w, uint8_t what, uint32_t number)
{
    uint32_t *words = (uint32_t *)w->page;

    switch (what % 10) {
    case 0:
        qatomic_set(&w->page->head, number);
        break;
    case 1:
        qatomic_set(&w->page->tail, number);
        break;
    case 2:
        qatomic_set(&w->page->head, w->page->tail + amount(number));
        break;
    case 3:
        qatomic_set(&w->page->tail, w->page->head - amount(number));
        break;
    case 4:
        qatomic_set(&words[number % 64], number);
        break;
    case 5:
        place(w, amount(number));
        break;
    case 6:
        if (w->other) {
            must(send(w->bell, octets, number % 100 + 1,
                      MSG_DONTWAIT | MSG_NOSIGNAL) != 0);
        }
        break;
    case 7:
        must(rnic_shared_ring_rung(w->ring) !=
             rnic_shared_ring_silent(w->ring));
        break;
    case 8:
        if (number % 8 == 0) {
            g_clear_pointer(&w->other, rnic_shared_ring_free);
        } else if (!w->receives) {
            rnic_shared_ring_tell(w->ring);
        }
        break;
    default:
        transfer(w, amount(number));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FuzzInput in = { data, size };
    World w = { 0 };

    world_init(&w, fuzz_octet(&in) & 1);
    for (int i = 0; i < STEPS && in.size && !w.broken; i++) {
        uint8_t what = fuzz_octet(&in);

        step(&w, what, fuzz_number(&in, 4));
    }
    world_cleanup(&w);
    return 0;
}
