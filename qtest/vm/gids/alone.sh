# SPDX-License-Identifier: GPL-2.0-or-later
#
# GID 0 is the MAC followed by zeroes; from GID 1 on there is one for each address
# of the interface. An address keeps its GID's index while others come and go.
# Addresses beyond the table's end have none, and do no harm.

. /usr/lib/rnic/lib.sh

device=$(rdma_device)
netdev=$(interface)
gids=/sys/class/infiniband/$device/ports/1/gids

# gids_are GID...: those from GID 1 on, in this order, and no more.
gids_are() {
	local index=1 gid
	for gid in "$@" $none; do
		[ "$(cat "$gids/$index")" = "$gid" ] || return 1
		index=$((index + 1))
	done
}

# become STEP GID...
become() {
	local step=$1
	shift
	eventually 10 gids_are "$@" && return
	cat "$gids"/?
	fail "$step: other GIDs than $*"
}

none=0000:0000:0000:0000:0000:0000:0000:0000
first=0000:0000:0000:0000:0000:ffff:0a4d:0001	# 10.77.0.1
second=0000:0000:0000:0000:0000:ffff:0a63:0001	# 10.99.0.1
global=fd00:0000:0000:0000:0000:0000:0000:0005
read -r mac <"/sys/class/net/$netdev/address"
link=fe80:0000:0000:0000:5054:00ff:fe77:0001	# of that MAC

[ "$(sed 's/://g' "$gids/0")" = "${mac//:/}00000000000000000000" ] ||
	fail "GID 0 is $(cat "$gids/0"), the MAC $mac"
become "at first" $first $link

ip address add 10.99.0.1/24 dev "$netdev"
become "a second IPv4 address" $first $link $second
ip -6 address add fd00::5/64 dev "$netdev"
become "an IPv6 address" $first $link $second $global
ip address del 10.99.0.1/24 dev "$netdev"
become "without the second" $first $link $none $global
ip address add 10.99.0.1/24 dev "$netdev"
become "the second again" $first $link $second $global
ip address del 10.99.0.1/24 dev "$netdev"
ip -6 address del fd00::5/64 dev "$netdev"
become "without the IPv6 address" $first $link

say "more addresses than GIDs"
last=$(printf '%s\n' "$gids"/* | sed 's/.*\///' | sort -n | tail -n 1)
for k in $(seq 2 80); do
	ip address add "10.77.0.$k/24" dev "$netdev"
done
# Index 1 is of 10.77.0.1, and 2 of IPv6.
eventually 10 grep -q "0a4d:00$(printf %02x $((last - 1)))" "$gids/$last" ||
	fail "the last GID is $(cat "$gids/$last")"
[ "$(cat "$gids/2")" = $link ] || fail "GID 2 was $link, is $(cat "$gids/2")"
# All are listened on, whether they have a GID or not.
rping -s -C 5 >/tmp/server 2>&1 &
server=$!
eventually 30 serving $server 7174 || fail "rping does not listen"
[ "$(counter "$device" active_listeners)" = 80 ] ||
	fail "$(counter "$device" active_listeners) of 80 addresses are listened on"
rping -c -a 10.77.0.80 -C 5 -v || fail "rping"
wait $server || fail "rping's server"
ip address flush dev "$netdev"
become "without addresses"

say "an IPv6 address before the first IPv4 address"
ip -6 address add fd00::5/64 dev "$netdev"
become "an IPv6 address alone" $none $global
ip address add 10.77.0.1/24 dev "$netdev"
become "then an IPv4 address" $first $global
