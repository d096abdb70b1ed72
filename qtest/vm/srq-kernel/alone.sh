# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shared receive queues of the kernel: an NVMe over RDMA target that uses them,
# and its host in the same guest. Every byte is checked, over several
# connections made and ended; what is drained has to come to its end soon.

. /usr/lib/rnic/lib.sh

me=$(address_of alone)
target=/sys/kernel/config/nvmet
uuid=11111111-2222-3333-4444-555555555555

use_target() {
	modprobe configfs
	mountpoint -q /sys/kernel/config ||
		mount -t configfs none /sys/kernel/config
	modprobe nvmet-rdma use_srq=1 || fail "no NVMe target in this kernel"
	modprobe nvme-rdma || fail "no NVMe host in this kernel"
}

make_target() {
	truncate -s 16M /tmp/disk
	mkdir "$target/subsystems/test"
	echo 1 >"$target/subsystems/test/attr_allow_any_host"
	mkdir "$target/subsystems/test/namespaces/1"
	printf /tmp/disk >"$target/subsystems/test/namespaces/1/device_path"
	echo 1 >"$target/subsystems/test/namespaces/1/enable"
	mkdir "$target/ports/1"
	echo rdma >"$target/ports/1/addr_trtype"
	echo ipv4 >"$target/ports/1/addr_adrfam"
	echo "$me" >"$target/ports/1/addr_traddr"
	echo 4420 >"$target/ports/1/addr_trsvcid"
	ln -s "$target/subsystems/test" "$target/ports/1/subsystems/test" ||
		fail "no target"
}

attach() {
	echo "transport=rdma,traddr=$me,trsvcid=4420,nqn=test,hostid=$uuid,hostnqn=nqn.2014-08.org.nvmexpress:uuid:$uuid" \
		>/dev/nvme-fabrics || fail "cannot connect"
	eventually 30 test -b /dev/nvme0n1 || fail "no disk"
}

detach() {
	echo 1 >/sys/class/nvme/nvme0/delete_controller
	eventually 20 nothing_used || { rdma resource show; fail "still used"; }
}

nothing_used() {
	[ -z "$(rdma resource show srq)$(rdma resource show qp)" ]
}

use_target
make_target
for round in 1 2; do
	say "round $round"
	attach
	rdma resource show srq
	[ -n "$(rdma resource show srq)" ] || fail "the target has no S-RQ"
	dd if=/dev/urandom of=/tmp/data bs=1M count=2 2>/dev/null
	dd if=/tmp/data of=/dev/nvme0n1 bs=256k oflag=direct 2>/dev/null &&
		dd if=/dev/nvme0n1 of=/tmp/back bs=64k count=32 \
			iflag=direct 2>/dev/null || fail "I/O"
	cmp /tmp/data /tmp/back || fail "something else comes back"
	detach
done
rm "$target/ports/1/subsystems/test"
rmdir "$target/ports/1"
! dmesg | grep -E 'nvme.*(timeout|error)' || fail "the kernel complains"
