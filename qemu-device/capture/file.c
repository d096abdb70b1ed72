/*
 * rnic: the file of a capture, whose it may be, and its older ones
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "file.h"

/* Who owns a FIFO may read it.  Root may read all. */
static bool file_is_of_another(const struct stat *st)
{
    return (S_ISREG(st->st_mode) && st->st_uid != geteuid()) ||
           (S_ISFIFO(st->st_mode) && st->st_uid != geteuid() && st->st_uid != 0);
}

static bool file_check(int fd, const char *file, bool ring, Error **errp)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        error_setg_errno(errp, errno, "capture: %s", file);
        return false;
    }
    if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode)) {
        error_setg(errp, "capture: %s is no file, FIFO or character device",
                   file);
        return false;
    }
    if (ring && !S_ISREG(st.st_mode)) {
        error_setg(errp, "capture: %s is no regular file, so it has no "
                   "capture-size", file);
        return false;
    }
    if (file_is_of_another(&st)) {
        error_setg(errp, "capture: %s belongs to another user", file);
        return false;
    }
    if (!S_ISREG(st.st_mode)) {
        return true;
    }
    if (st.st_nlink > 1) {
        error_setg(errp, "capture: %s has another name, too (a hard link)",
                   file);
        return false;
    }
    if (qemu_lock_fd(fd, 0, 0, true) == -EAGAIN) {
        error_setg(errp, "capture: %s is in use by another capture", file);
        return false;
    }
    return true;
}

/* The users' data: for the user of QEMU only, and nowhere else by a link. */
int rnic_capture_file_open(const char *file, bool ring, Error **errp)
{
    int fd = RETRY_ON_EINTR(open(file, O_WRONLY | O_CREAT | O_NONBLOCK |
                                 O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600));

    if (fd < 0) {
        error_setg_errno(errp, errno, "capture: cannot open %s%s", file,
                         errno == ELOOP ? ", a symbolic link" :
                         errno == ENXIO ? ", which nothing reads" : "");
        return -1;
    }
    if (!file_check(fd, file, ring, errp)) {
        close(fd);
        return -1;
    }
    return fd;
}

bool rnic_capture_file_clear(int fd, const char *file, Error **errp)
{
    struct stat st;

    if (fstat(fd, &st) < 0 ||
        (S_ISREG(st.st_mode) &&
         (fchmod(fd, 0600) < 0 || ftruncate(fd, 0) < 0))) {
        error_setg_errno(errp, errno, "capture: %s", file);
        return false;
    }
    return true;
}

static char *file_old_name(const char *file, uint32_t age)
{
    return age ? g_strdup_printf("%s.%u", file, age) : g_strdup(file);
}

bool rnic_capture_file_age(const char *file, uint32_t files, Error **errp)
{
    for (uint32_t age = files - 1; age > 0; age--) {
        g_autofree char *from = file_old_name(file, age - 1);
        g_autofree char *to = file_old_name(file, age);

        if (rename(from, to) < 0 && errno != ENOENT) {
            error_setg_errno(errp, errno, "capture: cannot rename %s", from);
            return false;
        }
    }
    return true;
}
