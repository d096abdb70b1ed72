# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other end.

. /usr/lib/rnic/lib.sh
. ./steps.sh.inc

server=$(address_of server)
# ASan wants to be the first library.
checks=
[ -z "$RNIC_CHECKED_PROVIDER" ] || checks=$(cat /etc/ld.so.preload)

# measure STEP: qperf 0.4.11 tells its port before it listens there (cm_open_server in
# rdma.c), so its client may be too early, unless it connects late.
measure() {
	LD_PRELOAD="$checks /usr/local/bin/late-connect.so" \
		CONNECT_AFTER=$((2 * RNIC_SLOWNESS)) timeout $((30 * RNIC_PATIENCE)) \
		qperf -cm 1 -t 1 "$server" "$1" >"/tmp/$1" 2>&1 && return
	cat "/tmp/$1"
	fail "qperf $1"
}

await qperf
for step in $qperfs; do
	measure "$step"
	signal "$step-over"
done
for step in $pingpongs; do
	# shellcheck disable=SC2046
	run_client "$step" fi_pingpong -c $(endpoint_of "$step") "$server"
done
run_client rma fabric-rma "$(address_of client)" "$server"
eventually 30 nothing_left || fail "$(objects_left)"
