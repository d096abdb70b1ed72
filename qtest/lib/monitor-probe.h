/*
 * How long QEMU's main loop is held: a second monitor that a thread asks
 *
 * The thread asks QEMU's name, waits for the answer, rests for a millisecond
 * and asks again. QEMU answers in its main loop, so the longest round trip says
 * how long the main loop was held by anything else.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_MONITOR_PROBE_H
#define RNIC_QTEST_MONITOR_PROBE_H

typedef struct MonitorProbe MonitorProbe;

/* Before QEMU starts. */
MonitorProbe *monitor_probe_new(void);
/* The options of QEMU that give it the monitor; they belong to @probe. */
const char *monitor_probe_arguments(MonitorProbe *probe);
/* When QEMU runs: the thread begins to ask. */
void monitor_probe_start(MonitorProbe *probe);
/* Forget what was measured. */
void monitor_probe_begin(MonitorProbe *probe);
/*
 * The longest round trip since monitor_probe_begin(), in milliseconds. Waits
 * for the one that is under way.
 */
double monitor_probe_end(MonitorProbe *probe);
/*
 * The thread asks no more.  Before QEMU is told to quit: QEMU 10.0 dereferences
 * NULL if a request comes while it closes its monitors (monitor_cleanup()).
 */
void monitor_probe_stop(MonitorProbe *probe);
/* After monitor_probe_stop(). */
void monitor_probe_free(MonitorProbe *probe);

#endif
