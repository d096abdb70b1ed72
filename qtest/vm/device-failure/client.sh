# SPDX-License-Identifier: GPL-2.0-or-later
#
# The adapter fails, vanishes, is reset, rebound and replugged, each time in the middle
# of a transfer of the kernel (NVMe) and of a program: what used it ends or goes on, no
# task hangs, and an adapter that has failed is back in service by itself, within 10 s.

. /usr/lib/rnic/lib.sh

function=$(basename "$(readlink -f "/sys/class/infiniband/$(rdma_device)/device")")

# connect: a controller that is deleted takes its time.
connect() {
	echo "transport=rdma,traddr=$(address_of server),trsvcid=4420,nqn=test,nr_io_queues=1" \
		>/dev/nvme-fabrics
}

begin_traffic() {
	eventually 10 connect || fail "$1: cannot connect"
	eventually 30 found_disk || fail "$1: no disk"
	dd if=/dev/zero of="$disk" bs=128k count=1000000 oflag=direct \
		conv=notrunc status=none >/tmp/dd 2>&1 &
	kernel_traffic=$!
	rping -c -p 7174 -S 4096 -C 100000 -a "$(address_of server)" >/tmp/rping 2>&1 &
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

# services_begun: how often the driver has said that the device is back.
services_begun() {
	dmesg | grep -c "rnic $function: back in service"
}

is_back() {
	[ "$(services_begun)" -gt "$before" ]
}

stuck_tasks() {
	for task in /proc/[0-9]*/stat; do
		awk '$3 == "D" { print $2 }' "$task" 2>/dev/null
	done
}

nothing_stuck() {
	[ -z "$(stuck_tasks)" ]
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

set_up() {
	unbound=$function
	set_up_unbound
}

works() {
	rping -c -p 7174 -C 3 -a "$(address_of server)" >/tmp/works 2>&1
}

over() {
	eventually 20 works || fail "$1: the adapter does not work"
	say "$1: works again at $(now)"
}

# fails_by STEP COMMAND...: the driver brings the device back by itself.
fails_by() {
	step=$1
	shift
	begin_traffic "$step"
	before=$(services_begun)
	"$@"
	eventually 10 is_back || { dmesg | tail -n 30; fail "$step: not back in 10 s"; }
	set_up
	end_traffic "$step"
	over "$step"
}

# returns_by STEP COMMAND...: what the command does ends with a new device.
returns_by() {
	step=$1
	shift
	begin_traffic "$step"
	"$@" || fail "$step: $*"
	set_up
	end_traffic "$step"
	over "$step"
}

function_reset() {
	echo 1 >"/sys/bus/pci/devices/$function/reset"
}

rebind() {
	echo "$function" >/sys/bus/pci/drivers/rnic/unbind
	echo "$function" >/sys/bus/pci/drivers/rnic/bind
}

# The host takes the adapter away and gives another one.
replug() {
	signal "replug-$cycle"
	await "replugged-$cycle"
}

await lent
modprobe nvme-rdma || fail "no NVMe initiator"
fails_by fatal signal fatal
fails_by vanish signal vanish
cycle=1
while [ $cycle -le "$CYCLES" ]; do
	returns_by "reset $cycle" function_reset
	returns_by "rebind $cycle" rebind
	returns_by "replug $cycle" replug
	cycle=$((cycle + 1))
done
[ "$(services_begun)" = 2 ] || fail "the driver brought the device back too often"
signal over
