# SPDX-License-Identifier: GPL-2.0-or-later
#
# Loses its adapter (device_del, by the program host) in the middle of a
# transfer: the program ends, the kernel lives, the device is gone.

. /usr/lib/rnic/lib.sh

await victim
victim "$(address_of server)" >/tmp/victim 2>&1 &
program=$!
eventually 60 transferring
kill -0 $program || { cat /tmp/victim; fail "the transfer did not last"; }
signal transferring
await unplugged 60
wait $program
echo "the program ended with status $?"
[ -z "$(rdma_device)" ] || fail "the RDMA device is still there"
for bound in /sys/bus/pci/drivers/rnic/*:*; do
	[ ! -e "$bound" ] || fail "still bound: $bound"
done
rmmod rnic || fail "the module is in use"
