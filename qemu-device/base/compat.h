/*
 * rnic: the one place that knows QEMU versions
 *
 * Headers and a few signatures changed between QEMU 10.0 and its successors.
 * Nothing else in this directory may test for a version or a header.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_RNIC_COMPAT_H
#define HW_RNIC_COMPAT_H

#include "crypto/tlssession.h"

#if __has_include("hw/core/qdev.h")
#include "hw/core/qdev.h"
#include "hw/core/qdev-properties.h"
#else
#include "hw/qdev-core.h"
#include "hw/qdev-properties.h"
#endif

#if __has_include("system/memory.h")
#include "system/memory.h"
#define RNIC_CLASS_DATA const void
#define RNIC_INTERFACES (const InterfaceInfo[])
#else
#include "exec/memory.h"
#define RNIC_CLASS_DATA void
#define RNIC_INTERFACES (InterfaceInfo[])
#endif

#if __has_include("system/address-spaces.h")
#include "system/address-spaces.h"
#else
#include "exec/address-spaces.h"
#endif

#if __has_include("qemu/aio.h")
#include "qemu/aio.h"
#else
#include "block/aio.h"
#endif

/*
 * A TLS session's reader had an argument more (what an end without notice is),
 * its callbacks other types.  An end without notice is an error here.
 */
#ifdef QCRYPTO_TLS_SESSION_PREMATURE_TERMINATION
#define rnic_tls_session_read(session, buf, len) \
    qcrypto_tls_session_read(session, buf, len, NULL)
typedef void RnicTlsOctets;
#else
#define rnic_tls_session_read(session, buf, len) \
    qcrypto_tls_session_read(session, buf, len, false, NULL)
typedef char RnicTlsOctets;
#endif

/* QEMU has all variables zeroed, large ones, too. */
#ifndef QEMU_UNINITIALIZED
#if __has_attribute(uninitialized)
#define QEMU_UNINITIALIZED __attribute__((uninitialized))
#else
#define QEMU_UNINITIALIZED
#endif
#endif

#endif /* HW_RNIC_COMPAT_H */
