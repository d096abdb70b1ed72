# SPDX-License-Identifier: GPL-2.0-or-later
#
# Memory windows of both types: rounds of bind, Write, Read and invalidation,
# every byte checked; then stale rkeys, each of which must be refused. At last
# the program is killed at any moment: nothing may be left of it.

. /usr/lib/rnic/lib.sh

for type in 1 2; do
	window-self --type $type --number 300 "$(address_of alone)" ||
		fail "window-self, type $type"
	eventually 30 nothing_left || fail "$(objects_left)"
done

for type in 1 2; do
	say "killed with a window of type $type bound"
	window-self --type $type --number 100000000 "$(address_of alone)" &
	program=$!
	eventually 60 transferring
	sleep 0.$((type * 3))
	kill -KILL $program
	wait $program
	eventually 30 nothing_left || fail "$(objects_left)"
	window-self --type $type --number 10 "$(address_of alone)" ||
		fail "window-self afterwards"
done
