/*
 * A bound on the time of a test whose QEMU may hang
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"

#include "watchdog.h"

struct Watchdog {
    GThread *thread;
    GMutex mutex;
    GCond over;
    bool done;
    pid_t qemu;
    gint64 deadline;
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

    g_mutex_lock(&dog->mutex);
    while (!dog->done) {
        if (!g_cond_wait_until(&dog->over, &dog->mutex, dog->deadline)) {
            g_printerr("QEMU hangs, or the test waits in vain: %s\n",
                       dog->what);
            kill(dog->qemu, SIGKILL);
            break;
        }
    }
    g_mutex_unlock(&dog->mutex);
    return NULL;
}

Watchdog *watchdog_new(QTestState *qts, unsigned seconds, const char *what)
{
    Watchdog *dog = g_new0(Watchdog, 1);

    g_mutex_init(&dog->mutex);
    g_cond_init(&dog->over);
    dog->qemu = qtest_pid(qts);
    dog->deadline = g_get_monotonic_time() +
                    seconds * watchdog_patience() * G_USEC_PER_SEC;
    dog->what = g_strdup(what);
    dog->thread = g_thread_new("watchdog", watchdog_run, dog);
    return dog;
}

void watchdog_free(Watchdog *dog)
{
    g_mutex_lock(&dog->mutex);
    dog->done = true;
    g_cond_signal(&dog->over);
    g_mutex_unlock(&dog->mutex);
    g_thread_join(dog->thread);
    g_mutex_clear(&dog->mutex);
    g_cond_clear(&dog->over);
    g_free(dog->what);
    g_free(dog);
}
