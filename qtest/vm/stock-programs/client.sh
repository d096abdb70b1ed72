# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other end.

. /usr/lib/rnic/lib.sh
. ./steps.sh.inc

server=$(address_of server)

# measure STEP: qperf 0.4.11 tells its port before it listens there (cm_open_server in
# rdma.c), so its client may be too early. It is begun again then, and only then.
measure() {
	try=0
	while [ $try -lt $((6 * RNIC_PATIENCE)) ]; do
		try=$((try + 1))
		timeout $((30 * RNIC_PATIENCE)) qperf -cm 1 -t 1 "$server" "$1" >"/tmp/$1" 2>&1 && return
		grep -q 'unexpected event from RDMA CM: Event rejected' "/tmp/$1" ||
			break
		echo "that is qperf's own fault: $1 begins again"
	done
	cat "/tmp/$1"
	fail "qperf $1: failed in try $try"
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
