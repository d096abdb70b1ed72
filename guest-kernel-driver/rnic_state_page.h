/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the page in which processes read that the device has failed.
 */
#ifndef RNIC_STATE_PAGE_H
#define RNIC_STATE_PAGE_H

#include <linux/types.h>

struct rnic_dev;
struct vm_area_struct;

/* 0 or -ENOMEM. May sleep. */
int rnic_state_page_alloc(struct rnic_dev *dev);
/* Mappings keep the page. Also without an allocation. */
void rnic_state_page_free(struct rnic_dev *dev);
/* In any context. */
void rnic_state_page_set_failed(struct rnic_dev *dev);
/* For reading only; else -EPERM. */
int rnic_state_page_map(struct rnic_dev *dev, struct vm_area_struct *vma);

#endif /* RNIC_STATE_PAGE_H */
