# SPDX-License-Identifier: GPL-2.0-or-later
#
# Its peer vanishes without a FIN or RST, again and again.

. /usr/lib/rnic/lib.sh
. ./rounds.sh.inc

before=$(terminates)
for round in $rounds; do
	# shellcheck disable=SC2046
	start_server "$round" 7471 \
		lost-peer --server --time-limit 40 --bind "$(any_address)" \
		$(what_of "$round")
	lose "$round" "$server_pid"
	await "mended-$round"
	start_server "again-$round" 7174 rping -s -v -C 5 -a "$(any_address)"
	end_server
done
[ "$(terminates)" = "$before" ] || fail "a Terminate was sent"

shows V6.2.2.4-3 V6.6.2.5-2
