# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shell functions for scripts that vm-run runs in guests: source
# /usr/lib/rnic/lib.sh. They tell guests apart, let them wait for each other, and
# find the RDMA device, whose name nobody can know beforehand.

. /etc/rnic/run

say() {
	echo "== $*"
}

fail() {
	echo "error: $*" >&2
	exit 1
}

# The time of the guest in seconds, with fractions.
now() {
	cut -d ' ' -f 1 /proc/uptime
}

# signal WHAT: tells the other guests (and the host) that WHAT has happened.
signal() {
	: >"/mnt/run/.signal-$1"
}

signalled() {
	[ -e "/mnt/run/.signal-$1" ]
}

# Time-outs below are for Debian's kernel: vm-run's RNIC_PATIENCE stretches them.

# await WHAT [SECONDS]: until someone signals it. Fails at once when another
# guest's script has failed.
await() {
	awaited=0
	patience=$((${2:-60} * ${RNIC_PATIENCE:-1}))
	until signalled "$1"; do
		sleep 0.1
		for failed in /mnt/run/.signal-failed-*; do
			[ ! -e "$failed" ] || fail "${failed##*-} has failed"
		done
		awaited=$((awaited + 1))
		[ $awaited -lt $((patience * 10)) ] || fail "nobody signalled $1"
	done
}

# eventually SECONDS COMMAND...: until COMMAND succeeds; the status says whether
# it did.
eventually() {
	await_command "${RNIC_PATIENCE:-1}" "$@"
}

# await_command FACTOR SECONDS COMMAND...
await_command() {
	tries=$(($1 * $2 * 10))
	shift 2
	until "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		if [ $tries -le 0 ]; then
			echo "error: never came true: $*" >&2
			return 1
		fi
		sleep 0.1
	done
}

# set_hundredths: sets hundredths to those of a second since boot, without a process.
set_hundredths() {
	read -r hundredths _ </proc/uptime
	hundredths=${hundredths%.*}${hundredths#*.}
}

# within SECONDS COMMAND...: the same as eventually, by the clock, where the time is what
# the driver promises: the user's patience does not stretch it.
within() {
	set_hundredths
	within_end=$((hundredths + 100 * $1 * ${RNIC_SLOWNESS:-1}))
	shift
	until "$@" >/dev/null 2>&1; do
		set_hundredths
		[ "$hundredths" -le $within_end ] || break
		sleep 0.1
	done
	set_hundredths
	[ "$hundredths" -le $within_end ] || {
		echo "error: not true in time: $*" >&2
		return 1
	}
}

# RDMA devices in the order of their PCI addresses (or of their creation).
rdma_devices() {
	for dev in /sys/class/infiniband/*; do
		[ -e "$dev" ] || continue
		echo "$(readlink -f "$dev/device" 2>/dev/null) ${dev##*/}"
	done | sort | sed 's/.* //'
}

# rdma_device [K]: the K-th of them (the first).
rdma_device() {
	rdma_devices | sed -n "${1:-1}p"
}

# counter DEVICE NAME: one of the adapter's hardware counters.
counter() {
	cat "/sys/class/infiniband/$1/hw_counters/$2" 2>/dev/null ||
		cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"
}

# note_event_queues: at boot, when nothing is in use; see objects_left.
note_event_queues() {
	cat /sys/bus/pci/drivers/rnic/*/infiniband/*/ports/1/hw_counters/active_eqs \
		2>/dev/null | head -n 1 >/run/event-queues
}

# pooled_cqs DEVICE: CQs that kernel modules have shared and that nobody uses now:
# the core keeps them for the next one until the device goes.
pooled_cqs() {
	rdma resource show cq dev "$1" | grep -c ' users 0 .*comm \[ib_core\]'
}

# objects_left: a line for each kind of object that adapters still hold, as they
# count them themselves. The core's CQs are no such objects, nor are the driver's
# event queues: there must be as many as at boot. Starts no program if nothing
# is left, as it is asked again and again.
objects_left() {
	event_queues=
	read -r event_queues </run/event-queues
	for device in /sys/bus/pci/drivers/rnic/*/infiniband/*; do
		[ -e "$device" ] || continue
		for kind in qps cqs pds stags srqs listeners endpoints eqs; do
			count=unknown
			read -r count <"$device/ports/1/hw_counters/active_$kind"
			case $kind-$count in
			eqs-*) allowed=$event_queues ;;
			cqs-[1-9]*) allowed=$(pooled_cqs "${device##*/}") ;;
			*) allowed=0 ;;
			esac
			[ "$count" = "$allowed" ] ||
				echo "${device##*/} has $count $kind, not $allowed"
		done
	done
}

nothing_left() {
	[ -z "$(objects_left)" ]
}

# Whether this guest's adapter has sent a megabyte: a transfer is under way.
transferring() {
	[ "$(counter "$(rdma_device)" tx_octets)" -gt 1000000 ]
}

# sent_since OCTETS: has the adapter sent 100,000 octets more than OCTETS, which tx_octets
# was before?
sent_since() {
	[ "$(counter "$(rdma_device)" tx_octets)" -gt $(($1 + 100000)) ]
}

# The network interface of this guest's K-th adapter (the first).
interface() {
	ip -o address show to "$(own_address "${1:-1}")" | awk '{ print $2; exit }'
}

# own_address K: that of this guest's K-th adapter, with the length of its prefix.
own_address() {
	echo "$RNIC_ADDRESSES" | cut -d ' ' -f "$1"
}

# uses_ipv6: whether the guests of this run have no IPv4 address (vm-run --ipv6).
uses_ipv6() {
	[ "$RNIC_IP" = 6 ]
}

# any_address: what listens on all addresses of this run's kind.
any_address() {
	if uses_ipv6; then
		echo ::
	else
		echo 0.0.0.0
	fi
}

# perftest_ip: perftest's option for addresses of this run's kind.
perftest_ip() {
	! uses_ipv6 || echo --ipv6-addr
}

# before_port ADDRESS: as it is written where a port follows.
before_port() {
	case $1 in
	*:*) echo "[$1]" ;;
	*) echo "$1" ;;
	esac
}

# unbind_driver, bind_driver: takes the driver off the first adapter; puts it on
# again, with the address it had.
unbind_driver() {
	unbound=$(basename "$(readlink -f \
		"/sys/class/infiniband/$(rdma_device)/device")")
	echo "$unbound" >/sys/bus/pci/drivers/rnic/unbind
	[ -z "$(rdma_device)" ] || fail "the RDMA device is still there"
}

bind_driver() {
	echo "$unbound" >/sys/bus/pci/drivers/rnic/bind
	set_up_unbound
}

restore_address() {
	nodad=
	! uses_ipv6 || nodad=nodad
	# shellcheck disable=SC2086 # nothing, or a word
	ip address replace "$(own_address 1)" dev "$netdev" $nodad
}

# What a driver that has come back knows nothing of.
set_up_unbound() {
	eventually 30 test -e "/sys/bus/pci/devices/$unbound/net" ||
		fail "no interface after the driver came back"
	netdev=$(ls "/sys/bus/pci/devices/$unbound/net")
	restore_address
	ip link set "$netdev" up
	eventually 30 has_rdma_device || fail "no RDMA device"
}

has_rdma_device() {
	[ -n "$(rdma_device)" ]
}

# stuck_tasks: in uninterruptible sleep.
stuck_tasks() {
	for task in /proc/[0-9]*/stat; do
		awk '$3 == "D" { print $2 }' "$task" 2>/dev/null
	done
}

nothing_stuck() {
	[ -z "$(stuck_tasks)" ]
}

# interface_index: of the first adapter's interface, as long as it has its address.
interface_index() {
	cat "/sys/class/net/$(interface)/ifindex"
}

# address_of NAME: its address on the first adapters' network.
address_of() {
	awk -v name="$1" '$2 == name { print $1; exit }' /etc/hosts
}

# serving PID PORT: is PID waiting for RDMA connections on PORT? That there is
# a listener is seen before the device has it, so no thread of PID may still be
# inside the kernel's part of rdma_listen().
serving() {
	rdma resource show cm_id 2>/dev/null |
		grep -q "state LISTEN.* pid $1 .*:$2 " || return 1
	! cat /proc/"$1"/task/*/stack | grep -q _listen
}

# tcp_open PORT: does a program listen there for plain TCP?
tcp_open() {
	grep -q "$(printf ':%04X .* 0A ' "$1")" /proc/net/tcp /proc/net/tcp6
}

server_is_there() {
	serving "$server_pid" "$server_port" || tcp_open "$server_port"
}

# start_server STEP PORT COMMAND...: runs COMMAND in the background until it
# serves PORT, by RDMA or by TCP, then signals STEP. Its output goes to /tmp/STEP.
start_server() {
	server_step=$1
	server_port=$2
	shift 2
	"$@" >"/tmp/$server_step" 2>&1 &
	server_pid=$!
	eventually 30 server_is_there || {
		cat "/tmp/$server_step"
		fail "$server_step: does not listen"
	}
	signal "$server_step"
}

# end_server: its end must be a good one.
end_server() {
	wait "$server_pid" && return
	server_status=$?
	cat "/tmp/$server_step"
	fail "$server_step: the server failed with status $server_status"
}

# run_client STEP COMMAND...: when a server has signalled STEP.
run_client() {
	client_step=$1
	shift
	await "$client_step" 60
	"$@" >"/tmp/$client_step" 2>&1 && return
	client_status=$?
	cat "/tmp/$client_step"
	fail "$client_step: the client failed with status $client_status"
}

# What of perftest 25.01 fails by itself when a host is busy: with -R its client
# dials while its server may not listen yet (perftest_communication.c), and it
# measures the processor's clock with a loop that nothing may interrupt
# (get_clock.c). It is said in other words than perftest's: these would explain
# whatever else fails in the same test (scripts/known-fault).
perftest_fault() {
	if grep -q 'REJECTED; error: -111' "/tmp/$1"; then
		echo "$1: it dialled before its own server listened"
	elif grep -q 'Correlation coefficient r^2' "/tmp/$1"; then
		echo "$1: it could not measure the processor's clock"
	else
		return 1
	fi
}

# perftest_server STEP PORT COMMAND...: start_server and end_server for a program
# of perftest whose client runs with perftest_client; both begin again when the
# client met such a fault.
perftest_server() {
	perftest_step=$1
	shift
	for perftest_try in 1 2 3 4 5 6; do
		start_server "$perftest_step.$perftest_try" "$@"
		await "$perftest_step.$perftest_try-over" 120
		signalled "$perftest_step.$perftest_try-again" || break
		kill -KILL $server_pid 2>/dev/null
		wait $server_pid
	done
	end_server
}

# perftest_client STEP COMMAND...
perftest_client() {
	perftest_step=$1
	shift
	for perftest_try in 1 2 3 4 5 6; do
		await "$perftest_step.$perftest_try"
		"$@" >"/tmp/$perftest_step" 2>&1 && {
			signal "$perftest_step.$perftest_try-over"
			return
		}
		client_status=$?
		[ $perftest_try -lt 6 ] && perftest_fault "$perftest_step" || {
			cat "/tmp/$perftest_step"
			fail "$perftest_step: the client failed with status $client_status"
		}
		echo "that is perftest's own fault: $perftest_step begins again"
		signal "$perftest_step.$perftest_try-again"
		signal "$perftest_step.$perftest_try-over"
	done
}

# rpings_right STEP COUNT: did the client of STEP get COUNT answers?
rpings_right() {
	[ "$(grep -c 'ping data: rdma-ping' "/tmp/$1")" = "$2" ] && return
	cat "/tmp/$1"
	fail "$1: not $2 answers"
}

# shows ID...: what this test has shown of the specification, of the device, the driver
# and the provider alike, by a program that uses libibverbs; say it last.
shows() {
	echo "# shows $*"
}

# shows_driver ID...: of the device and the driver only, by a user in the kernel.
shows_driver() {
	echo "# shows_driver $*"
}

# shows_provider ID...: of the device and the provider only. What a process posts and
# polls never passes through the driver, which has such verbs of its own.
shows_provider() {
	echo "# shows_provider $*"
}
