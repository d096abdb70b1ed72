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
rereg-self --number 8 "$(address_of alone)" || fail "rereg-self"
touch /tmp/done
wait $traffic || { cat /tmp/traffic; fail "the traffic beside"; }
