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
#include "hw/rnic/fault/fault.h"
#include "hw/rnic/guest/event-queue.h"
#include "hw/rnic/stream/worker.h"
#include "registers.h"
#include "hw/rnic/base/trace.h"

enum { NO_LOW_HALF = 0xffffffff };

/* When a write has its effect; at other times it does nothing. */
typedef enum RegisterWrites {
    NEVER,
    WHILE_DISABLED,             /* what has to stay while the device runs */
    WHILE_ENABLED,
    ALWAYS,
} RegisterWrites;

typedef struct Register {
    uint8_t size;               /* 4 or 8; 0: a hole */
    uint8_t value;              /* 1 + its offset in RnicRegisters, where it has
                                 * the same size; 0: it is not kept there */
    uint32_t constant;          /* what is read if neither is given ... */
    uint64_t (*read)(RnicState *s);             /* ... instead of the value */
    RegisterWrites writes;
    void (*written)(RnicState *s, uint32_t val);        /* once it is kept */
} Register;

static uint64_t read_limits(RnicState *s)
{
    return s->config.vectors | s->config.doorbell_pages << 16;
}

static uint64_t read_features(RnicState *s)
{
    return rnic_device_features(s);
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

static void control_written(RnicState *s, uint32_t val)
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
    qatomic_set(&s->regs.status, RNIC_STATUS_ENABLED);
    rnic_workers_start(s);
    rnic_admin_start(s);
    trace_rnic_enabled(s->regs.driver_features, s->regs.admin_depth);
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

static uint64_t read_bad_doorbells(RnicState *s)
{
    return stat64_get(&s->counters.bad_doorbells);
}

static void admin_tail_written(RnicState *s, uint32_t val)
{
    rnic_admin_kick(s);
}

static uint64_t read_test32(RnicState *s)
{
    return (uint32_t)(2 * s->regs.test32);
}

static uint64_t read_test64(RnicState *s)
{
    return 2 * s->regs.test64;
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

static void test_dma_ctrl_written(RnicState *s, uint32_t val)
{
    s->regs.test_dma_status = test_dma(s, val);
    trace_rnic_test_dma(val, s->regs.test_dma_status);
}

#define VALUE(name)                                                         \
    .size = sizeof(((RnicRegisters *)0)->name),                             \
    .value = 1 + offsetof(RnicRegisters, name)

/* By offset / 4; the high half of an 8-byte register is found through its
 * low half. */
static const Register registers[] = {
    [RNIC_REG_MAGIC / 4] = { .size = 4, .constant = RNIC_MAGIC },
    [RNIC_REG_ABI_VERSION / 4] = {
        .size = 4, .constant = RNIC_ABI_MAJOR << 16 | RNIC_ABI_MINOR },
    [RNIC_REG_HW_VERSION / 4] = { .size = 4, .constant = 1 },
    [RNIC_REG_LIMITS / 4] = { .size = 4, .read = read_limits },
    [RNIC_REG_FEATURES / 4] = { .size = 8, .read = read_features },
    [RNIC_REG_DRIVER_FEATURES / 4] = {
        VALUE(driver_features), .writes = WHILE_DISABLED },
    [RNIC_REG_CONTROL / 4] = {
        .size = 4, .read = read_control, .writes = ALWAYS,
        .written = control_written },
    [RNIC_REG_STATUS / 4] = { VALUE(status) },
    [RNIC_REG_HEALTH / 4] = { VALUE(health) },
    [RNIC_REG_LINK / 4] = { .size = 4, .read = read_link },
    [RNIC_REG_MAC / 4] = { .size = 8, .read = read_mac },
    [RNIC_REG_BAD_ACCESSES / 4] = { VALUE(bad_accesses) },
    [RNIC_REG_BAD_DOORBELLS / 4] = { .size = 4, .read = read_bad_doorbells },
    [RNIC_REG_ADMIN_SQ_BASE / 4] = {
        VALUE(admin_sq_base), .writes = WHILE_DISABLED },
    [RNIC_REG_ADMIN_CQ_BASE / 4] = {
        VALUE(admin_cq_base), .writes = WHILE_DISABLED },
    [RNIC_REG_ADMIN_DEPTH / 4] = {
        VALUE(admin_depth), .writes = WHILE_DISABLED },
    [RNIC_REG_ADMIN_VECTOR / 4] = {
        VALUE(admin_vector), .writes = WHILE_DISABLED },
    [RNIC_REG_ADMIN_TAIL / 4] = {
        VALUE(admin_tail), .writes = WHILE_ENABLED,
        .written = admin_tail_written },
    [RNIC_REG_ADMIN_HEAD / 4] = {
        VALUE(admin_head), .writes = WHILE_ENABLED },
    [RNIC_REG_EQ_KICK / 4] = {
        .size = 4, .writes = WHILE_ENABLED, .written = rnic_eq_kick },
    [RNIC_REG_ETH_KICK / 4] = {
        .size = 4, .writes = WHILE_ENABLED, .written = rnic_ethernet_kick },
    [RNIC_REG_ETH_ARM / 4] = {
        .size = 4, .writes = WHILE_ENABLED, .written = rnic_ethernet_arm },
    [RNIC_REG_TEST32 / 4] = {
        VALUE(test32), .read = read_test32, .writes = ALWAYS },
    [RNIC_REG_TEST64 / 4] = {
        VALUE(test64), .read = read_test64, .writes = ALWAYS },
    [RNIC_REG_TEST_IRQ / 4] = {
        .size = 4, .writes = ALWAYS, .written = rnic_interrupt },
    [RNIC_REG_TEST_DMA_STATUS / 4] = { VALUE(test_dma_status) },
    [RNIC_REG_TEST_DMA_ADDR / 4] = {
        VALUE(test_dma_addr), .writes = ALWAYS },
    [RNIC_REG_TEST_DMA_SIZE / 4] = {
        VALUE(test_dma_size), .writes = ALWAYS },
    [RNIC_REG_TEST_DMA_CTRL / 4] = {
        .size = 4, .writes = ALWAYS, .written = test_dma_ctrl_written },
};

/* Where the register is kept.  NULL: it is not. */
static void *register_place(RnicState *s, const Register *reg)
{
    return reg->value ? (char *)&s->regs + reg->value - 1 : NULL;
}

static uint64_t register_get(RnicState *s, const Register *reg)
{
    const void *place = register_place(s, reg);

    if (reg->read) {
        return reg->read(s);
    }
    return place ? ldn_he_p(place, reg->size) : reg->constant;
}

/* The same, unless a fault is asked for. */
static uint64_t register_get_or_err(RnicState *s, const Register *reg)
{
    uint64_t val = register_get(s, reg);
    RnicFault rule;

    if (rnic_fault(s, RNIC_FAULT_EVENT_REGISTER, 0, 4 * (reg - registers),
                   &rule)) {
        val = cpu_to_le64(val);
        rnic_fault_written(&rule, &val, sizeof(val));
        val = le64_to_cpu(val);
    }
    return val;
}

static void register_set(RnicState *s, const Register *reg, uint64_t val)
{
    void *place = register_place(s, reg);

    if (reg->writes == NEVER ||
        (reg->writes == WHILE_DISABLED && s->regs.status) ||
        (reg->writes == WHILE_ENABLED && !rnic_enabled(s))) {
        return;
    }
    if (place) {
        stn_he_p(place, reg->size, val);
    }
    if (reg->written) {
        reg->written(s, val);
    }
}

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

    if (qatomic_read(&s->vanished)) {
        return UINT64_MAX;
    }
    if (!reg) {
        bad_access(s, addr, size, false);
        return 0;
    }
    val = register_get_or_err(s, reg);
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

    if (qatomic_read(&s->vanished)) {
        return;
    }
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
    register_set(s, reg, val);
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
