# SPDX-License-Identifier: GPL-2.0-or-later
#
# Serves 200 connections, one after the other, and must end with no more
# resources in use than it began with.

. /usr/lib/rnic/lib.sh
start_server churn 7471 cm-churn --server
end_server
cat /tmp/churn
left=$(rdma resource show qp)
[ -z "$left" ] || fail "queue pairs are left: $left"

shows V6.2.1.2-5 V6.6.1-1
