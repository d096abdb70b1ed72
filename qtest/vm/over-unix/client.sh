# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other side of server.sh, whose steps these are.

. /usr/lib/rnic/lib.sh

server=$(address_of server)
run_client rping rping -c -v -C 20 -a "$server"
rpings_right rping 20
start_server rping-back 7174 rping -s -v -C 20
end_server
run_client verify rdma-verify --port 7471 --size 4M --seed $$ "$server"
cat /tmp/verify
run_client churn cm-churn -n 40 "$server"
cat /tmp/churn
