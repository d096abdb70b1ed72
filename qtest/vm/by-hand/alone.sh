# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a program makes of verbs with QPs that it connects by hand within one guest: the
# life of all objects, rights of QPs, regions and windows, errors, lists of SGEs. The
# adapter is never taken out of service.

. /usr/lib/rnic/lib.sh

device=$(rdma_device)
for program in by-hand-states by-hand-life by-hand-rights by-hand-errors by-hand-reads \
	by-hand-windows by-hand-order bound-race; do
	say "$program"
	$program "$device" || fail "$program"
	eventually 30 nothing_left || fail "$(objects_left)"
	! dmesg | grep "out of service" || fail "$program: the adapter has failed"
done

shows V5.1.1.1-1 V5.1.1.2-1 V5.2-3 V5.2.2-1 V5.3.1-2 V5.3.1-5 V5.3.4-1 V5.3.4-2 \
	V6.1.1-4 V6.1.1-7 V6.1.3-4 V6.1.3-9 V6.1.3-11 V6.1.4-3 V6.1.4-4 V6.2-1 V6.2-2 \
	V6.2.1-4 V6.2.1.2-1 V6.2.1.3-1 V6.2.2-4 V6.2.2.3-1 V6.2.2.3-4 V6.2.3-11 \
	V6.2.4-7 V6.2.4-9 V6.2.4-10 V6.3.8-1 V6.6.2.2-2 V7.3.2-1 V7.3.2.2-2 \
	V7.3.2.3-4 V7.3.2.3-6 V7.3.2.3-8 V7.3.2.3-9 V7.4.2-1 V7.4.2-3 V7.4.2-4 V7.4.2-5 \
	V7.4.3-1 V7.6.3-2 V7.9-8 V7.10.2-1 V7.10.2-6 V7.10.2-12 V7.10.4-4 V7.10.4-5 \
	V7.10.6.2-5 V8.1.2.3.1-1 V8.2.2-8 V8.2.4-9 V8.3.1-5 V8.3.1-6 V8.3.3-5 \
	V9.2.2.2-2 V9.2.3.1-2 V9.2.3.4-1 V9.2.3.4-2 V9.2.4.1-4 V9.2.5.1-1 \
	V9.2.5.1-6 V9.2.5.1-7 V9.2.5.2-4 V9.2.5.3-3 V9.2.5.3-4 V9.2.5.3-12 \
	V9.2.5.4-2 V9.2.6-2 V9.2.6.2-2 V9.2.6.2-7 V9.2.6.2-8 V9.2.6.2-9 V9.2.6.4-3 \
	V9.2.6.4-4 V9.2.6.5-3 V9.3.1.1-15 V9.3.1.1-16 V9.3.1.1-17 V9.4.2-3 V10.3-5 \
	R3.2-7 R7.1-1 R8.1.1-5
shows_provider V6.1.4-6 V6.2.1-2 V6.2.2-2 V6.2.4-2 V6.2.4-5 V6.5-4 V7.2.1-9 \
	V7.2.1-12 V7.10.2-11 V7.10.6.1-7 V8.1.2.3-1 V8.1.3.2-7 V8.1.3.2-8 V8.1.3.3-1 \
	V8.2.1-6 V8.2.1-11 V8.2.2.1-6 V8.2.2.2-1 V8.2.2.2-5 V8.2.4-2 V8.2.4-4 \
	V8.2.4-10 V9.3.1.1-4 V9.3.1.1-21 \
	V9.3.1.1-23 V9.3.1.2-5 V9.3.2.1-1 V9.3.2.1-3 V9.3.2.1-6 V9.5.2-2 V10.4.3-1
