# SPDX-License-Identifier: GPL-2.0-or-later
#
# Writes on 32 queue pairs in two threads of the device, while one process beside
# binds and invalidates windows, and another one changes its regions: readers and
# writers of the TPT in different threads. Then the data check.

. /usr/lib/rnic/lib.sh

window-self --type 2 --number 2000 "$(address_of client)" >/tmp/windows 2>&1 &
windows=$!
rereg-self --port 7472 "$(address_of client)" >/tmp/regions 2>&1 &
regions=$!
run_client load qp-load --qps 32 --size 64k --seconds 8 "$(address_of server)"
cat /tmp/load
wait $windows || { cat /tmp/windows; fail "window-self"; }
wait $regions || { cat /tmp/regions; fail "rereg-self"; }
run_client verify rdma-verify --port 7471 --size 4M --seed $$ \
	"$(address_of server)"
cat /tmp/verify
