# SPDX-License-Identifier: GPL-2.0-or-later
#
# The guest with siw. Its settings are module parameters in our build
# (scripts/siw-parameters), read when a connection is set up.

. /usr/lib/rnic/lib.sh
. /usr/lib/rnic/nvme-target.sh
. ./nfs.sh.inc
. ./programs.sh.inc
. ./cells.sh.inc

settings=/sys/module/siw/parameters

# use_settings: those of the cell. In ib_write_lat the server writes first, which RFC
# 5044, 7.1.2, forbids: siw that connects has to ask for RFC 6581's peer-to-peer mode.
use_settings() {
	case $revision-$program in
	2-ib_write_lat) echo Y ;;
	*) echo N ;;
	esac >$settings/peer_to_peer || fail "no peer_to_peer"
	echo "$revision" >$settings/mpa_version || fail "no mpa_version"
	case $asker in
	siw) echo Y ;;
	*) echo N ;;
	esac >$settings/mpa_crc_required || fail "no mpa_crc_required"
}

# delay_replies DEVICE: siw_accept() sends the MPA Reply before it takes over the
# socket, and overlooks what arrives in between: on an emulated processor that happens.
# So the Reply leaves later: "MPA ID Rep Frame" behind a TCP header with time stamps.
delay_replies() {
	tc qdisc add dev "$1" root handle 1: prio bands 3 \
		priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 &&
		tc qdisc add dev "$1" parent 1:3 handle 30: netem delay 50ms &&
		tc filter add dev "$1" parent 1: prio 1 protocol ip u32 \
			match u32 0x4d504120 0xffffffff at 52 \
			match u32 0x65702046 0xffffffff at 60 flowid 1:3 &&
		tc filter add dev "$1" parent 1: prio 2 protocol ipv6 u32 \
			match u32 0x4d504120 0xffffffff at 72 \
			match u32 0x65702046 0xffffffff at 80 flowid 1:3 ||
		fail "tc"
}

# A cell that siw fails (see "reviewed") can leave a task of its kernel waiting for ever,
# which is no reason to end the run. In rnic's guest it is.
echo 0 >/proc/sys/kernel/hung_task_timeout_secs

modprobe -a ib_uverbs rdma_ucm virtio_net siw || fail "no siw module"
netdev=$(basename /sys/class/net/e*)
for network in $networks; do
	have_addresses "$netdev" "$network" 2
done
delay_replies "$netdev"
rdma link add siw0 type siw netdev "$netdev" || fail "cannot make a siw device"

# leave: at once and with success. Of what is lent nothing is taken back: a task that siw's
# faults (see "reviewed") leave waiting for ever would not let go of it.
leave() {
	echo 0 >"$RNIC_NAME.rc.new"
	mv "$RNIC_NAME.rc.new" "$RNIC_NAME.rc"
	sync
	echo o >/proc/sysrq-trigger
	sleep 30
}

lend_to_all
play_cells
tc -s qdisc show dev "$netdev"
signal over
# It takes back what it has lent, and ends connections.
eventually 180 test -e rnic.rc || fail "the guest with rnic does not end"
leave
