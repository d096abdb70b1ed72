# SPDX-License-Identifier: GPL-2.0-or-later
#
# What has a number that something else had before is told nothing that is left of the
# earlier one: no completions of a QP, no completion events and no asynchronous events
# of a CQ.

. /usr/lib/rnic/lib.sh
. ./lie.sh.inc

modprobe kverbs_self reused=1 || fail "kverbs_self: $(dmesg | tail -n 5)"
rmmod kverbs_self || fail "kverbs_self does not go away"
# No interrupt of the first completion vector: the driver looks for events now and then.
lie "[ $(json_rule on=interrupt object=2 do=lose times=0) ]"
by-hand-reused "$(rdma_device)" || fail "by-hand-reused"
await_lies 0
[ "$(done_of_answer)" -gt 0 ] || fail "there was no interrupt to lose"
signal over
eventually 30 nothing_left || fail "$(objects_left)"
