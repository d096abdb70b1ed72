# SPDX-License-Identifier: GPL-2.0-or-later
#
# rdma_cm on addresses of a VLAN of the adapter's interface: listeners on any address
# see them come and go with the VLAN; one listens on such an address alone.

. /usr/lib/rnic/lib.sh
. ./vlan.sh.inc

# listeners_are COUNT: addresses that the device listens on.
listeners_are() {
	[ "$(counter "$(rdma_device)" active_listeners)" = "$1" ]
}

expect_listeners() {
	eventually 10 listeners_are "$1" ||
		fail "not $1 addresses: $(rdma -dd resource show cm_id)"
}

# 10.77.0.2; the same and the interface's link-local address.
start_server any 7180 rping -s -P -v -p 7180
any=$server_pid
expect_listeners 1
start_server any6 7181 rping -s -P -v -a :: -p 7181
any6=$server_pid
expect_listeners 3
vlan_begin
# 10.80.0.2 for each, and fd80::2; the VLAN's link-local address is left out.
expect_listeners 6
reaches "itself, on the VLAN" "10.80.0.$k" 7180
start_server bound 7182 rping -s -v -C 5 -a "10.80.0.$k" -p 7182
signal vlan
await reached
end_server
vlan_end
expect_listeners 3
await client-over
kill "$any" "$any6"
wait "$any" "$any6"
eventually 30 nothing_left || fail "$(objects_left)"
