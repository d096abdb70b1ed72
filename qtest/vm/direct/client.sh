# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other end.

. /usr/lib/rnic/lib.sh
. ./pingpongs.sh.inc

device=$(rdma_device)
for step in $steps; do
	await "$step" 200
	pingpong "$step" "$(address_of server)" ||
		fail "$step: the client failed"
done
for step in $perftests; do
	perftest_client "$step" perftest "$step" "$(address_of server)"
done
eventually 30 nothing_left || fail "$(objects_left)"
