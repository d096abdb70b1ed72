/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the device, as the driver sees it.
 */
#ifndef RNIC_H
#define RNIC_H

#include <linux/idr.h>
#include <linux/io.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#include "rnic-hw.h"
#include "rnic_admin.h"
#include "rnic_commands.h"
#include "rnic_compat.h"
#include "rnic_eq.h"

struct rnic_failure;
struct rnic_function;

#define RNIC_DRIVER_NAME	"rnic"

/* What of RNIC_REG_FEATURES this driver knows how to use. */
#define RNIC_DRIVER_FEATURES	(RNIC_FEATURE_ETHERNET | \
				 RNIC_FEATURE_MEMORY_WINDOW | \
				 RNIC_FEATURE_FAST_REGISTER | \
				 RNIC_FEATURE_LOCAL_INVALIDATE | \
				 RNIC_FEATURE_REMOTE_INVALIDATE | \
				 RNIC_FEATURE_READ_INVALIDATE | \
				 RNIC_FEATURE_REREGISTER | \
				 RNIC_FEATURE_SRQ | \
				 RNIC_FEATURE_DIRECT_CONNECT | \
				 RNIC_FEATURE_RESIZE_CQ | \
				 RNIC_FEATURE_RESIZE_QP | \
				 RNIC_FEATURE_CQ_MODERATION | \
				 RNIC_FEATURE_IGNORE_OVERRUN | \
				 RNIC_FEATURE_TIMESTAMP | \
				 RNIC_FEATURE_BIND_WITHOUT_RIGHTS | \
				 RNIC_FEATURE_PD_WINDOW | \
				 RNIC_FEATURE_READ_LIST | \
				 RNIC_FEATURE_UNICAST_LIST | \
				 RNIC_FEATURE_RDMAP_EXTENSIONS | \
				 RNIC_FEATURE_STAG_ZERO)

/* The answer to QUERY_DEVICE. */
struct rnic_limits {
	u64 page_size_cap;
	u64 max_mr_size;
	u64 sys_image_guid;
	u32 max_qp;
	u32 max_sq_units;
	u32 max_rq_wr;
	u32 max_srq;
	u32 max_srq_wr;
	u32 max_send_sge;
	u32 max_write_sge;
	u32 max_recv_sge;
	u32 max_read_sge;
	u32 max_inline;
	u32 max_cq;
	u32 max_cqe;
	u32 max_mr;
	u32 max_mw;
	u32 max_pd;
	u32 max_fast_register_pages;
	u32 max_ird;
	u32 max_ord;
	u32 max_total_ird;
	u32 max_message;
	u32 mtu;
	u16 max_event_count;
	u16 max_event_period;		/* microseconds */
	u32 clock_khz;
};

/* One MSI-X vector; several queues may share it. */
struct rnic_vector {
	struct rnic_dev *dev;
	unsigned int index;
	struct rnic_eq *completions;	/* NULL: none */
	char name[32];
};

enum rnic_dev_flag {
	RNIC_DEV_FAILED,	/* reset and silent; another one takes its place */
};

/* The MAC, and room for addresses of the interface. */
#define RNIC_GID_TABLE_LENGTH	32

struct rnic_dev {
	struct ib_device ibdev;
	struct pci_dev *pdev;
	struct rnic_function *function;
	struct rnic_failure *failure;	/* the function's note of it */
	struct net_device *netdev;	/* the function's */
	struct mutex carrier_lock;	/* the carrier, against rnic_netdev_detach() */
	bool netdev_attached;		/* with carrier_lock */
	u8 __iomem *registers;
	u8 __iomem *doorbells;		/* page 0, the kernel's */
	unsigned long flags;		/* enum rnic_dev_flag */
	u64 features;			/* RNIC_FEATURE_* in use */
	u16 abi_minor;			/* of RNIC_REG_ABI_VERSION */
	struct rnic_limits limits;
	u8 mac[ETH_ALEN];
	struct rnic_admin admin;

	unsigned int num_vectors;
	unsigned int eth_vector;
	struct rnic_vector *vectors;
	struct rnic_eq async_eq;
	struct rnic_eq cm_eq;
	unsigned int num_comp_eqs;
	struct rnic_eq *comp_eqs;
	struct workqueue_struct *comp_wq;	/* of comp_eqs */
	struct workqueue_struct *event_wq;
	struct work_struct event_work;	/* drains async_eq and cm_eq */
	struct rnic_cm_event cm_event;	/* event_work's */
	struct workqueue_struct *cm_wq;	/* see rnic_cm_queue.c */
	struct workqueue_struct *health_wq;	/* the next three's */
	struct work_struct failure_work;
	struct work_struct flush_work;	/* wakes those who poll after that */
	spinlock_t failure_lock;	/* RNIC_DEV_FAILED and the reset with it */
	struct delayed_work health_work;
	spinlock_t state_lock;		/* see rnic_state_page.c */
	struct list_head ucontexts;

	struct mutex counter_lock;	/* of these, see rnic_qp_counters.c */
	struct list_head counted_qps;	/* rnic_qp.counted_entry */
	u64 counted[RNIC_NUM_QP_COUNTS];	/* went to counters, or has gone */
	u32 last_counter;		/* id of the newest */

	struct ida doorbell_pages;
	u32 doorbell_groups;		/* see rnic_ucontext.c */
	atomic_t next_tag;		/* of work queues */
	atomic_t num_cqs;		/* that the device has made */
	atomic_t kernel_users;		/* see rnic_pd_note_kernel_qp() */
	struct xarray cqs;		/* by number, what events name */
	struct xarray qps;
	/*
	 * QPs not found any more, of which a CQE may be. Counted before the erasure, under
	 * the array's lock, until the CQs have forgotten them, under theirs.
	 */
	atomic_t qps_ending;
	struct xarray srqs;
	struct xarray listeners;	/* by cookie */
	struct mutex listen_lock;	/* what the listeners listen on */
	unsigned long last_listener;	/* cookie of the newest; with listen_lock */
	bool listen_again;		/* not on all addresses that they should */
	unsigned long listen_tried;	/* jiffies, then */
	struct work_struct listen_work;
	struct xarray requests;		/* by endpoint, see rnic_cm.c */
	struct xarray named_qps;	/* by thread, see rnic_iw_get_qp() */
	atomic64_t next_cookie;

	struct mutex gid_lock;		/* of address_gids */
	union ib_gid address_gids[RNIC_GID_TABLE_LENGTH - 1]; /* GID 1 and on */

	struct notifier_block netdev_notifier;
	bool port_was_up;		/* with RTNL: what was told last */
	struct notifier_block inetaddr_notifier;
	struct notifier_block inet6addr_notifier;
};

static inline struct rnic_dev *to_rnic_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct rnic_dev, ibdev);
}

static inline u32 rnic_read32(struct rnic_dev *dev, u32 reg)
{
	return readl(dev->registers + reg);
}

static inline u64 rnic_read64(struct rnic_dev *dev, u32 reg)
{
	return lo_hi_readq(dev->registers + reg);
}

static inline void rnic_write32(struct rnic_dev *dev, u32 reg, u32 value)
{
	writel(value, dev->registers + reg);
}

static inline void rnic_write64(struct rnic_dev *dev, u32 reg, u64 value)
{
	lo_hi_writeq(value, dev->registers + reg);
}

static inline void rnic_ring(struct rnic_dev *dev, u32 doorbell, u32 value)
{
	writel(value, dev->doorbells + doorbell);
}

/* The one way to write it; the provider does the same. */
static inline void rnic_version_string(u32 version, char *str, size_t size)
{
	snprintf(str, size, "%u.%u", version >> 16, version & 0xffff);
}

static inline void rnic_firmware_version(struct rnic_dev *dev, char *str,
					 size_t size)
{
	rnic_version_string(rnic_read32(dev, RNIC_REG_HW_VERSION), str, size);
}

/* All of them. */
static inline bool rnic_has(const struct rnic_dev *dev, u64 features)
{
	return (dev->features & features) == features;
}

static inline bool rnic_failed(const struct rnic_dev *dev)
{
	return test_bit(RNIC_DEV_FAILED, &dev->flags);
}

/*
 * What a caller is told of a device out of service. It may come back, as a network
 * may: RPC-over-RDMA tries again after this error, and fails an RPC for good after
 * -EIO.
 */
#define RNIC_ERR_FAILED	(-ENETDOWN)

/*
 * What events name: found through an xarray by a number that the device gave,
 * and not freed while a thread that found it is still at work.
 */
struct rnic_ref {
	refcount_t count;
	struct completion gone;
};

static inline void rnic_ref_init(struct rnic_ref *ref)
{
	refcount_set(&ref->count, 1);
	init_completion(&ref->gone);
}

static inline void rnic_ref_get(struct rnic_ref *ref)
{
	refcount_inc(&ref->count);
}

static inline bool rnic_ref_tryget(struct rnic_ref *ref)
{
	return refcount_inc_not_zero(&ref->count);
}

static inline void rnic_ref_put(struct rnic_ref *ref)
{
	if (refcount_dec_and_test(&ref->count))
		complete(&ref->gone);
}

/* Gives the creator's reference up and waits for all the others. */
static inline void rnic_ref_drain(struct rnic_ref *ref)
{
	rnic_ref_put(ref);
	wait_for_completion(&ref->gone);
}

#endif /* RNIC_H */
