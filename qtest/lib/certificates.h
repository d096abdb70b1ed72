/*
 * Certificates for tests of TLS: an authority, and what it signs
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_CERTIFICATES_H
#define RNIC_QTEST_CERTIFICATES_H

/*
 * A directory as tls-creds-x509 wants it: ca-cert.pem, and certificate and key
 * of a server for the host address @ip and of a client named @client. It is
 * removed when the test ends. All directories have one authority, except with
 * @stranger.
 */
const char *certificates_new(uint32_t ip, const char *client, bool stranger);

/* A directory that goes away with the test. */
const char *certificates_directory(void);

#endif
