/*
 * rnic: tables from object numbers to objects
 *
 * Numbers run from 1 to the table's maximum; 0 names nothing.  Look-up is
 * O(1).  A freed number is handed out again as late as possible, so that a
 * stale number is noticed.  The table does not own the objects.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_OBJECT_TABLE_H
#define HW_RNIC_OBJECT_TABLE_H

#include "qemu/atomic.h"

typedef struct RnicObjectSlot {
    void *object;           /* NULL: free */
    uint32_t next_free;     /* number of the next free slot, 0: last */
} RnicObjectSlot;

typedef struct RnicObjectTable {
    RnicObjectSlot *slots;  /* of number n at n - 1 */
    uint32_t max;           /* most objects at once, at most 2^24 - 1 */
    uint32_t allocated;     /* slots that exist */
    uint32_t count;         /* objects */
    uint32_t first_free;    /* queue of free numbers */
    uint32_t last_free;
} RnicObjectTable;

void rnic_table_init(RnicObjectTable *t, uint32_t max);

/* Frees the table; it must hold no object any more. */
void rnic_table_cleanup(RnicObjectTable *t);

/* Enters @object (not NULL). Returns its number, 0 when the table is full. */
uint32_t rnic_table_insert(RnicObjectTable *t, void *object);

/*
 * What objects begin with that others use: while there are users, commands leave
 * such an object alone.
 */
typedef struct RnicObject {
    uint32_t number;            /* in its table */
    uint32_t users;             /* atomic */
} RnicObject;

/* Enters @object, which begins with an RnicObject.  False: the table is full. */
bool rnic_object_insert(RnicObjectTable *t, void *object);

/*
 * Of an object that begins with an RnicObject, or of NULL: 0, nothing.  Any thread;
 * to add a user, one that knows of another, or the one that owns the table.
 */
static inline uint32_t rnic_object_number(const void *object)
{
    return object ? ((const RnicObject *)object)->number : 0;
}

static inline void rnic_object_ref(void *object)
{
    if (object) {
        qatomic_inc(&((RnicObject *)object)->users);
    }
}

static inline void rnic_object_unref(void *object)
{
    if (object) {
        qatomic_dec(&((RnicObject *)object)->users);
    }
}

static inline bool rnic_object_in_use(const void *object)
{
    return qatomic_read(&((const RnicObject *)object)->users) > 0;
}

/* Takes the object out; @number must be in the table. */
void rnic_table_remove(RnicObjectTable *t, uint32_t number);

/* NULL for any number that names no object; any number may be asked. */
static inline void *rnic_table_get(const RnicObjectTable *t, uint32_t number)
{
    return number - 1 < t->allocated ? t->slots[number - 1].object : NULL;
}

/*
 * The first object with a number above @after, NULL if there is none; stores
 * its number.  Walks a table even when the body removes the object at hand.
 */
void *rnic_table_next(const RnicObjectTable *t, uint32_t after,
                      uint32_t *number);

#define RNIC_TABLE_FOREACH(t, number, object)                       \
    for (number = 0;                                                \
         (object = rnic_table_next((t), number, &number)) != NULL; )

#endif /* HW_RNIC_OBJECT_TABLE_H */
