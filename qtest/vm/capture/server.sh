# SPDX-License-Identifier: GPL-2.0-or-later
#
# Every kind of message between two VMs, for the wire to be judged as the adapters
# have captured it (host).

. /usr/lib/rnic/lib.sh
. ./steps.sh.inc

device=$(rdma_device)
start_server rping 7174 rping -s -v -C 10
end_server
start_server verify 7471 rdma-verify --server --port 7471
end_server
for step in $steps; do
	# shellcheck disable=SC2046
	perftest_server "$step" 18515 $(traffic "$step")
done
leave_counters
