/*
 * rnic: PCI identity, BARs, registers and their access rule, test registers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "hw/pci/pci_regs.h"
#include "tests/qtest/libqos/pci-pc.h"

#include "tests/qtest/rnic/lib/librnic.h"

/* ------------------------------------------------------------- register map */

typedef struct RegisterInfo {
    uint32_t offset;
    uint8_t size;
    char access;                /* 'r' RO, 'w' WO, 'b' RW */
    bool fixed;                 /* value after reset does not vary */
    uint64_t value;             /* ... and is this */
} RegisterInfo;

static const RegisterInfo registers[] = {
    { RNIC_REG_MAGIC, 4, 'r', true, 0x43494e52 },
    { RNIC_REG_ABI_VERSION, 4, 'r', true, 0x00010005 },
    { RNIC_REG_HW_VERSION, 4, 'r', false },
    { RNIC_REG_LIMITS, 4, 'r', false },
    { RNIC_REG_FEATURES, 8, 'r', false },
    { RNIC_REG_DRIVER_FEATURES, 8, 'b', true, 0 },
    { RNIC_REG_CONTROL, 4, 'b', true, 0 },
    { RNIC_REG_STATUS, 4, 'r', true, 0 },
    { RNIC_REG_HEALTH, 4, 'r', true, 0 },
    { RNIC_REG_LINK, 4, 'r', false },
    { RNIC_REG_MAC, 8, 'r', false },
    { RNIC_REG_BAD_ACCESSES, 4, 'r', true, 0 },
    { RNIC_REG_BAD_DOORBELLS, 4, 'r', true, 0 },
    { RNIC_REG_ADMIN_SQ_BASE, 8, 'b', true, 0 },
    { RNIC_REG_ADMIN_CQ_BASE, 8, 'b', true, 0 },
    { RNIC_REG_ADMIN_DEPTH, 4, 'b', true, 0 },
    { RNIC_REG_ADMIN_VECTOR, 4, 'b', true, 0xffffffff },
    { RNIC_REG_ADMIN_TAIL, 4, 'b', true, 0 },
    { RNIC_REG_ADMIN_HEAD, 4, 'b', true, 0 },
    { RNIC_REG_EQ_KICK, 4, 'w', true, 0 },
    { RNIC_REG_ETH_KICK, 4, 'w', true, 0 },
    { RNIC_REG_ETH_ARM, 4, 'w', true, 0 },
    { RNIC_REG_TEST32, 4, 'b', true, 0 },
    { RNIC_REG_TEST64, 8, 'b', true, 0 },
    { RNIC_REG_TEST_IRQ, 4, 'w', true, 0 },
    { RNIC_REG_TEST_DMA_STATUS, 4, 'r', true, 0 },
    { RNIC_REG_TEST_DMA_ADDR, 8, 'b', true, 0 },
    { RNIC_REG_TEST_DMA_SIZE, 4, 'b', true, 0 },
    { RNIC_REG_TEST_DMA_CTRL, 4, 'w', true, 0 },
};

static const RegisterInfo *register_at(uint32_t offset)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(registers); i++) {
        const RegisterInfo *reg = &registers[i];

        if (offset >= reg->offset && offset < reg->offset + reg->size) {
            return reg;
        }
    }
    return NULL;
}

static uint64_t read_register(Rnic *r, const RegisterInfo *reg)
{
    return reg->size == 8 ? rnic_read64(r, reg->offset)
                          : rnic_read32(r, reg->offset);
}

static void write_register(Rnic *r, const RegisterInfo *reg, uint64_t value)
{
    if (reg->size == 8) {
        rnic_write64(r, reg->offset, value);
    } else {
        rnic_write32(r, reg->offset, value);
    }
}

static void assert_reset_values(Rnic *r)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(registers); i++) {
        if (registers[i].fixed) {
            g_assert_cmphex(read_register(r, &registers[i]), ==,
                            registers[i].value);
        }
    }
}

static uint32_t bad_accesses(Rnic *r)
{
    return rnic_read32(r, RNIC_REG_BAD_ACCESSES);
}

/* --------------------------------------------------------------------- PCI */

static void test_identity(void)
{
    Rnic *r = rnic_boot("", NULL);

    g_assert_cmphex(qpci_config_readw(r->dev, PCI_VENDOR_ID), ==, 0x1af4);
    g_assert_cmphex(qpci_config_readw(r->dev, PCI_DEVICE_ID), ==, 0x10f0);
    g_assert_cmphex(qpci_config_readb(r->dev, PCI_REVISION_ID), ==, 1);
    g_assert_cmphex(qpci_config_readw(r->dev, PCI_CLASS_DEVICE), ==, 0x0200);
    g_assert_cmphex(qpci_config_readb(r->dev, PCI_INTERRUPT_PIN), ==, 0);
    g_assert_cmphex(qpci_find_capability(r->dev, PCI_CAP_ID_MSIX, 0), !=, 0);
    rnic_quit(r);
}

static uint32_t bar_flags(Rnic *r, unsigned bar)
{
    return qpci_config_readl(r->dev, PCI_BASE_ADDRESS_0 + 4 * bar) & 0xf;
}

static void test_bars(void)
{
    Rnic *r = rnic_boot("", NULL);
    uint32_t limits = rnic_read32(r, RNIC_REG_LIMITS);
    uint64_t size;

    g_assert_cmphex(bar_flags(r, RNIC_BAR_REGISTERS), ==, 0);
    qpci_iomap(r->dev, RNIC_BAR_REGISTERS, &size);
    g_assert_cmpuint(size, ==, RNIC_REGISTERS_SIZE);

    g_assert_cmphex(bar_flags(r, RNIC_BAR_DOORBELLS), ==,
                    PCI_BASE_ADDRESS_MEM_TYPE_64 |
                    PCI_BASE_ADDRESS_MEM_PREFETCH);
    g_assert_cmpuint(r->doorbells_size, ==,
                     RNIC_LIMITS_DOORBELL_PAGES(limits) *
                     RNIC_DOORBELL_PAGE_SIZE);
    g_assert_cmpuint(RNIC_LIMITS_DOORBELL_PAGES(limits), >=, 2);

    rnic_msix_enable(r);
    g_assert_cmpuint(qpci_msix_table_size(r->dev), ==,
                     RNIC_LIMITS_VECTORS(limits));
    rnic_quit(r);
}

/* On a conventional bus behind a bridge: no Express capability. */
static void test_conventional_bus(void)
{
    QTestState *qts = qtest_init("-machine pc -nodefaults "
                                 "-object rnic-fabric-tcp,id=f,map=loopback "
                                 "-device rnic,addr=4,fabric=f");
    QPCIBus *bus = qpci_new_pc(qts, NULL);
    QPCIDevice *dev = qpci_device_find(bus, QPCI_DEVFN(4, 0));
    QPCIBar bar;

    g_assert_nonnull(dev);
    bar = qpci_iomap(dev, RNIC_BAR_REGISTERS, NULL);
    qpci_device_enable(dev);
    g_assert_cmphex(qpci_io_readl(dev, bar, RNIC_REG_MAGIC), ==, RNIC_MAGIC);
    g_assert_cmpint(qpci_find_capability(dev, PCI_CAP_ID_EXP, 0), ==, 0);
    g_free(dev);
    qpci_free_pc(bus);
    qtest_quit(qts);
}

/* --------------------------------------------------------------- registers */

static void test_reset_values(void)
{
    Rnic *r = rnic_boot(",mac=02:11:22:33:44:55", NULL);
    uint32_t link = rnic_read32(r, RNIC_REG_LINK);

    assert_reset_values(r);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_MAC), ==, 0x554433221102);
    g_assert_cmpuint(link & 1, ==, 1);
    g_assert_cmpuint(link >> 8, >, 0);
    g_assert_cmpuint(bad_accesses(r), ==, 0);
    rnic_quit(r);
}

/* Every offset that is no register, and every width but the right ones. */
static void test_holes(void)
{
    Rnic *r = rnic_boot("", NULL);
    uint32_t bad = 0;

    for (uint32_t offset = 0; offset < RNIC_REGISTERS_SIZE; offset += 4) {
        const RegisterInfo *reg = register_at(offset);

        if (reg) {
            continue;
        }
        g_assert_cmphex(rnic_read32(r, offset), ==, 0);
        g_assert_cmpuint(bad_accesses(r), ==, ++bad);
        rnic_write32(r, offset, 0xffffffff);
        g_assert_cmpuint(bad_accesses(r), ==, ++bad);
        g_assert_cmphex(rnic_read32(r, offset), ==, 0);
        ++bad;
    }
    rnic_reset(r);
    assert_reset_values(r);
    rnic_quit(r);
}

static void assert_bad(Rnic *r, uint32_t *before)
{
    uint32_t now = bad_accesses(r);

    g_assert_cmpuint(now, >, *before);
    *before = now;
}

static void test_bad_sizes(void)
{
    Rnic *r = rnic_boot("", NULL);
    uint64_t base = r->registers.addr;
    uint32_t bad = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(registers); i++) {
        const RegisterInfo *reg = &registers[i];

        /* One octet and two, anywhere in the register. */
        for (unsigned at = 0; at < reg->size; at++) {
            g_assert_cmphex(qtest_readb(r->qts, base + reg->offset + at),
                            ==, 0);
            assert_bad(r, &bad);
            qtest_writeb(r->qts, base + reg->offset + at, 0xff);
            assert_bad(r, &bad);
        }
        for (unsigned at = 0; at < reg->size; at += 2) {
            g_assert_cmphex(qtest_readw(r->qts, base + reg->offset + at),
                            ==, 0);
            assert_bad(r, &bad);
            qtest_writew(r->qts, base + reg->offset + at, 0xffff);
            assert_bad(r, &bad);
        }
        /* Not aligned. */
        g_assert_cmphex(qtest_readl(r->qts, base + reg->offset + 2), ==, 0);
        assert_bad(r, &bad);
        qtest_writel(r->qts, base + reg->offset + 2, 0xffffffff);
        assert_bad(r, &bad);
        /* Eight octets at a four octet register. */
        if (reg->size == 4 && reg->offset % 8 == 0) {
            g_assert_cmphex(qtest_readq(r->qts, base + reg->offset), ==, 0);
            assert_bad(r, &bad);
            qtest_writeq(r->qts, base + reg->offset, ~0ULL);
            assert_bad(r, &bad);
        }
    }
    rnic_reset(r);
    assert_reset_values(r);
    rnic_quit(r);
}

static void test_split_access(void)
{
    Rnic *r = rnic_boot("", NULL);
    uint32_t bad;

    rnic_write64(r, RNIC_REG_ADMIN_SQ_BASE, 0x1122334455667700);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_ADMIN_SQ_BASE), ==, 0x55667700);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_ADMIN_SQ_BASE + 4), ==,
                    0x11223344);

    /* A write takes effect with its upper half. */
    rnic_write32(r, RNIC_REG_ADMIN_SQ_BASE, 0xcafe0000);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_ADMIN_SQ_BASE), ==,
                    0x1122334455667700);
    rnic_write32(r, RNIC_REG_ADMIN_SQ_BASE + 4, 0xbabe);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_ADMIN_SQ_BASE), ==,
                    0x0000babecafe0000);
    g_assert_cmpuint(bad_accesses(r), ==, 0);

    /* An upper half without its lower half is against the rule. */
    rnic_write32(r, RNIC_REG_TEST64 + 4, 1);
    bad = bad_accesses(r);
    g_assert_cmpuint(bad, ==, 1);
    rnic_write32(r, RNIC_REG_ADMIN_CQ_BASE, 0x40);
    rnic_write32(r, RNIC_REG_TEST64 + 4, 1);
    g_assert_cmpuint(bad_accesses(r), ==, 2);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_TEST64), ==, 0);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_ADMIN_CQ_BASE), ==, 0);
    rnic_quit(r);
}

static void test_read_only(void)
{
    Rnic *r = rnic_boot("", NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(registers); i++) {
        const RegisterInfo *reg = &registers[i];
        uint64_t before;

        if (reg->access == 'w') {
            g_assert_cmphex(read_register(r, reg), ==, 0);
        }
        if (reg->access != 'r') {
            continue;
        }
        before = read_register(r, reg);
        write_register(r, reg, ~0ULL);
        g_assert_cmphex(read_register(r, reg), ==, before);
        write_register(r, reg, 0);
        g_assert_cmphex(read_register(r, reg), ==, before);
    }
    g_assert_cmpuint(bad_accesses(r), ==, 0);
    rnic_quit(r);
}

/* Nonsense in every register, not enabled and enabled: a reset repairs it. */
static void test_nonsense(void)
{
    static const uint64_t values[] = {
        0, 1, 2, 3, 0x7f, 0xffff, 0x80000000, 0xffffffff, 0x8000000000000000,
        ~0ULL, 0xdeadbeefcafebabe, 0x00000000fee00000,
    };
    Rnic *r = rnic_boot("", NULL);

    for (int enabled = 0; enabled < 2; enabled++) {
        for (unsigned v = 0; v < G_N_ELEMENTS(values); v++) {
            for (unsigned i = 0; i < G_N_ELEMENTS(registers); i++) {
                if (enabled) {
                    rnic_reset(r);
                    rnic_enable(r, 2, RNIC_NO_VECTOR, 0);
                }
                write_register(r, &registers[i], values[v]);
                write_register(r, &registers[i], values[v] ^ 5);
            }
        }
    }
    rnic_reset(r);
    assert_reset_values(r);
    rnic_up(r);
    rnic_quit(r);
}

/* ---------------------------------------------------------- test registers */

static void test_test32_test64(void)
{
    Rnic *r = rnic_boot("", NULL);

    rnic_write32(r, RNIC_REG_TEST32, 0x12345678);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_TEST32), ==, 0x2468acf0);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_TEST32), ==, 0x2468acf0);
    rnic_write32(r, RNIC_REG_TEST32, 0x80000001);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_TEST32), ==, 0x00000002);

    rnic_write64(r, RNIC_REG_TEST64, 0x8123456789abcdef);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_TEST64), ==, 0x02468acf13579bde);
    /* The manual's sequence. */
    rnic_write32(r, RNIC_REG_TEST64, 0xffffffff);
    g_assert_cmphex(rnic_read64(r, RNIC_REG_TEST64), ==, 0x02468acf13579bde);
    rnic_write32(r, RNIC_REG_TEST64 + 4, 1);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_TEST64), ==, 0xfffffffe);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_TEST64 + 4), ==, 3);
    rnic_quit(r);
}

static void test_irq(void)
{
    Rnic *r = rnic_boot("", NULL);
    unsigned vectors = RNIC_LIMITS_VECTORS(rnic_read32(r, RNIC_REG_LIMITS));

    rnic_msix_enable(r);
    for (unsigned v = 0; v < vectors; v++) {
        rnic_write32(r, RNIC_REG_TEST_IRQ, v);
        for (unsigned other = 0; other < vectors; other++) {
            g_assert_cmpint(rnic_msix_fired(r, other), ==, other == v);
        }
    }
    /* Masked: pending, and raised when unmasked. */
    rnic_msix_mask(r, 3, true);
    rnic_write32(r, RNIC_REG_TEST_IRQ, 3);
    g_assert_false(rnic_msix_fired(r, 3));
    g_assert_true(qpci_msix_pending(r->dev, 3));
    rnic_msix_mask(r, 3, false);
    g_assert_true(rnic_msix_fired(r, 3));
    g_assert_false(qpci_msix_pending(r->dev, 3));
    /* No such vector. */
    rnic_write32(r, RNIC_REG_TEST_IRQ, vectors);
    rnic_write32(r, RNIC_REG_TEST_IRQ, RNIC_NO_VECTOR);
    for (unsigned v = 0; v < vectors; v++) {
        g_assert_false(rnic_msix_fired(r, v));
    }
    rnic_quit(r);
}

static uint32_t run_dma(Rnic *r, uint64_t addr, uint32_t size, uint32_t op)
{
    rnic_write64(r, RNIC_REG_TEST_DMA_ADDR, addr);
    rnic_write32(r, RNIC_REG_TEST_DMA_SIZE, size);
    rnic_write32(r, RNIC_REG_TEST_DMA_CTRL, op);
    return rnic_read32(r, RNIC_REG_TEST_DMA_STATUS);
}

static void assert_area(Rnic *r, uint64_t buffer, uint32_t from, uint32_t size,
                        const uint8_t *inside, const uint8_t *outside,
                        uint32_t whole)
{
    g_autofree uint8_t *now = g_malloc(whole);

    rnic_mem_read(r, buffer, now, whole);
    g_assert_cmpmem(now, from, outside, from);
    g_assert_cmpmem(now + from, size, inside, size);
    g_assert_cmpmem(now + from + size, whole - from - size,
                    outside + from + size, whole - from - size);
}

static void test_dma(void)
{
    enum { WHOLE = RNIC_TEST_DMA_MAX + 4096 };
    static const uint32_t sizes[] = { 1, 3, 1000, 4096, RNIC_TEST_DMA_MAX };
    Rnic *r = rnic_boot("", NULL);
    uint64_t buffer = rnic_alloc(r, WHOLE);
    g_autofree uint8_t *before = g_malloc(WHOLE);
    g_autofree uint8_t *inside = g_malloc(WHOLE);

    rnic_pattern(before, WHOLE, 7);
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        uint32_t size = sizes[i];
        uint32_t from = 13;

        rnic_mem_write(r, buffer, before, WHOLE);
        g_assert_cmpuint(run_dma(r, buffer + from, size, RNIC_TEST_DMA_INVERT),
                         ==, RNIC_TEST_DMA_DONE);
        for (uint32_t at = 0; at < size; at++) {
            inside[at] = ~before[from + at];
        }
        assert_area(r, buffer, from, size, inside, before, WHOLE);
        g_assert_cmpuint(run_dma(r, buffer + from, size, RNIC_TEST_DMA_FILL),
                         ==, RNIC_TEST_DMA_DONE);
        memset(inside, 0x96, size);
        assert_area(r, buffer, from, size, inside, before, WHOLE);
        g_assert_cmpuint(run_dma(r, buffer + from, size, RNIC_TEST_DMA_CLEAR),
                         ==, RNIC_TEST_DMA_DONE);
        memset(inside, 0, size);
        assert_area(r, buffer, from, size, inside, before, WHOLE);
    }
    rnic_quit(r);
}

static void test_dma_refused(void)
{
    Rnic *r = rnic_boot("", NULL);
    uint64_t buffer = rnic_alloc(r, 8192);
    uint8_t before[8192], now[8192];
    uint16_t command;

    rnic_pattern(before, sizeof(before), 1);
    rnic_mem_write(r, buffer, before, sizeof(before));
    g_assert_cmpuint(run_dma(r, buffer, 0, RNIC_TEST_DMA_FILL), ==,
                     RNIC_TEST_DMA_BAD_SIZE);
    g_assert_cmpuint(run_dma(r, buffer, RNIC_TEST_DMA_MAX + 1,
                             RNIC_TEST_DMA_FILL), ==, RNIC_TEST_DMA_BAD_SIZE);
    g_assert_cmpuint(run_dma(r, buffer, ~0u, RNIC_TEST_DMA_FILL), ==,
                     RNIC_TEST_DMA_BAD_SIZE);
    g_assert_cmpuint(run_dma(r, buffer, 16, 0), ==, RNIC_TEST_DMA_BAD_OP);
    g_assert_cmpuint(run_dma(r, buffer, 16, 4), ==, RNIC_TEST_DMA_BAD_OP);
    g_assert_cmpuint(run_dma(r, buffer, 16, ~0u), ==, RNIC_TEST_DMA_BAD_OP);

    /* Nowhere; past the end of the address space; the device's own BAR. */
    g_assert_cmpuint(run_dma(r, RNIC_TEST_NOWHERE, 16, RNIC_TEST_DMA_FILL), ==,
                     RNIC_TEST_DMA_FAULT);
    g_assert_cmpuint(run_dma(r, ~0ULL - 3, 16, RNIC_TEST_DMA_INVERT), ==,
                     RNIC_TEST_DMA_FAULT);
    g_assert_cmpuint(run_dma(r, r->registers.addr + RNIC_REG_TEST32, 4,
                             RNIC_TEST_DMA_FILL), ==, RNIC_TEST_DMA_FAULT);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_TEST32), ==, 0);

    /* Not a bus master. */
    command = qpci_config_readw(r->dev, PCI_COMMAND);
    qpci_config_writew(r->dev, PCI_COMMAND, command & ~PCI_COMMAND_MASTER);
    g_assert_cmpuint(run_dma(r, buffer, 16, RNIC_TEST_DMA_FILL), ==,
                     RNIC_TEST_DMA_FAULT);
    qpci_config_writew(r->dev, PCI_COMMAND, command);

    rnic_mem_read(r, buffer, now, sizeof(now));
    g_assert_cmpmem(now, sizeof(now), before, sizeof(before));
    g_assert_cmpuint(run_dma(r, buffer, 16, RNIC_TEST_DMA_FILL), ==,
                     RNIC_TEST_DMA_DONE);
    rnic_quit(r);
}

/* ------------------------------------------------------------------- BAR 2 */

static void test_doorbells_idle(void)
{
    Rnic *r = rnic_boot("", NULL);
    uint64_t base = r->doorbells.addr;
    uint32_t bad;

    /* Nothing exists yet, so nothing can be rung. */
    g_assert_cmphex(qtest_readl(r->qts, base), ==, 0);
    for (uint32_t at = 0; at < 0x20; at += 4) {
        rnic_doorbell(r, 0, at, 1);
    }
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_BAD_DOORBELLS), ==, 8);
    rnic_up(r);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_BAD_DOORBELLS), ==, 0);
    rnic_doorbell(r, 0, RNIC_DB_SQ, 1);
    rnic_doorbell(r, 1, RNIC_DB_RQ, 0);
    rnic_doorbell(r, 0, RNIC_DB_CQ_ARM, 1 | RNIC_ARM_NEXT);
    rnic_doorbell(r, 0, RNIC_DB_SRQ, 1);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_BAD_DOORBELLS), ==, 4);
    bad = 4;
    /* Other widths, other alignments, the last octets of the BAR. */
    qtest_writeb(r->qts, base, 1);
    qtest_writew(r->qts, base, 1);
    qtest_writeq(r->qts, base, 1);
    qtest_writel(r->qts, base + 2, 1);
    qtest_writel(r->qts, base + r->doorbells_size - 4, 1);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_BAD_DOORBELLS), >=, bad + 5);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_BAD_ACCESSES), ==, 0);
    rnic_quit(r);
}

/* Another page than the object's: dropped. The object's own: taken. */
static void test_doorbell_owner(void)
{
    Rnic *r = rnic_boot_up("");
    struct rnic_admin_sqe sqe;
    struct rnic_admin_cqe cqe;
    RnicCq cq;
    RnicQp qp;
    RnicQpInit init;
    uint32_t cqn, bad;

    rnic_create_cq(r, &cq, 16, r->comp_eq.number);
    init = rnic_qp_default(r, &cq, &cq);
    init.doorbell_page = 1;
    rnic_create_qp(r, &qp, &init);

    sqe = rnic_command(RNIC_ADMIN_CREATE_CQ);
    sqe.create_cq.depth = cpu_to_le32(16);
    sqe.create_cq.eqn = cpu_to_le32(r->comp_eq.number);
    sqe.create_cq.doorbell_page = cpu_to_le32(1);
    sqe.create_cq.memory.pages = rnic_pages(r, rnic_alloc(r, 4096), 4096);
    sqe.create_cq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    cqn = le32_to_cpu(cqe.number);

    bad = rnic_read32(r, RNIC_REG_BAD_DOORBELLS);
    rnic_doorbell(r, 1, RNIC_DB_SQ, qp.number);
    rnic_doorbell(r, 1, RNIC_DB_RQ, qp.number);
    rnic_doorbell(r, 1, RNIC_DB_CQ_ARM, cqn | RNIC_ARM_NEXT);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_BAD_DOORBELLS), ==, bad);
    for (uint32_t page = 0; page < 4; page++) {
        if (page == 1) {
            continue;
        }
        rnic_doorbell(r, page, RNIC_DB_SQ, qp.number);
        rnic_doorbell(r, page, RNIC_DB_RQ, qp.number);
        rnic_doorbell(r, page, RNIC_DB_CQ_ARM, cqn | RNIC_ARM_NEXT);
        bad += 3;
        g_assert_cmpuint(rnic_read32(r, RNIC_REG_BAD_DOORBELLS), ==, bad);
    }
    /* Bits that mean nothing. */
    rnic_doorbell(r, 1, RNIC_DB_SQ, qp.number | 1u << 24);
    rnic_doorbell(r, 1, RNIC_DB_CQ_ARM, cqn | RNIC_ARM_NEXT | 1u << 24);
    rnic_doorbell(r, 1, RNIC_DB_CQ_ARM, cqn | RNIC_ARM_NEXT | 1u << 29);
    bad += 3;
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_BAD_DOORBELLS), ==, bad);
    /* Behind the last doorbell. */
    rnic_doorbell(r, 1, RNIC_DB_CQ_ARM + 4, cqn);
    g_assert_cmpuint(rnic_read32(r, RNIC_REG_BAD_DOORBELLS), ==, bad + 1);
    rnic_quit(r);
    rnic_shows("V9.3.2.2-6");
}

/* D3hot closes the BARs, and nothing is lost by it. */
static void test_power(void)
{
    Rnic *r = rnic_boot("", "");
    uint8_t pm = qpci_find_capability(r->dev, PCI_CAP_ID_PM, 0);
    uint16_t d0 = qpci_config_readw(r->dev, pm + PCI_PM_CTRL);
    uint16_t d3hot = d0 | PCI_PM_CTRL_STATE_MASK;

    g_assert_cmpint(pm, !=, 0);
    g_assert_cmphex(d0 & (PCI_PM_CTRL_STATE_MASK | PCI_PM_CTRL_NO_SOFT_RESET),
                    ==, PCI_PM_CTRL_NO_SOFT_RESET);
    rnic_write32(r, RNIC_REG_TEST32, 21);
    qpci_config_writew(r->dev, pm + PCI_PM_CTRL, d3hot);
    g_assert_cmphex(qpci_config_readw(r->dev, pm + PCI_PM_CTRL), ==, d3hot);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_MAGIC), !=, RNIC_MAGIC);
    qpci_config_writew(r->dev, pm + PCI_PM_CTRL, d0);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_MAGIC), ==, RNIC_MAGIC);
    g_assert_cmpint(rnic_read32(r, RNIC_REG_TEST32), ==, 42);
    rnic_quit(r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("rnic/registers/identity", test_identity);
    qtest_add_func("rnic/registers/bars", test_bars);
    qtest_add_func("rnic/registers/conventional-bus", test_conventional_bus);
    qtest_add_func("rnic/registers/reset-values", test_reset_values);
    qtest_add_func("rnic/registers/holes", test_holes);
    qtest_add_func("rnic/registers/bad-sizes", test_bad_sizes);
    qtest_add_func("rnic/registers/split-access", test_split_access);
    qtest_add_func("rnic/registers/read-only", test_read_only);
    qtest_add_func("rnic/registers/nonsense", test_nonsense);
    qtest_add_func("rnic/registers/test32-test64", test_test32_test64);
    qtest_add_func("rnic/registers/test-irq", test_irq);
    qtest_add_func("rnic/registers/test-dma", test_dma);
    qtest_add_func("rnic/registers/test-dma-refused", test_dma_refused);
    qtest_add_func("rnic/registers/doorbells-idle", test_doorbells_idle);
    qtest_add_func("rnic/registers/doorbell-owner", test_doorbell_owner);
    qtest_add_func("rnic/registers/power", test_power);
    return g_test_run();
}
