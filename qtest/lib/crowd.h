/*
 * Many connected QPs between two devices of one machine, and traffic on all
 *
 * The first device of the machine listens; a sibling connects to it and sends
 * RDMA Writes that do not end while a test lasts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_CROWD_H
#define RNIC_QTEST_CROWD_H

#include "librnic.h"

#define CROWD_SLOT (RNIC_TEST_SLOT + 1)

typedef struct Crowd {
    Rnic *listener;             /* of rnic_boot() */
    Rnic *sender;               /* at CROWD_SLOT, id "sender"; NULL: gone */
    RnicQp *qps;                /* of the sender */
    unsigned count;
    RnicCq listener_cq, sender_cq;
    RnicMr target, source;
    char *directory;            /* of the fabric */
} Crowd;

/*
 * Both devices, up; no QP yet. @arguments are options of QEMU, @devices says
 * how many siblings there are: with 0 the test plugs the sender in itself.
 */
Crowd *crowd_new(const char *arguments, unsigned senders);
/* The options of a sibling on the same fabric, for device_add; to be freed. */
char *crowd_sender_options(void);
/* The sender is at its slot: brings it up. */
void crowd_take_sender(Crowd *crowd);

/* @count QPs each side, connected. */
void crowd_connect(Crowd *crowd, unsigned count);
/* Every QP of the sender writes from now on. */
void crowd_send(Crowd *crowd);
/* Fails the test unless the QPs are in RTS and octets flow. */
void crowd_assert_busy(Crowd *crowd);

/* The device was reset, or is gone: nothing of it is to be taken away. */
void crowd_forget_sender(Crowd *crowd);
/* Resets both devices, and ends QEMU. */
void crowd_free(Crowd *crowd);

#endif
