# SPDX-License-Identifier: GPL-2.0-or-later
#
# Does what the client says: .signal-do-N has a line for the shell, .signal-done-N
# gets its status.

. /usr/lib/rnic/lib.sh

# What the client's lines name.
if=$(interface)
client=$(address_of client)
received() {
	cat "/sys/class/net/$if/statistics/rx_packets"
}

# has_received NUMBER: packets, since before was set.
has_received() {
	[ "$(received)" -ge $((before + $1)) ]
}

number=1
while :; do
	await do-$number 120
	read -r line <.signal-do-$number
	[ "$line" != end ] || break
	eval "$line"
	status=$?
	echo "$line: $status (${if} ${client})"
	echo $status >done.new
	mv done.new .signal-done-$number
	number=$((number + 1))
done
