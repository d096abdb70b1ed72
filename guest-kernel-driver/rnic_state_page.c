// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the page in which processes read that the device has failed.
 *
 * Posting calls no system, and a process whose context is disassociated rings
 * doorbells that nobody hears: without the page its posts would succeed for
 * ever. All processes that have the device open map the same page, for reading.
 * A mapping keeps the page when the driver gives it up, so what it says stays.
 */

#include <linux/gfp.h>
#include <linux/mm.h>

#include "rnic.h"
#include "rnic-abi.h"
#include "rnic_state_page.h"

int rnic_state_page_alloc(struct rnic_dev *dev)
{
	dev->state_page = (void *)get_zeroed_page(GFP_KERNEL);
	return dev->state_page ? 0 : -ENOMEM;
}

void rnic_state_page_free(struct rnic_dev *dev)
{
	free_page((unsigned long)dev->state_page);
}

void rnic_state_page_set_failed(struct rnic_dev *dev)
{
	WRITE_ONCE(dev->state_page->failed, 1);
}

int rnic_state_page_map(struct rnic_dev *dev, struct vm_area_struct *vma)
{
	if (vma->vm_flags & VM_WRITE)
		return -EPERM;
	vm_flags_clear(vma, VM_MAYWRITE);
	return vm_insert_page(vma, vma->vm_start,
			      virt_to_page(dev->state_page));
}
