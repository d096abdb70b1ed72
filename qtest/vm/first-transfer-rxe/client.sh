# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other end.

. /usr/lib/rnic/lib.sh

rdma link | grep -q rxe || fail "no rxe"
run_client first first-transfer "$(rdma_device)" "$(address_of server)"
