/*
 * rnic: how many of the process's file descriptors the fabrics may have
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <sys/resource.h>
#include "qemu/atomic.h"
#include "descriptors.h"
#include "hw/rnic/base/trace.h"

enum {
    SHARE = 2,                  /* of RLIMIT_NOFILE */
    LEAST = 64,
};

static unsigned taken;          /* all threads' */
static unsigned expected;       /* by what is under way in any thread */

/* The user, or QEMU itself, may change it at any time. */
static unsigned descriptors_limit(void)
{
    struct rlimit rlimit;

    if (getrlimit(RLIMIT_NOFILE, &rlimit) < 0) {
        return LEAST;
    }
    return MAX(LEAST, MIN(rlimit.rlim_cur, INT_MAX) / SHARE);
}

bool rnic_descriptors_take(unsigned n)
{
    unsigned limit = descriptors_limit();
    unsigned before = qatomic_fetch_add(&taken, n);

    if (before + n <= limit) {
        return true;
    }
    qatomic_sub(&taken, n);
    trace_rnic_err_fabric_descriptors(before, limit);
    errno = EMFILE;
    return false;
}

bool rnic_descriptors_expect(unsigned n)
{
    unsigned limit = descriptors_limit();
    unsigned all = qatomic_fetch_add(&expected, n) + n + qatomic_read(&taken);

    if (all <= limit + limit / 2) {
        return true;
    }
    qatomic_sub(&expected, n);
    return false;
}

void rnic_descriptors_expected(unsigned n)
{
    qatomic_sub(&expected, n);
}

void rnic_descriptors_exceed(unsigned n)
{
    qatomic_add(&taken, n);
}

void rnic_descriptors_release(unsigned n)
{
    qatomic_sub(&taken, n);
}

void rnic_descriptors_close(int fd)
{
    int error = errno;

    close(fd);
    rnic_descriptors_release(1);
    errno = error;
}
