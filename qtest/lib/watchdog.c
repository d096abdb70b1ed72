/*
 * A bound on the time of a test whose QEMU may hang
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/thread.h"

#include "watchdog.h"

struct Watchdog {
    GThread *thread;
    QemuSemaphore over;         /* TSan knows this one, and not GLib's */
    pid_t qemu;
    int milliseconds;
    char *what;
};

double watchdog_patience(void)
{
    const char *text = g_getenv("RNIC_TEST_PATIENCE");

    return MAX(text ? g_ascii_strtod(text, NULL) : 1.0, 1.0);
}

static gpointer watchdog_run(gpointer opaque)
{
    Watchdog *dog = opaque;

    if (qemu_sem_timedwait(&dog->over, dog->milliseconds) < 0) {
        g_printerr("QEMU hangs, or the test waits in vain: %s\n", dog->what);
        kill(dog->qemu, SIGKILL);
    }
    return NULL;
}

Watchdog *watchdog_new(QTestState *qts, unsigned seconds, const char *what)
{
    Watchdog *dog = g_new0(Watchdog, 1);

    qemu_sem_init(&dog->over, 0);
    dog->qemu = qtest_pid(qts);
    dog->milliseconds = seconds * watchdog_patience() * 1000;
    dog->what = g_strdup(what);
    dog->thread = g_thread_new("watchdog", watchdog_run, dog);
    return dog;
}

void watchdog_free(Watchdog *dog)
{
    qemu_sem_post(&dog->over);
    g_thread_join(dog->thread);
    qemu_sem_destroy(&dog->over);
    g_free(dog->what);
    g_free(dog);
}
