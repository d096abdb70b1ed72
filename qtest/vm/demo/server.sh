# SPDX-License-Identifier: GPL-2.0-or-later
#
# The demo's passive side: for every step, start the program that waits for a
# connection, then tell the client. The steps are those of client.sh, in its
# order.

. /usr/lib/rnic/lib.sh

serve() {
	start_server "$@"
	end_server
}

say "rping, from the client and to the client"
serve rping 7174 rping -s -v -C "$RPINGS" -a "$(any_address)"
run_client rping-back rping -c -v -C "$RPINGS" -a "$(address_of client)"
rpings_right rping-back "$RPINGS"

say "data check"
serve verify 7471 rdma-verify --server --bind "$(any_address)" --port 7471
cat /tmp/verify

say "a first transfer, step by step (docs/first-transfer.c)"
first-transfer "$(rdma_device)" >/tmp/first 2>&1 &
server_pid=$!
server_step=first
eventually 30 tcp_open 18515 || fail "first: does not listen"
signal first
end_server
cat /tmp/first

ip=$(perftest_ip)
for test in send write read; do
	for plan in $PLANS; do
		size=${plan%:*}
		perftest_server "ib_${test}_bw-$size" 18515 \
			ib_${test}_bw -R $ip -s "$size" -n "${plan#*:}"
	done
done
for test in send write read; do
	perftest_server "ib_${test}_lat" 18515 \
		ib_${test}_lat -R $ip -s 8 -n "$LATS"
done
