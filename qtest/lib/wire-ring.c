/*
 * A peer's rings: the UNIX fabric's shared memory, by hand
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/host-utils.h"
#include <sys/mman.h>

#include "wire-ring.h"

static const char offer[] = "rnic-ring 4\n";

/* ------------------------------------------------------------- descriptors */

int wire_ring_offer(void)
{
    int fd = memfd_create("offer", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(write(fd, offer, sizeof(offer)), ==, sizeof(offer));
    return fd;
}

bool wire_ring_is_offer(int fd)
{
    char text[sizeof(offer)];

    return pread(fd, text, sizeof(text), 0) == sizeof(text) &&
           !memcmp(text, offer, sizeof(text));
}

int wire_ring_memory(uint32_t size)
{
    int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(ftruncate(fd, getpagesize() + (off_t)size), ==, 0);
    g_assert_cmpint(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), ==, 0);
    return fd;
}

ssize_t wire_send_with(int fd, const void *data, size_t length, const int *fds,
                       unsigned count)
{
    char control[CMSG_SPACE(3 * sizeof(int))] = { };
    struct iovec iov = { (void *)data, length };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    struct cmsghdr *header;

    g_assert_cmpuint(count, <=, 3);
    if (count) {
        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
        header = CMSG_FIRSTHDR(&msg);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, count * sizeof(int));
    }
    return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t wire_receive_with(int fd, void *data, size_t length, int fds[2],
                          unsigned *count)
{
    char control[CMSG_SPACE(2 * sizeof(int))];
    struct iovec iov = { data, length };
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control,
        .msg_controllen = sizeof(control),
    };
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *header = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

    *count = 0;
    if (n >= 0) {
        g_assert_cmphex(msg.msg_flags & MSG_CTRUNC, ==, 0);
    }
    if (header) {
        g_assert_cmpint(header->cmsg_type, ==, SCM_RIGHTS);
        *count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(header), *count * sizeof(int));
    }
    return n;
}

/* -------------------------------------------------------------------- ring */

static WireRing *map_ring(int memory, uint32_t size, int bell)
{
    WireRing *ring = g_new0(WireRing, 1);

    ring->size = size;
    ring->bell = bell;
    ring->page = mmap(NULL, getpagesize() + size, PROT_READ | PROT_WRITE,
                      MAP_SHARED, memory, 0);
    g_assert_true(ring->page != MAP_FAILED);
    ring->octets = ring->page + getpagesize();
    return ring;
}

WireRing *wire_ring_new(uint32_t size, int fds[2])
{
    int bells[2];
    WireRing *ring;

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bells),
                    ==, 0);
    fds[0] = wire_ring_memory(size);
    fds[1] = bells[1];
    ring = map_ring(fds[0], size, bells[0]);
    wire_ring_set_word(ring, WIRE_RING_RECEIVER_WAITS, 1);
    return ring;
}

WireRing *wire_ring_take(const int fds[2])
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat st;
    WireRing *ring;

    g_assert_cmpint(fstat(fds[0], &st), ==, 0);
    ring = map_ring(fds[0], st.st_size - getpagesize(), fds[1]);
    g_assert_true(is_power_of_2(ring->size));
    g_assert_cmphex(fcntl(fds[0], F_GET_SEALS) & seals, ==, seals);
    close(fds[0]);
    return ring;
}

void wire_ring_free(WireRing *ring)
{
    munmap(ring->page, getpagesize() + ring->size);
    close(ring->bell);
    g_free(ring);
}

static uint32_t *word_at(const WireRing *ring, unsigned at)
{
    return (uint32_t *)(ring->page + at);
}

uint32_t wire_ring_word(const WireRing *ring, unsigned at)
{
    return qatomic_load_acquire(word_at(ring, at));
}

void wire_ring_set_word(WireRing *ring, unsigned at, uint32_t value)
{
    qatomic_store_release(word_at(ring, at), value);
    smp_mb();
}

static void tell(WireRing *ring, unsigned waits_at)
{
    uint32_t waits = wire_ring_word(ring, waits_at);

    if (waits != ring->answered) {
        ring->answered = waits;
        send(ring->bell, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* Where octet @done from our position is, and how many of @left are behind. */
static uint8_t *piece(const WireRing *ring, size_t done, size_t left, size_t *n)
{
    uint32_t at = (ring->position + done) % ring->size;

    *n = MIN(left, ring->size - at);
    return ring->octets + at;
}

size_t wire_ring_room(const WireRing *ring)
{
    uint32_t used = ring->position - wire_ring_word(ring, WIRE_RING_TAIL);

    g_assert_cmpuint(used, <=, ring->size);
    return ring->size - used;
}

size_t wire_ring_put(WireRing *ring, const void *data, size_t length)
{
    size_t room = wire_ring_room(ring);
    size_t done, n;

    length = MIN(length, room);
    for (done = 0; done < length; done += n) {
        uint8_t *to = piece(ring, done, length - done, &n);

        memcpy(to, (const uint8_t *)data + done, n);
    }
    ring->position += length;
    wire_ring_set_word(ring, WIRE_RING_HEAD, ring->position);
    tell(ring, WIRE_RING_RECEIVER_WAITS);
    return length;
}

bool wire_ring_gone(const WireRing *ring)
{
    char octet;

    return recv(ring->bell, &octet, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

size_t wire_ring_filled(const WireRing *ring)
{
    uint32_t filled = wire_ring_word(ring, WIRE_RING_HEAD) - ring->position;

    g_assert_cmpuint(filled, <=, ring->size);
    return filled;
}

size_t wire_ring_get(WireRing *ring, void *data, size_t length)
{
    size_t filled = wire_ring_filled(ring);
    size_t done, n;

    length = MIN(length, filled);
    for (done = 0; done < length; done += n) {
        const uint8_t *from = piece(ring, done, length - done, &n);

        memcpy((uint8_t *)data + done, from, n);
    }
    ring->position += length;
    wire_ring_set_word(ring, WIRE_RING_TAIL, ring->position);
    if (filled - length <= ring->size / 8) {
        tell(ring, WIRE_RING_SENDER_WAITS);
    }
    return length;
}
