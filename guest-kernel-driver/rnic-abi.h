/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * What the rnic kernel driver and its rdma-core provider say to each other
 * besides the standard uverbs commands.
 *
 * Structures grow at the end only.  The kernel takes a shorter request as
 * padded with zeroes and refuses a longer one unless its tail is zero; it cuts
 * a response to the room the process gave, and fills more room with zeroes.
 * Reserved fields are zero, and the kernel refuses a request in which they are not.
 *
 * The layouts of everything inside queue memory are in rnic-hw.h.
 */
#ifndef RNIC_ABI_USER_H
#define RNIC_ABI_USER_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

/*
 * struct ib_device_ops.uverbs_abi_ver. 2: windows of type 1 are the PD's, so a
 * provider does not invalidate them; Reads may have max_read_sge SGEs.
 */
#define RNIC_UVERBS_ABI_VERSION	2

/*
 * The process maps its doorbell page with
 *	mmap(NULL, db_mmap_length, PROT_READ | PROT_WRITE, MAP_SHARED, cmd_fd,
 *	     db_mmap_key)
 * (PROT_READ for RNIC_DB_CLOCK), and finds the RNIC_DB_* registers at
 * db_offset in the mapping. If state_mmap_length is not 0, it finds a struct
 * rnic_state_page at the beginning of
 *	mmap(NULL, state_mmap_length, PROT_READ, MAP_SHARED, cmd_fd,
 *	     state_mmap_key)
 */
struct rnic_uresp_alloc_ucontext {
	__aligned_u64 db_mmap_key;	/* offset to give to mmap() */
	__aligned_u64 features;		/* RNIC_FEATURE_* in use */
	__u32 db_mmap_length;
	__u32 db_offset;
	__u32 max_sq_units;		/* per SQ, of RNIC_SQ_UNIT octets */
	__u32 max_rq_wr;
	__u32 max_cqe;
	__u32 max_inline;		/* octets of inline data in one WR */
	__u16 max_send_sge;		/* Send types and Receive */
	__u16 max_write_sge;
	__u16 max_recv_sge;
	__u16 max_read_sge;
	__u32 max_srq_wr;		/* per S-RQ; 0: none */
	__u32 state_mmap_length;
	__aligned_u64 state_mmap_key;	/* offset to give to mmap() */
};

struct rnic_state_page {
	__u32 failed;		/* not 0: nothing that is posted completes */
};

/* UVERBS_METHOD_QUERY_CONTEXT: the answer to alloc_ucontext once more. */
enum rnic_query_context_attrs {
	RNIC_ATTR_QUERY_CONTEXT_RESP = (1U << UVERBS_ID_NS_SHIFT),
};

/*
 * Queue memory belongs to the process: buf_addr is aligned to the system's
 * page size, buf_length counts octets and is at most 128 MiB.  The record
 * (RNIC_QUEUE_RECORD_SIZE octets) is at offset 0, rings are at the offsets
 * given: multiples of 64, not overlapping one another or the record, and
 * inside the buffer.  The process zeroes the memory before the call and keeps
 * it until the object is destroyed, or resized with new memory.  Depths are powers
 * of two.
 */
struct rnic_ureq_create_cq {
	__aligned_u64 buf_addr;
	__u32 buf_length;
	__u32 ring_offset;
	__u32 depth;		/* CQEs, at least those asked for */
	__u32 reserved;
};

struct rnic_uresp_create_cq {
	__u32 cqn;		/* for RNIC_DB_CQ_ARM */
	__u32 depth;
};

/*
 * Resize: new memory for a CQ, which begins as one that is created. The process
 * takes what the memory before has, up to number end of its CQEs, before the
 * first of the new one. It may free that memory then: the kernel needs it no
 * longer. earlier: CQEs it has yet to take from memory before that.
 */
struct rnic_ureq_resize_cq {
	__aligned_u64 buf_addr;
	__u32 buf_length;
	__u32 ring_offset;
	__u32 depth;		/* CQEs, at least those asked for */
	__u32 earlier;
};

struct rnic_uresp_resize_cq {
	__u32 end;
	__u32 depth;
};

/* A WQE has 1 << wqe_shift octets. */
struct rnic_ureq_create_srq {
	__aligned_u64 buf_addr;
	__u32 buf_length;
	__u32 ring_offset;
	__u32 depth;		/* WQEs, at least those asked for */
	__u8 wqe_shift;
	__u8 reserved[3];
};

struct rnic_uresp_create_srq {
	__u32 srqn;		/* for RNIC_DB_SRQ */
	__u32 depth;
};

/* With an S-RQ all that is about the RQ is zero. */
struct rnic_ureq_create_qp {
	__aligned_u64 buf_addr;
	__u32 buf_length;
	__u32 sq_offset;
	__u32 rq_offset;
	__u32 sq_depth;		/* in RNIC_SQ_UNIT */
	__u32 rq_depth;		/* in WQEs */
	__u8 rq_wqe_shift;
	__u8 reserved[3];
};

struct rnic_uresp_create_qp {
	__u32 qpn;		/* for RNIC_DB_SQ and RNIC_DB_RQ */
	__u32 reserved;
};

/*
 * Resize, with IB_QP_CAP or IB_SRQ_MAX_WR: new memory for the queues, which begins
 * as that of queues that are created, except that the process has copied to it
 * the WQEs that it has posted and not seen completed, and their producer
 * indices. It posts nothing meanwhile. What it may put into one WQE stays.
 */
struct rnic_ureq_modify_qp {
	__aligned_u64 buf_addr;
	__u32 buf_length;
	__u32 sq_offset;
	__u32 rq_offset;
	__u32 sq_depth;		/* in RNIC_SQ_UNIT */
	__u32 rq_depth;		/* in WQEs; 0 with an S-RQ, as rq_offset */
	__u32 max_send_wr;	/* as query_qp shall tell */
	__u32 max_recv_wr;
	__u32 reserved;
};

struct rnic_ureq_modify_srq {
	__aligned_u64 buf_addr;
	__u32 buf_length;
	__u32 ring_offset;
	__u32 depth;		/* WQEs, at least those asked for */
	__u32 reserved;
};

#endif /* RNIC_ABI_USER_H */
