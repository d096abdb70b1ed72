# SPDX-License-Identifier: GPL-2.0-or-later
#
# The end where mpirun is. A ring and an allreduce; every value is checked.
#
# Not one-sided puts and gets: Open MPI does these over RDMA by its btl/ofi, which
# leaves ofi_rxm out (fabric-rma, in stock-programs, does them).
#
# Without UCX's memory hooks: its sbrk() goes round Open MPI's brk(), so libfabric
# does not learn that the heap has shrunk, and goes on using registrations of pages
# that the process no longer has, on any adapter. With a checked provider without those of
# Open MPI and libfabric: they overwrite mprotect(), which ASan has put code of its own
# before.

. /usr/lib/rnic/lib.sh

device=$(rdma_device)
steps="ring allreduce"

await listening
sent=$(counter "$device" tx_octets)
[ -z "$RNIC_CHECKED_PROVIDER" ] || checked="--mca memory ^patcher -x FI_MR_CACHE_MONITOR=disabled"
# shellcheck disable=SC2086
timeout -k 5 $((300 * RNIC_PATIENCE)) mpirun --allow-run-as-root --host client:1,server:1 -np 2 \
	--prtemca plm_ssh_agent /mnt/run/agent --mca pml cm --mca mtl ofi \
	--mca mtl_ofi_provider_include "verbs;ofi_rxm" --mca btl self \
	${checked-} -x UCX_MEM_MMAP_HOOK_MODE=none python3 /mnt/run/every-value.py $steps >/tmp/out 2>&1 || {
	cat /tmp/out
	fail "mpirun"
}
for step in $steps; do
	[ "$(grep -c "^$step of .*all right$" /tmp/out)" = 3 ] || {
		cat /tmp/out
		fail "not all of $step was done"
	}
done
sent=$(($(counter "$device" tx_octets) - sent))
[ $sent -gt 20000000 ] || fail "only $sent octets went through the adapter"
signal over
eventually 30 nothing_left || fail "$(objects_left)"
