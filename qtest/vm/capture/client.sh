# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other end.

. /usr/lib/rnic/lib.sh
. ./steps.sh.inc

device=$(rdma_device)
server=$(address_of server)
run_client rping rping -c -v -C 10 -a "$server"
rpings_right rping 10
run_client verify rdma-verify --port 7471 --size 2M --seed $$ "$server"
for step in $steps; do
	# shellcheck disable=SC2046
	perftest_client "$step" $(traffic "$step") "$server"
done
leave_counters
