/*
 * rnic: TLS as a transport, with QEMU's credentials objects
 *
 * The handshake, and the transport that comes of it.  A TLS session leaves
 * three things to its user, which a stream must not have to know: a write that
 * blocked has to be repeated with the same octets; octets that are decrypted
 * already do not make the socket readable; and the end has to be said inside
 * the encryption (close_notify), or it could be forged.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_TLS_H
#define HW_RNIC_FABRIC_TLS_H

#include "crypto/tlscreds.h"
#include "transport.h"

typedef struct RnicTlsHandshake RnicTlsHandshake;

/*
 * The end of a handshake: the transport, which is the callee's, or NULL and why.
 * The handshake is gone.  Called from the main loop, never from within
 * rnic_tls_handshake().
 */
typedef void RnicTlsDone(void *opaque, RnicTransport *t, const char *why);

/*
 * Takes @below, which is connected.  @name: as a client, the one to find in the
 * peer's certificate; as a server, the id of an authorization object or NULL.
 * @peer is for messages.  Main loop.
 */
RnicTlsHandshake *rnic_tls_handshake(RnicTransport *below,
                                     QCryptoTLSCreds *creds, bool server,
                                     const char *name, const char *peer,
                                     RnicTlsDone *done, void *opaque);
/* Close the transport below; @done is not called. */
void rnic_tls_cancel(RnicTlsHandshake *h);

#endif /* HW_RNIC_FABRIC_TLS_H */
