/*
 * rnic: registered memory, who may touch which octet of it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"

#include "tests/qtest/rnic/lib/connection.h"

/* ------------------------------------------------------- making regions */

typedef struct Region {
    uint64_t va;
    uint64_t length;
    uint64_t offset;            /* in the first page */
    uint32_t access;
    uint8_t key;
    uint8_t page_shift;
    unsigned pages;
    uint64_t bus[64];
    uint32_t stag;
} Region;

static uint64_t write_list(Rnic *r, const Region *region)
{
    uint64_t list = rnic_alloc(r, 4096);

    for (unsigned i = 0; i < region->pages; i++) {
        uint64_t entry = cpu_to_le64(region->bus[i]);

        rnic_mem_write(r, list + 8 * i, &entry, 8);
    }
    return list;
}

static void register_region(Rnic *r, uint32_t pd, Region *region)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);
    struct rnic_admin_cqe cqe;

    sqe.register_mr.pdn = cpu_to_le32(pd);
    sqe.register_mr.va = cpu_to_le64(region->va);
    sqe.register_mr.length = cpu_to_le64(region->length);
    sqe.register_mr.first_byte_offset = cpu_to_le64(region->offset);
    sqe.register_mr.access = cpu_to_le32(region->access);
    sqe.register_mr.key = region->key;
    sqe.register_mr.pages.addr = cpu_to_le64(write_list(r, region));
    sqe.register_mr.pages.count = cpu_to_le32(region->pages);
    sqe.register_mr.pages.page_shift = region->page_shift;
    sqe.register_mr.pages.level = RNIC_PAGE_LIST_DIRECT;
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    region->stag = le32_to_cpu(cqe.number);
}

static Region simple_region(Rnic *r, unsigned pages)
{
    Region region = {
        .access = RNIC_TEST_ACCESS_ALL,
        .page_shift = 12,
        .pages = pages,
        .length = pages * 4096,
        .key = 1,
    };
    uint64_t bus = rnic_alloc(r, pages * 4096);

    for (unsigned i = 0; i < pages; i++) {
        region.bus[i] = bus + i * 4096;
    }
    region.va = bus + 0x5500000000;
    return region;
}

/* -------------------------------------------------------- using regions */

/* The peer writes and waits until it is there. */
static void peer_writes(Connection *c, uint32_t stag, uint64_t to,
                        const void *data, uint32_t length)
{
    WireRead fence = { };

    wire_put_write(c->peer, stag, to, data, length);
    wire_put_read_request(c->peer, &fence);
    wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, NULL, 0);
}

static void peer_reads(Connection *c, uint32_t stag, uint64_t to, void *data,
                       uint32_t length)
{
    WireRead read = { .size = length, .source_stag = stag,
                      .source_to = to };

    wire_put_read_request(c->peer, &read);
    g_assert_cmpuint(wire_get_tagged(c->peer, WIRE_READ_RESPONSE, 0, 0, data,
                                     length), ==, length);
}

/* The peer's Write or Read ends the stream with @code; then all is new. */
static void peer_write_refused(Connection *c, uint32_t stag, uint64_t to,
                               uint32_t length, uint16_t code)
{
    uint8_t data[64] = { 0x66 };

    wire_put_write(c->peer, stag, to, data, length);
    wire_expect_terminate(c->peer, code);
    connection_recycle(c);
    connection_establish(c, NULL);
}

static void peer_read_refused(Connection *c, uint32_t stag, uint64_t to,
                              uint32_t length, uint16_t code)
{
    WireRead read = { .size = length, .source_stag = stag,
                      .source_to = to };

    wire_put_read_request(c->peer, &read);
    wire_expect_terminate(c->peer, code);
    connection_recycle(c);
    connection_establish(c, NULL);
}

/* The guest's own work ends with @status, nothing went out; all is new. */
static void local_refused(Connection *c, uint8_t opcode, uint32_t stag,
                          uint64_t to, uint32_t length, uint8_t status)
{
    RnicWr wr = { .opcode = opcode, .flags = RNIC_WQE_SIGNALED, .wr_id = 77,
                  .num_sge = 1, .remote_stag = CONNECTION_REMOTE_STAG };
    WireSegment segment;

    wr.sge[0].stag = cpu_to_le32(stag);
    wr.sge[0].to = cpu_to_le64(to);
    wr.sge[0].length = cpu_to_le32(length);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_segment(c->peer, &segment);
    g_assert_cmpint(segment.opcode, ==, WIRE_TERMINATE);
    g_free(segment.payload);
    rnic_expect_cqe(c->r, &c->send_cq, 77, status);
    connection_recycle(c);
    connection_establish(c, NULL);
}

/* A Receive of the guest ends with @status. */
static void receive_refused(Connection *c, uint32_t stag, uint64_t to,
                            uint32_t length, uint8_t status)
{
    struct rnic_sge sge = { .stag = cpu_to_le32(stag), .to = cpu_to_le64(to),
                            .length = cpu_to_le32(length) };
    uint8_t data[64] = { 0x66 };

    rnic_post_recv(c->r, &c->qp, 78, 1, &sge);
    wire_put_send(c->peer, WIRE_SEND, 0, data, length);
    rnic_expect_cqe(c->r, &c->recv_cq, 78, status);
    connection_recycle(c);
    connection_establish(c, NULL);
}

/* ---------------------------------------------------------- translation */

/* Pages in no order, an odd beginning and an odd end. */
static void test_scattered(void)
{
    enum { PAGES = 9, FBO = 0x123, LENGTH = PAGES * 4096 - 0x123 - 0x77 };
    Connection *c = connection_new(NULL);
    Region region = simple_region(c->r, PAGES);
    uint8_t data[LENGTH], got[LENGTH], page[4096];

    for (unsigned i = 0; i < PAGES; i++) {
        unsigned other = i * 5 % PAGES;
        uint64_t swap = region.bus[i];

        region.bus[i] = region.bus[other];
        region.bus[other] = swap;
    }
    region.offset = FBO;
    region.va += FBO;
    region.length = LENGTH;
    register_region(c->r, c->r->pd, &region);
    rnic_pattern(data, LENGTH, 1);
    peer_writes(c, region.stag, region.va, data, LENGTH);
    for (unsigned i = 0; i < PAGES; i++) {
        unsigned from = i ? i * 4096 - FBO : 0;
        unsigned skip = i ? 0 : FBO;
        unsigned size = MIN(4096 - skip, LENGTH - from);

        rnic_mem_read(c->r, region.bus[i], page, 4096);
        g_assert_cmpmem(page + skip, size, data + from, size);
        for (unsigned at = 0; at < skip; at++) {
            g_assert_cmphex(page[at], ==, 0);
        }
        for (unsigned at = skip + size; at < 4096; at++) {
            g_assert_cmphex(page[at], ==, 0);
        }
    }
    peer_reads(c, region.stag, region.va, got, LENGTH);
    g_assert_cmpmem(got, LENGTH, data, LENGTH);
    /* Parts across page joints. */
    for (unsigned i = 0; i < 20; i++) {
        unsigned from = i * 1777 % (LENGTH - 5000);
        unsigned size = 1 + i * 251;

        peer_reads(c, region.stag, region.va + from, got, size);
        g_assert_cmpmem(got, size, data + from, size);
    }
    /* Any part can be written, by a Write or a Read Response. */
    for (unsigned i = 0; i < 20; i++) {
        unsigned from = i * 1999 % (LENGTH - 6000);
        unsigned size = 1 + i * 293;

        rnic_pattern(data + from, size, 100 + i);
        if (i & 1) {
            peer_writes(c, region.stag, region.va + from, data + from, size);
        } else {
            RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ, .num_sge = 1,
                          .flags = RNIC_WQE_SIGNALED, .wr_id = i,
                          .remote_stag = CONNECTION_REMOTE_STAG };
            WireRead read;

            wr.sge[0].stag = cpu_to_le32(region.stag);
            wr.sge[0].to = cpu_to_le64(region.va + from);
            wr.sge[0].length = cpu_to_le32(size);
            rnic_post_send(c->r, &c->qp, &wr);
            wire_get_read_request(c->peer, i / 2 + 1, &read);
            wire_put_read_response(c->peer, read.sink_stag, read.sink_to,
                                   data + from, size);
            rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
        }
        peer_reads(c, region.stag, region.va, got, LENGTH);
        g_assert_cmpmem(got, LENGTH, data, LENGTH);
    }
    connection_free(c);
    rnic_shows("V7.3.2.2-1 V7.3.2.2-3 V7.4.2-2 V7.6.2-1");
}

/* The guest's own work names all 64 bits of the address, too. */
static void assert_own_work(Connection *c, const Region *region,
                            const uint8_t *data)
{
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .num_sge = 1,
                  .flags = RNIC_WQE_SIGNALED, .wr_id = 1,
                  .remote_stag = CONNECTION_REMOTE_STAG,
                  .remote_to = region->va };
    uint8_t got[100];
    WireRead read;

    wr.sge[0].stag = cpu_to_le32(region->stag);
    wr.sge[0].to = cpu_to_le64(region->va + 4050);
    wr.sge[0].length = cpu_to_le32(100);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 100);
    g_assert_cmpmem(got, 100, data + 4050, 100);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    wr.opcode = RNIC_SQ_RDMA_WRITE;
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_tagged(c->peer, WIRE_WRITE, CONNECTION_REMOTE_STAG, region->va,
                    got, 100);
    g_assert_cmpmem(got, 100, data + 4050, 100);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    wr.opcode = RNIC_SQ_RDMA_READ;
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_read_request(c->peer, 1, &read);
    g_assert_cmphex(read.sink_to, ==, region->va + 4050);
    g_assert_cmphex(read.source_to, ==, region->va);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to,
                           data + 200, 100);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    rnic_mem_read(c->r, region->bus[0] + 4050, got, 100);
    g_assert_cmpmem(got, 100, data + 200, 100);
    rnic_post_recv(c->r, &c->qp, 2, 1, wr.sge);
    wire_put_send(c->peer, WIRE_SEND, 0, data, 100);
    rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_SUCCESS);
    rnic_mem_read(c->r, region->bus[0] + 4050, got, 100);
    g_assert_cmpmem(got, 100, data, 100);
}

static void test_va_based(void)
{
    static const uint64_t vas[] = {
        0x1000, 0xfffff000, 0xffffffffffffe000, 0x8000000000000000,
    };
    Connection *c = connection_new(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(vas); i++) {
        Region region = simple_region(c->r, 2);
        uint8_t got[8192], data[8192];

        region.va = vas[i];
        register_region(c->r, c->r->pd, &region);
        rnic_pattern(data, sizeof(data), i);
        peer_writes(c, region.stag, region.va, data, sizeof(data));
        rnic_mem_read(c->r, region.bus[0], got, sizeof(got));
        g_assert_cmpmem(got, sizeof(got), data, sizeof(data));
        peer_writes(c, region.stag, region.va, "!", 1);
        rnic_mem_read(c->r, region.bus[0], got, 2);
        g_assert_cmphex(got[0], ==, '!');
        g_assert_cmphex(got[1], ==, data[1]);
        peer_reads(c, region.stag, region.va + 8191, got, 1);
        g_assert_cmphex(got[0], ==, data[8191]);
        assert_own_work(c, &region, data);
        peer_write_refused(c, region.stag, region.va - 1, 1, 0x1101);
        peer_read_refused(c, region.stag, region.va + 8191, 2,
                          region.va + 8192 == 0 ? 0x0104 : 0x0101);
    }
    connection_free(c);
    rnic_shows("V7.3.1.1-2 V7.6.1.1-1");
}

static void test_zero_based(void)
{
    Connection *c = connection_new(NULL);
    Region region = simple_region(c->r, 2);
    uint8_t got[16];

    region.offset = 0x123;
    region.length = 5000;
    region.va = 0xdeadbeefdeadbeef;
    region.access |= RNIC_ACCESS_ZERO_BASED;
    register_region(c->r, c->r->pd, &region);
    peer_writes(c, region.stag, 0, "first", 5);
    rnic_mem_read(c->r, region.bus[0] + 0x123, got, 5);
    g_assert_cmpmem(got, 5, "first", 5);
    peer_writes(c, region.stag, 4999, "l", 1);
    rnic_mem_read(c->r, region.bus[1] + 0x123 + 4999 - 4096, got, 2);
    g_assert_cmpmem(got, 2, "l\0", 2);
    peer_write_refused(c, region.stag, 5000, 1, 0x1101);
    peer_write_refused(c, region.stag, 4999, 2, 0x1101);
    peer_write_refused(c, region.stag, region.va, 1, 0x1101);
    peer_read_refused(c, region.stag, 0, 5001, 0x0101);
    /* The same octets by address. */
    region.access &= ~RNIC_ACCESS_ZERO_BASED;
    region.va = 0x7000000123;
    register_region(c->r, c->r->pd, &region);
    peer_writes(c, region.stag, region.va, "again", 5);
    rnic_mem_read(c->r, region.bus[0] + 0x123, got, 5);
    g_assert_cmpmem(got, 5, "again", 5);
    peer_write_refused(c, region.stag, 0, 1, 0x1101);
    connection_free(c);
    rnic_shows("V7.3.1.1-3 V7.6.1.2-1 V9.2.6.2-6");
}

/* Receives into all of @region, and into it and one octet more than it has. */
static void assert_receives(Connection *c, const Region *region)
{
    struct rnic_sge sge[2] = {
        { .stag = cpu_to_le32(region->stag), .to = cpu_to_le64(region->va),
          .length = cpu_to_le32(region->length) },
        { .stag = cpu_to_le32(region->stag), .length = cpu_to_le32(2),
          .to = cpu_to_le64(region->va + region->length - 1) },
    };
    uint64_t at = region->bus[0] + region->offset;
    uint8_t data[64], got[64];

    g_assert_cmpuint(region->length, <, sizeof(data));
    rnic_pattern(data, sizeof(data), 5);
    rnic_post_recv(c->r, &c->qp, 1, 1, sge);
    wire_put_send(c->peer, WIRE_SEND, 0, data, region->length);
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    rnic_mem_read(c->r, at, got, region->length);
    g_assert_cmpmem(got, region->length, data, region->length);
    /* The last SGE is no more than another. */
    rnic_post_recv(c->r, &c->qp, 2, 2, sge);
    wire_put_send(c->peer, WIRE_SEND, 0, data, region->length + 2);
    rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_BASE_BOUNDS);
    wire_expect_terminate(c->peer, 0);
    rnic_mem_read(c->r, at + region->length, got, 1);
    g_assert_cmphex(got[0], ==, 0);
    connection_recycle(c);
    connection_establish(c, NULL);
}

/* A region that ends and begins within a page: to the octet. */
static void test_exact_bounds(void)
{
    static const uint8_t sources[] = {
        RNIC_SQ_SEND, RNIC_SQ_RDMA_WRITE, RNIC_SQ_RDMA_READ,
    };
    Connection *c = connection_new(NULL);
    Region region = simple_region(c->r, 1);
    uint8_t got[4096];
    uint64_t end;

    region.offset = 0x7f1;
    region.va += 0x7f1;
    region.length = 33;
    register_region(c->r, c->r->pd, &region);
    end = region.va + 33;
    peer_writes(c, region.stag, region.va, "0123456789abcdef0123456789abcdefX",
                33);
    peer_writes(c, region.stag, end - 1, "Z", 1);
    peer_write_refused(c, region.stag, region.va - 1, 1, 0x1101);
    peer_write_refused(c, region.stag, region.va - 1, 35, 0x1101);
    peer_write_refused(c, region.stag, end, 1, 0x1101);
    peer_write_refused(c, region.stag, end - 1, 2, 0x1101);
    peer_read_refused(c, region.stag, region.va - 1, 2, 0x0101);
    peer_read_refused(c, region.stag, end - 1, 2, 0x0101);
    rnic_mem_read(c->r, region.bus[0], got, 4096);
    for (unsigned i = 0; i < 4096; i++) {
        if (i < 0x7f1 || i >= 0x7f1 + 33) {
            g_assert_cmphex(got[i], ==, 0);
        }
    }
    g_assert_cmpmem(got + 0x7f1, 33, "0123456789abcdef0123456789abcdefZ", 33);

    /* A message of several segments: what is within the bounds arrives. */
    c->peer->segment_size = 20;
    peer_write_refused(c, region.stag, end - 20, 40, 0x1101);
    rnic_mem_read(c->r, region.bus[0] + 0x7f1 + 13, got, 40);
    g_assert_cmphex(got[0], ==, 0x66);
    for (unsigned i = 20; i < 40; i++) {
        g_assert_cmphex(got[i], ==, 0);
    }

    /* The same for the guest's own work. */
    for (unsigned i = 0; i < G_N_ELEMENTS(sources); i++) {
        RnicWr wr = { .opcode = sources[i], .flags = RNIC_WQE_SIGNALED,
                      .wr_id = 1, .num_sge = 2,
                      .remote_stag = CONNECTION_REMOTE_STAG };
        WireSegment segment;

        local_refused(c, sources[i], region.stag, region.va - 1, 1,
                      RNIC_WC_BASE_BOUNDS);
        local_refused(c, sources[i], region.stag, region.va - 1, 35,
                      RNIC_WC_BASE_BOUNDS);
        local_refused(c, sources[i], region.stag, end, 1,
                      RNIC_WC_BASE_BOUNDS);
        local_refused(c, sources[i], region.stag, region.va, 34,
                      RNIC_WC_BASE_BOUNDS);
        local_refused(c, sources[i], region.stag, UINT64_MAX, 2,
                      RNIC_WC_WRAP);
        if (sources[i] == RNIC_SQ_RDMA_READ) {
            continue;
        }
        wr.sge[0].stag = wr.sge[1].stag = cpu_to_le32(region.stag);
        wr.sge[0].to = cpu_to_le64(region.va);
        wr.sge[0].length = cpu_to_le32(33);
        wr.sge[1].to = cpu_to_le64(end - 1);
        wr.sge[1].length = cpu_to_le32(1);
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_segment(c->peer, &segment);
        g_assert_cmpuint(segment.length, ==, 34);
        g_free(segment.payload);
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
        wr.sge[1].length = cpu_to_le32(2);
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_segment(c->peer, &segment);
        g_assert_cmpint(segment.opcode, ==, WIRE_TERMINATE);
        g_free(segment.payload);
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_BASE_BOUNDS);
        connection_recycle(c);
        connection_establish(c, NULL);
    }
    receive_refused(c, region.stag, region.va - 1, 1, RNIC_WC_BASE_BOUNDS);
    receive_refused(c, region.stag, region.va, 34, RNIC_WC_BASE_BOUNDS);
    receive_refused(c, region.stag, end, 1, RNIC_WC_BASE_BOUNDS);
    receive_refused(c, region.stag, end - 1, 2, RNIC_WC_BASE_BOUNDS);
    assert_receives(c, &region);
    receive_refused(c, region.stag, UINT64_MAX, 2, RNIC_WC_WRAP);
    peer_write_refused(c, region.stag, UINT64_MAX, 2, 0x1103);
    peer_read_refused(c, region.stag, UINT64_MAX, 2, 0x0104);
    rnic_mem_read(c->r, region.bus[0], got, 4096);
    for (unsigned i = 0; i < 4096; i++) {
        if (i < 0x7f1 || i >= 0x7f1 + 33) {
            g_assert_cmphex(got[i], ==, 0);
        }
    }
    connection_free(c);
    rnic_shows("V7.5.1-1 V7.6.3-6 V9.2.6.2-5 V10.3-4 R8.1.1-3");
}

static void test_large_pages(void)
{
    Connection *c = connection_new(NULL);
    struct rnic_device_attr attr = rnic_query_device(c->r);
    uint64_t cap = le64_to_cpu(attr.page_size_cap);

    for (uint8_t shift = 12; shift <= 24; shift++) {
        uint64_t size = 1ULL << shift;
        Region region = { .access = RNIC_TEST_ACCESS_ALL, .pages = 2,
                          .page_shift = shift };
        uint8_t got[4];

        if (!(cap >> shift & 1)) {
            continue;
        }
        /* Two pages, the second one first. */
        c->r->next_free = QEMU_ALIGN_UP(c->r->next_free, size);
        region.bus[1] = c->r->next_free;
        region.bus[0] = region.bus[1] + size;
        region.va = region.bus[0] + 0x40000000000ULL;
        region.length = 2 * size;
        if (region.bus[0] + size > 220 * 1024 * 1024) {
            continue;
        }
        register_region(c->r, c->r->pd, &region);
        peer_writes(c, region.stag, region.va + size - 2, "wxyz", 4);
        rnic_mem_read(c->r, region.bus[0] + size - 2, got, 2);
        g_assert_cmpmem(got, 2, "wx", 2);
        rnic_mem_read(c->r, region.bus[1], got, 2);
        g_assert_cmpmem(got, 2, "yz", 2);
        rnic_mem_fill(c->r, region.bus[0] + size - 2, 0, 2);
        rnic_mem_fill(c->r, region.bus[1], 0, 2);
        c->r->next_free = region.bus[1];
    }
    g_assert_cmphex(cap & 0x1000, !=, 0);
    connection_free(c);
}

/* ---------------------------------------------------------------- rights */

/* Overlapping regions: each has its own rights and its own PD. */
static void test_overlap(void)
{
    Connection *c = connection_new(NULL);
    Region both = simple_region(c->r, 2);
    Region read = both, write = both, foreign = both;
    uint8_t got[8];

    read.access = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_REMOTE_READ;
    write.access = RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE;
    register_region(c->r, c->r->pd, &both);
    register_region(c->r, c->r->pd, &read);
    register_region(c->r, c->r->pd, &write);
    register_region(c->r, rnic_alloc_pd(c->r), &foreign);
    g_assert_cmphex(both.stag >> 8, !=, read.stag >> 8);
    g_assert_cmphex(read.stag >> 8, !=, write.stag >> 8);
    peer_writes(c, write.stag, write.va + 4090, "12345678", 8);
    peer_reads(c, read.stag, read.va + 4090, got, 8);
    g_assert_cmpmem(got, 8, "12345678", 8);
    peer_reads(c, both.stag, both.va + 4090, got, 8);
    g_assert_cmpmem(got, 8, "12345678", 8);
    peer_writes(c, both.stag, both.va + 4090, "abcdefgh", 8);
    peer_reads(c, read.stag, read.va + 4090, got, 8);
    g_assert_cmpmem(got, 8, "abcdefgh", 8);
    peer_write_refused(c, read.stag, read.va, 1, 0x1102);
    peer_read_refused(c, write.stag, write.va, 1, 0x0102);
    peer_write_refused(c, foreign.stag, foreign.va, 1, 0x1102);
    peer_read_refused(c, foreign.stag, foreign.va, 1, 0x0103);
    /* One goes, the others stay. */
    g_assert_cmpuint(rnic_admin_object(c->r, RNIC_ADMIN_DEALLOC_STAG,
                                       both.stag), ==, RNIC_ST_OK);
    peer_read_refused(c, both.stag, both.va, 1, 0x0100);
    peer_writes(c, write.stag, write.va, "A", 1);
    peer_reads(c, read.stag, read.va, got, 1);
    g_assert_cmphex(got[0], ==, 'A');
    /* Nor does the guest's own work reach over. */
    local_refused(c, RNIC_SQ_SEND, foreign.stag, foreign.va, 8,
                  RNIC_WC_INVALID_PD);
    local_refused(c, RNIC_SQ_RDMA_WRITE, foreign.stag, foreign.va, 8,
                  RNIC_WC_INVALID_PD);
    local_refused(c, RNIC_SQ_RDMA_READ, foreign.stag, foreign.va, 8,
                  RNIC_WC_INVALID_PD);
    receive_refused(c, foreign.stag, foreign.va, 8, RNIC_WC_INVALID_PD);
    peer_reads(c, read.stag, read.va, got, 1);
    g_assert_cmphex(got[0], ==, 'A');
    connection_free(c);
    rnic_shows("V5.2-1 V7.4.3-1 V7.9-3 V7.6.3-3 V10.3-3 R3.2-7 R8.1.1-1");
}

/* Local use looks at local rights alone, and not at those of the QP. */
static void test_local_rights(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .enables = RNIC_QP_PRIVILEGED });
    Region local = simple_region(c->r, 1), write = local, read = local;
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                  .num_sge = 1 };
    uint8_t got[8];

    local.access = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_LOCAL_WRITE;
    register_region(c->r, c->r->pd, &local);
    rnic_mem_write(c->r, local.bus[0], "local", 5);
    wr.sge[0].stag = cpu_to_le32(local.stag);
    wr.sge[0].to = cpu_to_le64(local.va);
    wr.sge[0].length = cpu_to_le32(5);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    g_assert_cmpmem(got, 5, "local", 5);
    rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_SUCCESS);
    rnic_post_recv(c->r, &c->qp, 1, 1, wr.sge);
    wire_put_send(c->peer, WIRE_SEND, 0, "lacol", 5);
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    rnic_mem_read(c->r, local.bus[0], got, 5);
    g_assert_cmpmem(got, 5, "lacol", 5);
    wr.opcode = RNIC_SQ_RDMA_WRITE;
    wr.remote_stag = CONNECTION_REMOTE_STAG;
    rnic_post_send(c->r, &c->qp, &wr);
    g_assert_cmpuint(connection_get_write(c, 0, got, 8), ==, 5);
    g_assert_cmpmem(got, 5, "lacol", 5);
    rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_SUCCESS);
    /* Remote rights do not replace local ones. */
    write.access = RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE;
    register_region(c->r, c->r->pd, &write);
    local_refused(c, RNIC_SQ_SEND, write.stag, write.va, 5,
                  RNIC_WC_ACCESS_VIOLATION);
    local_refused(c, RNIC_SQ_RDMA_WRITE, write.stag, write.va, 5,
                  RNIC_WC_ACCESS_VIOLATION);
    read.access = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_REMOTE_READ;
    register_region(c->r, c->r->pd, &read);
    receive_refused(c, read.stag, read.va, 5, RNIC_WC_ACCESS_VIOLATION);
    rnic_mem_read(c->r, local.bus[0], got, 5);
    g_assert_cmpmem(got, 5, "lacol", 5);
    connection_free(c);
    rnic_shows("V7.4.1-5 V8.1.2.2-8 V9.5.2-8");
}

/* librdmacm's memory: local write only, marked as the sink of Reads. */
static void test_read_sink(void)
{
    ConnectionOptions options = {
        .enables = RNIC_QP_ENABLE_READ | RNIC_QP_READ_SINK_BY_REQUEST };
    Connection *c = connection_new(&options);
    Region sink = simple_region(c->r, 1);
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ, .flags = RNIC_WQE_SIGNALED,
                  .num_sge = 1, .remote_stag = 0x123 };
    uint8_t got[8];
    WireRead read;

    sink.access = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_LOCAL_WRITE |
                  RNIC_ACCESS_READ_SINK;
    register_region(c->r, c->r->pd, &sink);
    wr.sge[0].stag = cpu_to_le32(sink.stag);
    wr.sge[0].to = cpu_to_le64(sink.va);
    wr.sge[0].length = cpu_to_le32(8);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_read_request(c->peer, 1, &read);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, "response",
                           8);
    rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_SUCCESS);
    rnic_mem_read(c->r, sink.bus[0], got, 8);
    g_assert_cmpmem(got, 8, "response", 8);
    /* That lets no Write in. */
    wire_put_write(c->peer, sink.stag, sink.va, "intruder", 8);
    wire_expect_terminate(c->peer, 0x1102);
    rnic_mem_read(c->r, sink.bus[0], got, 8);
    g_assert_cmpmem(got, 8, "response", 8);
    connection_free(c);
}

/* The request goes out; its response is what is refused. */
static void response_refused(Connection *c, const Region *sink)
{
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ, .flags = RNIC_WQE_SIGNALED,
                  .wr_id = 77, .num_sge = 1, .remote_stag = 0x123 };
    uint8_t got[8];
    WireRead read;

    wr.sge[0].stag = cpu_to_le32(sink->stag);
    wr.sge[0].to = cpu_to_le64(sink->va);
    wr.sge[0].length = cpu_to_le32(8);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_read_request(c->peer, 1, &read);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, "response",
                           8);
    wire_expect_terminate(c->peer, 0x1102);
    rnic_expect_async(c->r, RNIC_AE_TAGGED_ACCESS, c->qp.number);
    rnic_expect_cqe(c->r, &c->send_cq, 77, RNIC_WC_FLUSHED);
    rnic_mem_read(c->r, sink->bus[0], got, 8);
    g_assert_cmpmem(got, 8, "\0\0\0\0\0\0\0", 8);
    connection_recycle(c);
    connection_establish(c, NULL);
}

/* Local rights for what is this side's own, remote ones for tagged messages. */
static void test_roles(void)
{
    Connection *c = connection_new(NULL);
    Region local = simple_region(c->r, 1), remote = simple_region(c->r, 1);
    RnicWr wr = { .flags = RNIC_WQE_SIGNALED, .num_sge = 1,
                  .remote_stag = CONNECTION_REMOTE_STAG };
    uint8_t got[8];
    WireRead read;

    local.access = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_LOCAL_WRITE;
    register_region(c->r, c->r->pd, &local);
    register_region(c->r, c->r->pd, &remote);
    wr.sge[0].stag = cpu_to_le32(local.stag);
    wr.sge[0].to = cpu_to_le64(local.va);
    wr.sge[0].length = cpu_to_le32(8);
    /* Source of a Send and of a Write, sink of a Send. */
    rnic_post_recv(c->r, &c->qp, 1, 1, wr.sge);
    wire_put_send(c->peer, WIRE_SEND, 0, "untagged", 8);
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    wr.opcode = RNIC_SQ_SEND;
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    g_assert_cmpmem(got, 8, "untagged", 8);
    rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_SUCCESS);
    wr.opcode = RNIC_SQ_RDMA_WRITE;
    rnic_post_send(c->r, &c->qp, &wr);
    connection_get_write(c, 0, got, 8);
    g_assert_cmpmem(got, 8, "untagged", 8);
    rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_SUCCESS);
    /* Nothing else. */
    peer_write_refused(c, local.stag, local.va, 8, 0x1102);
    peer_read_refused(c, local.stag, local.va, 8, 0x0102);
    rnic_mem_fill(c->r, local.bus[0], 0, 8);
    connection_drain_events(c);
    response_refused(c, &local);
    /* With the remote rights the same three are done. */
    peer_writes(c, remote.stag, remote.va, "tagged..", 8);
    peer_reads(c, remote.stag, remote.va, got, 8);
    g_assert_cmpmem(got, 8, "tagged..", 8);
    wr.opcode = RNIC_SQ_RDMA_READ;
    wr.sge[0].stag = cpu_to_le32(remote.stag);
    wr.sge[0].to = cpu_to_le64(remote.va);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_read_request(c->peer, 1, &read);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, "response",
                           8);
    rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_SUCCESS);
    rnic_mem_read(c->r, remote.bus[0], got, 8);
    g_assert_cmpmem(got, 8, "response", 8);
    connection_free(c);
    rnic_shows("V4-3");
}

/*
 * What a region grants the QP must grant as well. The document's rule: a QP
 * with Writes off takes no Read Response either.
 */
static void test_response_not_enabled(void)
{
    Connection *c = connection_new(&(ConnectionOptions) {
        .enables = RNIC_QP_ENABLE_WRITE });
    Region sink;
    uint8_t got[8];
    WireRead read;

    peer_writes(c, c->mr.stag, c->mr.va, "original", 8);
    wire_put_read_request(c->peer, &(WireRead) {
        .size = 8, .source_stag = c->mr.stag, .source_to = c->mr.va });
    wire_expect_terminate(c->peer, 0x1201);
    rnic_expect_async(c->r, RNIC_AE_READ_NOT_ENABLED, c->qp.number);
    connection_recycle(c);
    connection_establish(c, NULL);
    /* The sink must have the remote right to be written to, too. */
    sink = simple_region(c->r, 1);
    sink.access = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_LOCAL_WRITE |
                  RNIC_ACCESS_REMOTE_READ;
    register_region(c->r, c->r->pd, &sink);
    response_refused(c, &sink);
    connection_free(c);

    c = connection_new(&(ConnectionOptions) {
        .enables = RNIC_QP_ENABLE_READ });

    connection_fill(c, 0, "original", 8);
    connection_post(c, RNIC_SQ_RDMA_READ, 1, 0, 8);
    wire_get_read_request(c->peer, 1, &read);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, "response",
                           8);
    wire_expect_terminate(c->peer, 0x1102);
    rnic_expect_async(c->r, RNIC_AE_WRITE_NOT_ENABLED, c->qp.number);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_FLUSHED);
    connection_peek(c, 0, got, 8);
    g_assert_cmpmem(got, 8, "original", 8);
    connection_recycle(c);
    connection_establish(c, NULL);
    wire_put_write(c->peer, c->mr.stag, c->mr.va, "intruder", 8);
    wire_expect_terminate(c->peer, 0x1102);
    rnic_expect_async(c->r, RNIC_AE_WRITE_NOT_ENABLED, c->qp.number);
    connection_peek(c, 0, got, 8);
    g_assert_cmpmem(got, 8, "original", 8);
    connection_free(c);
    rnic_shows("V7.6.3-2 V8.1.2.2-7 V9.2.5.1-7 V9.5.3-13");
}

/* A Read that names the buffer; its response names @stag. */
static void response_elsewhere_refused(Connection *c, uint32_t stag)
{
    WireRead read;

    connection_post(c, RNIC_SQ_RDMA_READ, 77, 0, 8);
    wire_get_read_request(c->peer, 1, &read);
    wire_put_read_response(c->peer, stag, read.sink_to, "intruder", 8);
    wire_expect_terminate(c->peer, 0x1100);
    rnic_expect_cqe(c->r, &c->send_cq, 77, RNIC_WC_FLUSHED);
    connection_recycle(c);
    connection_establish(c, NULL);
}

/* Every bit of an STag counts. */
static void test_every_bit(void)
{
    Connection *c = connection_new(NULL);

    for (unsigned bit = 0; bit < 32; bit++) {
        peer_write_refused(c, c->mr.stag ^ 1u << bit, c->mr.va, 1, 0x1100);
        peer_read_refused(c, c->mr.stag ^ 1u << bit, c->mr.va, 1, 0x0100);
        local_refused(c, RNIC_SQ_SEND, c->mr.stag ^ 1u << bit, c->mr.va, 1,
                      RNIC_WC_INVALID_STAG);
        local_refused(c, RNIC_SQ_RDMA_WRITE, c->mr.stag ^ 1u << bit, c->mr.va,
                      1, RNIC_WC_INVALID_STAG);
        local_refused(c, RNIC_SQ_RDMA_READ, c->mr.stag ^ 1u << bit, c->mr.va,
                      1, RNIC_WC_INVALID_STAG);
        response_elsewhere_refused(c, c->mr.stag ^ 1u << bit);
        receive_refused(c, c->mr.stag ^ 1u << bit, c->mr.va, 1,
                        RNIC_WC_INVALID_STAG);
    }
    g_assert_cmphex(rnic_mem_read32(c->r, c->mr.bus), ==, 0);
    connection_free(c);
    rnic_shows("V7.4-4");
}

/* Many registrations: indices differ, none is zero, and they come back. */
static void test_indices(void)
{
    Rnic *r = rnic_boot_up(",max-mr=100");
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    Region region = simple_region(r, 1);
    uint32_t stags[100];

    for (int round = 0; round < 3; round++) {
        g_hash_table_remove_all(seen);
        for (int i = 0; i < 100; i++) {
            region.key = i;
            register_region(r, r->pd, &region);
            stags[i] = region.stag;
            g_assert_cmphex(region.stag >> 8, !=, 0);
            g_assert_true(g_hash_table_add(
                seen, GUINT_TO_POINTER(region.stag >> 8)));
            r->next_free -= 2 * 4096;       /* of the page list */
        }
        for (int i = 0; i < 100; i++) {
            g_assert_cmpuint(rnic_admin_object(r, RNIC_ADMIN_DEALLOC_STAG,
                                               stags[i]), ==, RNIC_ST_OK);
        }
    }
    rnic_quit(r);
}

/* --------------------------------------------------------- Fast-Register */

static uint32_t alloc_stag(Rnic *r, uint32_t pd, uint32_t pages, uint8_t key,
                           bool remote)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_ALLOC_STAG);
    struct rnic_admin_cqe cqe;
    struct rnic_mr_attr attr;

    sqe.alloc_stag.pdn = cpu_to_le32(pd);
    sqe.alloc_stag.max_pages = cpu_to_le32(pages);
    sqe.alloc_stag.key = key;
    sqe.alloc_stag.remote_access = remote;
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmphex(le32_to_cpu(cqe.number) >> 8, !=, 0);
    g_assert_cmpuint(le32_to_cpu(cqe.mr.pages), >=, pages);
    g_assert_cmpuint(rnic_admin_query(r, RNIC_ADMIN_QUERY_MR,
                                      le32_to_cpu(cqe.number), &attr,
                                      sizeof(attr)), ==, RNIC_ST_OK);
    g_assert_cmpuint(le32_to_cpu(attr.max_pages), ==,
                     le32_to_cpu(cqe.mr.pages));
    g_assert_cmphex(le32_to_cpu(attr.pdn), ==, pd);
    return le32_to_cpu(cqe.number);
}

static struct rnic_mr_attr query_mr(Rnic *r, uint32_t stag)
{
    struct rnic_mr_attr attr;

    g_assert_cmpuint(rnic_admin_query(r, RNIC_ADMIN_QUERY_MR, stag, &attr,
                                      sizeof(attr)), ==, RNIC_ST_OK);
    return attr;
}

typedef struct FastRegister {
    struct rnic_sq_wqe head;
    struct rnic_fast_register_wqe args;
    uint8_t rest[32];
} FastRegister;
QEMU_BUILD_BUG_ON(sizeof(FastRegister) != 2 * RNIC_SQ_UNIT);

static FastRegister fast_register(Rnic *r, uint64_t wr_id,
                                  const Region *region)
{
    return (FastRegister) {
        .head = {
            .opcode = RNIC_SQ_FAST_REGISTER,
            .flags = RNIC_WQE_SIGNALED,
            .units = 2,
            .wr_id = cpu_to_le64(wr_id),
        },
        .args = {
            .stag = cpu_to_le32(region->stag),
            .first_byte_offset = cpu_to_le32(region->offset),
            .va = cpu_to_le64(region->va),
            .length = cpu_to_le64(region->length),
            .access = region->access,
            .pages = {
                .addr = cpu_to_le64(write_list(r, region)),
                .count = cpu_to_le32(region->pages),
                .level = RNIC_PAGE_LIST_DIRECT,
                .page_shift = region->page_shift,
            },
        },
    };
}

static void store_fast_register(Connection *c, uint64_t wr_id,
                                const Region *region)
{
    FastRegister wqe = fast_register(c->r, wr_id, region);

    rnic_store_wqe(c->r, &c->qp, &wqe, 2);
}

static void store_invalidate(Connection *c, uint64_t wr_id, uint32_t stag,
                             uint8_t flags)
{
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
    RnicWr wr = { .opcode = RNIC_SQ_LOCAL_INVALIDATE,
                  .flags = RNIC_WQE_SIGNALED | flags, .wr_id = wr_id,
                  .invalidate_stag = stag };

    rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
}

static const ConnectionOptions privileged = {
    .enables = RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE |
               RNIC_QP_PRIVILEGED,
    .sq_depth = 256,
};

static Connection *privileged_connection(uint64_t needed)
{
    Connection *c = connection_new(&privileged);

    if ((rnic_features(c->r) & needed) != needed) {
        connection_free(c);
        g_test_skip("not offered");
        return NULL;
    }
    return c;
}

#define FRMR (RNIC_FEATURE_FAST_REGISTER | RNIC_FEATURE_LOCAL_INVALIDATE)

/* Register, use, invalidate, again with other pages and another key. */
static void test_fast_register(void)
{
    enum { ROUNDS = 40 };
    Connection *c = privileged_connection(FRMR);
    Region region;
    struct rnic_mr_attr attr, fresh;
    uint32_t stag;

    if (!c) {
        return;
    }
    region = simple_region(c->r, 4);
    /* The second page comes first. */
    region.bus[1] = region.bus[0];
    region.bus[0] += 4096;
    stag = alloc_stag(c->r, c->r->pd, 4, 9, true);
    attr = query_mr(c->r, stag);
    g_assert_cmpint(attr.valid, ==, 0);
    g_assert_cmpint(attr.remote_access, ==, 1);
    g_assert_cmpuint(le32_to_cpu(attr.max_pages), >=, 4);
    fresh = attr;
    /* Not yet: neither here nor from there. */
    local_refused(c, RNIC_SQ_SEND, stag, 0, 1, RNIC_WC_INVALID_STAG);
    peer_write_refused(c, stag, 0, 1, 0x1100);
    peer_read_refused(c, stag, 0, 1, 0x0100);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t mark = c->r->next_free;
        uint8_t data[300], got[300];

        region.stag = (stag & ~0xffu) | (uint8_t)(i * 7);
        region.pages = 1 + i % 4;
        region.offset = i * 13;
        region.va = 0x100000000ULL * i + region.offset;
        region.length = 4096 * region.pages - region.offset;
        store_fast_register(c, 2 * i, &region);
        rnic_ring_sq(c->r, &c->qp);
        rnic_expect_cqe(c->r, &c->send_cq, 2 * i, RNIC_WC_SUCCESS);
        attr = query_mr(c->r, stag);
        g_assert_cmpint(attr.valid, ==, 1);
        g_assert_cmpint(attr.remote_access, ==, 1);
        g_assert_cmphex(le32_to_cpu(attr.stag), ==, region.stag);
        g_assert_cmphex(le64_to_cpu(attr.va), ==, region.va);
        g_assert_cmphex(le64_to_cpu(attr.length), ==, region.length);
        if (region.pages > 1) {
            /* Over the joint of two pages, which do not follow each other. */
            peer_writes(c, region.stag, region.va + 4094 - region.offset,
                        "over", 4);
            rnic_mem_read(c->r, region.bus[0] + 4094, got, 2);
            g_assert_cmpmem(got, 2, "ov", 2);
            rnic_mem_read(c->r, region.bus[1], got, 2);
            g_assert_cmpmem(got, 2, "er", 2);
        }
        rnic_pattern(data, sizeof(data), i);
        peer_writes(c, region.stag, region.va + region.length - 300, data,
                    300);
        rnic_mem_read(c->r, region.bus[region.pages - 1] + 4096 - 300, got,
                      300);
        g_assert_cmpmem(got, 300, data, 300);
        peer_reads(c, region.stag, region.va + region.length - 300, got, 300);
        g_assert_cmpmem(got, 300, data, 300);
        store_invalidate(c, 2 * i + 1, region.stag, 0);
        rnic_ring_sq(c->r, &c->qp);
        rnic_expect_cqe(c->r, &c->send_cq, 2 * i + 1, RNIC_WC_SUCCESS);
        attr = query_mr(c->r, stag);
        g_assert_cmpint(attr.valid, ==, 0);
        g_assert_cmphex(attr.pdn, ==, fresh.pdn);
        g_assert_cmphex(attr.max_pages, ==, fresh.max_pages);
        g_assert_cmpint(attr.remote_access, ==, 1);
        c->r->next_free = mark;
    }
    wire_put_write(c->peer, region.stag, region.va, "x", 1);
    wire_expect_terminate(c->peer, 0x1100);
    connection_free(c);
    rnic_shows("V7.3.2.1-3 V7.3.2.1-6 V7.3.2.5-3 V7.3.2.5-10 V7.3.2.5-13 "
               "V7.8-6 V7.8-7 V8.2.2.1-10 V9.2.6.1-1 V8.1.2.3.2-1 "
               "V7.3.2.1-5 V9.3.1.1-18");
}

/* A list in one post: what registers is in force for what follows. */
static void test_fast_register_chain(void)
{
    Connection *c = privileged_connection(FRMR);
    Region region;
    uint32_t stag;
    uint8_t got[16];

    if (!c) {
        return;
    }
    region = simple_region(c->r, 2);
    stag = alloc_stag(c->r, c->r->pd, 2, 0, true);
    rnic_mem_write(c->r, region.bus[0], "page0", 5);
    rnic_mem_write(c->r, region.bus[1], "page1", 5);
    for (unsigned i = 0; i < 10; i++) {
        uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];
        Region one = region;
        RnicWr wr = { .opcode = RNIC_SQ_SEND, .num_sge = 1 };

        one.stag = (stag & ~0xffu) | i;
        one.pages = 1;
        one.length = 4096;
        one.bus[0] = region.bus[i & 1];
        store_fast_register(c, i, &one);
        wr.sge[0].stag = cpu_to_le32(one.stag);
        wr.sge[0].to = cpu_to_le64(one.va);
        wr.sge[0].length = cpu_to_le32(5);
        rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
        store_invalidate(c, 100 + i, one.stag, RNIC_WQE_LOCAL_FENCE);
    }
    rnic_ring_sq(c->r, &c->qp);
    for (unsigned i = 0; i < 10; i++) {
        wire_get_send(c->peer, WIRE_SEND, i + 1, got, 16);
        g_assert_cmpmem(got, 5, i & 1 ? "page1" : "page0", 5);
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
        rnic_expect_cqe(c->r, &c->send_cq, 100 + i, RNIC_WC_SUCCESS);
    }
    /* Local work: not an octet on the wire. */
    store_fast_register(c, 200, &(Region) {
        .stag = stag, .pages = 1, .length = 4096, .page_shift = 12,
        .bus = { region.bus[0] }, .access = RNIC_ACCESS_LOCAL_READ });
    store_invalidate(c, 201, stag, 0);
    store_invalidate(c, 202, stag, 0);
    rnic_ring_sq(c->r, &c->qp);
    for (int i = 200; i < 203; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    wire_expect_silence(c->peer);
    /* Without an Invalidate between them the second one fails. */
    region.stag = stag;
    store_fast_register(c, 300, &region);
    store_fast_register(c, 301, &region);
    rnic_ring_sq(c->r, &c->qp);
    wire_expect_terminate(c->peer, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 300, RNIC_WC_SUCCESS);
    rnic_expect_cqe(c->r, &c->send_cq, 301, RNIC_WC_STAG_NOT_INVALID);
    connection_free(c);
    rnic_shows("V7.3.2.5-6 V7.3.2.5-12 V7.8-11 V8.1.2.3.2-2 "
               "V8.1.2.3.3-3 V8.2.2.1-5 V8.2.2.2-11 V9.3.1.1-18");
}

typedef struct FastError {
    const char *what;
    void (*spoil)(Connection *c, FastRegister *wqe);
    uint8_t status;
} FastError;

#define SPOIL(name) \
    static void name(Connection *c, FastRegister *wqe)

SPOIL(fr_unknown) { wqe->args.stag = cpu_to_le32(0x77777700); }
SPOIL(fr_zero) { wqe->args.stag = 0; }
SPOIL(fr_valid) { wqe->args.stag = cpu_to_le32(c->mr.stag); }
SPOIL(fr_too_long) { wqe->args.pages.count = cpu_to_le32(5); }
SPOIL(fr_shift) { wqe->args.pages.page_shift = 11; }
SPOIL(fr_rights) { wqe->args.access = RNIC_ACCESS_REMOTE_WRITE; }
SPOIL(fr_no_rights) { wqe->args.access = 0; }
SPOIL(fr_offset) { wqe->args.first_byte_offset = cpu_to_le32(4096); }
SPOIL(fr_length) { wqe->args.length = cpu_to_le64(4 * 4096 + 1); }
SPOIL(fr_length_behind_offset)
{
    wqe->args.first_byte_offset = cpu_to_le32(8);
    wqe->args.va = cpu_to_le64(le64_to_cpu(wqe->args.va) + 8);
    wqe->args.length = cpu_to_le64(4 * 4096 - 7);
}
SPOIL(fr_va) { wqe->args.va ^= cpu_to_le64(1); }
/* The last page of the address space, so that it is the length alone that is wrong. */
SPOIL(fr_wrap) { wqe->args.va |= cpu_to_le64(~UINT64_C(0xfff)); }
SPOIL(fr_nowhere) { wqe->args.pages.addr = cpu_to_le64(RNIC_TEST_NOWHERE); }
SPOIL(fr_units) { wqe->head.units = 1; }
SPOIL(fr_level) { wqe->args.pages.level = 3; }
SPOIL(fr_list_unaligned) { wqe->args.pages.addr += cpu_to_le64(4); }
SPOIL(fr_list_reserved) { wqe->args.pages.reserved = cpu_to_le16(1); }

SPOIL(fr_foreign)
{
    wqe->args.stag = cpu_to_le32(alloc_stag(c->r, rnic_alloc_pd(c->r), 4, 0,
                                            true));
}

SPOIL(fr_no_remote)
{
    wqe->args.stag = cpu_to_le32(alloc_stag(c->r, c->r->pd, 4, 0, false));
}

static void spoil_entry(Connection *c, FastRegister *wqe, unsigned entry)
{
    uint64_t bad = cpu_to_le64(c->mr.bus + 8);

    rnic_mem_write(c->r, le64_to_cpu(wqe->args.pages.addr) + 8 * entry, &bad, 8);
}

SPOIL(fr_first_entry)
{
    spoil_entry(c, wqe, 0);
}

SPOIL(fr_third_entry)
{
    spoil_entry(c, wqe, 2);
}

SPOIL(fr_last_entry)
{
    spoil_entry(c, wqe, 3);
}

static void check_fast_register_errors(void)
{
    static const FastError errors[] = {
        { "unknown", fr_unknown, RNIC_WC_INVALID_STAG },
        { "zero", fr_zero, RNIC_WC_INVALID_STAG },
        { "foreign", fr_foreign, RNIC_WC_INVALID_PD },
        { "valid", fr_valid, RNIC_WC_STAG_NOT_INVALID },
        { "too long", fr_too_long, RNIC_WC_PBL_TOO_LONG },
        { "page size", fr_shift, RNIC_WC_INVALID_PBL_SIZE },
        { "rights", fr_rights, RNIC_WC_INVALID_ACCESS_RIGHTS },
        { "no rights", fr_no_rights, RNIC_WC_INVALID_ACCESS_RIGHTS },
        { "no remote", fr_no_remote, RNIC_WC_INVALID_ACCESS_RIGHTS },
        { "offset", fr_offset, RNIC_WC_INVALID_FBO },
        { "length", fr_length, RNIC_WC_INVALID_REGISTER_LENGTH },
        { "length behind an offset", fr_length_behind_offset,
          RNIC_WC_INVALID_REGISTER_LENGTH },
        { "va", fr_va, RNIC_WC_INVALID_VA },
        { "wrap", fr_wrap, RNIC_WC_WRAP },
        { "first entry", fr_first_entry, RNIC_WC_INVALID_PBL_ENTRY },
        { "third entry", fr_third_entry, RNIC_WC_INVALID_PBL_ENTRY },
        { "last entry", fr_last_entry, RNIC_WC_INVALID_PBL_ENTRY },
        { "nowhere", fr_nowhere, RNIC_WC_QP_CATASTROPHIC },
        { "units", fr_units, RNIC_WC_INVALID_WQE },
        { "level", fr_level, RNIC_WC_INVALID_WQE },
        { "list's alignment", fr_list_unaligned, RNIC_WC_INVALID_WQE },
        { "list's reserved field", fr_list_reserved, RNIC_WC_INVALID_WQE },
    };
    Connection *c = privileged_connection(FRMR);
    Region region;

    if (!c) {
        return;
    }
    region = simple_region(c->r, 4);
    for (unsigned i = 0; i < G_N_ELEMENTS(errors); i++) {
        FastRegister wqe;

        region.stag = alloc_stag(c->r, c->r->pd, 4, 0, true);
        wqe = fast_register(c->r, 5, &region);
        errors[i].spoil(c, &wqe);
        connection_recv(c, 1, 0, 8);
        rnic_store_wqe(c->r, &c->qp, &wqe, wqe.head.units);
        rnic_ring_sq(c->r, &c->qp);
        wire_expect_terminate(c->peer, 0);
        rnic_expect_cqe(c->r, &c->send_cq, 5, errors[i].status);
        rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_FLUSHED);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_TERMINATE);
        rnic_settle(c->r);
        rnic_expect_no_async(c->r);
        g_assert_cmpint(query_mr(c->r, region.stag).valid, ==, 0);
        g_assert_cmpint(query_mr(c->r, c->mr.stag).valid, ==, 1);
        if (errors[i].spoil == fr_foreign || errors[i].spoil == fr_no_remote) {
            struct rnic_mr_attr attr =
                query_mr(c->r, le32_to_cpu(wqe.args.stag));

            g_assert_cmpint(attr.valid, ==, 0);
            g_assert_cmpuint(le64_to_cpu(attr.length), ==, 0);
        }
        connection_recycle(c);
        connection_establish(c, &privileged);
    }
    connection_free(c);
}

static void test_fast_register_errors(void)
{
    check_fast_register_errors();
    rnic_shows("V5.2-6 V7.3.2.5-4 V7.3.2.5-7 V7.3.2.5-8 V8.2.2.1-9 V9.5.2-10 "
               "V9.5.2-16 V9.5.2-17 V9.5.2-18 V9.5.2-19");
}

/*
 * A size that is not offered: in Page Mode it is the page's, in Block Mode, which the
 * cases above are in, the physical buffer's.
 */
static void test_fast_register_page_mode(void)
{
    static const uint8_t shifts[] = { 0, 11, 41, 63, 64, 255 };
    ConnectionOptions page_mode = privileged;
    Connection *c;
    Region region;

    page_mode.features_off = RNIC_FEATURE_BLOCK_LIST;
    c = connection_new(&page_mode);
    region = simple_region(c->r, 4);
    for (unsigned i = 0; i < 2 * G_N_ELEMENTS(shifts); i++) {
        bool block_mode = i >= G_N_ELEMENTS(shifts);
        FastRegister wqe;

        if (i == G_N_ELEMENTS(shifts)) {
            connection_free(c);
            c = connection_new(&privileged);
            region = simple_region(c->r, 4);
        }
        region.stag = alloc_stag(c->r, c->r->pd, 4, 0, true);
        wqe = fast_register(c->r, 5, &region);
        wqe.args.pages.page_shift = shifts[i % G_N_ELEMENTS(shifts)];
        rnic_store_wqe(c->r, &c->qp, &wqe, wqe.head.units);
        rnic_ring_sq(c->r, &c->qp);
        wire_expect_terminate(c->peer, 0);
        rnic_expect_cqe(c->r, &c->send_cq, 5,
                        block_mode ? RNIC_WC_INVALID_PBL_SIZE
                                   : RNIC_WC_INVALID_PAGE_SIZE);
        g_assert_cmpint(query_mr(c->r, region.stag).valid, ==, 0);
        connection_recycle(c);
        connection_establish(c, &privileged);
    }
    connection_free(c);
    rnic_shows("V9.5.2-15 V9.3.1.1-19");
}

/* Not on a QP that is not privileged: neither Fast-Register nor STag zero. */
static void test_not_privileged(void)
{
    Connection *c = connection_new(NULL);
    Region region = simple_region(c->r, 4);

    if (!(rnic_features(c->r) & RNIC_FEATURE_FAST_REGISTER)) {
        connection_free(c);
        g_test_skip("not offered");
        return;
    }
    region.stag = alloc_stag(c->r, c->r->pd, 4, 0, true);
    store_fast_register(c, 5, &region);
    rnic_ring_sq(c->r, &c->qp);
    wire_expect_terminate(c->peer, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 5, RNIC_WC_NOT_PRIVILEGED);
    g_assert_cmpint(query_mr(c->r, region.stag).valid, ==, 0);
    connection_free(c);
    /* The other nine of figure 23. */
    check_fast_register_errors();
    rnic_shows("V7.3.2.5-11 V8.3.2-9 V9.5.2-13");
}

static void test_alloc_stag_refused(void)
{
    Rnic *r = rnic_boot_up("");
    struct rnic_device_attr attr = rnic_query_device(r);
    uint32_t max = le32_to_cpu(attr.max_fast_register_pages);
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_ALLOC_STAG);
    struct rnic_counters before = rnic_query_counters(r), after;

    if (!(rnic_features(r) & RNIC_FEATURE_FAST_REGISTER)) {
        rnic_quit(r);
        g_test_skip("not offered");
        return;
    }
    sqe.alloc_stag.pdn = cpu_to_le32(r->pd);
    for (int i = 0; i < 3; i++) {
        const uint32_t above[] = { max + 1, 0x10001, 0x80000001 };

        sqe.alloc_stag.max_pages = cpu_to_le32(above[i]);
        g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==,
                         RNIC_ST_INSUFFICIENT_RESOURCES);
    }
    sqe.alloc_stag.max_pages = 0;
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_INVALID_PBL_SIZE);
    sqe.alloc_stag.max_pages = cpu_to_le32(max);
    sqe.alloc_stag.pdn = cpu_to_le32(0x1234);
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_INVALID_PD);
    sqe.alloc_stag.pdn = cpu_to_le32(r->pd);
    sqe.alloc_stag.remote_access = 2;
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_INVALID_MODIFIER);
    after = rnic_query_counters(r);
    g_assert_cmpuint(after.stags, ==, before.stags);
    sqe.alloc_stag.remote_access = 1;
    g_assert_cmpuint(rnic_admin(r, &sqe, NULL), ==, RNIC_ST_OK);
    rnic_quit(r);
    rnic_shows("V7.3.2.1-1");
}

/* ------------------------------------------------------ local invalidation */

static void test_invalidate_errors(void)
{
    enum { UNKNOWN, KEY, FOREIGN, ZERO, SHARED, COUNT };
    static const uint8_t statuses[COUNT] = {
        RNIC_WC_INVALID_STAG, RNIC_WC_INVALID_STAG, RNIC_WC_INVALID_PD,
        RNIC_WC_INVALID_STAG, RNIC_WC_INVALID_STAG,
    };
    Connection *c = privileged_connection(RNIC_FEATURE_LOCAL_INVALIDATE);
    struct rnic_admin_sqe share = rnic_command(RNIC_ADMIN_REGISTER_SHARED_MR);
    struct rnic_admin_cqe shared;
    Region foreign;
    uint8_t got[4];

    if (!c) {
        return;
    }
    foreign = simple_region(c->r, 1);
    register_region(c->r, rnic_alloc_pd(c->r), &foreign);
    share.shared_mr.stag = cpu_to_le32(c->mr.stag);
    share.shared_mr.pdn = cpu_to_le32(c->r->pd);
    share.shared_mr.va = cpu_to_le64(c->mr.va);
    share.shared_mr.access = cpu_to_le32(RNIC_TEST_ACCESS_ALL);
    g_assert_cmpuint(rnic_admin(c->r, &share, &shared), ==, RNIC_ST_OK);
    for (int i = 0; i < COUNT; i++) {
        uint32_t stag = i == UNKNOWN ? 0x77777700
                      : i == KEY ? c->mr.stag ^ 1
                      : i == FOREIGN ? foreign.stag
                      : i == SHARED ? le32_to_cpu(shared.number) : 0;

        store_invalidate(c, 5, stag, 0);
        rnic_ring_sq(c->r, &c->qp);
        wire_expect_terminate(c->peer, 0);
        rnic_expect_cqe(c->r, &c->send_cq, 5, statuses[i]);
        g_assert_cmpint(rnic_qp_state(c->r, &c->qp), ==, RNIC_QPS_TERMINATE);
        g_assert_cmpint(query_mr(c->r, c->mr.stag).valid, ==, 1);
        g_assert_cmpint(query_mr(c->r, foreign.stag).valid, ==, 1);
        connection_recycle(c);
        connection_establish(c, &privileged);
    }
    /* The shared one is as good as before. */
    peer_writes(c, le32_to_cpu(shared.number), c->mr.va, "good", 4);
    peer_reads(c, le32_to_cpu(shared.number), c->mr.va, got, 4);
    g_assert_cmpmem(got, 4, "good", 4);
    connection_free(c);
    rnic_shows("V7.2-4 V9.3.1.1-21 V8.1.2.3.3-2 V9.5.2-6");
}

/* The Local Fence waits for everything, and holds what is behind. */
static void test_local_fence(void)
{
    Connection *c = privileged_connection(RNIC_FEATURE_LOCAL_INVALIDATE);
    Region sink;
    RnicWr wr = { .opcode = RNIC_SQ_RDMA_READ, .flags = RNIC_WQE_SIGNALED,
                  .wr_id = 1, .num_sge = 1, .remote_stag = 9 };
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS], got[8];
    WireRead read;

    if (!c) {
        return;
    }
    sink = simple_region(c->r, 1);
    register_region(c->r, c->r->pd, &sink);
    wr.sge[0].stag = cpu_to_le32(sink.stag);
    wr.sge[0].to = cpu_to_le64(sink.va);
    wr.sge[0].length = cpu_to_le32(8);
    rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
    store_invalidate(c, 2, sink.stag, RNIC_WQE_LOCAL_FENCE);
    wr = connection_wr(c, RNIC_SQ_SEND, 3, 0, 4);
    rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
    rnic_ring_sq(c->r, &c->qp);
    wire_get_read_request(c->peer, 1, &read);
    wire_expect_silence(c->peer);
    g_assert_cmpint(query_mr(c->r, sink.stag).valid, ==, 1);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, "abcdefgh",
                           8);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    for (int i = 1; i <= 3; i++) {
        rnic_expect_cqe(c->r, &c->send_cq, i, RNIC_WC_SUCCESS);
    }
    g_assert_cmpint(query_mr(c->r, sink.stag).valid, ==, 0);
    rnic_mem_read(c->r, sink.bus[0], got, 8);
    g_assert_cmpmem(got, 8, "abcdefgh", 8);
    connection_free(c);
    rnic_shows("V8.2.2.2-5 V8.2.2.2-6 V8.2.2.2-7 V9.3.1.1-14");
}

/* Invalidated: whatever names it next fails, in the same list or later. */
static void test_invalidate_then_use(void)
{
    enum { SAME_LIST, SEND, WRITE, READ_SINK, RECEIVE, PEER_WRITE, PEER_READ,
           COUNT };
    Connection *c = privileged_connection(RNIC_FEATURE_LOCAL_INVALIDATE);
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS], got[8];

    if (!c) {
        return;
    }
    for (int use = 0; use < COUNT; use++) {
        Region region = simple_region(c->r, 1);
        RnicWr wr = { .opcode = RNIC_SQ_RDMA_WRITE, .wr_id = 2,
                      .flags = RNIC_WQE_SIGNALED, .num_sge = 1,
                      .remote_stag = CONNECTION_REMOTE_STAG };

        register_region(c->r, c->r->pd, &region);
        rnic_mem_write(c->r, region.bus[0], "original", 8);
        store_invalidate(c, 1, region.stag, 0);
        if (use == SAME_LIST) {
            wr.sge[0].stag = cpu_to_le32(region.stag);
            wr.sge[0].to = cpu_to_le64(region.va);
            wr.sge[0].length = cpu_to_le32(4);
            rnic_store_wqe(c->r, &c->qp, wqe, rnic_encode_wr(&wr, wqe));
        }
        rnic_ring_sq(c->r, &c->qp);
        rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
        switch (use) {
        case SAME_LIST:
            wire_expect_terminate(c->peer, 0);
            rnic_expect_cqe(c->r, &c->send_cq, 2, RNIC_WC_INVALID_STAG);
            connection_recycle(c);
            connection_establish(c, NULL);
            break;
        case SEND:
            local_refused(c, RNIC_SQ_SEND, region.stag, region.va, 8,
                          RNIC_WC_INVALID_STAG);
            break;
        case WRITE:
            local_refused(c, RNIC_SQ_RDMA_WRITE, region.stag, region.va, 8,
                          RNIC_WC_INVALID_STAG);
            break;
        case READ_SINK:
            local_refused(c, RNIC_SQ_RDMA_READ, region.stag, region.va, 8,
                          RNIC_WC_INVALID_STAG);
            break;
        case RECEIVE:
            receive_refused(c, region.stag, region.va, 8,
                            RNIC_WC_INVALID_STAG);
            break;
        case PEER_WRITE:
            peer_write_refused(c, region.stag, region.va, 8, 0x1100);
            break;
        default:
            peer_read_refused(c, region.stag, region.va, 8, 0x0100);
        }
        rnic_mem_read(c->r, region.bus[0], got, 8);
        g_assert_cmpmem(got, 8, "original", 8);
    }
    connection_free(c);
    rnic_shows("V8.2.2.1-7 V7.2.2-1 V7.8-10 V9.3.1.1-21 V9.5.2-6");
}

/* Read with Invalidate: data, then Invalid, then the completion. */
static void test_read_invalidate(void)
{
    Connection *c = privileged_connection(RNIC_FEATURE_READ_INVALIDATE);
    RnicWr wr;
    WireRead read;
    uint8_t got[8];

    if (!c) {
        return;
    }
    wr = connection_wr(c, RNIC_SQ_RDMA_READ, 1, 0, 8);
    wr.opcode = RNIC_SQ_RDMA_READ_INVALIDATE;
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_read_request(c->peer, 1, &read);
    g_assert_cmphex(read.sink_stag, ==, c->mr.stag);
    rnic_settle(c->r);
    g_assert_cmpint(query_mr(c->r, c->mr.stag).valid, ==, 1);
    wire_put_read_response(c->peer, read.sink_stag, read.sink_to, "abcdefgh",
                           8);
    rnic_expect_cqe(c->r, &c->send_cq, 1, RNIC_WC_SUCCESS);
    g_assert_cmpint(query_mr(c->r, c->mr.stag).valid, ==, 0);
    connection_peek(c, 0, got, 8);
    g_assert_cmpmem(got, 8, "abcdefgh", 8);
    connection_free(c);
    rnic_shows("V8.1.2.2-12 V8.2.2.1-3 V9.3.1.1-12");
}

/* ------------------------------------------------- invalidation by the peer */

static void test_send_invalidate_out(void)
{
    static const uint8_t opcodes[] = {
        WIRE_SEND, WIRE_SEND_SE, WIRE_SEND_INVALIDATE,
        WIRE_SEND_SE_INVALIDATE,
    };
    Connection *c = connection_new(NULL);
    RnicWr wr;
    WireSegment segment;

    if (!(rnic_features(c->r) & RNIC_FEATURE_REMOTE_INVALIDATE)) {
        connection_free(c);
        g_test_skip("not offered");
        return;
    }
    for (int kind = 0; kind < 4; kind++) {
        bool solicited = kind & 1, invalidate = kind & 2;
        uint32_t stag;

        wr = connection_wr(c, invalidate ? RNIC_SQ_SEND_INVALIDATE
                                         : RNIC_SQ_SEND, kind, 0, 4);
        wr.flags |= solicited ? RNIC_WQE_SOLICITED : 0;
        /* Both values of each bit. */
        stag = solicited ? ~0x11223344 : 0x11223344;
        wr.invalidate_stag = stag;
        rnic_post_send(c->r, &c->qp, &wr);
        wire_get_segment(c->peer, &segment);
        g_assert_cmpint(segment.opcode, ==, opcodes[kind]);
        g_assert_cmphex(segment.stag, ==, invalidate ? stag : 0);
        g_assert_cmpuint(segment.qn, ==, 0);
        g_assert_cmpuint(segment.msn, ==, kind + 1);
        g_assert_cmpuint(segment.length, ==, 4);
        g_free(segment.payload);
        rnic_expect_cqe(c->r, &c->send_cq, kind, RNIC_WC_SUCCESS);
    }
    connection_free(c);
    rnic_shows("R4.1-2 R3.2-2 R5.3-10 V8.1.2.1-4 V9.3.1.1-9 V9.3.1.1-8");
}

/* "payload!" in two segments: until the last one is there, nothing is invalidated. */
static void put_invalidate_in_pieces(Connection *c, bool solicited,
                                     const Region *region)
{
    WireSegment segment = {
        .opcode = solicited ? WIRE_SEND_SE_INVALIDATE : WIRE_SEND_INVALIDATE,
        .ddp_version = 1, .rdmap_version = 1, .stag = region->stag,
        .msn = c->peer->send_msn, .length = 5, .payload = (uint8_t *)"paylo",
    };
    uint8_t got[5];

    wire_put_segment(c->peer, &segment);
    RNIC_UNTIL(c->r, (connection_peek(c, 0, got, 5),
                      memcmp(got, "paylo", 5) == 0));
    rnic_settle(c->r);
    rnic_expect_no_cqe(c->r, &c->recv_cq);
    g_assert_cmpint(query_mr(c->r, region->stag).valid, ==, 1);
    segment.last = true;
    segment.mo = 5;
    segment.length = 3;
    segment.payload = (uint8_t *)"ad!";
    wire_put_segment(c->peer, &segment);
    c->peer->send_msn++;
}

static void test_send_invalidate_in(void)
{
    Connection *c = connection_new(NULL);
    struct rnic_cqe cqe;
    uint8_t got[8];

    if (!(rnic_features(c->r) & RNIC_FEATURE_REMOTE_INVALIDATE)) {
        connection_free(c);
        g_test_skip("not offered");
        return;
    }
    for (int se = 0; se < 2; se++) {
        Region region = simple_region(c->r, 1);

        register_region(c->r, c->r->pd, &region);
        connection_fill(c, 0, "........", 8);
        connection_recv(c, se, 0, 8);
        peer_writes(c, region.stag, region.va, "x", 1);
        put_invalidate_in_pieces(c, se, &region);
        cqe = rnic_expect_cqe(c->r, &c->recv_cq, se, RNIC_WC_SUCCESS);
        g_assert_cmphex(cqe.flags & RNIC_CQE_INVALIDATED, !=, 0);
        g_assert_cmphex(le32_to_cpu(cqe.stag), ==, region.stag);
        g_assert_cmpint(!!(cqe.flags & RNIC_CQE_SOLICITED), ==, se);
        g_assert_cmpint(query_mr(c->r, region.stag).valid, ==, 0);
        connection_peek(c, 0, got, 8);
        g_assert_cmpmem(got, 8, "payload!", 8);
        peer_write_refused(c, region.stag, region.va, 1, 0x1100);
    }
    connection_recv(c, 9, 0, 8);
    wire_put_send(c->peer, WIRE_SEND, 0, "payload!", 8);
    cqe = rnic_expect_cqe(c->r, &c->recv_cq, 9, RNIC_WC_SUCCESS);
    g_assert_cmphex(cqe.flags & RNIC_CQE_INVALIDATED, ==, 0);
    connection_free(c);
    rnic_shows("R1.2-1 R5.3-12 V8.2.2.1-1 V8.2.2.1-2");
}

/* Length, data, STag and, if one is asked for, an event; of all four Sends. */
static void test_sends_in(void)
{
    static const uint8_t opcodes[] = {
        WIRE_SEND, WIRE_SEND_SE, WIRE_SEND_INVALIDATE,
        WIRE_SEND_SE_INVALIDATE,
    };
    Connection *c = connection_new(NULL);

    for (int i = 0; i < 8; i++) {
        bool solicited = i & 1, invalidate = i & 2, only_solicited = i & 4;
        Region region = simple_region(c->r, 1);
        struct rnic_ceqe event;
        struct rnic_cqe cqe;
        uint8_t got[8];

        register_region(c->r, c->r->pd, &region);
        connection_fill(c, 0, "........", 8);
        connection_recv(c, i, 0, 8);
        rnic_cq_arm(c->r, &c->recv_cq, only_solicited ? RNIC_ARM_SOLICITED
                                                      : RNIC_ARM_NEXT);
        wire_put_send(c->peer, opcodes[i & 3], invalidate ? region.stag : 0,
                      i & 1 ? "hello" : "HELLO", 5);
        cqe = rnic_expect_cqe(c->r, &c->recv_cq, i, RNIC_WC_SUCCESS);
        g_assert_cmpuint(le32_to_cpu(cqe.byte_len), ==, 5);
        g_assert_cmpint(!!(cqe.flags & RNIC_CQE_SOLICITED), ==, solicited);
        g_assert_cmpint(!!(cqe.flags & RNIC_CQE_INVALIDATED), ==, invalidate);
        if (invalidate) {
            g_assert_cmphex(le32_to_cpu(cqe.stag), ==, region.stag);
        }
        g_assert_cmpint(query_mr(c->r, region.stag).valid, ==, !invalidate);
        connection_peek(c, 0, got, 8);
        g_assert_cmpmem(got, 8, i & 1 ? "hello..." : "HELLO...", 8);
        if (solicited || !only_solicited) {
            rnic_eq_wait(c->r, &c->r->comp_eq, &event);
            g_assert_cmphex(le32_to_cpu(event.cqn), ==, c->recv_cq.number);
        } else {
            rnic_settle(c->r);
        }
        g_assert_false(rnic_eq_poll(c->r, &c->r->comp_eq, &event));
    }
    connection_free(c);
    rnic_shows("R3.2-3 V9.3.1.1-8 V9.3.2.1-7");
}

/* The region is good for what it was good for: the first message takes it along. */
static void assert_sends(Connection *c, const Region *region)
{
    RnicWr wr = connection_wr(c, RNIC_SQ_SEND, 9, 0, 8);
    uint8_t got[8];

    rnic_mem_write(c->r, region->bus[0], "as ever!", 8);
    wr.sge[0].stag = cpu_to_le32(region->stag);
    wr.sge[0].to = cpu_to_le64(region->va);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    g_assert_cmpmem(got, 8, "as ever!", 8);
    rnic_expect_cqe(c->r, &c->send_cq, 9, RNIC_WC_SUCCESS);
}

static void test_send_invalidate_errors(void)
{
    enum { UNKNOWN, FOREIGN, LOCAL, KEY, ZERO, COUNT };
    Connection *c = connection_new(NULL);
    Region foreign, local;

    if (!(rnic_features(c->r) & RNIC_FEATURE_REMOTE_INVALIDATE)) {
        connection_free(c);
        g_test_skip("not offered");
        return;
    }
    foreign = simple_region(c->r, 1);
    register_region(c->r, rnic_alloc_pd(c->r), &foreign);
    local = simple_region(c->r, 1);
    local.access = RNIC_ACCESS_LOCAL_READ | RNIC_ACCESS_LOCAL_WRITE;
    register_region(c->r, c->r->pd, &local);
    for (int k = 0; k < 2 * COUNT; k++) {
        int i = k / 2;
        bool se = k % 2;
        uint32_t stag = i == UNKNOWN ? 0x77777700
                      : i == FOREIGN ? foreign.stag
                      : i == LOCAL ? local.stag
                      : i == KEY ? c->mr.stag ^ 1 : 0;
        uint8_t got[8];
        WireTerminate t;

        connection_recv(c, 1, 0, 8);
        connection_recv(c, 2, 100, 8);
        connection_fill(c, 0, "........", 8);
        wire_put_send(c->peer, se ? WIRE_SEND_SE_INVALIDATE
                                  : WIRE_SEND_INVALIDATE, stag, "payload!", 8);
        wire_get_terminate(c->peer, &t);
        g_assert_cmphex(t.code, ==, i == UNKNOWN ? 0x0209
                                    : i == LOCAL ? 0x0102 : 0x0109);
        g_assert_cmphex(t.flags, ==, 0xc0);
        rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_INVALIDATE_STAG);
        rnic_expect_cqe(c->r, &c->recv_cq, 2, RNIC_WC_FLUSHED);
        rnic_settle(c->r);
        rnic_expect_no_async(c->r);
        connection_peek(c, 0, got, 8);
        g_assert_cmpmem(got, 8, "payload!", 8);
        g_assert_cmpint(query_mr(c->r, c->mr.stag).valid, ==, 1);
        g_assert_cmpint(query_mr(c->r, foreign.stag).valid, ==, 1);
        g_assert_cmpint(query_mr(c->r, local.stag).valid, ==, 1);
        connection_recycle(c);
        connection_establish(c, NULL);
        assert_sends(c, &local);
    }
    connection_free(c);
    rnic_shows("R5.3-11 V8.3.2-3 R5.3-13 R7.2-4 R7.2-5 V7.4.2-8");
}

/* --------------------------------------------------------------- STag zero */

/* Even of a privileged QP it is no sink of a Read, and nothing at the peer. */
static void stag_zero_is_local(Connection *c, uint64_t buffer)
{
    static const struct {
        uint8_t opcode;
        bool sink, remote;
    } cases[] = {
        { RNIC_SQ_RDMA_READ, .sink = true },
        { RNIC_SQ_RDMA_READ_INVALIDATE, .sink = true },
        { RNIC_SQ_RDMA_READ, .remote = true },
        { RNIC_SQ_RDMA_READ_INVALIDATE, .remote = true },
        { RNIC_SQ_RDMA_WRITE, .remote = true },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        RnicWr wr = connection_wr(c, cases[i].opcode, 9, 0, 8);

        wr.remote_stag = cases[i].remote ? 0 : CONNECTION_REMOTE_STAG;
        wr.remote_to = buffer;
        if (cases[i].sink) {
            wr.sge[0].stag = 0;
            wr.sge[0].to = cpu_to_le64(buffer);
        }
        rnic_post_send(c->r, &c->qp, &wr);
        wire_expect_terminate(c->peer, 0);
        rnic_expect_cqe(c->r, &c->send_cq, 9, RNIC_WC_INVALID_STAG);
        connection_recycle(c);
        connection_establish(c, &privileged);
    }
}

static void test_stag_zero(void)
{
    Connection *c = privileged_connection(RNIC_FEATURE_STAG_ZERO);
    Connection *plain;
    RnicWr wr = { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                  .num_sge = 1 };
    WireRead read;
    uint64_t buffer;
    uint8_t got[8];

    if (!c) {
        return;
    }
    buffer = rnic_alloc(c->r, 4096);
    rnic_mem_write(c->r, buffer + 3, "physical", 8);
    wr.sge[0].to = cpu_to_le64(buffer + 3);
    wr.sge[0].length = cpu_to_le32(8);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_send(c->peer, WIRE_SEND, 1, got, 8);
    g_assert_cmpmem(got, 8, "physical", 8);
    rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_SUCCESS);
    rnic_post_recv(c->r, &c->qp, 1, 1, wr.sge);
    wire_put_send(c->peer, WIRE_SEND, 0, "lacisyhp", 8);
    rnic_expect_cqe(c->r, &c->recv_cq, 1, RNIC_WC_SUCCESS);
    rnic_mem_read(c->r, buffer + 3, got, 8);
    g_assert_cmpmem(got, 8, "lacisyhp", 8);

    wr.opcode = RNIC_SQ_RDMA_WRITE;
    wr.remote_stag = CONNECTION_REMOTE_STAG;
    rnic_post_send(c->r, &c->qp, &wr);
    connection_get_write(c, 0, got, 8);
    g_assert_cmpmem(got, 8, "lacisyhp", 8);
    rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_SUCCESS);
    wr.opcode = RNIC_SQ_SEND;
    wr.remote_stag = 0;
    stag_zero_is_local(c, buffer);

    /* No key goes with it. */
    wr.sge[0].stag = cpu_to_le32(1);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_expect_terminate(c->peer, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_INVALID_STAG);
    connection_recycle(c);
    connection_establish(c, &privileged);
    /* Nor is it for the peer. */
    wire_put_write(c->peer, 0, buffer, "intruder", 8);
    wire_expect_terminate(c->peer, 0x1100);
    rnic_expect_async(c->r, RNIC_AE_TAGGED_INVALID_STAG, c->qp.number);
    rnic_mem_read(c->r, buffer + 3, got, 8);
    g_assert_cmpmem(got, 8, "lacisyhp", 8);
    connection_recycle(c);
    connection_establish(c, &privileged);
    wr = connection_wr(c, RNIC_SQ_RDMA_READ, 3, 0, 8);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_get_read_request(c->peer, 1, &read);
    wire_put_read_response(c->peer, 0, buffer, "intruder", 8);
    wire_expect_terminate(c->peer, 0x1100);
    rnic_expect_async(c->r, RNIC_AE_TAGGED_INVALID_STAG, c->qp.number);
    rnic_expect_cqe(c->r, &c->send_cq, 3, RNIC_WC_FLUSHED);
    rnic_mem_read(c->r, buffer + 3, got, 8);
    g_assert_cmpmem(got, 8, "lacisyhp", 8);
    connection_recycle(c);
    connection_establish(c, &privileged);
    /* Memory that is not there. */
    wr = (RnicWr) { .opcode = RNIC_SQ_SEND, .flags = RNIC_WQE_SIGNALED,
                    .num_sge = 1 };
    wr.sge[0].length = cpu_to_le32(8);
    wr.sge[0].stag = 0;
    wr.sge[0].to = cpu_to_le64(RNIC_TEST_NOWHERE);
    rnic_post_send(c->r, &c->qp, &wr);
    wire_expect_terminate(c->peer, 0);
    rnic_expect_cqe(c->r, &c->send_cq, 0, RNIC_WC_QP_CATASTROPHIC);
    connection_recycle(c);
    /* Nor for a QP that is not privileged. */
    plain = connection_prepare_second(c, NULL);
    connection_establish(plain, NULL);
    local_refused(plain, RNIC_SQ_SEND, 0, buffer + 3, 8, RNIC_WC_INVALID_STAG);
    local_refused(plain, RNIC_SQ_RDMA_WRITE, 0, buffer + 3, 8,
                  RNIC_WC_INVALID_STAG);
    local_refused(plain, RNIC_SQ_RDMA_READ, 0, buffer + 3, 8,
                  RNIC_WC_INVALID_STAG);
    receive_refused(plain, 0, buffer + 3, 8, RNIC_WC_INVALID_STAG);
    connection_free_second(plain);
    rnic_mem_read(c->r, buffer + 3, got, 8);
    g_assert_cmpmem(got, 8, "lacisyhp", 8);
    connection_free(c);
    rnic_shows("V7.2.1-1 V7.2.1-3 V7.2.1-5 V7.2.1-6 V7.2.1-8 V7.2.1-13 "
               "V8.1.3.2.1-1 V8.1.3.2.1-2 V8.1.3.2.1-3 V8.1.3.2.1-4");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/memory/scattered", test_scattered);
    qtest_add_func("rnic/memory/va-based", test_va_based);
    qtest_add_func("rnic/memory/zero-based", test_zero_based);
    qtest_add_func("rnic/memory/exact-bounds", test_exact_bounds);
    qtest_add_func("rnic/memory/large-pages", test_large_pages);
    qtest_add_func("rnic/memory/overlap", test_overlap);
    qtest_add_func("rnic/memory/local-rights", test_local_rights);
    qtest_add_func("rnic/memory/read-sink", test_read_sink);
    qtest_add_func("rnic/memory/response-not-enabled",
                   test_response_not_enabled);
    qtest_add_func("rnic/memory/every-bit", test_every_bit);
    qtest_add_func("rnic/memory/indices", test_indices);
    qtest_add_func("rnic/memory/fast-register", test_fast_register);
    qtest_add_func("rnic/memory/fast-register-chain",
                   test_fast_register_chain);
    qtest_add_func("rnic/memory/fast-register-errors",
                   test_fast_register_errors);
    qtest_add_func("rnic/memory/fast-register-page-mode",
                   test_fast_register_page_mode);
    qtest_add_func("rnic/memory/not-privileged", test_not_privileged);
    qtest_add_func("rnic/memory/alloc-stag-refused", test_alloc_stag_refused);
    qtest_add_func("rnic/memory/invalidate-errors", test_invalidate_errors);
    qtest_add_func("rnic/memory/local-fence", test_local_fence);
    qtest_add_func("rnic/memory/invalidate-then-use",
                   test_invalidate_then_use);
    qtest_add_func("rnic/memory/read-invalidate", test_read_invalidate);
    qtest_add_func("rnic/memory/send-invalidate-out",
                   test_send_invalidate_out);
    qtest_add_func("rnic/memory/send-invalidate-in", test_send_invalidate_in);
    qtest_add_func("rnic/memory/sends-in", test_sends_in);
    qtest_add_func("rnic/memory/roles", test_roles);
    qtest_add_func("rnic/memory/send-invalidate-errors",
                   test_send_invalidate_errors);
    qtest_add_func("rnic/memory/stag-zero", test_stag_zero);
    return g_test_run();
}
