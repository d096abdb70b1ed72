# SPDX-License-Identifier: GPL-2.0-or-later
#
# An adapter without the features that it need not have: it says so, and refuses what
# they are for.

. /usr/lib/rnic/lib.sh

unbind_driver
signal fewer
await few
bind_driver
ibv_devinfo -v -d "$(rdma_device)" >/tmp/devinfo
for attribute in max_srq max_mw; do
	grep -q "$attribute:[[:space:]]*0\$" /tmp/devinfo ||
		fail "not without $attribute: $(cat /tmp/devinfo)"
done
limits-self "$(rdma_device)" || fail "limits-self"
eventually 30 nothing_left || fail "$(objects_left)"

shows V6.3-1 V9-3
