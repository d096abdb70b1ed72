# SPDX-License-Identifier: GPL-2.0-or-later
#
# A step of perftest that fails by a fault of perftest's own is begun again on
# both sides; any other failure is one. In the place of perftest: rping, whose
# client is made to fail.

. /usr/lib/rnic/lib.sh

me=$(address_of alone)

# client COUNT MESSAGE: fails COUNT times, saying MESSAGE, then succeeds.
cat >/tmp/client <<-'END'
	#!/bin/sh
	echo x >>/tmp/tries
	if [ "$(wc -l </tmp/tries)" -le "$1" ]; then
		echo "$2"
		exit 1
	fi
	rping -c -C 1 -a "$3"
END
chmod +x /tmp/client

# play STEP COUNT MESSAGE: both sides of a step; the client's status.
play() {
	rm -f /tmp/tries
	(perftest_server "$1" 7174 rping -s -C 1) &
	server=$!
	(perftest_client "$1" /tmp/client "$2" "$3" "$me")
	played=$?
	[ $played -eq 0 ] || {
		kill $server
		pkill -x rping
	}
	wait $server && server_played=0 || server_played=1
	return $played
}

tried() {
	[ "$(wc -l </tmp/tries)" -eq "$1" ] || fail "not $1 tries"
}

say "two faults of perftest"
play clock 2 'Correlation coefficient r^2: 0.5 < 0.9' || fail "not tried again"
[ $server_played -eq 0 ] || fail "the server of the third try failed"
tried 3

say "something else"
play other 1 'Completion with error' && fail "another failure was let pass"
tried 1

say "always the same"
play always 99 'Event: RDMA_CM_EVENT_REJECTED; error: -111.' &&
	fail "the last failure was let pass"
tried 6
exit 0
