# SPDX-License-Identifier: GPL-2.0-or-later
#
# The guest with rnic: one adapter for each network, as rnic.opts has them.

. /usr/lib/rnic/lib.sh
. /usr/lib/rnic/nvme-target.sh
. ./nfs.sh.inc
. ./programs.sh.inc
. ./cells.sh.inc

# The interface of the adapter for NETWORK.
adapter_of() {
	grep -l "52:54:00:$1:00:01" /sys/class/net/*/address | cut -d / -f 5
}

use_settings() {
	:
}

modprobe -a ib_uverbs rdma_ucm rnic || fail "no rnic driver"
for network in $networks; do
	have_addresses "$(adapter_of "$network")" "$network" 1
done
eventually 30 test "$(rdma_devices | wc -l)" -eq 4 || fail "not four RDMA devices"
note_event_queues

lend_to_all
play_cells
take_back
eventually 30 nothing_left || fail "$(objects_left)"
