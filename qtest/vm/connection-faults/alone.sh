# SPDX-License-Identifier: GPL-2.0-or-later
#
# What is wrong with one connection is no other's harm: a program accepts a request
# several times; a command that the end of one needs is answered late; requests name
# another listener. A listener at any address gets a new address that the adapter refuses
# at first, and a connection whose end the adapter does not tell ends all the same.

. /usr/lib/rnic/lib.sh

server=$(address_of alone)

# connect PORT
connect() {
	rping -c -p "$1" -C 1 -a "$server" >/tmp/rping 2>&1
}

# Other connections are made and ended while the end of this one waits.
late_command() {
	rping -c -p 7174 -S 4096 -C 100000 -a "$server" >/tmp/first 2>&1 &
	first=$!
	eventually 60 transferring || fail "no traffic"
	signal transferring
	await late
	kill -KILL $first
	wait $first
	before=$(now)
	for round in 1 2 3; do
		connect 7175 || fail "connection $round: $(cat /tmp/rping)"
	done
	after=$(now)
	say "three connections from $before to $after"
	awk "BEGIN { exit !($after - $before < 30) }" ||
		fail "the connections have waited for another one's end"
	signal connected
	await judged
}

# The device says which listener a request is for, and says each one in turn: only one
# of them listens at that address. No listener has the last one.
wrong_listener() {
	accepted=0
	for cookie in 1 2 3 4; do
		signal "forge-$cookie"
		await "forged-$cookie"
		! connect 7175 || accepted=$((accepted + 1))
	done
	[ $accepted = 1 ] || fail "$accepted of the listeners have the request, not 1"
}

connect_to_new() {
	rping -c -p 7174 -C 1 -a "$new" >/tmp/rping 2>&1
}

refused_address() {
	new=192.0.2.77
	signal refuse
	await refusing
	ip addr add $new/24 dev "$(interface)" ||
		fail "cannot add an address"
	eventually 20 connect_to_new || fail "no listener: $(cat /tmp/rping)"
	signal refused
	await judged-refusal
}

# Each end is told that the other one has gone, though not by the device.
lost_end() {
	cm-churn --server -p 7177 -n 1 >/tmp/churn-server 2>&1 &
	churn_server=$!
	eventually 20 serving $churn_server 7177 || fail "cm-churn does not listen"
	signal lose-ends
	await losing-ends
	cm-churn -p 7177 -n 1 "$server" >/tmp/churn-client 2>&1 &
	churn_client=$!
	wait $churn_client || fail "cm-churn: $(cat /tmp/churn-client)"
	wait $churn_server || fail "cm-churn: $(cat /tmp/churn-server)"
	signal found
	await judged-ends
	! dmesg | grep -q 'out of service' || fail "the adapter is out of service"
}

accept-again "$server" || fail "accept-again"
eventually 30 nothing_left || fail "$(objects_left)"
# Before a command so late that the adapter is taken out of service for it.
lost_end
for port in 7174 7175 7176; do
	rping -s -P -S 4096 -p $port >/tmp/server-$port 2>&1 &
	eventually 20 serving $! $port || fail "rping does not listen on port $port"
done
late_command
wrong_listener
refused_address
pkill rping
wait
eventually 30 nothing_left || fail "$(objects_left)"
