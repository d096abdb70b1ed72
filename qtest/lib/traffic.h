/*
 * Traffic on a stream that goes on by itself, in threads of the test
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_TRAFFIC_H
#define RNIC_QTEST_TRAFFIC_H

/*
 * A thread that reads what comes at some sockets and forgets it, until
 * drain_free(). The sockets stay the caller's; the end of a stream is no error.
 */
typedef struct Drain Drain;

Drain *drain_new(const int *fds, unsigned count);
uint64_t drain_octets(Drain *drain);
void drain_free(Drain *drain);

/*
 * A thread that sends the same @length octets again and again, until
 * pump_free(), which lets it finish the block under way if the stream still
 * takes octets. @block is copied.
 */
typedef struct Pump Pump;

Pump *pump_new(int fd, const void *block, size_t length);
/* Whole blocks sent. */
uint64_t pump_blocks(Pump *pump);
/* No new block is begun; the one under way may still be. */
void pump_stop(Pump *pump);
void pump_free(Pump *pump);

#endif
