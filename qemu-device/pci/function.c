/*
 * rnic: an iWARP RNIC as a PCI function
 *
 * The PCI side: configuration space, BARs, MSI-X, properties, realize, reset.
 * What the function does is in the other files; docs/rnic.rst is the
 * programming manual.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/units.h"
#include "hw/pci/msix.h"
#include "hw/pci/pcie.h"
#include "migration/vmstate.h"
#include "admin.h"
#include "hw/rnic/capture/capture.h"
#include "hw/rnic/connect/cm.h"
#include "hw/rnic/connect/llp-stream.h"
#include "hw/rnic/connect/request.h"
#include "hw/rnic/verbs/cq.h"
#include "ethernet.h"
#include "interrupt.h"
#include "hw/rnic/guest/event-queue.h"
#include "hw/rnic/fabric/fabric.h"
#include "hw/rnic/fabric/linger.h"
#include "hw/rnic/iwarp/mpa-fpdu.h"
#include "hw/rnic/tpt/pd.h"
#include "hw/rnic/tpt/tpt.h"
#include "hw/rnic/verbs/qp.h"
#include "hw/rnic/fault/fault.h"
#include "registers.h"
#include "run-state.h"
#include "hw/rnic/verbs/srq.h"
#include "hw/rnic/base/trace.h"
#include "hw/rnic/stream/worker.h"

enum { MAX_OBJECTS = RNIC_OBJECT_NUMBER_MASK };

/*
 * The properties that are a number: type, name, member of RnicConfig, default,
 * least and largest value, and what the number is.
 */
#define NUMBERS(X)                                                          \
    X(INT32, "io-threads", io_threads, RNIC_IO_THREADS_AUTO,                \
      RNIC_IO_THREADS_AUTO, RNIC_MAX_IO_THREADS,                            \
      "threads of the device's own that move the data; 0: QEMU's main "     \
      "loop does; -1: one, unless iothread is given")                       \
    X(UINT32, "event-hold-us", event_hold_us, 100, 0, RNIC_MAX_EVENT_HOLD,  \
      "longest time in microseconds that a completion event waits for "     \
      "more to report; 0: none")                                            \
    X(UINT32, "busy-poll-us", busy_poll_us, 60, 0, RNIC_MAX_BUSY_POLL,      \
      "longest time in microseconds that a thread of io-threads polls for " \
      "the answer to a small message before it sleeps")                     \
    X(UINT32, "vectors", vectors, 8, 1, RNIC_MAX_VECTORS, "MSI-X vectors")  \
    X(UINT32, "doorbell-pages", doorbell_pages, 1024, 2, 32768,             \
      "pages of BAR 2, a power of two; one for each user context")          \
    X(UINT32, "max-qp", max_qp, 16384, 1, MAX_OBJECTS, "queue pairs")       \
    X(UINT32, "max-cq", max_cq, 32768, 1, MAX_OBJECTS, "completion queues") \
    X(UINT32, "max-srq", max_srq, 16384, 1, MAX_OBJECTS,                    \
      "shared receive queues")                                              \
    X(UINT32, "max-eq", max_eq, 256, 1, 65536, "event queues")              \
    X(UINT32, "max-pd", max_pd, 16384, 1, MAX_OBJECTS, "protection domains") \
    X(UINT32, "max-mr", max_mr, 262144, 1, MAX_OBJECTS,                     \
      "STags: memory regions and windows")                                  \
    X(UINT64, "max-mr-pages", max_mr_pages, 64 * MiB, 1, 4 * GiB,           \
      "entries in the page lists of all memory regions together")           \
    X(UINT32, "max-queue-pages", max_queue_pages, 8 * MiB, 1, 1 * GiB,      \
      "entries in the page lists of all queues together")                   \
    X(UINT32, "max-listeners", max_listeners, 1024, 1, 65536,               \
      "listening endpoints")                                                \
    X(UINT32, "max-endpoints", max_endpoints, 4096, 1, 65536,               \
      "connections in set-up each way")                                     \
    X(UINT32, "max-llp-streams", max_llp_streams, 256, 1, 65536,            \
      "LLP streams in streaming mode, and as many requests of peers")       \
    X(UINT32, "rnr-wait-ms", rnr_wait_ms, 0, 0, RNIC_MAX_RNR_WAIT,          \
      "longest time in milliseconds that an incoming Send waits for a "     \
      "receive, 0: it ends the stream at once")                             \
    X(UINT16, "max-ird", max_ird, 128, 1, 1024,                             \
      "RDMA Reads that the peer of a queue pair may have outstanding")      \
    X(UINT16, "max-ord", max_ord, 128, 1, 1024,                             \
      "RDMA Reads that a queue pair may have outstanding")                  \
    X(UINT8, "mpa-revision", mpa_revision, 2, 1, 2,                         \
      "highest MPA revision in use")                                        \
    X(UINT32, "mulpdu", mulpdu, IWARP_MULPDU_MAX, IWARP_MULPDU_MIN,         \
      IWARP_MULPDU_MAX, "octets of the largest DDP segment sent")

static bool check_number(const char *name, int64_t val, int64_t min,
                         int64_t max, Error **errp)
{
    if (val < min || val > max) {
        error_setg(errp, "%s=%" PRId64 " is outside %" PRId64 "..%" PRId64,
                   name, val, min, max);
        return false;
    }
    return true;
}

static bool check_config(const RnicConfig *c, Error **errp)
{
    if (!is_power_of_2(c->doorbell_pages)) {
        error_setg(errp, "doorbell-pages=%u is not a power of two",
                   c->doorbell_pages);
        return false;
    }
    if (c->mpa_rtr && c->mpa_revision < 2) {
        error_setg(errp, "mpa-rtr=on needs mpa-revision=2 "
                   "(RFC 6581); set mpa-rtr=off");
        return false;
    }
#define CHECK(type, name, member, initial, min, max, text)                  \
    check_number(name, c->member, min, max, errp) &&
    return NUMBERS(CHECK) true;
#undef CHECK
}

/* --------------------------------------------------- life of the device */

static void init_tables(RnicState *s)
{
    const RnicConfig *c = &s->config;

    rnic_table_init(&s->eqs, c->max_eq);
    rnic_table_init(&s->pds, c->max_pd);
    rnic_table_init(&s->cqs, c->max_cq);
    rnic_table_init(&s->srqs, c->max_srq);
    rnic_table_init(&s->qps, c->max_qp);
    rnic_table_init(&s->listeners, c->max_listeners);
    rnic_table_init(&s->endpoints, 2 * c->max_endpoints);
    rnic_requests_init(s);
    rnic_llp_init(s);
    rnic_tpt_init(s);
    qemu_mutex_init(&s->event_lock);
}

static void cleanup_tables(RnicState *s)
{
    rnic_table_cleanup(&s->eqs);
    rnic_table_cleanup(&s->pds);
    rnic_table_cleanup(&s->cqs);
    rnic_table_cleanup(&s->srqs);
    rnic_table_cleanup(&s->qps);
    rnic_table_cleanup(&s->listeners);
    rnic_table_cleanup(&s->endpoints);
    rnic_requests_cleanup(s);
    rnic_llp_cleanup(s);
    rnic_tpt_cleanup(s);
    qemu_mutex_destroy(&s->event_lock);
}

static void init_bars(RnicState *s)
{
    PCIDevice *pci = PCI_DEVICE(s);

    memory_region_init_io(&s->registers_region, OBJECT(s),
                          &rnic_registers_ops, s, "rnic-registers",
                          RNIC_REGISTERS_SIZE);
    pci_register_bar(pci, RNIC_BAR_REGISTERS, PCI_BASE_ADDRESS_SPACE_MEMORY,
                     &s->registers_region);
    memory_region_init_io(&s->doorbells_region, OBJECT(s),
                          &rnic_doorbells_ops, s, "rnic-doorbells",
                          (uint64_t)s->config.doorbell_pages *
                          RNIC_DOORBELL_PAGE_SIZE);
    pci_register_bar(pci, RNIC_BAR_DOORBELLS,
                     PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_TYPE_64 |
                     PCI_BASE_ADDRESS_MEM_PREFETCH, &s->doorbells_region);
}

/* D0 and D3hot.  What the device has stays there in D3hot; QEMU closes the BARs. */
static bool init_power_management(PCIDevice *pci, Error **errp)
{
    int offset = pci_pm_init(pci, 0, errp);

    if (offset < 0) {
        return false;
    }
    pci_set_word(pci->config + offset + PCI_PM_CTRL, PCI_PM_CTRL_NO_SOFT_RESET);
    pci_set_word(pci->wmask + offset + PCI_PM_CTRL, PCI_PM_CTRL_STATE_MASK);
    return true;
}

static bool init_capabilities(PCIDevice *pci, Error **errp)
{
    if (!init_power_management(pci, errp)) {
        return false;
    }
    if (pci_bus_is_express(pci_get_bus(pci))) {
        if (pcie_endpoint_cap_init(pci, 0) < 0) {
            error_setg(errp, "no room for the PCI Express capability");
            return false;
        }
        pcie_cap_flr_init(pci);
    }
    return true;
}

static bool init_msix(RnicState *s, Error **errp)
{
    PCIDevice *pci = PCI_DEVICE(s);

    if (msix_init_exclusive_bar(pci, s->config.vectors, RNIC_BAR_MSIX,
                                errp) < 0) {
        return false;
    }
    for (uint32_t i = 0; i < s->config.vectors; i++) {
        msix_vector_use(pci, i);
    }
    return true;
}

static void cleanup_fabric(RnicState *s)
{
    if (OBJECT(s->fabric)->parent == OBJECT(s)) {
        object_unparent(OBJECT(s->fabric));
        s->fabric = NULL;
    }
}

static void rnic_realize(PCIDevice *pci, Error **errp)
{
    RnicState *s = RNIC(pci);

    if (!check_config(&s->config, errp) || !init_capabilities(pci, errp)) {
        return;
    }
    /* Without fabric= the device makes one that reaches nothing of the host. */
    if (!s->fabric) {
        s->fabric = rnic_fabric_new_default(OBJECT(s), errp);
    }
    if (!s->fabric) {
        return;
    }
    if (!rnic_workers_create(s, errp) || !init_msix(s, errp)) {
        rnic_workers_destroy(s);
        cleanup_fabric(s);
        return;
    }
    qemu_macaddr_default_if_unset(&s->nic_conf.macaddr);
    if (!rnic_capture_realize(s, errp)) {
        msix_unuse_all_vectors(pci);
        msix_uninit_exclusive_bar(pci);
        rnic_workers_destroy(s);
        cleanup_fabric(s);
        return;
    }
    init_bars(s);
    init_tables(s);
    rnic_interrupt_realize(s);
    rnic_run_state_realize(s);
    s->lingers = rnic_lingers_new(iohandler_get_aio_context());
    rnic_admin_realize(s);
    if (s->nic_conf.peers.ncs[0]) {
        rnic_ethernet_realize(s);
    }
    rnic_registers_reset(s);
}

static void rnic_exit(PCIDevice *pci)
{
    RnicState *s = RNIC(pci);

    rnic_function_reset(s);
    if (s->ethernet) {
        rnic_ethernet_unrealize(s);
    }
    rnic_admin_unrealize(s);
    cleanup_fabric(s);
    g_clear_pointer(&s->lingers, rnic_lingers_free);
    rnic_capture_unrealize(s);
    rnic_run_state_unrealize(s);
    rnic_interrupt_unrealize(s);
    cleanup_tables(s);
    rnic_workers_destroy(s);
    msix_unuse_all_vectors(pci);
    msix_uninit_exclusive_bar(pci);
}

/*
 * Streams first: a peer must not be told of errors that come of taking things
 * away.  Then users before what they use: windows name QPs, QPs name CQs.
 */
void rnic_function_reset(RnicState *s)
{
    trace_rnic_reset();
    rnic_capture_note(s, "The device is reset");
    rnic_admin_stop(s);
    rnic_workers_stop(s, rnic_qp_quiesce_all);
    rnic_cm_reset(s);
    assert(rnic_admin_idle(s));
    rnic_tpt_reset(s);
    rnic_qp_reset(s);
    rnic_srq_reset(s);
    rnic_cq_reset(s);
    rnic_eq_reset(s);
    rnic_pd_reset(s);
    rnic_interrupt_reset(s);
    if (s->ethernet) {
        rnic_ethernet_reset(s);
    }
    s->counters = (RnicCounters) { };
    rnic_registers_reset(s);
}

static void rnic_reset_hold(Object *obj, ResetType type)
{
    rnic_function_reset(RNIC(obj));
}

static uint32_t rnic_config_read(PCIDevice *pci, uint32_t address, int len)
{
    return qatomic_read(&RNIC(pci)->vanished)
           ? UINT32_MAX : pci_default_read_config(pci, address, len);
}

static void rnic_config_write(PCIDevice *pci, uint32_t address, uint32_t val,
                              int len)
{
    if (qatomic_read(&RNIC(pci)->vanished)) {
        return;
    }
    pci_default_write_config(pci, address, val, len);
    if (pci->exp.exp_cap) {
        pcie_cap_flr_write_config(pci, address, val, len);
    }
}

static const Property rnic_properties[] = {
    DEFINE_NIC_PROPERTIES(RnicState, nic_conf),
    DEFINE_PROP_LINK("fabric", RnicState, fabric, TYPE_RNIC_FABRIC,
                     RnicFabric *),
    DEFINE_PROP_LINK("iothread", RnicState, iothread, TYPE_IOTHREAD,
                     IOThread *),
#define NUMBER(type, name, member, initial, min, max, text)                 \
    DEFINE_PROP_##type(name, RnicState, config.member, initial),
    NUMBERS(NUMBER)
#undef NUMBER
    DEFINE_PROP_BOOL("mpa-crc", RnicState, config.mpa_crc, false),
    DEFINE_PROP_BOOL("mpa-markers", RnicState, config.mpa_markers, false),
    DEFINE_PROP_BOOL("mpa-rtr", RnicState, config.mpa_rtr, true),
    DEFINE_PROP_BOOL("rdmap-extensions", RnicState, config.rdmap_extensions,
                     true),
};

static void property_describe(ObjectClass *oc, const char *property, const char *text)
{
    object_class_property_set_description(oc, property, text);
}

static void number_describe(ObjectClass *oc, const char *property,
                            const char *text, int64_t min, int64_t max)
{
    g_autofree char *all = g_strdup_printf("%" PRId64 " to %" PRId64 ": %s",
                                           min, max, text);

    property_describe(oc, property, all);
}

static void rnic_describe(ObjectClass *oc)
{
#define DESCRIBE(type, name, member, initial, min, max, text)               \
    number_describe(oc, name, text, min, max);
    NUMBERS(DESCRIBE)
#undef DESCRIBE
    property_describe(oc, "mac", "MAC address of the Ethernet function, such as "
             "52:54:00:12:34:56 (default: QEMU chooses)");
    property_describe(oc, "netdev", "id of the netdev behind the Ethernet function "
             "(default: none, no Ethernet)");
    property_describe(oc, "fabric", "id of the rnic-fabric-... object that carries the "
             "RDMA streams (default: UNIX sockets in the user's own "
             "directory)");
    property_describe(oc, "iothread", "id of the iothread object that moves the data, "
             "instead of io-threads; no other device may use it (default: "
             "none)");
    property_describe(oc, "mpa-crc", "insist on CRC32C; without, it is used if the "
             "peer insists");
    property_describe(oc, "mpa-markers", "ask the peer to send markers");
    property_describe(oc, "rdmap-extensions", "offer immediate data and atomic "
             "operations (RFC 7306)");
    property_describe(oc, "mpa-rtr", "offer the peer-to-peer start-up of RFC 6581; "
             "needs mpa-revision=2");
}

/* Host sockets cannot move to another host. */
static const VMStateDescription rnic_vmstate = {
    .name = "rnic",
    .unmigratable = 1,
};

/* Room for a PCI Express capability; realize adds it if the bus is one. */
static void rnic_instance_init(Object *obj)
{
    PCI_DEVICE(obj)->cap_present |= QEMU_PCI_CAP_EXPRESS;
    rnic_fault_init(RNIC(obj));
    rnic_capture_init(RNIC(obj));
}

static void rnic_instance_finalize(Object *obj)
{
    rnic_fault_finalize(RNIC(obj));
    rnic_capture_finalize(RNIC(obj));
}

static void rnic_class_init(ObjectClass *oc, RNIC_CLASS_DATA *data)
{
    DeviceClass *dc = DEVICE_CLASS(oc);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(oc);
    ResettableClass *rc = RESETTABLE_CLASS(oc);

    pc->realize = rnic_realize;
    pc->exit = rnic_exit;
    pc->config_read = rnic_config_read;
    pc->config_write = rnic_config_write;
    pc->vendor_id = RNIC_PCI_VENDOR_ID;
    pc->device_id = RNIC_PCI_DEVICE_ID;
    pc->revision = RNIC_PCI_REVISION;
    pc->class_id = PCI_CLASS_NETWORK_ETHERNET;
    rc->phases.hold = rnic_reset_hold;
    dc->desc = "iWARP RDMA network adapter";
    dc->vmsd = &rnic_vmstate;
    set_bit(DEVICE_CATEGORY_NETWORK, dc->categories);
    device_class_set_props(dc, rnic_properties);
    rnic_describe(oc);
    rnic_fault_class_init(oc);
    rnic_capture_class_init(oc);
}

static const TypeInfo rnic_type = {
    .name = TYPE_RNIC,
    .parent = TYPE_PCI_DEVICE,
    .instance_size = sizeof(RnicState),
    .instance_init = rnic_instance_init,
    .instance_finalize = rnic_instance_finalize,
    .class_init = rnic_class_init,
    .interfaces = RNIC_INTERFACES {
        { INTERFACE_PCIE_DEVICE },
        { INTERFACE_CONVENTIONAL_PCI_DEVICE },
        { }
    },
};

static void rnic_register_types(void)
{
    type_register_static(&rnic_type);
}

type_init(rnic_register_types)
