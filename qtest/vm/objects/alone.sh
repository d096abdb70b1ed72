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
