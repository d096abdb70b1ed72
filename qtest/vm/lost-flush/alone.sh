# SPDX-License-Identifier: GPL-2.0-or-later
#
# The adapter loses the last completion of a queue pair of the kernel in ERR: a drain, the
# end of a user in the kernel, would wait for it for ever. The driver takes the adapter
# out of service, which brings it, although other queue pairs keep its CQ busy and nothing
# else is outstanding; and the adapter comes back.

. /usr/lib/rnic/lib.sh
. ./lie.sh.inc

# qpn: of the queue pair, from the module; empty: not yet.
qpn() {
	dmesg | sed -n 's/.*kverbs_self: unflushed: QP //p'
}

has_qpn() {
	[ -n "$(qpn)" ]
}

others() {
	dmesg | sed -n 's/.*kverbs_self: unflushed: \(.*\) other completions/\1/p'
}

modprobe kverbs_self unflushed=1 &
module=$!
eventually 30 has_qpn || fail "no queue pair"
lie "[ $(json_rule on=completion "object=$(qpn)" do=lose times=0) ]"
echo 1 >/sys/module/kverbs_self/parameters/go
wait $module || fail "kverbs_self: $(dmesg | tail -n 5)"
dmesg | grep -q 'out of service: it does not flush a queue pair' ||
	fail "the driver has not found out: $(dmesg | tail -n 5)"
[ "$(others)" -gt 1000 ] || fail "the CQ was not busy: $(others) completions"
eventually 60 in_service || fail "the adapter does not come back"
rmmod kverbs_self || fail "kverbs_self does not go away"
eventually 30 nothing_left || fail "$(objects_left)"
await_lies 0
[ "$(done_of_answer)" = 1 ] ||
	fail "the adapter has lost $(done_of_answer) completions"
signal over
