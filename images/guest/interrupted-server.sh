# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the guest "server" does for a client that sources interrupted-traffic.sh:
# source /usr/lib/rnic/interrupted-server.sh after lib.sh.

. /usr/lib/rnic/nvme-target.sh

# serve_interrupted SECONDS: lends a disk and answers rping until the client has
# signalled "over"; nothing of a broken connection may be left then.
serve_interrupted() {
	lend_disk 16 "$(address_of server)"
	# rping ends with its client.
	while ! signalled over; do
		rping -s -S 4096 -p 7174 >>/tmp/rping 2>&1
	done &
	answering=$!
	signal lent
	await over "$1"
	kill $answering
	pkill rping
	take_disk_back
	eventually 30 nothing_left || fail "$(objects_left)"
}
