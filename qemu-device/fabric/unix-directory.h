/*
 * rnic: the directory of the UNIX fabric's sockets
 *
 * For the main loop, while a fabric object is made.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_FABRIC_UNIX_DIRECTORY_H
#define HW_RNIC_FABRIC_UNIX_DIRECTORY_H

#include <sys/un.h>

/* The longest path of a socket, behind that of its directory. */
#define RNIC_UNIX_LONGEST_NAME \
    "/[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"

enum {
    /* Octets of a directory's path: every socket there still has an address. */
    RNIC_UNIX_DIRECTORY_MAX = sizeof_field(struct sockaddr_un, sun_path) -
                              sizeof(RNIC_UNIX_LONGEST_NAME),
};

/*
 * The path, to be freed, of the user's own directory: $XDG_RUNTIME_DIR/rnic, or
 * /tmp/rnic-UID (the effective user id) if that variable is not an absolute
 * path.  The directory is made with mode 0700 when it is missing.  NULL and
 * *@errp if it cannot be made, is no directory of this user, or gives group or
 * others any access.
 */
char *rnic_unix_directory_own(Error **errp);

/*
 * @dir, of the user's choice, may hold the sockets: its path is short enough
 * and QEMU may write there.  False with *@errp.
 */
bool rnic_unix_directory_check(const char *dir, Error **errp);

#endif /* HW_RNIC_FABRIC_UNIX_DIRECTORY_H */
