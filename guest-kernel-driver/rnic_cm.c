// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: connections. The device makes and ends them; this is a translation
 * between iw_cm's calls and events and the device's.
 *
 * What iw_cm insists on (it has a BUG_ON for each):
 * - CONNECT_REPLY comes once for each connect that returned 0, ESTABLISHED
 *   once for each such accept, and CLOSE once after either told of a success,
 *   never before;
 * - after a failed connect or accept nothing comes at all.
 * struct rnic_connection keeps count. Its mutex is held over commands and
 * events: an event that overtakes the command that causes it waits for it.
 *
 * A connection request has no object here. iw_cm keeps the endpoint number for
 * us, and dev->requests says whether it still is the request iw_cm thinks of:
 * iw_cm may drop a request without a word, the peer may have gone, and the
 * device may have used the number again. Of a request that was accepted iw_cm
 * keeps the QP, in the same place.
 *
 * The device gives the number of a QP that it has destroyed to another one. So
 * nothing is asked of a QP that ends, which the connection's lock protects, too.
 */

#include "rnic.h"
#include "rnic_cm.h"
#include "rnic_cm_addr.h"
#include "rnic_cm_listen.h"
#include "rnic_cm_queue.h"
#include "rnic_commands.h"
#include "rnic_health.h"
#include "rnic_verbs.h"

void rnic_cm_init(struct rnic_dev *dev)
{
	rnic_listen_init(dev);
	xa_init(&dev->requests);
	xa_init(&dev->named_qps);
}

void rnic_cm_free(struct rnic_dev *dev)
{
	xa_destroy(&dev->named_qps);
	xa_destroy(&dev->requests);
	rnic_listen_free(dev);
}

/* It has the reference of rnic_iw_get_qp(), after which alone iw_cm calls this. */
void rnic_iw_add_ref(struct ib_qp *ibqp)
{
}

void rnic_iw_rem_ref(struct ib_qp *ibqp)
{
	rnic_ref_put(&to_rnic_qp(ibqp)->ref);
}

/*
 * With iw_cm's reference: the QP could be gone when iw_cm calls iw_add_ref. The same
 * thread then calls connect or accept with the same number, which may be that of
 * another QP by then. iw_cm holds a spinlock.
 */
struct ib_qp *rnic_iw_get_qp(struct ib_device *ibdev, int qpn)
{
	struct rnic_dev *dev = to_rnic_dev(ibdev);
	struct rnic_qp *qp = rnic_qp_get(dev, qpn);

	if (!qp)
		return NULL;
	if (xa_err(xa_store(&dev->named_qps, task_pid_nr(current), qp,
			    GFP_ATOMIC | __GFP_NOWARN))) {
		rnic_ref_put(&qp->ref);
		return NULL;
	}
	return &qp->ibqp;
}

/* The QP of a connect or accept, with iw_cm's reference. */
static struct rnic_qp *rnic_iw_named_qp(struct rnic_dev *dev)
{
	return xa_erase(&dev->named_qps, task_pid_nr(current));
}

static int rnic_cm_errno(u8 status)
{
	static const int errnos[] = {
		[RNIC_CM_OK] = 0,
		[RNIC_CM_REJECTED] = -ECONNREFUSED,
		[RNIC_CM_REFUSED] = -ECONNREFUSED,
		[RNIC_CM_UNREACHABLE] = -EHOSTUNREACH,
		[RNIC_CM_TIMED_OUT] = -ETIMEDOUT,
		[RNIC_CM_RESET] = -ECONNRESET,
		[RNIC_CM_NOT_MPA] = -EPROTO,
		[RNIC_CM_MPA_REVISION] = -EPROTONOSUPPORT,
		[RNIC_CM_MPA_PRIVATE_DATA] = -EMSGSIZE,
		[RNIC_CM_MPA_READ_RESOURCES] = -ENOMEM,
		[RNIC_CM_MPA_NO_RTR] = -EOPNOTSUPP,
		[RNIC_CM_OUTSIDE_MAP] = -ENETUNREACH,
		[RNIC_CM_ADDRESS_IN_USE] = -EADDRINUSE,
		[RNIC_CM_QP_STATE] = -EINVAL,
		[RNIC_CM_LOCAL_ERROR] = -EIO,
		[RNIC_CM_TLS] = -EACCES,
	};

	return status < ARRAY_SIZE(errnos) ? errnos[status] : -EIO;
}

/*
 * ---------------------------------------------------------- requests
 *
 * A handle is what iw_cm keeps of a request, as provider_data: an xarray's value,
 * which no pointer is, of the endpoint number below a sequence number.
 */
#define RNIC_ENDPOINT_BITS	24

static_assert(RNIC_OBJECT_NUMBER_MASK == (1u << RNIC_ENDPOINT_BITS) - 1);

static unsigned long rnic_request_sequence(struct rnic_dev *dev)
{
	unsigned long sequence = atomic64_inc_return(&dev->next_cookie);

	return sequence & (LONG_MAX >> RNIC_ENDPOINT_BITS);
}

static int rnic_request_remember(struct rnic_dev *dev, u32 endpoint,
				 void **handle)
{
	unsigned long sequence = rnic_request_sequence(dev);

	*handle = xa_mk_value(sequence << RNIC_ENDPOINT_BITS | endpoint);
	/* The caller is a work item: see rnic_event_work(). */
	return xa_err(xa_store(&dev->requests, endpoint, *handle, GFP_KERNEL));
}

/* True once for each request, and only if the peer has not gone. */
static bool rnic_request_take(struct rnic_dev *dev, void *handle,
			      u32 *endpoint)
{
	*endpoint = xa_to_value(handle) & RNIC_OBJECT_NUMBER_MASK;
	return xa_cmpxchg(&dev->requests, *endpoint, handle, NULL,
			  GFP_KERNEL) == handle;
}

/*
 * ---------------------------------------------------- events to iw_cm
 */
static void rnic_iw_event(struct iw_cm_id *cm_id, enum iw_cm_event_type type,
			  int status)
{
	struct iw_cm_event event = {
		.event = type,
		.status = status,
		.local_addr = cm_id->m_local_addr,
		.remote_addr = cm_id->m_remote_addr,
	};

	cm_id->event_handler(cm_id, &event);
}

static void rnic_iw_set_private_data(struct iw_cm_event *event,
				     const struct rnic_cm_event *from)
{
	u16 length = le16_to_cpu(from->private_data_length);

	/* iw_cm copies the data, and cannot count further. */
	event->private_data = (void *)from->private_data;
	event->private_data_len = min3(length, U8_MAX,
				       RNIC_MAX_PRIVATE_DATA);
}

/*
 * iw_cm's ird and ord are the peer's: ours the other way round.
 */
static void rnic_iw_set_read_depths(struct rnic_dev *dev,
				    struct iw_cm_event *event,
				    u16 our_ird, u16 our_ord)
{
	event->ird = min_t(u32, our_ord, dev->limits.max_ord);
	event->ord = min_t(u32, our_ird, dev->limits.max_ird);
}

static int rnic_iw_connect_request(struct rnic_dev *dev,
				   struct iw_cm_id *listen_id,
				   const struct rnic_cm_event *from)
{
	struct iw_cm_event event = { .event = IW_CM_EVENT_CONNECT_REQUEST };
	u32 endpoint = le32_to_cpu(from->endpoint) & RNIC_OBJECT_NUMBER_MASK;
	void *handle;
	int ret;

	ret = rnic_request_remember(dev, endpoint, &handle);
	if (ret)
		return ret;
	event.provider_data = handle;
	rnic_cm_addr_get(dev, &from->local, &event.local_addr);
	rnic_cm_addr_get(dev, &from->remote, &event.remote_addr);
	rnic_iw_set_private_data(&event, from);
	rnic_iw_set_read_depths(dev, &event, le16_to_cpu(from->ord),
				le16_to_cpu(from->ird));
	ret = listen_id->event_handler(listen_id, &event);
	if (ret)
		rnic_request_take(dev, handle, &endpoint);
	return ret;
}

static void rnic_cm_connect_request(struct rnic_dev *dev,
				    const struct rnic_cm_event *event)
{
	struct rnic_listener *listener =
		rnic_listener_get(dev, le64_to_cpu(event->cookie),
				  &event->local);
	int ret = -ENOENT;

	if (listener) {
		ret = rnic_iw_connect_request(dev, listener->cm_id, event);
		rnic_ref_put(&listener->ref);
	}
	if (ret)
		rnic_cmd_cm_reject(dev, le32_to_cpu(event->endpoint), NULL, 0);
}

static void rnic_cm_request_gone(struct rnic_dev *dev,
				 const struct rnic_cm_event *event)
{
	xa_erase(&dev->requests,
		 le32_to_cpu(event->endpoint) & RNIC_OBJECT_NUMBER_MASK);
}

/*
 * ------------------------------------------------------- connections
 */
static void rnic_connection_begin(struct rnic_qp *qp, enum rnic_cm_state state,
				  struct iw_cm_id *cm_id, u64 cookie)
{
	struct rnic_connection *connection = &qp->connection;

	cm_id->add_ref(cm_id);
	connection->state = state;
	connection->cm_id = cm_id;
	connection->cookie = cookie;
	connection->since = jiffies;
	connection->streamless = 0;
	WRITE_ONCE(qp->end_seen, false);
	WRITE_ONCE(qp->idle_again, false);
}

static void rnic_connection_end(struct rnic_connection *connection)
{
	struct iw_cm_id *cm_id = connection->cm_id;

	connection->state = RNIC_CM_NONE;
	connection->cm_id = NULL;
	cm_id->rem_ref(cm_id);
}

static int rnic_connection_may_begin(const struct rnic_connection *connection)
{
	lockdep_assert_held(&connection->lock);
	if (connection->ends)
		return -EINVAL;
	return connection->state == RNIC_CM_NONE ? 0 : -EISCONN;
}

static bool rnic_cm_depths_valid(const struct rnic_dev *dev,
				 const struct iw_cm_conn_param *param)
{
	return param->ird <= dev->limits.max_ird &&
	       param->ord <= dev->limits.max_ord;
}

static int rnic_connect_locked(struct rnic_dev *dev, struct rnic_qp *qp,
			       struct iw_cm_id *cm_id,
			       const struct iw_cm_conn_param *param)
{
	struct rnic_connect_params connect = {
		.cookie = atomic64_inc_return(&dev->next_cookie),
		.qpn = qp->qpn,
		.ird = param->ird,
		.ord = param->ord,
		.tos = cm_id->tos_set ? cm_id->tos : 0,
		.private_data = param->private_data,
		.private_data_length = param->private_data_len,
	};
	int ret = rnic_connection_may_begin(&qp->connection);

	if (!ret)
		ret = rnic_cm_addr_set(&connect.local, &cm_id->m_local_addr);
	if (!ret)
		ret = rnic_cm_addr_set(&connect.remote, &cm_id->m_remote_addr);
	if (!ret)
		ret = rnic_cmd_cm_connect(dev, &connect);
	if (!ret)
		rnic_connection_begin(qp, RNIC_CM_CONNECTING, cm_id,
				      connect.cookie);
	return ret;
}

int rnic_iw_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct rnic_dev *dev = to_rnic_dev(cm_id->device);
	struct rnic_qp *qp = rnic_iw_named_qp(dev);
	int ret;

	if (!rnic_cm_depths_valid(dev, param))
		return -EINVAL;
	/* As soon as the lock is free, an event may end iw_cm's use of the QP. */
	rnic_ref_get(&qp->ref);
	mutex_lock(&qp->connection.lock);
	ret = rnic_connect_locked(dev, qp, cm_id, param);
	mutex_unlock(&qp->connection.lock);
	rnic_ref_put(&qp->ref);
	return ret;
}

static int rnic_accept_locked(struct rnic_dev *dev, struct rnic_qp *qp,
			      struct iw_cm_id *cm_id, u32 endpoint,
			      const struct iw_cm_conn_param *param)
{
	struct rnic_accept_params accept = {
		.cookie = atomic64_inc_return(&dev->next_cookie),
		.endpoint = endpoint,
		.qpn = qp->qpn,
		.ird = param->ird,
		.ord = param->ord,
		.private_data = param->private_data,
		.private_data_length = param->private_data_len,
	};
	int ret = rnic_connection_may_begin(&qp->connection);

	if (!ret)
		ret = rnic_cmd_cm_accept(dev, &accept);
	if (ret)
		return ret;
	rnic_connection_begin(qp, RNIC_CM_ACCEPTING, cm_id, accept.cookie);
	cm_id->provider_data = qp;
	return 0;
}

static int rnic_accept_endpoint(struct rnic_dev *dev, struct rnic_qp *qp,
				struct iw_cm_id *cm_id, u32 endpoint,
				const struct iw_cm_conn_param *param)
{
	int ret;

	if (!rnic_cm_depths_valid(dev, param))
		return -EINVAL;
	/* As in rnic_iw_connect(). */
	rnic_ref_get(&qp->ref);
	mutex_lock(&qp->connection.lock);
	ret = rnic_accept_locked(dev, qp, cm_id, endpoint, param);
	mutex_unlock(&qp->connection.lock);
	rnic_ref_put(&qp->ref);
	return ret;
}

/*
 * iw_cm lets its user accept or reject a request again until it has handled the
 * event ESTABLISHED. True: that event does not come any more, nor any other.
 */
static bool rnic_accept_cancel(struct rnic_qp *qp,
			       const struct iw_cm_id *cm_id)
{
	struct rnic_connection *connection = &qp->connection;
	bool found;

	mutex_lock(&connection->lock);
	found = connection->state == RNIC_CM_ACCEPTING &&
		connection->cm_id == cm_id;
	if (found) {
		rnic_connection_end(connection);
		if (!connection->ends)
			rnic_qp_give_up(qp);
	}
	mutex_unlock(&connection->lock);
	return found;
}

/* The stream, if it still is that of this cm_id, ends; iw_cm hears of that. */
static void rnic_accept_end_stream(struct rnic_qp *qp,
				   const struct iw_cm_id *cm_id)
{
	struct rnic_connection *connection = &qp->connection;

	mutex_lock(&connection->lock);
	if (!connection->ends && connection->cm_id == cm_id)
		rnic_qp_give_up(qp);
	mutex_unlock(&connection->lock);
}

/*
 * iw_cm takes a failure for the end of both accepts. When it waits for ESTABLISHED
 * it must not: this one succeeds, and its QP is the one that iw_cm lets go of when
 * the connection ends, which has to be soon, as the QP could not be destroyed before.
 * It has overwritten that of the accept before, and with it its reference.
 */
static int rnic_accept_again(struct iw_cm_id *cm_id, struct rnic_qp *qp)
{
	struct rnic_qp *before = cm_id->provider_data;
	bool cancelled = rnic_accept_cancel(before, cm_id);

	if (!cancelled)
		rnic_accept_end_stream(before, cm_id);
	rnic_ref_put(&before->ref);
	if (cancelled)
		return -ECONNRESET;
	cm_id->provider_data = qp;
	return 0;
}

int rnic_iw_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct rnic_dev *dev = to_rnic_dev(cm_id->device);
	struct rnic_qp *qp = rnic_iw_named_qp(dev);
	u32 endpoint;
	int ret;

	if (!xa_is_value(cm_id->provider_data))
		return rnic_accept_again(cm_id, qp);
	if (!rnic_request_take(dev, cm_id->provider_data, &endpoint))
		return -ECONNRESET;
	ret = rnic_accept_endpoint(dev, qp, cm_id, endpoint, param);
	/* iw_cm does not reject what it failed to accept. */
	if (ret)
		rnic_cmd_cm_reject(dev, endpoint, NULL, 0);
	return ret;
}

int rnic_iw_reject(struct iw_cm_id *cm_id, const void *data, u8 length)
{
	struct rnic_dev *dev = to_rnic_dev(cm_id->device);
	u32 endpoint;

	if (!xa_is_value(cm_id->provider_data)) {
		rnic_accept_cancel(cm_id->provider_data, cm_id);
		return -ECONNRESET;
	}
	if (!rnic_request_take(dev, cm_id->provider_data, &endpoint))
		return -ECONNRESET;
	return rnic_cmd_cm_reject(dev, endpoint, data, length);
}

/*
 * iw_cm waits for this event, and can fail to copy the private data. A connection
 * whose private data is lost has failed; a failure is told without it.
 */
static void rnic_iw_connect_reply(struct rnic_qp *qp, struct iw_cm_event *event)
{
	struct iw_cm_id *cm_id = qp->connection.cm_id;
	int ret = cm_id->event_handler(cm_id, event);

	if (!ret)
		return;
	if (!event->status) {
		rnic_qp_give_up(qp);
		event->status = ret;
	}
	event->private_data = NULL;
	event->private_data_len = 0;
	ret = cm_id->event_handler(cm_id, event);
	if (ret)
		ibdev_err(qp->ibqp.device,
			  "QP %#x: iw_cm takes no answer to connect: %d\n",
			  qp->qpn, ret);
}

static void rnic_cm_connect_reply(struct rnic_dev *dev, struct rnic_qp *qp,
				  const struct rnic_cm_event *from)
{
	struct rnic_connection *connection = &qp->connection;
	struct iw_cm_id *cm_id = connection->cm_id;
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REPLY,
		.status = rnic_cm_errno(from->status),
		.local_addr = cm_id->m_local_addr,
		.remote_addr = cm_id->m_remote_addr,
	};

	if (connection->state != RNIC_CM_CONNECTING)
		return;
	rnic_iw_set_private_data(&event, from);
	if (!event.status) {
		rnic_cm_addr_get(dev, &from->local, &event.local_addr);
		rnic_cm_addr_get(dev, &from->remote, &event.remote_addr);
		rnic_iw_set_read_depths(dev, &event, le16_to_cpu(from->ird),
					le16_to_cpu(from->ord));
	}
	rnic_iw_connect_reply(qp, &event);
	if (event.status)
		rnic_connection_end(connection);
	else
		connection->state = RNIC_CM_CONNECTED;
}

/* iw_cm cannot be told that an accept failed later, but that it was closed. */
static void rnic_connection_not_established(struct rnic_qp *qp, int status)
{
	struct rnic_connection *connection = &qp->connection;

	rnic_iw_event(connection->cm_id, IW_CM_EVENT_ESTABLISHED, status);
	rnic_iw_event(connection->cm_id, IW_CM_EVENT_CLOSE, -ECONNRESET);
	rnic_connection_end(connection);
}

static void rnic_cm_established(struct rnic_dev *dev, struct rnic_qp *qp,
				const struct rnic_cm_event *from)
{
	struct rnic_connection *connection = &qp->connection;
	struct iw_cm_id *cm_id = connection->cm_id;
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_ESTABLISHED,
		.local_addr = cm_id->m_local_addr,
		.remote_addr = cm_id->m_remote_addr,
	};

	if (connection->state != RNIC_CM_ACCEPTING)
		return;
	if (from->status) {
		rnic_qp_leave_idle(qp);
		rnic_connection_not_established(qp,
						rnic_cm_errno(from->status));
		return;
	}
	rnic_iw_set_read_depths(dev, &event, le16_to_cpu(from->ird),
				le16_to_cpu(from->ord));
	connection->state = RNIC_CM_CONNECTED;
	cm_id->event_handler(cm_id, &event);
}

static void rnic_cm_peer_close(struct rnic_qp *qp)
{
	struct rnic_connection *connection = &qp->connection;

	if (connection->state != RNIC_CM_CONNECTED)
		return;
	connection->state = RNIC_CM_PEER_CLOSED;
	WRITE_ONCE(qp->end_seen, true);
	rnic_iw_event(connection->cm_id, IW_CM_EVENT_DISCONNECT, 0);
}

static bool rnic_connected(const struct rnic_connection *connection)
{
	return connection->state == RNIC_CM_CONNECTED ||
	       connection->state == RNIC_CM_PEER_CLOSED;
}

static void rnic_cm_disconnected(struct rnic_qp *qp,
				 const struct rnic_cm_event *event)
{
	struct rnic_connection *connection = &qp->connection;
	bool clean = !event->status && !event->terminate;

	if (!rnic_connected(connection))
		return;
	rnic_qp_leave_idle(qp);
	rnic_iw_event(connection->cm_id, IW_CM_EVENT_CLOSE,
		      clean ? 0 : -ECONNRESET);
	rnic_connection_end(connection);
}

static void rnic_connection_event(struct rnic_dev *dev, struct rnic_qp *qp,
				  const struct rnic_cm_event *event)
{
	switch (event->type) {
	case RNIC_CM_CONNECT_REPLY:
		rnic_cm_connect_reply(dev, qp, event);
		break;
	case RNIC_CM_ESTABLISHED:
		rnic_cm_established(dev, qp, event);
		break;
	case RNIC_CM_PEER_CLOSE:
		rnic_cm_peer_close(qp);
		break;
	case RNIC_CM_DISCONNECTED:
		rnic_cm_disconnected(qp, event);
		break;
	}
}

/* A QP that was given up while it closed is in Idle now: see rnic_qp_to_error(). */
static void rnic_given_up_event(struct rnic_qp *qp,
				const struct rnic_cm_event *event)
{
	if (event->type == RNIC_CM_DISCONNECTED && READ_ONCE(qp->flushes))
		rnic_qp_leave_idle(qp);
}

static void rnic_cm_qp_event_locked(struct rnic_qp *qp,
				    const struct rnic_cm_event *event)
{
	struct rnic_connection *connection = &qp->connection;

	if (connection->ends)
		return;
	/* It is about an earlier connection of this QP. */
	if (connection->cookie != le64_to_cpu(event->cookie))
		return;
	if (connection->state == RNIC_CM_NONE)
		rnic_given_up_event(qp, event);
	else
		rnic_connection_event(to_rnic_dev(qp->ibqp.device), qp, event);
}

void rnic_cm_qp_event(struct rnic_qp *qp, const struct rnic_cm_event *event)
{
	mutex_lock(&qp->connection.lock);
	rnic_cm_qp_event_locked(qp, event);
	mutex_unlock(&qp->connection.lock);
}

void rnic_cm_event(struct rnic_dev *dev, const struct rnic_cm_event *event)
{
	struct rnic_qp *qp;

	ibdev_dbg(&dev->ibdev,
		  "connection event %u, status %u, QP %#x, endpoint %#x\n",
		  event->type, event->status, le32_to_cpu(event->qpn),
		  le32_to_cpu(event->endpoint));
	switch (event->type) {
	case RNIC_CM_CONNECT_REQUEST:
		rnic_cm_connect_request(dev, event);
		break;
	case RNIC_CM_REQUEST_GONE:
		rnic_cm_request_gone(dev, event);
		break;
	default:
		qp = rnic_qp_get(dev, le32_to_cpu(event->qpn));
		if (qp)
			rnic_cm_queue_event(dev, qp, event);
		break;
	}
}

/* False: it has not begun, or is established. */
static bool rnic_connection_fail_start(struct rnic_qp *qp)
{
	struct rnic_connection *connection = &qp->connection;

	lockdep_assert_held(&connection->lock);
	switch (connection->state) {
	case RNIC_CM_CONNECTING:
		rnic_iw_event(connection->cm_id, IW_CM_EVENT_CONNECT_REPLY,
			      -ECONNRESET);
		rnic_connection_end(connection);
		return true;
	case RNIC_CM_ACCEPTING:
		rnic_connection_not_established(qp, -ECONNRESET);
		return true;
	default:
		return false;
	}
}

void rnic_cm_abandon(struct rnic_qp *qp)
{
	struct rnic_connection *connection = &qp->connection;

	mutex_lock(&connection->lock);
	if (!rnic_connection_fail_start(qp) && rnic_connected(connection)) {
		rnic_iw_event(connection->cm_id, IW_CM_EVENT_CLOSE,
			      -ECONNRESET);
		rnic_connection_end(connection);
	}
	mutex_unlock(&connection->lock);
}

static void rnic_cm_set_ends(struct rnic_qp *qp, bool ends)
{
	mutex_lock(&qp->connection.lock);
	qp->connection.ends = ends;
	mutex_unlock(&qp->connection.lock);
}

void rnic_cm_qp_ends(struct rnic_qp *qp)
{
	rnic_cm_set_ends(qp, true);
}

/* The end of a connection that no event has told. */
static void rnic_cm_end_untold(struct rnic_qp *qp)
{
	struct rnic_connection *connection = &qp->connection;

	lockdep_assert_held(&connection->lock);
	rnic_qp_leave_idle(qp);
	rnic_iw_event(connection->cm_id, IW_CM_EVENT_CLOSE, -ECONNRESET);
	rnic_connection_end(connection);
}

/*
 * The events of the meantime were passed over: that the connection is made, and so
 * has to be given up, or that it has ended.
 */
void rnic_cm_qp_stays(struct rnic_qp *qp)
{
	struct rnic_connection *connection = &qp->connection;

	mutex_lock(&connection->lock);
	connection->ends = false;
	if (rnic_connection_fail_start(qp)) {
		rnic_qp_give_up(qp);
	} else if (rnic_connected(connection) &&
		   (rnic_failed(to_rnic_dev(qp->ibqp.device)) ||
		    rnic_qp_has_no_stream(qp))) {
		rnic_cm_end_untold(qp);
	}
	mutex_unlock(&connection->lock);
}

/* The device waits 10 s for TCP and 60 s for each of the peer's frames. */
#define RNIC_CM_START_TIMEOUT	(180 * HZ)

static bool rnic_cm_start_is_overdue(struct rnic_qp *qp)
{
	const struct rnic_connection *connection = &qp->connection;
	bool overdue;

	mutex_lock(&qp->connection.lock);
	overdue = (connection->state == RNIC_CM_CONNECTING ||
		   connection->state == RNIC_CM_ACCEPTING) &&
		  time_after(jiffies, connection->since +
				      RNIC_CM_START_TIMEOUT);
	mutex_unlock(&qp->connection.lock);
	return overdue;
}

/* Looks, two seconds apart, before which iw_cm must have been told of an end. */
#define RNIC_CM_END_CHECKS	5

static bool rnic_cm_is_streamless(struct rnic_qp *qp)
{
	struct rnic_connection *connection = &qp->connection;

	return !connection->ends && rnic_connected(connection) &&
	       !READ_ONCE(connection->num_events) && rnic_qp_has_no_stream(qp);
}

/*
 * The stream has left the QP, and no event says so: the device, or its queue that was
 * full, has lost DISCONNECTED. One that comes late is of no connection any more. Only a
 * QP that looks like that costs a command.
 */
static void rnic_cm_check_end(struct rnic_qp *qp)
{
	struct rnic_connection *connection = &qp->connection;

	if (!READ_ONCE(qp->end_seen))
		return;
	mutex_lock(&connection->lock);
	if (!rnic_cm_is_streamless(qp))
		connection->streamless = 0;
	else if (++connection->streamless > RNIC_CM_END_CHECKS)
		rnic_cm_end_untold(qp);
	mutex_unlock(&connection->lock);
}

void rnic_cm_check(struct rnic_dev *dev)
{
	struct rnic_qp *entry, *qp;
	unsigned long qpn;

	xa_for_each(&dev->qps, qpn, entry) {
		qp = rnic_qp_get(dev, qpn);
		if (!qp)
			continue;
		if (rnic_cm_start_is_overdue(qp))
			rnic_fail(dev, "it has lost a connection event");
		rnic_cm_check_end(qp);
		rnic_ref_put(&qp->ref);
	}
}

void rnic_cm_abandon_all(struct rnic_dev *dev)
{
	unsigned long qpn;
	struct rnic_qp *entry;

	xa_for_each(&dev->qps, qpn, entry) {
		struct rnic_qp *qp = rnic_qp_get(dev, qpn);

		if (!qp)
			continue;
		rnic_cm_abandon(qp);
		rnic_ref_put(&qp->ref);
	}
}
