# SPDX-License-Identifier: GPL-2.0-or-later
#
# Processes apart from each other: one tries everything against another, which moves
# data all the time. What is the kernel's alone, the kernel may do.

. /usr/lib/rnic/lib.sh

intruder "$(rdma_device)" || fail "intruder"
eventually 30 nothing_left || fail "$(objects_left)"
modprobe kverbs_self || fail "kverbs_self: $(dmesg | tail -n 5)"
rmmod kverbs_self || fail "kverbs_self does not go away"
eventually 30 nothing_left || fail "$(objects_left)"

shows V5-1 V5.1-2 V6.1.1-5 V6.1.1-6 V6.3.6-4 V7.2.1-5 V7.3.2.5-11 V7.5-1 \
	V8.1.3.2.1-1 V9.1-1 V9.1-3 \
	V9.2.5.1-12 V10-2 V10.3-6 V10.6-1 V10.6-2 V10.6-3 V10.6-4 \
	R8.1.1-9 R8.1.2-1 R8.1.2-2 R8.1.2-3
shows_provider V8.1.1-1
