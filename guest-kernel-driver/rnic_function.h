/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the PCI function, which outlives its devices.
 */
#ifndef RNIC_FUNCTION_H
#define RNIC_FUNCTION_H

#include <linux/types.h>

struct netlink_ext_ack;
struct pci_dev;
struct rnic_failure;
struct rnic_function;

/* Why there shall be no device for a while. */
enum rnic_function_absence {
	RNIC_ABSENT_PCI = 1 << 0,	/* not probed, asleep, in a reset */
	RNIC_ABSENT_RELOAD = 1 << 1,	/* between the halves of a reload */
	RNIC_ABSENT_SLEEP = 1 << 2,	/* the machine goes to sleep, or wakes */
};

/* What the driver knows. */
struct rnic_function_state {
	bool absent;
	bool failed;			/* and not back in service */
	int next_try_ms;		/* below zero: none is planned */
	/* Of the device, or of the last one there was. */
	u32 hw_version;
	u32 abi_version;
};

/* Without a device, absent because of PCI. Or an ERR_PTR(). */
struct rnic_function *rnic_function_create(struct pci_dev *pdev);
/* After it was left for good. */
void rnic_function_free(struct rnic_function *function);

/*
 * There is no device for this reason too, or no longer. To leave takes the device
 * away, with a cause as if it had failed: users in the kernel go on with the next
 * device then, and have some seconds to let go of this one. To return, when no reason
 * is left, starts one. Both sleep.
 */
void rnic_function_leave(struct rnic_function *function,
			 enum rnic_function_absence why, const char *cause);
int rnic_function_return(struct rnic_function *function,
			 enum rnic_function_absence why);

/* For RNIC_ABSENT_PCI, with nothing on its way either that could start a device. */
void rnic_function_leave_idle(struct rnic_function *function, const char *cause);
/* If this fails the function is tried again and again. */
void rnic_function_return_or_retry(struct rnic_function *function,
				   enum rnic_function_absence why);

/* At shutdown: the device stays, and does no more. Waits for some seconds at most. */
void rnic_function_silence(struct rnic_function *function);

/* Takes its device, if any, out of service. */
void rnic_function_fail(struct rnic_function *function, const char *why);
/* Its device has failed: it is replaced by a new one soon. Any context. */
void rnic_function_failed(struct rnic_function *function);

/* For devlink, which holds its instance's lock. */
int rnic_function_recover_now(struct rnic_function *function,
			      struct netlink_ext_ack *extack);
bool rnic_function_is_absent(struct rnic_function *function);
void rnic_function_describe(struct rnic_function *function,
			    struct rnic_function_state *state);
struct rnic_failure *rnic_function_failure(struct rnic_function *function);

#endif /* RNIC_FUNCTION_H */
