# SPDX-License-Identifier: GPL-2.0-or-later
#
# An adapter without resources: what is refused leaves all as it was, and succeeds
# when there are resources; the driver does not come up, and does then. Each status that
# a command can have is an errno of its verb. An adapter without the features that it
# need not have: it says so, and refuses what they are for.

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

say "fewer features"
signal fewer
await few
unbind_driver
bind_driver
ibv_devinfo -v -d "$(rdma_device)" >/tmp/devinfo
for attribute in max_srq max_mw; do
	grep -q "$attribute:[[:space:]]*0\$" /tmp/devinfo ||
		fail "not without $attribute: $(cat /tmp/devinfo)"
done
limits-self "$(rdma_device)" || fail "limits-self"
eventually 30 nothing_left || fail "$(objects_left)"

shows V6.3-1 V9-3 V9.2.3.3-5 V9.2.4.1-7 V9.2.4.3-7 V9.2.5.1-17 V9.2.5.3-14
shows_driver V9.2.1.1-5
