# SPDX-License-Identifier: GPL-2.0-or-later
#
# What has a number that something else had before is told nothing that is left of the
# earlier one: no completions of a QP, no completion events and no asynchronous events
# of a CQ.

. /usr/lib/rnic/lib.sh

modprobe kverbs_self reused=1 || fail "kverbs_self: $(dmesg | tail -n 5)"
rmmod kverbs_self || fail "kverbs_self does not go away"
signal silent
await silent-now
by-hand-reused "$(rdma_device)" || fail "by-hand-reused"
signal over
await counted
eventually 30 nothing_left || fail "$(objects_left)"
