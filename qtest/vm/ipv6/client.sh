# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other end of server.sh.

. /usr/lib/rnic/lib.sh
. ./addresses.sh.inc

have "$(of client)"
reaches first "$(of server)"
reaches any "$(of server)"
signal any-over
reaches added "$(of another)"
signal added-over
await removed
! rping -c -a "$(of another)" -p 7175 -C 1 >/tmp/removed 2>&1 ||
	fail "a connection to an address that was removed"
reaches both "$(address_of server)"
signal both-over
ip -4 address flush dev "$netdev"
[ -z "$(ip -4 address show dev "$netdev" | grep inet)" ] || fail "there is IPv4 left"
reaches link-local "$(of link-local)%$netdev"
eventually 30 nothing_left || fail "$(objects_left)"
signal client-over
