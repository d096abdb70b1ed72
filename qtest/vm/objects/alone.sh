# SPDX-License-Identifier: GPL-2.0-or-later
#
# What programs written for other devices ask of objects: rights and attributes
# that they set and read back, states of QPs; thread domains and parent domains,
# queues in the program's own memory, what is imported; each limit that the device
# tells, and one beyond it. One firmware version everywhere.

. /usr/lib/rnic/lib.sh

me=$(address_of alone)

attributes-self "$me" || fail "attributes-self"
domains-self "$me" || fail "domains-self"
cq-options-self "$me" || fail "cq-options-self"
limits-self "$(rdma_device)" || fail "limits-self"
eventually 30 nothing_left || fail "$(objects_left)"

# The library and sysfs have been compared.
version=$(cat "/sys/class/infiniband/$(rdma_device)/fw_ver")
[ "$(ibv_devinfo -d "$(rdma_device)" | awk '/fw_ver/ { print $2 }')" = \
	"$version" ] || fail "ibv_devinfo has another firmware version"
[ "$(ethtool -i "$(interface)" | awk '/^firmware-version/ { print $2 }')" = \
	"$version" ] || fail "ethtool has another firmware version"

shows V6.1.2-1 V6.1.3-1 V6.1.3-5 V6.1.3-6 V6.1.4-1 V6.2.1-1 V6.2.1.1-1 V6.2.2.1-1 \
	V6.3-4 V6.5-2 V6.5-6 V6.5-7 V7.2.1-2 V7.3-3 V8.3.1-1 V8.3.1-3 V9.2.1.2-7 \
	V9.2.1.2-9 V9.2.2.1-2 V9.2.3.1-5 V9.2.3.1-6 V9.2.5.1-15 V9.2.5.2-1 \
	V9.2.5.2-3 V9.2.5.3-1 V9.2.5.3-2 V9.2.6.2-12 V9.2.6.7-2 R8.1.2-5
shows_provider V5.3.1-1 V6.1.1-2 V8.1.3.2-8 V8.1.3.2-9 V9.2.1.2-2 V9.2.3.1-3 \
	V9.2.4.1-3 V9.2.4.1-5 V9.2.5.1-2 V9.2.5.1-3 V9.2.5.1-16 V9.3.1.1-24
