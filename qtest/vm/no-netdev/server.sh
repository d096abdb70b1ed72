# SPDX-License-Identifier: GPL-2.0-or-later
#
# An adapter without an Ethernet behind it: RDMA works all the same.

. /usr/lib/rnic/lib.sh
ip link show "$(interface)"
ip link show "$(interface)" | grep -q NOARP || fail "the interface is not NOARP"
start_server rping 7174 rping -s -v -C 20
end_server
