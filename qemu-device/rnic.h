/*
 * rnic: what all files of the device share
 *
 * The device's state, split by the file that owns each part.  A file changes
 * only its own part; it asks for the others' with their functions.
 *
 * Threads: everything in this directory runs under the big QEMU lock, in the
 * main loop or (MMIO handlers) in a vCPU thread.  MMIO handlers validate and
 * hand over to bottom halves, except for what the guest must see at once:
 * register values, reset, and arming a CQ.  Sockets are watched in the
 * I/O handlers' context, which only the main loop polls: a nested event loop (a
 * block device that drains, QEMU's own exit) must not move traffic.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_RNIC_H
#define HW_RNIC_RNIC_H

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "hw/pci/pci_device.h"
#include "net/net.h"
#include "compat.h"
#include "rnic-hw.h"
#include "object-table.h"
#include "tpt.h"

#define TYPE_RNIC "rnic"
OBJECT_DECLARE_SIMPLE_TYPE(RnicState, RNIC)

typedef struct RnicAdmin RnicAdmin;
typedef struct RnicCq RnicCq;
typedef struct RnicEq RnicEq;
typedef struct RnicEthernet RnicEthernet;
typedef struct RnicFabric RnicFabric;
typedef struct RnicQp RnicQp;
typedef struct RnicSrq RnicSrq;

/* Properties that bound or shape the device; fixed once realized. */
typedef struct RnicConfig {
    uint32_t vectors;
    uint32_t doorbell_pages;
    uint32_t max_qp;
    uint32_t max_cq;
    uint32_t max_srq;
    uint32_t max_eq;
    uint32_t max_pd;
    uint32_t max_mr;            /* STags of all kinds */
    uint64_t max_mr_pages;      /* page list entries of all regions together */
    uint32_t max_listeners;
    uint32_t max_endpoints;     /* connections being set up */
    uint16_t max_ird;           /* per QP */
    uint16_t max_ord;
    uint8_t mpa_revision;       /* highest to use, 1 or 2 */
    bool mpa_crc;               /* insist on CRC */
    bool mpa_markers;           /* ask the peer for markers */
    bool mpa_rtr;               /* RFC 6581 peer-to-peer start-up */
    uint32_t mulpdu;            /* largest ULPDU sent, octets */
} RnicConfig;

/* registers.c: what the registers of BAR 0 hold. */
typedef struct RnicRegisters {
    uint64_t features;
    uint64_t driver_features;
    uint32_t status;
    uint32_t health;
    uint32_t bad_accesses;
    uint32_t bad_doorbells;
    uint32_t test32;
    uint64_t test64;
    uint64_t test_dma_addr;
    uint32_t test_dma_size;
    uint32_t test_dma_status;
    uint64_t admin_sq_base;
    uint64_t admin_cq_base;
    uint32_t admin_depth;
    uint32_t admin_vector;
    uint32_t admin_tail;
    uint32_t admin_head;
    uint64_t low_half;          /* of a split 8-byte write in progress */
    uint32_t low_half_offset;   /* its register, ~0 if none */
} RnicRegisters;

/* Counters since reset, in the order of struct rnic_counters. */
typedef struct RnicCounters {
    uint64_t sq_wrs;
    uint64_t rq_wrs;
    uint64_t cqes;
    uint64_t cqe_errors;
    uint64_t tx_fpdus;
    uint64_t tx_octets;
    uint64_t rx_fpdus;
    uint64_t rx_octets;
    uint64_t terminates_sent;
    uint64_t terminates_received;
    uint64_t connects;
    uint64_t connect_failures;
    uint64_t accepts;
    uint64_t rejects;
    uint64_t async_events;
    uint64_t doorbells;
    uint64_t dma_errors;
    uint64_t eth_tx_packets;
    uint64_t eth_tx_octets;
    uint64_t eth_rx_packets;
    uint64_t eth_rx_octets;
    uint64_t eth_rx_drops;
} RnicCounters;

struct RnicState {
    PCIDevice parent_obj;

    MemoryRegion registers_region;
    MemoryRegion doorbells_region;
    RnicConfig config;
    NICConf nic_conf;
    RnicRegisters regs;
    RnicCounters counters;

    RnicAdmin *admin;           /* admin.c */
    RnicFabric *fabric;         /* a link property, or made at realize */
    bool own_fabric;
    RnicEthernet *ethernet;     /* ethernet.c; NULL without netdev= */

    RnicObjectTable eqs;        /* RnicEq */
    RnicEq *async_eq;           /* of eqs, at most one */
    RnicEq *cm_eq;              /* of eqs, at most one */
    RnicObjectTable pds;        /* RnicPd */
    RnicObjectTable cqs;        /* RnicCq */
    RnicObjectTable srqs;       /* RnicSrq */
    RnicObjectTable qps;        /* RnicQp */
    RnicObjectTable listeners;  /* RnicListener, cm-listener.c */
    RnicObjectTable endpoints;  /* RnicEndpoint, cm-endpoint.c */
    RnicTpt tpt;
};

/*
 * Stop everything the guest started: no DMA, no interrupt, no octet on the
 * wire afterwards.  rnic.c; used by every kind of reset.
 */
void rnic_function_reset(RnicState *s);

/* Set STATUS.FATAL with @health (RNIC_HEALTH_*); the first one stays. */
void rnic_fatal(RnicState *s, uint32_t health);

/* Raise MSI-X vector @vector, unless it is RNIC_NO_VECTOR or out of range. */
void rnic_interrupt(RnicState *s, uint32_t vector);

static inline bool rnic_vector_valid(const RnicState *s, uint32_t vector)
{
    return vector == RNIC_NO_VECTOR || vector < s->config.vectors;
}

/* Whether the driver has accepted all of @features (RNIC_FEATURE_*). */
static inline bool rnic_accepted(const RnicState *s, uint64_t features)
{
    return (s->regs.driver_features & features) == features;
}

static inline bool rnic_enabled(const RnicState *s)
{
    return (s->regs.status & (RNIC_STATUS_ENABLED | RNIC_STATUS_FATAL)) ==
           RNIC_STATUS_ENABLED;
}

#endif /* HW_RNIC_RNIC_H */
