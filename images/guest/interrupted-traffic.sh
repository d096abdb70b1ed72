# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shell functions for a guest whose adapter is taken away in the middle of a transfer
# of the kernel (NVMe, a disk of the guest "server") and of a program (rping with it).
# What used the adapter ends or goes on, no task hangs, and it works afterwards.
# Source /usr/lib/rnic/interrupted-traffic.sh after lib.sh; the server sources
# /usr/lib/rnic/interrupted-server.sh.

function=$(basename "$(readlink -f "/sys/class/infiniband/$(rdma_device)/device")")

# connect: a controller that is deleted takes its time.
connect() {
	echo "transport=rdma,traddr=$(address_of server),trsvcid=4420,nqn=test,nr_io_queues=1" \
		>/dev/nvme-fabrics
}

# The script measures time: what it runs goes before all traffic.
begin_traffic() {
	eventually 10 connect || fail "$1: cannot connect"
	eventually 30 found_disk || fail "$1: no disk"
	nice -n 19 dd if=/dev/zero of="$disk" bs=128k count=1000000 oflag=direct \
		conv=notrunc status=none >/tmp/dd 2>&1 &
	kernel_traffic=$!
	nice -n 19 rping -c -p 7174 -S 4096 -C 100000 -a "$(address_of server)" >/tmp/rping 2>&1 &
	user_traffic=$!
	eventually 60 transferring || fail "$1: no traffic"
	kill -0 $user_traffic || { cat /tmp/rping; fail "$1: no traffic of a program"; }
}

found_disk() {
	for disk in /dev/nvme*n1; do
		[ -b "$disk" ] && return
	done
	return 1
}

# end_traffic STEP: dd writes for ever, unless its disk fails or goes.
end_traffic() {
	kill $user_traffic 2>/dev/null
	wait $user_traffic
	kill $kernel_traffic 2>/dev/null
	wait $kernel_traffic
	eventually 10 nothing_stuck || fail "$1: stuck: $(stuck_tasks)"
	for controller in /sys/class/nvme/nvme*/delete_controller; do
		[ ! -e "$controller" ] || echo 1 >"$controller"
	done
}

works() {
	rping -c -p 7174 -C 3 -a "$(address_of server)" >/tmp/works 2>&1
}

over() {
	eventually 20 works || fail "$1: the adapter does not work"
	say "$1: works again at $(now)"
}

# same_interface STEP INDEX: it is the one with that index, with its address.
same_interface() {
	[ "$(interface_index)" = "$2" ] && return
	ip address show
	fail "$1: another interface, or no address"
}

# returns_by STEP COMMAND...: what the command does ends with a device that works.
returns_by() {
	step=$1
	shift
	begin_traffic "$step"
	"$@" || fail "$step: $*"
	eventually 30 has_rdma_device || fail "$step: no RDMA device"
	end_traffic "$step"
	over "$step"
}

# step_of_cycle STEP COMMAND...: one of those that STEPS matches; counts in steps.
steps=0
step_of_cycle() {
	echo "$1" | grep -Eq "$STEPS" || return 0
	step="$1 $cycle"
	steps=$((steps + 1))
	shift
	returns_by "$step" "$@"
}
