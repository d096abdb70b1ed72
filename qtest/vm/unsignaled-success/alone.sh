# SPDX-License-Identifier: GPL-2.0-or-later
#
# The adapter says of a Send of the kernel that is not signaled that it has succeeded,
# which a user of the kernel's verbs never expects. The driver takes the adapter out of
# service: the Send has failed, and the next one is flushed.

. /usr/lib/rnic/lib.sh
. ./lie.sh.inc

# qpn: of the queue pair, from the module; empty: not yet.
qpn() {
	dmesg | sed -n 's/.*kverbs_self: unsignaled: QP //p'
}

has_qpn() {
	[ -n "$(qpn)" ]
}

is_back() {
	dmesg | grep -q 'rnic .*: back in service'
}

modprobe kverbs_self unsignaled=1 &
module=$!
eventually 30 has_qpn || fail "no queue pair"
# The low half of the wr_id of its first work request is 0.
lie "[ $(json_rule on=completion "object=$(qpn)" do=forge value=0) ]"
echo 1 >/sys/module/kverbs_self/parameters/go
wait $module || fail "kverbs_self: $(dmesg | tail -n 5)"
await_lies 0
[ "$(done_of_answer)" = 1 ] || fail "the adapter has not lied"
dmesg | grep -q 'out of service: it completed with success what is not signaled' ||
	fail "the driver has not found out: $(dmesg | tail -n 5)"
eventually 60 is_back || fail "the adapter does not come back"
rmmod kverbs_self || fail "kverbs_self does not go away"
eventually 30 nothing_left || fail "$(objects_left)"
signal over
