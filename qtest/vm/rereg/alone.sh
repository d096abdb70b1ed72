# SPDX-License-Identifier: GPL-2.0-or-later
#
# Reregistration in each of its forms, and while the peer writes without a
# pause; meanwhile another program moves data and checks it.

. /usr/lib/rnic/lib.sh

traffic() {
	while [ ! -e /tmp/done ]; do
		loopback-self --port 7999 --size 1M "$(address_of alone)" ||
			return 1
	done
}

traffic >/tmp/traffic 2>&1 &
traffic=$!
rereg-self --number 8 --too-many 30000 "$(address_of alone)" || fail "rereg-self"
touch /tmp/done
wait $traffic || { cat /tmp/traffic; fail "the traffic beside"; }

shows V7.2.2-4 V7.3.2.3-5 V7.3.2.3-7 V7.3.2.3-8 V7.3.2.3-9 V7.3.2.3-11 V7.3.2.3-12 \
	V7.3.2.3-13 V7.9-5 V9.2.6.4-1 V9.2.6.5-1 V9.2.6.5-2 V9.2.6.5-5 V9.2.6.5-6 \
	R8.1.1-5 V7.3.1.1-1
