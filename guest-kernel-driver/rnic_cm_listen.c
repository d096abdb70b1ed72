// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: listening for connections.
 *
 * The device listens on addresses, and may not be able to listen on all there
 * are: what is any address here is not any address of the host. Listening on
 * any address is listening on those that the interface and its VLANs have, as they
 * come and go. Those that the device has no use for are left out. rdma_cm takes a
 * VLAN's for the interface's, but no macvlan's or bridge's.
 */

#include <linux/slab.h>
#include <net/ipv6.h>

#include "rnic_addresses.h"
#include "rnic_cm_addr.h"
#include "rnic_cm_listen.h"
#include "rnic_commands.h"
#include "rnic_health.h"

/* What the device listens on for a listener. */
struct rnic_listen_endpoint {
	struct list_head list;
	struct rnic_cm_addr addr;
	u32 number;
};

static bool rnic_is_wildcard(const struct sockaddr_storage *address)
{
	struct rnic_cm_addr addr;

	return !rnic_cm_addr_set(&addr, address) &&
	       !memchr_inv(addr.ip, 0, sizeof(addr.ip));
}

/* Of a listener on any address: whether it may listen on this one. */
static bool rnic_listener_has_family(const struct iw_cm_id *cm_id,
				     const struct rnic_cm_addr *local)
{
	bool ipv4 = ipv6_addr_v4mapped((const struct in6_addr *)local->ip);

	if (cm_id->m_local_addr.ss_family == AF_INET)
		return ipv4;
	return !ipv4 || !cm_id->afonly;
}

static bool rnic_listener_is_at(const struct rnic_listener *listener,
				const struct rnic_cm_addr *local)
{
	const struct iw_cm_id *cm_id = listener->cm_id;
	struct rnic_cm_addr addr;

	if (rnic_cm_addr_set(&addr, &cm_id->m_local_addr) ||
	    addr.port != local->port)
		return false;
	if (rnic_is_wildcard(&cm_id->m_local_addr))
		return rnic_listener_has_family(cm_id, local);
	return !memcmp(addr.ip, local->ip, sizeof(addr.ip));
}

static struct rnic_listener *rnic_listener_find(struct rnic_dev *dev,
						u64 cookie)
{
	struct rnic_listener *listener = NULL;

	xa_lock(&dev->listeners);
	if (cookie <= ULONG_MAX)
		listener = xa_load(&dev->listeners, cookie);
	if (listener && !rnic_ref_tryget(&listener->ref))
		listener = NULL;
	xa_unlock(&dev->listeners);
	return listener;
}

struct rnic_listener *rnic_listener_get(struct rnic_dev *dev, u64 cookie,
					const struct rnic_cm_addr *local)
{
	struct rnic_listener *listener = rnic_listener_find(dev, cookie);

	if (!listener || rnic_listener_is_at(listener, local))
		return listener;
	rnic_ref_put(&listener->ref);
	return NULL;
}

static int rnic_listen_on(struct rnic_dev *dev, struct rnic_listener *listener,
			  const struct rnic_cm_addr *addr, int backlog)
{
	const struct iw_cm_id *cm_id = listener->cm_id;
	struct rnic_listen_endpoint *endpoint;
	int ret;

	endpoint = kzalloc(sizeof(*endpoint), GFP_KERNEL);
	if (!endpoint)
		return -ENOMEM;
	endpoint->addr = *addr;
	ret = rnic_cmd_cm_listen(dev, listener->cookie, addr, backlog,
				 cm_id->tos_set ? cm_id->tos : 0,
				 &endpoint->number);
	if (ret)
		kfree(endpoint);
	else
		list_add(&endpoint->list, &listener->endpoints);
	return ret;
}

static void rnic_listen_end(struct rnic_dev *dev,
			    struct rnic_listen_endpoint *endpoint)
{
	if (rnic_cmd_cm_unlisten(dev, endpoint->number))
		rnic_fail(dev, "it would not stop listening");
	list_del(&endpoint->list);
	kfree(endpoint);
}

static void rnic_listen_end_all(struct rnic_dev *dev,
				struct rnic_listener *listener)
{
	struct rnic_listen_endpoint *endpoint, *next;

	list_for_each_entry_safe(endpoint, next, &listener->endpoints, list)
		rnic_listen_end(dev, endpoint);
}

/*
 * --------------------------------------------- listening on any address
 */
/* Those that a listener on any address listens on. */
static void rnic_addresses_wanted(struct rnic_dev *dev,
				  const struct iw_cm_id *cm_id,
				  struct rnic_address_list *list)
{
	sa_family_t family = cm_id->m_local_addr.ss_family;

	if (family == AF_INET6) {
		rnic_addresses_ipv6(dev->netdev, list);
		rnic_vlan_addresses(dev->netdev, AF_INET6, list);
	}
	if (family == AF_INET || !cm_id->afonly) {
		rnic_addresses_ipv4(dev->netdev, list);
		rnic_vlan_addresses(dev->netdev, AF_INET, list);
	}
}

static bool rnic_address_listed(const struct rnic_address_list *list,
				const struct rnic_cm_addr *addr)
{
	unsigned int i;

	for (i = 0; i < list->count; i++)
		if (!memcmp(&list->addr[i], addr->ip, sizeof(addr->ip)))
			return true;
	return false;
}

static bool rnic_listens_on(const struct rnic_listener *listener,
			    const struct in6_addr *addr)
{
	const struct rnic_listen_endpoint *endpoint;

	list_for_each_entry(endpoint, &listener->endpoints, list)
		if (!memcmp(endpoint->addr.ip, addr, sizeof(*addr)))
			return true;
	return false;
}

/* The first error other than that an address is not for the device. */
static int rnic_listen_follow(struct rnic_dev *dev,
			      struct rnic_listener *listener,
			      const struct rnic_address_list *list,
			      int backlog)
{
	struct rnic_listen_endpoint *endpoint, *next;
	struct rnic_cm_addr addr;
	unsigned int i;
	int first;
	int ret;

	list_for_each_entry_safe(endpoint, next, &listener->endpoints, list)
		if (!rnic_address_listed(list, &endpoint->addr))
			rnic_listen_end(dev, endpoint);
	/* The port is that of the listener. */
	first = rnic_cm_addr_set(&addr, &listener->cm_id->m_local_addr);
	if (first)
		return first;
	for (i = 0; i < list->count; i++) {
		if (rnic_listens_on(listener, &list->addr[i]))
			continue;
		memcpy(addr.ip, &list->addr[i], sizeof(addr.ip));
		ret = rnic_listen_on(dev, listener, &addr, backlog);
		if (ret && ret != -EADDRNOTAVAIL && !first)
			first = ret;
	}
	return first;
}

static int rnic_listen_on_any(struct rnic_dev *dev,
			      struct rnic_listener *listener, int backlog)
{
	struct rnic_address_list list;
	int ret = -ENOMEM;

	rnic_addresses_begin(&list);
	rnic_addresses_wanted(dev, listener->cm_id, &list);
	if (!list.incomplete)
		ret = rnic_listen_follow(dev, listener, &list, backlog);
	rnic_addresses_end(&list);
	return ret;
}

/* Between tries to listen where the device, or a lack of memory, has refused it. */
#define RNIC_LISTEN_INTERVAL	(8 * HZ)

static void rnic_listen_work(struct work_struct *work)
{
	struct rnic_dev *dev = container_of(work, struct rnic_dev,
					    listen_work);
	struct rnic_listener *listener;
	unsigned long cookie;
	bool again = false;

	mutex_lock(&dev->listen_lock);
	xa_for_each(&dev->listeners, cookie, listener) {
		if (!rnic_is_wildcard(&listener->cm_id->m_local_addr) ||
		    !rnic_listen_on_any(dev, listener, listener->backlog))
			continue;
		if (!dev->listen_again)
			ibdev_warn_ratelimited(&dev->ibdev,
					       "cannot listen on a new address yet\n");
		again = true;
	}
	WRITE_ONCE(dev->listen_tried, jiffies);
	WRITE_ONCE(dev->listen_again, again);
	mutex_unlock(&dev->listen_lock);
}

void rnic_listen_addresses_changed(struct rnic_dev *dev)
{
	/* Its commands may take their time. */
	queue_work(system_long_wq, &dev->listen_work);
}

void rnic_listeners_check(struct rnic_dev *dev)
{
	if (READ_ONCE(dev->listen_again) &&
	    time_after(jiffies, READ_ONCE(dev->listen_tried) +
				RNIC_LISTEN_INTERVAL))
		rnic_listen_addresses_changed(dev);
}

/*
 * --------------------------------------------------------- operations
 */
static int rnic_listen_begin(struct rnic_dev *dev,
			     struct rnic_listener *listener)
{
	struct iw_cm_id *cm_id = listener->cm_id;
	struct rnic_cm_addr local;
	int ret;

	ret = rnic_cm_addr_set(&local, &cm_id->m_local_addr);
	if (ret)
		return ret;
	if (rnic_is_wildcard(&cm_id->m_local_addr))
		return rnic_listen_on_any(dev, listener, listener->backlog);
	return rnic_listen_on(dev, listener, &local, listener->backlog);
}

/* Ends it for good: nothing finds it any more. */
static void rnic_listener_free(struct rnic_dev *dev,
			       struct rnic_listener *listener)
{
	mutex_lock(&dev->listen_lock);
	xa_erase(&dev->listeners, listener->cookie);
	rnic_listen_end_all(dev, listener);
	mutex_unlock(&dev->listen_lock);
	rnic_ref_drain(&listener->ref);
	listener->cm_id->rem_ref(listener->cm_id);
	kfree(listener);
}

/*
 * The device may have events for a listener that has ended: a cookie is not used
 * again.
 */
static int rnic_listener_insert(struct rnic_dev *dev,
				struct rnic_listener *listener)
{
	unsigned long cookie = ++dev->last_listener;
	int ret;

	lockdep_assert_held(&dev->listen_lock);
	ret = xa_insert(&dev->listeners, cookie, listener, GFP_KERNEL);
	if (!ret)
		listener->cookie = cookie;
	return ret;
}

int rnic_iw_create_listen(struct iw_cm_id *cm_id, int backlog)
{
	struct rnic_dev *dev = to_rnic_dev(cm_id->device);
	struct rnic_listener *listener;
	int ret;

	listener = kzalloc(sizeof(*listener), GFP_KERNEL);
	if (!listener)
		return -ENOMEM;
	rnic_ref_init(&listener->ref);
	INIT_LIST_HEAD(&listener->endpoints);
	listener->cm_id = cm_id;
	listener->backlog = backlog;
	cm_id->add_ref(cm_id);
	cm_id->provider_data = listener;

	mutex_lock(&dev->listen_lock);
	ret = rnic_listener_insert(dev, listener);
	if (!ret)
		ret = rnic_listen_begin(dev, listener);
	mutex_unlock(&dev->listen_lock);
	if (ret)
		rnic_listener_free(dev, listener);
	return ret;
}

int rnic_iw_destroy_listen(struct iw_cm_id *cm_id)
{
	rnic_listener_free(to_rnic_dev(cm_id->device), cm_id->provider_data);
	return 0;
}

void rnic_listen_init(struct rnic_dev *dev)
{
	mutex_init(&dev->listen_lock);
	xa_init(&dev->listeners);
	INIT_WORK(&dev->listen_work, rnic_listen_work);
}

void rnic_listen_stop(struct rnic_dev *dev)
{
	cancel_work_sync(&dev->listen_work);
}

void rnic_listen_free(struct rnic_dev *dev)
{
	xa_destroy(&dev->listeners);
}
