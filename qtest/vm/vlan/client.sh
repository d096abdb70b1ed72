# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other end of server.sh.

. /usr/lib/rnic/lib.sh
. ./vlan.sh.inc

vlan_begin
await vlan
eventually 20 ping -c 1 -W 1 "10.80.0.$other_k" || fail "no IP on the VLAN"
reaches "any address, on the VLAN" "10.80.0.$other_k" 7180
reaches "any address, beside it" "10.77.0.$other_k" 7180
reaches "any IPv6 address, on the VLAN" "fd80::$other_k" 7181
reaches "an address of the VLAN" "10.80.0.$other_k" 7182
signal reached
vlan_end
eventually 30 nothing_left || fail "$(objects_left)"
signal client-over
