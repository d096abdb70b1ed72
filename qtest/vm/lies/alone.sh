# SPDX-License-Identifier: GPL-2.0-or-later
#
# The adapter lies, one lie after another, while the kernel and programs use it. No
# lie may harm more than the adapter's users: the kernel stays whole, programs end or
# go on, and the adapter works when it tells the truth again, by the driver's own
# recovery if it was taken out of service.

. /usr/lib/rnic/lib.sh
. ./lie.sh.inc
. /usr/lib/rnic/nvme-target.sh
. ./traffic.sh.inc

# NAME | what must come of it | what makes it happen | the rule.
#
# stays: the adapter stays in service; fails: the driver takes it out of service;
# either: that depends on what happens first. What makes it happen is a function
# by_NAME below.
lies() {
	cat <<-'END'
	CQE: wr_id a pointer | fails | traffic | on=completion object=@initiator do=forge size=8 value=0xdeadbeefdeadbeef
	CQE: wr_id of no WR | fails | traffic | on=completion object=@initiator do=forge value=0xfffffff0
	CQE: wr_id, target | fails | traffic | on=completion object=@target do=forge size=8 value=0xdeadbeefdeadbeef
	CQE: of another QP | fails | traffic | on=completion object=@initiator do=forge offset=8 value=@target
	CQE: of a program's QP | fails | traffic | on=completion object=@target do=forge offset=8 value=@program
	CQE: of no QP | fails | traffic | on=completion object=@initiator do=forge offset=8 value=0x123456
	CQE: byte_len | fails | traffic | on=completion object=@initiator do=forge offset=12 value=0xffffffff
	CQE: status | stays | traffic | on=completion object=@initiator do=forge offset=28 size=1 value=0xee
	CQE: status, target | stays | traffic | on=completion object=@target do=forge offset=28 size=1 value=0xee
	CQE: flags | either | traffic | on=completion object=@initiator do=forge offset=30 size=1 value=0xff
	CQE: twice | fails | traffic | on=completion object=@initiator do=repeat
	CQE: lost | fails | traffic | on=completion object=@initiator do=lose
	CQE: lost, target | fails | traffic | on=completion object=@target do=lose
	CQE: lost in a drain | fails | disconnect | on=completion object=@initiator do=lose times=0
	CQE: of no QP in a drain | fails | disconnect | on=completion object=@initiator do=forge offset=8 value=0x123456 times=0
	program's CQE: wr_id | stays | traffic | on=completion object=@program do=forge size=8 value=0xdeadbeefdeadbeef
	program's CQE: QP | stays | traffic | on=completion object=@program do=forge offset=8 value=@target
	program's CQE: byte_len | stays | traffic | on=completion object=@program do=forge offset=12 value=0xffffffff
	program's CQE: twice | stays | traffic | on=completion object=@program do=repeat
	program's CQE: lost | stays | traffic | on=completion object=@program do=lose
	completion event: no CQ | either | traffic | on=completion-event do=forge value=0x123456
	completion event: another CQ | either | traffic | on=completion-event do=forge value=@cq times=3
	completion event: lost | either | traffic | on=completion-event do=lose
	completion event: twice | stays | traffic | on=completion-event do=repeat times=20
	completion event: for ever | stays | traffic | on=completion-event do=flood
	async event: twice | stays | kill | on=async-event do=repeat
	async event: for ever | stays | kill | on=async-event do=flood
	async event: lost | stays | kill | on=async-event do=lose
	async event: of another QP | stays | kill | on=async-event do=forge offset=4 value=@target
	async event: of no CQ | stays | kill | on=async-event do=forge offset=2 size=8 value=0x12345602
	async event: link, twice | stays | link | on=async-event do=repeat times=2
	async event: link, while unbound | stays | flaps | on=async-event do=repeat times=0
	async event: catastrophe | fails | link | on=async-event do=forge value=42
	connection event: twice | stays | rping | on=connection-event do=repeat times=3
	connection event: for ever | stays | rping | on=connection-event do=flood
	connection event: cookie | stays | rping | on=connection-event do=forge offset=8 size=8 value=0xdeadbeef
	connection event: lost | stays | rping | on=connection-event nth=2 do=lose
	connection event: type | stays | rping | on=connection-event nth=2 do=forge size=1 value=5
	DESTROY_QP refused | fails | rping | on=admin kind=18 do=status status=21
	DESTROY_QP refused to the kernel | fails | disconnect | on=admin kind=18 do=status status=27
	MODIFY_QP refused to the kernel | fails | disconnect | on=admin kind=17 do=status status=35 times=0
	DESTROY_CQ refused | fails | rping | on=admin kind=10 do=status status=8
	DESTROY_SRQ refused | fails | objects | on=admin kind=14 do=status status=9
	DEALLOC_STAG refused | fails | objects | on=admin kind=24 do=status status=9
	DEALLOC_PD refused | fails | objects | on=admin kind=6 do=status status=9
	DESTROY_EQ refused | fails | unbind | on=admin kind=4 do=status status=9
	DESTROY_EQ unanswered | fails | unbind | on=admin kind=4 do=lose
	DESTROY_ETH_QUEUE refused | fails | unbind | on=admin kind=49 do=status status=9
	UNLISTEN refused | fails | rping | on=admin kind=33 do=status status=9
	CREATE_QP: 0 | fails | rping | on=admin kind=15 do=forge offset=4 value=0
	CREATE_QP: too large | fails | rping | on=admin kind=15 do=forge offset=4 value=0x1000001
	CREATE_QP: in use | fails | rping | on=admin kind=15 do=forge offset=4 value=@target
	CREATE_CQ: 0 | fails | rping | on=admin kind=7 do=forge offset=4 value=0
	CREATE_CQ: too large | fails | rping | on=admin kind=7 do=forge offset=4 value=0xffffffff
	CREATE_CQ: in use | fails | rping | on=admin kind=7 do=forge offset=4 value=@cq
	admin: twice | stays | rping | on=admin do=repeat times=20
	admin: late | stays | rping | on=admin kind=15 do=late delay-ms=1500
	admin: lost | fails | rping | on=admin kind=15 do=lose
	interrupts lost | either | traffic | on=interrupt do=lose times=30
	interrupts twice | stays | traffic | on=interrupt do=repeat times=100
	LIMITS: doorbell pages | stays | probe | on=register object=0x0c do=forge offset=2 size=2 value=65535 times=0
	LIMITS: vectors | stays | probe | on=register object=0x0c do=forge size=2 value=65535 times=0
	fatal | fails | traffic | on=completion object=@target do=fatal value=6
	vanished | fails | traffic | on=completion object=@initiator do=vanish
	END
}

by_traffic() {
	:
}

by_kill() {
	kill -KILL "$program"
}

by_link() {
	link false
	link true
}

# The link changes all the time while the driver leaves and comes back.
by_flaps() {
	for flap in 1 2 3 4 5 6 7 8 9 10; do
		link false
		link true
	done &
	flaps=$!
	rebind
	wait $flaps
	# What that process has asked has numbers of its own.
	asked=$((asked + 20))
	await_lies 0
}

by_rping() {
	(short_rping) >/dev/null 2>&1 &
}

# Each kind of object is made and destroyed, if nothing goes wrong.
by_objects() {
	(timeout -k 2 $((20 * RNIC_PATIENCE)) leaks-self "$(rdma_device)") \
		>/dev/null 2>&1 &
}

by_disconnect() {
	disconnect
}

rebind() {
	echo "$unbound" >/sys/bus/pci/drivers/rnic/unbind
	echo "$unbound" >/sys/bus/pci/drivers/rnic/bind
	set_up_unbound
}

# A driver that is bound to a device says nothing of its service.
by_unbind() {
	rebind
	echo "lies: bound again" >/dev/kmsg
}

by_probe() {
	rebind
	await_lies 0
}

# step_fails WHAT: with all that tells why; its status is a failure.
step_fails() {
	echo "error: $step: $1; $begun to $(now)"
	echo "--- the kernel's log of the step"
	log | tail -n 60
	echo "--- in uninterruptible sleep"
	say_asleep
	rdma resource show qp
	failed_steps="$failed_steps${failed_steps:+, }$step"
	return 1
}

# begin NAME
begin() {
	step=$1
	begun=$(now)
	begin_log "$step"
}

# try_lies EXPECTED CAUSE RULES-JSON SECONDS
try_lies() {
	expected=$1
	lie "$3"
	"by_$2"
	await_lies "$4"
	told=$(done_of_answer)
}

# Programs run on each CPU, also while the adapter floods a queue.
cpus_are_free() {
	for cpu in $(seq 0 $(($(nproc) - 1))); do
		timeout $((10 * RNIC_PATIENCE)) taskset -c "$cpu" true || return
	done
}

# The driver has had its time to find out.
await_outcome() {
	cpus_are_free || step_fails "a CPU is held" || return
	case $expected in
	# The driver's patience with a command is 30 seconds.
	fails) eventually 35 failed_since || step_fails "still in service" ;;
	# Processes that look again and again would take minutes beside the traffic.
	either) sleep "$RNIC_PATIENCE" ;;
	esac
}

# A driver that has failed often waits longer and longer before it tries again; it
# begins anew when it is bound. Linux 6.12's nvme_rdma and nvmet_rdma leave queues of a
# connection that is made while the device goes: no controller connects then.
rebind_now_and_then() {
	failures=$((failures + 1))
	[ $((failures % 4)) -ne 0 ] || {
		disconnect
		unbind_driver
		bind_driver
	}
}

recover() {
	eventually 45 in_service || step_fails "not back in service" || return
	rebind_now_and_then
}

check_service() {
	failed_since || {
		service="stays in service"
		return
	}
	service="out of service: $(why_failed)"
	[ "$expected" != stays ] || step_fails "$service" || return
	recover
}

# A program whose completion is lost or another's may wait for it for ever.
is_about_program() {
	[ "${step#program}" != "$step" ]
}

# Traffic that begins anew shows that the adapter works, and is for the next lie.
check_traffic() {
	if ! is_about_program && traffic_goes_on; then
		traffic="goes on"
		return
	fi
	traffic="began anew"
	stop_traffic || step_fails "programs do not end" || return
	traffic_begins_anew || step_fails "no traffic afterwards"
}

end() {
	await_outcome || return
	tell_the_truth
	check_service || return
	stop_short_rping || step_fails "rping does not end" || return
	check_traffic || return
	eventually 10 none_asleep || step_fails "a task is not woken" || return
	log_is_clean || step_fails "complaints of the kernel" || return
	echo "ok: $step: $told; $service; traffic $traffic; $begun to $(now)"
}

# When many lies are over.
check_all() {
	step=$1
	check_disk || step_fails "the disk gave back something else" || return
	short_rping || step_fails "rping does not work"
}

# After a step that failed: a device that says itself that it has failed ends all
# that waits for it, and the next lies can be told.
rescue() {
	begin_log rescue
	lie '[ { "on": "register", "do": "fatal" } ]'
	eventually 10 failed_since || fail "$step: it does not even fail"
	tell_the_truth
	eventually 45 in_service || fail "$step: not back in service"
	stop_short_rping || fail "$step: rping does not end"
	stop_traffic || fail "$step: programs do not end"
	disconnect || fail "$step: a controller does not go away"
	start_traffic || fail "$step: no traffic afterwards"
	eventually 20 none_asleep || fail "$step: a task is not woken: $(say_asleep)"
}

# What the test lies has of the table. The test lies-others has all the others.
first="^(CQE|completion event|interrupts lost|DESTROY|fatal|vanished)"

chosen_lies() {
	case $ONLY in
	first) lies | grep -E "$first" ;;
	others) lies | grep -Ev "$first" ;;
	*) lies | grep -E "$ONLY" ;;
	esac
}

# begin_connected NAME: the step, when all is connected. If a lie is one of "either", the
# driver may find it out after its step.
begin_connected() {
	begin "$1"
	eventually 8 all_connected && return
	[ "$expected" = either ] || return
	recover && stop_traffic && traffic_begins_anew &&
		eventually 20 all_connected || return
	begin "$1"
}

run_lies() {
	chosen_lies >/tmp/lies
	while IFS='|' read -r name outcome cause rule <&3; do
		begin_connected "${name% }" || {
			step_fails "not all is connected before it"
			rescue
			continue
		}
		# shellcheck disable=SC2086 # words
		set -- $outcome $cause "$(echo "$rule" | json_rules)"
		try_lies "$@" $((15 * RNIC_PATIENCE))
		{ [ "$told" != 0 ] || step_fails "no event of the rule"; } &&
			end || rescue
	done 3</tmp/lies
}

# Several at a time, from the FROM-th one on.
run_random_lies() {
	awk -v seed="$SEED" -v count="$LIES" -f random-rules.awk >/tmp/random
	from=$FROM
	while [ $from -le "$LIES" ]; do
		sed -n "$from,$((from + AT_ONCE - 1))p" /tmp/random >/tmp/some
		begin "random lies of seed $SEED from $from"
		cat /tmp/some
		try_lies either rping "$(json_rules </tmp/some)" \
			$((3 * RNIC_PATIENCE))
		end || rescue
		from=$((from + AT_ONCE))
	done
}

unbound=$(basename "$(readlink -f "/sys/class/infiniband/$(rdma_device)/device")")
failures=0
failed_steps=
expected=
echo $((40 * RNIC_PATIENCE)) >/proc/sys/kernel/hung_task_timeout_secs
# What never completes is given up soon.
modprobe nvme-core io_timeout=3 admin_timeout=3 || fail "no NVMe"
modprobe nvme-rdma || fail "no NVMe initiator"
# Any address: this outlives the RDMA device.
lend_disk $megabytes 0.0.0.0
start_traffic || fail "no traffic"
say "the lies at $(now)"
run_lies
check_all "all lies" || rescue
say "the random lies from $FROM to $LIES of seed $SEED at $(now)"
run_random_lies
check_all "all random lies" || rescue
say "done at $(now)"
stop_traffic || fail "programs do not end"
disconnect || fail "a controller does not go away"
rmmod nvme_rdma || fail "nvme_rdma does not go away"
take_disk_back
signal over
[ -z "$failed_steps" ] || fail "$failed_steps"
