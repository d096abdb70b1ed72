# SPDX-License-Identifier: GPL-2.0-or-later
#
# Another target, whose adapter wants CRC and markers; and the honest peer: it moves
# data both ways, all of it checked, until the hostile one is done.

. /usr/lib/rnic/lib.sh
. ./target.sh.inc

begin_target
round=1
until signalled over; do
	run_client "honest-$round" rdma-verify --size 512k --iterations 6 \
		--seed $round --time-limit 120 "$(address_of alpha)"
	signal "honest-round-$round"
	say "round $round at $(now): all data right"
	round=$((round + 1))
	! signalled over || signal honest-over
	signal "next-$round"
done
# Between the first round and the last one the hostile peer was at work.
[ $round -gt 3 ] || fail "only $((round - 1)) rounds"
end_target
