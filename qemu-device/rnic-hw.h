/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The guest-visible hardware interface of the rnic device: the datasheet in C.
 *
 * Included unchanged by the QEMU device, the guest kernel driver, the
 * rdma-core provider and the qtests.  docs/rnic.rst is the programming manual
 * that goes with it.  Layouts are append-only within one major ABI version;
 * a reserved field is written as zero by the guest and refused otherwise.
 *
 * Every multi-byte field in guest memory and every register is little-endian.
 * Network addresses and ports are in network byte order, as on the wire.
 * All layouts are naturally aligned, have no bit-fields and no padding.
 *
 * This header must stay free of helpers of any of the trees that include it.
 */
#ifndef RNIC_HW_H
#define RNIC_HW_H

#if defined(__linux__) || defined(__KERNEL__)
#include <linux/types.h>
#else
#include <stdint.h>
typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint64_t __u64;
typedef uint16_t __le16;
typedef uint32_t __le32;
typedef uint64_t __le64;
typedef uint16_t __be16;
#endif

#define RNIC_ASSERT_SIZE(type, size) \
	_Static_assert(sizeof(type) == (size), #type " must be " #size " bytes")

/* ------------------------------------------------------------------ PCI */

#define RNIC_PCI_VENDOR_ID	0x1af4	/* experimental range of QEMU's vendor id */
#define RNIC_PCI_DEVICE_ID	0x10f0
#define RNIC_PCI_REVISION	1

#define RNIC_BAR_REGISTERS	0	/* 32-bit memory, RNIC_REGISTERS_SIZE */
#define RNIC_BAR_DOORBELLS	2	/* 64-bit prefetchable memory */
#define RNIC_BAR_MSIX		4	/* MSI-X table and pending bits */

#define RNIC_REGISTERS_SIZE	4096
/* One doorbell page per user context; page 0 belongs to the kernel driver. */
#define RNIC_DOORBELL_PAGE_SIZE	4096

/*
 * ---------------------------------------------------------------- BAR 0
 *
 * Access rule: 4-byte registers take one aligned 4-byte access; 8-byte
 * registers take one aligned 8-byte access or two aligned 4-byte accesses
 * (low half first; a write takes effect with the high half).  Any other
 * access, and any access to a hole, reads as zero, writes nothing, and is
 * counted in RNIC_REG_BAD_ACCESSES.  RO = read only, WO = write only (reads
 * as zero), RW = read and write.
 */
#define RNIC_REG_MAGIC		0x000	/* RO 4: RNIC_MAGIC */
#define RNIC_REG_ABI_VERSION	0x004	/* RO 4: major << 16 | minor */
#define RNIC_REG_HW_VERSION	0x008	/* RO 4: version of the device model */
#define RNIC_REG_LIMITS		0x00c	/* RO 4: RNIC_LIMITS_* */
#define RNIC_REG_FEATURES	0x010	/* RO 8: RNIC_FEATURE_* offered */
#define RNIC_REG_DRIVER_FEATURES 0x018	/* RW 8: accepted; before ENABLE only */
#define RNIC_REG_CONTROL	0x020	/* RW 4: RNIC_CONTROL_* */
#define RNIC_REG_STATUS		0x024	/* RO 4: RNIC_STATUS_* */
#define RNIC_REG_HEALTH		0x028	/* RO 4: RNIC_HEALTH_*, why FATAL is set */
#define RNIC_REG_LINK		0x02c	/* RO 4: bit 0 link up; 31:8 speed, Mb/s */
#define RNIC_REG_MAC		0x030	/* RO 8: octet i of the MAC in bits 8i+7:8i */
#define RNIC_REG_BAD_ACCESSES	0x038	/* RO 4: accesses against the access rule */
#define RNIC_REG_BAD_DOORBELLS	0x03c	/* RO 4: doorbells dropped, see BAR 2 */

#define RNIC_REG_ADMIN_SQ_BASE	0x040	/* RW 8: 128-byte aligned bus address */
#define RNIC_REG_ADMIN_CQ_BASE	0x048	/* RW 8: 64-byte aligned bus address */
#define RNIC_REG_ADMIN_DEPTH	0x050	/* RW 4: entries, power of two, 2..1024 */
#define RNIC_REG_ADMIN_VECTOR	0x054	/* RW 4: MSI-X vector, or RNIC_NO_VECTOR */
#define RNIC_REG_ADMIN_TAIL	0x058	/* RW 4: free-running producer index */
#define RNIC_REG_ADMIN_HEAD	0x05c	/* RW 4: free-running index of CQEs consumed */

#define RNIC_REG_EQ_KICK	0x060	/* WO 4: eqn; consumer index has moved */
#define RNIC_REG_ETH_KICK	0x064	/* WO 4: RNIC_ETH_QUEUE_*; producer moved */
#define RNIC_REG_ETH_ARM	0x068	/* WO 4: RNIC_ETH_QUEUE_*; want interrupt */

/* Test registers: prove MMIO, interrupts and DMA before any protocol. */
#define RNIC_REG_TEST32		0x080	/* RW 4: reads back 2 * value written */
#define RNIC_REG_TEST64		0x088	/* RW 8: reads back 2 * value written */
#define RNIC_REG_TEST_IRQ	0x090	/* WO 4: raise this MSI-X vector */
#define RNIC_REG_TEST_DMA_STATUS 0x094	/* RO 4: RNIC_TEST_DMA_* result */
#define RNIC_REG_TEST_DMA_ADDR	0x098	/* RW 8: bus address */
#define RNIC_REG_TEST_DMA_SIZE	0x0a0	/* RW 4: octets, 1..RNIC_TEST_DMA_MAX */
#define RNIC_REG_TEST_DMA_CTRL	0x0a4	/* WO 4: RNIC_TEST_DMA_* operation */

#define RNIC_MAGIC		0x43494e52	/* "RNIC" */
#define RNIC_ABI_MAJOR		1
#define RNIC_ABI_MINOR		5
#define RNIC_ABI_MINOR_TOS	3	/* the first with listen.tos, connect.tos */
#define RNIC_ABI_MINOR_ABILITIES 4	/* the first with device_attr.abilities and
					 * what follows it, shared_mr.mr_flags */
#define RNIC_ABI_MINOR_LLP_STREAM 5	/* the first with RNIC_FEATURE_LLP_STREAM */
#define RNIC_NO_VECTOR		0xffffffff

/* 15:0 MSI-X vectors, 31:16 doorbell pages in BAR 2 */
#define RNIC_LIMITS_VECTORS(v)		((v) & 0xffff)
#define RNIC_LIMITS_DOORBELL_PAGES(v)	((v) >> 16)

/* Features: the driver writes back the subset it uses before ENABLE. */
#define RNIC_FEATURE_ETHERNET		(1ULL << 0)	/* a netdev is attached */
#define RNIC_FEATURE_SRQ		(1ULL << 1)
#define RNIC_FEATURE_MEMORY_WINDOW	(1ULL << 2)
#define RNIC_FEATURE_FAST_REGISTER	(1ULL << 3)
#define RNIC_FEATURE_SHARED_MR		(1ULL << 4)
#define RNIC_FEATURE_BLOCK_LIST		(1ULL << 5)
#define RNIC_FEATURE_RDMAP_EXTENSIONS	(1ULL << 6)	/* RFC 7306 */
#define RNIC_FEATURE_DIRECT_CONNECT	(1ULL << 7)
#define RNIC_FEATURE_LLP_STREAM		(1ULL << 8)	/* streaming mode, V6.6 */
#define RNIC_FEATURE_RESIZE_CQ		(1ULL << 9)
#define RNIC_FEATURE_RESIZE_QP		(1ULL << 10)
#define RNIC_FEATURE_REREGISTER		(1ULL << 11)
#define RNIC_FEATURE_LOCAL_INVALIDATE	(1ULL << 12)
#define RNIC_FEATURE_REMOTE_INVALIDATE	(1ULL << 13)
#define RNIC_FEATURE_READ_INVALIDATE	(1ULL << 14)
#define RNIC_FEATURE_STAG_ZERO		(1ULL << 15)	/* privileged QPs only */
/* Bit 16 is reserved. */
#define RNIC_FEATURE_CQ_MODERATION	(1ULL << 17)
#define RNIC_FEATURE_IGNORE_OVERRUN	(1ULL << 18)	/* RNIC_CQ_IGNORE_OVERRUN */
#define RNIC_FEATURE_TIMESTAMP		(1ULL << 19)	/* RNIC_CQ_TIMESTAMP, clock */
#define RNIC_FEATURE_BIND_WITHOUT_RIGHTS (1ULL << 20)	/* RNIC_QP_BIND_WITHOUT_... */
#define RNIC_FEATURE_PD_WINDOW		(1ULL << 21)	/* alloc_stag.window_of_pd */
#define RNIC_FEATURE_READ_LIST		(1ULL << 22)	/* RNIC_QP_READ_LIST */
#define RNIC_FEATURE_UNICAST_LIST	(1ULL << 23)	/* RNIC_RX_LISTED_ONLY */

#define RNIC_CONTROL_ENABLE	(1u << 0)	/* 0 to 1 starts the admin queue */
#define RNIC_CONTROL_RESET	(1u << 1)	/* self-clearing function reset */

#define RNIC_STATUS_ENABLED	(1u << 0)
#define RNIC_STATUS_FATAL	(1u << 1)	/* only RESET helps; see HEALTH */

enum rnic_health {
	RNIC_HEALTH_OK = 0,
	RNIC_HEALTH_BAD_ADMIN_SETUP = 1, /* ENABLE with a bad base, depth, vector */
	RNIC_HEALTH_BAD_FEATURES = 2,	/* ENABLE with a feature never offered */
	RNIC_HEALTH_ADMIN_SQ_DMA = 3,	/* could not read an admin SQE */
	RNIC_HEALTH_ADMIN_CQ_DMA = 4,	/* could not write an admin CQE */
	RNIC_HEALTH_ADMIN_TAIL = 5,	/* more entries posted than the depth */
	RNIC_HEALTH_EQ_DMA = 6,		/* could not write an event */
	RNIC_HEALTH_FAULT = 7,		/* a test asked for it (x-fault) */
};

/* RNIC_REG_TEST_DMA_CTRL operations */
#define RNIC_TEST_DMA_CLEAR	1	/* fill the area with zero */
#define RNIC_TEST_DMA_FILL	2	/* fill the area with 0x96 */
#define RNIC_TEST_DMA_INVERT	3	/* read, invert every bit, write back */
#define RNIC_TEST_DMA_MAX	65536
/* RNIC_REG_TEST_DMA_STATUS values */
#define RNIC_TEST_DMA_IDLE	0
#define RNIC_TEST_DMA_DONE	1
#define RNIC_TEST_DMA_BAD_SIZE	2
#define RNIC_TEST_DMA_BAD_OP	3
#define RNIC_TEST_DMA_FAULT	4

/*
 * ---------------------------------------------------------------- BAR 2
 *
 * Doorbells: aligned 4-byte writes; reads return zero.  Doorbell page n
 * occupies octets n * RNIC_DOORBELL_PAGE_SIZE up.  The object named must have
 * been created with doorbell_page = n, or the write is dropped and counted in
 * RNIC_REG_BAD_DOORBELLS.  A doorbell carries no index: producer indices are
 * in the queue's record (see below).
 */
#define RNIC_DB_SQ		0x00	/* QP number */
#define RNIC_DB_RQ		0x04	/* QP number */
#define RNIC_DB_SRQ		0x08	/* S-RQ number */
#define RNIC_DB_CQ_ARM		0x0c	/* CQ number | RNIC_ARM_* */
/* 0x10 is reserved. */
/*
 * With RNIC_FEATURE_TIMESTAMP, read only: the device's clock, an aligned 8-byte
 * read.  Any other access is against the rule above.
 */
#define RNIC_DB_CLOCK		0x18

#define RNIC_OBJECT_NUMBER_MASK	0x00ffffff	/* all object numbers: 24 bits */
#define RNIC_ARM_NEXT		(1u << 30)	/* V8.2.5-8 next completion */
#define RNIC_ARM_SOLICITED	(1u << 31)	/* V8.2.5-8 next solicited or error */

/*
 * --------------------------------------------------------- page lists
 *
 * How a buffer in guest memory is described.  Entries are __le64 bus
 * addresses aligned to 1 << page_shift.
 */
#define RNIC_PAGE_LIST_INLINE	0	/* count is 1, addr is the page itself */
#define RNIC_PAGE_LIST_DIRECT	1	/* addr: array of count entries */
#define RNIC_PAGE_LIST_INDIRECT	2	/* addr: array of addresses of chunks, each
					 * RNIC_PAGE_CHUNK octets of entries */
#define RNIC_PAGE_CHUNK		4096
#define RNIC_PAGE_CHUNK_ENTRIES	(RNIC_PAGE_CHUNK / 8)

struct rnic_page_list {
	__le64 addr;		/* 8-byte aligned bus address */
	__le32 count;		/* pages, at least 1 */
	__u8 level;		/* RNIC_PAGE_LIST_* */
	__u8 page_shift;	/* 12..63; queues take 12..30 */
	__le16 reserved;
};
RNIC_ASSERT_SIZE(struct rnic_page_list, 16);

/*
 * ------------------------------------------------------ queue memory
 *
 * A queue's memory begins with its record; the rings follow at the offsets
 * given when the queue is created (multiples of 64, at least
 * RNIC_QUEUE_RECORD_SIZE).  All indices run freely modulo 2^32; ring slots
 * are index modulo depth, depth being a power of two.
 *
 * Doorbell rule for sq and rq (as virtio's event index): having stored a new
 * producer index, a full memory barrier, then read *_event: the doorbell is
 * owed if (__u32)(new - event - 1) < (__u32)(new - old).  The device looks at
 * the producer index by itself until it has published event = index seen.
 */
#define RNIC_QUEUE_RECORD_SIZE	128

struct rnic_qp_record {
	/* written by the guest */
	__le32 sq_producer;	/* in 64-byte units */
	__le32 rq_producer;	/* in RQ WQEs */
	__le32 guest_reserved[14];
	/* written by the device */
	__le32 sq_event;
	__le32 rq_event;
	__le32 device_reserved[14];
};
RNIC_ASSERT_SIZE(struct rnic_qp_record, RNIC_QUEUE_RECORD_SIZE);

/*
 * An S-RQ owes no doorbell: the device reads producer whenever a message needs
 * a WQE and it knows of none.  WQEs are taken in ring order; a slot is free
 * once its WQE was taken, and the receive CQE tells when that WR is done.
 */
struct rnic_srq_record {
	__le32 producer;	/* guest: in WQEs */
	__le32 guest_reserved[15];
	__le32 event;		/* device: always zero */
	__le32 consumer;	/* device: WQEs taken */
	__le32 device_reserved[14];
};
RNIC_ASSERT_SIZE(struct rnic_srq_record, RNIC_QUEUE_RECORD_SIZE);

struct rnic_cq_record {
	__le32 consumer;	/* guest: CQEs returned to the consumer */
	__le32 guest_reserved[15];
	__le32 device_reserved[16];
};
RNIC_ASSERT_SIZE(struct rnic_cq_record, RNIC_QUEUE_RECORD_SIZE);

/*
 * The driver stores consumer = index + 1 BEFORE it acts on event number
 * index: the device suppresses a completion event while an earlier one of the
 * same CQ is not consumed.
 */
struct rnic_eq_record {
	__le32 consumer;	/* guest */
	__le32 guest_reserved[15];
	__le32 device_reserved[16];
};
RNIC_ASSERT_SIZE(struct rnic_eq_record, RNIC_QUEUE_RECORD_SIZE);

/* -------------------------------------------------------- send queue */

#define RNIC_SQ_UNIT		64	/* octets; WQEs take 1..RNIC_SQ_MAX_UNITS */
#define RNIC_SQ_MAX_UNITS	8
#define RNIC_MAX_SGE		16	/* Send types, RDMA Write, Receive */
#define RNIC_MAX_READ_SGE	RNIC_MAX_SGE	/* with RNIC_QP_READ_LIST; else 1 */
#define RNIC_MAX_INLINE		(RNIC_SQ_UNIT * RNIC_SQ_MAX_UNITS - 32)
#define RNIC_SQ_MAX_DEPTH	(1u << 18)	/* units */
#define RNIC_RQ_MAX_DEPTH	(1u << 16)	/* WQEs */
#define RNIC_SRQ_MAX_DEPTH	(1u << 16)	/* WQEs */
#define RNIC_CQ_MAX_DEPTH	(1u << 20)
#define RNIC_EQ_MAX_DEPTH	(1u << 20)

enum rnic_sq_opcode {
	RNIC_SQ_SEND = 1,		/* RNIC_WQE_SOLICITED makes it SE */
	RNIC_SQ_SEND_INVALIDATE = 2,
	RNIC_SQ_RDMA_WRITE = 3,
	RNIC_SQ_RDMA_READ = 4,
	RNIC_SQ_RDMA_READ_INVALIDATE = 5, /* invalidates the local sink STag */
	RNIC_SQ_BIND_MW = 6,
	RNIC_SQ_FAST_REGISTER = 7,
	RNIC_SQ_LOCAL_INVALIDATE = 8,
	/* RFC 7306, with RNIC_FEATURE_RDMAP_EXTENSIONS */
	RNIC_SQ_SEND_IMMEDIATE = 9,	/* RNIC_WQE_SOLICITED as for a Send */
	RNIC_SQ_WRITE_IMMEDIATE = 10,	/* RNIC_WQE_SOLICITED: of the immediate */
	RNIC_SQ_FETCH_ADD = 11,
	RNIC_SQ_COMPARE_SWAP = 12,
};

/* WQE flags */
#define RNIC_WQE_SIGNALED	(1u << 0)
#define RNIC_WQE_SOLICITED	(1u << 1)	/* Send types */
#define RNIC_WQE_READ_FENCE	(1u << 2)	/* Send types, RDMA Write, atomics */
#define RNIC_WQE_LOCAL_FENCE	(1u << 3)	/* Local Invalidate, Bind */
#define RNIC_WQE_INLINE		(1u << 4)	/* data follows the header */

struct rnic_sge {
	__le64 to;		/* tagged offset; bus address with STag zero */
	__le32 stag;
	__le32 length;
};
RNIC_ASSERT_SIZE(struct rnic_sge, 16);

/*
 * First 32 octets of every SQ WQE.  SGEs follow (a Read's local address is its
 * single SGE, unless the QP has RNIC_QP_READ_LIST); with RNIC_WQE_INLINE
 * data_length octets of data follow instead.
 */
struct rnic_sq_wqe {
	__u8 opcode;		/* enum rnic_sq_opcode */
	__u8 flags;		/* RNIC_WQE_* */
	__u8 num_sge;		/* 0..RNIC_MAX_SGE; 0 with INLINE */
	__u8 units;		/* length of this WQE in RNIC_SQ_UNIT */
	__le32 data_length;	/* INLINE: octets of data; else reserved */
	__le64 wr_id;
	__le64 remote_to;	/* Write, Read, atomics */
	__le32 remote_stag;	/* Write, Read, atomics */
	union {
		__le32 invalidate_stag;	/* Send with Invalidate, Local Invalidate */
		__u8 immediate[4];	/* with immediate: as on the wire */
	};
};
RNIC_ASSERT_SIZE(struct rnic_sq_wqe, 32);

/* Follows struct rnic_sq_wqe in a Bind WQE. */
struct rnic_bind_wqe {
	__le32 mw_stag;		/* index of the window and its new key */
	__le32 mr_stag;
	__le64 va;		/* the MR's VA of the window's first octet */
	__le64 length;
	__u8 access;		/* RNIC_ACCESS_REMOTE_*, RNIC_ACCESS_ZERO_BASED */
	__u8 reserved[7];
};
RNIC_ASSERT_SIZE(struct rnic_bind_wqe, 32);

/* Follows struct rnic_sq_wqe in a Fast-Register WQE. */
struct rnic_fast_register_wqe {
	__le32 stag;		/* index and new key */
	__le32 first_byte_offset;
	__le64 va;
	__le64 length;
	__u8 access;		/* RNIC_ACCESS_* */
	__u8 reserved[7];
	struct rnic_page_list pages;
	__u8 reserved2[16];
};
RNIC_ASSERT_SIZE(struct rnic_fast_register_wqe, 64);

/*
 * Follows struct rnic_sq_wqe in an atomic WQE.  One SGE of 8 octets follows this:
 * where the value before the operation goes.
 */
struct rnic_atomic_wqe {
	__le64 add_swap;	/* what is added, or what is swapped in */
	__le64 compare;		/* Fetch-and-Add: reserved */
};
RNIC_ASSERT_SIZE(struct rnic_atomic_wqe, 16);

/*
 * RQ and S-RQ WQE: stride 1 << rq_wqe_shift, at least
 * 16 + 16 * num_sge rounded up to a power of two.
 */
struct rnic_rq_wqe {
	__le64 wr_id;
	__le32 num_sge;
	__le32 reserved;
	struct rnic_sge sge[];
};
RNIC_ASSERT_SIZE(struct rnic_rq_wqe, 16);
#define RNIC_RQ_MIN_WQE_SHIFT	5
#define RNIC_RQ_MAX_WQE_SHIFT	9

/* -------------------------------------------------- completion queue */

struct rnic_cqe {
	__le64 wr_id;
	__le32 qpn;
	__le32 byte_len;	/* success: octets received or read */
	__le32 wq_consumer;	/* SQ (units) or RQ (WQEs) free up to here;
				 * with RNIC_CQE_SRQ the S-RQ's number */
	__le32 stag;		/* with RNIC_CQE_INVALIDATED */
	/*
	 * With RNIC_CQE_IMMEDIATE the first 4 octets as sent; with status
	 * RNIC_WC_REMOTE_TERMINATION the Terminate code received, 0xLTEE.
	 */
	__le32 imm;
	/* The device stores this word last and at once. */
	__u8 status;		/* enum rnic_wc_status */
	__u8 opcode;		/* SQ: enum rnic_sq_opcode; RQ: 0, or
				 * RNIC_SQ_WRITE_IMMEDIATE: byte_len octets were
				 * written, none of them to the WQE's SGEs */
	__u8 flags;		/* RNIC_CQE_* */
	__u8 reserved;
};
RNIC_ASSERT_SIZE(struct rnic_cqe, 32);

/* A Terminate code: the message is longer than the receive (RFC 5041 7.2). */
#define RNIC_TERMINATE_MESSAGE_TOO_LONG	0x1205

/* Of a CQ created with RNIC_CQ_TIMESTAMP, instead. */
struct rnic_timed_cqe {
	__le64 timestamp;	/* of RNIC_DB_CLOCK, when the CQE was made */
	__le64 reserved[3];
	struct rnic_cqe cqe;
};
RNIC_ASSERT_SIZE(struct rnic_timed_cqe, 64);

/*
 * Valid CQEs of the first pass over the ring have RNIC_CQE_PHASE set, of the
 * second clear, and so on: phase = !(index & depth).  The guest zeroes the
 * ring before Create CQ and Modify CQ.  The indices of a new ring begin at zero.
 */
#define RNIC_CQE_PHASE		(1u << 0)
#define RNIC_CQE_RECEIVE	(1u << 1)
#define RNIC_CQE_SOLICITED	(1u << 2)
#define RNIC_CQE_INVALIDATED	(1u << 3)
#define RNIC_CQE_IMMEDIATE	(1u << 4)
#define RNIC_CQE_SRQ		(1u << 5)	/* the WQE was an S-RQ's */

/* Completion statuses, numbered as in the specification's figure 36. */
enum rnic_wc_status {
	RNIC_WC_SUCCESS = 1,
	RNIC_WC_FLUSHED = 2,
	RNIC_WC_INVALID_WQE = 3,
	RNIC_WC_QP_CATASTROPHIC = 4,
	RNIC_WC_REMOTE_TERMINATION = 5,
	RNIC_WC_INVALID_STAG = 6,
	RNIC_WC_BASE_BOUNDS = 7,
	RNIC_WC_ACCESS_VIOLATION = 8,
	RNIC_WC_INVALID_PD = 9,
	RNIC_WC_WRAP = 10,
	RNIC_WC_INVALIDATE_STAG = 11,
	RNIC_WC_ZERO_READ_RESOURCES = 12,
	RNIC_WC_NOT_PRIVILEGED = 13,
	RNIC_WC_STAG_NOT_INVALID = 14,
	RNIC_WC_INVALID_PAGE_SIZE = 15,
	RNIC_WC_INVALID_PBL_SIZE = 16,
	RNIC_WC_INVALID_PBL_ENTRY = 17,
	RNIC_WC_INVALID_FBO = 18,
	RNIC_WC_INVALID_REGISTER_LENGTH = 19,
	RNIC_WC_INVALID_ACCESS_RIGHTS = 20,
	RNIC_WC_PBL_TOO_LONG = 21,
	RNIC_WC_INVALID_VA = 22,
	RNIC_WC_INVALID_REGION = 23,
	RNIC_WC_INVALID_WINDOW = 24,
	RNIC_WC_INVALID_LENGTH = 25,
	/* not in figure 36: a receive message longer than its SGL (C-3) */
	RNIC_WC_MESSAGE_TOO_LONG = 32,
	/* an operation of a feature that was not accepted (see
	 * RNIC_REG_DRIVER_FEATURES), or that the peer does not take */
	RNIC_WC_UNSUPPORTED = 33,
	/* direct connect: no peer, another PSN than it expects, or it is gone */
	RNIC_WC_RETRY_EXCEEDED = 34,
	/* direct connect: the peer had no receive for a Send, see rnr_retry */
	RNIC_WC_RNR_RETRY_EXCEEDED = 35,
};

/* ------------------------------------------------------ event queues */

enum rnic_eq_class {
	RNIC_EQ_COMPLETION = 0,	/* struct rnic_ceqe */
	RNIC_EQ_ASYNC = 1,	/* struct rnic_aeqe */
	RNIC_EQ_CM = 2,		/* struct rnic_cm_event */
};

/* Event phase bit: as for CQEs, phase = !(index & depth), stored last. */
#define RNIC_EQE_PHASE		(1u << 0)

struct rnic_ceqe {
	__le32 cqn;
	__le32 reserved[2];
	__le32 flags;		/* RNIC_EQE_PHASE */
};
RNIC_ASSERT_SIZE(struct rnic_ceqe, 16);

/* Asynchronous events, numbered as in the specification's figure 37. */
enum rnic_async_event {
	RNIC_AE_LLP_CLOSE_COMPLETE = 1,
	RNIC_AE_TERMINATE_RECEIVED = 2,
	RNIC_AE_LLP_RESET = 3,
	RNIC_AE_LLP_LOST = 4,
	RNIC_AE_LLP_SEGMENT_SIZE = 5,
	RNIC_AE_LLP_CRC = 6,
	RNIC_AE_LLP_BAD_FPDU = 7,
	RNIC_AE_DDP_VERSION = 8,
	RNIC_AE_RDMAP_VERSION = 9,
	RNIC_AE_UNEXPECTED_OPCODE = 10,
	RNIC_AE_INVALID_QUEUE_NUMBER = 11,
	RNIC_AE_READ_NOT_ENABLED = 12,
	RNIC_AE_WRITE_NOT_ENABLED = 13,
	RNIC_AE_BAD_READ_REQUEST = 14,
	RNIC_AE_NO_LAST_BIT = 15,
	RNIC_AE_TAGGED_INVALID_STAG = 16,
	RNIC_AE_TAGGED_BASE_BOUNDS = 17,
	RNIC_AE_TAGGED_ACCESS = 18,
	RNIC_AE_TAGGED_INVALID_PD = 19,
	RNIC_AE_TAGGED_WRAP = 20,
	RNIC_AE_BAD_CLOSE = 21,
	RNIC_AE_BAD_LLP_CLOSE = 22,
	RNIC_AE_RQ_MSN_RANGE = 23,
	RNIC_AE_RQ_MSN_GAP = 24,
	RNIC_AE_IRRQ_TOO_MANY = 25,
	RNIC_AE_IRRQ_MSN_GAP = 26,
	RNIC_AE_IRRQ_MSN_RANGE = 27,
	RNIC_AE_IRRQ_INVALID_STAG = 28,
	RNIC_AE_IRRQ_BASE_BOUNDS = 29,
	RNIC_AE_IRRQ_ACCESS = 30,
	RNIC_AE_IRRQ_INVALID_PD = 31,
	RNIC_AE_IRRQ_WRAP = 32,
	RNIC_AE_CQ_SQ_ERROR = 33,
	RNIC_AE_CQ_RQ_ERROR = 34,
	RNIC_AE_SRQ_QP_ERROR = 35,
	RNIC_AE_QP_CATASTROPHIC = 36,
	RNIC_AE_CQ_OVERFLOW = 37,
	RNIC_AE_CQ_ERROR = 38,
	RNIC_AE_SRQ_LIMIT = 39,
	RNIC_AE_QP_RQ_LIMIT = 40,
	RNIC_AE_SRQ_CATASTROPHIC = 41,
	RNIC_AE_RNIC_CATASTROPHIC = 42,
	/* not in figure 37 */
	RNIC_AE_LINK_CHANGE = 64,	/* RNIC_REG_LINK has changed */
	RNIC_AE_QP_LAST_WQE = 65,	/* see RNIC_QP_LAST_WQE_EVENT */
	RNIC_AE_EQ_OVERFLOW = 66,	/* events of an EQ have been lost */
	RNIC_AE_ATOMIC_NOT_ENABLED = 67, /* RNIC_QP_ENABLE_ATOMIC */
	RNIC_AE_ATOMIC_ALIGNMENT = 68,	/* target not aligned to 8 octets */
};

#define RNIC_RESOURCE_NONE	0
#define RNIC_RESOURCE_QP	1
#define RNIC_RESOURCE_CQ	2
#define RNIC_RESOURCE_SRQ	3
#define RNIC_RESOURCE_EQ	4

struct rnic_aeqe {
	__le16 event;		/* enum rnic_async_event */
	__u8 resource;		/* RNIC_RESOURCE_* */
	__u8 qp_state;		/* enum rnic_qp_state, of a QP event */
	__le32 number;		/* of the resource */
	__le16 terminate;	/* Terminate code sent or received, 0xLTEE */
	__le16 reserved;
	__le32 reserved2[12];
	__le32 flags;		/* RNIC_EQE_PHASE */
};
RNIC_ASSERT_SIZE(struct rnic_aeqe, 64);

#define RNIC_MAX_PRIVATE_DATA	512	/* MPA, RFC 5044 7.1; enhanced: 508 */

enum rnic_cm_event_type {
	RNIC_CM_CONNECT_REQUEST = 1, /* listener, endpoint, addresses, ird/ord, data */
	RNIC_CM_CONNECT_REPLY = 2,   /* end of CM_CONNECT: status, ird/ord, data */
	RNIC_CM_ESTABLISHED = 3,     /* end of CM_ACCEPT: status */
	RNIC_CM_PEER_CLOSE = 4,	     /* peer's LLP close arrived on an established QP */
	RNIC_CM_DISCONNECTED = 5,    /* the stream has left the QP; once a stream */
	RNIC_CM_REQUEST_GONE = 6,    /* peer left before CM_ACCEPT or CM_REJECT */
	/* 7..10: RNIC_FEATURE_LLP_STREAM; endpoint is the stream */
	RNIC_CM_STREAM_REQUEST = 7,  /* a peer connects to a listener of streams */
	RNIC_CM_STREAM_OPENED = 8,   /* end of LLP_OPEN that connects: status */
	RNIC_CM_STREAM_READABLE = 9, /* LLP_RECEIVE has something to say */
	RNIC_CM_STREAM_WRITABLE = 10, /* after RNIC_ST_STREAM_FULL: all has been sent */
};

enum rnic_cm_status {
	RNIC_CM_OK = 0,
	RNIC_CM_REJECTED = 1,		/* MPA Reply with R set; private data valid */
	RNIC_CM_REFUSED = 2,		/* no program listens there */
	RNIC_CM_UNREACHABLE = 3,
	RNIC_CM_TIMED_OUT = 4,
	RNIC_CM_RESET = 5,		/* LLP lost before the end of MPA start-up */
	RNIC_CM_NOT_MPA = 6,		/* the peer does not speak MPA */
	RNIC_CM_MPA_REVISION = 7,
	RNIC_CM_MPA_PRIVATE_DATA = 8,	/* bad length */
	RNIC_CM_MPA_READ_RESOURCES = 9,	/* RFC 6581: insufficient IRD */
	RNIC_CM_MPA_NO_RTR = 10,	/* RFC 6581: no matching RTR option */
	RNIC_CM_OUTSIDE_MAP = 11,	/* the fabric does not reach this address */
	RNIC_CM_ADDRESS_IN_USE = 12,
	RNIC_CM_QP_STATE = 13,		/* the QP left Idle during start-up */
	RNIC_CM_LOCAL_ERROR = 14,
	RNIC_CM_TLS = 15,		/* the fabric's TLS handshake failed */
};

/* Where devices that connect QPs directly find each other (private data: manual). */
#define RNIC_DIRECT_PORT	4791

struct rnic_cm_addr {
	__u8 ip[16];		/* IPv6, or IPv4-mapped ::ffff:a.b.c.d */
	__be16 port;
	__u8 reserved[6];
};
RNIC_ASSERT_SIZE(struct rnic_cm_addr, 24);

struct rnic_cm_event {
	__u8 type;		/* enum rnic_cm_event_type */
	__u8 status;		/* enum rnic_cm_status */
	__u8 mpa_revision;
	__u8 reserved;
	__le32 qpn;		/* CONNECT_REPLY, ESTABLISHED, *CLOSE, DISCONNECTED */
	__le64 cookie;		/* of CM_LISTEN, CM_CONNECT, CM_ACCEPT, LLP_OPEN */
	__le32 endpoint;	/* CONNECT_REQUEST, REQUEST_GONE, STREAM_* */
	__le16 ird;		/* as negotiated; request: peer's wish */
	__le16 ord;
	struct rnic_cm_addr local;
	struct rnic_cm_addr remote;
	__le16 private_data_length;
	__le16 terminate;	/* DISCONNECTED: Terminate code, 0xLTEE, or 0 */
	__le32 reserved2[13];
	__u8 private_data[RNIC_MAX_PRIVATE_DATA];
	__u8 reserved3[380];
	__le32 flags;		/* RNIC_EQE_PHASE */
};
RNIC_ASSERT_SIZE(struct rnic_cm_event, 1024);

/* ------------------------------------------------------- admin queue */

enum rnic_admin_opcode {
	RNIC_ADMIN_NOP = 0,
	RNIC_ADMIN_QUERY_DEVICE = 1,
	RNIC_ADMIN_QUERY_COUNTERS = 2,
	RNIC_ADMIN_CREATE_EQ = 3,
	RNIC_ADMIN_DESTROY_EQ = 4,
	RNIC_ADMIN_ALLOC_PD = 5,
	RNIC_ADMIN_DEALLOC_PD = 6,
	RNIC_ADMIN_CREATE_CQ = 7,
	RNIC_ADMIN_QUERY_CQ = 8,
	RNIC_ADMIN_MODIFY_CQ = 9,
	RNIC_ADMIN_DESTROY_CQ = 10,
	RNIC_ADMIN_CREATE_SRQ = 11,
	RNIC_ADMIN_QUERY_SRQ = 12,
	RNIC_ADMIN_MODIFY_SRQ = 13,
	RNIC_ADMIN_DESTROY_SRQ = 14,
	RNIC_ADMIN_CREATE_QP = 15,
	RNIC_ADMIN_QUERY_QP = 16,
	RNIC_ADMIN_MODIFY_QP = 17,
	RNIC_ADMIN_DESTROY_QP = 18,
	RNIC_ADMIN_ALLOC_STAG = 19,
	RNIC_ADMIN_REGISTER_MR = 20,
	RNIC_ADMIN_REREGISTER_MR = 21,
	RNIC_ADMIN_REGISTER_SHARED_MR = 22,
	RNIC_ADMIN_QUERY_MR = 23,
	RNIC_ADMIN_DEALLOC_STAG = 24,	/* MR and MW */
	RNIC_ADMIN_ALLOC_MW = 25,
	RNIC_ADMIN_QUERY_MW = 26,
	RNIC_ADMIN_CM_LISTEN = 32,
	RNIC_ADMIN_CM_UNLISTEN = 33,
	RNIC_ADMIN_CM_CONNECT = 34,
	RNIC_ADMIN_CM_ACCEPT = 35,
	RNIC_ADMIN_CM_REJECT = 36,
	/* 37, 38: RNIC_FEATURE_DIRECT_CONNECT */
	RNIC_ADMIN_CM_DIRECT_CONNECT = 37, /* what InfiniBand calls RTR */
	RNIC_ADMIN_CM_DIRECT_SEND = 38,	   /* ... and RTS */
	/* 40..43: RNIC_FEATURE_LLP_STREAM */
	RNIC_ADMIN_LLP_OPEN = 40,
	RNIC_ADMIN_LLP_SEND = 41,
	RNIC_ADMIN_LLP_RECEIVE = 42,
	RNIC_ADMIN_LLP_CLOSE = 43,
	RNIC_ADMIN_CREATE_ETH_QUEUE = 48,
	RNIC_ADMIN_DESTROY_ETH_QUEUE = 49,
	RNIC_ADMIN_SET_RX_MODE = 50,
};

/*
 * Statuses of admin commands: the immediate statuses of figures 28-35, and
 * (from 64) those of this interface.  The comment gives the errno suggested.
 */
enum rnic_admin_status {
	RNIC_ST_OK = 0,
	RNIC_ST_INSUFFICIENT_RESOURCES = 1,	/* ENOMEM */
	RNIC_ST_INVALID_MODIFIER = 2,		/* EINVAL */
	RNIC_ST_INVALID_PD = 3,			/* EINVAL */
	RNIC_ST_PD_IN_USE = 4,			/* EBUSY */
	RNIC_ST_CQ_TOO_MANY_ENTRIES = 5,	/* EINVAL */
	RNIC_ST_SHRINK_TOO_SMALL = 6,		/* EINVAL */
	RNIC_ST_INVALID_CQ = 7,			/* EINVAL */
	RNIC_ST_CQ_IN_USE = 8,			/* EBUSY */
	RNIC_ST_INVALID_EVENT_HANDLER = 9,	/* EINVAL: no such event queue */
	RNIC_ST_TOO_MANY_WRS = 10,		/* EINVAL: S-RQ */
	RNIC_ST_TOO_MANY_SGES = 11,		/* EINVAL: S-RQ */
	RNIC_ST_SRQ_LIMIT_RANGE = 12,		/* EINVAL */
	RNIC_ST_INVALID_SRQ = 13,		/* EINVAL */
	RNIC_ST_SRQ_IN_USE = 14,		/* EBUSY */
	RNIC_ST_ORD_EXCEEDED = 15,		/* EINVAL */
	RNIC_ST_IRD_EXCEEDED = 16,		/* EINVAL */
	RNIC_ST_SQ_WRS_EXCEEDED = 17,		/* EINVAL */
	RNIC_ST_RQ_WRS_EXCEEDED = 18,		/* EINVAL */
	RNIC_ST_SQ_SGES_EXCEEDED = 19,		/* EINVAL */
	RNIC_ST_RQ_SGES_EXCEEDED = 20,		/* EINVAL */
	RNIC_ST_INVALID_QP = 21,		/* EINVAL */
	RNIC_ST_CANNOT_CHANGE_ATTRIBUTE = 22,	/* EINVAL */
	RNIC_ST_INVALID_STATE_CHANGE = 23,	/* EINVAL */
	RNIC_ST_INVALID_LLP_STREAM = 24,	/* ENOTCONN */
	RNIC_ST_STILL_FLUSHING = 25,		/* EBUSY */
	RNIC_ST_RQ_LIMIT_RANGE = 26,		/* EINVAL */
	RNIC_ST_MW_BOUND_TO_QP = 27,		/* EBUSY */
	RNIC_ST_INVALID_VA = 28,		/* EINVAL */
	RNIC_ST_INVALID_ACCESS_RIGHTS = 29,	/* EINVAL */
	RNIC_ST_INVALID_LENGTH = 30,		/* EINVAL */
	RNIC_ST_INVALID_FBO = 31,		/* EINVAL */
	RNIC_ST_INVALID_PBL_ENTRY = 32,		/* EINVAL */
	RNIC_ST_INVALID_PBL_SIZE = 33,		/* EINVAL */
	RNIC_ST_INVALID_STAG = 34,		/* EINVAL */
	RNIC_ST_MW_BOUND_TO_MR = 35,		/* EBUSY */
	RNIC_ST_UNKNOWN_OPCODE = 64,		/* EOPNOTSUPP */
	RNIC_ST_UNSUPPORTED = 65,		/* EOPNOTSUPP: feature not accepted */
	RNIC_ST_RESERVED_NOT_ZERO = 66,		/* EINVAL */
	RNIC_ST_DMA_ERROR = 67,			/* EFAULT: bulk data unreachable */
	RNIC_ST_BAD_BUFFER = 68,		/* EINVAL: alignment or length */
	RNIC_ST_BAD_QUEUE_MEMORY = 69,		/* EINVAL: page list, offset, depth */
	RNIC_ST_BAD_DOORBELL_PAGE = 70,		/* EINVAL */
	RNIC_ST_BAD_VECTOR = 71,		/* EINVAL */
	RNIC_ST_INVALID_EQ = 72,		/* EINVAL */
	RNIC_ST_EQ_IN_USE = 73,			/* EBUSY */
	RNIC_ST_NO_CM_EQ = 74,			/* EINVAL: create one first */
	RNIC_ST_INVALID_ENDPOINT = 75,		/* ENOENT */
	RNIC_ST_INVALID_ADDRESS = 76,		/* EADDRNOTAVAIL: outside the map */
	RNIC_ST_ADDRESS_IN_USE = 77,		/* EADDRINUSE */
	RNIC_ST_BAD_PRIVATE_DATA = 78,		/* EINVAL: length */
	RNIC_ST_ETH_QUEUE_IN_USE = 79,		/* EBUSY */
	RNIC_ST_FABRIC_ERROR = 80,		/* EIO: the host said no */
	/* of an LLP stream: */
	RNIC_ST_STREAM_NOT_OPEN = 81,		/* ENOTCONN: not yet, or a QP takes it */
	RNIC_ST_STREAM_ENDED = 82,		/* EPIPE: reset, or lost */
	RNIC_ST_STREAM_FULL = 83,		/* EAGAIN: earlier octets wait */
};

/* Access rights and addressing of MRs and MWs (V7.3.2, figure 18). */
#define RNIC_ACCESS_LOCAL_READ		(1u << 0)
#define RNIC_ACCESS_LOCAL_WRITE		(1u << 1)
#define RNIC_ACCESS_REMOTE_READ		(1u << 2)
#define RNIC_ACCESS_REMOTE_WRITE	(1u << 3)
#define RNIC_ACCESS_MW_BIND		(1u << 4)
#define RNIC_ACCESS_ZERO_BASED		(1u << 5)	/* TO 0 is the first octet */
/*
 * May be the sink of this QP's own RDMA Reads with local write right only:
 * librdmacm's rdma_reg_read memory; without it V8.1.2.2-7 holds to the letter.
 */
#define RNIC_ACCESS_READ_SINK		(1u << 6)
/* Needs LOCAL_WRITE, and RNIC_FEATURE_RDMAP_EXTENSIONS. */
#define RNIC_ACCESS_REMOTE_ATOMIC	(1u << 7)

/* Create/Modify QP: enables */
#define RNIC_QP_ENABLE_READ		(1u << 0)	/* inbound RDMA Read */
#define RNIC_QP_ENABLE_WRITE		(1u << 1)	/* inbound Write and Read Response */
#define RNIC_QP_ENABLE_BIND		(1u << 2)
#define RNIC_QP_PRIVILEGED		(1u << 3)	/* STag zero, Fast-Register */
#define RNIC_QP_SIGNAL_ALL		(1u << 4)	/* every SQ WR is Signaled */
/*
 * Accept the peer's Read Response into any sink of an outstanding Read, also
 * with inbound Write not enabled (Linux's expectation; manual, deviations).
 */
#define RNIC_QP_READ_SINK_BY_REQUEST	(1u << 5)
/*
 * On a QP with an S-RQ: tell by RNIC_AE_QP_LAST_WQE that, on its way to Error,
 * the last WQE it had taken is completed.  What Linux drains such QPs with.
 */
#define RNIC_QP_LAST_WQE_EVENT		(1u << 6)
/* Inbound Atomic Requests; with RNIC_FEATURE_RDMAP_EXTENSIONS. */
#define RNIC_QP_ENABLE_ATOMIC		(1u << 7)
/*
 * BIND_MW may give a window no remote right, as InfiniBand's may (manual,
 * deviations).  With RNIC_FEATURE_BIND_WITHOUT_RIGHTS.
 */
#define RNIC_QP_BIND_WITHOUT_RIGHTS	(1u << 8)
/*
 * An RDMA_READ may have up to RNIC_MAX_READ_SGE SGEs (manual, deviations).  With
 * RNIC_FEATURE_READ_LIST.
 */
#define RNIC_QP_READ_LIST		(1u << 9)

/* Verbs states (chapter 6.2) */
enum rnic_qp_state {
	RNIC_QPS_IDLE = 0,
	RNIC_QPS_RTS = 1,
	RNIC_QPS_CLOSING = 2,
	RNIC_QPS_TERMINATE = 3,
	RNIC_QPS_ERROR = 4,
};

/* An LLP stream in streaming mode (6.6): octets of one LLP_SEND or LLP_RECEIVE, and
 * of the Stream Message Buffer. */
#define RNIC_LLP_MAX_OCTETS	16384

struct rnic_queue_memory {
	struct rnic_page_list pages;	/* record, then rings */
	__le32 ring_offset[2];		/* QP: SQ, RQ; others: ring, zero */
};
RNIC_ASSERT_SIZE(struct rnic_queue_memory, 24);

/*
 * One admin command: a 16-octet head and 112 octets of arguments by opcode.
 * Bulk data is read from, or written to, bulk_addr; a command that has none
 * takes zero in both bulk fields.
 */
struct rnic_admin_sqe {
	__le16 opcode;		/* enum rnic_admin_opcode */
	__le16 command_id;	/* returned in the CQE */
	__le32 bulk_length;	/* octets */
	__le64 bulk_addr;	/* 8-byte aligned bus address */
	union {
		__u8 raw[112];
		struct {	/* CREATE_EQ -> number */
			__u8 eq_class;	/* enum rnic_eq_class */
			__u8 reserved[3];
			__le32 vector;
			__le32 depth;
			__le32 reserved2;
			struct rnic_queue_memory memory;
		} create_eq;
		struct {	/* CREATE_CQ -> number */
			__le32 flags;	/* RNIC_CQ_* */
			__le32 depth;
			__le32 eqn;	/* completion EQ, or RNIC_NO_VECTOR */
			__le32 doorbell_page;
			struct rnic_queue_memory memory;
		} create_cq;
		struct {	/* MODIFY_CQ */
			__le32 cqn;
			__le32 mask;	/* RNIC_CQ_MODIFY_* */
			/* With RNIC_CQ_MODIFY_DEPTH: */
			__le32 depth;
			__le32 earlier;	/* CQEs not consumed of rings that are
					 * older than the one in use */
			/* With RNIC_CQ_MODIFY_MODERATION: */
			__le16 event_count;	/* CQEs of one event at most */
			__le16 event_period;	/* microseconds; 0: none */
			__le32 reserved;
			struct rnic_queue_memory memory; /* of _DEPTH */
		} modify_cq;
		struct {	/* DESTROY_*, DEALLOC_PD, QUERY_*, CM_UNLISTEN */
			__le32 number;	/* for MRs and MWs: the STag */
		} object;
		struct {	/* CREATE_SRQ -> number; MODIFY_SRQ */
			__le32 srqn;	/* MODIFY_SRQ only */
			__le32 pdn;
			__le32 depth;
			__le32 limit;
			__le32 doorbell_page;
			__u8 wqe_shift;
			__u8 max_sge;
			__u8 mask;	/* MODIFY_SRQ: RNIC_SRQ_MODIFY_* */
			__u8 reserved;
			struct rnic_queue_memory memory;
		} create_srq;
		struct {	/* CREATE_QP -> number */
			__le32 pdn;
			__le32 send_cqn;
			__le32 recv_cqn;
			__le32 srqn;		/* 0: none */
			__le32 sq_depth;	/* units */
			__le32 rq_depth;	/* WQEs; with an S-RQ this,
						 * rq_wqe_shift and max_recv_sge
						 * are ignored */
			__le32 doorbell_page;
			__le16 ird;
			__le16 ord;
			__u8 rq_wqe_shift;
			__u8 max_send_sge;
			__u8 max_write_sge;
			__u8 max_recv_sge;
			__le32 enables;		/* RNIC_QP_* */
			__le32 rq_limit;	/* with an S-RQ; 0: not armed */
			__le32 reserved;
			struct rnic_queue_memory memory;
		} create_qp;
		struct {	/* MODIFY_QP; bulk, Idle to RTS: Stream Message */
			__le32 qpn;
			__le32 mask;		/* RNIC_QP_MODIFY_* */
			__u8 next_state;	/* enum rnic_qp_state */
			__u8 reserved[3];
			__le16 ird;
			__le16 ord;
			__le32 enables;
			__le32 rq_limit;
			__le32 llp_stream;	/* Idle to RTS; else zero */
			__le32 sq_depth;	/* both with memory: one for */
			__le32 rq_depth;	/* both rings */
			__le32 reserved2;
			struct rnic_queue_memory memory;
		} modify_qp;
		struct {	/* REGISTER_MR, REREGISTER_MR -> STag */
			__le32 stag;		/* REREGISTER: index and key, now */
			__le32 pdn;
			__le64 va;		/* VA based: TO of the first octet */
			__le64 length;
			__le64 first_byte_offset;
			struct rnic_page_list pages;
			__le32 access;		/* RNIC_ACCESS_* */
			__u8 key;		/* new key */
			__u8 mr_flags;		/* RNIC_MR_* */
			__le16 reserved;
			__le64 block_size;	/* RNIC_MR_BLOCK_LIST */
			__le32 change;		/* REREGISTER: RNIC_REREGISTER_* */
			__le32 reserved2;
		} register_mr;
		struct {	/* ALLOC_STAG, ALLOC_MW -> STag */
			__le32 pdn;
			__le32 max_pages;	/* ALLOC_STAG: PBL size */
			__u8 key;
			__u8 remote_access;	/* ALLOC_STAG: RAF, 0 or 1 */
			__u8 window_of_pd;	/* ALLOC_MW: 0 or 1 (manual, deviations) */
			__u8 reserved;
		} alloc_stag;
		struct {	/* REGISTER_SHARED_MR -> STag */
			__le32 stag;		/* of the existing region */
			__le32 pdn;
			__le64 va;
			__le32 access;
			__u8 key;
			__u8 mr_flags;		/* RNIC_MR_LOCAL_ONLY, or 0 */
			__u8 reserved[2];
		} shared_mr;
		struct {	/* CM_LISTEN -> number */
			__le64 cookie;
			struct rnic_cm_addr local; /* ip all zero: any */
			__le32 backlog;
			__u8 tos;		/* of IP; RNIC_ABI_MINOR_TOS */
			__u8 streams;		/* 1: of LLP streams, no MPA start-up */
			__u8 reserved[2];
		} listen;
		struct {	/* CM_CONNECT -> number; bulk: private data */
			__le64 cookie;
			__le32 qpn;
			__le16 ird;
			__le16 ord;
			struct rnic_cm_addr local;
			struct rnic_cm_addr remote;
			__u8 tos;		/* of IP; RNIC_ABI_MINOR_TOS */
			__u8 reserved[7];
		} connect;
		struct {	/* CM_ACCEPT, CM_REJECT; bulk: private data */
			__le64 cookie;
			__le32 endpoint;
			__le32 qpn;		/* CM_ACCEPT */
			__le16 ird;		/* CM_ACCEPT */
			__le16 ord;		/* CM_ACCEPT */
		} accept;
		struct {	/* CM_DIRECT_CONNECT */
			__le32 qpn;
			__le32 peer_qpn;
			__le32 rq_psn;		/* 24 bits */
			__le16 ird;
			__le16 ord;
			__u8 local[16];		/* as ip of struct rnic_cm_addr */
			__u8 remote[16];
			__u8 min_rnr_timer;	/* InfiniBand's code, 0..31 */
			__u8 reserved[3];
		} direct_connect;
		struct {	/* CM_DIRECT_SEND */
			__le32 qpn;
			__le32 sq_psn;		/* 24 bits */
			__le16 ord;
			__u8 timeout;		/* InfiniBand's code, 0..31 */
			__u8 retry_count;	/* 0..7 */
			__u8 rnr_retry;		/* 0..7 */
			__u8 reserved[3];
		} direct_send;
		struct {	/* LLP_OPEN -> number */
			__le64 cookie;
			__le32 stream;		/* of a STREAM_REQUEST; 0: connect */
			__u8 tos;		/* this and all below: connect */
			__u8 reserved[3];
			struct rnic_cm_addr local;
			struct rnic_cm_addr remote;
		} llp_open;
		struct {	/* LLP_SEND, LLP_RECEIVE; bulk: the octets */
			__le32 stream;
		} llp_octets;
		struct {	/* LLP_CLOSE */
			__le32 stream;
			__u8 reset;		/* 0: FIN behind all octets; 1: reset */
			__u8 reserved[3];
		} llp_close;
		struct {	/* CREATE_ETH_QUEUE, DESTROY_ETH_QUEUE */
			__le32 queue;		/* RNIC_ETH_QUEUE_* */
			__le32 vector;
			__le32 depth;
			__le32 reserved;
			struct rnic_queue_memory memory;
		} eth_queue;
		struct {	/* SET_RX_MODE; bulk: MACs, 6 octets each */
			__le32 mode;		/* RNIC_RX_* */
			__le32 count;		/* MACs in the bulk data */
		} rx_mode;
	};
};
RNIC_ASSERT_SIZE(struct rnic_admin_sqe, 128);

/* Create CQ; each needs its feature. */
#define RNIC_CQ_IGNORE_OVERRUN		(1u << 0)	/* overwrite, no error */
#define RNIC_CQ_TIMESTAMP		(1u << 1)	/* struct rnic_timed_cqe */

#define RNIC_CQ_MODIFY_DEPTH		(1u << 0)	/* RNIC_FEATURE_RESIZE_CQ */
#define RNIC_CQ_MODIFY_MODERATION	(1u << 1)	/* RNIC_FEATURE_CQ_MODERATION */

#define RNIC_QP_MODIFY_STATE		(1u << 0)
#define RNIC_QP_MODIFY_IRD		(1u << 1)
#define RNIC_QP_MODIFY_ORD		(1u << 2)
#define RNIC_QP_MODIFY_ENABLES		(1u << 3)
#define RNIC_QP_MODIFY_RQ_LIMIT		(1u << 4)	/* and arms it */
/* RNIC_FEATURE_RESIZE_QP; together, or with an S-RQ the first alone. */
#define RNIC_QP_MODIFY_SQ_DEPTH		(1u << 5)
#define RNIC_QP_MODIFY_RQ_DEPTH		(1u << 6)

/* Sets the limit and arms it, unless it is zero (V6.3.8-3). */
#define RNIC_SRQ_MODIFY_LIMIT		(1u << 0)
#define RNIC_SRQ_MODIFY_DEPTH		(1u << 1)	/* RNIC_FEATURE_RESIZE_QP */

#define RNIC_MR_BLOCK_LIST		(1u << 0)
#define RNIC_MR_REMOTE_ACCESS		(1u << 1)	/* RAF, V7.4-3 */
/*
 * Of REGISTER_SHARED_MR, where the Remote Access Flag is set unless this says no:
 * before RNIC_ABI_MINOR_ABILITIES the command had neither.
 */
#define RNIC_MR_LOCAL_ONLY		(1u << 2)

#define RNIC_REREGISTER_PD		(1u << 0)
#define RNIC_REREGISTER_ACCESS		(1u << 1)
#define RNIC_REREGISTER_TRANSLATION	(1u << 2)

#define RNIC_RX_PROMISCUOUS		(1u << 0)
#define RNIC_RX_ALL_MULTICAST		(1u << 1)
/*
 * The address list has the unicast addresses, too, that frames are received for,
 * with RNIC_REG_MAC only if it is there.  With RNIC_FEATURE_UNICAST_LIST.
 */
#define RNIC_RX_LISTED_ONLY		(1u << 2)
#define RNIC_RX_MAX_ADDRESSES		64

struct rnic_admin_cqe {
	__le16 command_id;
	__le16 status;		/* enum rnic_admin_status */
	__le32 number;		/* object created, or STag */
	union {
		__u8 raw[48];
		struct {	/* CREATE_QP, MODIFY_QP: granted */
			__le16 ird;
			__le16 ord;
			__le32 sq_depth;
			__le32 rq_depth;
			__u8 state;
			__u8 reserved[3];
		} qp;
		struct {	/* CREATE_CQ, QUERY_CQ, MODIFY_CQ */
			__le32 depth;
			__le32 eqn;
			__le32 end;	/* MODIFY_CQ, new depth: the ring before
					 * has CQEs up to this index */
		} cq;
		struct {	/* CREATE_SRQ, QUERY_SRQ, MODIFY_SRQ */
			__le32 pdn;
			__le32 depth;
			__le32 limit;
			__u8 limit_armed;	/* 0 or 1 */
			__u8 max_sge;
			__u8 failed;		/* after SRQ_CATASTROPHIC */
			__u8 reserved;
		} srq;
		struct {	/* REGISTER_MR, REREGISTER_MR, ALLOC_STAG */
			__le32 pages;	/* PBL entries allocated */
		} mr;
		struct {	/* LLP_RECEIVE */
			__le32 octets;
			__u8 end;	/* 1: FIN, there will be no more */
			__u8 reserved[3];
		} llp;
	};
	__le32 reserved;
	__le32 flags;		/* RNIC_EQE_PHASE, stored last */
};
RNIC_ASSERT_SIZE(struct rnic_admin_cqe, 64);

/* QUERY_DEVICE: bulk data written, at most bulk_length octets (V9.2.1.2). */
struct rnic_device_attr {
	__le64 page_size_cap;		/* bit n: pages of 1 << n for MRs */
	__le64 max_mr_size;
	__le64 sys_image_guid;
	__le32 max_qp;
	__le32 max_sq_units;		/* per SQ */
	__le32 max_rq_wr;		/* per RQ */
	__le32 max_srq_wr;
	__le32 max_send_sge;
	__le32 max_write_sge;
	__le32 max_recv_sge;
	__le32 max_read_sge;
	__le32 max_inline;
	__le32 max_cq;
	__le32 max_cqe;
	__le32 max_eq;
	__le32 max_mr;			/* STags of all kinds */
	__le32 max_mw;
	__le32 max_pd;
	__le32 max_srq;
	__le32 max_fast_register_pages;
	__le32 max_ird;			/* per QP */
	__le32 max_ord;			/* per QP */
	__le32 max_total_ird;		/* 0: not pooled */
	__le32 max_total_ord;		/* 0: not pooled */
	__le32 max_listeners;
	__le32 max_message;		/* octets of one message */
	__le32 mtu;			/* of the Ethernet side */
	__le32 srq_order;		/* RNIC_SRQ_ORDER_*, V9.2.1.2-7 */
	__le16 max_event_count;		/* of RNIC_CQ_MODIFY_MODERATION */
	__le16 max_event_period;	/* microseconds */
	__le32 clock_khz;		/* of RNIC_DB_CLOCK */
	/* Since RNIC_ABI_MINOR_ABILITIES, zero before: */
	__le32 abilities;		/* RNIC_ABILITY_* */
	__le64 min_block_size;		/* of RNIC_MR_BLOCK_LIST, octets; both 0 in */
	__le64 max_block_size;		/* Page Mode */
	__le32 list_mode;		/* RNIC_LIST_MODE_*, as opened */
	/* Since RNIC_ABI_MINOR_LLP_STREAM, zero before: */
	__le32 max_llp_streams;		/* and as many requests of peers */
	__le32 max_llp_octets;		/* RNIC_LLP_MAX_OCTETS */
	__le32 reserved[23];
};
RNIC_ASSERT_SIZE(struct rnic_device_attr, 256);

/* What V9.2.1.2-5 and -8 ask about. */
#define RNIC_ABILITY_MODIFY_IRD		(1u << 0)	/* in Idle */
#define RNIC_ABILITY_INCREASE_ORD	(1u << 1)	/* in Idle and RTS */
#define RNIC_ABILITY_MODIFY_WRS		(1u << 2)	/* RNIC_FEATURE_RESIZE_QP */
#define RNIC_ABILITY_CQ_OVERFLOW	(1u << 3)	/* it is detected */

#define RNIC_LIST_MODE_PAGE		1
#define RNIC_LIST_MODE_BLOCK		2	/* RNIC_FEATURE_BLOCK_LIST */

/* In which order messages take WQEs from an S-RQ (6.3.5). */
#define RNIC_SRQ_ORDER_ARRIVAL		1
#define RNIC_SRQ_ORDER_SEQUENTIAL	2

/* QUERY_QP: bulk data written. */
#define RNIC_TERMINATE_MAX	64	/* RDMAP Terminate payload, RFC 5040 4.8 */
struct rnic_qp_attr {
	__le32 qpn;
	__le32 pdn;
	__le32 send_cqn;
	__le32 recv_cqn;
	__le32 srqn;
	__le32 enables;
	__le32 sq_depth;
	__le32 rq_depth;
	__le16 ird;
	__le16 ord;
	__u8 state;
	__u8 max_send_sge;
	__u8 max_write_sge;
	__u8 max_recv_sge;
	__le32 llp_stream;		/* 0: none; or RNIC_LLP_STREAM_OF_CM */
	__le32 rq_limit;
	__le32 sq_consumer;		/* units processed */
	__le32 rq_consumer;
	__u8 terminate_origin;		/* 0 none, 1 sent, 2 received */
	__u8 terminate_length;
	__u8 mpa_revision;
	__u8 mpa_flags;			/* RNIC_MPA_* in use */
	__u8 terminate[RNIC_TERMINATE_MAX];
	__le64 bytes_sent;
	__le64 bytes_received;
	__u8 rq_limit_armed;		/* with an S-RQ: 0 or 1 */
	__u8 reserved2[3];
	/* ABI 1.3, since CREATE_QP, as the octets: of the QP what the counters of
	 * these names in struct rnic_counters are of the device. */
	__le32 cqe_errors;
	__le64 sq_wrs;
	__le64 rq_wrs;
	__le64 cqes;
	__le64 tx_fpdus;
	__le64 rx_fpdus;
};
RNIC_ASSERT_SIZE(struct rnic_qp_attr, 192);

/* Not one of LLP_OPEN: a connection's, from its set-up on. */
#define RNIC_LLP_STREAM_OF_CM	(1u << 31)

#define RNIC_MPA_CRC		(1u << 0)
#define RNIC_MPA_MARKERS_SENT	(1u << 1)
#define RNIC_MPA_MARKERS_RECEIVED (1u << 2)

/* QUERY_MR, QUERY_MW: bulk data written. */
struct rnic_mr_attr {
	__le32 stag;
	__le32 pdn;
	__le64 va;
	__le64 length;
	__le64 first_byte_offset;
	__le32 access;
	__le32 page_count;
	__le32 max_pages;
	__u8 page_shift;
	__u8 kind;		/* RNIC_STAG_* */
	__u8 valid;		/* STag state: 1 Valid, 0 Invalid */
	__u8 remote_access;	/* RAF */
	__le32 bound_windows;	/* MR */
	__le32 mr_stag;		/* MW: its MR */
	__le32 qpn;		/* MW: its QP, 0 if it is of the PD */
	__u8 window_of_pd;
	__u8 reserved[3];
};
RNIC_ASSERT_SIZE(struct rnic_mr_attr, 64);

#define RNIC_STAG_MR		1
#define RNIC_STAG_SHARED_MR	2
#define RNIC_STAG_MW		3

/* QUERY_COUNTERS: bulk data written; all count since the last reset. */
struct rnic_counters {
	__le64 sq_wrs;
	__le64 rq_wrs;
	__le64 cqes;
	__le64 cqe_errors;
	__le64 tx_fpdus;
	__le64 tx_octets;
	__le64 rx_fpdus;
	__le64 rx_octets;
	__le64 terminates_sent;
	__le64 terminates_received;
	__le64 connects;
	__le64 connect_failures;
	__le64 accepts;
	__le64 rejects;
	__le64 async_events;
	__le64 bad_doorbells;
	__le64 doorbells;
	__le64 dma_errors;
	__le64 eth_tx_packets;
	__le64 eth_tx_octets;
	__le64 eth_rx_packets;
	__le64 eth_rx_octets;
	__le64 eth_rx_drops;
	/* objects that exist now */
	__le32 qps;
	__le32 cqs;
	__le32 eqs;
	__le32 pds;
	__le32 stags;
	__le32 srqs;
	__le32 listeners;
	__le32 endpoints;
	/* since reset, as the first ones */
	__le32 events_lost;
	__le32 llp_streams;	/* that exist now, requests of peers too */
	__le32 reserved[72];
};
RNIC_ASSERT_SIZE(struct rnic_counters, 512);

/*
 * ---------------------------------------------------------- Ethernet
 *
 * One transmit and one receive queue; a descriptor is one whole frame without
 * FCS.  The interrupt is one-shot: after a write to RNIC_REG_ETH_ARM the
 * vector fires once, at once if done differs from the seen index stored in
 * the record, else with the next frame.
 */
#define RNIC_ETH_QUEUE_TX	0
#define RNIC_ETH_QUEUE_RX	1
#define RNIC_ETH_MAX_FRAME	9018
#define RNIC_ETH_MAX_DEPTH	4096

struct rnic_eth_record {
	__le32 producer;	/* guest */
	__le32 seen;		/* guest: done index it has handled */
	__le32 guest_reserved[14];
	__le32 done;		/* device */
	__le32 device_reserved[15];
};
RNIC_ASSERT_SIZE(struct rnic_eth_record, RNIC_QUEUE_RECORD_SIZE);

struct rnic_eth_desc {
	__le64 addr;
	__le32 length;		/* receive: room; the device stores the octets */
	__le32 flags;		/* device: RNIC_ETH_DESC_*; guest: zero */
};
RNIC_ASSERT_SIZE(struct rnic_eth_desc, 16);
#define RNIC_ETH_DESC_ERROR	(1u << 0)	/* unreadable, too short or too long */

#endif /* RNIC_HW_H */
