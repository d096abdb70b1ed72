# SPDX-License-Identifier: GPL-2.0-or-later
#
# The driver gets by with any allocation that fails: allocations of its probe, of its
# return from a reset, and of its verbs for programs and for the kernel fail one at a
# time, and then some of those that connections make. What fails says so and leaves
# nothing behind; the kernel's checks see the rest.

. /usr/lib/rnic/lib.sh
. ./faults.sh.inc

# each_allocation STEP CHECK COMMAND...: until COMMAND makes no more of them. With
# growing steps, as many are alike: each of the first $fineness, every second one of
# the next $fineness, and so on. CHECK STATUS says whether all is as it should be after
# a fault.
each_allocation() {
	step=$1
	check=$2
	shift 2
	nth=1
	tried=0
	survived=0
	begun=$(now)
	while :; do
		count_faults
		before=$injected
		status=0
		with_fault $nth "$@" >/tmp/output 2>&1 || status=$?
		count_faults
		[ "$injected" -gt "$before" ] || break
		[ $status -ne 0 ] || survived=$((survived + 1))
		"$check" $status || {
			cat /tmp/output
			dmesg | tail -n 20
			fail "$step: allocation $nth (status $status)"
		}
		tried=$((tried + 1))
		last=$nth
		nth=$((nth + 1 + nth / fineness))
	done
	[ $status -eq 0 ] || { cat /tmp/output; fail "$step without a fault: $status"; }
	[ $tried -gt 0 ] || fail "$step: no allocation"
	say "$step: $tried allocations up to $last, $survived not needed; $begun to $(now)"
}

# wanted STEP
wanted() {
	echo "$1" | grep -qE "$STEPS" && : >/tmp/some-step
}

bind() {
	echo "$function" >/sys/bus/pci/drivers/rnic/bind
}

unbind() {
	echo "$function" >/sys/bus/pci/drivers/rnic/unbind
}

is_bound() {
	[ -e "/sys/bus/pci/drivers/rnic/$function" ]
}

# Bound as a whole, or not at all.
check_probe() {
	if [ "$1" -eq 0 ]; then
		[ -e "$rdma" ] && [ -e "$interfaces" ] && unbind
	else
		! is_bound && [ ! -e "$rdma" ] && [ ! -e "$interfaces" ]
	fi
}

reset() {
	echo 1 >"/sys/bus/pci/devices/$function/reset"
}

# The driver tries again by itself.
check_reset() {
	[ -e "$rdma" ] || eventually 10 [ -e "$rdma" ]
}

# It ends by itself, with a status of its own.
check_program() {
	[ "$1" -lt 124 ] && eventually 10 nothing_left
}

load() {
	exec modprobe kverbs_self
}

check_module() {
	[ "$1" -ne 0 ] || rmmod kverbs_self
	eventually 10 nothing_left
}

run() {
	exec "$@" </dev/null
}

# programs: each one that makes objects of some kind, with what keeps it short. Regions of
# a process's own memory are in most of them.
programs() {
	cat <<-END
	attributes-self $self
	cq-options-self $self
	domains-self $self
	memory-self --no-keys $self
	post-self $self
	region-self --kind dma-buf --size 2M --number 2 $self
	rereg-self --number 1 $self
	resize-self --number 1 $self
	resize-self --srq --number 1 $self
	srq-self --number 1 $self
	window-self --type 1 --number 1 $self
	window-self --type 2 --number 1 $self
	loopback-self --size 1M $self
	END
}

# Requests and answers with private data, which iw_cm copies: the driver is told when
# it cannot.
exchange_private_data() {
	timeout -k 2 20 cm-reject --server --bind "$self" --time-limit 5 \
		>/dev/null 2>&1 &
	server=$!
	sleep 0.5
	timeout -k 2 20 cm-reject --time-limit 5 "$self" >/dev/null 2>&1
	kill $server
	wait $server
} 2>/dev/null

# Connections: the events of the adapter come to kernel threads.
connect_with_faults() {
	count_faults
	before=$injected
	probability_of_faults 20
	for try in 1 2 3 4 5 6 7 8 9 10; do
		timeout 10 rping -s -a "$self" -C 1 >/dev/null 2>&1 &
		server=$!
		sleep 0.5
		timeout 10 rping -c -a "$self" -C 1 >/dev/null 2>&1
		timeout 10 ibv_rc_pingpong -g 1 -n 1 -d "$(rdma_device)" >/dev/null 2>&1
		wait $server
		exchange_private_data
	done
	probability_of_faults 0
	eventually 30 nothing_left || fail "after connections: $(objects_left)"
	count_faults
	say "connections: $((injected - before)) faults up to $(now)"
}

self=$(address_of alone)
function=$(basename "$(readlink -f "/sys/class/infiniband/$(rdma_device)/device")")
unbound=$function
interfaces=/sys/bus/pci/devices/$function/net
rdma=/sys/bus/pci/devices/$function/infiniband
modprobe ib_uverbs rdma_ucm
prepare_faults

fineness=${FINENESS:-10}
if wanted probe; then
	unbind
	each_allocation probe check_probe bind
	set_up_unbound
fi
if wanted reset; then
	each_allocation reset check_reset reset
	has_rdma_device || fail "no RDMA device after the resets"
fi
# A process takes long to start on a debug kernel.
fineness=${FINENESS:-3}
programs | while read -r program arguments; do
	wanted "$program" || continue
	# shellcheck disable=SC2086 # words
	each_allocation "$program" check_program run "$program" $arguments || exit
done || exit
if wanted kernel; then
	each_allocation kernel check_module load
	rmmod kverbs_self
fi
! wanted connections || connect_with_faults
[ -e /tmp/some-step ] || fail "no step is named as RNIC_FAULT_STEPS wants: $STEPS"
loopback-self --size 1M "$self" || fail "loopback-self at last"
