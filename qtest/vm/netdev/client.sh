# SPDX-License-Identifier: GPL-2.0-or-later
#
# The interface as an ordinary network adapter: MTUs, and one that cannot be had;
# rings, and bursts that fill them; counters; byte queue limits; VLANs; addresses.

. /usr/lib/rnic/lib.sh

if=$(interface)
server=$(address_of server)
statistics=/sys/class/net/$if/statistics
lines=0

say_to_server() {
	lines=$((lines + 1))
	echo "$1" >do.new
	mv do.new .signal-do-$lines
}

# on_server LINE: it has to succeed there.
on_server() {
	say_to_server "$1"
	await done-$lines 120
	read -r status <.signal-done-$lines
	[ "$status" = 0 ] || fail "on the server: $1: $status"
}

# pings OCTETS ADDRESS: IP packets of so many octets, in one piece.
pings() {
	ping -q -c 5 -i 0.2 -W 10 -M "do" -s $(($1 - 28)) "$2" ||
		fail "no answers of $1 octets from $2"
}

statistic() {
	cat "$statistics/$1"
}

# counted NAME: a counter of ethtool.
counted() {
	ethtool -S "$if" | sed -n "s/^ *$1: //p"
}

# ring KIND: RX or TX, as it is now.
ring() {
	ethtool -g "$if" | sed '1,/^Current/d' | awk "/^$1:/ { print \$2 }"
}

fetch() {
	nc -d "$server" 7000 >/tmp/data && [ -s /tmp/data ]
}

bring_back() {
	nc -N "$server" 7001 </tmp/data
}

nothing_in_flight() {
	[ "$(cat "$limits/inflight")" = 0 ]
}

# pktgen FILE COMMAND
pktgen() {
	echo "$2" >"/proc/net/pktgen/$1" || fail "pktgen: $2"
}

# burst NUMBER: frames, of which the interface knows that more come.
burst() {
	neighbour=$(ip neigh show "$server" | awk '{ print $5 }')
	modprobe pktgen || fail "no pktgen"
	pktgen kpktgend_0 "add_device $if"
	for command in "count $1" "burst 50" "pkt_size 400" "dst $server" 		"dst_mac $neighbour"; do
		pktgen "$if" "$command"
	done
	pktgen pgctrl start
	grep '^Result: OK' "/proc/net/pktgen/$if" || fail "pktgen: $(cat "/proc/net/pktgen/$if")"
	rmmod pktgen
}

# strangers_frames ADDRESS: the interface takes what the server sends to ADDRESS, which
# nobody answers; it does not while it takes few octets.
strangers_frames() {
	octets=$(statistic rx_bytes)
	on_server "ping -q -c 10 -i 0.2 -W 1 -s 1000 -I \$if $1 >/dev/null || true"
	octets=$(($(statistic rx_bytes) - octets))
	echo "$octets octets by frames for $1"
	[ $octets -ge 10000 ]
}

mtu() {
	cat "/sys/class/net/$if/mtu"
}

say "MTUs"
for size in 576 1500 9000; do
	ip link set "$if" mtu $size || fail "no MTU of $size"
	on_server "ip link set \$if mtu $size"
	pings $size "$server"
done
! ip link set "$if" mtu 9001 || fail "an MTU of 9001"

say "an MTU that cannot be had"
signal refuse-once
await refuse-once-set
! ip link set "$if" mtu 1400 || fail "an MTU without a queue"
[ "$(mtu)" = 9000 ] || fail "the MTU is $(mtu) after that"
pings 9000 "$server"
signal refuse-twice
await refuse-twice-set
! ip link set "$if" mtu 1400 || fail "an MTU without queues"
! ip link show "$if" | grep -q '[<,]UP' || fail "up without queues"
ip link set "$if" up || fail "does not come up again"
[ "$(mtu)" = 9000 ] || fail "the MTU is $(mtu) when up again"
pings 9000 "$server"

say "rings"
ethtool -g "$if"
[ "$(ring RX)-$(ring TX)" = 256-256 ] || fail "other rings than usual"
ethtool -G "$if" rx 1000 tx 16 || fail "no other rings"
[ "$(ring RX)-$(ring TX)" = 1024-16 ] || fail "other rings than were set"
pings 9000 "$server"
! ethtool -G "$if" rx 8192 || fail "a ring that is too large"
ip link set "$if" down
ethtool -G "$if" tx 4096 || fail "no other ring while down"
ip link set "$if" up
[ "$(ring TX)" = 4096 ] || fail "the ring is $(ring TX)"
pings 1500 "$server"
ethtool -G "$if" rx 256 tx 256
ethtool -l "$if" | sed '1,/^Current/d' | grep -q '^Combined:[^0-9]*1$' ||
	fail "not one channel: $(ethtool -l "$if")"
for feature in scatter-gather tx-checksumming rx-checksumming; do
	ethtool -k "$if" | grep -q "^$feature: off" || fail "$feature"
done

say "counters and byte queue limits"
ethtool -S "$if"
packets=$(statistic tx_packets)
octets=$(statistic rx_bytes)
device=$(counted device_tx_packets)
kicks=$(counted tx_kicks)
pings 1000 "$server"
[ "$(statistic tx_packets)" -ge $((packets + 5)) ] || fail "tx_packets"
[ "$(statistic rx_bytes)" -ge $((octets + 5 * 1014)) ] || fail "rx_bytes"
[ "$(counted device_tx_packets)" -ge $((device + 5)) ] || fail "device_tx_packets"
[ "$(counted tx_kicks)" -ge $((kicks + 5)) ] || fail "tx_kicks"
[ "$(counted tx_packets)" -ge $((packets + 5)) ] || fail "ethtool's tx_packets"
on_server "head -c 8000000 /dev/urandom >/tmp/data"
on_server "nc -N -l 7000 </tmp/data >/dev/null &"
eventually 30 fetch || fail "no transfer"
on_server "nc -d -l 7001 >/tmp/back &"
eventually 30 bring_back || fail "no transfer back"
on_server "eventually 30 cmp /tmp/data /tmp/back"
limits=/sys/class/net/$if/queues/tx-0/byte_queue_limits
head "$limits"/{limit,inflight,limit_max}
[ "$(cat "$limits/limit")" -gt 0 ] || fail "no byte queue limit"
eventually 10 nothing_in_flight ||
	fail "$(cat "$limits/inflight") octets in flight for ever"
for name in rx_errors rx_dropped tx_errors tx_dropped; do
	[ "$(statistic $name)" = 0 ] || {
		ethtool -S "$if"
		ip -s -s link show "$if"
		dmesg | tail -n 20
		fail "$name: $(statistic $name)"
	}
done
[ "$(counted device_rx_drops)" = 0 ] || fail "the device has lost frames"

say "bursts that fill the ring"
ethtool -G "$if" tx 16
on_server "before=\$(received)"
packets=$(counted tx_packets)
kicks=$(counted tx_kicks)
stops=$(counted tx_stops)
burst 3000
eventually 10 nothing_in_flight || fail "frames wait for a kick"
on_server "eventually 20 has_received 3000"
packets=$(($(counted tx_packets) - packets))
kicks=$(($(counted tx_kicks) - kicks))
stops=$(($(counted tx_stops) - stops))
echo "$packets packets, $kicks kicks, $stops stops"
[ $packets -ge 3000 ] || fail "$packets packets"
[ $kicks -lt $((packets / 2)) ] || fail "$kicks kicks for $packets packets"
[ $stops -gt 0 ] || fail "the ring was never full"
ethtool -G "$if" tx 256

say "a VLAN, with frames of the full MTU behind its header"
on_server "ip link add link \$if name vlan77 type vlan id 77"
on_server "ip address add 192.168.77.1/24 dev vlan77"
on_server "ip link set vlan77 up"
ip link add link "$if" name vlan77 type vlan id 77 || fail "no VLAN"
ip address add 192.168.77.2/24 dev vlan77
ip link set vlan77 up
[ "$(cat /sys/class/net/vlan77/mtu)" = 9000 ] || fail "a VLAN of another MTU"
pings 9000 192.168.77.1
ip link delete vlan77

say "another MAC"
former=$(cat "/sys/class/net/$if/address")
ip link set "$if" address 02:aa:bb:cc:dd:01 || fail "no other MAC"
[ "$(ethtool -P "$if")" = "Permanent address: $former" ] || fail "$(ethtool -P "$if")"
on_server "ip neigh flush dev \$if"
pings 1000 "$server"
on_server "ip neigh show \$client | grep -q 02:aa:bb:cc:dd:01"
gids=/sys/class/infiniband/$(rdma_device)/ports/1/gids
eventually 10 grep -q '^02aa:bbcc:dd01:' "$gids/0" || fail "GID 0 is $(cat "$gids/0")"
on_server "rping -s -C 5 >/tmp/rping 2>&1 &"
eventually 30 rping -c -a "$server" -C 5 || fail "no RDMA with another MAC"

say "an interface with a MAC of its own on top"
ip link add link "$if" name mac1 type macvlan mode private || fail "no macvlan"
ip address add 192.168.78.2/24 dev mac1
ip link set mac1 up
ip -d link show "$if" | grep -q 'promiscuity 0' || fail "promiscuous"
on_server "ip address add 192.168.78.1/24 dev \$if"
pings 1000 192.168.78.1
ip link delete mac1
pings 1000 "$server"

say "what is for other stations, and for groups of others"
on_server "ip neigh replace \$client lladdr 02:00:00:00:00:99 dev \$if nud permanent"
! strangers_frames "\$client" || fail "frames for another station"
ip link set "$if" promisc on
strangers_frames "\$client" || fail "no frames for another station"
ip link set "$if" promisc off
! strangers_frames "\$client" || fail "still frames for another station"
! strangers_frames 239.1.2.3 || fail "frames for a group of others"
ip link set "$if" allmulticast on
strangers_frames 239.1.2.3 || fail "no frames for a group of others"
ip link set "$if" allmulticast off
! strangers_frames 239.1.2.3 || fail "still frames for a group of others"
on_server "ip neigh flush nud permanent dev \$if"
pings 1000 "$server"
say_to_server end
