# SPDX-License-Identifier: GPL-2.0-or-later
#
# Atomic operations and immediate data of perftest between two VMs, for the wire to
# be judged (host).

. /usr/lib/rnic/lib.sh
. ./steps.sh.inc

device=$(rdma_device)
for step in $steps; do
	perftest_server "$step" 18515 extension "$step"
done
eventually 30 nothing_left || fail "$(objects_left)"
