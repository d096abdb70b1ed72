/*
 * rnic: bulk data of admin commands, the guest memory beside their arguments
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "bulk.h"
#include "dma.h"

enum rnic_admin_status rnic_bulk_read(RnicState *s,
                                      const struct rnic_admin_sqe *sqe,
                                      void *buf, uint32_t len)
{
    uint64_t addr = le64_to_cpu(sqe->bulk_addr);

    if (le32_to_cpu(sqe->bulk_length) != len || (addr & 7)) {
        return RNIC_ST_BAD_BUFFER;
    }
    return rnic_dma_read(s, addr, buf, len) ? RNIC_ST_OK : RNIC_ST_DMA_ERROR;
}

enum rnic_admin_status rnic_bulk_write(RnicState *s,
                                       const struct rnic_admin_sqe *sqe,
                                       const void *buf, uint32_t len)
{
    uint64_t addr = le64_to_cpu(sqe->bulk_addr);
    uint32_t room = le32_to_cpu(sqe->bulk_length);

    if (room == 0 || (addr & 7)) {
        return RNIC_ST_BAD_BUFFER;
    }
    return rnic_dma_write(s, addr, buf, MIN(room, len)) ? RNIC_ST_OK
                                                        : RNIC_ST_DMA_ERROR;
}
