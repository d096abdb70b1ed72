# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shell functions for guests that lend a memory disk by the kernel's NVMe target over
# RDMA: source /usr/lib/rnic/nvme-target.sh after lib.sh.

nvmet=/sys/kernel/config/nvmet
subsystem=$nvmet/subsystems/test
ports=$nvmet/ports

# lend_disk MIB ADDRESS: as namespace 1 of subsystem "test", port 4420 of ADDRESS
# (0.0.0.0 or :: is any). The disk is /dev/ram0 here.
lend_disk() {
	modprobe brd rd_nr=1 rd_size=$(($1 * 1024)) || fail "no memory disk"
	modprobe nvmet-rdma || fail "no NVMe target"
	mount -t configfs none /sys/kernel/config || fail "configfs"
	mkdir $subsystem
	echo 1 >$subsystem/attr_allow_any_host
	mkdir $subsystem/namespaces/1
	echo /dev/ram0 >$subsystem/namespaces/1/device_path
	echo 1 >$subsystem/namespaces/1/enable
	lend_at 1 "$2"
}

# lend_at K ADDRESS: at another address, too, of either family; K tells them apart.
lend_at() {
	mkdir "$ports/$1"
	echo rdma >"$ports/$1/addr_trtype"
	case $2 in
	*:*) echo ipv6 ;;
	*) echo ipv4 ;;
	esac >"$ports/$1/addr_adrfam"
	echo "$2" >"$ports/$1/addr_traddr"
	echo 4420 >"$ports/$1/addr_trsvcid"
	ln -s $subsystem "$ports/$1/subsystems/test" ||
		fail "the target does not listen at $2"
}

# take_disk_back: and the target's module with it.
take_disk_back() {
	rm $ports/*/subsystems/test
	rmdir $ports/*
	echo 0 >$subsystem/namespaces/1/enable
	rmdir $subsystem/namespaces/1
	rmdir $subsystem
	rmmod nvmet_rdma || fail "nvmet_rdma does not go away"
}
