# SPDX-License-Identifier: GPL-2.0-or-later
#
# Memory windows of both types, beside each other: many rounds of bind, Write,
# Read and invalidation, every byte checked; then stale rkeys, each of which must
# be refused. At last the program is killed at any moment: nothing may be left
# of it.

. /usr/lib/rnic/lib.sh

# rounds TYPE PORT
rounds() {
	window-self --type "$1" --number "$ROUNDS" --size 4k --port "$2" \
		"$(address_of alone)"
}

rounds 1 7471 >/tmp/type-1 2>&1 &
type_1=$!
rounds 2 7472 || fail "window-self, type 2"
wait $type_1 || { cat /tmp/type-1; fail "window-self, type 1"; }
eventually 30 nothing_left || fail "$(objects_left)"

# Larger ones, for which more than a page changes hands.
for type in 1 2; do
	window-self --type $type --number 300 "$(address_of alone)" ||
		fail "window-self, type $type, 256 KiB"
	eventually 30 nothing_left || fail "$(objects_left)"
done

# tells_window: whether a region has a window, as "rdma" has it.
tells_window() {
	rdma -dd resource show mr | grep -q 'drv_bound_windows [1-9]'
}

for type in 1 2; do
	say "killed with a window of type $type bound"
	before=$(counter "$(rdma_device)" tx_octets)
	window-self --type $type --number 100000000 "$(address_of alone)" &
	program=$!
	eventually 60 sent_since "$before" || fail "window-self sends nothing"
	eventually 60 tells_window || fail "no window: $(rdma -dd resource show mr)"
	sleep 0.$((type * 3))
	kill -KILL $program || fail "window-self has ended by itself"
	wait $program
	eventually 30 nothing_left || fail "$(objects_left)"
	window-self --type $type --number 10 "$(address_of alone)" ||
		fail "window-self afterwards"
done

shows V4-1 V5.1.4-1 V7.2-1
shows_provider V7.2-3 V7.10.2-10
