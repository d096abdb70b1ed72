/*
 * LLP streams of the device in streaming mode, up to the QP that adopts them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_LLP_H
#define RNIC_QTEST_LLP_H

#include "librnic.h"
#include "wire-peer.h"

/* Commands; the status. @stream may be NULL. */
uint16_t llp_try_open(Rnic *r, uint32_t ip, uint16_t port, uint64_t cookie,
                      uint32_t *stream);
uint16_t llp_try_take(Rnic *r, uint32_t request, uint64_t cookie);
uint16_t llp_try_listen(Rnic *r, uint16_t port, uint64_t cookie,
                        uint32_t backlog, uint32_t *listener);
uint16_t llp_try_send(Rnic *r, uint32_t stream, const void *data,
                      uint32_t length);
/* @data has room for @room octets; *@length of them came, *@end: no more will. */
uint16_t llp_try_receive(Rnic *r, uint32_t stream, void *data, uint32_t room,
                         uint32_t *length, bool *end);
uint16_t llp_try_close(Rnic *r, uint32_t stream, bool reset);

/* Modify QP from Idle to RTS on the stream; @length 0: no Stream Message. */
struct rnic_admin_sqe llp_adopt_command(Rnic *r, const RnicQp *qp,
                                        uint32_t stream, const void *message,
                                        uint32_t length);
uint16_t llp_try_adopt(Rnic *r, const RnicQp *qp, uint32_t stream,
                       const void *message, uint32_t length);

/* A stream that the device begins, from guest address 1 to 2, and its peer. */
uint32_t llp_connect(Rnic *r, uint64_t cookie, WirePeer **peer);
/* The same with a peer whose host takes little that the peer does not read. */
uint32_t llp_connect_narrow(Rnic *r, uint64_t cookie, WirePeer **peer);
/* One that the peer begins, from 3 to 1; it is taken. */
uint32_t llp_accept(Rnic *r, uint64_t cookie, WirePeer **peer);

/* Succeeds; an event says so when there is something. */
void llp_send(Rnic *r, uint32_t stream, const void *data, uint32_t length);
/* Just these octets come. */
void llp_expect(Rnic *r, uint32_t stream, const void *data, uint32_t length);
/* The next connection event is of this stream. */
struct rnic_cm_event llp_expect_event(Rnic *r, uint8_t type, uint32_t stream);
/* Events that are there are taken and forgotten. */
void llp_drain_events(Rnic *r);

#endif
