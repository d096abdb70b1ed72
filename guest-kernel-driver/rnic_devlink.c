// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the devlink instance of a PCI function, and its health reporter "device".
 *
 * Both live as long as the driver has the function, over all its devices.
 * Operations run with the instance's lock, but for the dump of a report.
 *
 * The driver's own growing delays are between two attempts to recover, so the
 * reporter begins without a grace period. With automatic recovery the operation
 * only says so: the new device comes later.
 */

#include <linux/slab.h>
#include <net/devlink.h>

#include "rnic.h"
#include "rnic_devlink.h"
#include "rnic_failure.h"
#include "rnic_function.h"

struct rnic_devlink {
	struct rnic_function *function;
	struct devlink_health_reporter *reporter;
};

/* ------------------------------------------------------------ reporter */

/* The context is given by rnic_devlink_report() alone. */
static int rnic_reporter_recover(struct devlink_health_reporter *reporter,
				 void *context, struct netlink_ext_ack *extack)
{
	struct rnic_devlink *rnic_devlink =
		devlink_health_reporter_priv(reporter);
	bool *automatic = context;

	if (!automatic)
		return rnic_function_recover_now(rnic_devlink->function,
						 extack);
	*automatic = true;
	return -EINPROGRESS;
}

static int rnic_reporter_dump(struct devlink_health_reporter *reporter,
			      struct devlink_fmsg *fmsg, void *context,
			      struct netlink_ext_ack *extack)
{
	struct rnic_devlink *rnic_devlink =
		devlink_health_reporter_priv(reporter);
	struct rnic_failure_record *record =
		rnic_failure_last(rnic_function_failure(rnic_devlink->function));
	int ret = 0;

	if (IS_ERR(record))
		return PTR_ERR(record);
	if (record->count) {
		rnic_failure_put(record, fmsg);
	} else {
		NL_SET_ERR_MSG(extack, "the device has not failed yet");
		ret = -ENODATA;
	}
	kfree(record);
	return ret;
}

static const char *
rnic_reporter_state(const struct rnic_function_state *state)
{
	if (state->absent)
		return "not in use";
	return state->failed ? "failed" : "in service";
}

static void rnic_reporter_put_last(struct devlink_fmsg *fmsg,
				   const struct rnic_failure_record *record)
{
	devlink_fmsg_u32_pair_put(fmsg, "failures", record->count);
	if (!record->count)
		return;
	devlink_fmsg_string_pair_put(fmsg, "last_cause", record->why);
	devlink_fmsg_u32_pair_put(fmsg, "last_health", record->health);
	devlink_fmsg_u64_pair_put(fmsg, "last_ms_ago",
				  ktime_ms_delta(ktime_get(), record->when));
}

static int rnic_reporter_diagnose(struct devlink_health_reporter *reporter,
				  struct devlink_fmsg *fmsg,
				  struct netlink_ext_ack *extack)
{
	struct rnic_function *function =
		((struct rnic_devlink *)
		 devlink_health_reporter_priv(reporter))->function;
	struct rnic_failure_record *record =
		rnic_failure_last(rnic_function_failure(function));
	struct rnic_function_state state;

	if (IS_ERR(record))
		return PTR_ERR(record);
	rnic_function_describe(function, &state);
	devlink_fmsg_string_pair_put(fmsg, "state",
				     rnic_reporter_state(&state));
	rnic_reporter_put_last(fmsg, record);
	if (state.failed && state.next_try_ms >= 0)
		devlink_fmsg_u32_pair_put(fmsg, "next_attempt_ms",
					  state.next_try_ms);
	else if (state.failed)
		devlink_fmsg_string_pair_put(fmsg, "next_attempt_ms", "none");
	kfree(record);
	return 0;
}

/* A failure that the device has no part in. */
static int rnic_reporter_test(struct devlink_health_reporter *reporter,
			      struct netlink_ext_ack *extack)
{
	struct rnic_devlink *rnic_devlink =
		devlink_health_reporter_priv(reporter);

	rnic_function_fail(rnic_devlink->function, "a test asked for it");
	return 0;
}

static const struct devlink_health_reporter_ops rnic_reporter_ops = {
	.name = "device",
	.recover = rnic_reporter_recover,
	.dump = rnic_reporter_dump,
	.diagnose = rnic_reporter_diagnose,
	.test = rnic_reporter_test,
};

bool rnic_devlink_report(struct rnic_devlink *rnic_devlink, const char *why,
			 bool again)
{
	struct devlink *devlink = priv_to_devlink(rnic_devlink);
	bool automatic = false;
	int ret;

	/*
	 * A recovery by hand writes down that the reporter is healthy when its
	 * device has already started. If this is that device's failure, it comes
	 * after that.
	 */
	devl_lock(devlink);
	devl_unlock(devlink);
	ret = devlink_health_report(rnic_devlink->reporter, why, &automatic);
	/* The answer, while nothing has recovered, if recovery is automatic. */
	return automatic || (again && ret == -ECANCELED);
}

void rnic_devlink_set_healthy(struct rnic_devlink *rnic_devlink)
{
	const enum devlink_health_reporter_state healthy =
		DEVLINK_HEALTH_REPORTER_STATE_HEALTHY;

	devlink_health_reporter_state_update(rnic_devlink->reporter, healthy);
}

void rnic_devlink_count_recovery(struct rnic_devlink *rnic_devlink)
{
	devlink_health_reporter_recovery_done(rnic_devlink->reporter);
}

/* ------------------------------------------------------------ instance */

static int rnic_devlink_put_version(struct devlink_info_req *request,
				    const char *name, u32 version)
{
	char text[16];

	rnic_version_string(version, text, sizeof(text));
	return devlink_info_version_running_put(request, name, text);
}

static int rnic_devlink_info_get(struct devlink *devlink,
				 struct devlink_info_req *request,
				 struct netlink_ext_ack *extack)
{
	struct rnic_devlink *rnic_devlink = devlink_priv(devlink);
	struct rnic_function_state state;
	int ret;

	ret = rnic_devlink_put_driver_name(request);
	if (ret)
		return ret;
	rnic_function_describe(rnic_devlink->function, &state);
	/* None has started so far. */
	if (!state.abi_version)
		return 0;
	ret = rnic_devlink_put_version(request, DEVLINK_INFO_VERSION_GENERIC_FW,
				       state.hw_version);
	if (ret)
		return ret;
	return rnic_devlink_put_version(request, "abi", state.abi_version);
}

static int rnic_devlink_reload_down(struct devlink *devlink, bool netns_change,
				    enum devlink_reload_action action,
				    enum devlink_reload_limit limit,
				    struct netlink_ext_ack *extack)
{
	struct rnic_devlink *rnic_devlink = devlink_priv(devlink);

	if (netns_change) {
		NL_SET_ERR_MSG(extack, "the network namespace is fixed");
		return -EOPNOTSUPP;
	}
	/* Work that waits to report finds that there is nothing to do. */
	rnic_function_leave(rnic_devlink->function, RNIC_ABSENT_RELOAD,
			    "it is reloaded");
	return 0;
}

static int rnic_devlink_reload_up(struct devlink *devlink,
				  enum devlink_reload_action action,
				  enum devlink_reload_limit limit,
				  u32 *actions_performed,
				  struct netlink_ext_ack *extack)
{
	struct rnic_devlink *rnic_devlink = devlink_priv(devlink);
	int ret;

	ret = rnic_function_return(rnic_devlink->function, RNIC_ABSENT_RELOAD);
	if (ret) {
		rnic_function_failed(rnic_devlink->function);
		NL_SET_ERR_MSG(extack, "the device does not start");
		return ret;
	}
	if (rnic_function_is_absent(rnic_devlink->function)) {
		NL_SET_ERR_MSG(extack, "the PCI function is not in use");
		return -ENODEV;
	}
	*actions_performed = BIT(DEVLINK_RELOAD_ACTION_DRIVER_REINIT);
	return 0;
}

static const struct devlink_ops rnic_devlink_ops = {
	.reload_actions = BIT(DEVLINK_RELOAD_ACTION_DRIVER_REINIT),
	.reload_down = rnic_devlink_reload_down,
	.reload_up = rnic_devlink_reload_up,
	.info_get = rnic_devlink_info_get,
};

struct rnic_devlink *rnic_devlink_create(struct pci_dev *pdev,
					 struct rnic_function *function)
{
	struct devlink *devlink = devlink_alloc(&rnic_devlink_ops,
						sizeof(struct rnic_devlink),
						&pdev->dev);
	struct devlink_health_reporter *reporter;
	struct rnic_devlink *rnic_devlink;

	if (!devlink)
		return ERR_PTR(-ENOMEM);
	rnic_devlink = devlink_priv(devlink);
	rnic_devlink->function = function;
	reporter = rnic_devlink_reporter_create(devlink, &rnic_reporter_ops,
						rnic_devlink);
	if (IS_ERR(reporter)) {
		devlink_free(devlink);
		return ERR_CAST(reporter);
	}
	rnic_devlink->reporter = reporter;
	rnic_devlink_enable_reload(devlink);
	devlink_register(devlink);
	return rnic_devlink;
}

void rnic_devlink_free(struct rnic_devlink *rnic_devlink)
{
	struct devlink *devlink = priv_to_devlink(rnic_devlink);

	devlink_unregister(devlink);
	devlink_health_reporter_destroy(rnic_devlink->reporter);
	devlink_free(devlink);
}
