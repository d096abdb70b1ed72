/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the PCI function, which outlives its devices.
 */
#ifndef RNIC_FUNCTION_H
#define RNIC_FUNCTION_H

struct rnic_function;

/* Its device has failed: it is replaced by a new one soon. Any context. */
void rnic_function_failed(struct rnic_function *function);

#endif /* RNIC_FUNCTION_H */
