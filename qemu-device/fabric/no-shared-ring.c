/*
 * rnic: hosts without shared rings: no ring can be made or taken
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "shared-ring.h"

RnicSharedRing *rnic_shared_ring_create(int *memory, int *bell)
{
    errno = ENOSYS;
    return NULL;
}

RnicSharedRing *rnic_shared_ring_open(int memory, int bell)
{
    close(memory);
    close(bell);
    errno = ENOSYS;
    return NULL;
}

/* Of the others none is called: they need a ring. */

void rnic_shared_ring_free(RnicSharedRing *ring)
{
}

int rnic_shared_ring_bell(const RnicSharedRing *ring)
{
    return -1;
}

bool rnic_shared_ring_rung(RnicSharedRing *ring)
{
    return false;
}

bool rnic_shared_ring_waits(const RnicSharedRing *ring)
{
    return true;
}

ssize_t rnic_shared_ring_write(RnicSharedRing *ring, const struct iovec *iov,
                               size_t count)
{
    return -1;
}

void rnic_shared_ring_tell(RnicSharedRing *ring)
{
}

void *rnic_shared_ring_place(RnicSharedRing *ring, size_t len)
{
    return NULL;
}

void rnic_shared_ring_commit(RnicSharedRing *ring, size_t len)
{
}

ssize_t rnic_shared_ring_read(RnicSharedRing *ring, const struct iovec *iov,
                              size_t count)
{
    return -1;
}
