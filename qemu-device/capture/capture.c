/*
 * rnic: capture, begin and end, the properties, and what is not of a connection
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/iov.h"
#include "qemu/lockable.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#include "system/system.h"
#include "tap.h"
#include "hw/rnic/base/trace.h"

enum {
    SNAPLEN_MIN = 128,          /* all headers, up to RDMAP's */
    SNAPLEN_MAX = 256 * KiB,
    SIZE_MIN = 1 * MiB,
    FILES_MAX = 1000,
    BUFFER_MIN = 256 * KiB,
    BUFFER_MAX = 1 * GiB,
    RATE_MIN = 1 * MiB,
    /* Of an FPDU's packet beyond the rate: the longest Terminate has less. */
    TRUNCATED_OCTETS = 256,
    /* Blocks around packets, of those that are put at once. */
    BLOCKS_ROOM = 4096,

    /* What the end may take: by the property, by unplug, of QEMU (all devices). */
    END_SET_MS = 10000,
    END_UNPLUG_MS = 2000,
    END_EXIT_MS = 30000,
};

/* ----------------------------------------------------------------- packets */

/*
 * After a write error the capture is over, though its writer stays until the property is
 * set: nothing is told to it any more.
 */
bool rnic_capture_runs(RnicCapture *c)
{
    if (!c->writer) {
        return false;
    }
    if (rnic_capture_writer_failed(c->writer)) {
        qatomic_set(&c->s->capturing, false);
        return false;
    }
    return true;
}

/* Half of the buffer may be lost at its end. */
bool rnic_capture_begin(RnicCapture *c, size_t octets)
{
    octets += BLOCKS_ROOM;
    if (!rnic_capture_runs(c) ||
        !rnic_capture_writer_reserve(c->writer, octets)) {
        return false;
    }
    if (!c->running.size || c->file_octets + octets <= c->running.size) {
        return true;
    }
    if (!rnic_capture_writer_next_file(c->writer, &c->counts)) {
        return false;
    }
    c->file_octets = RNIC_PCAPNG_HEAD_MAX;
    c->counts = (RnicCaptureCounts) { };
    c->epoch++;
    return rnic_capture_writer_reserve(c->writer, octets) != NULL;
}

/* The guest's clock: what the guest sees in a second is bounded, on any host. */
static void capture_leak(RnicCapture *c)
{
    int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);

    throttle_leak_bucket(&c->rate, MAX(now - c->rate_ns, 0));
    c->rate_ns = now;
}

bool rnic_capture_beyond_rate(RnicCapture *c)
{
    if (!c->rate.avg) {
        return false;
    }
    capture_leak(c);
    return throttle_compute_wait(&c->rate) > 0;
}

/* A comment says so at the first one of a file that has none yet. */
static void capture_truncate(RnicCapture *c, RnicPcapngPacket *p)
{
    p->captured = TRUNCATED_OCTETS;
    if (!p->comment && c->truncation_told != c->epoch) {
        c->truncation_told = c->epoch;
        p->comment = "The device moves more than capture-rate: packets are cut "
                     "from here on, until it moves less";
    }
}

/*
 * A block for a packet of @original octets, with room for as much as is kept;
 * @truncate: it is beyond the rate.
 */
static uint8_t *capture_block(RnicCapture *c, RnicPcapngPacket *p, bool truncate)
{
    bool counts = !truncate;    /* what is beyond does not: so it ends in time */
    size_t size;
    uint8_t *block;

    p->ns = qemu_clock_get_ns(QEMU_CLOCK_HOST);
    p->captured = c->running.snaplen ? MIN(p->original, c->running.snaplen)
                                     : p->original;
    truncate = truncate && p->captured > TRUNCATED_OCTETS;
    if (truncate) {
        capture_truncate(c, p);
    }
    size = rnic_pcapng_packet_size(p);
    block = rnic_capture_writer_reserve(c->writer, size);
    c->counts.received++;
    if (!block) {
        c->counts.dropped++;
        return NULL;
    }
    rnic_pcapng_packet(block, p);
    c->counts.truncated += truncate;
    if (counts) {
        c->rate.level += p->captured;
    }
    c->file_octets += size;
    return block;
}

static void capture_commit(RnicCapture *c, const RnicPcapngPacket *p)
{
    rnic_capture_writer_commit(c->writer, rnic_pcapng_packet_size(p));
}

/* Octets of @from, as many as there is room for at @out. */
static uint8_t *capture_copy(uint8_t *out, const uint8_t *end, const void *from,
                             size_t len)
{
    len = MIN(len, (size_t)(end - out));
    if (len) {
        memcpy(out, from, len);
    }
    return out + len;
}

void rnic_capture_put(RnicCapture *c, const RnicCapturePacket *p)
{
    uint8_t headers[RNIC_PACKET_HEADERS_MAX];
    size_t headers_len = rnic_packet_headers(&p->packet, headers);
    RnicPcapngPacket block = {
        .original = headers_len + p->packet.payload_len,
        .way = p->way,
        .comment = p->comment,
    };
    uint8_t *start = capture_block(c, &block, p->truncated);
    uint8_t *out, *end;

    if (!start) {
        return;
    }
    out = start + RNIC_PCAPNG_AT_DATA;
    end = out + block.captured;
    out = capture_copy(out, end, headers, headers_len);
    out = capture_copy(out, end, p->head, p->head_len);
    if (out < end) {
        iov_to_buf(p->iov, p->count, p->at, out, end - out);
    }
    capture_commit(c, &block);
}

/* The text is the comment, and the frame, so that no tool overlooks it. */
void rnic_capture_put_note(RnicCapture *c, const char *text)
{
    size_t len = strlen(text);
    RnicPcapngPacket block = {
        .original = MAX(RNIC_PACKET_ETHERNET_LEN + len,
                        RNIC_PACKET_ETHERNET_LEAST),
        .comment = text,
    };
    uint8_t frame[RNIC_PACKET_ETHERNET_LEAST + RNIC_PCAPNG_COMMENT_MAX] = { };
    uint8_t *start;

    assert(len < RNIC_PCAPNG_COMMENT_MAX);
    if (!rnic_capture_begin(c, block.original + len)) {
        c->counts.received++;
        c->counts.dropped++;
        return;
    }
    start = capture_block(c, &block, false);
    if (!start) {
        return;
    }
    rnic_packet_note_header(c->s->nic_conf.macaddr.a, frame);
    memcpy(frame + RNIC_PACKET_ETHERNET_LEN, text, len);
    memcpy(start + RNIC_PCAPNG_AT_DATA, frame, block.captured);
    capture_commit(c, &block);
}

void rnic_capture_write_note(RnicState *s, const char *format, ...)
{
    char text[RNIC_PCAPNG_COMMENT_MAX];
    RnicCapture *c = s->capture;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    QEMU_LOCK_GUARD(&c->lock);
    if (rnic_capture_runs(c)) {
        rnic_capture_put_note(c, text);
    }
}

/* ----------------------------------------------------------- begin and end */

static void capture_use(RnicCapture *c, RnicCaptureWriter *writer,
                        const RnicCaptureTarget *target)
{
    RnicTap *tap;

    trace_rnic_capture(c->file, c->snaplen, c->size, c->files, c->buffer,
                       c->octets_per_s);
    QEMU_LOCK_GUARD(&c->lock);
    c->writer = writer;
    c->running = *target;
    c->running.file = NULL;
    c->rate = (LeakyBucket) { .avg = target->octets_per_s, .burst_length = 1 };
    c->counts = (RnicCaptureCounts) { };
    c->file_octets = RNIC_PCAPNG_HEAD_MAX;
    c->epoch++;
    QLIST_FOREACH(tap, &c->taps, next) {
        rnic_tap_begin(tap);
    }
    qatomic_set(&c->s->capturing, true);
}

static RnicCaptureTarget capture_target(const RnicCapture *c)
{
    return (RnicCaptureTarget) {
        .file = c->file,
        .buffer = c->buffer,
        .snaplen = c->snaplen,
        .size = c->size,
        .files = c->files,
        .octets_per_s = c->octets_per_s,
    };
}

/* The taps' writer is gone: it may still have to write.  NULL: there was none. */
static RnicCaptureWriter *capture_detach(RnicCapture *c,
                                         RnicCaptureCounts *counts)
{
    RnicTap *tap;

    QEMU_LOCK_GUARD(&c->lock);
    if (!c->writer) {
        return NULL;
    }
    qatomic_set(&c->s->capturing, false);
    QLIST_FOREACH(tap, &c->taps, next) {
        rnic_tap_end(tap);
    }
    *counts = c->counts;
    trace_rnic_capture_end(counts->received, counts->dropped,
                           counts->truncated);
    return g_steal_pointer(&c->writer);
}

static void capture_stop(RnicCapture *c, int64_t limit_ms)
{
    RnicCaptureCounts counts;
    RnicCaptureWriter *writer = capture_detach(c, &counts);

    if (writer) {
        rnic_capture_writer_end(writer, &counts, limit_ms);
    }
}

bool rnic_capture_realize(RnicState *s, Error **errp)
{
    RnicCaptureTarget target = capture_target(s->capture);
    RnicCaptureWriter *writer;

    if (!target.file) {
        return true;
    }
    writer = rnic_capture_writer_new(&target, errp);
    if (writer) {
        capture_use(s->capture, writer, &target);
    }
    return writer != NULL;
}

void rnic_capture_unrealize(RnicState *s)
{
    capture_stop(s->capture, END_UNPLUG_MS);
}

/* QEMU ends without taking its devices away.  One device after the other. */
static void capture_exit(Notifier *notifier, void *data)
{
    static int64_t until;
    int64_t now = get_clock() / SCALE_MS;

    until = until ?: now + END_EXIT_MS;
    capture_stop(container_of(notifier, RnicCapture, exit), until - now);
}

void rnic_capture_init(RnicState *s)
{
    RnicCapture *c = g_new0(RnicCapture, 1);

    qemu_mutex_init(&c->lock);
    QLIST_INIT(&c->taps);
    c->by_ends = g_hash_table_new(rnic_tap_hash, rnic_tap_equal);
    c->s = s;
    c->files = 2;
    c->buffer = 16 * MiB;
    c->octets_per_s = 64 * MiB;
    c->exit.notify = capture_exit;
    qemu_add_exit_notifier(&c->exit);
    s->capture = c;
}

void rnic_capture_finalize(RnicState *s)
{
    RnicCapture *c = s->capture;

    qemu_remove_exit_notifier(&c->exit);
    qemu_mutex_destroy(&c->lock);
    g_hash_table_destroy(c->by_ends);
    g_free(c->file);
    g_free(c);
}

/* -------------------------------------------------------------- properties */

static char *capture_get_file(Object *obj, Error **errp)
{
    RnicCapture *c = RNIC(obj)->capture;

    QEMU_LOCK_GUARD(&c->lock);
    return g_strdup(c->writer && !rnic_capture_runs(c) ? "" : c->file ?: "");
}

/*
 * Both wait for a file, and the guest's processors need not: without the big lock, as
 * device_add does (drain_call_rcu()).  Other threads may take the device away meanwhile,
 * but not free it.
 */
static void capture_stop_unlocked(RnicCapture *c)
{
    RnicCaptureCounts counts;
    RnicCaptureWriter *writer = capture_detach(c, &counts);

    if (writer) {
        bql_unlock();
        rnic_capture_writer_end(writer, &counts, END_SET_MS);
        bql_lock();
    }
}

static RnicCaptureWriter *capture_open_unlocked(const RnicCaptureTarget *target,
                                                Error **errp)
{
    RnicCaptureWriter *writer;

    bql_unlock();
    writer = rnic_capture_writer_new(target, errp);
    bql_lock();
    return writer;
}

static void capture_restart(RnicCapture *c, DeviceState *dev, Error **errp)
{
    RnicCaptureTarget target = capture_target(c);
    RnicCaptureWriter *writer = capture_open_unlocked(&target, errp);

    if (!writer) {
        g_clear_pointer(&c->file, g_free);
    } else if (!dev->realized) {
        rnic_capture_writer_end(writer, &c->counts, 0);
    } else {
        capture_use(c, writer, &target);
    }
}

/*
 * Another file, or none: the one until now is complete.  -daemonize changes the working
 * directory, and each file of a ring is opened by its name.
 */
static void capture_set_file(Object *obj, const char *file, Error **errp)
{
    RnicCapture *c = RNIC(obj)->capture;
    DeviceState *dev = DEVICE(obj);

    object_ref(obj);
    capture_stop_unlocked(c);
    g_free(c->file);
    c->file = *file ? g_canonicalize_filename(file, NULL) : NULL;
    if (c->file && dev->realized) {
        capture_restart(c, dev, errp);
    }
    object_unref(obj);
}

typedef struct CaptureNumber {
    const char *name;
    size_t offset;
    bool wide;                  /* uint64_t, with a size's suffix */
    bool or_zero;
    uint64_t min;
    uint64_t max;
    const char *text;
} CaptureNumber;

#define NUMBER(member) offsetof(RnicCapture, member)

static const CaptureNumber capture_numbers[] = {
    { "capture-snaplen", NUMBER(snaplen), false, true, SNAPLEN_MIN, SNAPLEN_MAX,
      "octets of each packet that go to the file; 0: all" },
    { "capture-size", NUMBER(size), true, true, SIZE_MIN, INT64_MAX,
      "octets of a file before the next one begins; 0: no limit" },
    { "capture-files", NUMBER(files), false, false, 1, FILES_MAX,
      "files that are kept, with capture-size" },
    { "capture-buffer", NUMBER(buffer), true, false, BUFFER_MIN, BUFFER_MAX,
      "octets that wait for the file; more are left out" },
    { "capture-rate", NUMBER(octets_per_s), true, true, RATE_MIN, INT64_MAX,
      "octets a second that go to the file; packets beyond are cut; 0: no limit" },
};

static void capture_get_number(Object *obj, Visitor *v, const char *name,
                               void *opaque, Error **errp)
{
    const CaptureNumber *n = opaque;
    char *at = (char *)RNIC(obj)->capture + n->offset;
    uint64_t val = n->wide ? *(uint64_t *)at : *(uint32_t *)at;

    visit_type_uint64(v, name, &val, errp);
}

static void capture_set_number(Object *obj, Visitor *v, const char *name,
                               void *opaque, Error **errp)
{
    const CaptureNumber *n = opaque;
    char *at = (char *)RNIC(obj)->capture + n->offset;
    uint64_t val;

    if (!(n->wide ? visit_type_size(v, name, &val, errp)
                  : visit_type_uint64(v, name, &val, errp))) {
        return;
    }
    if ((val < n->min || val > n->max) && (val || !n->or_zero)) {
        error_setg(errp, "%s=%" PRIu64 " is outside %" PRIu64 "..%" PRIu64
                   "%s", name, val, n->min, n->max,
                   n->or_zero ? " and not 0" : "");
    } else if (n->wide) {
        *(uint64_t *)at = val;
    } else {
        *(uint32_t *)at = val;
    }
}

static void capture_add_number(ObjectClass *oc, const CaptureNumber *n)
{
    g_autofree char *text = g_strdup_printf("%s%" PRIu64 " to %" PRIu64 ": %s",
                                            n->or_zero ? "0, or " : "", n->min,
                                            n->max, n->text);

    object_class_property_add(oc, n->name, n->wide ? "size" : "uint32",
                              capture_get_number, capture_set_number, NULL,
                              (void *)n);
    object_class_property_set_description(oc, n->name, text);
}

void rnic_capture_class_init(ObjectClass *oc)
{
    object_class_property_add_str(oc, "capture", capture_get_file,
                                  capture_set_file);
    object_class_property_set_description(oc, "capture", "file for the wire, as "
        "pcapng; set at any time, empty: end (default: none)");
    for (size_t i = 0; i < G_N_ELEMENTS(capture_numbers); i++) {
        capture_add_number(oc, &capture_numbers[i]);
    }
}
