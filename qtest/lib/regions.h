/*
 * A connection and regions of every kind of right, for tests of errors
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_REGIONS_H
#define RNIC_QTEST_REGIONS_H

#include "connection.h"

typedef struct World {
    Connection *c;
    RnicMr read_only;           /* local and remote read */
    RnicMr write_only;          /* local and remote write */
    RnicMr local;               /* no remote right */
    RnicMr foreign;             /* all rights, another PD */
    RnicMr gone;                /* deallocated */
    RnicMr broken;              /* all rights, pages that are nowhere */
    uint8_t bad[2048];          /* the ULPDU that should be complained of */
    size_t bad_length;
} World;

/* A connection prepared with @options, not established. */
void world_init(World *w, const ConnectionOptions *options);
void world_cleanup(World *w);

#endif
