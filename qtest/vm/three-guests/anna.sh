# SPDX-License-Identifier: GPL-2.0-or-later
#
# One of three guests (all run the same): each reaches each by name, with ping,
# TCP and ssh over the adapter's Ethernet, and with rping over RDMA.

. /usr/lib/rnic/lib.sh

mkdir -p /run/sshd
/usr/sbin/sshd || fail "sshd"
others=$(echo "$RNIC_NAMES" | tr ' ' '\n' | grep -vx "$RNIC_NAME")
signal "sshd-$RNIC_NAME"

for other in $others; do
	await "sshd-$other"
	ping -q -c 3 -i 0.2 "$other" || fail "ping $other"
	said=$(ssh -o StrictHostKeyChecking=no -o LogLevel=ERROR "$other" hostname)
	[ "$said" = "$other" ] || fail "ssh $other: $said"
	head -c 1000000 /dev/zero |
		ssh -o StrictHostKeyChecking=no -o LogLevel=ERROR "$other" wc -c |
		grep -qx 1000000 || fail "a megabyte over TCP to $other"
done

# In turns: each serves the two others.
for server in $RNIC_NAMES; do
	for client in $RNIC_NAMES; do
		[ "$server" != "$client" ] || continue
		case $RNIC_NAME in
		"$server")
			start_server "$client-to-$server" 7174 rping -s -v -C 5
			end_server
			;;
		"$client")
			run_client "$client-to-$server" \
				rping -c -v -C 5 -a "$(address_of "$server")"
			rpings_right "$client-to-$server" 5
			;;
		esac
	done
done
signal "done-$RNIC_NAME"
for other in $others; do
	await "done-$other"
done
