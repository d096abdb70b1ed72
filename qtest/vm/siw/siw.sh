# SPDX-License-Identifier: GPL-2.0-or-later
#
# Linux siw as the other end of rnic's wire: first passive, then active.

. /usr/lib/rnic/lib.sh
. ./ports.sh.inc

netdev=$(basename /sys/class/net/e*)
modprobe siw || fail "no siw module"
rdma link add siw0 type siw netdev "$netdev" || fail "cannot make a siw device"
[ "$(rdma_device)" = siw0 ] || fail "no siw device"

# Accepting, siw overlooks what arrives before siw_accept() returns, and on an
# emulated CPU rnic is faster than that: let the link be a slow one.
tc qdisc add dev "$netdev" root netem delay 20ms || fail "tc netem"
start_server to-siw 7174 rping -s -v -C 100
end_server
start_server verify-to-siw 7471 rdma-verify --server --port 7471
end_server
cat /tmp/verify-to-siw
tc qdisc del dev "$netdev" root

host=10.0.2.2
run_client from-siw rping -c -v -C 100 -a $host -p "$rping_port"
rpings_right from-siw 100
run_client verify-from-siw rdma-verify --port "$verify_port" --no-empty --size 4M $host
cat /tmp/verify-from-siw
