# SPDX-License-Identifier: GPL-2.0-or-later
#
# A target of the hostile peer, and the server of an honest one, round after round.
# Its adapter takes streams without CRC and without markers.

. /usr/lib/rnic/lib.sh
. ./target.sh.inc

begin_target
# Nobody answers ARP for the host's own address.
ip neighbour replace 10.77.0.99 lladdr 52:54:00:77:00:99 nud permanent \
	dev "$(interface)"
connect_to_hostile() {
	await connects 3000
	hostile-target --connects "$(cat .signal-connects)" --port 7501 \
		--time-limit 120 10.77.0.99 >connected.new 2>&1
	cat connected.new
	mv connected.new .signal-connected
}
connect_to_hostile &
round=1
while ! signalled "honest-over"; do
	start_server "honest-$round" 7471 rdma-verify --server --time-limit 120
	end_server
	round=$((round + 1))
	await "next-$round" 120
done
end_target
