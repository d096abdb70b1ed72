# SPDX-License-Identifier: GPL-2.0-or-later
#
# The kernel's NVMe target over RDMA: lends a memory disk, which must hold in
# the end what the client has written.

. /usr/lib/rnic/lib.sh
. /usr/lib/rnic/nvme-target.sh

lend_disk 4 "$(address_of server)"
signal lent

await written 120
cmp /dev/ram0 data || fail "the disk holds something else"
signal compared
await detached
take_disk_back
