# SPDX-License-Identifier: GPL-2.0-or-later
#
# Connections over IPv6: to a listener on one address, and to one on all addresses
# (::), which sees those that come, when duplicate address detection is through with
# them, and go, and serves IPv4 as well; at last without any IPv4 address.

. /usr/lib/rnic/lib.sh
. ./addresses.sh.inc

listeners_are() {
	[ "$(counter "$(rdma_device)" active_listeners)" = "$1" ]
}

have "$(of server)"
start_server first 7174 rping -s -v -C 5 -a "$(of server)" -p 7174
end_server

# Of this and the link-local address, and of IPv4.
start_server any 7175 rping -s -P -v -a :: -p 7175
eventually 10 listeners_are 3 || fail "not three addresses: $(rdma -dd resource show cm_id)"
await any-over
have "$(of another)"
eventually 10 listeners_are 4 || fail "the address that was added is not listened on"
signal added
await added-over
ip -6 address del "$(of another)/64" dev "$netdev"
eventually 10 listeners_are 3 || fail "an address that was removed is listened on"
signal removed
signal both
await both-over
ip -4 address flush dev "$netdev"
have "$(of link-local)"
# fd77::2, the interface's own link-local address, and this one.
eventually 10 listeners_are 3 || fail "not three addresses: $(rdma -dd resource show cm_id)"
signal link-local
await client-over
kill $server_pid
wait $server_pid
eventually 30 nothing_left || fail "$(objects_left)"
