# SPDX-License-Identifier: GPL-2.0-or-later
#
# Passive first, then active: what works over the one fabric works over the
# other; the guests cannot tell them apart.

. /usr/lib/rnic/lib.sh

start_server rping 7174 rping -s -v -C 20
end_server
run_client rping-back rping -c -v -C 20 -a "$(address_of client)"
rpings_right rping-back 20
start_server verify 7471 rdma-verify --server --port 7471
end_server
start_server churn 7471 cm-churn --server
end_server
