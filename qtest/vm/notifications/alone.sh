# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a process is told of completions, and when.

. /usr/lib/rnic/lib.sh

notify-self "$(rdma_device)" || fail "notify-self"
eventually 30 nothing_left || fail "$(objects_left)"

shows V8.2.5-1 V8.2.5-3 V8.2.5-4 V8.2.5-5 V8.2.5-14 V9.2.3.1-1 V9.2.3.1-4 \
	V9.3.2.2-2 V9.3.2.2-4 V9.4.1-1 V9.4.1-2 V9.4.1-4 V9.4.1-5
shows_provider V4-4 V8.1.2.1-4 V8.2.2.1-2 V8.2.4-1 V8.2.5-8 V8.2.5-10 V8.2.5-12 \
	V8.2.5-13 V9.3.1.1-3 V9.3.2.1-4 V9.3.2.2-1 V9.3.2.2-3 V9.3.2.2-5 V9.5.2-1 \
	R3.2-1 R3.2-2
