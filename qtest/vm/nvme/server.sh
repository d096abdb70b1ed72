# SPDX-License-Identifier: GPL-2.0-or-later
#
# The kernel's NVMe target over RDMA: lends a memory disk, which must hold in
# the end what the client has written.

. /usr/lib/rnic/lib.sh

target=/sys/kernel/config/nvmet
subsystem=$target/subsystems/test
port=$target/ports/1

lend() {
	mkdir $subsystem
	echo 1 >$subsystem/attr_allow_any_host
	mkdir $subsystem/namespaces/1
	echo /dev/ram0 >$subsystem/namespaces/1/device_path
	echo 1 >$subsystem/namespaces/1/enable
	mkdir $port
	echo rdma >$port/addr_trtype
	echo ipv4 >$port/addr_adrfam
	address_of server >$port/addr_traddr
	echo 4420 >$port/addr_trsvcid
	ln -s $subsystem $port/subsystems/test
}

take_back() {
	rm $port/subsystems/test
	rmdir $port
	echo 0 >$subsystem/namespaces/1/enable
	rmdir $subsystem/namespaces/1
	rmdir $subsystem
	rmmod nvmet_rdma || fail "nvmet_rdma does not go away"
}

modprobe brd rd_nr=1 rd_size=4096 || fail "no memory disk"
modprobe nvmet-rdma || fail "no NVMe target"
mount -t configfs none /sys/kernel/config || fail "configfs"
lend || fail "the target does not listen"
signal lent

await written 120
cmp /dev/ram0 data || fail "the disk holds something else"
signal compared
await detached
take_back
