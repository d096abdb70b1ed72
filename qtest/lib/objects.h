/*
 * What exists in the device, as the commands given and answered say
 *
 * librnic tells of every command; at the end of a test everything is taken
 * away in order and the device asked whether it knows of anything else.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_OBJECTS_H
#define RNIC_QTEST_OBJECTS_H

#include "librnic.h"

struct RnicObjects {
    GHashTable *commands;       /* given and not answered: SQEs by id */
    GHashTable *alive;          /* "kind << 32 | number" */
};

RnicObjects *rnic_objects_new(void);
void rnic_objects_free(RnicObjects *objects);

void rnic_objects_given(RnicObjects *objects,
                        const struct rnic_admin_sqe *sqe);
void rnic_objects_answered(RnicObjects *objects,
                           const struct rnic_admin_cqe *cqe);
/* The device was reset. */
void rnic_objects_forget(RnicObjects *objects);

/*
 * Destroys everything; fails the test if a command is refused, or if the
 * device has an object left of which nobody knows.
 */
void rnic_objects_tear_down(Rnic *r);

#endif
