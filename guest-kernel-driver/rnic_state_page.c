// SPDX-License-Identifier: GPL-2.0
/*
 * rnic: the pages in which processes read that the device has failed.
 *
 * Posting calls no system, and nothing hears the doorbells of a process whose
 * context is disassociated: without the page its posts would succeed for ever.
 * Each context has a page, which its processes map for reading. A mapping keeps
 * the page when the driver gives it up, so what it says stays.
 */

#include <linux/gfp.h>
#include <linux/mm.h>

#include "rnic.h"
#include "rnic-abi.h"
#include "rnic_state_page.h"
#include "rnic_verbs.h"

void rnic_state_pages_init(struct rnic_dev *dev)
{
	spin_lock_init(&dev->state_lock);
	INIT_LIST_HEAD(&dev->ucontexts);
}

struct rnic_state_page *rnic_state_page_alloc(void)
{
	return (void *)get_zeroed_page(GFP_KERNEL);
}

void rnic_state_page_free(struct rnic_state_page *page)
{
	free_page((unsigned long)page);
}

int rnic_state_page_map(struct rnic_state_page *page,
			struct vm_area_struct *vma)
{
	if (vma->vm_flags & VM_WRITE)
		return -EPERM;
	vm_flags_clear(vma, VM_MAYWRITE);
	return vm_insert_page(vma, vma->vm_start, virt_to_page(page));
}

void rnic_state_page_set_failed(struct rnic_state_page *page)
{
	WRITE_ONCE(page->failed, 1);
}

void rnic_state_page_add(struct rnic_dev *dev, struct rnic_ucontext *uc)
{
	unsigned long irq_flags;

	spin_lock_irqsave(&dev->state_lock, irq_flags);
	list_add(&uc->entry_of_dev, &dev->ucontexts);
	if (rnic_failed(dev))
		rnic_state_page_set_failed(uc->state);
	spin_unlock_irqrestore(&dev->state_lock, irq_flags);
}

void rnic_state_page_remove(struct rnic_dev *dev, struct rnic_ucontext *uc)
{
	unsigned long irq_flags;

	spin_lock_irqsave(&dev->state_lock, irq_flags);
	list_del(&uc->entry_of_dev);
	spin_unlock_irqrestore(&dev->state_lock, irq_flags);
}

void rnic_state_pages_set_failed(struct rnic_dev *dev)
{
	struct rnic_ucontext *uc;
	unsigned long irq_flags;

	spin_lock_irqsave(&dev->state_lock, irq_flags);
	list_for_each_entry(uc, &dev->ucontexts, entry_of_dev)
		rnic_state_page_set_failed(uc->state);
	spin_unlock_irqrestore(&dev->state_lock, irq_flags);
}
