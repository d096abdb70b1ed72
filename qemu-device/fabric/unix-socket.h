/*
 * rnic: sockets by which a peer can send descriptors
 *
 * The file of a descriptor may be one whose close(2) waits for as long as the
 * peer likes: a FUSE file, or a TCP socket with a linger time; or takes as long as
 * there is memory to free.  The thread that closes the last descriptor of a file
 * waits, also where the kernel closes it: at recv(2) without room for it, and at
 * close(2) of a socket that it was sent to.
 * So these sockets are read by rnic_unix_receive() only, and threads that do
 * nothing else close them.  While all of those wait, what is to be closed stays
 * open, and counts as a descriptor of the fabrics.  So that it is not more than
 * they may have, what comes with too many descriptors is not received.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_UNIX_SOCKET_H
#define HW_RNIC_FABRIC_UNIX_SOCKET_H

/* Make the threads, once for the process.  Main loop. */
void rnic_unix_closers_start(void);

/*
 * Close a UNIX socket, one of rnic_descriptors_take().  The peer sees its end at
 * once.  errno stays.  Any thread.
 */
void rnic_unix_close(int fd);

/*
 * As recvmsg() without waiting, with the descriptors that have come, at most @max,
 * in @fds and their number in *@count.  More than that are closed, or stay in the
 * socket if the fabrics have too many: -1 with errno EPROTO.  Any thread.
 */
ssize_t rnic_unix_receive(int fd, const struct iovec *iov, size_t niov,
                          int *fds, size_t max, size_t *count);

/* Close descriptors that have come.  Any thread. */
void rnic_unix_discard(const int *fds, size_t count);

#endif /* HW_RNIC_FABRIC_UNIX_SOCKET_H */
