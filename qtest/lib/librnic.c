/*
 * A small driver of the rnic device over libqtest
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qobject/qdict.h"
#include "hw/pci/pci_regs.h"
#include "tests/qtest/libqos/pci-pc.h"

#include "guest-clock.h"
#include "objects.h"
#include "wire-peer.h"

#define GUEST_MEMORY_FIRST (16 * 1024 * 1024)
#define GUEST_MEMORY_LAST (256 * 1024 * 1024)
#define GUEST_MEMORY_SIBLING (192 * 1024 * 1024)

#define WAIT_SECONDS 60
#define MSI_DATA 0x4d530000

/* ------------------------------------------------ the machine, registers */

static void forget_objects(Rnic *r)
{
    r->admin_depth = 0;
    r->admin_tail = 0;
    r->admin_head = 0;
    memset(&r->async_eq, 0, sizeof(r->async_eq));
    memset(&r->cm_eq, 0, sizeof(r->cm_eq));
    memset(&r->comp_eq, 0, sizeof(r->comp_eq));
    r->pd = 0;
    rnic_objects_forget(r->objects);
}

static void find_device(Rnic *r, unsigned slot)
{
    r->dev = qpci_device_find(r->pci, QPCI_DEVFN(slot, 0));
    g_assert_nonnull(r->dev);
    r->registers = qpci_iomap(r->dev, RNIC_BAR_REGISTERS, NULL);
    r->doorbells = qpci_iomap(r->dev, RNIC_BAR_DOORBELLS, &r->doorbells_size);
    qpci_device_enable(r->dev);
    r->objects = rnic_objects_new();
}

/* A device that was never enabled, or is FATAL, only knows a reset. */
static void forget_device(Rnic *r)
{
    if (r->admin_depth &&
        rnic_read32(r, RNIC_REG_STATUS) == RNIC_STATUS_ENABLED) {
        rnic_objects_tear_down(r);
    }
    rnic_objects_free(r->objects);
    g_free(r->dev);
}

/* RNIC_TEST_FABRIC, see wire-peer.h. */
static char *fabric_object(void)
{
    const char *directory = wire_directory();

    return directory
        ? g_strdup_printf("-object rnic-fabric-unix,id=wire,dir=%s", directory)
        : g_strdup("-object rnic-fabric-tcp,id=wire,map=loopback");
}

Rnic *rnic_boot(const char *properties, const char *arguments)
{
    g_autofree char *fabric = fabric_object();
    g_autofree char *more = g_strdup_printf(",fabric=wire%s",
                                            properties ? properties : "");
    g_autofree char *all = g_strdup_printf("%s %s", fabric,
                                           arguments ? arguments : "");

    return rnic_boot_bare(more, all);
}

Rnic *rnic_boot_bare(const char *properties, const char *arguments)
{
    Rnic *r = g_new0(Rnic, 1);

    r->qts = qtest_initf("-machine q35 -nodefaults -m 256 %s "
                         "-device rnic,addr=%d%s%s",
                         arguments ? arguments : "", RNIC_TEST_SLOT,
                         g_getenv("RNIC_TEST_PROPERTIES") ?: "",
                         properties ? properties : "");
    r->pci = qpci_new_pc(r->qts, NULL);
    find_device(r, RNIC_TEST_SLOT);
    r->next_free = GUEST_MEMORY_FIRST;
    return r;
}

Rnic *rnic_sibling(Rnic *r, unsigned slot)
{
    Rnic *sibling = g_new0(Rnic, 1);

    sibling->qts = r->qts;
    sibling->pci = r->pci;
    find_device(sibling, slot);
    sibling->next_free = GUEST_MEMORY_SIBLING;
    return sibling;
}

void rnic_quit(Rnic *r)
{
    rnic_assert_alive(r);
    forget_device(r);
    qtest_quit(r->qts);
    qpci_free_pc(r->pci);
    g_free(r);
}

void rnic_sibling_free(Rnic *sibling)
{
    forget_device(sibling);
    g_free(sibling);
}

void rnic_assert_alive(Rnic *r)
{
    qtest_qmp_assert_success(r->qts, "{ 'execute': 'query-status' }");
}

uint32_t rnic_read32(Rnic *r, uint32_t offset)
{
    return qpci_io_readl(r->dev, r->registers, offset);
}

uint64_t rnic_read64(Rnic *r, uint32_t offset)
{
    return qtest_readq(r->qts, r->registers.addr + offset);
}

void rnic_write32(Rnic *r, uint32_t offset, uint32_t value)
{
    qpci_io_writel(r->dev, r->registers, offset, value);
}

void rnic_write64(Rnic *r, uint32_t offset, uint64_t value)
{
    qtest_writeq(r->qts, r->registers.addr + offset, value);
}

void rnic_doorbell(Rnic *r, uint32_t page, uint32_t offset, uint32_t value)
{
    qpci_io_writel(r->dev, r->doorbells,
                   page * RNIC_DOORBELL_PAGE_SIZE + offset, value);
}

void rnic_reset(Rnic *r)
{
    rnic_write32(r, RNIC_REG_CONTROL, RNIC_CONTROL_RESET);
    RNIC_UNTIL(r, rnic_read32(r, RNIC_REG_STATUS) == 0);
    forget_objects(r);
}

uint8_t rnic_pcie_capability(Rnic *r)
{
    return qpci_find_capability(r->dev, PCI_CAP_ID_EXP, 0);
}

void rnic_flr(Rnic *r)
{
    uint8_t capability = rnic_pcie_capability(r);
    uint32_t bars[6];
    uint16_t control;

    g_assert_cmphex(capability, !=, 0);
    for (int i = 0; i < 6; i++) {
        bars[i] = qpci_config_readl(r->dev, PCI_BASE_ADDRESS_0 + 4 * i);
    }
    control = qpci_config_readw(r->dev, capability + PCI_EXP_DEVCTL);
    qpci_config_writew(r->dev, capability + PCI_EXP_DEVCTL,
                       control | PCI_EXP_DEVCTL_BCR_FLR);
    for (int i = 0; i < 6; i++) {
        qpci_config_writel(r->dev, PCI_BASE_ADDRESS_0 + 4 * i, bars[i]);
    }
    qpci_device_enable(r->dev);
    r->msi = 0;
    forget_objects(r);
}

void rnic_bus_reset(Rnic *r)
{
    uint64_t bars = r->pci->mmio_alloc_ptr;

    qtest_qmp_assert_success(r->qts, "{ 'execute': 'system_reset' }");
    qtest_qmp_eventwait(r->qts, "RESET");
    r->pci->mmio_alloc_ptr = bars;
    r->registers = qpci_iomap(r->dev, RNIC_BAR_REGISTERS, NULL);
    r->doorbells = qpci_iomap(r->dev, RNIC_BAR_DOORBELLS, NULL);
    qpci_device_enable(r->dev);
    r->msi = 0;
    forget_objects(r);
}

/* ------------------------------------------------------------ guest memory */

uint64_t rnic_alloc(Rnic *r, size_t size)
{
    uint64_t bus = r->next_free;

    r->next_free += QEMU_ALIGN_UP(size, RNIC_TEST_PAGE);
    /* A page nobody owns lies between any two allocations. */
    r->next_free += RNIC_TEST_PAGE;
    g_assert_cmphex(r->next_free, <=, GUEST_MEMORY_LAST);
    return bus;
}

void rnic_mem_write(Rnic *r, uint64_t bus, const void *data, size_t size)
{
    if (size) {
        qtest_bufwrite(r->qts, bus, data, size);
    }
}

void rnic_mem_read(Rnic *r, uint64_t bus, void *data, size_t size)
{
    if (size) {
        qtest_bufread(r->qts, bus, data, size);
    }
}

void rnic_mem_fill(Rnic *r, uint64_t bus, uint8_t octet, size_t size)
{
    qtest_memset(r->qts, bus, octet, size);
}

uint32_t rnic_mem_read32(Rnic *r, uint64_t bus)
{
    uint32_t value;

    rnic_mem_read(r, bus, &value, sizeof(value));
    return le32_to_cpu(value);
}

void rnic_mem_write32(Rnic *r, uint64_t bus, uint32_t value)
{
    value = cpu_to_le32(value);
    rnic_mem_write(r, bus, &value, sizeof(value));
}

void rnic_pattern(void *data, size_t size, uint32_t seed)
{
    uint8_t *octets = data;
    uint32_t x = seed * 2654435761u + 1;

    for (size_t i = 0; i < size; i++) {
        x = x * 1664525 + 1013904223;
        octets[i] = x >> 24;
    }
}

struct rnic_page_list rnic_pages(Rnic *r, uint64_t bus, uint64_t size)
{
    uint32_t count = DIV_ROUND_UP(size, RNIC_TEST_PAGE);
    struct rnic_page_list list = {
        .count = cpu_to_le32(count),
        .page_shift = 12,
    };
    g_autofree uint64_t *entries = g_new(uint64_t, count);
    uint64_t array;

    if (count == 1) {
        list.level = RNIC_PAGE_LIST_INLINE;
        list.addr = cpu_to_le64(bus);
        return list;
    }
    for (uint32_t i = 0; i < count; i++) {
        entries[i] = cpu_to_le64(bus + (uint64_t)i * RNIC_TEST_PAGE);
    }
    array = rnic_alloc(r, count * sizeof(uint64_t));
    rnic_mem_write(r, array, entries, count * sizeof(uint64_t));
    list.level = RNIC_PAGE_LIST_DIRECT;
    list.addr = cpu_to_le64(array);
    return list;
}

struct rnic_page_list rnic_long_list(Rnic *r, uint32_t chunks, bool bad_end)
{
    size_t size = chunks * sizeof(uint64_t);
    uint64_t list = rnic_alloc(r, size);
    uint64_t chunk = rnic_alloc(r, RNIC_PAGE_CHUNK);
    g_autofree uint64_t *entries = g_new(uint64_t, chunks);

    for (uint32_t i = 0; i < chunks; i++) {
        entries[i] = cpu_to_le64(chunk);
    }
    if (bad_end) {
        chunk = rnic_alloc(r, RNIC_PAGE_CHUNK);
        rnic_mem_write32(r, chunk + RNIC_PAGE_CHUNK - sizeof(uint64_t), 1);
        entries[chunks - 1] = cpu_to_le64(chunk);
    }
    rnic_mem_write(r, list, entries, size);
    return (struct rnic_page_list) {
        .addr = cpu_to_le64(list),
        .count = cpu_to_le32(chunks * RNIC_PAGE_CHUNK_ENTRIES),
        .level = RNIC_PAGE_LIST_INDIRECT,
        .page_shift = 12,
    };
}

/* ----------------------------------------------------------------- waiting */

RnicWait rnic_wait_begin(Rnic *r)
{
    return (RnicWait) {
        .r = r,
        .deadline = g_get_monotonic_time() + WAIT_SECONDS * G_USEC_PER_SEC,
    };
}

void rnic_wait_step(RnicWait *wait, const char *what, const char *file,
                    int line)
{
    if (g_get_monotonic_time() > wait->deadline) {
        g_printerr("%s:%d: never became true: %s\n", file, line, what);
        abort();
    }
    /*
     * Virtual time goes on, so that no timer of the device is stuck, but not
     * so fast that its time-outs strike.
     */
    guest_clock_step(wait->r->qts, 10 * 1000);
    if (++wait->rounds > 10) {
        g_usleep(MIN(wait->rounds * 20, 2000));
    }
}

void rnic_settle(Rnic *r)
{
    for (int i = 0; i < 10; i++) {
        guest_clock_step(r->qts, 100 * 1000);
        g_usleep(2000);
    }
    if (r->admin_depth) {
        struct rnic_admin_sqe nop = rnic_command(RNIC_ADMIN_NOP);

        g_assert_cmpint(rnic_admin(r, &nop, NULL), ==, RNIC_ST_OK);
    }
}

void rnic_settle_fast(Rnic *r)
{
    for (int i = 0; i < 3; i++) {
        guest_clock_step(r->qts, 10 * 1000);
        g_usleep(200);
    }
}

void rnic_pass_time(Rnic *r, unsigned seconds)
{
    for (unsigned i = 0; i < seconds * 4; i++) {
        guest_clock_step(r->qts, 250 * 1000 * 1000);
        g_usleep(1000);
    }
}

/* -------------------------------------------------------------- interrupts */

/*
 * An MSI is a write of a word to an address. Here the address is in RAM, so
 * that the test can see it arrive.
 */
void rnic_msix_enable(Rnic *r)
{
    unsigned vectors;

    qpci_msix_enable(r->dev);
    r->msi = rnic_alloc(r, RNIC_TEST_PAGE);
    vectors = qpci_msix_table_size(r->dev);
    for (unsigned v = 0; v < vectors; v++) {
        uint64_t entry = r->dev->msix_table_off + v * PCI_MSIX_ENTRY_SIZE;

        qpci_io_writel(r->dev, r->dev->msix_table_bar,
                       entry + PCI_MSIX_ENTRY_LOWER_ADDR, r->msi + 4 * v);
        qpci_io_writel(r->dev, r->dev->msix_table_bar,
                       entry + PCI_MSIX_ENTRY_UPPER_ADDR, 0);
        qpci_io_writel(r->dev, r->dev->msix_table_bar,
                       entry + PCI_MSIX_ENTRY_DATA, MSI_DATA + v);
        qpci_io_writel(r->dev, r->dev->msix_table_bar,
                       entry + PCI_MSIX_ENTRY_VECTOR_CTRL, 0);
    }
}

void rnic_msix_mask(Rnic *r, unsigned vector, bool masked)
{
    uint64_t entry = r->dev->msix_table_off + vector * PCI_MSIX_ENTRY_SIZE;

    qpci_io_writel(r->dev, r->dev->msix_table_bar,
                   entry + PCI_MSIX_ENTRY_VECTOR_CTRL,
                   masked ? PCI_MSIX_ENTRY_CTRL_MASKBIT : 0);
}

bool rnic_msix_fired(Rnic *r, unsigned vector)
{
    uint64_t where = r->msi + 4 * vector;
    uint32_t value = rnic_mem_read32(r, where);

    g_assert_cmphex(r->msi, !=, 0);
    if (value == 0) {
        return false;
    }
    g_assert_cmphex(value, ==, MSI_DATA + vector);
    rnic_mem_write32(r, where, 0);
    return true;
}

/* ------------------------------------------------------------- admin queue */

void rnic_enable(Rnic *r, uint32_t depth, uint32_t vector, uint64_t features)
{
    r->admin_depth = depth;
    r->admin_tail = 0;
    r->admin_head = 0;
    r->admin_unanswered = 0;
    r->admin_sq = rnic_alloc(r, depth * sizeof(struct rnic_admin_sqe));
    r->admin_cq = rnic_alloc(r, depth * sizeof(struct rnic_admin_cqe));

    rnic_write64(r, RNIC_REG_DRIVER_FEATURES, features);
    rnic_write64(r, RNIC_REG_ADMIN_SQ_BASE, r->admin_sq);
    rnic_write64(r, RNIC_REG_ADMIN_CQ_BASE, r->admin_cq);
    rnic_write32(r, RNIC_REG_ADMIN_DEPTH, depth);
    rnic_write32(r, RNIC_REG_ADMIN_VECTOR, vector);
    rnic_write32(r, RNIC_REG_CONTROL, RNIC_CONTROL_ENABLE);
    g_assert_cmphex(rnic_read32(r, RNIC_REG_STATUS), ==, RNIC_STATUS_ENABLED);
    g_assert_cmpint(rnic_read32(r, RNIC_REG_HEALTH), ==, RNIC_HEALTH_OK);
}

struct rnic_admin_sqe rnic_command(uint16_t opcode)
{
    struct rnic_admin_sqe sqe = { .opcode = cpu_to_le16(opcode) };

    if (opcode == RNIC_ADMIN_REGISTER_MR ||
        opcode == RNIC_ADMIN_REREGISTER_MR) {
        sqe.register_mr.mr_flags = RNIC_MR_REMOTE_ACCESS;
    }
    return sqe;
}

void rnic_admin_fill(Rnic *r, struct rnic_admin_sqe *sqe)
{
    uint32_t slot = r->admin_tail & (r->admin_depth - 1);

    g_assert_cmpuint(r->admin_tail - r->admin_head - r->admin_unanswered, <,
                     r->admin_depth);
    sqe->command_id = cpu_to_le16(++r->command_id);
    rnic_mem_write(r, r->admin_sq + slot * sizeof(*sqe), sqe, sizeof(*sqe));
    rnic_objects_given(r->objects, sqe);
    r->admin_tail++;
}

void rnic_admin_tail(Rnic *r)
{
    rnic_write32(r, RNIC_REG_ADMIN_TAIL, r->admin_tail);
}

static bool phase_matches(uint32_t flags, uint32_t index, uint32_t depth)
{
    return (flags & 1) == !(index & depth);
}

bool rnic_admin_try_completion(Rnic *r, struct rnic_admin_cqe *cqe)
{
    uint32_t slot = r->admin_head & (r->admin_depth - 1);

    rnic_mem_read(r, r->admin_cq + slot * sizeof(*cqe), cqe, sizeof(*cqe));
    if (!phase_matches(le32_to_cpu(cqe->flags), r->admin_head,
                       r->admin_depth)) {
        return false;
    }
    rnic_write32(r, RNIC_REG_ADMIN_HEAD, ++r->admin_head);
    rnic_objects_answered(r->objects, cqe);
    return true;
}

void rnic_admin_completion(Rnic *r, struct rnic_admin_cqe *cqe)
{
    RNIC_UNTIL(r, rnic_admin_try_completion(r, cqe));
}

uint16_t rnic_admin(Rnic *r, struct rnic_admin_sqe *sqe,
                    struct rnic_admin_cqe *cqe)
{
    struct rnic_admin_cqe unused;

    if (!cqe) {
        cqe = &unused;
    }
    rnic_admin_fill(r, sqe);
    rnic_admin_tail(r);
    rnic_admin_completion(r, cqe);
    g_assert_cmphex(cqe->command_id, ==, sqe->command_id);
    return le16_to_cpu(cqe->status);
}

/* Of commands that do not wrap around the ring's end. */
static void admin_batch(Rnic *r, struct rnic_admin_sqe *sqe, unsigned count,
                        struct rnic_admin_cqe *cqe)
{
    uint32_t slot = r->admin_tail & (r->admin_depth - 1);
    struct rnic_admin_cqe last;

    for (unsigned i = 0; i < count; i++) {
        sqe[i].command_id = cpu_to_le16(++r->command_id);
        rnic_objects_given(r->objects, &sqe[i]);
    }
    rnic_mem_write(r, r->admin_sq + slot * sizeof(*sqe), sqe,
                   count * sizeof(*sqe));
    r->admin_tail += count;
    rnic_admin_tail(r);
    r->admin_head += count - 1;
    rnic_admin_completion(r, &last);
    rnic_mem_read(r, r->admin_cq + slot * sizeof(*cqe), cqe,
                  count * sizeof(*cqe));
    for (unsigned i = 0; i < count; i++) {
        g_assert_cmphex(cqe[i].command_id, ==, sqe[i].command_id);
        if (i < count - 1) {
            rnic_objects_answered(r->objects, &cqe[i]);
        }
    }
}

void rnic_admin_many(Rnic *r, struct rnic_admin_sqe *sqe, unsigned count,
                     struct rnic_admin_cqe *cqe)
{
    while (count > 0) {
        uint32_t slot = r->admin_tail & (r->admin_depth - 1);
        unsigned batch = MIN(count, r->admin_depth - slot);

        admin_batch(r, sqe, batch, cqe);
        sqe += batch;
        cqe += batch;
        count -= batch;
    }
}

static uint32_t admin_ok(Rnic *r, struct rnic_admin_sqe *sqe)
{
    struct rnic_admin_cqe cqe;

    g_assert_cmpint(rnic_admin(r, sqe, &cqe), ==, RNIC_ST_OK);
    return le32_to_cpu(cqe.number);
}

uint16_t rnic_admin_object(Rnic *r, uint16_t opcode, uint32_t number)
{
    struct rnic_admin_sqe sqe = rnic_command(opcode);

    sqe.object.number = cpu_to_le32(number);
    return rnic_admin(r, &sqe, NULL);
}

uint16_t rnic_admin_query(Rnic *r, uint16_t opcode, uint32_t number,
                          void *answer, uint32_t size)
{
    struct rnic_admin_sqe sqe = rnic_command(opcode);
    uint16_t status;

    if (!r->scratch) {
        r->scratch = rnic_alloc(r, RNIC_TEST_PAGE);
    }
    g_assert_cmpuint(size, <=, RNIC_TEST_PAGE);
    sqe.object.number = cpu_to_le32(number);
    sqe.bulk_addr = cpu_to_le64(r->scratch);
    sqe.bulk_length = cpu_to_le32(size);
    status = rnic_admin(r, &sqe, NULL);
    rnic_mem_read(r, r->scratch, answer, size);
    return status;
}

struct rnic_device_attr rnic_query_device(Rnic *r)
{
    struct rnic_device_attr attr;

    g_assert_cmpint(rnic_admin_query(r, RNIC_ADMIN_QUERY_DEVICE, 0, &attr,
                                     sizeof(attr)), ==, RNIC_ST_OK);
    return attr;
}

struct rnic_counters rnic_query_counters(Rnic *r)
{
    struct rnic_counters counters;

    g_assert_cmpint(rnic_admin_query(r, RNIC_ADMIN_QUERY_COUNTERS, 0,
                                     &counters, sizeof(counters)),
                    ==, RNIC_ST_OK);
    return counters;
}

uint64_t rnic_features(Rnic *r)
{
    return rnic_read64(r, RNIC_REG_FEATURES);
}

/* ----------------------------------------------------------------- objects */

void rnic_up(Rnic *r)
{
    rnic_up_with(r, rnic_features(r));
}

void rnic_up_with(Rnic *r, uint64_t features)
{
    rnic_reset(r);
    rnic_enable(r, 64, 0, features);
    rnic_create_eq(r, &r->async_eq, RNIC_EQ_ASYNC, 0, 256);
    rnic_create_eq(r, &r->cm_eq, RNIC_EQ_CM, 0, 64);
    rnic_create_eq(r, &r->comp_eq, RNIC_EQ_COMPLETION, 1, 256);
    r->pd = rnic_alloc_pd(r);
}

Rnic *rnic_boot_up(const char *properties)
{
    Rnic *r = rnic_boot(properties, NULL);

    rnic_up(r);
    return r;
}

static uint32_t eq_entry_size(uint8_t eq_class)
{
    switch (eq_class) {
    case RNIC_EQ_ASYNC:
        return sizeof(struct rnic_aeqe);
    case RNIC_EQ_CM:
        return sizeof(struct rnic_cm_event);
    default:
        return sizeof(struct rnic_ceqe);
    }
}

void rnic_create_eq(Rnic *r, RnicEq *eq, uint8_t eq_class, uint32_t vector,
                    uint32_t depth)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_EQ);
    uint64_t size;

    *eq = (RnicEq) {
        .depth = depth,
        .entry_size = eq_entry_size(eq_class),
        .vector = vector,
    };
    size = RNIC_QUEUE_RECORD_SIZE + (uint64_t)depth * eq->entry_size;
    eq->memory = rnic_alloc(r, size);
    sqe.create_eq.eq_class = eq_class;
    sqe.create_eq.vector = cpu_to_le32(vector);
    sqe.create_eq.depth = cpu_to_le32(depth);
    sqe.create_eq.memory.pages = rnic_pages(r, eq->memory, size);
    sqe.create_eq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    eq->number = admin_ok(r, &sqe);
    g_assert_cmphex(eq->number, !=, 0);
}

uint32_t rnic_alloc_pd(Rnic *r)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_ALLOC_PD);

    return admin_ok(r, &sqe);
}

void rnic_create_cq(Rnic *r, RnicCq *cq, uint32_t depth, uint32_t eqn)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_CQ);
    uint64_t size = RNIC_QUEUE_RECORD_SIZE +
                    (uint64_t)depth * sizeof(struct rnic_cqe);
    struct rnic_admin_cqe cqe;

    *cq = (RnicCq) { .depth = depth };
    cq->memory = rnic_alloc(r, size);
    sqe.create_cq.depth = cpu_to_le32(depth);
    sqe.create_cq.eqn = cpu_to_le32(eqn);
    sqe.create_cq.memory.pages = rnic_pages(r, cq->memory, size);
    sqe.create_cq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    g_assert_cmpuint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    g_assert_cmpuint(le32_to_cpu(cqe.cq.depth), ==, depth);
    cq->number = le32_to_cpu(cqe.number);
    g_assert_cmphex(cq->number, !=, 0);
}

struct rnic_admin_sqe rnic_resize_command(Rnic *r, const RnicCq *cq,
                                          uint32_t depth, uint64_t memory)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_CQ);

    sqe.modify_cq.cqn = cpu_to_le32(cq->number);
    sqe.modify_cq.mask = cpu_to_le32(RNIC_CQ_MODIFY_DEPTH);
    sqe.modify_cq.depth = cpu_to_le32(depth);
    sqe.modify_cq.memory.pages = rnic_pages(
        r, memory,
        RNIC_QUEUE_RECORD_SIZE + (uint64_t)depth * sizeof(struct rnic_cqe));
    sqe.modify_cq.memory.ring_offset[0] = cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    return sqe;
}

uint16_t rnic_try_resize_cq(Rnic *r, RnicCq *cq, uint32_t depth,
                            uint32_t earlier, RnicCq *before, uint32_t *end)
{
    uint64_t memory = rnic_alloc(
        r, RNIC_QUEUE_RECORD_SIZE + (uint64_t)depth * sizeof(struct rnic_cqe));
    struct rnic_admin_sqe sqe = rnic_resize_command(r, cq, depth, memory);
    struct rnic_admin_cqe cqe;
    uint16_t status;

    sqe.modify_cq.earlier = cpu_to_le32(earlier);
    status = rnic_admin(r, &sqe, &cqe);
    if (status == RNIC_ST_OK) {
        *before = *cq;
        *end = le32_to_cpu(cqe.cq.end);
        cq->memory = memory;
        cq->depth = le32_to_cpu(cqe.cq.depth);
        cq->index = 0;
    }
    return status;
}

RnicQpInit rnic_qp_default(Rnic *r, RnicCq *send_cq, RnicCq *recv_cq)
{
    return (RnicQpInit) {
        .pd = r->pd,
        .send_cq = send_cq,
        .recv_cq = recv_cq,
        .sq_depth = 64,
        .rq_depth = 32,
        .ird = 4,
        .ord = 4,
        .rq_shift = 7,
        .max_sge = 4,
        .enables = RNIC_QP_ENABLE_READ | RNIC_QP_ENABLE_WRITE,
    };
}

struct rnic_admin_sqe rnic_qp_command(Rnic *r, const RnicQpInit *init,
                                      RnicQp *qp)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_QP);
    uint64_t size;

    *qp = (RnicQp) {
        .sq_depth = init->sq_depth,
        .rq_depth = init->rq_depth,
        .rq_shift = init->rq_shift,
        .doorbell_page = init->doorbell_page,
        .send_cq = init->send_cq,
        .recv_cq = init->recv_cq,
        .sq_offset = RNIC_QUEUE_RECORD_SIZE,
    };
    size = qp->sq_offset + qp->sq_depth * RNIC_SQ_UNIT;
    if (!init->srq) {
        qp->rq_offset = size;
        size += (uint64_t)qp->rq_depth << qp->rq_shift;
    }
    qp->memory = rnic_alloc(r, size);

    sqe.create_qp.pdn = cpu_to_le32(init->pd);
    sqe.create_qp.send_cqn = cpu_to_le32(init->send_cq->number);
    sqe.create_qp.recv_cqn = cpu_to_le32(init->recv_cq->number);
    sqe.create_qp.sq_depth = cpu_to_le32(init->sq_depth);
    sqe.create_qp.rq_depth = cpu_to_le32(init->rq_depth);
    sqe.create_qp.doorbell_page = cpu_to_le32(init->doorbell_page);
    sqe.create_qp.ird = cpu_to_le16(init->ird);
    sqe.create_qp.ord = cpu_to_le16(init->ord);
    sqe.create_qp.rq_wqe_shift = init->rq_shift;
    sqe.create_qp.max_send_sge = init->max_sge;
    sqe.create_qp.max_write_sge = init->max_sge;
    sqe.create_qp.max_recv_sge = init->max_sge;
    sqe.create_qp.enables = cpu_to_le32(init->enables);
    sqe.create_qp.srqn = cpu_to_le32(init->srq ? init->srq->number : 0);
    sqe.create_qp.rq_limit = cpu_to_le32(init->rq_limit);
    sqe.create_qp.memory.pages = rnic_pages(r, qp->memory, size);
    sqe.create_qp.memory.ring_offset[0] = cpu_to_le32(qp->sq_offset);
    sqe.create_qp.memory.ring_offset[1] = cpu_to_le32(qp->rq_offset);
    return sqe;
}

void rnic_create_qp(Rnic *r, RnicQp *qp, const RnicQpInit *init)
{
    struct rnic_admin_sqe sqe = rnic_qp_command(r, init, qp);

    qp->number = admin_ok(r, &sqe);
    g_assert_cmphex(qp->number, !=, 0);
}

RnicSrqInit rnic_srq_default(Rnic *r)
{
    return (RnicSrqInit) {
        .pd = r->pd,
        .depth = 32,
        .shift = 7,
        .max_sge = 4,
    };
}

struct rnic_admin_sqe rnic_srq_command(Rnic *r, const RnicSrqInit *init,
                                       RnicSrq *srq)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CREATE_SRQ);
    uint64_t size = RNIC_QUEUE_RECORD_SIZE +
                    ((uint64_t)init->depth << init->shift);

    *srq = (RnicSrq) {
        .depth = init->depth,
        .shift = init->shift,
        .doorbell_page = init->doorbell_page,
        .memory = rnic_alloc(r, size),
    };
    sqe.create_srq.pdn = cpu_to_le32(init->pd);
    sqe.create_srq.depth = cpu_to_le32(init->depth);
    sqe.create_srq.limit = cpu_to_le32(init->limit);
    sqe.create_srq.doorbell_page = cpu_to_le32(init->doorbell_page);
    sqe.create_srq.wqe_shift = init->shift;
    sqe.create_srq.max_sge = init->max_sge;
    sqe.create_srq.memory.pages = rnic_pages(r, srq->memory, size);
    sqe.create_srq.memory.ring_offset[0] =
        cpu_to_le32(RNIC_QUEUE_RECORD_SIZE);
    return sqe;
}

void rnic_create_srq(Rnic *r, RnicSrq *srq, const RnicSrqInit *init)
{
    struct rnic_admin_sqe sqe = rnic_srq_command(r, init, srq);

    srq->number = admin_ok(r, &sqe);
    g_assert_cmphex(srq->number, !=, 0);
}

struct rnic_admin_cqe rnic_query_srq(Rnic *r, const RnicSrq *srq)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_QUERY_SRQ);
    struct rnic_admin_cqe cqe;

    sqe.object.number = cpu_to_le32(srq->number);
    g_assert_cmpint(rnic_admin(r, &sqe, &cqe), ==, RNIC_ST_OK);
    return cqe;
}

uint16_t rnic_modify_srq_limit(Rnic *r, const RnicSrq *srq, uint32_t limit)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_SRQ);

    sqe.create_srq.srqn = cpu_to_le32(srq->number);
    sqe.create_srq.mask = RNIC_SRQ_MODIFY_LIMIT;
    sqe.create_srq.limit = cpu_to_le32(limit);
    return rnic_admin(r, &sqe, NULL);
}

uint16_t rnic_modify_qp_enables(Rnic *r, const RnicQp *qp, uint32_t enables)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

    sqe.modify_qp.qpn = cpu_to_le32(qp->number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_ENABLES);
    sqe.modify_qp.enables = cpu_to_le32(enables);
    return rnic_admin(r, &sqe, NULL);
}

uint16_t rnic_modify_qp_state(Rnic *r, const RnicQp *qp, uint8_t state)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_MODIFY_QP);

    sqe.modify_qp.qpn = cpu_to_le32(qp->number);
    sqe.modify_qp.mask = cpu_to_le32(RNIC_QP_MODIFY_STATE);
    sqe.modify_qp.next_state = state;
    return rnic_admin(r, &sqe, NULL);
}

struct rnic_qp_attr rnic_query_qp(Rnic *r, const RnicQp *qp)
{
    struct rnic_qp_attr attr;

    g_assert_cmpint(rnic_admin_query(r, RNIC_ADMIN_QUERY_QP, qp->number, &attr,
                                     sizeof(attr)), ==, RNIC_ST_OK);
    return attr;
}

uint8_t rnic_qp_state(Rnic *r, const RnicQp *qp)
{
    return rnic_query_qp(r, qp).state;
}

void rnic_wait_qp_state(Rnic *r, const RnicQp *qp, uint8_t state)
{
    RNIC_UNTIL(r, rnic_qp_state(r, qp) == state);
}

void rnic_create_mr(Rnic *r, RnicMr *mr, uint32_t pd, uint32_t length,
                    uint32_t access)
{
    static uint8_t key = 0x5a;
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_REGISTER_MR);

    mr->length = length;
    mr->bus = rnic_alloc(r, length);
    mr->va = access & RNIC_ACCESS_ZERO_BASED ? 0 :
             mr->bus + 0x00007f3200000000ULL;
    sqe.register_mr.pdn = cpu_to_le32(pd);
    sqe.register_mr.va = cpu_to_le64(mr->va);
    sqe.register_mr.length = cpu_to_le64(length);
    sqe.register_mr.pages = rnic_pages(r, mr->bus, length);
    sqe.register_mr.access = cpu_to_le32(access);
    sqe.register_mr.key = key++;
    mr->stag = admin_ok(r, &sqe);
    g_assert_cmphex(mr->stag & 0xff, ==, sqe.register_mr.key);
    g_assert_cmphex(mr->stag >> 8, !=, 0);
}

struct rnic_sge rnic_sge(const RnicMr *mr, uint64_t offset, uint32_t length)
{
    struct rnic_sge sge = {
        .to = cpu_to_le64(mr->va + offset),
        .stag = cpu_to_le32(mr->stag),
        .length = cpu_to_le32(length),
    };

    return sge;
}

/* ------------------------------------------------------------------ events */

bool rnic_eq_poll(Rnic *r, RnicEq *eq, void *event)
{
    uint64_t slot = eq->memory + RNIC_QUEUE_RECORD_SIZE +
                    (uint64_t)(eq->index & (eq->depth - 1)) * eq->entry_size;
    uint32_t flags = rnic_mem_read32(r, slot + eq->entry_size - 4);

    if (!phase_matches(flags, eq->index, eq->depth)) {
        return false;
    }
    rnic_mem_read(r, slot, event, eq->entry_size);
    eq->index++;
    rnic_mem_write32(r, eq->memory + offsetof(struct rnic_eq_record, consumer),
                     eq->index);
    return true;
}

void rnic_eq_wait(Rnic *r, RnicEq *eq, void *event)
{
    RNIC_UNTIL(r, rnic_eq_poll(r, eq, event));
}

struct rnic_aeqe rnic_expect_async(Rnic *r, uint16_t event, uint32_t number)
{
    struct rnic_aeqe aeqe;

    rnic_eq_wait(r, &r->async_eq, &aeqe);
    g_assert_cmpint(le16_to_cpu(aeqe.event), ==, event);
    g_assert_cmphex(le32_to_cpu(aeqe.number), ==, number);
    return aeqe;
}

void rnic_expect_no_async(Rnic *r)
{
    struct rnic_aeqe aeqe;

    if (rnic_eq_poll(r, &r->async_eq, &aeqe)) {
        g_assert_cmpint(le16_to_cpu(aeqe.event), ==, 0);
    }
}

struct rnic_cm_event rnic_expect_cm(Rnic *r, uint8_t type)
{
    struct rnic_cm_event event;

    rnic_eq_wait(r, &r->cm_eq, &event);
    g_assert_cmpint(event.type, ==, type);
    return event;
}

void rnic_expect_no_cm(Rnic *r)
{
    struct rnic_cm_event event;

    if (rnic_eq_poll(r, &r->cm_eq, &event)) {
        g_assert_cmpint(event.type, ==, 0);
    }
}

/* ------------------------------------------------- posting and completions */

/* What precedes the SGEs: octets, and how many. */
static uint32_t encode_arguments(const RnicWr *wr, uint8_t *out)
{
    struct rnic_atomic_wqe atomic = {
        .add_swap = cpu_to_le64(wr->add_swap),
        .compare = cpu_to_le64(wr->compare),
    };

    if (wr->opcode != RNIC_SQ_FETCH_ADD && wr->opcode != RNIC_SQ_COMPARE_SWAP) {
        return 0;
    }
    memcpy(out, &atomic, sizeof(atomic));
    return sizeof(atomic);
}

uint32_t rnic_encode_wr(const RnicWr *wr, uint8_t *wqe)
{
    bool is_inline = wr->flags & RNIC_WQE_INLINE;
    uint8_t args[sizeof(struct rnic_atomic_wqe)];
    uint32_t args_length = encode_arguments(wr, args);
    uint32_t payload = is_inline ? wr->inline_length
                                 : wr->num_sge * sizeof(struct rnic_sge);
    uint32_t units = DIV_ROUND_UP(sizeof(struct rnic_sq_wqe) + args_length +
                                  payload, RNIC_SQ_UNIT);
    struct rnic_sq_wqe head = {
        .opcode = wr->opcode,
        .flags = wr->flags,
        .num_sge = is_inline ? 0 : wr->num_sge,
        .units = units,
        .data_length = cpu_to_le32(is_inline ? wr->inline_length : 0),
        .wr_id = cpu_to_le64(wr->wr_id),
        .remote_to = cpu_to_le64(wr->remote_to),
        .remote_stag = cpu_to_le32(wr->remote_stag),
        .invalidate_stag = cpu_to_le32(wr->invalidate_stag),
    };

    g_assert_cmpuint(units, <=, RNIC_SQ_MAX_UNITS);
    memset(wqe, 0, units * RNIC_SQ_UNIT);
    if (wr->immediate) {
        memcpy(head.immediate, wr->immediate, sizeof(head.immediate));
    }
    memcpy(wqe, &head, sizeof(head));
    memcpy(wqe + sizeof(head), args, args_length);
    memcpy(wqe + sizeof(head) + args_length,
           is_inline ? wr->inline_data : (const void *)wr->sge, payload);
    return units;
}

void rnic_store_wqe(Rnic *r, RnicQp *qp, const void *wqe, uint32_t units)
{
    for (uint32_t i = 0; i < units; i++) {
        uint32_t slot = qp->sq_producer++ & (qp->sq_depth - 1);

        rnic_mem_write(r, qp->memory + qp->sq_offset + slot * RNIC_SQ_UNIT,
                       (const uint8_t *)wqe + i * RNIC_SQ_UNIT, RNIC_SQ_UNIT);
    }
}

void rnic_ring_sq(Rnic *r, RnicQp *qp)
{
    rnic_mem_write32(r, qp->memory +
                     offsetof(struct rnic_qp_record, sq_producer),
                     qp->sq_producer);
    rnic_doorbell(r, qp->doorbell_page, RNIC_DB_SQ, qp->number);
}

void rnic_ring_rq(Rnic *r, RnicQp *qp)
{
    rnic_mem_write32(r, qp->memory +
                     offsetof(struct rnic_qp_record, rq_producer),
                     qp->rq_producer);
    rnic_doorbell(r, qp->doorbell_page, RNIC_DB_RQ, qp->number);
}

void rnic_post_send(Rnic *r, RnicQp *qp, const RnicWr *wr)
{
    uint8_t wqe[RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS];

    rnic_store_wqe(r, qp, wqe, rnic_encode_wr(wr, wqe));
    rnic_ring_sq(r, qp);
}

static void store_receive_wqe(Rnic *r, uint64_t where, uint64_t wr_id,
                              unsigned num_sge, const struct rnic_sge *sge)
{
    struct rnic_rq_wqe wqe = {
        .wr_id = cpu_to_le64(wr_id),
        .num_sge = cpu_to_le32(num_sge),
    };

    rnic_mem_write(r, where, &wqe, sizeof(wqe));
    rnic_mem_write(r, where + sizeof(wqe), sge, num_sge * sizeof(*sge));
}

void rnic_store_recv(Rnic *r, RnicQp *qp, uint64_t wr_id, unsigned num_sge,
                     const struct rnic_sge *sge)
{
    uint32_t slot = qp->rq_producer++ & (qp->rq_depth - 1);

    store_receive_wqe(r, qp->memory + qp->rq_offset +
                      ((uint64_t)slot << qp->rq_shift), wr_id, num_sge, sge);
}

void rnic_store_srq_recv(Rnic *r, RnicSrq *srq, uint64_t wr_id,
                         unsigned num_sge, const struct rnic_sge *sge)
{
    uint32_t slot = srq->producer++ & (srq->depth - 1);

    store_receive_wqe(r, srq->memory + RNIC_QUEUE_RECORD_SIZE +
                      ((uint64_t)slot << srq->shift), wr_id, num_sge, sge);
}

void rnic_publish_srq(Rnic *r, const RnicSrq *srq)
{
    rnic_mem_write32(r, srq->memory +
                     offsetof(struct rnic_srq_record, producer),
                     srq->producer);
}

void rnic_post_srq_recv(Rnic *r, RnicSrq *srq, uint64_t wr_id,
                        unsigned num_sge, const struct rnic_sge *sge)
{
    rnic_store_srq_recv(r, srq, wr_id, num_sge, sge);
    rnic_publish_srq(r, srq);
}

void rnic_post_recv(Rnic *r, RnicQp *qp, uint64_t wr_id, unsigned num_sge,
                    const struct rnic_sge *sge)
{
    rnic_store_recv(r, qp, wr_id, num_sge, sge);
    rnic_ring_rq(r, qp);
}

/* V9.3.2.1-6: those of the specification, and those of the manual. */
static bool is_completion_status(uint8_t status)
{
    return (status >= RNIC_WC_SUCCESS && status <= RNIC_WC_INVALID_LENGTH) ||
           (status >= RNIC_WC_MESSAGE_TOO_LONG &&
            status <= RNIC_WC_RNR_RETRY_EXCEEDED);
}

bool rnic_cq_poll(Rnic *r, RnicCq *cq, struct rnic_cqe *cqe)
{
    uint64_t slot = cq->memory + RNIC_QUEUE_RECORD_SIZE +
                    (cq->index & (cq->depth - 1)) * sizeof(*cqe);

    rnic_mem_read(r, slot, cqe, sizeof(*cqe));
    if (!phase_matches(cqe->flags, cq->index, cq->depth)) {
        return false;
    }
    g_assert_true(is_completion_status(cqe->status));
    cq->index++;
    rnic_mem_write32(r, cq->memory + offsetof(struct rnic_cq_record, consumer),
                     cq->index);
    return true;
}

void rnic_cq_wait(Rnic *r, RnicCq *cq, struct rnic_cqe *cqe)
{
    RNIC_UNTIL(r, rnic_cq_poll(r, cq, cqe));
}

void rnic_cq_arm(Rnic *r, const RnicCq *cq, uint32_t how)
{
    rnic_doorbell(r, cq->doorbell_page, RNIC_DB_CQ_ARM, cq->number | how);
}

struct rnic_cqe rnic_expect_cqe(Rnic *r, RnicCq *cq, uint64_t wr_id,
                                uint8_t status)
{
    struct rnic_cqe cqe;

    rnic_cq_wait(r, cq, &cqe);
    g_assert_cmphex(le64_to_cpu(cqe.wr_id), ==, wr_id);
    g_assert_cmpint(cqe.status, ==, status);
    return cqe;
}

void rnic_expect_no_cqe(Rnic *r, RnicCq *cq)
{
    struct rnic_cqe cqe;

    if (rnic_cq_poll(r, cq, &cqe)) {
        g_assert_cmphex(le64_to_cpu(cqe.wr_id), ==, ~0ULL);
        g_assert_not_reached();
    }
}

/* -------------------------------------------------------------- connecting */

struct rnic_cm_addr rnic_addr(uint32_t ip, uint16_t port)
{
    struct rnic_cm_addr addr = { .port = cpu_to_be16(port) };

    if (ip) {
        addr.ip[10] = 0xff;
        addr.ip[11] = 0xff;
        stl_be_p(&addr.ip[12], ip);
    }
    return addr;
}

static void put_private_data(Rnic *r, struct rnic_admin_sqe *sqe,
                             const void *data, uint32_t length)
{
    uint64_t bulk;

    if (length == 0) {
        return;
    }
    bulk = rnic_alloc(r, length);
    rnic_mem_write(r, bulk, data, length);
    sqe->bulk_addr = cpu_to_le64(bulk);
    sqe->bulk_length = cpu_to_le32(length);
}

uint16_t rnic_try_connect(Rnic *r, const RnicQp *qp, uint32_t ip,
                          uint16_t port, uint16_t ird, uint16_t ord,
                          uint64_t cookie, const void *data, uint32_t length)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_CONNECT);

    sqe.connect.cookie = cpu_to_le64(cookie);
    sqe.connect.qpn = cpu_to_le32(qp->number);
    sqe.connect.ird = cpu_to_le16(ird);
    sqe.connect.ord = cpu_to_le16(ord);
    sqe.connect.remote = rnic_addr(ip, port);
    sqe.connect.tos = r->tos;
    if (wire_directory()) {
        /* Nobody else knows what addresses the guest has. */
        sqe.connect.local = rnic_addr(wire_guest_ip(1), 0);
    }
    put_private_data(r, &sqe, data, length);
    return rnic_admin(r, &sqe, NULL);
}

uint16_t rnic_try_listen(Rnic *r, uint32_t ip, uint16_t port, uint64_t cookie,
                         uint32_t *listener)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_LISTEN);
    struct rnic_admin_cqe cqe;
    uint16_t status;

    sqe.listen.cookie = cpu_to_le64(cookie);
    sqe.listen.local = rnic_addr(ip, port);
    sqe.listen.backlog = cpu_to_le32(8);
    sqe.listen.tos = r->tos;
    status = rnic_admin(r, &sqe, &cqe);
    if (listener) {
        *listener = le32_to_cpu(cqe.number);
    }
    return status;
}

uint16_t rnic_try_accept(Rnic *r, uint32_t endpoint, const RnicQp *qp,
                         uint16_t ird, uint16_t ord, uint64_t cookie,
                         const void *data, uint32_t length)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_ACCEPT);

    sqe.accept.cookie = cpu_to_le64(cookie);
    sqe.accept.endpoint = cpu_to_le32(endpoint);
    sqe.accept.qpn = cpu_to_le32(qp->number);
    sqe.accept.ird = cpu_to_le16(ird);
    sqe.accept.ord = cpu_to_le16(ord);
    put_private_data(r, &sqe, data, length);
    return rnic_admin(r, &sqe, NULL);
}

uint16_t rnic_try_reject(Rnic *r, uint32_t endpoint, const void *data,
                         uint32_t length)
{
    struct rnic_admin_sqe sqe = rnic_command(RNIC_ADMIN_CM_REJECT);

    sqe.accept.endpoint = cpu_to_le32(endpoint);
    put_private_data(r, &sqe, data, length);
    return rnic_admin(r, &sqe, NULL);
}

/* --------------------------------------------------------------- reporting */

void rnic_shows(const char *ids)
{
    printf("# shows %s\n", ids);
    fflush(stdout);
}
