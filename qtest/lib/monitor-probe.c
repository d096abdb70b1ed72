/*
 * How long QEMU's main loop is held: a second monitor that a thread asks
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/thread.h"

#include "monitor-probe.h"

#define QUESTION "{\"execute\": \"query-name\"}\n"

struct MonitorProbe {
    int fd;
    int qemu_fd;                /* QEMU inherits it */
    char *arguments;
    GThread *thread;
    QemuMutex mutex;            /* TSan knows these, and not GLib's */
    QemuCond answered;
    bool stop;
    bool gone;                  /* QEMU has closed the monitor */
    uint64_t rounds;
    gint64 longest;             /* microseconds */
};

MonitorProbe *monitor_probe_new(void)
{
    MonitorProbe *probe = g_new0(MonitorProbe, 1);
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    g_assert_cmpint(fcntl(fds[0], F_SETFD, FD_CLOEXEC), ==, 0);
    probe->fd = fds[0];
    probe->qemu_fd = fds[1];
    probe->arguments = g_strdup_printf("-chardev socket,id=probe,fd=%d "
                                       "-mon chardev=probe,mode=control",
                                       fds[1]);
    qemu_mutex_init(&probe->mutex);
    qemu_cond_init(&probe->answered);
    return probe;
}

const char *monitor_probe_arguments(MonitorProbe *probe)
{
    return probe->arguments;
}

/* A line has come; events of QEMU are lines of their own. */
static bool probe_read_line(MonitorProbe *probe, GString *line)
{
    char c;

    g_string_truncate(line, 0);
    while (read(probe->fd, &c, 1) == 1) {
        if (c == '\n') {
            return true;
        }
        g_string_append_c(line, c);
    }
    return false;
}

static bool probe_ask(MonitorProbe *probe, const char *question)
{
    g_autoptr(GString) line = g_string_new(NULL);
    size_t length = strlen(question);

    if (send(probe->fd, question, length, MSG_NOSIGNAL) != length) {
        return false;
    }
    do {
        if (!probe_read_line(probe, line)) {
            return false;
        }
    } while (!strstr(line->str, "\"return\""));
    return true;
}

static void probe_note(MonitorProbe *probe, bool answered, gint64 took)
{
    qemu_mutex_lock(&probe->mutex);
    probe->gone = !answered;
    probe->rounds++;
    probe->longest = MAX(probe->longest, took);
    qemu_cond_signal(&probe->answered);
    qemu_mutex_unlock(&probe->mutex);
}

static gpointer probe_run(gpointer opaque)
{
    MonitorProbe *probe = opaque;
    bool answered;

    do {
        gint64 asked = g_get_monotonic_time();

        answered = probe_ask(probe, QUESTION);
        probe_note(probe, answered, g_get_monotonic_time() - asked);
        g_usleep(1000);
    } while (answered && !qatomic_read(&probe->stop));
    return NULL;
}

void monitor_probe_start(MonitorProbe *probe)
{
    close(probe->qemu_fd);
    probe->qemu_fd = -1;
    g_assert_true(probe_ask(probe, "{\"execute\": \"qmp_capabilities\"}\n"));
    probe->thread = g_thread_new("probe", probe_run, probe);
}

/* Let @rounds be over; one that had begun before is not all of them. */
static void probe_wait(MonitorProbe *probe, unsigned rounds)
{
    uint64_t until = probe->rounds + rounds;

    while (probe->rounds < until && !probe->gone) {
        qemu_cond_wait(&probe->answered, &probe->mutex);
    }
}

void monitor_probe_begin(MonitorProbe *probe)
{
    qemu_mutex_lock(&probe->mutex);
    probe_wait(probe, 1);
    probe->longest = 0;
    qemu_mutex_unlock(&probe->mutex);
}

double monitor_probe_end(MonitorProbe *probe)
{
    gint64 longest;

    qemu_mutex_lock(&probe->mutex);
    probe_wait(probe, 2);
    longest = probe->longest;
    qemu_mutex_unlock(&probe->mutex);
    return longest / 1000.0;
}

void monitor_probe_stop(MonitorProbe *probe)
{
    qatomic_set(&probe->stop, true);
    if (probe->thread) {
        g_thread_join(g_steal_pointer(&probe->thread));
    }
}

void monitor_probe_free(MonitorProbe *probe)
{
    g_assert_null(probe->thread);
    close(probe->fd);
    qemu_mutex_destroy(&probe->mutex);
    qemu_cond_destroy(&probe->answered);
    g_free(probe->arguments);
    g_free(probe);
}
