/*
 * rnic: what all files of the device share
 *
 * The device's state, split by the file that owns each part.  A file changes
 * only its own part; it asks for the others' with their functions.
 *
 * Threads.  The main loop runs, under the big QEMU lock, the admin queue,
 * connection set-up, the Ethernet port and every timer of these; vCPU threads run
 * the MMIO handlers under the same lock.  A QP with its LLP stream belongs to one
 * worker (stream/worker.h), which runs its turns without the big lock.
 *
 * - An MMIO handler validates and hands over to a bottom half, except for what
 *   the guest must see at once: register values, reset, and arming a CQ.
 * - The main loop asks a worker by requests (stream/requests.h) and does not
 *   wait.  It waits once per worker at reset, when the device fails and when the VM
 *   stops, with the big lock held (rnic_worker_halt()).  So a worker never takes the big lock: what
 *   has to happen under it is handed to the main loop.
 * - Interrupts are raised in one place, a bottom half of the main loop, with no
 *   lock of the device held: a vector may be aimed at the device itself.
 * - Guest memory is reached by guest/dma.h only, which reaches RAM only.
 * - Shared between threads, each with its lock, in the order of taking them:
 *     TPT                      rnic_tpt_*_lock(); a QP's turn is a reader
 *     an S-RQ                  its own mutex (verbs/srq.c)
 *     a CQ                     its own mutex (verbs/cq.c)
 *     all event queues         event_lock (guest/event-queue.c)
 *     the capture              its own mutex (capture/capture.h)
 *     counters, users of a PD  atomic
 *   The other tables change and are read under the big lock only; a QP holds
 *   pointers to its PD, its CQs and its S-RQ, which outlive it.
 * - Guest memory is mapped, and what an access check has allowed is used,
 *   within one turn: what the TPT's writers wait for is that no turn runs.
 * - While the VM is stopped, the workers are halted and the main loop leaves
 *   guest memory alone (rnic_active()).
 *
 * With io-threads=0, and behind a vIOMMU, the main loop is the worker.  Sockets
 * are then watched in the I/O handlers' context, which only the main loop polls:
 * a nested event loop (a block device that drains, QEMU's own exit) must not move
 * traffic.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_RNIC_H
#define HW_RNIC_RNIC_H

#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/bitops.h"
#include "qemu/bswap.h"
#include "qemu/stats64.h"
#include "qemu/thread.h"
#include "hw/pci/pci_device.h"
#include "net/net.h"
#include "system/iothread.h"
#include "compat.h"
#include "hw/rnic/rnic-hw.h"
#include "object-table.h"

#define TYPE_RNIC "rnic"
OBJECT_DECLARE_SIMPLE_TYPE(RnicState, RNIC)

typedef struct RnicAdmin RnicAdmin;
typedef struct RnicCapture RnicCapture;
typedef struct RnicCq RnicCq;
typedef struct RnicDirects RnicDirects;
typedef struct RnicEq RnicEq;
typedef struct RnicEthernet RnicEthernet;
typedef struct RnicFabric RnicFabric;
typedef struct RnicFaultRules RnicFaultRules;
typedef struct RnicLingers RnicLingers;
typedef struct RnicObject RnicPd;
typedef struct RnicQp RnicQp;
typedef struct RnicRequests RnicRequests;
typedef struct RnicSrq RnicSrq;
typedef struct RnicTpt RnicTpt;
typedef struct RnicWorker RnicWorker;

enum {
    RNIC_MAX_VECTORS = 2048,    /* what MSI-X has */
    RNIC_MAX_IO_THREADS = 64,
    RNIC_MAX_EVENT_HOLD = 100000,   /* microseconds */
    RNIC_MAX_BUSY_POLL = 100000,    /* microseconds */
    RNIC_MAX_RNR_WAIT = 3600000,    /* milliseconds */
    RNIC_IO_THREADS_AUTO = -1,  /* one, unless iothread= is given */
};

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
    uint32_t max_queue_pages;   /* page list entries of all queues together */
    uint32_t max_listeners;
    uint32_t max_endpoints;     /* connections being set up, each way */
    uint32_t max_llp_streams;   /* in streaming mode; and requests of peers */
    uint16_t max_ird;           /* per QP */
    uint16_t max_ord;
    uint8_t mpa_revision;       /* highest to use, 1 or 2 */
    bool mpa_crc;               /* insist on CRC */
    bool mpa_markers;           /* ask the peer for markers */
    bool mpa_rtr;               /* RFC 6581 peer-to-peer start-up */
    bool rdmap_extensions;      /* RFC 7306: immediate data, atomics */
    uint32_t mulpdu;            /* largest ULPDU sent, octets */
    int32_t io_threads;         /* workers, or RNIC_IO_THREADS_AUTO */
    uint32_t event_hold_us;     /* longest moderation, 0: none */
    uint32_t busy_poll_us;      /* longest search for an answer, 0: none */
    uint32_t rnr_wait_ms;       /* of a Send for a receive, 0: none */
} RnicConfig;

/* registers.c: what the registers of BAR 0 hold. */
typedef struct RnicRegisters {
    uint64_t features;
    uint64_t driver_features;
    uint32_t status;            /* any thread reads it, atomic */
    uint32_t health;
    uint32_t bad_accesses;
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

/* Counters since reset, in the order of struct rnic_counters up to @events_lost;
 * any thread. */
typedef struct RnicCounters {
    Stat64 sq_wrs;
    Stat64 rq_wrs;
    Stat64 cqes;
    Stat64 cqe_errors;
    Stat64 tx_fpdus;
    Stat64 tx_octets;
    Stat64 rx_fpdus;
    Stat64 rx_octets;
    Stat64 terminates_sent;
    Stat64 terminates_received;
    Stat64 connects;
    Stat64 connect_failures;
    Stat64 accepts;
    Stat64 rejects;
    Stat64 async_events;
    Stat64 bad_doorbells;
    Stat64 doorbells;
    Stat64 dma_errors;
    Stat64 eth_tx_packets;
    Stat64 eth_tx_octets;
    Stat64 eth_rx_packets;
    Stat64 eth_rx_octets;
    Stat64 eth_rx_drops;
    Stat64 events_lost;
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
    RnicFabric *fabric;         /* a link property, or a child of the device */
    RnicEthernet *ethernet;     /* ethernet.c; NULL without netdev= */

    RnicObjectTable eqs;        /* RnicEq */
    RnicEq *async_eq;           /* of eqs, at most one; event_lock */
    RnicEq *cm_eq;              /* of eqs, at most one; event_lock */
    QemuMutex event_lock;       /* event-queue.c: all of every RnicEq */
    RnicObjectTable pds;        /* RnicPd */
    RnicObjectTable cqs;        /* RnicCq */
    RnicObjectTable srqs;       /* RnicSrq */
    RnicObjectTable qps;        /* RnicQp */
    RnicObjectTable listeners;  /* RnicListener, connect/ */
    RnicObjectTable endpoints;  /* RnicEndpoint, connect/ */
    uint32_t incoming;          /* of endpoints, those that peers began */
    GHashTable *requests;       /* connect/request.c: endpoints by number */
    uint32_t last_request;      /* the number given last */
    GHashTable *llp_streams;    /* connect/llp-stream.c: streams by number */
    uint32_t llp_requests;      /* of them, those that the guest has not taken */
    uint32_t last_llp_stream;   /* the number given last */
    RnicDirects *directs;       /* connect/direct.c; NULL: none yet */
    RnicTpt *tpt;               /* tpt/tpt.c */
    uint32_t queue_pages;       /* entries in use; guest/queue-memory.c */

    IOThread *iothread;         /* a link property */
    RnicLingers *lingers;       /* connect/: the main loop's */
    RnicWorker *workers;        /* stream/worker.c */
    unsigned worker_count;
    RnicRequests *tpt_requests; /* admin commands about the TPT, for the first
                                 * worker */

    /* pci/interrupt.c: what is to happen in the main loop */
    QEMUBH *interrupt_bh;
    DECLARE_BITMAP(wanted_vectors, RNIC_MAX_VECTORS);
    DECLARE_BITMAP(repeated_vectors, RNIC_MAX_VECTORS); /* by a fault */
    uint32_t wanted_health;
    bool failing;               /* FATAL, and nobody has been told yet; main loop */

    /* pci/run-state.c */
    VMChangeStateEntry *run_state_handler;
    bool stopped;               /* the VM is; any thread, atomic */

    /* fault/fault.c */
    RnicFaultRules *faults;
    bool faults_armed;          /* there are rules; any thread, atomic */
    bool vanished;              /* from the bus, by one of them; atomic */

    /* capture/capture.c */
    RnicCapture *capture;
    bool capturing;             /* any thread, atomic */
};

/*
 * Stop everything the guest started: no DMA, no interrupt, no octet on the
 * wire afterwards.  pci/function.c; used by every kind of reset.
 */
void rnic_function_reset(RnicState *s);

/* Set STATUS.FATAL with @health (RNIC_HEALTH_*); the first one stays.  Any
 * thread; where the big lock is not held, soon.  What comes of it (pci/failure.h)
 * follows in a bottom half. */
void rnic_fatal(RnicState *s, uint32_t health);

/* Raise MSI-X vector @vector soon, unless it is RNIC_NO_VECTOR or out of range.
 * Any thread, with any lock. */
void rnic_interrupt(RnicState *s, uint32_t vector);

static inline void rnic_count(Stat64 *counter, uint64_t n)
{
    stat64_add(counter, n);
}

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
    return qatomic_read(&s->regs.status) == RNIC_STATUS_ENABLED;
}

/* The device may touch guest memory and raise interrupts. */
static inline bool rnic_active(const RnicState *s)
{
    return rnic_enabled(s) && !qatomic_read(&s->stopped);
}

#endif /* HW_RNIC_RNIC_H */
