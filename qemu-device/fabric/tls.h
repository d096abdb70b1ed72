/*
 * rnic: TLS under a stream, with QEMU's credentials objects
 *
 * The handshake, and the channel that comes of it.  QEMU's own TLS channel
 * leaves three things to its user, which a stream must not have to know: a
 * write that blocked has to be repeated with the same octets; octets that are
 * decrypted already do not make the socket readable; and the end has to be
 * said inside the encryption (close_notify), or it could be forged.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_TLS_H
#define HW_RNIC_FABRIC_TLS_H

#include "crypto/tlscreds.h"
#include "io/channel.h"

typedef struct RnicTlsHandshake RnicTlsHandshake;

/*
 * The end of a handshake: the channel, which is the callee's, or NULL and why.
 * The handshake is gone.  Called from the main loop, never from within
 * rnic_tls_handshake().
 */
typedef void RnicTlsDone(void *opaque, QIOChannel *ioc, const char *why);

/*
 * Takes @socket, which is connected.  @server: our role, which is that of
 * @creds.  @name is, for a client, the name that the server's certificate has
 * to carry; for a server, the id of the authorization object that the client
 * has to pass, or NULL.  @peer is for messages.
 */
RnicTlsHandshake *rnic_tls_handshake(QIOChannel *socket,
                                     QCryptoTLSCreds *creds, bool server,
                                     const char *name, const char *peer,
                                     RnicTlsDone *done, void *opaque);
/* Close the socket; @done is not called. */
void rnic_tls_cancel(RnicTlsHandshake *h);

/*
 * If @ioc is a channel of this file, forget what it has not sent yet, so that
 * closing it is no orderly end.  Returns the channel below, or @ioc.
 */
QIOChannel *rnic_tls_give_up(QIOChannel *ioc);

/* The credentials object @id for that role, or NULL with an error. */
QCryptoTLSCreds *rnic_tls_creds(const char *id, bool server, Error **errp);

#endif /* HW_RNIC_FABRIC_TLS_H */
