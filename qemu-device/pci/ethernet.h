/*
 * rnic: the Ethernet side, an ordinary QEMU NIC
 *
 * One transmit and one receive queue.  The RDMA side does not depend on it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_ETHERNET_H
#define HW_RNIC_ETHERNET_H

#include "hw/rnic/base/rnic.h"

/* Attach to the netdev of @s->nic_conf; call only if it names one. */
void rnic_ethernet_realize(RnicState *s);
void rnic_ethernet_unrealize(RnicState *s);

/* Queues gone, receive filter back to its default. */
void rnic_ethernet_reset(RnicState *s);

/* The VM goes on: frames may move again. */
void rnic_ethernet_go(RnicState *s);

bool rnic_ethernet_link_up(const RnicState *s);

/* Writes to RNIC_REG_ETH_KICK and RNIC_REG_ETH_ARM; @queue as written. */
void rnic_ethernet_kick(RnicState *s, uint32_t queue);
void rnic_ethernet_arm(RnicState *s, uint32_t queue);

/* Admin commands of a driver that has accepted RNIC_FEATURE_ETHERNET, so there is a
 * netdev; the statuses are those of the manual. */
enum rnic_admin_status
rnic_ethernet_create_queue(RnicState *s, const struct rnic_admin_sqe *sqe);
enum rnic_admin_status
rnic_ethernet_destroy_queue(RnicState *s, const struct rnic_admin_sqe *sqe);
enum rnic_admin_status
rnic_ethernet_set_rx_mode(RnicState *s, const struct rnic_admin_sqe *sqe);

#endif /* HW_RNIC_ETHERNET_H */
