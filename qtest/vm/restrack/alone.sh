# SPDX-License-Identifier: GPL-2.0-or-later
#
# "rdma resource show -dd": the objects of a program, with the device's numbers and
# states; before the connection, in it, and gone. "rdma statistic": what each QP has
# done, to the octet, and the port's counters, which are those that the manual has.

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
# A CQ for 50 receives and 2 Sends: the next power of two.
shown cq "$device" 'drv_cqn [1-9]' 'drv_depth 64'
shown mr "$device" 'mrlen 4096 ' 'drv_stag_index [1-9]' 'drv_access 0x1 ' \
	'drv_state valid' 'drv_pages 1 ' 'drv_bound_windows 0'
shown srq "$device" 'drv_srqn [1-9]' 'drv_depth 64' 'drv_state ready' 'drv_limit 0' \
	'drv_limit_armed 0'
kill $server
wait $server
eventually 30 nothing_left || fail "$(objects_left)"

# A region of three pages to which windows may be bound.
hold-region -p 3 -a 0x11 "$device" >/tmp/holder &
holder=$!
eventually 30 grep -q '^held' /tmp/holder || fail "hold-region: $(cat /tmp/holder)"
shown mr 'comm hold-region' 'mrlen 12288 ' 'drv_access 0x11 ' 'drv_state valid' \
	'drv_pages 3 ' 'drv_max_pages 0 '
kill $holder
wait $holder
eventually 30 nothing_left || fail "$(objects_left)"

say "connected"
rping -s -a "$(address_of alone)" -C 2000000 >/tmp/server 2>&1 &
server=$!
eventually 30 serving $server 7174 || fail "rping does not listen"
shown cm_id 'state LISTEN' 'drv_state listening' 'drv_addresses 1' \
	'drv_cookie [1-9]' 'comm rping'
rping -c -a "$(address_of alone)" -C 2000000 >/tmp/client 2>&1 &
client=$!
eventually 30 connected || fail "$(resources qp)"
shown qp 'drv_state rts' 'drv_direct 0' 'drv_ird [1-9]' 'drv_ord [1-9]' \
	'drv_mpa_revision [12]' 'drv_mpa_crc 0' 'drv_bytes_sent [1-9]' \
	'drv_bytes_received [1-9]' 'drv_sq_consumer [1-9]' 'comm rping'
shown mr 'comm rping' 'drv_access 0x7 ' 'drv_state valid' 'drv_pages [1-9]'
qpn=$(resources qp | sed -n "s/.*link $device.* lqpn \([0-9]*\) .*/\1/p" | head -n 1)
shown cm_id 'state CONNECT' 'drv_state connected' 'drv_cookie [1-9]' \
	"drv_qpn $qpn" 'comm rping'
kill $client $server
wait
eventually 30 nothing_left || fail "$(objects_left)"
resources qp | grep "link $device" && fail "QPs of programs that have ended"

# statistics: a line for each counter that QPs are bound to.
statistics() {
	rdma statistic qp show link "$device/1" | sed ':a;N;$!ba;s/\n[ \t]\+/ /g'
}

# statistic NAME: its sum over all counters.
statistic() {
	statistics | tr ' ' '\n' | awk -v name="$1" '
		last == name { sum += $0 }
		{ last = $0 }
		END { print sum + 0 }'
}

# expect_statistic NAME VALUE
expect_statistic() {
	[ "$(statistic "$1")" = "$2" ] && return
	statistics
	fail "$1 is $(statistic "$1"), not $2"
}

# port NAME: past the 10 ms for which the core keeps values.
port() {
	sleep 0.1
	counter "$device" "$1"
}

qpns() {
	resources qp | sed -n "s/.*link $device.* lqpn \([0-9]*\) .*/\1/p"
}

# both_octets: what the two QPs of the pair have sent, as the device says.
both_octets() {
	resources qp | sed -n 's/.*drv_bytes_sent \([0-9]*\) .*/\1/p' |
		awk '{ sum += $1 } END { print sum + 0 }'
}

say "bound by hand"
first=$(port tx_octets)
ibv_rc_pingpong -g 1 -d "$device" -s 5000 -n 10 >/tmp/server 2>&1 &
server=$!
eventually 30 tcp_open 18515 || fail "ibv_rc_pingpong does not listen"
qpn=$(qpns)
rdma statistic qp bind link "$device/1" lqpn "$qpn" || fail "cannot bind"
statistics
statistics | grep -q "LQPN: <$qpn>" || fail "QP $qpn is bound to nothing"
expect_statistic tx_octets 0
expect_statistic sq_wrs 0
[ "$(port tx_octets)" = "$first" ] || fail "to bind changes the port's count"
rdma statistic qp bind link "$device/1" lqpn "$qpn" && fail "bound twice"
ibv_rc_pingpong -g 1 -d "$device" -s 5000 -n 10 "$(address_of alone)" \
	>/tmp/client 2>&1 || { cat /tmp/client; fail "the client failed"; }
wait $server || { cat /tmp/server; fail "the server failed"; }
eventually 30 nothing_left || fail "$(objects_left)"
# The QP has gone and with it its counter, but not the port's octets.
[ -z "$(statistics)" ] || fail "counters without QPs: $(statistics)"
# Each message takes an FPDU with more than its octets; both ends are here.
last=$(port tx_octets)
[ "$last" -gt $((first + 2 * 10 * 5000)) ] || fail "$((last - first)) octets only"
[ "$last" = "$(port tx_octets)" ] || fail "octets of nobody"

say "bound by itself"
rdma statistic qp set link "$device/1" auto type on || fail "no automatic mode"
first=$(port tx_octets)
first_wrs=$(port sq_wrs)
rping -s -a "$(address_of alone)" -C 2000000 -S 1000 >/tmp/server 2>&1 &
server=$!
eventually 30 serving $server 7174 || fail "rping does not listen"
rping -c -a "$(address_of alone)" -C 2000000 -S 1000 >/tmp/client 2>&1 &
client=$!
eventually 30 connected || fail "$(resources qp)"
kill -STOP $client
sleep 1
# The counters that QPs are bound to are not up to date yet: nothing counts twice.
octets=$(port tx_octets)
[ "$octets" = "$(port tx_octets)" ] || fail "the port counts at rest"
expect_statistic tx_octets $((octets - first))
for name in sq_wrs rq_wrs cqes tx_octets rx_octets tx_fpdus rx_fpdus; do
	[ "$(statistic $name)" -gt 0 ] || fail "$name is nothing: $(statistics)"
done
expect_statistic cqe_errors 0
# All QPs are bound and at rest: their sums are exact, and those of the port.
expect_statistic tx_octets "$(both_octets)"
expect_statistic tx_octets $(($(port tx_octets) - first))
expect_statistic sq_wrs $(($(port sq_wrs) - first_wrs))
statistics
kill -CONT $client
kill $client $server
wait
eventually 30 nothing_left || fail "$(objects_left)"

say "a QP that has gone"
# All QPs of a type have one counter, which lives as long as one of them.
first=$(port tx_octets)
ibv_rc_pingpong -g 1 -d "$device" >/tmp/keeper 2>&1 &
keeper=$!
eventually 30 tcp_open 18515 || fail "ibv_rc_pingpong does not listen"
rping -s -a "$(address_of alone)" -C 20 -S 1000 >/tmp/server 2>&1 &
server=$!
eventually 30 serving $server 7174 || fail "rping does not listen"
rping -c -a "$(address_of alone)" -C 20 -S 1000 >/tmp/client 2>&1 ||
	fail "rping fails"
wait $server
only_one() {
	[ "$(qpns | wc -l)" = 1 ]
}
eventually 30 only_one || fail "QPs of rping are left: $(qpns)"
statistics
# 20 times two Sends, a Write and the answer to a Read.
[ "$(statistic tx_octets)" -gt 40000 ] || fail "what rping did is lost"
expect_statistic tx_octets $(($(port tx_octets) - first))
kill $keeper
wait $keeper
eventually 30 nothing_left || fail "$(objects_left)"
counted-race "$device" || fail "counted-race"
cat "/sys/class/infiniband/$device/ports/1/hw_counters/"* >/dev/null ||
	fail "the counters cannot be read"
rdma statistic qp set link "$device/1" auto off || fail "for ever automatic"

# sent QPN: what the device says that this QP has sent.
sent() {
	resources qp | grep "lqpn $1 " | sed -n 's/.*drv_bytes_sent \([0-9]*\) .*/\1/p'
}

say "bound between two messages"
first=$(port tx_octets)
rping -s -a "$(address_of alone)" -C 2000000 -S 1000 >/tmp/server 2>&1 &
server=$!
eventually 30 serving $server 7174 || fail "rping does not listen"
rping -c -a "$(address_of alone)" -C 2000000 -S 1000 >/tmp/client 2>&1 &
client=$!
eventually 30 connected || fail "$(resources qp)"
kill -STOP $client
sleep 1
qpn=$(qpns | head -n 1)
before=$(sent "$qpn")
rdma statistic qp bind link "$device/1" lqpn "$qpn" || fail "cannot bind"
expect_statistic tx_octets 0
kill -CONT $client
sleep 1
kill -STOP $client
sleep 1
[ "$(sent "$qpn")" -gt "$before" ] || fail "rping does not go on"
expect_statistic tx_octets $(($(sent "$qpn") - before))
cntn=$(statistics | sed 's/.* cntn \([0-9]*\) .*/\1/')
rdma statistic qp unbind link "$device/1" cntn "$cntn" lqpn "$qpn" ||
	fail "cannot unbind"
[ -z "$(statistics)" ] || fail "still bound: $(statistics)"
[ "$(port tx_octets)" = $((first + $(both_octets))) ] ||
	fail "the port's octets are not those of both QPs"
kill -CONT $client
kill $client $server
wait
eventually 30 nothing_left || fail "$(objects_left)"

# size_changes: whether a CQ of resize-self has been seen with two sizes.
size_changes() {
	resources cq | grep 'comm resize-self' |
		sed -n 's/.*drv_cqn \([0-9]*\) .*drv_depth \([0-9]*\).*/\1 \2/p' \
		>>/tmp/sizes
	sort -u /tmp/sizes | cut -d ' ' -f 1 | uniq -d | grep -q .
}

say "CQs that are resized"
resize-self --number 100000000 "$(address_of alone)" >/tmp/resize 2>&1 &
program=$!
eventually 30 size_changes || fail "CQs: $(sort -u /tmp/sizes) $(resources cq)"
kill $program
wait $program
eventually 30 nothing_left || fail "$(objects_left)"

say "the port's counters"
find "/sys/class/infiniband/$device/ports/1/hw_counters" -type f \
	! -name lifespan -printf '%f\n' | sort >/tmp/counters
sort "/mnt/run/documented" >/tmp/documented
[ -s /tmp/documented ] || fail "the manual has no counters"
diff /tmp/documented /tmp/counters || fail "not those of the manual"
rdma statistic show link "$device/1" | tr ' ' '\n' | grep -q '^events_lost$' ||
	fail "rdma statistic shows others"

shows_driver V6.1.1-9 V7.7-1 V9.2.3.2-1
