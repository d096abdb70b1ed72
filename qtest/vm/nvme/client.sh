# SPDX-License-Identifier: GPL-2.0-or-later
#
# The kernel's NVMe initiator over RDMA: writes a disk that the server lends,
# four programs at once with blocks of different sizes, and reads it back. The core
# moderates its completions as the load is.

. /usr/lib/rnic/lib.sh

# With a checked provider ASan is in all programs. It ends dd, whose aligned_alloc() of a
# block of 2 KiB is not a multiple of the alignment. Nothing here uses the provider.
rm -f /etc/ld.so.preload

disk=/dev/nvme0n1
quarter=$((1 << 20))

# write_quarter K: with blocks of 2, 8, 32 or 128 KiB.
write_quarter() {
	size=$((2048 << (2 * $1)))
	dd if=/tmp/data of=$disk bs=$size oflag=direct conv=notrunc status=none \
		seek=$(($1 * quarter / size)) skip=$(($1 * quarter / size)) \
		count=$((quarter / size))
}

moderation=/sys/kernel/tracing/events/rdma_core/cq_modify/enable

# moderated: how often the core has changed the moderation of a CQ.
moderated() {
	grep -c ' cq_modify: ' /sys/kernel/tracing/trace
}

write_all() {
	writers=
	for k in 0 1 2 3; do
		write_quarter $k &
		writers="$writers $!"
	done
	for writer in $writers; do
		wait "$writer" || fail "writing"
	done
}

await lent
modprobe nvme-rdma || fail "no NVMe initiator"
echo "transport=rdma,traddr=$(address_of server),trsvcid=4420,nqn=test,nr_io_queues=2" \
	>/dev/nvme-fabrics || fail "cannot connect"
eventually 30 test -b $disk || fail "no disk"
# invalid_region: whether rdma shows one, for later use.
invalid_region() {
	rdma -dd resource show mr | sed ':a;N;$!ba;s/\n[ \t]\+/ /g' |
		grep 'drv_state invalid' | grep 'drv_max_pages [1-9]' >/dev/null
}
eventually 10 invalid_region ||
	fail "no Invalid region: $(rdma -dd resource show mr | tail -n 20)"

rdma resource show cq | grep 'adaptive-moderation on' ||
	fail "no moderation by the core: $(rdma resource show cq)"
mount -t tracefs none /sys/kernel/tracing 2>/dev/null
echo 1 >$moderation || fail "no trace of moderation"

say "a disk at $(now)"
head -c $((4 * quarter)) /dev/urandom >/tmp/data
write_all
say "written at $(now)"
cp /tmp/data .
signal written
for size in 4096 1M; do
	dd if=$disk bs=$size iflag=direct status=none | cmp - /tmp/data ||
		fail "read something else, with blocks of $size"
done
say "read at $(now)"
# The core decides by rates, which must rise and fall. It counts whole completions in a
# millisecond: a debug kernel has less than one, and nothing changes.
rounds=0
until [ "$(moderated)" -gt 0 ] || [ "$RNIC_KERNEL" = debug ] || [ $rounds -eq 20 ]; do
	write_all
	dd if=$disk bs=4096 count=500 iflag=direct of=/dev/null status=none || fail "reading"
	rounds=$((rounds + 1))
done
say "moderation changed $(moderated) times, after $rounds more rounds"
tail -n 3 /sys/kernel/tracing/trace
[ "$(moderated)" -gt 0 ] || [ "$RNIC_KERNEL" = debug ] ||
	fail "the core has not changed the moderation"
echo 0 >$moderation
await compared
echo 1 >/sys/class/nvme/nvme0/delete_controller
rmmod nvme_rdma || fail "nvme_rdma does not go away"
signal detached
