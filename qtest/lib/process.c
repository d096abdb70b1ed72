/*
 * What the QEMU process of a test has of the host
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/units.h"

#include "process.h"

uint64_t process_memory(QTestState *qts)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/status",
                                            (int)qtest_pid(qts));
    g_autofree char *text = NULL;
    const char *line;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    line = strstr(text, "\nVmRSS:");
    g_assert_nonnull(line);
    return g_ascii_strtoull(line + strlen("\nVmRSS:"), NULL, 10) * 1024;
}

int64_t process_assert_growth(QTestState *qts, uint64_t before,
                              uint64_t limit)
{
    int64_t growth = process_memory(qts) - before;

#if defined(QEMU_SANITIZE_THREAD) || defined(QEMU_SANITIZE_ADDRESS)
    limit = 6 * limit + 512 * MiB;
#endif
    g_assert_cmpint(growth, <, limit);
    return growth;
}

static unsigned process_entries(QTestState *qts, const char *of)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/%s",
                                            (int)qtest_pid(qts), of);
    GDir *dir = g_dir_open(path, 0, NULL);
    unsigned count = 0;

    g_assert_nonnull(dir);
    while (g_dir_read_name(dir)) {
        count++;
    }
    g_dir_close(dir);
    return count;
}

unsigned process_descriptors(QTestState *qts)
{
    return process_entries(qts, "fd");
}

unsigned process_threads(QTestState *qts)
{
    return process_entries(qts, "task");
}
