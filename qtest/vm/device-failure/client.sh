# SPDX-License-Identifier: GPL-2.0-or-later
#
# The adapter fails, vanishes, is reset, loses the link of its bus, is rebound and
# replugged, each time in the middle of a transfer of the kernel (NVMe) and of a
# program: what used it ends or goes on, no task hangs, and an adapter that has failed
# is back in service by itself, within 10 s.

. /usr/lib/rnic/lib.sh
. /usr/lib/rnic/interrupted-traffic.sh

# services_begun: how often the driver has said that the device is back.
services_begun() {
	dmesg | grep -c "rnic $function: back in service"
}

is_back() {
	[ "$(services_begun)" -gt "$before" ]
}

# fails_by STEP COMMAND...: the driver brings the device back by itself.
fails_by() {
	step=$1
	shift
	begin_traffic "$step"
	before=$(services_begun)
	index=$(interface_index)
	"$@"
	asked=$(now)
	within 10 is_back || { dmesg | tail -n 30; fail "$step: not back in 10 s"; }
	say "$step: asked for at $asked, back at $(now)"
	same_interface "$step" "$index"
	end_traffic "$step"
	over "$step"
}

function_reset() {
	resets=$((resets + 1))
	index=$(interface_index)
	echo 1 >"/sys/bus/pci/devices/$function/reset" &&
		same_interface "$step" "$index"
}

rebind() {
	unbind_driver
	bind_driver
}

# The host takes the adapter away and gives another one.
replug() {
	signal "replug-$cycle"
	await "replug-$cycle-done"
	unbound=$function
	set_up_unbound
}

await lent
modprobe nvme-rdma || fail "no NVMe initiator"
fails_by fatal signal fatal
fails_by vanish signal vanish
# The kernel resets the link below the port that reports it.
bus_error() {
	resets=$((resets + 1))
	index=$(interface_index)
	before=$(services_begun)
	signal "bus-error-$cycle"
	await "bus-error-$cycle-done"
	eventually 20 is_back &&
		same_interface "$step" "$index"
}

recoveries() {
	dmesg | grep -c 'device recovery successful'
}

has_recovered() {
	[ "$(recoveries)" -gt "$recovered" ]
}

# An error of the bus that is not fatal: the driver is told, and the device works on.
told_error() {
	before=$(services_begun)
	recovered=$(recoveries)
	signal "told-error-$cycle"
	await "told-error-$cycle-done"
	eventually 20 has_recovered && [ "$(services_begun)" = "$before" ]
}

cycle=1
resets=0
while [ $cycle -le "$CYCLES" ]; do
	step_of_cycle "reset" function_reset
	step_of_cycle "bus error" bus_error
	step_of_cycle "error told" told_error
	step_of_cycle "rebind" rebind
	step_of_cycle "replug" replug
	cycle=$((cycle + 1))
done
[ $steps -gt 0 ] || fail "RNIC_STEPS: no step is of '$STEPS'"
# The two failures, and each reset and bus error.
[ "$(services_begun)" = $((2 + resets)) ] ||
	fail "the driver has brought the device back $(services_begun) times"
signal over
