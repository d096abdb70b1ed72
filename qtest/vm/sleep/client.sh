# SPDX-License-Identifier: GPL-2.0-or-later
#
# The system sleeps, to memory (S3: the adapter loses its state), to disk, and to disk
# with a boot of the machine before it goes on, each time in the middle of a transfer of
# the kernel (NVMe) and of a program: what used the adapter ends or goes on, no task
# hangs, and the adapter works afterwards.

# The shared directory is away while the system sleeps, as Linux's virtio transport
# of 9p has no suspend. So this runs from a copy.
[ "$0" = /tmp/client.sh ] || {
	cp client.sh /tmp/client.sh
	cd /tmp || exit
	exec bash /tmp/client.sh >/tmp/output 2>&1
}

. /usr/lib/rnic/lib.sh
. /usr/lib/rnic/interrupted-traffic.sh

transport=/sys/bus/virtio/drivers/9pnet_virtio
shared=$(basename "$transport"/virtio*)

leave_shared_directory() {
	umount /mnt/run && echo "$shared" >$transport/unbind
}

come_back_to_shared_directory() {
	mountpoint -q /mnt/run && return
	[ -e "$transport/$shared" ] || echo "$shared" >$transport/bind
	mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none \
		run /mnt/run
}

# From the answer on, a reset ends QEMU again, as the power-off that follows wants it.
report() {
	come_back_to_shared_directory
	cat /tmp/output >/mnt/run/client.out
	signal over
	await over-done
}

# to_sleep STATE: what /sys/power/state takes.
to_sleep() {
	leave_shared_directory || return
	index=$(interface_index)
	asleep=no
	echo "$1" >/sys/power/state && asleep=yes
	come_back_to_shared_directory && same_interface "$step" "$index" &&
		[ $asleep = yes ]
}

# The program host wakes it.
suspend_to_memory() {
	echo deep >/sys/power/mem_sleep && to_sleep mem
}

# Linux writes the image, reads it again, and goes on from it.
suspend_to_disk() {
	echo test_resume >/sys/power/disk && to_sleep disk
}

# Linux writes the image and resets the machine; the initrd of the new boot goes on
# from the image (rnic_resume).
hibernate_and_boot() {
	echo reboot >/sys/power/disk && to_sleep disk
}

trap report EXIT
[ ! -e /mnt/run/.signal-boots-again ] ||
	fail "the machine has booted, and Linux has not gone on from its image"
await lent
# SeaBIOS does not bring the power management's registers back.
: >/run/no-power-off
modprobe nvme-rdma || fail "no NVMe initiator"
mkswap /dev/vdb && swapon /dev/vdb || fail "no swap space"
signal boots-again
await boots-again-done
cycle=1
while [ $cycle -le "$CYCLES" ]; do
	step_of_cycle memory suspend_to_memory
	step_of_cycle disk suspend_to_disk
	step_of_cycle boot hibernate_and_boot
	cycle=$((cycle + 1))
done
[ $steps -gt 0 ] || fail "RNIC_STEPS: no step is of '$STEPS'"
swapoff /dev/vdb
