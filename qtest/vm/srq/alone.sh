# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shared receive queues: one for four connections, every byte and every refusal
# checked; the program killed at any moment, of which nothing may be left; and
# the stock ib_send_bw. With several QPs its receiver posts no more than one of
# its senders sends, and counts on a network that makes senders wait.

. /usr/lib/rnic/lib.sh

me=$(address_of alone)

srq-self --number 500 "$me" || fail "srq-self"
eventually 30 nothing_left || fail "$(objects_left)"

say "killed while receiving"
srq-self --number 100000000 "$me" &
program=$!
eventually 60 transferring
kill -KILL $program
wait $program
eventually 30 nothing_left || fail "$(objects_left)"
srq-self --number 10 "$me" || fail "srq-self afterwards"

say "ib_send_bw with an S-RQ"
start_server srq-bw 18515 ib_send_bw -R --use-srq -n 1000 -F \
	-d "$(rdma_device)"
run_client srq-bw ib_send_bw -R --use-srq -n 1000 -F \
	-d "$(rdma_device)" "$me"
end_server
cat /tmp/srq-bw

shows V6.3-1 V6.3-2 V6.3-3 V6.3.1-1 V6.3.3-1 V6.3.3-2 V6.3.5-2 V6.3.8-2 V6.3.8-3 \
	V6.3.8-4 V8.3.1-4 V9-3 V9.2.4.1-1 V9.2.4.2-1 V9.2.4.3-1 V9.2.4.3-2 \
	V9.2.4.3-3 V9.2.4.3-6 V9.2.4.4-1 V9.2.4.4-2 V9.5.3-34 V10.4.2-2
shows_provider V6.3.4-1 V6.3.5-1 V6.3.6-1 V8.1.1-2 V9.2.4.1-2 V9.2.5.1-4 \
	V9.2.5.2-2 V9.3.1.2-3 V9.3.1.2-4 V9.3.1.2-6 V9.3.2.1-8
