// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kverbs_check: checks what an RNIC's driver offers to the kernel: Fast-Register,
 * invalidation in all its forms, RDMA Read and Write, draining.
 *
 *	modprobe kverbs_check role=server address=10.77.0.1
 *	modprobe kverbs_check role=client address=10.77.0.1
 *
 * Both return at once; /sys/module/kverbs_check/parameters/result says
 * "running", "passed" or "failed: why". The module can be removed at any time.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/inet.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "kverbs.h"
#include "stale.h"
#include "transfer.h"

static char *role = "server";
module_param(role, charp, 0444);
MODULE_PARM_DESC(role, "server or client");

static char *address = "";
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "the server's address");

static char *port = "7475";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "the server's port");

static char *mode = "transfer";
module_param(mode, charp, 0444);
MODULE_PARM_DESC(mode, "transfer: move data; stale: use STags that are no more");

static char *poll = "workqueue";
module_param(poll, charp, 0444);
MODULE_PARM_DESC(poll, "who polls the CQ: workqueue, softirq or direct");

static uint iterations = 100000;
module_param(iterations, uint, 0444);
MODULE_PARM_DESC(iterations, "client: how many times data is moved");

static uint connections = 1;
module_param(connections, uint, 0444);
MODULE_PARM_DESC(connections, "client: how many times all that is done, each time on a new connection");

static unsigned long long seed;
module_param(seed, ullong, 0444);
MODULE_PARM_DESC(seed, "client: of the random numbers (0: any)");

static uint max_size = 65536;
module_param(max_size, uint, 0444);
MODULE_PARM_DESC(max_size, "client: octets of the largest RDMA operation");

static uint slots = 16;
module_param(slots, uint, 0444);
MODULE_PARM_DESC(slots, "client: operations under way at once, per direction");

/* ----------------------------------------------------------------- result */

static struct kverbs_test test;
static bool done;		/* the test is over, see test.failed */

void kverbs_fail(struct kverbs_test *test, const char *format, ...)
{
	unsigned long irq_flags;
	bool first;
	va_list args;

	spin_lock_irqsave(&test->lock, irq_flags);
	first = !test->failed;
	if (first) {
		va_start(args, format);
		vscnprintf(test->why, sizeof(test->why), format, args);
		va_end(args);
		kverbs_raise(test, &test->failed);
	}
	spin_unlock_irqrestore(&test->lock, irq_flags);
	if (first)
		pr_info("failed: %s\n", test->why);
}

static int get_result(char *buffer, const struct kernel_param *param)
{
	if (!kverbs_raised(&done))
		return sysfs_emit(buffer, "running\n");
	if (test.failed)
		return sysfs_emit(buffer, "failed: %s\n", test.why);
	return sysfs_emit(buffer, "passed\n");
}

static const struct kernel_param_ops result_ops = {
	.get = get_result,
};

module_param_cb(result, &result_ops, NULL, 0444);
MODULE_PARM_DESC(result, "running, passed or failed: why");

/* ------------------------------------------------------------------ roles */

static struct kverbs_endpoint listener;
static struct sockaddr_storage where;
static bool client;

static bool params_good(const struct kverbs_params *p)
{
	return p->iterations && p->slots && p->slots <= KVERBS_MAX_SLOTS &&
	       p->max_size && p->max_size <= KVERBS_MAX_SIZE;
}

/* The client's, as the connect request says them. */
static int take_params(struct kverbs_transfer *t)
{
	const struct kverbs_hello *hello = &t->ep.hello;

	t->params.seed = be64_to_cpu(hello->seed);
	t->params.iterations = be32_to_cpu(hello->iterations);
	t->params.max_size = be32_to_cpu(hello->max_size);
	t->params.slots = be32_to_cpu(hello->slots);
	t->last = be32_to_cpu(hello->last);
	if (hello->magic == cpu_to_be32(KVERBS_MAGIC) &&
	    hello->mode == cpu_to_be32(KVERBS_TRANSFER) &&
	    params_good(&t->params))
		return 0;
	kverbs_fail(&test, "the client wants something else");
	return -EPROTO;
}

/* Sets *last if no other connection follows. */
static int run_connection(struct kverbs_transfer *t, u32 number, bool *last)
{
	int ret;

	memset(t, 0, sizeof(*t));
	t->params = test.params;
	if (client) {
		t->params.seed += number;
		t->last = number + 1 == connections;
		ret = kverbs_resolve(&t->ep, &test, (struct sockaddr *)&where);
	} else {
		ret = kverbs_take_request(&listener, &t->ep);
		if (!ret)
			ret = take_params(t);
	}
	*last = t->last;
	if (ret)
		kverbs_free_endpoint(&t->ep);
	else
		ret = kverbs_transfer(t, client);
	return ret;
}

static int run_transfer(void)
{
	struct kverbs_transfer *t = kzalloc(sizeof(*t), GFP_KERNEL);
	bool last = false;
	u32 number;
	int ret = 0;

	if (!t)
		return -ENOMEM;
	for (number = 0; !ret && !last; number++)
		ret = run_connection(t, number, &last);
	kfree(t);
	return ret;
}

static int run_stale(void)
{
	struct kverbs_stale *s = kzalloc(sizeof(*s), GFP_KERNEL);
	int ret;

	if (!s)
		return -ENOMEM;
	if (client)
		ret = kverbs_stale_connect(s, &test, (struct sockaddr *)&where);
	else
		ret = kverbs_stale_serve(s, &listener);
	kfree(s);
	return ret;
}

static int run(void *unused)
{
	int ret;

	if (test.params.mode == KVERBS_STALE)
		ret = run_stale();
	else
		ret = run_transfer();
	if (ret)
		kverbs_fail(&test, "error %d", ret);
	kverbs_free_endpoint(&listener);
	kverbs_raise(&test, &done);
	/* Others than kverbs_wait(): it does not end with a failure. */
	wait_event_idle(test.wait, kthread_should_stop());
	return 0;
}

/* ------------------------------------------------------------- the module */

static int parse_poll(void)
{
	if (!strcmp(poll, "workqueue"))
		test.params.poll = IB_POLL_WORKQUEUE;
	else if (!strcmp(poll, "softirq"))
		test.params.poll = IB_POLL_SOFTIRQ;
	else if (!strcmp(poll, "direct"))
		test.params.poll = IB_POLL_DIRECT;
	else
		return -EINVAL;
	return 0;
}

static int parse(void)
{
	client = !strcmp(role, "client");
	test.params.mode = strcmp(mode, "stale") ? KVERBS_TRANSFER :
						   KVERBS_STALE;
	test.params.iterations = iterations;
	test.params.seed = seed ?: get_random_u32();
	test.params.max_size = max_size;
	test.params.slots = slots;
	if (parse_poll() || !params_good(&test.params) || !connections ||
	    (!client && strcmp(role, "server")) ||
	    (test.params.mode == KVERBS_TRANSFER && strcmp(mode, "transfer")) ||
	    /* The thread is where this one would poll from. */
	    (test.params.mode == KVERBS_STALE &&
	     test.params.poll == IB_POLL_DIRECT))
		return -EINVAL;
	return inet_pton_with_scope(&init_net, AF_UNSPEC, address, port,
				    &where);
}

static struct task_struct *thread;

static int __init kverbs_init(void)
{
	int ret = parse();

	if (ret)
		return ret;
	init_waitqueue_head(&test.wait);
	spin_lock_init(&test.lock);
	if (client && test.params.mode == KVERBS_TRANSFER)
		pr_info("seed %llu\n", test.params.seed);
	if (!client)
		ret = kverbs_listen(&listener, &test,
				    (struct sockaddr *)&where);
	if (ret)
		goto err_free;
	thread = kthread_run(run, NULL, "kverbs_check");
	if (!IS_ERR(thread))
		return 0;
	ret = PTR_ERR(thread);

err_free:
	kverbs_free_endpoint(&listener);
	return ret;
}

static void __exit kverbs_exit(void)
{
	kthread_stop(thread);
}

module_init(kverbs_init);
module_exit(kverbs_exit);

MODULE_DESCRIPTION("Checks of kernel verbs over two RNICs");
MODULE_LICENSE("GPL");
