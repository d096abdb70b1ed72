# SPDX-License-Identifier: GPL-2.0-or-later
#
# The demo's active side: shows the device, then runs the stock RDMA programs
# against the server and collects their figures in the file table. How much
# each step moves comes from scripts/demo (or the test's args):
#   RPINGS, MIB, LATS, and PLANS="SIZE:COUNT ..." for the bandwidths.

. /usr/lib/rnic/lib.sh

# The line of figures in a perftest program's output.
figures() {
	awk '/^ *#bytes/ { getline; print; exit }' "/tmp/$1"
}

bandwidth() {
	figures "$1" | awk -v name="${1%-*}" '{
		printf "%-14s %8d B %10.1f MiB/s %10.0f msg/s\n",
			name, $1, $4, $5 * 1000000 }' >>table
}

latency() {
	figures "$1" | awk -v name="$1" '{
		printf "%-14s %8d B %10.2f usec typical %8.2f usec 99%%\n",
			name, $1, $5, $8 }' >>table
}

rm -f table
say "the device"
ibv_devinfo -v

server=$(address_of server)
say "rping, to the server and from the server"
run_client rping rping -c -v -C "$RPINGS" -a "$server"
rpings_right rping "$RPINGS"
start_server rping-back 7174 rping -s -v -C "$RPINGS" -a "$(any_address)"
end_server

say "data check"
run_client verify rdma-verify --port 7471 --size "${MIB}M" --seed $$ "$server"
cat /tmp/verify

say "a first transfer, step by step (docs/first-transfer.c)"
run_client first first-transfer "$(rdma_device)" "$server"
cat /tmp/first

ip=$(perftest_ip)
for test in send write read; do
	for plan in $PLANS; do
		size=${plan%:*}
		perftest_client "ib_${test}_bw-$size" \
			ib_${test}_bw -R $ip -s "$size" -n "${plan#*:}" "$server"
		bandwidth "ib_${test}_bw-$size"
	done
done
for test in send write read; do
	perftest_client "ib_${test}_lat" \
		ib_${test}_lat -R $ip -s 8 -n "$LATS" "$server"
	latency "ib_${test}_lat"
done
lines=$((3 * $(echo "$PLANS" | wc -w) + 3))
[ "$(wc -l <table)" = "$lines" ] || fail "the table is not complete"
