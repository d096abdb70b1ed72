/*
 * Fuzzer of the fabric: by which octets and descriptors UNIX streams agree on rings
 *
 * A transport and a peer on the other end of its socket, which sends octets with
 * descriptors of all kinds at any time: offers of this version and of others, rings
 * that are too small, too large or without seals, files, sockets, and too many.  The
 * transport takes them, or fails, and no descriptor is left behind.
 *
 *     0   steps: what to do (1), a number (2)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/main-loop.h"
#include "qemu/memfd.h"
#include "qemu/sockets.h"
#include "hw/rnic/fabric/descriptors.h"
#include "hw/rnic/fabric/shared-ring.h"
#include "hw/rnic/fabric/transport.h"
#include "hw/rnic/fabric/unix-socket.h"
#include "hw/rnic/fabric/unix-transport.h"
#include "fuzz.h"

enum {
    STEPS = 48,
    DESCRIPTORS = 3,
    OCTETS = 600 * 1024,
};

typedef struct World {
    RnicTransport *transport;
    int peer;
    int bell;                   /* the peer's end of its ring's, or -1 */
    bool failed;
    bool ended;
} World;

static uint8_t octets[OCTETS];

/* ------------------------------------------------- what a peer can send */

static int make_memory(size_t size, unsigned seals)
{
    int fd = qemu_memfd_create("fuzz", size, false, 0, seals, NULL);

    must(fd >= 0);
    return fd;
}

static int make_offer(uint16_t number)
{
    static const char *const texts[] = {
        "rnic-ring 4\n", "rnic-ring 3\n", "rnic-ring 4", "",
    };
    char text[16] = "";
    int fd = make_memory(13, F_SEAL_SHRINK | F_SEAL_GROW);

    g_strlcpy(text, texts[number % G_N_ELEMENTS(texts)], sizeof(text));
    must(pwrite(fd, text, 13, 0) == 13);
    return fd;
}

static int make_ring(uint16_t number)
{
    static const size_t sizes[] = {
        RNIC_SHARED_RING_SIZE, RNIC_SHARED_RING_MIN, RNIC_SHARED_RING_SIZE * 2,
        RNIC_SHARED_RING_MIN / 2, RNIC_SHARED_RING_SIZE - 4096, 0,
    };
    size_t page = qemu_real_host_page_size();

    return make_memory(page + sizes[number % G_N_ELEMENTS(sizes)],
                       number & 0x100 ? 0 : F_SEAL_SHRINK | F_SEAL_GROW);
}

/* A UNIX socket; its other end is what a bell is rung by. */
static int make_bell(World *w)
{
    int pair[2];

    must(qemu_socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    if (w->bell >= 0) {
        close(w->bell);
    }
    w->bell = pair[1];
    return pair[0];
}

static int make_descriptor(World *w, uint16_t number)
{
    switch (number >> 12) {
    case 0:
        return open("/dev/null", O_RDWR);
    case 1:
        return open("/dev/zero", O_RDONLY);
    case 2:
        return socket(AF_INET, SOCK_STREAM, 0);
    case 3:
    case 4:
    case 5:
        return make_offer(number);
    case 6:
    case 7:
        return make_bell(w);
    default:
        return make_ring(number);
    }
}

/* One octet or more, and @count descriptors with it. */
static void send_with(World *w, const int *fds, unsigned count, size_t len)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
    } control = { };
    struct iovec iov = { octets, len ? len : 1 };
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = count ? &control : NULL,
        .msg_controllen = count ? CMSG_SPACE(count * sizeof(int)) : 0,
    };

    if (count) {
        control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
    }
    if (sendmsg(w->peer, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        return;
    }
}

static void send_descriptors(World *w, FuzzInput *in, unsigned count)
{
    int fds[DESCRIPTORS];

    for (unsigned i = 0; i < count; i++) {
        fds[i] = make_descriptor(w, fuzz_number(in, 2));
        must(fds[i] >= 0);
    }
    send_with(w, fds, count, 1);
    for (unsigned i = 0; i < count; i++) {
        close(fds[i]);
    }
}

/* As a peer does that has met an offer. */
static void send_good_ring(World *w)
{
    int fds[2] = { make_ring(0), make_bell(w) };

    send_with(w, fds, 2, 1);
    close(fds[0]);
    close(fds[1]);
}

/* ------------------------------------------------------- the transport */

static void device_reads(World *w, size_t len)
{
    ssize_t n = rnic_transport_read(w->transport, octets, len);

    must(n <= (ssize_t)len);
    w->ended |= n == 0 && len > 0;
    w->failed |= n < 0 && errno != EAGAIN;
}

static void device_writes(World *w, size_t len)
{
    ssize_t n = rnic_transport_write(w->transport, octets, len);

    must(n <= (ssize_t)len);
    w->failed |= n < 0 && errno != EAGAIN;
}

/* What comes is thrown away, with its descriptors. */
static void peer_reads(World *w)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(8 * sizeof(int))];
    } control = { };
    struct iovec iov = { octets, OCTETS };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1,
        .msg_control = &control, .msg_controllen = sizeof(control),
    };
    struct cmsghdr *header;

    if (recvmsg(w->peer, &msg, MSG_DONTWAIT) <= 0) {
        return;
    }
    header = CMSG_FIRSTHDR(&msg);
    if (header && header->cmsg_type == SCM_RIGHTS) {
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
            close(fd);
        }
    }
}

static void step(World *w, FuzzInput *in, uint8_t what, uint16_t number)
{
    switch (what % 10) {
    case 0:
        send_with(w, NULL, 0, number % 4096);
        break;
    case 1:
    case 2:
    case 3:
        send_descriptors(w, in, what % 10);
        break;
    case 4:
        device_reads(w, number % 8192 + 1);
        break;
    case 5:
        device_writes(w, number & 1 ? (size_t)number * 9 : number % 300 + 1);
        break;
    case 6:
        peer_reads(w);
        break;
    case 7:
        if (w->bell >= 0) {
            must(send(w->bell, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 0);
        }
        break;
    case 8:
        send_good_ring(w);
        break;
    default:
        shutdown(w->peer, number % 3);
    }
}

/* ------------------------------------------------------------- the world */

static void none(void *opaque)
{
}

static void released(gpointer opaque)
{
    *(bool *)opaque = true;
}

static unsigned open_descriptors(void)
{
    GDir *dir = g_dir_open("/proc/self/fd", 0, NULL);
    unsigned count = 0;

    while (g_dir_read_name(dir)) {
        count++;
    }
    g_dir_close(dir);
    return count;
}

/* A thread of the fabric's own closes them. */
static bool closed_all_but(unsigned count)
{
    for (int i = 0; i < 10000 && open_descriptors() != count; i++) {
        g_usleep(1000);
    }
    return open_descriptors() == count;
}

static void run(FuzzInput *in)
{
    World w = { .bell = -1 };
    bool gone = false;
    int pair[2];

    must(rnic_descriptors_take(1));
    must(qemu_socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    w.peer = pair[1];
    w.transport = rnic_unix_transport_new(pair[0], true, released, &gone);
    rnic_transport_set_handlers(w.transport, qemu_get_aio_context(), none, none,
                                &w);
    for (int i = 0; i < STEPS && in->size && !w.failed; i++) {
        uint8_t what = fuzz_octet(in);

        step(&w, in, what, fuzz_number(in, 2));
    }
    rnic_transport_close(w.transport);
    must(gone);
    close(w.peer);
    if (w.bell >= 0) {
        close(w.bell);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool begun;
    FuzzInput in = { data, size };
    FuzzInput nothing = { (const uint8_t *)"\5\0\0", 3 };
    unsigned before;

    if (!begun) {
        qemu_init_main_loop(&error_abort);
        rnic_unix_closers_start();
        run(&nothing);          /* what is made once is there now */
        g_usleep(100000);
        begun = true;
    }
    before = open_descriptors();
    run(&in);
    must(closed_all_but(before));
    return 0;
}
