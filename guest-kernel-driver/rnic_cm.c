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
 * device may have used the number again.
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
}

void rnic_cm_free(struct rnic_dev *dev)
{
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

/* With iw_cm's reference: the QP could be gone when iw_cm calls iw_add_ref. */
struct ib_qp *rnic_iw_get_qp(struct ib_device *ibdev, int qpn)
{
	struct rnic_qp *qp = rnic_qp_get(to_rnic_dev(ibdev), qpn);

	return qp ? &qp->ibqp : NULL;
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
 * provider_data is the endpoint number below a sequence number.
 */
#define RNIC_ENDPOINT_BITS	24

static_assert(RNIC_OBJECT_NUMBER_MASK == (1u << RNIC_ENDPOINT_BITS) - 1);

static unsigned long rnic_request_sequence(struct rnic_dev *dev)
{
	unsigned long sequence = atomic64_inc_return(&dev->next_cookie);

	return sequence & (ULONG_MAX >> RNIC_ENDPOINT_BITS);
}

static int rnic_request_remember(struct rnic_dev *dev, u32 endpoint,
				 unsigned long *handle)
{
	unsigned long sequence = rnic_request_sequence(dev);

	*handle = sequence << RNIC_ENDPOINT_BITS | endpoint;
	return xa_err(xa_store(&dev->requests, endpoint, xa_mk_value(sequence),
			       GFP_KERNEL));
}

/* True once for each request, and only if the peer has not gone. */
static bool rnic_request_take(struct rnic_dev *dev, unsigned long handle,
			      u32 *endpoint)
{
	void *entry = xa_mk_value(handle >> RNIC_ENDPOINT_BITS);

	*endpoint = handle & RNIC_OBJECT_NUMBER_MASK;
	return xa_cmpxchg(&dev->requests, *endpoint, entry, NULL,
			  GFP_KERNEL) == entry;
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
	unsigned long handle;
	int ret;

	ret = rnic_request_remember(dev, endpoint, &handle);
	if (ret)
		return ret;
	event.provider_data = (void *)handle;
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
static void rnic_connection_begin(struct rnic_connection *connection,
				  enum rnic_cm_state state,
				  struct iw_cm_id *cm_id, u64 cookie)
{
	cm_id->add_ref(cm_id);
	connection->state = state;
	connection->cm_id = cm_id;
	connection->cookie = cookie;
	connection->since = jiffies;
}

static void rnic_connection_end(struct rnic_connection *connection)
{
	struct iw_cm_id *cm_id = connection->cm_id;

	connection->state = RNIC_CM_NONE;
	connection->cm_id = NULL;
	cm_id->rem_ref(cm_id);
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
	int ret;

	if (qp->connection.state != RNIC_CM_NONE)
		return -EISCONN;
	ret = rnic_cm_addr_set(&connect.local, &cm_id->m_local_addr);
	if (!ret)
		ret = rnic_cm_addr_set(&connect.remote, &cm_id->m_remote_addr);
	if (!ret)
		ret = rnic_cmd_cm_connect(dev, &connect);
	if (!ret)
		rnic_connection_begin(&qp->connection, RNIC_CM_CONNECTING,
				      cm_id, connect.cookie);
	return ret;
}

int rnic_iw_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct rnic_dev *dev = to_rnic_dev(cm_id->device);
	struct rnic_qp *qp;
	int ret;

	if (!rnic_cm_depths_valid(dev, param))
		return -EINVAL;
	qp = rnic_qp_get(dev, param->qpn);
	if (!qp)
		return -EINVAL;
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
	int ret;

	if (qp->connection.state != RNIC_CM_NONE)
		return -EISCONN;
	ret = rnic_cmd_cm_accept(dev, &accept);
	if (!ret)
		rnic_connection_begin(&qp->connection, RNIC_CM_ACCEPTING,
				      cm_id, accept.cookie);
	return ret;
}

static int rnic_accept_endpoint(struct rnic_dev *dev, struct iw_cm_id *cm_id,
				u32 endpoint,
				const struct iw_cm_conn_param *param)
{
	struct rnic_qp *qp;
	int ret;

	if (!rnic_cm_depths_valid(dev, param))
		return -EINVAL;
	qp = rnic_qp_get(dev, param->qpn);
	if (!qp)
		return -EINVAL;
	mutex_lock(&qp->connection.lock);
	ret = rnic_accept_locked(dev, qp, cm_id, endpoint, param);
	mutex_unlock(&qp->connection.lock);
	rnic_ref_put(&qp->ref);
	return ret;
}

/* True: the QP has an accept of this cm_id in progress, and had. */
static bool rnic_accept_cancel_of(struct rnic_qp *qp,
				  const struct iw_cm_id *cm_id)
{
	struct rnic_connection *connection = &qp->connection;
	bool found;

	mutex_lock(&connection->lock);
	found = connection->state == RNIC_CM_ACCEPTING &&
		connection->cm_id == cm_id;
	if (found) {
		rnic_connection_end(connection);
		rnic_qp_give_up(qp);
	}
	mutex_unlock(&connection->lock);
	return found;
}

/*
 * iw_cm lets its user accept or reject a request that is being accepted, and takes
 * the failure for the end of both: no event of the first accept may come any more.
 * The QP of that accept, with a reference; NULL: there is none.
 */
static struct rnic_qp *rnic_accept_cancel(struct rnic_dev *dev,
					  const struct iw_cm_id *cm_id)
{
	struct rnic_qp *entry, *qp;
	unsigned long qpn;

	xa_for_each(&dev->qps, qpn, entry) {
		qp = rnic_qp_get(dev, qpn);
		if (!qp)
			continue;
		if (rnic_accept_cancel_of(qp, cm_id))
			return qp;
		rnic_ref_put(&qp->ref);
	}
	return NULL;
}

/* iw_cm has overwritten the QP of the first accept, and its reference. */
static int rnic_accept_again(struct rnic_dev *dev, struct iw_cm_id *cm_id)
{
	struct rnic_qp *qp = rnic_accept_cancel(dev, cm_id);

	if (qp) {
		rnic_ref_put(&qp->ref);
		rnic_ref_put(&qp->ref);
	}
	return -ECONNRESET;
}

static int rnic_reject_accepted(struct rnic_dev *dev, struct iw_cm_id *cm_id)
{
	struct rnic_qp *qp = rnic_accept_cancel(dev, cm_id);

	if (qp)
		rnic_ref_put(&qp->ref);
	return -ECONNRESET;
}

int rnic_iw_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct rnic_dev *dev = to_rnic_dev(cm_id->device);
	u32 endpoint;
	int ret;

	if (!rnic_request_take(dev, (unsigned long)cm_id->provider_data,
			       &endpoint))
		return rnic_accept_again(dev, cm_id);
	ret = rnic_accept_endpoint(dev, cm_id, endpoint, param);
	/* iw_cm does not reject what it failed to accept. */
	if (ret)
		rnic_cmd_cm_reject(dev, endpoint, NULL, 0);
	return ret;
}

int rnic_iw_reject(struct iw_cm_id *cm_id, const void *data, u8 length)
{
	struct rnic_dev *dev = to_rnic_dev(cm_id->device);
	u32 endpoint;

	if (!rnic_request_take(dev, (unsigned long)cm_id->provider_data,
			       &endpoint))
		return rnic_reject_accepted(dev, cm_id);
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

void rnic_cm_qp_event(struct rnic_qp *qp, const struct rnic_cm_event *event)
{
	mutex_lock(&qp->connection.lock);
	/* Else it is about an earlier connection of this QP. */
	if (qp->connection.state != RNIC_CM_NONE &&
	    qp->connection.cookie == le64_to_cpu(event->cookie))
		rnic_connection_event(to_rnic_dev(qp->ibqp.device), qp, event);
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

void rnic_cm_abandon_start(struct rnic_qp *qp)
{
	mutex_lock(&qp->connection.lock);
	if (rnic_connection_fail_start(qp))
		rnic_qp_give_up(qp);
	mutex_unlock(&qp->connection.lock);
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
