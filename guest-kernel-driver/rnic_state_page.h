/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: the pages in which processes read that the device has failed.
 */
#ifndef RNIC_STATE_PAGE_H
#define RNIC_STATE_PAGE_H

struct rnic_dev;
struct rnic_state_page;
struct rnic_ucontext;
struct vm_area_struct;

void rnic_state_pages_init(struct rnic_dev *dev);

/* NULL: no memory. May sleep. */
struct rnic_state_page *rnic_state_page_alloc(void);
/* Mappings keep the page. */
void rnic_state_page_free(struct rnic_state_page *page);
/* For reading only; else -EPERM. */
int rnic_state_page_map(struct rnic_state_page *page,
			struct vm_area_struct *vma);

/* From now on the page of the context says that the device has failed, or will. */
void rnic_state_page_add(struct rnic_dev *dev, struct rnic_ucontext *uc);
/* The context gives its page up. */
void rnic_state_page_remove(struct rnic_dev *dev, struct rnic_ucontext *uc);

void rnic_state_page_set_failed(struct rnic_state_page *page);
/* Those of all contexts, of a device that has RNIC_DEV_FAILED. In any context. */
void rnic_state_pages_set_failed(struct rnic_dev *dev);

#endif /* RNIC_STATE_PAGE_H */
