# SPDX-License-Identifier: GPL-2.0-or-later
#
# qperf; libfabric: its pingpong over each of its providers that use verbs, put and get.

. /usr/lib/rnic/lib.sh
. ./steps.sh.inc

start_server qperf 19765 qperf
for step in $qperfs; do
	await "$step-over" 200
done
kill $server_pid
for step in $pingpongs; do
	# shellcheck disable=SC2046
	start_server "$step" 47592 fi_pingpong -c $(endpoint_of "$step")
	end_server
done
start_server rma 7480 fabric-rma "$(address_of server)"
end_server
eventually 30 nothing_left || fail "$(objects_left)"
