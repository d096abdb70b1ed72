# SPDX-License-Identifier: GPL-2.0-or-later
#
# Lends a disk and answers, while the client's adapter fails again and again.

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

modprobe brd rd_nr=1 rd_size=16384 || fail "no memory disk"
modprobe nvmet-rdma || fail "no NVMe target"
mount -t configfs none /sys/kernel/config || fail "configfs"
lend || fail "the target does not listen"
# rping ends with its client.
while ! signalled over; do
	rping -s -p 7174 >>/tmp/rping 2>&1
done &
answering=$!
signal lent
await over 240
kill $answering
pkill rping
take_back
eventually 30 nothing_left || fail "$(objects_left)"
