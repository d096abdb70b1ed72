// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_failed: a user in the kernel that asks for objects and a connection after its
 * adapter has failed, and before the driver takes the adapter away. rpcrdma does that
 * when its connection breaks, and gives an RPC up for good unless the error is one
 * of a network that may come back.
 *
 * Loading it makes QPs on the first adapter and resolves peer=A.B.C.D. It asks when
 * the adapter reports DEVICE_FATAL; the log has each answer. What has been posted before
 * is looked at then, too: flushed.c. It frees its objects slowly, and the PD of its
 * queue pairs last, as nvme-rdma does. The log says whether the driver waits for this.
 * Until the adapter goes it keeps another PD, without queue pairs, as ib_srpt does.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "flushed.h"

#define TIME_LIMIT	(10 * HZ)
#define LET_GO_MS	500

static char *peer = "";
module_param(peer, charp, 0);

static struct owner {
	struct ib_device *dev;
	struct ib_event_handler handler;
	struct work_struct ask;
	ktime_t failed;			/* when DEVICE_FATAL came */
	struct ib_pd *kept_pd;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct rdma_cm_id *id;
	struct completion step;		/* the rdma_cm event that was waited for */
	enum rdma_cm_event_type came;
	int result;
	bool going;			/* the adapter */
} owner;

/*
 * ------------------------------------------------------------- how it lets go
 */
static void free_all_but_pds(void)
{
	flushed_end();
	if (!IS_ERR_OR_NULL(owner.id) && owner.id->qp)
		rdma_destroy_qp(owner.id);
	if (!IS_ERR_OR_NULL(owner.id))
		rdma_destroy_id(owner.id);
	owner.id = NULL;
	if (!IS_ERR_OR_NULL(owner.cq))
		ib_free_cq(owner.cq);
	owner.cq = NULL;
}

static void free_pd(struct ib_pd **pd)
{
	if (!IS_ERR_OR_NULL(*pd))
		ib_dealloc_pd(*pd);
	*pd = NULL;
}

static void free_all(void)
{
	free_all_but_pds();
	free_pd(&owner.pd);
	free_pd(&owner.kept_pd);
}

/* The driver waits for this, but only for a limited time. */
static void let_go(void)
{
	free_all_but_pds();
	msleep(LET_GO_MS);
	pr_info("let go: %s, %lld ms after the failure\n",
		READ_ONCE(owner.going) ? "the adapter goes already" : "in time",
		ktime_ms_delta(ktime_get(), owner.failed));
	free_pd(&owner.pd);
}

/*
 * ------------------------------------------------------------- what it asks for
 */
static void answer(const char *call, int ret)
{
	pr_info("%s: %d\n", call, ret);
}

static struct ib_qp_init_attr qp_attributes(void)
{
	return (struct ib_qp_init_attr) {
		.send_cq = owner.cq,
		.recv_cq = owner.cq,
		.cap = {
			.max_send_wr = 4,
			.max_recv_wr = 4,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IB_QPT_RC,
	};
}

static void ask_for_pd(void)
{
	struct ib_pd *pd = ib_alloc_pd(owner.dev, 0);

	answer("ib_alloc_pd", PTR_ERR_OR_ZERO(pd));
	if (!IS_ERR(pd))
		ib_dealloc_pd(pd);
}

static void ask_for_cq(void)
{
	struct ib_cq *cq = ib_alloc_cq(owner.dev, NULL, 8, 0, IB_POLL_DIRECT);

	answer("ib_alloc_cq", PTR_ERR_OR_ZERO(cq));
	if (!IS_ERR(cq))
		ib_free_cq(cq);
}

static void ask_for_qp(void)
{
	struct ib_qp_init_attr init = qp_attributes();
	struct ib_qp *qp = ib_create_qp(owner.pd, &init);

	answer("ib_create_qp", PTR_ERR_OR_ZERO(qp));
	if (!IS_ERR(qp))
		ib_destroy_qp(qp);
}

static void ask_for_mr(void)
{
	struct ib_mr *mr = ib_alloc_mr(owner.pd, IB_MR_TYPE_MEM_REG, 4);

	answer("ib_alloc_mr", PTR_ERR_OR_ZERO(mr));
	if (!IS_ERR(mr))
		ib_dereg_mr(mr);
}

static void ask_for_connection(void)
{
	struct rdma_conn_param param = {};

	answer("rdma_connect", rdma_connect(owner.id, &param));
}

static void ask_for_all(struct work_struct *work)
{
	ask_for_pd();
	ask_for_cq();
	ask_for_qp();
	ask_for_mr();
	ask_for_connection();
	flushed_check();
	let_go();
}

static void device_event(struct ib_event_handler *handler,
			 struct ib_event *event)
{
	if (event->event != IB_EVENT_DEVICE_FATAL)
		return;
	owner.failed = ktime_get();
	schedule_work(&owner.ask);
}

/*
 * ------------------------------------------------------------- what it has before
 */
static int cm_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	owner.came = event->event;
	complete(&owner.step);
	return 0;
}

static int await_event(enum rdma_cm_event_type wanted)
{
	if (!wait_for_completion_timeout(&owner.step, TIME_LIMIT))
		return -ETIMEDOUT;
	reinit_completion(&owner.step);
	return owner.came == wanted ? 0 : -EHOSTUNREACH;
}

static int resolve_peer(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = cpu_to_be16(7174),
		.sin_addr.s_addr = in_aton(peer),
	};

	return rdma_resolve_addr(owner.id, NULL, (struct sockaddr *)&address,
				 2000) ?:
	       await_event(RDMA_CM_EVENT_ADDR_RESOLVED) ?:
	       rdma_resolve_route(owner.id, 2000) ?:
	       await_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static int make_objects(void)
{
	struct ib_qp_init_attr init;

	owner.kept_pd = ib_alloc_pd(owner.dev, 0);
	if (IS_ERR(owner.kept_pd))
		return PTR_ERR(owner.kept_pd);
	owner.pd = ib_alloc_pd(owner.dev, 0);
	if (IS_ERR(owner.pd))
		return PTR_ERR(owner.pd);
	owner.cq = ib_alloc_cq(owner.dev, NULL, 8, 0, IB_POLL_DIRECT);
	if (IS_ERR(owner.cq))
		return PTR_ERR(owner.cq);
	owner.id = rdma_create_id(&init_net, cm_event, NULL, RDMA_PS_TCP,
				  IB_QPT_RC);
	if (IS_ERR(owner.id))
		return PTR_ERR(owner.id);
	init = qp_attributes();
	return resolve_peer() ?:
	       rdma_create_qp(owner.id, owner.pd, &init) ?:
	       flushed_begin(owner.dev, owner.pd);
}

static int add_adapter(struct ib_device *dev)
{
	if (owner.dev)
		return -EOPNOTSUPP;	/* one is enough */
	owner.dev = dev;
	INIT_WORK(&owner.ask, ask_for_all);
	init_completion(&owner.step);
	owner.result = make_objects();
	if (owner.result) {
		free_all();
		return owner.result;
	}
	INIT_IB_EVENT_HANDLER(&owner.handler, dev, device_event);
	ib_register_event_handler(&owner.handler);
	return 0;
}

static void remove_adapter(struct ib_device *dev, void *data)
{
	WRITE_ONCE(owner.going, true);
	ib_unregister_event_handler(&owner.handler);
	flush_work(&owner.ask);
	free_all();
}

static struct ib_client client = {
	.name = KBUILD_MODNAME,
	.add = add_adapter,
	.remove = remove_adapter,
};

static int __init kverbs_failed_init(void)
{
	int ret;

	owner.result = -ENODEV;	/* no adapter */
	ret = ib_register_client(&client);
	if (!ret && owner.result) {
		ib_unregister_client(&client);
		ret = owner.result;
	}
	return ret;
}

static void __exit kverbs_failed_exit(void)
{
	ib_unregister_client(&client);
}

module_init(kverbs_failed_init);
module_exit(kverbs_failed_exit);
MODULE_DESCRIPTION("A user of kernel verbs whose adapter has failed");
MODULE_LICENSE("GPL");
