# SPDX-License-Identifier: GPL-2.0-or-later
#
# A program that reads no events learns by posting that its adapter has failed: once
# by a fault of the adapter, once because the driver is taken off it. A user in the
# kernel that asks a failed adapter for objects and a connection is told ENETDOWN: the
# kernel's RPC tries again after that, and gives up after EIO. What it has posted comes
# back flushed, and its queue pairs end as those of an adapter that works. The driver
# waits until the user has freed the PD of its queue pairs, and no longer: it keeps another
# PD. What a program takes back while its adapter fails is not written to any more.

. /usr/lib/rnic/lib.sh

adapter=$(rdma_device)
unbound=$(basename "$(readlink -f "/sys/class/infiniband/$adapter/device")")

is_ready() {
	grep -q ready /tmp/program
}

# services_begun: how often the driver has said that the adapter is back.
services_begun() {
	dmesg | grep -c "rnic $unbound: back in service"
}

is_back() {
	[ "$(services_begun)" -gt "$before" ]
}

has_ipv4_gid() {
	grep -q ':ffff:' "/sys/class/infiniband/$adapter/ports/1/gids/"*
}

# The next command after the host's rule is the fault.
fail_adapter() {
	before=$(services_begun)
	signal "ready-$1"
	await "rule-$1"
	counter "$adapter" cqes >/dev/null || true
	eventually 30 is_back || fail "the adapter does not come back"
}

rebind() {
	echo "$unbound" >/sys/bus/pci/drivers/rnic/unbind
	echo "$unbound" >/sys/bus/pci/drivers/rnic/bind
	set_up_unbound
}

# after COMMAND: what it does to the adapter of the program.
after() {
	say "$1"
	eventually 10 has_ipv4_gid || fail "the adapter has no GID of its address"
	failed-self "$adapter" >/tmp/program &
	program=$!
	eventually 30 is_ready || fail "failed-self is not ready"
	$1
	wait $program || fail "failed-self, after $1"
	eventually 30 has_rdma_device || fail "no RDMA device after $1"
}

has_let_go() {
	dmesg | grep -q 'kverbs_failed: let go'
}

# log_time TEXT: when the log has last had it, in hundredths of a second.
log_time() {
	dmesg | sed -n "/$1/s/^\[ *\([0-9]*\)\.\([0-9][0-9]\).*/\1\2/p" | tail -n 1
}

# The driver looks many times in a second.
goes_at_once() {
	let_go=$(log_time "let go: ")
	gone=$(log_time "next try in")
	[ -n "$let_go" ] && [ -n "$gone" ] || fail "the log has no times"
	waited=$((gone - let_go))
	say "the adapter goes $waited hundredths of a second after that"
	[ $waited -ge 0 ] && [ $waited -lt $((200 * RNIC_SLOWNESS)) ] ||
		fail "the driver waits for a user that has let go"
}

# is_answered CALL
is_answered() {
	dmesg | grep -q "kverbs_failed: $1: -100" ||
		fail "no ENETDOWN: $(dmesg | grep kverbs_failed)"
}

kernel_asks() {
	say "a user in the kernel"
	eventually 10 has_ipv4_gid || fail "the adapter has no GID of its address"
	modprobe kverbs_failed peer="$(address_of alone)" ||
		fail "kverbs_failed: $(dmesg | tail -n 5)"
	fail_adapter kernel
	eventually 10 has_let_go || fail "kverbs_failed has not let go"
	for call in ib_alloc_pd ib_alloc_cq ib_create_qp ib_alloc_mr rdma_connect; do
		is_answered $call
	done
	dmesg | grep -q 'kverbs_failed: flushed: all' ||
		fail "not all is flushed: $(dmesg | grep kverbs_failed)"
	dmesg | grep -q 'kverbs_failed: let go: in time' ||
		fail "the driver does not wait: $(dmesg | grep 'let go')"
	goes_at_once
	rmmod kverbs_failed || fail "kverbs_failed does not go away"
}

# has_written: late-writes is at it.
has_written() {
	grep -q writing /tmp/late
}

failure_begins() {
	dmesg | grep -q 'slow_failure: a failure begins'
}

failures() {
	dmesg | grep -c 'out of service'
}

# The driver gives no memory back that the adapter still writes to. A machine that is busy
# may not look before the failure is over: that shows nothing.
give_back_meanwhile() {
	for try in 1 2 3 4 5; do
		give_back_once && return
	done
	say "not shown: on this machine the failure is over before the program looks"
}

# Fails if the failure was over.
give_back_once() {
	say "memory is given back while the adapter fails"
	eventually 10 has_ipv4_gid || fail "the adapter has no GID of its address"
	dmesg -C
	modprobe slow_failure || fail "slow_failure"
	before=$(services_begun)
	[ -p /tmp/input ] || mkfifo /tmp/input
	late-writes "$adapter" </tmp/input >/tmp/late 2>&1 &
	program=$!
	exec 3>/tmp/input
	eventually 30 has_written || fail "late-writes does not write"
	devlink health test "pci/$unbound" reporter device 3>&- &
	eventually 10 failure_begins || fail "no failure begins"
	exec 3>&-
	wait $program || { cat /tmp/late; fail "late-writes"; }
	over=$(failures)
	eventually 30 is_back || fail "the adapter does not come back"
	rmmod slow_failure || fail "slow_failure stays"
	[ "$over" = 0 ]
}

after "fail_adapter program"
after rebind
kernel_asks
# The debug kernel has no kprobes.
[ "$RNIC_KERNEL" = debug ] || give_back_meanwhile
eventually 30 nothing_left || fail "$(objects_left)"

shows V9.5.3-37
