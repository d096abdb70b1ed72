# SPDX-License-Identifier: GPL-2.0-or-later
#
# The end of connections that rdma_cm made, in each way that there is: what comes back,
# what is told, and that the QPs can be used again.

. /usr/lib/rnic/lib.sh

endings-self "$(rdma_device)" "$(address_of alone)" || fail "endings-self"
eventually 30 nothing_left || fail "$(objects_left)"

shows V6.1.4-5 V6.2.1-5 V6.2.2.2-1 V6.2.2.2-3 V6.2.2.2-5 V6.2.2.4-1 V6.2.2.4-3 \
	V6.2.3-8 V6.2.3-9 V6.2.3-10 V6.2.5-6 V6.2.5-10 V6.2.5-11 V6.2.5-12 \
	V6.6.1.1-2 V6.6.1.2-1 V6.6.2-1 V6.6.2.1-1 V6.6.2.2-1 V6.6.2.3-1 V6.6.2.4-1 \
	V6.6.2.5-1 V8.3-1 V8.3.3-3 V9.2.5.4-1
shows_provider V6.2.5-3
