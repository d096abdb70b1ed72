# SPDX-License-Identifier: GPL-2.0-or-later
#
# Takes the driver off the adapter in the middle of a transfer: the program ends
# with an error, nothing hangs or crashes; bound again, the adapter works; then
# the module is unloaded, and loaded again.

. /usr/lib/rnic/lib.sh

await victim
victim "$(address_of server)" >/tmp/victim 2>&1 &
program=$!
eventually 60 transferring
kill -0 $program || { cat /tmp/victim; fail "the transfer did not last"; }

say "unbind under traffic"
unbind_driver
wait $program
echo "the program ended with status $?"
! grep rnic /proc/interrupts || fail "interrupts of an adapter without a driver"
adapter-closed "$unbound" || fail "the driver has left the adapter open"

say "bind again"
bind_driver
# It begins with nothing.
nothing_left || fail "$(objects_left)"
run_client again rping -c -v -C 10 -a "$(address_of server)"
rpings_right again 10

say "unload and load"
rmmod rnic || fail "the module is in use"
[ ! -e /sys/bus/pci/drivers/rnic ] || fail "the driver is still there"
adapter-closed "$unbound" || fail "the module has left the adapter open"
modprobe rnic || fail "the module does not load again"
set_up_unbound
run_client reloaded rping -c -v -C 10 -a "$(address_of server)"
rpings_right reloaded 10

shows_driver V5.1.4-2 V9.2.1.1-1 V9.2.1.3-1
