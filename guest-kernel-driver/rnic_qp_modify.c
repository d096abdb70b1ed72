// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: states and attributes of queue pairs.
 *
 * The device knows Idle, RTS, Closing, Terminate and Error. RESET, INIT (in
 * which an RNIC's QP begins) and RTR are Idle, and remembered here; SQD is
 * Closing, SQE is Terminate. iw_cm takes a QP to RTS, or a program that has the
 * address of its peer (rnic_qp_direct.c). A QP goes from Closing to Idle by
 * itself, but Linux expects one that has lost its connection to flush what is
 * posted: see rnic_qp_leave_idle().
 */

#include <linux/delay.h>

#include "rnic.h"
#include "rnic_commands.h"
#include "rnic_health.h"
#include "rnic_udata.h"
#include "rnic_verbs.h"

/*
 * The device refuses every change in Closing and in Terminate, which it leaves after 10
 * seconds if the peer does not answer.
 */
#define RNIC_FLUSH_TIMEOUT	(15 * HZ)
#define RNIC_CLOSE_PATIENCE	(HZ / 5)

static int rnic_qp_set_state(struct rnic_qp *qp, u8 state)
{
	struct rnic_qp_change change = {
		.mask = RNIC_QP_MODIFY_STATE,
		.state = state,
	};

	return rnic_cmd_modify_qp(to_rnic_dev(qp->ibqp.device), qp->qpn,
				  &change);
}

static u8 rnic_qp_state_bit(struct rnic_qp *qp)
{
	struct rnic_qp_info info;

	if (rnic_cmd_query_qp(to_rnic_dev(qp->ibqp.device), qp->qpn, &info))
		return 0;
	return BIT(info.state);
}

bool rnic_qp_has_no_stream(struct rnic_qp *qp)
{
	return rnic_qp_state_bit(qp) & (BIT(RNIC_QPS_IDLE) |
					BIT(RNIC_QPS_ERROR));
}

/* In Error what is posted is taken, and flushed: see rnic_qp_takes_posts(). */
static void rnic_qp_leave_reset(struct rnic_qp *qp)
{
	if (qp->idle_state == IB_QPS_RESET)
		WRITE_ONCE(qp->idle_state, IB_QPS_INIT);
}

void rnic_qp_leave_idle(struct rnic_qp *qp)
{
	mutex_lock(&qp->modify_lock);
	if (!qp->gone && !READ_ONCE(qp->idle_again) &&
	    (rnic_qp_state_bit(qp) & BIT(RNIC_QPS_IDLE)) &&
	    !rnic_qp_set_state(qp, RNIC_QPS_ERROR))
		rnic_qp_leave_reset(qp);
	mutex_unlock(&qp->modify_lock);
}

/*
 * Who drains a QP does not know whether the peer or an error came first, and Linux
 * lets a QP go to ERR from every state: it is as good if it is there, or on its
 * way. The specification would refuse it (V6.2.3-12, V6.2.4-10, V6.2.5-2), and so
 * is every other change refused there.
 */
static int rnic_qp_try_error(struct rnic_qp *qp)
{
	const u8 good_states = BIT(RNIC_QPS_CLOSING) |
			       BIT(RNIC_QPS_TERMINATE) | BIT(RNIC_QPS_ERROR);
	int ret = rnic_qp_set_state(qp, RNIC_QPS_ERROR);

	if (ret == -EINVAL && (rnic_qp_state_bit(qp) & good_states))
		return 0;
	return ret;
}

/*
 * Closing ends in Idle, and then rnic_qp_leave_idle() makes it Error. If it
 * ends just after it has refused to become Error, Idle does not refuse. So a second
 * refusal, or another answer, is an error of the device. A user in the kernel, which ends
 * the use of the QP, cannot go on with it; a process is told, and can destroy the QP.
 */
static int rnic_qp_to_error(struct rnic_qp *qp)
{
	int ret = rnic_qp_try_error(qp);

	if (ret == -EINVAL)
		ret = rnic_qp_try_error(qp);
	if (ret && qp->sq.ring)
		rnic_fail(to_rnic_dev(qp->ibqp.device),
			  "it would not take a queue pair to Error");
	if (ret)
		return ret;
	rnic_qp_leave_reset(qp);
	WRITE_ONCE(qp->flushes, true);
	WRITE_ONCE(qp->end_seen, true);
	return 0;
}

void rnic_qp_give_up(struct rnic_qp *qp)
{
	mutex_lock(&qp->modify_lock);
	/* Else the number may be another QP's. */
	if (!qp->gone && rnic_qp_to_error(qp))
		rnic_fail(to_rnic_dev(qp->ibqp.device),
			  "it would not take a queue pair to Error");
	mutex_unlock(&qp->modify_lock);
}

/*
 * Kernel modules drain a QP as soon as they have disconnected it. The marker that
 * the core posts then would break a stream that still closes (BAD_CLOSE), and the
 * peer would hear of an error. A close takes little time if the peer answers.
 */
static void rnic_qp_await_close(struct rnic_qp *qp)
{
	unsigned long deadline = jiffies + RNIC_CLOSE_PATIENCE;

	while ((rnic_qp_state_bit(qp) & BIT(RNIC_QPS_CLOSING)) &&
	       time_before(jiffies, deadline))
		usleep_range(500, 1000);
}

/* By way of Error, where the device forgets what is posted. */
static int rnic_qp_error_to_idle(struct rnic_qp *qp)
{
	unsigned long deadline = jiffies + RNIC_FLUSH_TIMEOUT;
	unsigned int pause_us = 1000;
	int ret;

	for (;;) {
		ret = rnic_qp_to_error(qp);
		if (ret)
			return ret;
		ret = rnic_qp_set_state(qp, RNIC_QPS_IDLE);
		/* It still flushes, or it is not in Error yet. */
		if ((ret != -EBUSY && ret != -EINVAL) ||
		    time_after(jiffies, deadline))
			return ret;
		fsleep(pause_us);
		pause_us = min(2 * pause_us, 100000U);
	}
}

/* As it was created. */
static int rnic_qp_reset_attributes(struct rnic_qp *qp)
{
	struct rnic_dev *dev = to_rnic_dev(qp->ibqp.device);
	struct rnic_qp_change change = {
		.mask = RNIC_QP_MODIFY_ENABLES | RNIC_QP_MODIFY_IRD |
			RNIC_QP_MODIFY_ORD,
		.enables = qp->enables,
		.ird = dev->limits.max_ird,
		.ord = dev->limits.max_ord,
	};

	return rnic_cmd_modify_qp(dev, qp->qpn, &change);
}

/* What is posted from now on is not flushed. */
static void rnic_qp_leave_error(struct rnic_qp *qp)
{
	WRITE_ONCE(qp->flushes, false);
	WRITE_ONCE(qp->abandoned, false);
}

/* What RESET makes of the driver's part. */
static void rnic_qp_forget(struct rnic_qp *qp)
{
	rnic_qp_leave_error(qp);
	rnic_qp_forget_posted(qp);
	rnic_qp_forget_attributes(qp);
	WRITE_ONCE(qp->idle_state, IB_QPS_RESET);
	qp->direct = false;
}

/*
 * Of a device out of service: what ends the use of a QP succeeds. What is posted
 * is flushed as long as the QP is not reset.
 */
static int rnic_qp_modify_failed(struct rnic_qp *qp,
				 const struct ib_qp_attr *attr, int mask)
{
	if (!(mask & IB_QP_STATE))
		return RNIC_ERR_FAILED;
	switch (attr->qp_state) {
	case IB_QPS_RESET:
		rnic_qp_forget(qp);
		return 0;
	case IB_QPS_ERR:
		rnic_qp_leave_reset(qp);
		return 0;
	case IB_QPS_SQD:
	case IB_QPS_SQE:
		return 0;
	default:
		return RNIC_ERR_FAILED;
	}
}

static int rnic_qp_reset(struct rnic_qp *qp)
{
	int ret = rnic_qp_error_to_idle(qp);

	if (!ret)
		ret = rnic_qp_reset_attributes(qp);
	if (!ret)
		rnic_qp_forget(qp);
	if (!ret)
		WRITE_ONCE(qp->idle_again, true);
	return ret;
}

/* Atomics that the device does not have are no reason to refuse other rights. */
static u32 rnic_qp_enables(const struct rnic_qp *qp, int access)
{
	u32 enables = qp->enables;

	if (access & IB_ACCESS_REMOTE_READ)
		enables |= RNIC_QP_ENABLE_READ;
	if (access & IB_ACCESS_REMOTE_WRITE)
		enables |= RNIC_QP_ENABLE_WRITE;
	if ((access & IB_ACCESS_REMOTE_ATOMIC) &&
	    rnic_has(to_rnic_dev(qp->ibqp.device), RNIC_FEATURE_RDMAP_EXTENSIONS))
		enables |= RNIC_QP_ENABLE_ATOMIC;
	return enables;
}

#define RNIC_IW_CM_ACCESS	(IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

/*
 * rdma_cm takes the QP of a connecting side to INIT with no access at all, and
 * never changes that, but a peer that reads and writes is expected to succeed.
 * So with a change of state nothing means all; without, it means nothing. Of the
 * accepting side it names reads and writes; iw_cm knows no atomics, and the right
 * to them is the region's to give. A QP that is moved by hand gets what it asked
 * for when it goes to RTR.
 */
static u32 rnic_qp_access_enables(const struct rnic_qp *qp,
				  const struct ib_qp_attr *attr, int mask)
{
	int access = attr->qp_access_flags;

	if ((!access || access == RNIC_IW_CM_ACCESS) &&
	    (mask & IB_QP_STATE) && !qp->direct)
		access = RNIC_IW_CM_ACCESS | IB_ACCESS_REMOTE_ATOMIC;
	return rnic_qp_enables(qp, access);
}

int rnic_qp_set_enables(struct rnic_qp *qp, u32 enables)
{
	struct rnic_qp_change change = {
		.mask = RNIC_QP_MODIFY_ENABLES,
		.enables = enables,
	};

	return rnic_cmd_modify_qp(to_rnic_dev(qp->ibqp.device), qp->qpn,
				  &change);
}

int rnic_qp_set_access(struct rnic_qp *qp, int access)
{
	return rnic_qp_set_enables(qp, rnic_qp_enables(qp, access));
}

static void rnic_qp_add_attributes(const struct rnic_qp *qp,
				   const struct ib_qp_attr *attr, int mask,
				   struct rnic_qp_change *change)
{
	if (mask & IB_QP_ACCESS_FLAGS) {
		change->mask |= RNIC_QP_MODIFY_ENABLES;
		change->enables = rnic_qp_access_enables(qp, attr, mask);
	}
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC) {
		change->mask |= RNIC_QP_MODIFY_IRD;
		change->ird = attr->max_dest_rd_atomic;
	}
	if (mask & IB_QP_MAX_QP_RD_ATOMIC) {
		change->mask |= RNIC_QP_MODIFY_ORD;
		change->ord = attr->max_rd_atomic;
	}
}

static int rnic_qp_set_attributes(struct rnic_qp *qp,
				  const struct ib_qp_attr *attr, int mask)
{
	struct rnic_qp_change change = {};

	rnic_qp_add_attributes(qp, attr, mask, &change);
	if (!change.mask)
		return 0;
	return rnic_cmd_modify_qp(to_rnic_dev(qp->ibqp.device), qp->qpn,
				  &change);
}

/*
 * INIT and RTR, which rdma_cm goes through before it connects or accepts. One
 * command, so that nothing is changed if it fails. A QP that is moved by hand comes
 * back there by way of RESET.
 */
static int rnic_qp_prepare(struct rnic_qp *qp, const struct ib_qp_attr *attr,
			   int mask)
{
	struct rnic_qp_change change = {
		.mask = RNIC_QP_MODIFY_STATE,
		.state = RNIC_QPS_IDLE,
	};
	bool flushes = READ_ONCE(qp->flushes);
	int ret;

	if (qp->direct)
		return -EINVAL;
	/* What is posted as soon as the device is in Idle may succeed. */
	WRITE_ONCE(qp->flushes, false);
	rnic_qp_add_attributes(qp, attr, mask, &change);
	ret = rnic_cmd_modify_qp(to_rnic_dev(qp->ibqp.device), qp->qpn,
				 &change);
	if (ret) {
		WRITE_ONCE(qp->flushes, flushes);
		return ret;
	}
	WRITE_ONCE(qp->idle_state, attr->qp_state);
	rnic_qp_leave_error(qp);
	if (flushes)
		WRITE_ONCE(qp->idle_again, true);
	return 0;
}

/* To RTS only iw_cm takes a QP; so in RTS that is no change. */
static int rnic_qp_stay_rts(struct rnic_qp *qp, const struct ib_qp_attr *attr,
			    int mask)
{
	int ret = rnic_qp_set_state(qp, RNIC_QPS_RTS);

	return ret ?: rnic_qp_set_attributes(qp, attr, mask);
}

static int rnic_qp_change_state(struct rnic_qp *qp,
				const struct ib_qp_attr *attr, int mask)
{
	switch (attr->qp_state) {
	case IB_QPS_RESET:
		return rnic_qp_reset(qp);
	case IB_QPS_INIT:
	case IB_QPS_RTR:
		return rnic_qp_prepare(qp, attr, mask);
	case IB_QPS_RTS:
		return rnic_qp_stay_rts(qp, attr, mask);
	case IB_QPS_SQD:
		/* To a program written for InfiniBand it is no close. */
		WRITE_ONCE(qp->end_seen, true);
		return qp->direct ? -EOPNOTSUPP :
				    rnic_qp_set_state(qp, RNIC_QPS_CLOSING);
	case IB_QPS_SQE:
		/* Its stream may be there before it is in RTS. */
		WRITE_ONCE(qp->end_seen, true);
		return qp->direct && qp->idle_state != IB_QPS_RTS ? -EINVAL :
		       rnic_qp_set_state(qp, RNIC_QPS_TERMINATE);
	case IB_QPS_ERR:
		if (qp->sq.ring)
			rnic_qp_await_close(qp);
		return rnic_qp_to_error(qp);
	default:
		return -EINVAL;
	}
}

static int rnic_qp_modify_locked(struct rnic_qp *qp,
				 const struct ib_qp_attr *attr, int mask)
{
	int ret;

	if (rnic_qp_moves_directly(qp, attr, mask))
		ret = rnic_qp_move_directly(qp, attr, mask);
	else if (mask & IB_QP_STATE)
		ret = rnic_qp_change_state(qp, attr, mask);
	else
		ret = rnic_qp_set_attributes(qp, attr, mask);
	if (!ret)
		rnic_qp_remember(qp, attr, mask);
	return ret;
}

static bool rnic_qp_state_takes_attributes(enum ib_qp_state state)
{
	return state == IB_QPS_INIT || state == IB_QPS_RTR ||
	       state == IB_QPS_RTS;
}

/* V6.1.3-4, and Linux's rules; what resizes comes alone: all or nothing. */
static bool rnic_qp_mask_is_ok(const struct ib_qp_attr *attr, int mask)
{
	if (mask & IB_QP_CAP)
		return mask == IB_QP_CAP;
	return !(mask & IB_QP_STATE) || mask == IB_QP_STATE ||
	       rnic_qp_state_takes_attributes(attr->qp_state);
}

int rnic_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata)
{
	struct rnic_qp *qp = to_rnic_qp(ibqp);
	int ret;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	if (!rnic_qp_mask_is_ok(attr, mask))
		return -EINVAL;
	if (!(mask & IB_QP_CAP)) {
		ret = rnic_udata_none(udata);
		if (ret)
			return ret;
	}
	mutex_lock(&qp->modify_lock);
	if (qp->gone)
		ret = -EINVAL;
	else
		ret = mask & IB_QP_CAP ? rnic_qp_resize(qp, udata) :
					 rnic_qp_modify_locked(qp, attr, mask);
	/* It may have failed just now. */
	if (ret && rnic_failed(to_rnic_dev(ibqp->device)))
		ret = rnic_qp_modify_failed(qp, attr, mask);
	mutex_unlock(&qp->modify_lock);
	return ret;
}
