# SPDX-License-Identifier: GPL-2.0-or-later
#
# The adapter says of a Send of the kernel that is not signaled that it has succeeded,
# which a user of the kernel's verbs never expects. The driver takes the adapter out of
# service, and the Send has failed; so has one in ERR, of which only a flush is expected.

. /usr/lib/rnic/lib.sh
. ./lie.sh.inc

# qpn: of the queue pair, from the module; empty: not yet.
qpn() {
	log | sed -n 's/.*kverbs_self: unsignaled: QP //p'
}

has_qpn() {
	[ -n "$(qpn)" ]
}

# check NAME PARAMETERS FORGERY: words of the module, and of the rule.
check() {
	begin_log "$1"
	# shellcheck disable=SC2086 # words
	modprobe kverbs_self unsignaled=1 $2 &
	module=$!
	eventually 30 has_qpn || fail "$1: no queue pair"
	# shellcheck disable=SC2086 # words
	lie "[ $(json_rule on=completion "object=$(qpn)" do=forge $3) ]"
	echo 1 >/sys/module/kverbs_self/parameters/go
	wait $module || fail "$1: kverbs_self: $(log)"
	await_lies 0
	[ "$(done_of_answer)" = 1 ] || fail "$1: the adapter has not lied"
	log | grep -q 'out of service: it completed with success what is not signaled' ||
		fail "$1: the driver has not found out: $(log)"
	eventually 60 in_service || fail "$1: the adapter does not come back"
	rmmod kverbs_self || fail "$1: kverbs_self does not go away"
}

# The low half of the wr_id of the first work request is 0.
check in-rts "" value=0
# The status of success.
check in-error in_error=1 "offset=28 size=1 value=1"
signal over
eventually 30 nothing_left || fail "$(objects_left)"
