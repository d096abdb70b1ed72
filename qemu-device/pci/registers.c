/*
 * rnic: the registers of BAR 0
 *
 * A table says for each register how wide it is, how it is read and what a
 * write does.  The access rule of rnic-hw.h is applied here, once.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "admin.h"
#include "device-attr.h"
#include "hw/rnic/guest/dma.h"
#include "ethernet.h"
#include "hw/rnic/guest/event-queue.h"
#include "registers.h"
#include "hw/rnic/base/trace.h"

enum { NO_LOW_HALF = 0xffffffff };

typedef struct Register {
    uint8_t size;                               /* 4 or 8; 0: a hole */
    uint64_t (*read)(RnicState *s);             /* NULL: reads as zero */
    void (*write)(RnicState *s, uint64_t val);  /* NULL: writes do nothing */
} Register;

static uint64_t read_magic(RnicState *s)
{
    return RNIC_MAGIC;
}

static uint64_t read_abi(RnicState *s)
{
    return RNIC_ABI_MAJOR << 16 | RNIC_ABI_MINOR;
}

static uint64_t read_hw_version(RnicState *s)
{
    return 1;
}

static uint64_t read_limits(RnicState *s)
{
    return s->config.vectors | s->config.doorbell_pages << 16;
}

static uint64_t read_features(RnicState *s)
{
    return rnic_device_features(s);
}

static uint64_t read_driver_features(RnicState *s)
{
    return s->regs.driver_features;
}

static void write_driver_features(RnicState *s, uint64_t val)
{
    if (!s->regs.status) {
        s->regs.driver_features = val;
    }
}

static uint64_t read_control(RnicState *s)
{
    return s->regs.status & RNIC_STATUS_ENABLED ? RNIC_CONTROL_ENABLE : 0;
}

static uint32_t enable_problem(RnicState *s)
{
    const RnicRegisters *r = &s->regs;

    if (r->driver_features & ~rnic_device_features(s)) {
        return RNIC_HEALTH_BAD_FEATURES;
    }
    if (r->admin_depth < 2 || r->admin_depth > 1024 ||
        !is_power_of_2(r->admin_depth) || (r->admin_sq_base & 127) ||
        (r->admin_cq_base & 63) || !rnic_vector_valid(s, r->admin_vector)) {
        return RNIC_HEALTH_BAD_ADMIN_SETUP;
    }
    return RNIC_HEALTH_OK;
}

static void write_control(RnicState *s, uint64_t val)
{
    uint32_t problem;

    if (val & RNIC_CONTROL_RESET) {
        rnic_function_reset(s);
        return;
    }
    if (!(val & RNIC_CONTROL_ENABLE) || s->regs.status) {
        return;
    }
    problem = enable_problem(s);
    if (problem != RNIC_HEALTH_OK) {
        rnic_fatal(s, problem);
        return;
    }
    s->regs.status = RNIC_STATUS_ENABLED;
    rnic_admin_start(s);
    trace_rnic_enabled(s->regs.driver_features, s->regs.admin_depth);
}

static uint64_t read_status(RnicState *s)
{
    return s->regs.status;
}

static uint64_t read_health(RnicState *s)
{
    return s->regs.health;
}

static uint64_t read_link(RnicState *s)
{
    const uint32_t speed = 10000;

    return (uint64_t)rnic_ethernet_link_up(s) | speed << 8;
}

static uint64_t read_mac(RnicState *s)
{
    uint64_t mac = 0;

    for (int i = 0; i < 6; i++) {
        mac |= (uint64_t)s->nic_conf.macaddr.a[i] << 8 * i;
    }
    return mac;
}

static uint64_t read_bad_accesses(RnicState *s)
{
    return s->regs.bad_accesses;
}

static uint64_t read_bad_doorbells(RnicState *s)
{
    return s->regs.bad_doorbells;
}

/* The admin queue's place is fixed while it runs. */
#define ADMIN_SETUP(name)                                           \
    static uint64_t read_##name(RnicState *s)                       \
    {                                                               \
        return s->regs.name;                                        \
    }                                                               \
    static void write_##name(RnicState *s, uint64_t val)            \
    {                                                               \
        if (!s->regs.status) {                                      \
            s->regs.name = val;                                     \
        }                                                           \
    }

ADMIN_SETUP(admin_sq_base)
ADMIN_SETUP(admin_cq_base)
ADMIN_SETUP(admin_depth)
ADMIN_SETUP(admin_vector)

static uint64_t read_admin_tail(RnicState *s)
{
    return s->regs.admin_tail;
}

static void write_admin_tail(RnicState *s, uint64_t val)
{
    if (rnic_enabled(s)) {
        s->regs.admin_tail = val;
        rnic_admin_kick(s);
    }
}

static uint64_t read_admin_head(RnicState *s)
{
    return s->regs.admin_head;
}

static void write_admin_head(RnicState *s, uint64_t val)
{
    if (rnic_enabled(s)) {
        s->regs.admin_head = val;
    }
}

static void write_eq_kick(RnicState *s, uint64_t val)
{
    if (rnic_enabled(s)) {
        rnic_eq_kick(s, val);
    }
}

static void write_eth_kick(RnicState *s, uint64_t val)
{
    if (rnic_enabled(s)) {
        rnic_ethernet_kick(s, val);
    }
}

static void write_eth_arm(RnicState *s, uint64_t val)
{
    if (rnic_enabled(s)) {
        rnic_ethernet_arm(s, val);
    }
}

static uint64_t read_test32(RnicState *s)
{
    return (uint32_t)(2 * s->regs.test32);
}

static void write_test32(RnicState *s, uint64_t val)
{
    s->regs.test32 = val;
}

static uint64_t read_test64(RnicState *s)
{
    return 2 * s->regs.test64;
}

static void write_test64(RnicState *s, uint64_t val)
{
    s->regs.test64 = val;
}

static void write_test_irq(RnicState *s, uint64_t val)
{
    rnic_interrupt(s, val);
}

#define TEST_DMA(name)                                              \
    static uint64_t read_##name(RnicState *s)                       \
    {                                                               \
        return s->regs.name;                                        \
    }                                                               \
    static void write_##name(RnicState *s, uint64_t val)            \
    {                                                               \
        s->regs.name = val;                                         \
    }

TEST_DMA(test_dma_addr)
TEST_DMA(test_dma_size)

static uint64_t read_test_dma_status(RnicState *s)
{
    return s->regs.test_dma_status;
}

static uint32_t test_dma(RnicState *s, uint32_t op)
{
    uint32_t size = s->regs.test_dma_size;
    uint64_t addr = s->regs.test_dma_addr;
    g_autofree uint8_t *buf = NULL;

    if (size == 0 || size > RNIC_TEST_DMA_MAX) {
        return RNIC_TEST_DMA_BAD_SIZE;
    }
    buf = g_malloc(size);
    switch (op) {
    case RNIC_TEST_DMA_CLEAR:
        memset(buf, 0, size);
        break;
    case RNIC_TEST_DMA_FILL:
        memset(buf, 0x96, size);
        break;
    case RNIC_TEST_DMA_INVERT:
        if (!rnic_dma_read(s, addr, buf, size)) {
            return RNIC_TEST_DMA_FAULT;
        }
        for (uint32_t i = 0; i < size; i++) {
            buf[i] = ~buf[i];
        }
        break;
    default:
        return RNIC_TEST_DMA_BAD_OP;
    }
    return rnic_dma_write(s, addr, buf, size) ? RNIC_TEST_DMA_DONE
                                              : RNIC_TEST_DMA_FAULT;
}

static void write_test_dma_ctrl(RnicState *s, uint64_t val)
{
    s->regs.test_dma_status = test_dma(s, val);
    trace_rnic_test_dma(val, s->regs.test_dma_status);
}

#define RO4(name) { .size = 4, .read = read_##name }
#define RO8(name) { .size = 8, .read = read_##name }
#define WO4(name) { .size = 4, .write = write_##name }
#define RW4(name) { .size = 4, .read = read_##name, .write = write_##name }
#define RW8(name) { .size = 8, .read = read_##name, .write = write_##name }

/* By offset / 4; the high half of an 8-byte register is found through its
 * low half. */
static const Register registers[] = {
    [RNIC_REG_MAGIC / 4] = RO4(magic),
    [RNIC_REG_ABI_VERSION / 4] = RO4(abi),
    [RNIC_REG_HW_VERSION / 4] = RO4(hw_version),
    [RNIC_REG_LIMITS / 4] = RO4(limits),
    [RNIC_REG_FEATURES / 4] = RO8(features),
    [RNIC_REG_DRIVER_FEATURES / 4] = RW8(driver_features),
    [RNIC_REG_CONTROL / 4] = RW4(control),
    [RNIC_REG_STATUS / 4] = RO4(status),
    [RNIC_REG_HEALTH / 4] = RO4(health),
    [RNIC_REG_LINK / 4] = RO4(link),
    [RNIC_REG_MAC / 4] = RO8(mac),
    [RNIC_REG_BAD_ACCESSES / 4] = RO4(bad_accesses),
    [RNIC_REG_BAD_DOORBELLS / 4] = RO4(bad_doorbells),
    [RNIC_REG_ADMIN_SQ_BASE / 4] = RW8(admin_sq_base),
    [RNIC_REG_ADMIN_CQ_BASE / 4] = RW8(admin_cq_base),
    [RNIC_REG_ADMIN_DEPTH / 4] = RW4(admin_depth),
    [RNIC_REG_ADMIN_VECTOR / 4] = RW4(admin_vector),
    [RNIC_REG_ADMIN_TAIL / 4] = RW4(admin_tail),
    [RNIC_REG_ADMIN_HEAD / 4] = RW4(admin_head),
    [RNIC_REG_EQ_KICK / 4] = WO4(eq_kick),
    [RNIC_REG_ETH_KICK / 4] = WO4(eth_kick),
    [RNIC_REG_ETH_ARM / 4] = WO4(eth_arm),
    [RNIC_REG_TEST32 / 4] = RW4(test32),
    [RNIC_REG_TEST64 / 4] = RW8(test64),
    [RNIC_REG_TEST_IRQ / 4] = WO4(test_irq),
    [RNIC_REG_TEST_DMA_STATUS / 4] = RO4(test_dma_status),
    [RNIC_REG_TEST_DMA_ADDR / 4] = RW8(test_dma_addr),
    [RNIC_REG_TEST_DMA_SIZE / 4] = RW4(test_dma_size),
    [RNIC_REG_TEST_DMA_CTRL / 4] = WO4(test_dma_ctrl),
};

/* The register an access of @size at @addr is for; *@half is 4 when it is for
 * the high half of an 8-byte register.  NULL: against the access rule. */
static const Register *register_at(hwaddr addr, unsigned size, unsigned *half)
{
    const Register *reg;

    *half = 0;
    if (addr % size || addr / 4 >= ARRAY_SIZE(registers) || size < 4) {
        return NULL;
    }
    reg = &registers[addr / 4];
    if (reg->size == size || (reg->size == 8 && size == 4)) {
        return reg;
    }
    if (size == 4 && addr >= 4 && registers[addr / 4 - 1].size == 8) {
        *half = 4;
        return reg - 1;
    }
    return NULL;
}

static void bad_access(RnicState *s, hwaddr addr, unsigned size, bool write)
{
    s->regs.bad_accesses++;
    trace_rnic_ub_register_access(addr, size, write);
}

static uint64_t registers_read(void *opaque, hwaddr addr, unsigned size)
{
    RnicState *s = opaque;
    unsigned half;
    const Register *reg = register_at(addr, size, &half);
    uint64_t val;

    if (!reg) {
        bad_access(s, addr, size, false);
        return 0;
    }
    val = reg->read ? reg->read(s) : 0;
    val = size == 4 ? (uint32_t)(val >> 8 * half) : val;
    trace_rnic_register_read(addr, size, val);
    return val;
}

static void registers_write(void *opaque, hwaddr addr, uint64_t val,
                            unsigned size)
{
    RnicState *s = opaque;
    unsigned half;
    const Register *reg = register_at(addr, size, &half);

    if (!reg) {
        bad_access(s, addr, size, true);
        return;
    }
    trace_rnic_register_write(addr, size, val);
    if (reg->size == 8 && size == 4) {
        if (half == 0) {
            s->regs.low_half = val;
            s->regs.low_half_offset = addr;
            return;
        }
        if (s->regs.low_half_offset != addr - 4) {
            bad_access(s, addr, size, true);
            return;
        }
        val = val << 32 | s->regs.low_half;
    }
    s->regs.low_half_offset = NO_LOW_HALF;
    if (reg->write) {
        reg->write(s, val);
    }
}

/* Sizes below 4 reach the handlers too, to be counted. */
const MemoryRegionOps rnic_registers_ops = {
    .read = registers_read,
    .write = registers_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

void rnic_registers_reset(RnicState *s)
{
    s->regs = (RnicRegisters) {
        .admin_vector = RNIC_NO_VECTOR,
        .low_half_offset = NO_LOW_HALF,
    };
}
