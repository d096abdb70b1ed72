# SPDX-License-Identifier: GPL-2.0-or-later
#
# devlink tells what the adapter is and how it is: each failure is counted, its dump
# has the registers and the command concerned, and the driver recovers by itself
# unless it shall not.

. /usr/lib/rnic/lib.sh

function=$(basename "$(readlink -f "/sys/class/infiniband/$(rdma_device)/device")")
unbound=$function
asks=0

# rules RULE: x-fault of this guest's adapter; none takes the fault away.
rules() {
	asks=$((asks + 1))
	echo "$1" >"/mnt/run/.ask"
	mv /mnt/run/.ask "/mnt/run/.signal-ask-$asks"
	await "set-$asks"
}

health() {
	devlink health show "pci/$function" reporter device
}

# health_of FIELD: state, error, recover, auto_recover
health_of() {
	health | tr '\n' ' ' | sed -n "s/.* $1 \([^ ]*\).*/\1/p"
}

is() {
	[ "$(health_of "$1")" = "$2" ]
}

# expect FIELD VALUE SECONDS
expect() {
	eventually "$3" is "$1" "$2" || { health; dmesg | tail -n 20; fail "$step: $1 is not $2"; }
}

# diagnosed FIELD PATTERN
diagnosed() {
	devlink -j health diagnose "pci/$function" reporter device |
		grep -q "\"$1\":\"\?$2\"\?[,}]"
}

# dumped PATTERN...: one object of the failure's dump has them all.
dumped() {
	devlink -j health dump show "pci/$function" reporter device >/tmp/dump ||
		fail "$step: no dump"
	tr '{' '\n' </tmp/dump >/tmp/left
	for pattern in "$@"; do
		grep -e "$pattern" /tmp/left >/tmp/matched
		mv /tmp/matched /tmp/left
	done
	[ -s /tmp/left ] && return
	cat /tmp/dump
	fail "$step: the dump has no $*"
}

count_failures() {
	devlink -j health diagnose "pci/$function" reporter device |
		sed 's/.*"failures":\([0-9]*\).*/\1/'
}

new_dump() {
	devlink health dump clear "pci/$function" reporter device ||
		fail "$step: cannot clear the dump"
}

# ask_for_a_qp: makes a program create a queue pair, which may never come to pass.
ask_for_a_qp() {
	ibv_rc_pingpong -g 1 -d "$(rdma_device)" >/tmp/program 2>&1 &
	program=$!
}

end_program() {
	kill $program 2>/dev/null
	wait $program
}

works() {
	eventually 30 has_rdma_device || fail "$step: no RDMA device"
	rping -s -a "$(address_of alone)" -C 3 >/tmp/server 2>&1 &
	server=$!
	eventually 30 serving $server 7174 || fail "$step: rping does not listen"
	rping -c -a "$(address_of alone)" -C 3 >/tmp/client 2>&1 ||
		fail "$step: rping fails"
	wait $server
}

attempts_counted() {
	[ "$(health_of error)" -ge 4 ]
}

# recovers TIMES: in service again, for the TIMES-th time.
recovers() {
	expect state healthy 30
	expect recover "$1" 1
	end_program
	works
}

step="the instance"
devlink dev show "pci/$function" || fail "$step: none"
devlink dev info "pci/$function" >/tmp/info || fail "$step: no info"
grep -q 'driver rnic' /tmp/info || { cat /tmp/info; fail "$step: no driver"; }
version=$(ibv_devinfo -d "$(rdma_device)" | sed -n 's/.*fw_ver:[ \t]*//p')
grep -q "fw $version\$" /tmp/info || { cat /tmp/info; fail "$step: not fw $version"; }
health
devlink -j health diagnose "pci/$function" reporter device
expect state healthy 1
expect error 0 1
expect auto_recover true 1
diagnosed state 'in service' || fail "$step: no diagnosis"
diagnosed failures 0 || fail "$step: failures"
devlink health dump show "pci/$function" reporter device &&
	fail "$step: a dump of no failure"

step="an answer that is late"
rules '{"on": "admin", "kind": 15, "do": "late", "delay-ms": 3000}'
ask_for_a_qp
sleep 4
expect error 0 1
end_program

step="a fatal error"
# Without the event that tells of it, so that the driver finds it by itself.
rules '{"on": "async-event", "kind": 42, "do": "lose"},
	{"on": "admin", "kind": 15, "do": "fatal"}'
ask_for_a_qp
expect error 1 20
recovers 1
dumped '"STATUS":"0x00000003"' '"HEALTH":"0x00000007"' '"MAGIC":"0x43494e52"'
# The fault comes after the answer.
dumped '"command":"CREATE_QP","number":[1-9]' '"status":0'
dumped '"command":"QUERY_QP","number":[1-9]' '"status":"unanswered"'
dumped '"cause":"it reports a fatal error"'
diagnosed failures 1 || fail "$step: failures"
grep -q ADMIN_SQ_BASE /tmp/dump && fail "$step: addresses in the dump"

step="no automatic recovery"
new_dump
devlink health set "pci/$function" reporter device auto_recover false ||
	fail "$step: cannot be set"
rules '{"on": "admin", "kind": 15, "do": "fatal"}'
ask_for_a_qp
expect error 2 20
end_program
sleep 5
expect state error 1
expect error 2 1
expect recover 1 1
[ -z "$(rdma_device)" ] || fail "$step: it recovers all the same"
diagnosed state failed || fail "$step: no diagnosis"
diagnosed next_attempt_ms none || fail "$step: there is a next attempt"
devlink health recover "pci/$function" reporter device ||
	fail "$step: nor by hand"
recovers 2
diagnosed state 'in service' || fail "$step: no diagnosis"
devlink health set "pci/$function" reporter device auto_recover true ||
	fail "$step: cannot be set again"

step="a device that has vanished"
new_dump
rules '{"on": "admin", "kind": 15, "do": "vanish"}'
ask_for_a_qp
# Attempts in vain are failures, too.
eventually 60 diagnosed next_attempt_ms '[1-9][0-9]*' || fail "$step: no next attempt"
eventually 60 attempts_counted || fail "$step: attempts are not counted"
expect state error 1
rules ''
recovers 3
dumped '"STATUS":"0xffffffff"' '"HEALTH":"0xffffffff"'
dumped '"command":' '"status":"unanswered"'

step="a command that is never answered"
new_dump
errors=$(health_of error)
rules '{"on": "admin", "kind": 15, "do": "lose"}'
ask_for_a_qp
expect error $((errors + 1)) 60
recovers 4
dumped '"cause":"an admin command timed out"' '"ms_ago"'
dumped '"command":"CREATE_QP"' '"us_before_failure":3[0-9]\{7\},' '"status":"unanswered"'

step="a test"
devlink health test "pci/$function" reporter device || fail "$step: refused"
expect error $((errors + 2)) 10
recovers 5
devlink health diagnose "pci/$function" reporter device
diagnosed last_cause 'a test asked for it' || fail "$step: another cause"

step="a reload"
failures=$(count_failures)
devlink dev reload "pci/$function" || fail "$step: refused"
works
expect error $((errors + 2)) 1
[ "$(count_failures)" = "$failures" ] || fail "$step: it counts as a failure"
diagnosed last_cause 'a test asked for it' || fail "$step: another cause"

step="a recovery by hand while an attempt fails"
# The start, not the device that works, creates event queues.
rules '{"on": "admin", "kind": 3, "do": "lose"}'
devlink health test "pci/$function" reporter device || fail "$step: refused"
expect error $((errors + 3)) 10
sleep 2
# After 100 ms the attempt has begun, as after each reload. The recovery by hand waits for its end.
devlink health recover "pci/$function" reporter device || fail "$step: refused"
expect error $((errors + 4)) 10
recovers 6
devlink health test "pci/$function" reporter device || fail "$step: refused"
expect error $((errors + 5)) 10
recovers 7

step="the driver leaves while the device is out of service"
devlink health set "pci/$function" reporter device auto_recover false
devlink health test "pci/$function" reporter device
expect state error 10
echo "$function" >/sys/bus/pci/drivers/rnic/unbind
devlink dev show | grep "pci/$function" && fail "$step: the instance stays"
echo "$function" >/sys/bus/pci/drivers/rnic/bind
set_up_unbound
works
expect error 0 1
signal over
