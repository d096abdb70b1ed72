# SPDX-License-Identifier: GPL-2.0-or-later
#
# A program that reads no events learns by posting that its adapter has failed: once
# by a fault of the adapter, once because the driver is taken off it.

. /usr/lib/rnic/lib.sh

adapter=$(rdma_device)
unbound=$(basename "$(readlink -f "/sys/class/infiniband/$adapter/device")")

is_ready() {
	grep -q ready /tmp/program
}

is_back() {
	dmesg | grep -q "rnic $unbound: back in service"
}

has_ipv4_gid() {
	grep -q ':ffff:' "/sys/class/infiniband/$adapter/ports/1/gids/"*
}

# The next command after the host's rule is the fault.
fail_adapter() {
	signal ready
	await rule
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

after fail_adapter
after rebind
eventually 30 nothing_left || fail "$(objects_left)"
