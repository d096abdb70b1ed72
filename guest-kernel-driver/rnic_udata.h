/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rnic: what processes send along with uverbs commands, by the rules at the
 * head of rnic-abi.h.
 */
#ifndef RNIC_UDATA_H
#define RNIC_UDATA_H

#include <linux/uaccess.h>
#include <rdma/ib_verbs.h>

#include "rnic-abi.h"

/* Padded with zeroes if shorter; refused if longer and the tail is not zero. */
static inline int rnic_udata_read(struct ib_udata *udata, void *request,
				  size_t size)
{
	size_t given = udata->inlen;

	if (given > size &&
	    !ib_is_udata_cleared(udata, size, given - size))
		return -EOPNOTSUPP;
	memset(request, 0, size);
	return ib_copy_from_udata(request, udata, min(given, size)) ?
		-EFAULT : 0;
}

/* What the process has more room for is zero. */
static inline int rnic_udata_clear(struct ib_udata *udata, size_t from)
{
	if (udata->outlen <= from)
		return 0;
	return clear_user(udata->outbuf + from, udata->outlen - from) ?
		-EFAULT : 0;
}

/* For commands that the provider adds nothing to, and the driver answers nothing. */
static inline int rnic_udata_none(struct ib_udata *udata)
{
	if (!udata)
		return 0;
	if (udata->inlen && !ib_is_udata_cleared(udata, 0, udata->inlen))
		return -EOPNOTSUPP;
	return rnic_udata_clear(udata, 0);
}

/* Cut to the room that the process gave. */
static inline int rnic_udata_answer(struct ib_udata *udata, void *response,
				    size_t size)
{
	if (ib_copy_to_udata(udata, response, min(udata->outlen, size)))
		return -EFAULT;
	return rnic_udata_clear(udata, size);
}

#endif /* RNIC_UDATA_H */
