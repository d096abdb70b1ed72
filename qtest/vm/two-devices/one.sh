# SPDX-License-Identifier: GPL-2.0-or-later
#
# A guest with two adapters: both are there, each on a network of its own, and
# each connection uses the adapter its address belongs to.

. /usr/lib/rnic/lib.sh

[ "$(rdma_devices | wc -l)" = 2 ] || fail "not two RDMA devices: $(rdma link)"
first=$(rdma_device 1) second=$(rdma_device 2)

by-hand-two "$first" "$second" || fail "by-hand-two"
eventually 30 nothing_left || fail "$(objects_left)"

start_server first 7174 rping -s -v -C 20 -a 10.77.0.1
end_server
start_server second 7174 rping -s -v -C 20 -a 10.78.0.1
end_server

# Both at once, from this side; each adapter carries its own 20 MB.
await both
before1=$(counter "$first" tx_octets) before2=$(counter "$second" tx_octets)
ib_write_bw -R -F -s 65536 -n 300 -p 18601 10.77.0.2 >/tmp/w1 2>&1 &
one=$!
ib_write_bw -R -F -s 65536 -n 300 -p 18602 10.78.0.2 >/tmp/w2 2>&1 &
two=$!
wait $one || { cat /tmp/w1; fail "the first adapter"; }
wait $two || { cat /tmp/w2; fail "the second adapter"; }

carried() {
	octets=$(($(counter "$1" tx_octets) - $2))
	echo "$1: $octets octets"
	[ $octets -gt 19660800 ] && [ $octets -lt 30000000 ] ||
		fail "$1 carried $octets octets"
}
carried "$first" "$before1"
carried "$second" "$before2"

shows_driver V5.1-1
