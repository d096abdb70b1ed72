# SPDX-License-Identifier: GPL-2.0-or-later
#
# Atomic operations, immediate data and Reads with several SGEs, posted by a kernel
# module; what verbs promise the kernel of posting, polling and notification, and what
# the driver refuses. A queue pair that stays in ERR costs nobody the adapter.

. /usr/lib/rnic/lib.sh

modprobe kverbs_self || fail "kverbs_self: $(dmesg | tail -n 5)"
rmmod kverbs_self || fail "kverbs_self does not go away"
say "queue pairs that stay in ERR"
modprobe kverbs_self lingering=1 || fail "kverbs_self: $(dmesg | tail -n 5)"
rmmod kverbs_self || fail "kverbs_self does not go away"
eventually 30 nothing_left || fail "$(objects_left)"

shows_driver V4-4 V5.1.3-2 V5.2-6 V5.3.1-1 V5.3.1-3 V6.1.1-2 V6.1.2-1 V6.3.4-1 \
	V6.3.5-1 V7.1-2 V7.2-5 V7.2.1-10 V7.2.1-12 V7.3.1.1-1 V7.3.2.1-1 \
	V7.3.2.1-2 V7.3.2.1-5 V7.3.2.5-1 V7.3.2.5-7 V7.3.2.5-9 V7.6.1.2-2 \
	V7.6.2.1-1 V7.8-8 V7.8-17 V8.1.1-2 V8.1.1-3 V8.1.1-4 V8.1.2.3-1 V8.1.3.1-1 \
	V8.1.3.2-8 V8.1.3.2-9 V8.1.3.2-11 V8.2.1-2 V8.2.1-3 V8.2.1-4 V8.2.1-9 \
	V8.2.1-11 V8.2.2.2-1 V8.2.2.2-5 V8.2.4-1 V8.2.4-10 V8.2.5-15 V9.2.1.2-2 V9.2.3.1-1 \
	V9.2.3.1-3 V9.2.4.1-2 V9.2.4.1-3 V9.2.4.1-5 V9.2.4.1-6 V9.2.5.1-2 \
	V9.2.5.1-3 V9.2.5.1-4 V9.2.5.1-14 V9.2.5.1-16 V9.2.5.2-1 V9.2.5.2-2 \
	V9.2.5.2-4 V9.2.5.3-13 V9.2.6.1-2 V9.2.6.1-3 V9.3.1.1-1 V9.3.1.1-19 \
	V9.3.1.1-21 V9.3.1.2-1 V9.3.2.2-1 V9.3.2.2-3
