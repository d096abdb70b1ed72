/*
 * A small driver of the rnic device over libqtest
 *
 * It is written from docs/rnic.rst and rnic-hw.h alone: what the device does
 * is the tests' business, how one talks to it is here. Values are in host
 * order in every function; only the structures of rnic-hw.h are little-endian.
 *
 * A function that waits gives up, and fails the test, after a time that is
 * long for any machine. Helpers without "try" in their name also fail the test
 * when a command they give is refused.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef RNIC_QTEST_LIBRNIC_H
#define RNIC_QTEST_LIBRNIC_H

#include "tests/qtest/libqtest.h"
#include "tests/qtest/libqos/pci.h"
#include "hw/rnic/rnic-hw.h"

#define RNIC_TEST_SLOT 4
#define RNIC_TEST_PAGE 4096
#define RNIC_TEST_VECTORS 8

typedef struct RnicEq {
    uint32_t number;
    uint32_t depth;
    uint32_t index;         /* of the next event */
    uint32_t entry_size;
    uint32_t vector;
    uint64_t memory;        /* record; the ring follows it */
} RnicEq;

typedef struct RnicCq {
    uint32_t number;
    uint32_t depth;
    uint32_t index;         /* of the next CQE */
    uint32_t doorbell_page;
    uint64_t memory;
} RnicCq;

typedef struct RnicSrq {
    uint32_t number;
    uint32_t depth;         /* WQEs */
    uint32_t shift;
    uint32_t doorbell_page;
    uint32_t producer;
    uint64_t memory;
} RnicSrq;

typedef struct RnicQp {
    uint32_t number;
    uint32_t sq_depth;      /* units */
    uint32_t rq_depth;      /* WQEs */
    uint32_t rq_shift;
    uint32_t doorbell_page;
    uint32_t sq_producer;
    uint32_t rq_producer;
    uint64_t memory;
    uint32_t sq_offset;
    uint32_t rq_offset;
    RnicCq *send_cq;
    RnicCq *recv_cq;
} RnicQp;

/* A registered buffer. Its tagged offsets differ from its bus addresses. */
typedef struct RnicMr {
    uint32_t stag;
    uint32_t length;
    uint64_t va;
    uint64_t bus;
} RnicMr;

typedef struct RnicObjects RnicObjects;

typedef struct Rnic {
    QTestState *qts;
    QPCIBus *pci;
    QPCIDevice *dev;
    QPCIBar registers;
    QPCIBar doorbells;
    uint64_t doorbells_size;
    uint64_t next_free;     /* guest memory, allocated upwards */
    uint64_t scratch;       /* a page for the answers of queries */

    uint64_t msi;           /* where the vectors write to; 0 without MSI-X */

    uint64_t admin_sq;
    uint64_t admin_cq;
    uint32_t admin_depth;
    uint32_t admin_tail;
    uint32_t admin_head;
    uint8_t tos;                /* of the next listener or connect */
    uint32_t admin_unanswered;  /* commands whose answers the test lets be lost;
                                 * less one for each that comes twice */
    uint16_t command_id;
    RnicObjects *objects;

    /* Made by rnic_up() */
    RnicEq async_eq;
    RnicEq cm_eq;
    RnicEq comp_eq;
    uint32_t pd;
} Rnic;

/* ------------------------------------------------ the machine, registers */

/*
 * Boot a q35 machine with "-device rnic" and the properties given (none: "" or
 * ",name=value..."); @arguments are other options of QEMU. Finds the device and
 * maps its BARs, no more. RNIC_TEST_PROPERTIES in the environment has
 * properties for every device so made, of the same form; the test's come after.
 * The device's fabric is "wire", that of the wire peer (see wire-peer.h), unless
 * the properties name another one.
 */
Rnic *rnic_boot(const char *properties, const char *arguments);

/* The same without a fabric object: the device uses its default. */
Rnic *rnic_boot_bare(const char *properties, const char *arguments);

/* Another adapter of the machine of @r, at @slot; BARs mapped, no more. */
Rnic *rnic_sibling(Rnic *r, unsigned slot);
/* Takes away all objects of the sibling; its machine goes on. */
void rnic_sibling_free(Rnic *sibling);

/*
 * Takes away all objects and ends QEMU. Fails the test if the device has any
 * object left, or if QEMU does not exit as it should.
 */
void rnic_quit(Rnic *r);

/* Fails the test unless QEMU answers on its monitor. */
void rnic_assert_alive(Rnic *r);

uint32_t rnic_read32(Rnic *r, uint32_t offset);
uint64_t rnic_read64(Rnic *r, uint32_t offset);
void rnic_write32(Rnic *r, uint32_t offset, uint32_t value);
void rnic_write64(Rnic *r, uint32_t offset, uint64_t value);
void rnic_doorbell(Rnic *r, uint32_t page, uint32_t offset, uint32_t value);

/* CONTROL.RESET; forgets all objects. */
void rnic_reset(Rnic *r);

/* Function Level Reset; forgets all objects. */
void rnic_flr(Rnic *r);

/* Reset of the whole machine; maps the BARs again, forgets all objects. */
void rnic_bus_reset(Rnic *r);

/* Offset of the PCI Express capability, 0 without. */
uint8_t rnic_pcie_capability(Rnic *r);

/* ------------------------------------------------------------ guest memory */

/* Zeroed, page aligned. */
uint64_t rnic_alloc(Rnic *r, size_t size);
void rnic_mem_write(Rnic *r, uint64_t bus, const void *data, size_t size);
void rnic_mem_read(Rnic *r, uint64_t bus, void *data, size_t size);
void rnic_mem_fill(Rnic *r, uint64_t bus, uint8_t octet, size_t size);
uint32_t rnic_mem_read32(Rnic *r, uint64_t bus);
void rnic_mem_write32(Rnic *r, uint64_t bus, uint32_t value);

/* An address that no RAM answers to. */
#define RNIC_TEST_NOWHERE 0x0000400000000000ULL

/* Octets that differ in every place, by @seed. */
void rnic_pattern(void *data, size_t size, uint32_t seed);

/* Page list of @size octets at @bus, which are contiguous. */
struct rnic_page_list rnic_pages(Rnic *r, uint64_t bus, uint64_t size);

/*
 * Page list that takes the device a while to read: @chunks of 512 pages, one chunk
 * again and again. With @bad_end the last entry of the last chunk is not aligned.
 */
struct rnic_page_list rnic_long_list(Rnic *r, uint32_t chunks, bool bad_end);

/* ----------------------------------------------------------------- waiting */

typedef struct RnicWait {
    Rnic *r;
    gint64 deadline;
    unsigned rounds;
} RnicWait;

RnicWait rnic_wait_begin(Rnic *r);
void rnic_wait_step(RnicWait *wait, const char *what, const char *file,
                    int line);

#define RNIC_UNTIL(r, condition)                                        \
    do {                                                                \
        RnicWait until_ = rnic_wait_begin(r);                           \
        while (!(condition)) {                                          \
            rnic_wait_step(&until_, #condition, __FILE__, __LINE__);    \
        }                                                               \
    } while (0)

/* Time for the device to do what it should not do. */
void rnic_settle(Rnic *r);
/* A moment; gives no command. */
void rnic_settle_fast(Rnic *r);

/* Let @seconds pass on the guest's clock. */
void rnic_pass_time(Rnic *r, unsigned seconds);

/* -------------------------------------------------------------- interrupts */

/* Enable MSI-X, every vector unmasked. */
void rnic_msix_enable(Rnic *r);
void rnic_msix_mask(Rnic *r, unsigned vector, bool masked);

/* Whether the vector fired since this was last asked. */
bool rnic_msix_fired(Rnic *r, unsigned vector);

/* ------------------------------------------------------------- admin queue */

/* Rings of @depth entries, ENABLE. @features are those to accept. */
void rnic_enable(Rnic *r, uint32_t depth, uint32_t vector, uint64_t features);

/* Put a command into its slot; it is given with the next ADMIN_TAIL. */
void rnic_admin_fill(Rnic *r, struct rnic_admin_sqe *sqe);
void rnic_admin_tail(Rnic *r);

/* The next completion if it is there. */
bool rnic_admin_try_completion(Rnic *r, struct rnic_admin_cqe *cqe);

/* The next completion, waited for. */
void rnic_admin_completion(Rnic *r, struct rnic_admin_cqe *cqe);

/*
 * Give one command and wait for its completion. Sets sqe->command_id.
 * Returns its status; @cqe may be NULL.
 */
uint16_t rnic_admin(Rnic *r, struct rnic_admin_sqe *sqe,
                    struct rnic_admin_cqe *cqe);

/*
 * Give @count commands, a ringful at a time, and wait for all of them; for tests
 * in which there are too many to be given one by one. Sets @cqe[i] for @sqe[i].
 */
void rnic_admin_many(Rnic *r, struct rnic_admin_sqe *sqe, unsigned count,
                     struct rnic_admin_cqe *cqe);

/* Registrations have the Remote Access Flag; all else is zero. */
struct rnic_admin_sqe rnic_command(uint16_t opcode);

/* A command whose argument is struct object. */
uint16_t rnic_admin_object(Rnic *r, uint16_t opcode, uint32_t number);

/* A query whose answer is bulk data. */
uint16_t rnic_admin_query(Rnic *r, uint16_t opcode, uint32_t number,
                          void *answer, uint32_t size);

struct rnic_device_attr rnic_query_device(Rnic *r);
struct rnic_counters rnic_query_counters(Rnic *r);
uint64_t rnic_features(Rnic *r);

/* ----------------------------------------------------------------- objects */

/*
 * RESET, ENABLE with all features, an event queue of each class (the
 * asynchronous and connection ones on vector 0, completions on vector 1), a
 * PD.
 */
void rnic_up(Rnic *r);
/* The same, with these features accepted. */
void rnic_up_with(Rnic *r, uint64_t features);

/* rnic_boot() and rnic_up() */
Rnic *rnic_boot_up(const char *properties);

void rnic_create_eq(Rnic *r, RnicEq *eq, uint8_t eq_class, uint32_t vector,
                    uint32_t depth);
uint32_t rnic_alloc_pd(Rnic *r);

/* @eqn may be RNIC_NO_VECTOR. */
void rnic_create_cq(Rnic *r, RnicCq *cq, uint32_t depth, uint32_t eqn);

/* How to make a QP. rnic_qp_default() fills in what suits most tests. */
typedef struct RnicQpInit {
    uint32_t pd;
    RnicCq *send_cq;
    RnicCq *recv_cq;
    uint32_t sq_depth;
    uint32_t rq_depth;
    uint32_t doorbell_page;
    uint16_t ird;
    uint16_t ord;
    uint8_t rq_shift;
    uint8_t max_sge;
    uint32_t enables;
    const RnicSrq *srq;     /* NULL: none; else nothing of the RQ counts */
    uint32_t rq_limit;
} RnicQpInit;

/*
 * Have CQ @cq go on in a new ring of @depth; @earlier as in the command.
 * Returns the status.  If it is OK, *@cq is the new ring, and *@before the one
 * until now, which has CQEs up to *@end.
 */
uint16_t rnic_try_resize_cq(Rnic *r, RnicCq *cq, uint32_t depth,
                            uint32_t earlier, RnicCq *before, uint32_t *end);
struct rnic_admin_sqe rnic_resize_command(Rnic *r, const RnicCq *cq,
                                          uint32_t depth, uint64_t memory);

RnicQpInit rnic_qp_default(Rnic *r, RnicCq *send_cq, RnicCq *recv_cq);
struct rnic_admin_sqe rnic_qp_command(Rnic *r, const RnicQpInit *init,
                                      RnicQp *qp);
void rnic_create_qp(Rnic *r, RnicQp *qp, const RnicQpInit *init);

typedef struct RnicSrqInit {
    uint32_t pd;
    uint32_t depth;
    uint32_t limit;
    uint32_t doorbell_page;
    uint8_t shift;
    uint8_t max_sge;
} RnicSrqInit;

RnicSrqInit rnic_srq_default(Rnic *r);
struct rnic_admin_sqe rnic_srq_command(Rnic *r, const RnicSrqInit *init,
                                       RnicSrq *srq);
void rnic_create_srq(Rnic *r, RnicSrq *srq, const RnicSrqInit *init);
struct rnic_admin_cqe rnic_query_srq(Rnic *r, const RnicSrq *srq);
uint16_t rnic_modify_srq_limit(Rnic *r, const RnicSrq *srq, uint32_t limit);

uint16_t rnic_modify_qp_state(Rnic *r, const RnicQp *qp, uint8_t state);
uint16_t rnic_modify_qp_enables(Rnic *r, const RnicQp *qp, uint32_t enables);
struct rnic_qp_attr rnic_query_qp(Rnic *r, const RnicQp *qp);
uint8_t rnic_qp_state(Rnic *r, const RnicQp *qp);
void rnic_wait_qp_state(Rnic *r, const RnicQp *qp, uint8_t state);

/* A buffer of @length octets, registered. */
void rnic_create_mr(Rnic *r, RnicMr *mr, uint32_t pd, uint32_t length,
                    uint32_t access);
#define RNIC_TEST_ACCESS_ALL (RNIC_ACCESS_LOCAL_READ |                  \
                              RNIC_ACCESS_LOCAL_WRITE |                 \
                              RNIC_ACCESS_REMOTE_READ |                 \
                              RNIC_ACCESS_REMOTE_WRITE)

struct rnic_sge rnic_sge(const RnicMr *mr, uint64_t offset, uint32_t length);

/* ------------------------------------------------------------------ events */

bool rnic_eq_poll(Rnic *r, RnicEq *eq, void *event);
void rnic_eq_wait(Rnic *r, RnicEq *eq, void *event);

/* Fails the test unless the next asynchronous event is this one. */
struct rnic_aeqe rnic_expect_async(Rnic *r, uint16_t event, uint32_t number);
/* Fails the test if there is an asynchronous event. */
void rnic_expect_no_async(Rnic *r);

struct rnic_cm_event rnic_expect_cm(Rnic *r, uint8_t type);
void rnic_expect_no_cm(Rnic *r);

/* ------------------------------------------------- posting and completions */

typedef struct RnicWr {
    uint8_t opcode;
    uint8_t flags;
    uint8_t num_sge;
    uint64_t wr_id;
    uint64_t remote_to;
    uint32_t remote_stag;
    uint32_t invalidate_stag;
    const char *immediate;      /* 4 octets; NULL: invalidate_stag */
    uint64_t add_swap, compare; /* of the atomic opcodes */
    struct rnic_sge sge[RNIC_MAX_SGE];
    const void *inline_data;    /* with RNIC_WQE_INLINE */
    uint32_t inline_length;
} RnicWr;

/* Encode to @wqe (RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS octets); returns units. */
uint32_t rnic_encode_wr(const RnicWr *wr, uint8_t *wqe);

/* Store a WQE without moving the producer index in memory. */
void rnic_store_wqe(Rnic *r, RnicQp *qp, const void *wqe, uint32_t units);
/* Move the producer index and ring, always. */
void rnic_ring_sq(Rnic *r, RnicQp *qp);
void rnic_ring_rq(Rnic *r, RnicQp *qp);

void rnic_post_send(Rnic *r, RnicQp *qp, const RnicWr *wr);
void rnic_store_recv(Rnic *r, RnicQp *qp, uint64_t wr_id, unsigned num_sge,
                     const struct rnic_sge *sge);
void rnic_post_recv(Rnic *r, RnicQp *qp, uint64_t wr_id, unsigned num_sge,
                    const struct rnic_sge *sge);

/* Store a WQE; the producer index in memory does not move. */
void rnic_store_srq_recv(Rnic *r, RnicSrq *srq, uint64_t wr_id,
                         unsigned num_sge, const struct rnic_sge *sge);
/* Move it. There is no need to ring. */
void rnic_publish_srq(Rnic *r, const RnicSrq *srq);
void rnic_post_srq_recv(Rnic *r, RnicSrq *srq, uint64_t wr_id,
                        unsigned num_sge, const struct rnic_sge *sge);

bool rnic_cq_poll(Rnic *r, RnicCq *cq, struct rnic_cqe *cqe);
void rnic_cq_wait(Rnic *r, RnicCq *cq, struct rnic_cqe *cqe);
void rnic_cq_arm(Rnic *r, const RnicCq *cq, uint32_t how);

/* Fails the test unless the next CQE is this. Returns it. */
struct rnic_cqe rnic_expect_cqe(Rnic *r, RnicCq *cq, uint64_t wr_id,
                                uint8_t status);
void rnic_expect_no_cqe(Rnic *r, RnicCq *cq);

/* -------------------------------------------------------------- connecting */

struct rnic_cm_addr rnic_addr(uint32_t ip, uint16_t port);

uint16_t rnic_try_connect(Rnic *r, const RnicQp *qp, uint32_t ip,
                          uint16_t port, uint16_t ird, uint16_t ord,
                          uint64_t cookie, const void *data, uint32_t length);
uint16_t rnic_try_listen(Rnic *r, uint32_t ip, uint16_t port, uint64_t cookie,
                         uint32_t *listener);
uint16_t rnic_try_accept(Rnic *r, uint32_t endpoint, const RnicQp *qp,
                         uint16_t ird, uint16_t ord, uint64_t cookie,
                         const void *data, uint32_t length);
uint16_t rnic_try_reject(Rnic *r, uint32_t endpoint, const void *data,
                         uint32_t length);

/* --------------------------------------------------------------- reporting */

/* The requirements a test has shown; to be said when it has succeeded. */
void rnic_shows(const char *ids);

#endif
