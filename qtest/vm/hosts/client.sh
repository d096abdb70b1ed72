# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other end of server.sh.

. /usr/lib/rnic/lib.sh
. ./paths.sh.inc

server=$(address_of server)

# verify PATH PORT
verify() {
	run_client "verify-$1" rdma-verify --port "$2" --size 512k --seed $$ "$server"
	cat "/tmp/verify-$1"
}

run_client rping rping -c -v -C 20 -a "$server"
rpings_right rping 20
verify wide 7471
run_client marked cm-churn --number 5 --port 7474 --tos 0x28 "$server"
# shellcheck disable=SC2046
perftest_client write-wide ib_write_bw $(write_options "$MTU" 18515) "$server"
verify narrowed 7472
verify known 7473
# shellcheck disable=SC2046
perftest_client write-known ib_write_bw $(write_options "$NARROW_MTU" 18517) "$server"
