# SPDX-License-Identifier: GPL-2.0-or-later
#
# An adapter without resources: what is refused leaves all as it was, and succeeds
# when there are resources; the driver does not come up, and does then. Each status that
# a command can have is an errno of its verb.

. /usr/lib/rnic/lib.sh

# refuse COMMAND, grant COMMAND: from here on, as the host has it.
refuse() {
	signal "refuse-$1"
	await "refused-$1"
}

grant() {
	signal "grant-$1"
	await "granted-$1"
}

# probe_without COMMAND
probe_without() {
	say "the driver without $1"
	unbind_driver
	refuse "$1"
	! echo "$unbound" 2>/dev/null >/sys/bus/pci/drivers/rnic/bind ||
		fail "the driver takes an adapter without $1"
	[ -z "$(rdma_device)" ] || fail "there is an RDMA device"
	adapter-closed "$unbound" || fail "the failed probe leaves it open"
	grant "$1"
	bind_driver
	rping -s -C 3 -a "$me" >/tmp/server 2>&1 &
	eventually 20 serving $! 7174 || fail "rping does not listen"
	rping -c -C 3 -a "$me" || fail "rping after a failed probe"
	wait
	nothing_left || fail "$(objects_left)"
}

me=$(address_of alone)

refused-self "$(rdma_device)" /mnt/run || fail "refused-self"
eventually 30 nothing_left || fail "$(objects_left)"
say "each status"
await statuses
[ "$(wc -l </mnt/run/statuses)" -ge 55 ] || fail "few statuses"
# shellcheck disable=SC2046 # one word each
refused-self "$(rdma_device)" /mnt/run $(cat /mnt/run/statuses) ||
	fail "refused-self with statuses"
eventually 30 nothing_left || fail "$(objects_left)"
probe_without query-device
probe_without create-eq

shows V9.2.3.3-5 V9.2.4.1-7 V9.2.4.3-7 V9.2.5.1-17 V9.2.5.3-14
shows_driver V9.2.1.1-5
