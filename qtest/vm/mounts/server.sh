# SPDX-License-Identifier: GPL-2.0-or-later
#
# Lends a disk by NVMe, another by iSCSI, exports a directory by NFS, and answers
# rping: all over RDMA, at any address, as all that outlives the RDMA device.

. /usr/lib/rnic/lib.sh
. /usr/lib/rnic/nvme-target.sh
. ./iscsi.sh.inc
. ./nfs.sh.inc
. ./recoveries.sh.inc

lend_disk 16 "$(any_address)"
lend_iscsi_disk 16
export_directory
count_recoveries &
while ! signalled over; do
	rping -s -P -a "$(any_address)" -p 7174 >>/tmp/rping 2>&1
done &
answering=$!
signal lent
await over 300
kill $answering
pkill rping
end_export
take_iscsi_disk_back
take_disk_back
eventually 30 nothing_left || fail "$(objects_left)"
