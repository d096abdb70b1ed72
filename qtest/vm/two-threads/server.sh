# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other side of client.sh.

. /usr/lib/rnic/lib.sh

start_server load 7471 qp-load --server
end_server
start_server verify 7471 rdma-verify --server --port 7471
end_server
