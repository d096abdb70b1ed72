# SPDX-License-Identifier: GPL-2.0-or-later
#
# Serves rping, rdma-verify and ib_write_bw on hosts with a path between them: a wide
# one, then one whose middle has become narrow, which TCP learns on the way, then one
# known to be so.

. /usr/lib/rnic/lib.sh
. ./paths.sh.inc

# verify PATH PORT
verify() {
	start_server "verify-$1" "$2" \
		rdma-verify --server --bind "$(any_address)" --port "$2"
	end_server
	cat "/tmp/verify-$1"
}

await capturing
start_server rping 7174 rping -s -v -C 20 -a "$(any_address)"
end_server
verify wide 7471
start_server marked 7474 cm-churn --server --bind "$(any_address)" --port 7474 --tos 0x48
end_server
# shellcheck disable=SC2046
perftest_server write-wide 18515 ib_write_bw $(write_options "$MTU" 18515)
signal wide-over
await narrowed
verify narrowed 7472
verify known 7473
# shellcheck disable=SC2046
perftest_server write-known 18517 ib_write_bw $(write_options "$NARROW_MTU" 18517)
