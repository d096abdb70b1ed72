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
#include "hw/rnic/connect/cm.h"
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
#include "registers.h"
#include "run-state.h"
#include "hw/rnic/verbs/srq.h"
#include "hw/rnic/base/trace.h"
#include "hw/rnic/stream/worker.h"

enum { MAX_OBJECTS = RNIC_OBJECT_NUMBER_MASK };

static bool check_limit(const char *name, uint64_t val, uint64_t min,
                        uint64_t max, Error **errp)
{
    if (val < min || val > max) {
        error_setg(errp, "rnic: %s=%" PRIu64 " is outside %" PRIu64
                   "..%" PRIu64, name, val, min, max);
        return false;
    }
    return true;
}

static bool check_config(const RnicConfig *c, Error **errp)
{
    if (!is_power_of_2(c->doorbell_pages)) {
        error_setg(errp, "rnic: doorbell-pages=%u is not a power of two",
                   c->doorbell_pages);
        return false;
    }
    if (c->mpa_rtr && c->mpa_revision < 2) {
        error_setg(errp, "rnic: mpa-rtr=on needs mpa-revision=2 "
                   "(RFC 6581); set mpa-rtr=off");
        return false;
    }
    if (c->io_threads < RNIC_IO_THREADS_AUTO ||
        c->io_threads > RNIC_MAX_IO_THREADS) {
        error_setg(errp, "rnic: io-threads=%d is outside 0..%d",
                   c->io_threads, RNIC_MAX_IO_THREADS);
        return false;
    }
    return
        check_limit("vectors", c->vectors, 1, RNIC_MAX_VECTORS, errp) &&
        check_limit("doorbell-pages", c->doorbell_pages, 2, 32768, errp) &&
        check_limit("max-qp", c->max_qp, 1, MAX_OBJECTS, errp) &&
        check_limit("max-cq", c->max_cq, 1, MAX_OBJECTS, errp) &&
        check_limit("max-srq", c->max_srq, 1, MAX_OBJECTS, errp) &&
        check_limit("max-eq", c->max_eq, 1, 65536, errp) &&
        check_limit("max-pd", c->max_pd, 1, MAX_OBJECTS, errp) &&
        check_limit("max-mr", c->max_mr, 1, MAX_OBJECTS, errp) &&
        check_limit("max-mr-pages", c->max_mr_pages, 1, 1ULL << 32, errp) &&
        check_limit("max-queue-pages", c->max_queue_pages, 1, 1U << 30,
                    errp) &&
        check_limit("max-listeners", c->max_listeners, 1, 65536, errp) &&
        check_limit("max-endpoints", c->max_endpoints, 1, 65536, errp) &&
        check_limit("max-ird", c->max_ird, 1, 1024, errp) &&
        check_limit("max-ord", c->max_ord, 1, 1024, errp) &&
        check_limit("event-hold-us", c->event_hold_us, 0, RNIC_MAX_EVENT_HOLD,
                    errp) &&
        check_limit("busy-poll-us", c->busy_poll_us, 0, RNIC_MAX_BUSY_POLL,
                    errp) &&
        check_limit("mpa-revision", c->mpa_revision, 1, 2, errp) &&
        check_limit("mulpdu", c->mulpdu, IWARP_MULPDU_MIN, IWARP_MULPDU_MAX,
                    errp);
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
    rnic_tpt_cleanup(s);
    qemu_mutex_destroy(&s->event_lock);
}

static bool init_pci(RnicState *s, Error **errp)
{
    PCIDevice *pci = PCI_DEVICE(s);

    pci_config_set_interrupt_pin(pci->config, 0);
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
    if (msix_init_exclusive_bar(pci, s->config.vectors, RNIC_BAR_MSIX,
                                errp) < 0) {
        return false;
    }
    for (uint32_t i = 0; i < s->config.vectors; i++) {
        msix_vector_use(pci, i);
    }
    if (pci_pm_init(pci, 0, errp) < 0) {
        return false;
    }
    if (pci_bus_is_express(pci_get_bus(pci))) {
        pcie_endpoint_cap_init(pci, 0);
        pcie_cap_flr_init(pci);
    }
    return true;
}

/* Without fabric= the device makes one that reaches nothing of the host. */
static bool init_fabric(RnicState *s, Error **errp)
{
    if (!s->fabric) {
        s->fabric = rnic_fabric_new_default(errp);
        s->own_fabric = s->fabric;
    }
    return s->fabric;
}

static void cleanup_fabric(RnicState *s)
{
    if (s->own_fabric) {
        object_unref(OBJECT(s->fabric));
        s->fabric = NULL;
        s->own_fabric = false;
    }
}

static void rnic_realize(PCIDevice *pci, Error **errp)
{
    RnicState *s = RNIC(pci);

    if (!check_config(&s->config, errp) || !init_fabric(s, errp)) {
        return;
    }
    if (!rnic_workers_create(s, errp)) {
        rnic_workers_destroy(s);
        cleanup_fabric(s);
        return;
    }
    qemu_macaddr_default_if_unset(&s->nic_conf.macaddr);
    init_tables(s);
    if (!init_pci(s, errp)) {
        cleanup_tables(s);
        rnic_workers_destroy(s);
        cleanup_fabric(s);
        return;
    }
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

static void rnic_config_write(PCIDevice *pci, uint32_t address, uint32_t val,
                              int len)
{
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
    DEFINE_PROP_INT32("io-threads", RnicState, config.io_threads,
                      RNIC_IO_THREADS_AUTO),
    DEFINE_PROP_UINT32("event-hold-us", RnicState, config.event_hold_us, 1000),
    DEFINE_PROP_UINT32("busy-poll-us", RnicState, config.busy_poll_us, 60),
    DEFINE_PROP_UINT32("vectors", RnicState, config.vectors, 8),
    DEFINE_PROP_UINT32("doorbell-pages", RnicState, config.doorbell_pages,
                       1024),
    DEFINE_PROP_UINT32("max-qp", RnicState, config.max_qp, 16384),
    DEFINE_PROP_UINT32("max-cq", RnicState, config.max_cq, 32768),
    DEFINE_PROP_UINT32("max-srq", RnicState, config.max_srq, 16384),
    DEFINE_PROP_UINT32("max-eq", RnicState, config.max_eq, 256),
    DEFINE_PROP_UINT32("max-pd", RnicState, config.max_pd, 16384),
    DEFINE_PROP_UINT32("max-mr", RnicState, config.max_mr, 262144),
    DEFINE_PROP_UINT64("max-mr-pages", RnicState, config.max_mr_pages,
                       64 * MiB),
    DEFINE_PROP_UINT32("max-queue-pages", RnicState, config.max_queue_pages,
                       8 * MiB),
    DEFINE_PROP_UINT32("max-listeners", RnicState, config.max_listeners,
                       1024),
    DEFINE_PROP_UINT32("max-endpoints", RnicState, config.max_endpoints,
                       4096),
    DEFINE_PROP_UINT16("max-ird", RnicState, config.max_ird, 128),
    DEFINE_PROP_UINT16("max-ord", RnicState, config.max_ord, 128),
    DEFINE_PROP_UINT8("mpa-revision", RnicState, config.mpa_revision, 2),
    DEFINE_PROP_BOOL("mpa-crc", RnicState, config.mpa_crc, false),
    DEFINE_PROP_BOOL("mpa-markers", RnicState, config.mpa_markers, false),
    DEFINE_PROP_BOOL("mpa-rtr", RnicState, config.mpa_rtr, true),
    DEFINE_PROP_UINT32("mulpdu", RnicState, config.mulpdu, IWARP_MULPDU_MAX),
};

/* One for each of rnic_properties, and for those of DEFINE_NIC_PROPERTIES. */
static const struct {
    const char *property;
    const char *text;
} rnic_descriptions[] = {
    { "mac", "MAC address of the Ethernet function, such as "
             "52:54:00:12:34:56 (default: QEMU chooses)" },
    { "netdev", "id of the netdev behind the Ethernet function (default: "
                "none, no Ethernet)" },
    { "fabric", "id of the rnic-fabric-... object that carries the RDMA "
                "streams (default: UNIX sockets in the user's own directory)" },
    { "iothread", "id of the iothread object that moves the data, instead of "
                  "io-threads (default: none)" },
    { "io-threads", "threads of the device's own that move the data, 0 to 64; "
                    "0: QEMU's main loop does; -1: one, unless iothread is "
                    "given" },
    { "event-hold-us", "longest time in microseconds that a completion event "
                       "waits for more to report, 0 to 100000; 0: none" },
    { "busy-poll-us", "longest time in microseconds that a thread of "
                      "io-threads polls for the answer to a small message "
                      "before it sleeps, 0 to 100000" },
    { "vectors", "MSI-X vectors, 1 to 2048" },
    { "doorbell-pages", "pages of BAR 2, 2 to 32768, a power of two; one for "
                        "each user context" },
    { "max-qp", "queue pairs, 1 to 16777215" },
    { "max-cq", "completion queues, 1 to 16777215" },
    { "max-srq", "shared receive queues, 1 to 16777215" },
    { "max-eq", "event queues, 1 to 65536" },
    { "max-pd", "protection domains, 1 to 16777215" },
    { "max-mr", "STags: memory regions and windows, 1 to 16777215" },
    { "max-mr-pages", "entries in the page lists of all memory regions "
                      "together, 1 to 2^32" },
    { "max-queue-pages", "entries in the page lists of all queues "
                         "together, 8 octets each (8388608)" },
    { "max-listeners", "listening endpoints, 1 to 65536" },
    { "max-endpoints", "connections in set-up each way, 1 to 65536" },
    { "max-ird", "RDMA Reads that the peer of a queue pair may have "
                 "outstanding, 1 to 1024" },
    { "max-ord", "RDMA Reads that a queue pair may have outstanding, "
                 "1 to 1024" },
    { "mpa-revision", "highest MPA revision in use, 1 or 2" },
    { "mpa-crc", "insist on CRC32C; without, it is used if the peer insists" },
    { "mpa-markers", "ask the peer to send markers" },
    { "mpa-rtr", "offer the peer-to-peer start-up of RFC 6581; needs "
                 "mpa-revision=2" },
    { "mulpdu", "octets of the largest DDP segment sent, 128 to 64768" },
};

static void rnic_describe(ObjectClass *oc)
{
    for (int i = 0; i < ARRAY_SIZE(rnic_descriptions); i++) {
        object_class_property_set_description(oc, rnic_descriptions[i].property,
                                              rnic_descriptions[i].text);
    }
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
}

static void rnic_class_init(ObjectClass *oc, RNIC_CLASS_DATA *data)
{
    DeviceClass *dc = DEVICE_CLASS(oc);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(oc);
    ResettableClass *rc = RESETTABLE_CLASS(oc);

    pc->realize = rnic_realize;
    pc->exit = rnic_exit;
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
}

static const TypeInfo rnic_type = {
    .name = TYPE_RNIC,
    .parent = TYPE_PCI_DEVICE,
    .instance_size = sizeof(RnicState),
    .instance_init = rnic_instance_init,
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
