# SPDX-License-Identifier: GPL-2.0-or-later
#
# A process that is killed while it connects does not wait for the peer, for which the
# device waits a minute: its QP goes first, and with that the connection.

. /usr/lib/rnic/lib.sh

await listening
# The peer is on the host: it answers no ARP.
ip neighbour replace 10.77.0.99 lladdr 02:00:00:00:00:99 dev "$(interface)" nud permanent
rping -c -p 7174 -a 10.77.0.99 >/tmp/rping 2>&1 &
connecting=$!
await connecting
sleep 1
[ -e /proc/$connecting ] || fail "rping has not waited: $(cat /tmp/rping)"
before=$(now)
kill -KILL $connecting
wait $connecting
after=$(now)
say "killed at $before, gone at $after"
awk "BEGIN { exit !($after - $before < 20) }" || fail "killed, but waited for the peer"
eventually 30 nothing_left || fail "$(objects_left)"
