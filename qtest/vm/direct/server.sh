# SPDX-License-Identifier: GPL-2.0-or-later
#
# Programs that move their QPs by hand, with GID, QP number and PSN: within one
# guest, then between two.

. /usr/lib/rnic/lib.sh
. ./pingpongs.sh.inc

device=$(rdma_device)
say "within one guest"
for step in $steps; do
	pingpong "$step" >/tmp/alone 2>&1 &
	server_pid=$!
	eventually 30 port_open || fail "$step: does not listen"
	pingpong "$step" "$(address_of server)" ||
		fail "$step: the client failed"
	end_server_of "$step" /tmp/alone
done

say "between two"
for step in $steps; do
	pingpong "$step" >"/tmp/$step" 2>&1 &
	server_pid=$!
	eventually 30 port_open || fail "$step: does not listen"
	signal "$step"
	end_server_of "$step" "/tmp/$step"
done

say "programs with QPs of their own: 1,000 of them, atomics"
by-hand-many "$device" || fail "by-hand-many"
by-hand-atomics "$device" || fail "by-hand-atomics"

say "perftest"
for step in $perftests; do
	(perftest_server "alone-$step" 18515 perftest "$step") &
	perftest_client "alone-$step" perftest "$step" "$(address_of server)"
	wait $! || fail "$step: the server failed"
	perftest_server "$step" 18515 perftest "$step"
done
eventually 30 nothing_left || fail "$(objects_left)"

shows V5.3-4 V6.1.1-8 V9.2.5.1-13
shows_provider V5.3.2-2
