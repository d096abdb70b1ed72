# SPDX-License-Identifier: GPL-2.0-or-later
#
# A file system on a disk by NVMe, one by iSCSI, a directory by NFS, and a program, all
# over RDMA: when the client's adapter fails, and then when the server's does, it is
# back within 10 s, no task hangs, all three go on, and no octet is wrong.

. /usr/lib/rnic/lib.sh
. ./iscsi.sh.inc
. ./nfs.sh.inc
. ./recoveries.sh.inc

kinds="nvme iscsi nfs"

# disk_of KIND: its device.
disk_of() {
	case $1 in
	nvme) ls /dev/nvme*n1 ;;
	iscsi) ls /dev/sd? ;;
	esac 2>/dev/null
}

# mount_disk KIND
mount_disk() {
	eventually 30 disk_of "$1" || fail "$1: no disk"
	mkfs.ext4 -q "$(disk_of "$1")" || fail "$1: no file system"
	mkdir -p "/mnt/$1"
	mount "$(disk_of "$1")" "/mnt/$1" || fail "$1: cannot mount"
}

attach_nvme_disk() {
	modprobe nvme-rdma || fail "no NVMe initiator"
	options="transport=rdma,traddr=$(address_of server),trsvcid=4420,nqn=test"
	echo "$options,nr_io_queues=1,reconnect_delay=1" >/dev/nvme-fabrics ||
		fail "nvme: cannot connect"
}

# use_mount KIND: writes and reads files of new contents. A difference, or an error,
# is a mistake; patience is not.
use_mount() {
	round=0
	while [ -e /tmp/using ]; do
		round=$((round + 1))
		yes "$1 $round" | head -c 204800 >"/tmp/data-$1"
		dd if="/tmp/data-$1" of="/mnt/$1/data" bs=102400 conv=fsync &&
			dd if="/mnt/$1/data" bs=102400 iflag=direct |
			cmp - "/tmp/data-$1" || break
		echo $round >"/tmp/rounds-$1"
	done
	[ ! -e /tmp/using ] || : >"/tmp/wrong-$1"
}

rounds_of() {
	cat "/tmp/rounds-$1" 2>/dev/null || echo 0
}

# goes_on_or_ends KIND ROUNDS: two rounds more are at least one from beginning to end.
goes_on_or_ends() {
	[ -e "/tmp/wrong-$1" ] || [ "$(rounds_of "$1")" -ge $(($2 + 2)) ]
}

use_adapter() {
	while [ -e /tmp/using ]; do
		rping -c -a "$(address_of server)" -p 7174 -C 1000000
	done >/tmp/rping 2>&1
}

# tell KIND: all that is known of one that does not go on.
tell() {
	cat "/tmp/use-$1"
	echo "stuck: $(stuck_tasks)"
	grep . /tmp/rounds-*
	grep . "/sys/class/infiniband/$(rdma_device)/ports/1/hw_counters/"*
	echo w >/proc/sysrq-trigger
	dmesg | tail -n 120
	fail "$step: $1 does not go on"
}

all_go_on() {
	for kind in $kinds; do
		before=$(rounds_of "$kind")
		eventually 30 goes_on_or_ends "$kind" "$before" || tell "$kind"
		[ ! -e "/tmp/wrong-$kind" ] || tell "$kind"
	done
	say "$step: all go on at $(now)"
}

# came_back NAME TIMES: its driver has brought the device back more often than that.
came_back() {
	[ "$(recoveries_of "$1")" -gt "$2" ]
}

works() {
	rping -c -a "$(address_of server)" -p 7174 -C 3
}

# fails_at NAME: the adapter of that guest.
fails_at() {
	step="the $1's adapter fails"
	say "$step at $(now)"
	before=$(recoveries_of "$1")
	signal "fail-$1"
	within 10 came_back "$1" "$before" || { dmesg | tail -n 40; fail "$step: not back"; }
	say "$step: back at $(now)"
	all_go_on
	eventually 20 works || fail "$step: no program works"
}

await lent
attach_nvme_disk
attach_iscsi_disk
mount_disk nvme
mount_disk iscsi
mount_directory /mnt/nfs
count_recoveries &
: >/tmp/using
for kind in $kinds; do
	use_mount $kind >/tmp/use-$kind 2>&1 &
done
use_adapter &
step="before any failure"
all_go_on
fails_at client
fails_at server
rm /tmp/using
pkill rping
eventually 60 nothing_stuck || fail "stuck: $(stuck_tasks)"
umount /mnt/nvme /mnt/iscsi /mnt/nfs || fail "still in use"
detach_iscsi_disk
for controller in /sys/class/nvme/nvme*/delete_controller; do
	echo 1 >"$controller"
done
signal over
