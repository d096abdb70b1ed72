/*
 * rnic: tables from object numbers to objects
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "object-table.h"

void rnic_table_init(RnicObjectTable *t, uint32_t max)
{
    *t = (RnicObjectTable) { .max = max };
}

void rnic_table_cleanup(RnicObjectTable *t)
{
    assert(t->count == 0);
    g_free(t->slots);
    rnic_table_init(t, t->max);
}

static void table_append_free(RnicObjectTable *t, uint32_t number)
{
    t->slots[number - 1] = (RnicObjectSlot) { };
    if (t->last_free) {
        t->slots[t->last_free - 1].next_free = number;
    } else {
        t->first_free = number;
    }
    t->last_free = number;
}

static bool table_grow(RnicObjectTable *t)
{
    uint32_t old = t->allocated;
    uint32_t new = MIN(t->max, MAX(64, old * 2));

    if (new <= old) {
        return false;
    }
    t->slots = g_renew(RnicObjectSlot, t->slots, new);
    t->allocated = new;
    for (uint32_t i = old; i < new; i++) {
        table_append_free(t, i + 1);
    }
    return true;
}

uint32_t rnic_table_insert(RnicObjectTable *t, void *object)
{
    uint32_t number;

    assert(object);
    if (!t->first_free && !table_grow(t)) {
        return 0;
    }
    number = t->first_free;
    t->first_free = t->slots[number - 1].next_free;
    if (!t->first_free) {
        t->last_free = 0;
    }
    t->slots[number - 1] = (RnicObjectSlot) { .object = object };
    t->count++;
    return number;
}

bool rnic_object_insert(RnicObjectTable *t, void *object)
{
    ((RnicObject *)object)->number = rnic_table_insert(t, object);
    return rnic_object_number(object) != 0;
}

void rnic_table_remove(RnicObjectTable *t, uint32_t number)
{
    assert(rnic_table_get(t, number));
    table_append_free(t, number);
    t->count--;
}

void *rnic_table_next(const RnicObjectTable *t, uint32_t after,
                      uint32_t *number)
{
    for (uint32_t i = after; i < t->allocated; i++) {
        if (t->slots[i].object) {
            *number = i + 1;
            return t->slots[i].object;
        }
    }
    return NULL;
}
