/*
 * A peer's rings: the UNIX fabric's shared memory, by hand
 *
 * From the layout in the device's manual (rnic.rst), without a line of the
 * device's own. In RNIC_TEST_FABRIC=unix-rings the wire peer offers to receive
 * by a ring and sends by one as soon as it may.
 *
 * Nothing here waits: 0 octets means that there are none, or no room.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_WIRE_RING_H
#define RNIC_QTEST_WIRE_RING_H

typedef struct WireRing {
    uint8_t *page;
    uint8_t *octets;
    uint32_t size;
    uint32_t position;          /* ours, as published */
    uint32_t answered;          /* the wait of the other end told of last */
    int bell;
} WireRing;

/* The first page: what is at which octet of it. */
enum {
    WIRE_RING_HEAD = 0,
    WIRE_RING_SENDER_WAITS = 4,
    WIRE_RING_TAIL = 128,
    WIRE_RING_RECEIVER_WAITS = 132,
};

/* A descriptor that says: I can receive by a ring. */
int wire_ring_offer(void);
/* Is that what this is? */
bool wire_ring_is_offer(int fd);

/* Memory as it has to be: a page, and @size octets. */
int wire_ring_memory(uint32_t size);

/* To send by. The descriptors for the other end are the caller's. */
WireRing *wire_ring_new(uint32_t size, int fds[2]);
/* To receive by: what the other end has sent. Takes the descriptors. */
WireRing *wire_ring_take(const int fds[2]);
void wire_ring_free(WireRing *ring);

uint32_t wire_ring_word(const WireRing *ring, unsigned at);
void wire_ring_set_word(WireRing *ring, unsigned at, uint32_t value);

size_t wire_ring_put(WireRing *ring, const void *data, size_t length);
size_t wire_ring_get(WireRing *ring, void *data, size_t length);
size_t wire_ring_filled(const WireRing *ring);
size_t wire_ring_room(const WireRing *ring);
/* Nobody has the other end any more. */
bool wire_ring_gone(const WireRing *ring);

/*
 * As send() and recv() of what they carry, not waiting: with @fds, @count of
 * them, up to two. The receiver's *@count is 0 if there are none.
 */
ssize_t wire_send_with(int fd, const void *data, size_t length, const int *fds,
                       unsigned count);
ssize_t wire_receive_with(int fd, void *data, size_t length, int fds[2],
                          unsigned *count);

#endif
