/*
 * Unit tests of a capture's writer: how long its callers wait for a file, and what is in
 * one that did not take all
 *
 * The file is the test's own (in place of capture/file.c): one that does not answer,
 * a pipe that is read slowly. What comes out is read as draft-ietf-opsawg-pcapng has it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include <glib-unix.h>
#include <sys/resource.h>
#include "qapi/error.h"
#include "qemu/atomic.h"
#include "qemu/bswap.h"
#include "wire.h"
#include "hw/rnic/capture/file.h"
#include "hw/rnic/capture/pcapng.h"
#include "hw/rnic/capture/writer.h"

enum {
    FRAME = 4096,
    SLICE = 4096,               /* octets of one read */
    PIPE = 65536,               /* octets in a pipe that nobody reads */
    LIMIT_MS = 60 * 1000,

    OPTION_COMMENT = 1,
    BLOCK_STATISTICS = 5,
    BLOCK_PACKET = 6,
};

/* ---------------------------------------------------------------- the file */

/* All atomic: the thread of a test before may only just have ended. */
static struct {
    bool hangs;
    int fd[2];                  /* of the first and the second opening */
    int opened;
    int cleared;
    int aged;
} host;

int rnic_capture_file_open(const char *file, bool ring, Error **errp)
{
    int fd;

    while (qatomic_read(&host.hangs)) {
        g_usleep(1000);
    }
    fd = qatomic_read(&host.fd[qatomic_fetch_inc(&host.opened)]);
    if (fd < 0) {
        error_setg(errp, "no %s here", file);
    }
    return fd;
}

bool rnic_capture_file_clear(int fd, const char *file, Error **errp)
{
    qatomic_inc(&host.cleared);
    return true;
}

/* The old file has its lock until it has its new name. */
bool rnic_capture_file_age(const char *file, uint32_t files, Error **errp)
{
    g_assert_cmpint(fcntl(qatomic_read(&host.fd[0]), F_GETFD), >=, 0);
    g_assert_cmpint(qatomic_read(&host.opened), ==, 1);
    qatomic_inc(&host.aged);
    return true;
}

static void host_is(int fd, bool hangs)
{
    qatomic_set(&host.hangs, hangs);
    qatomic_set(&host.fd[0], fd);
    qatomic_set(&host.fd[1], -1);
    qatomic_set(&host.opened, 0);
    qatomic_set(&host.cleared, 0);
    qatomic_set(&host.aged, 0);
}

static RnicCaptureWriter *begin(int fd, uint64_t buffer, Error **errp)
{
    RnicCaptureTarget target = { .file = "FILE", .buffer = buffer,
                                 .size = 1 << 20, .files = 2 };

    host_is(fd, false);
    return rnic_capture_writer_new(&target, errp);
}

static int pipe_of(int *reader)
{
    int fds[2];

    g_assert_true(g_unix_open_pipe(fds, FD_CLOEXEC, NULL));
    g_assert_true(g_unix_set_fd_nonblocking(fds[1], true, NULL));
    g_assert_cmpint(fcntl(fds[1], F_SETPIPE_SZ, PIPE), ==, PIPE);
    *reader = fds[0];
    return fds[1];
}

/* Packets until the buffer is full, or @count. Returns how many. */
static unsigned fill_with(RnicCaptureWriter *w, unsigned count,
                          uint32_t original)
{
    RnicPcapngPacket p = { .captured = FRAME, .original = original };
    size_t size = rnic_pcapng_packet_size(&p);
    unsigned n;

    for (n = 0; n < count; n++) {
        uint8_t *block = rnic_capture_writer_reserve(w, size);

        if (!block) {
            break;
        }
        rnic_pcapng_packet(block, &p);
        memset(block + RNIC_PCAPNG_AT_DATA, 0x88, FRAME);
        rnic_capture_writer_commit(w, size);
    }
    return n;
}

static unsigned fill(RnicCaptureWriter *w, unsigned count)
{
    return fill_with(w, count, FRAME);
}

/* ---------------------------------------------------------------- a reader */

typedef struct Reader {
    GThread *thread;
    int fd;
    unsigned pause_us;          /* after each slice; atomic */
    size_t count;               /* octets until now; atomic */
    GByteArray *octets;
} Reader;

static void *reader_run(void *opaque)
{
    Reader *r = opaque;
    uint8_t slice[SLICE];
    ssize_t n;

    while ((n = read(r->fd, slice, sizeof(slice))) > 0) {
        g_byte_array_append(r->octets, slice, n);
        qatomic_set(&r->count, r->octets->len);
        g_usleep(qatomic_read(&r->pause_us));
    }
    g_assert_cmpint(n, ==, 0);
    return NULL;
}

static void reader_start(Reader *r, int fd, unsigned pause_us)
{
    *r = (Reader) { .fd = fd, .pause_us = pause_us,
                    .octets = g_byte_array_new() };
    r->thread = g_thread_new("reader", reader_run, r);
}

static void reader_end(Reader *r)
{
    g_thread_join(r->thread);
    close(r->fd);
}

typedef struct Found {
    unsigned packets;
    uint64_t received, dropped;
    unsigned truncated;
    unsigned told;              /* how many of them, by the comment */
} Found;

/* The comment, if there is one, comes first. */
static void look_at_statistics(Found *found, const uint8_t *option)
{
    if (lduw_le_p(option) == OPTION_COMMENT) {
        uint16_t size = lduw_le_p(option + 2);
        g_autofree char *text = g_strndup((const char *)option + 4, size);

        g_assert_cmpint(sscanf(text, "capture-rate: packets cut: %u",
                               &found->told), ==, 1);
        option += 4 + ROUND_UP(size, 4);
    }
    found->received = ldq_le_p(option + 4);
    found->dropped = ldq_le_p(option + 16);
}

/* @octets are whole blocks, and the last ones are the statistics. */
static Found look(const GByteArray *octets)
{
    Found found = { };
    uint32_t type = 0;

    for (size_t at = 0, len; at < octets->len; at += len) {
        const uint8_t *block = octets->data + at;

        g_assert_cmpuint(octets->len - at, >=, 12);
        g_assert_cmphex(type, !=, BLOCK_STATISTICS);
        type = ldl_le_p(block);
        len = ldl_le_p(block + 4);
        g_assert_cmpuint(len, >=, 12);
        g_assert_cmpuint(len, <=, octets->len - at);
        g_assert_cmpuint(ldl_le_p(block + len - 4), ==, len);
        found.packets += type == BLOCK_PACKET;
        found.truncated += type == BLOCK_PACKET &&
                           ldl_le_p(block + 20) < ldl_le_p(block + 24);
        if (type == BLOCK_STATISTICS) {
            look_at_statistics(&found, block + 20);
        }
    }
    g_assert_cmphex(type, ==, BLOCK_STATISTICS);
    return found;
}

/* ------------------------------------------------------------------- begin */

/* The caller goes on; the thread ends by itself, and what the file was stays. */
static void test_no_answer(void)
{
    RnicCaptureTarget target = { .file = "FILE", .buffer = 1 << 18,
                                 .files = 1 };
    Error *err = NULL;
    char octet;
    int fd;

    host_is(pipe_of(&fd), true);
    g_assert_null(rnic_capture_writer_new(&target, &err));
    g_assert_cmpstr(error_get_pretty(err), ==, "capture: FILE does not answer");
    error_free(err);
    qatomic_set(&host.hangs, false);
    g_assert_cmpint(read(fd, &octet, 1), ==, 0);
    g_assert_cmpint(qatomic_read(&host.cleared), ==, 0);
    close(fd);
}

static void test_refused(void)
{
    Error *err = NULL;

    g_assert_null(begin(-1, 1 << 18, &err));
    g_assert_cmpstr(error_get_pretty(err), ==, "no FILE here");
    error_free(err);
}

/* ----------------------------------------------------------------- the end */

/* A file that takes all, though it takes several seconds, gets all. */
static void test_slow(void)
{
    RnicCaptureCounts counts = { };
    RnicCaptureWriter *w;
    Reader reader;
    Found found;
    size_t count;
    int fd;

    w = begin(pipe_of(&fd), 4 << 20, &error_abort);
    counts.received = fill(w, 900);
    g_assert_cmpuint(counts.received, ==, 900);
    reader_start(&reader, fd, 4000);
    rnic_capture_writer_end(w, &counts, LIMIT_MS);
    /* What is not read yet is in the pipe. */
    count = qatomic_read(&reader.count);
    reader_end(&reader);
    g_assert_cmpuint(reader.octets->len, <=, count + PIPE + SLICE);
    found = look(reader.octets);
    g_assert_cmpuint(found.packets, ==, 900);
    g_assert_cmpuint(found.received, ==, 900);
    g_assert_cmpuint(found.dropped, ==, 0);
    g_byte_array_unref(reader.octets);
}

/* 900 packets wait for a slow reader: less than half of them is written in time. */
static Found end_too_soon(RnicCaptureWriter *w, const RnicCaptureCounts *counts,
                          int fd)
{
    Reader reader;
    Found found;

    reader_start(&reader, fd, 20000);
    rnic_capture_writer_end(w, counts, 100);
    g_assert_cmpuint(qatomic_read(&reader.count), <, 900 * FRAME / 2);
    qatomic_set(&reader.pause_us, 0);
    reader_end(&reader);
    found = look(reader.octets);
    g_byte_array_unref(reader.octets);
    return found;
}

/* The time is over: what there is of the file is whole, and counts what is lost. */
static void test_limit(void)
{
    RnicCaptureCounts counts = { };
    RnicCaptureWriter *w;
    Found found;
    int fd;

    w = begin(pipe_of(&fd), 4 << 20, &error_abort);
    counts.received = fill(w, 900) + 10;
    counts.dropped = 10;
    found = end_too_soon(w, &counts, fd);
    g_assert_cmpuint(found.packets, >, 0);
    g_assert_cmpuint(found.packets, <, 900);
    g_assert_cmpuint(found.received, ==, 910);
    g_assert_cmpuint(found.packets + found.dropped, ==, 910);
}

/* The next file never begins: what is cut of both counts, if it is in this one. */
static void test_limit_of_ring(void)
{
    RnicCaptureCounts counts = { };
    RnicCaptureWriter *w;
    Found found;
    int fd;

    w = begin(pipe_of(&fd), 4 << 20, &error_abort);
    counts.received = fill_with(w, 400, FRAME + 1) + fill(w, 100);
    counts.truncated = 400;
    g_assert_true(rnic_capture_writer_next_file(w, &counts));
    counts.received = fill_with(w, 400, FRAME + 1);
    found = end_too_soon(w, &counts, fd);
    g_assert_cmpuint(found.truncated, >, 0);
    g_assert_cmpuint(found.truncated, <, 800);
    g_assert_cmpuint(found.told, ==, found.truncated);
    g_assert_cmpuint(found.received, ==, 900);
    g_assert_cmpuint(found.packets + found.dropped, ==, 900);
}

/* Nobody reads: the caller waits for a moment only, whatever its limit is. */
static void test_stuck(void)
{
    RnicCaptureCounts counts = { };
    RnicCaptureWriter *w;
    int64_t begun;
    int fd;

    w = begin(pipe_of(&fd), 4 << 20, &error_abort);
    counts.received = fill(w, 900);
    begun = g_get_monotonic_time();
    rnic_capture_writer_end(w, &counts, 10 * LIMIT_MS);
    g_assert_cmpint(g_get_monotonic_time() - begun, <,
                    INT64_C(1000) * LIMIT_MS);
    close(fd);
}

/* -------------------------------------------------------------------- more */

/* The limit of a file's size is an error as any other: it ends the capture only. */
static void test_file_size_limit(void)
{
    g_autofree char *path = NULL;
    RnicCaptureCounts counts = { };
    RnicCaptureWriter *w;
    struct rlimit old, limit;
    struct stat st;
    int fd = g_file_open_tmp("rnic-capture-XXXXXX", &path, NULL);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
    limit = old;
    limit.rlim_cur = 100000;
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    w = begin(fd, 4 << 20, &error_abort);
    counts.received = fill(w, 900);
    while (!rnic_capture_writer_failed(w)) {
        g_usleep(1000);
    }
    rnic_capture_writer_end(w, &counts, LIMIT_MS);
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
    g_assert_cmpint(stat(path, &st), ==, 0);
    g_assert_cmpint(st.st_size, ==, 100000);
    unlink(path);
}

/* Files of a ring: each has its own packets, and the old one is closed at last. */
static void test_next_file(void)
{
    RnicCaptureCounts counts = { };
    RnicCaptureWriter *w;
    Reader readers[2];
    Found found;
    int fds[2];

    w = begin(pipe_of(&fds[0]), 4 << 20, &error_abort);
    qatomic_set(&host.fd[1], pipe_of(&fds[1]));
    for (unsigned i = 0; i < 2; i++) {
        reader_start(&readers[i], fds[i], 0);
    }
    counts.received = fill(w, 5);
    g_assert_true(rnic_capture_writer_next_file(w, &counts));
    counts.received = fill(w, 7);
    rnic_capture_writer_end(w, &counts, LIMIT_MS);
    for (unsigned i = 0; i < 2; i++) {
        reader_end(&readers[i]);
        found = look(readers[i].octets);
        g_assert_cmpuint(found.packets, ==, i ? 7 : 5);
        g_assert_cmpuint(found.received, ==, i ? 7 : 5);
        g_byte_array_unref(readers[i].octets);
    }
    g_assert_cmpint(qatomic_read(&host.aged), ==, 1);
    g_assert_cmpint(qatomic_read(&host.cleared), ==, 2);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/capture/writer/no-answer", test_no_answer);
    g_test_add_func("/capture/writer/refused", test_refused);
    g_test_add_func("/capture/writer/slow", test_slow);
    g_test_add_func("/capture/writer/limit", test_limit);
    g_test_add_func("/capture/writer/limit-of-ring", test_limit_of_ring);
    g_test_add_func("/capture/writer/stuck", test_stuck);
    g_test_add_func("/capture/writer/file-size-limit", test_file_size_limit);
    g_test_add_func("/capture/writer/next-file", test_next_file);
    return g_test_run();
}
