# SPDX-License-Identifier: GPL-2.0-or-later
#
# "rdma resource show -dd": the objects of a program, with the device's numbers and
# states; before the connection, in it, and gone.

. /usr/lib/rnic/lib.sh

device=$(rdma_device)

# resources KIND: a line each.
resources() {
	rdma -dd resource show "$1" | sed ':a;N;$!ba;s/\n[ \t]\+/ /g'
}

# shown KIND PATTERN...: one line of these has them all.
shown() {
	resources "$1" >/tmp/shown
	shown_kind=$1
	shift
	cp /tmp/shown /tmp/left
	for pattern in "$@"; do
		grep -e "$pattern" /tmp/left >/tmp/matched
		mv /tmp/matched /tmp/left
	done
	[ -s /tmp/left ] && return
	cat /tmp/shown
	fail "no $shown_kind with $*"
}

connected() {
	resources qp | grep -q 'drv_state rts'
}

ibv_srq_pingpong -q 2 -r 50 -g 1 -d "$device" >/tmp/server 2>&1 &
server=$!
eventually 30 tcp_open 18515 || fail "ibv_srq_pingpong does not listen"
shown qp "link $device" 'drv_state idle' 'drv_direct 0' 'drv_sq_consumer 0' \
	'comm ibv_srq_pingpon'
shown cq "$device" 'drv_cqn [1-9]' 'drv_depth [1-9]'
shown mr "$device" 'drv_stag_index [1-9]' 'drv_access 0x'
shown srq "$device" 'drv_srqn [1-9]' 'drv_depth 64'
kill $server
wait $server
eventually 30 nothing_left || fail "$(objects_left)"

say "connected"
rping -s -a "$(address_of alone)" -C 2000000 >/tmp/server 2>&1 &
server=$!
eventually 30 serving $server 7174 || fail "rping does not listen"
rping -c -a "$(address_of alone)" -C 2000000 >/tmp/client 2>&1 &
client=$!
eventually 30 connected || fail "$(resources qp)"
shown qp 'drv_state rts' 'drv_direct 0' 'drv_ird [1-9]' 'drv_ord [1-9]' \
	'drv_mpa_revision [12]' 'drv_mpa_crc 0' 'drv_bytes_sent [1-9]' \
	'drv_bytes_received [1-9]' 'drv_sq_consumer [1-9]' 'comm rping'
kill $client $server
wait
eventually 30 nothing_left || fail "$(objects_left)"
resources qp | grep "link $device" && fail "QPs of programs that have ended"
true
