# SPDX-License-Identifier: GPL-2.0-or-later
#
# rnic against Linux siw: connects to it, then is connected to by it; rping
# checks its data, rdma-verify every byte of Writes, Reads and Sends.

. /usr/lib/rnic/lib.sh
. ./ports.sh.inc

# siw's guest is not on the adapter's Ethernet, so nobody there answers ARP.
peer=10.77.0.2
ip neighbour replace $peer lladdr 52:54:00:77:00:02 nud permanent \
	dev "$(interface)"

run_client to-siw rping -c -v -C 100 -a $peer
rpings_right to-siw 100
# Without messages of no bytes: siw answers an empty Read with one byte.
run_client verify-to-siw rdma-verify --port 7471 --no-empty --size 4M $peer
cat /tmp/verify-to-siw

start_server from-siw "$rping_port" rping -s -v -C 100 -p "$rping_port"
end_server
start_server verify-from-siw "$verify_port" \
	rdma-verify --server --port "$verify_port"
end_server
cat /tmp/verify-from-siw
