# SPDX-License-Identifier: GPL-2.0-or-later
#
# What programs written for other devices ask of objects: rights and attributes
# that they set and read back, states of QPs; thread domains and parent domains,
# queues in the program's own memory, what is imported; each limit that the device
# tells, and one beyond it; all PDs and QPs in use. What the device tells is what it
# was made with. One firmware version everywhere.

. /usr/lib/rnic/lib.sh

me=$(address_of alone)

attributes-self "$me" || fail "attributes-self"
domains-self "$me" || fail "domains-self"
cq-options-self "$me" || fail "cq-options-self"
limits-self "$(rdma_device)" || fail "limits-self"
by-hand-limits "$(rdma_device)" || fail "by-hand-limits"
eventually 30 nothing_left || fail "$(objects_left)"

# By args, by the manual, and one completion vector for each processor.
ibv_devinfo -v -d "$(rdma_device)" >/tmp/devinfo
while read -r attribute value; do
	grep -q "^[[:space:]]*$attribute:[[:space:]]*$value\$" /tmp/devinfo ||
		fail "not $attribute $value: $(grep "$attribute:" /tmp/devinfo)"
done <<-'END'
	max_qp 150
	max_qp_wr 32768
	max_sge 16
	max_sge_rd 16
	max_srq 100
	max_srq_wr 65536
	max_srq_sge 16
	max_cq 200
	max_cqe 1048576
	max_mr 1000
	max_mr_size 0x400000000000
	max_mw 1000
	max_pd 100
	max_qp_rd_atom 9
	max_qp_init_rd_atom 6
	max_res_rd_atom 1350
	page_size_cap 0x1fffffff000
	num_comp_vectors 2
	vendor_id 0x1af4
	vendor_part_id 4336
	hw_ver 0x1
END

# The library and sysfs have been compared.
version=$(cat "/sys/class/infiniband/$(rdma_device)/fw_ver")
[ "$(ibv_devinfo -d "$(rdma_device)" | awk '/fw_ver/ { print $2 }')" = \
	"$version" ] || fail "ibv_devinfo has another firmware version"
[ "$(ethtool -i "$(interface)" | awk '/^firmware-version/ { print $2 }')" = \
	"$version" ] || fail "ethtool has another firmware version"

shows V5.1.1-1 V5.1.3-1 V5.2-4 V5.2.1-1 V5.2.1-2 V6-1 V6.1.1-1 V6.1.2-1 V6.1.3-1 \
	V6.1.3-5 V6.1.3-6 V6.1.4-1 V6.2.1-1 V6.2.1.1-1 V6.2.2.1-1 V6.3-4 V6.5-1 \
	V6.5-2 V6.5-6 V6.5-7 V6.5-8 V6.5-10 V7.2.1-2 V7.3-3 V8.3.1-1 V8.3.1-3 \
	V9.2.1.2-1 V9.2.1.2-3 V9.2.1.2-4 V9.2.1.2-5 V9.2.1.2-6 V9.2.1.2-7 \
	V9.2.1.2-9 V9.2.2.1-1 V9.2.2.1-2 V9.2.2.2-1 V9.2.3.1-5 V9.2.3.1-6 V9.2.4.1-7 \
	V9.2.5.1-9 V9.2.5.1-10 V9.2.5.1-11 V9.2.5.1-15 V9.2.5.1-17 V9.2.5.2-1 \
	V9.2.5.2-3 V9.2.5.3-1 V9.2.5.3-2 V9.2.5.3-6 V9.2.5.3-7 V9.2.6.2-11 \
	V9.2.6.2-12 V9.2.6.7-2 V13.1-4 R6.1-6 R8.1.2-5
shows_provider V5.3.1-1 V6.1.1-2 V8.1.3.2-8 V8.1.3.2-9 V9.2.1.2-2 V9.2.3.1-3 \
	V9.2.4.1-3 V9.2.4.1-5 V9.2.5.1-2 V9.2.5.1-3 V9.2.5.1-16 V9.3.1.1-24
