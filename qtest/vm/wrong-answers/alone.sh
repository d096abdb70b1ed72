# SPDX-License-Identifier: GPL-2.0-or-later
#
# The adapter's answers about itself and its queue pairs are wrong. A limit of nothing,
# where something is needed, is told, and the driver does not take the adapter; of a
# limit that is too large it uses what it can, or what the adapter then refuses fails; a
# state that does not exist is an error.

. /usr/lib/rnic/lib.sh
. ./lie.sh.inc
. ./traffic.sh.inc

query_device=1
query_qp=16
driver=/sys/bus/pci/drivers/rnic

# answer_wrongly COMMAND OFFSET SIZE VALUE: in what the command answers in memory.
answer_wrongly() {
	lie "[ $(json_rule on=admin "kind=$1" times=0 do=forge bulk=true \
		"offset=$2" "size=$3" "value=$4") ]"
}

# Offset and size in struct rnic_device_attr | what the driver says of none.
needed_limits() {
	cat <<-'END'
	0 8 regions of the kernel's pages
	8 8 room in regions
	24 4 QPs
	28 4 room in send queues
	32 4 room in receive queues
	36 4 room in S-RQs
	40 4 SGEs of Sends
	44 4 SGEs of Writes
	48 4 SGEs of receives
	52 4 SGEs of Reads
	60 4 CQs
	64 4 room in CQs
	72 4 STags
	76 4 windows
	80 4 PDs
	84 4 S-RQs
	88 4 pages to fast-register
	112 4 room in messages
	128 4 clock
	END
}

# The adapter has answered wrongly.
has_lied() {
	await_lies 0
	[ "$(done_of_answer)" -gt 0 ]
}

try_nothing() {
	needed_limits >/tmp/limits
	while read -r offset size what <&3; do
		begin_log "no $what"
		answer_wrongly $query_device "$offset" "$size" 0
		! echo "$unbound" 2>/dev/null >$driver/bind ||
			fail "the driver takes an adapter with no $what"
		log | grep -q "the device says it has no $what\$" ||
			fail "no $what: $(log)"
		log_is_clean || fail "no $what: complaints of the kernel"
	done 3</tmp/limits
}

# All that the driver counts with, all bits set.
large_limits() {
	needed_limits
	cat <<-'END'
	56 4 inline data
	68 4 EQs
	92 4 IRD
	96 4 ORD
	100 4 IRD of all
	108 4 listeners
	116 4 MTU
	120 4 order of S-RQs
	124 4 moderation of events
	END
}

# rping asks for all the Reads there are.
refused_for() {
	case $1 in
	IRD | ORD) grep -q 'rdma_create_qp: Invalid argument' /tmp/short ;;
	*) false ;;
	esac
}

no_harm() {
	ibv_devinfo -v >/tmp/devinfo && log_is_clean && ! failed_since
}

try_too_much() {
	large_limits >/tmp/limits
	while read -r offset size what <&3; do
		begin_log "all of $what"
		answer_wrongly $query_device "$offset" "$size" \
			0xffffffffffffffff
		bind_driver
		{ short_rping || refused_for "$what"; } && no_harm && has_lied ||
			fail "all of $what: $(cat /tmp/short; log)"
		stop_short_rping || fail "rping does not end"
		unbind_driver
	done 3</tmp/limits
}

# A state that does not exist: offset of state in struct rnic_qp_attr.
answer_state() {
	answer_wrongly $query_qp 36 1 "$1"
}

both_ends_are_in_rts() {
	[ "$(rdma resource show qp | grep -c 'state RTS')" -ge 2 ]
}

try_states() {
	start_program_traffic || fail "no traffic"
	for state in 5 31 200 255; do
		begin_log "state $state"
		answer_state $state
		rdma -dd resource show qp >/tmp/qps 2>&1
		! by-hand-states "$(rdma_device)" >/tmp/states 2>&1 ||
			fail "state $state is not noticed"
		grep -q 'Input/output error' /tmp/states ||
			fail "state $state: $(cat /tmp/states)"
		log_is_clean || fail "state $state: complaints of the kernel"
		! failed_since || fail "state $state: $(log)"
	done
	tell_the_truth
	both_ends_are_in_rts ||
		fail "no traffic any more: $(rdma resource show qp)"
	stop_traffic || fail "rping does not end"
	by-hand-states "$(rdma_device)" >/tmp/states 2>&1 ||
		fail "$(cat /tmp/states)"
}

try_states
unbind_driver
try_nothing
try_too_much
tell_the_truth
bind_driver
signal over
eventually 30 nothing_left || fail "$(objects_left)"
