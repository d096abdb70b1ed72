/*
 * rnic: the directory of the UNIX fabric's sockets
 *
 * Whoever may write to the directory may connect to the guests, and may take
 * their addresses.  So the directory that a device uses unasked has to be the
 * user's alone.
 *
 * The checks are by path, and the sockets are made by path later.  Between the
 * two no other user can put another directory there: directory_parent_check()
 * sees to it that only this user and root can rename what the parent holds.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "unix-directory.h"

static char *directory_own_path(void)
{
    const char *runtime = g_getenv("XDG_RUNTIME_DIR");

    if (runtime && g_path_is_absolute(runtime)) {
        return g_build_filename(runtime, "rnic", NULL);
    }
    return g_strdup_printf("/tmp/rnic-%u", (unsigned)geteuid());
}

/* The user's or root's; others may write there only if it is sticky. */
static bool directory_parent_check(const char *dir, Error **errp)
{
    g_autofree char *parent = g_path_get_dirname(dir);
    struct stat st;

    if (stat(parent, &st) < 0) {
        error_setg_errno(errp, errno, "cannot make '%s', the directory of the "
                         "sockets: no '%s'", dir, parent);
    } else if (st.st_uid != geteuid() && st.st_uid != 0) {
        error_setg(errp, "'%s', for the directory of the sockets, belongs to "
                   "user %u, not to user %u", parent, (unsigned)st.st_uid,
                   (unsigned)geteuid());
    } else if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX)) {
        error_setg(errp, "'%s', for the directory of the sockets, can be "
                   "written to by others (mode %04o)", parent,
                   st.st_mode & 07777);
    } else {
        return true;
    }
    return false;
}

static bool directory_make(const char *dir, Error **errp)
{
    if (mkdir(dir, S_IRWXU) < 0 && errno != EEXIST) {
        error_setg_errno(errp, errno, "cannot make '%s', the directory of the "
                         "sockets", dir);
        return false;
    }
    return true;
}

/* Of the thing itself: a symbolic link is not followed. */
static bool directory_own_check(const char *dir, Error **errp)
{
    struct stat st;

    if (lstat(dir, &st) < 0) {
        error_setg_errno(errp, errno, "'%s', the directory of the sockets, "
                         "cannot be looked at", dir);
    } else if (!S_ISDIR(st.st_mode)) {
        error_setg(errp, "'%s', for the directory of the sockets, is %s", dir,
                   S_ISLNK(st.st_mode) ? "a symbolic link"
                                       : "not a directory");
    } else if (st.st_uid != geteuid()) {
        error_setg(errp, "'%s', the directory of the sockets, belongs to user "
                   "%u, not to user %u", dir, (unsigned)st.st_uid,
                   (unsigned)geteuid());
    } else if (st.st_mode & (S_IRWXG | S_IRWXO)) {
        error_setg(errp, "'%s', the directory of the sockets, is open to other "
                   "users (mode %04o)", dir, st.st_mode & 07777);
    } else {
        return true;
    }
    return false;
}

char *rnic_unix_directory_own(Error **errp)
{
    ERRP_GUARD();
    g_autofree char *dir = directory_own_path();

    if (directory_parent_check(dir, errp) && directory_make(dir, errp) &&
        directory_own_check(dir, errp)) {
        return g_steal_pointer(&dir);
    }
    error_append_hint(errp, "Mend that, set XDG_RUNTIME_DIR, or name another "
                      "directory: -object rnic-fabric-unix,id=ID,dir=DIR "
                      "-device rnic,fabric=ID\n");
    return NULL;
}

bool rnic_unix_directory_check(const char *dir, Error **errp)
{
    struct stat st;

    if (strlen(dir) > RNIC_UNIX_DIRECTORY_MAX) {
        error_setg(errp, "the path of the socket directory '%s' is too long: "
                   "it has %zu octets, a socket's address has room for %d",
                   dir, strlen(dir), RNIC_UNIX_DIRECTORY_MAX);
    } else if (stat(dir, &st) < 0) {
        error_setg_errno(errp, errno, "the socket directory '%s' cannot be "
                         "used", dir);
    } else if (!S_ISDIR(st.st_mode)) {
        error_setg(errp, "'%s' is not a directory", dir);
    } else if (access(dir, R_OK | W_OK | X_OK) < 0) {
        error_setg_errno(errp, errno, "the socket directory '%s' cannot be "
                         "written to", dir);
    } else {
        return true;
    }
    return false;
}
