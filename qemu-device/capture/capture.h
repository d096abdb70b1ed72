/*
 * rnic: capture, the wire of a device in a pcapng file
 *
 * Each connection's transport has a tap (fabric/transport.h), so what is captured is
 * the stream's own octets, above TLS and above shared memory.  The headers below
 * them are made up (packet.h), of the addresses that the guest knows.
 *
 * The properties capture and capture-... (manual, Capture) begin and end it, in the
 * main loop.  A lock of its own, which is taken with any other lock held, protects all
 * the rest, taps included.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_CAPTURE_H
#define HW_RNIC_CAPTURE_H

#include "hw/rnic/base/rnic.h"
#include "hw/rnic/fabric/fabric.h"
#include "hw/rnic/iwarp/mpa-startup.h"

/* The properties of the class; what each device has for them.  Main loop. */
void rnic_capture_class_init(ObjectClass *oc);
void rnic_capture_init(RnicState *s);
void rnic_capture_finalize(RnicState *s);

/* Begin what the properties ask for.  False with *@errp. */
bool rnic_capture_realize(RnicState *s, Error **errp);
/* The file is complete; there are no taps any more. */
void rnic_capture_unrealize(RnicState *s);

/*
 * A connection has been made, and no octet has been written or read: have @t
 * tapped until its end.  Main loop.
 */
void rnic_capture_attach(RnicState *s, RnicTransport *t, const RnicAddr *local,
                         const RnicAddr *remote, bool initiator);

/* The same for an LLP stream, which has no MPA start-up. */
void rnic_capture_attach_stream(RnicState *s, RnicTransport *t,
                                const RnicAddr *local, const RnicAddr *remote,
                                bool initiator);
/*
 * A QP has it now.  What is read from here on are FPDUs, and so is what is sent, behind
 * @sent_left octets.  @t's thread.
 */
void rnic_capture_adopted(RnicState *s, RnicTransport *t, size_t sent_left,
                          const IwarpMpaAgreed *agreed);

/* As rnic_capture_attach() for a transport of a QP that is its own peer, without MPA
 * start-up. */
void rnic_capture_attach_loop(RnicState *s, RnicTransport *t,
                              const RnicAddr *local, uint16_t remote_port,
                              bool crc);

/* The connection of @t is the stream of this QP.  @t's thread. */
void rnic_capture_qp(RnicState *s, RnicTransport *t, uint32_t qpn);

void rnic_capture_write_note(RnicState *s, const char *format, ...)
    G_GNUC_PRINTF(2, 3);

/* What has no octets on the wire, as a comment.  Any thread, with any lock. */
#define rnic_capture_note(s, ...)                                           \
    do {                                                                    \
        if (unlikely(qatomic_read(&(s)->capturing))) {                      \
            rnic_capture_write_note(s, __VA_ARGS__);                        \
        }                                                                   \
    } while (0)

#endif /* HW_RNIC_CAPTURE_H */
