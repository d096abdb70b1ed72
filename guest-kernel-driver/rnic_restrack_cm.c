// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: what "rdma resource show cm_id -dd" tells of connections and listeners: the
 * numbers and states that the driver has. rdma_cm holds its cm_id meanwhile; its
 * caller may sleep.
 *
 * Only the address of iw_cm's cm_id is looked at: rdma_cm may let go of it at any
 * time.
 */

#include <net/netlink.h>
#include <rdma/rdma_cm.h>
#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "rnic.h"
#include "rnic_cm_listen.h"
#include "rnic_verbs.h"

struct rnic_res_cm {
	const char *state;		/* NULL: the driver knows nothing of it */
	u64 cookie;			/* what the device's events say */
	u32 qpn;			/* 0: a listener */
	u32 addresses;			/* of a listener: that are listened on */
};

static const char *rnic_res_cm_state(enum rnic_cm_state state)
{
	static const char * const names[] = {
		[RNIC_CM_NONE] = "none",
		[RNIC_CM_CONNECTING] = "connecting",
		[RNIC_CM_ACCEPTING] = "accepting",
		[RNIC_CM_CONNECTED] = "connected",
		[RNIC_CM_PEER_CLOSED] = "peer_closed",
	};

	return names[state];
}

static bool rnic_res_cm_is_of_qp(struct rnic_res_cm *res, struct rnic_qp *qp,
				 const struct iw_cm_id *cm_id)
{
	const struct rnic_connection *connection = &qp->connection;

	/* Its lock is held over events: this would wait for a consumer. */
	if (READ_ONCE(connection->cm_id) != cm_id)
		return false;
	res->state = rnic_res_cm_state(READ_ONCE(connection->state));
	res->cookie = READ_ONCE(connection->cookie);
	res->qpn = qp->qpn;
	return true;
}

static void rnic_res_cm_find_qp(struct rnic_dev *dev, struct rnic_res_cm *res,
				const struct iw_cm_id *cm_id)
{
	unsigned long qpn;
	void *entry;
	bool found;

	xa_for_each(&dev->qps, qpn, entry) {
		struct rnic_qp *qp = rnic_qp_get(dev, qpn);

		if (!qp)
			continue;
		found = rnic_res_cm_is_of_qp(res, qp, cm_id);
		rnic_ref_put(&qp->ref);
		if (found)
			return;
		cond_resched();
	}
}

static void rnic_res_cm_find_listener(struct rnic_dev *dev,
				      struct rnic_res_cm *res,
				      const struct iw_cm_id *cm_id)
{
	struct rnic_listener *listener;
	struct list_head *entry;
	unsigned long cookie;

	mutex_lock(&dev->listen_lock);
	xa_for_each(&dev->listeners, cookie, listener) {
		if (listener->cm_id != cm_id)
			continue;
		res->state = "listening";
		res->cookie = cookie;
		list_for_each(entry, &listener->endpoints)
			res->addresses++;
		break;
	}
	mutex_unlock(&dev->listen_lock);
}

static int rnic_res_fill_cm(struct sk_buff *msg, const struct rnic_res_cm *res)
{
	return rdma_nl_put_driver_string(msg, "state", res->state) ||
	       rdma_nl_put_driver_u64(msg, "cookie", res->cookie) ||
	       (res->qpn ?
		rdma_nl_put_driver_u32(msg, "qpn", res->qpn) :
		rdma_nl_put_driver_u32(msg, "addresses", res->addresses));
}

int rnic_fill_res_cm_id_entry(struct sk_buff *msg, struct rdma_cm_id *id)
{
	struct rnic_dev *dev = to_rnic_dev(id->device);
	const struct iw_cm_id *cm_id = rdma_iw_cm_id(id);
	struct rnic_res_cm res = {};
	struct nlattr *nest;

	if (!cm_id)
		return 0;
	rnic_res_cm_find_listener(dev, &res, cm_id);
	if (!res.state)
		rnic_res_cm_find_qp(dev, &res, cm_id);
	if (!res.state)
		return 0;
	nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!nest)
		return -EMSGSIZE;
	if (rnic_res_fill_cm(msg, &res)) {
		nla_nest_cancel(msg, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, nest);
	return 0;
}
