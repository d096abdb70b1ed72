# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other end of server.sh.

. /usr/lib/rnic/lib.sh
. ./rounds.sh.inc

server=$(address_of server)
before=$(terminates)
for round in $rounds; do
	await "$round"
	# shellcheck disable=SC2046
	lost-peer --time-limit 40 $(what_of "$round") "$server" >"/tmp/$round" 2>&1 &
	lose "$round" $!
	run_client "again-$round" rping -c -v -C 5 -a "$server"
	rpings_right "again-$round" 5
done
[ "$(terminates)" = "$before" ] || fail "a Terminate was sent"
