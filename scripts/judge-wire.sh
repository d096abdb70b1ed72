# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# For the program host of a VM test. With --fabric tcp: captures the guests' RDMA
# connections on the loopback interface until the guests have ended, puts them in
# TCP's order, and asks Wireshark's dissectors (tshark-iwarp) what is there. It runs in
# the test's directory.

capture=wire.pcap
ordered=ordered.pcap

# The guests' await fails then, too.
fail() {
	echo "error: $*"
	: >.signal-failed-host
	exit 1
}

# put_in_order CAPTURE: from now on it is about that one.
put_in_order() {
	ordered=ordered.pcap
	"$RNIC_TOP/scripts/tcp-in-order" "$1" "$ordered" ||
		fail "the capture is not complete"
}

# capture_wire SCRIPT...: until each of these guests' scripts has ended.
capture_wire() {
	local root=() tcpdump script
	[ "$(id -u)" -eq 0 ] || root=(sudo -n)
	"${root[@]}" true 2>/dev/null || { echo "capturing needs root"; exit 77; }
	"${root[@]}" tcpdump -i lo -n -s 0 -B 262144 -U -w "$capture" \
		"tcp and net $RNIC_HOST_NET.0/24" 2>tcpdump.log &
	tcpdump=$!
	for script in "$@"; do
		until [ -e "$script.rc" ]; do
			kill -0 $tcpdump 2>/dev/null ||
				fail "tcpdump: $(cat tcpdump.log)"
			sleep 0.5
		done
	done
	sleep 1
	"${root[@]}" kill -INT $tcpdump
	wait $tcpdump || true
	cat tcpdump.log
	grep -q '^0 packets dropped by kernel' tcpdump.log ||
		fail "the capture is not complete"
	put_in_order "$capture"
}

# capture_link LINK: with vm-run --hosts, all that passes at that interface of the
# router, into LINK.pcap, until end_captures. tcpdump gives up root's rights for those of
# a user whom a user namespace does not have.
links=()
capture_pids=()
capture_link() {
	setpriv --pdeathsig KILL dumpcap -q -i "$1" -P -B 64 -w "$1.pcap" \
		2>"$1.log" &
	links+=("$1")
	capture_pids+=($!)
	until grep -qs '^File: ' "$1.log"; do
		kill -0 $! 2>/dev/null || fail "dumpcap: $(cat "$1.log")"
		sleep 0.1
	done
}

end_captures() {
	local link
	sleep 1
	kill "${capture_pids[@]}"
	wait "${capture_pids[@]}" || true
	for link in "${links[@]}"; do
		tail -n 1 "$link.log"
		grep -q '^Packets received/dropped on .*: [0-9]*/0 ' "$link.log" ||
			fail "the capture is not complete"
	done
}

# judge_capture SCRIPT: from now on it is about what the adapter of this guest has
# written (vm-run --capture), once its QEMU has ended, with nothing left out.
judge_capture() {
	local pid tries=1200
	until [ -e "$1.rc" ]; do
		sleep 0.5
	done
	pid=$(cat "$RNIC_RUN/$1.pid" 2>/dev/null || true)
	while [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || fail "the guest $1 does not end"
		sleep 0.5
	done
	ordered=$1.pcapng
	[ -s "$ordered" ] || fail "there is no $ordered"
	none 'frame.comment contains "not in the file"' 'octets left out'
}

dissect() {
	"$RNIC_TOP/scripts/tshark-iwarp" -r "$ordered" "$@" 2>/dev/null
}

# frames FILTER: how many packets of the capture match. It fails if tshark does: what it
# does not know is not there either.
frames() (
	set -o pipefail
	dissect -Y "$1" -T fields -e frame.number | wc -l
)

# none FILTER WHAT
none() {
	local n
	n=$(frames "$1") || fail "tshark cannot look for $2: $1"
	[ "$n" -eq 0 ] || { dissect -Y "$1" -O iwarp_mpa,iwarp_ddp_rdmap |
		head -n 60; fail "$n packets with $2"; }
}

# some COUNT FILTER WHAT
some() {
	local n
	n=$(frames "$2") || fail "tshark cannot look for $3: $2"
	echo "$n packets with $3"
	[ "$n" -ge "$1" ] || fail "only $n packets with $3"
}

# messages COUNT FIELD VALUE WHAT: exactly so many, of which a packet may have several;
# more, if perftest_client (images/guest/lib.sh) began again.
messages() {
	local n
	n=$(dissect -T fields -e "$2" | tr ',' '\n' | grep -cx "$3" || true)
	echo "$n messages with $4"
	[ "$n" -eq "$1" ] && return
	[ "$n" -gt "$1" ] && grep -q 'begins again$' client.out && return
	fail "$n messages with $4, not $1"
}

# well_formed [--extensions]: as judge-captures has it, with no Terminate; with messages
# of RFC 7306 only if that is said.
well_formed() {
	"$RNIC_TOP/scripts/judge-captures" "$@" --file "$ordered" ||
		fail "$ordered is not well formed"
}
