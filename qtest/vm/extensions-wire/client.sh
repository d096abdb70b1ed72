# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other end.

. /usr/lib/rnic/lib.sh
. ./steps.sh.inc

device=$(rdma_device)
for step in $steps; do
	perftest_client "$step" extension "$step" "$(address_of server)"
done
eventually 30 nothing_left || fail "$(objects_left)"
