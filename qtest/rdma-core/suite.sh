# SPDX-License-Identifier: GPL-2.0-or-later
#
# rdma-core's own tests with GID 0 and with GID 1, on this guest's adapter. What
# each test did goes to gid-0 and gid-1, what the suite printed to gid-N.log; a
# test that ends the process, or hangs, gets the result "died" and the signal.
# RNIC_TESTS names tests to run instead of all.

. /usr/lib/rnic/lib.sh

device=$(rdma_device)
[ -n "$device" ] || fail "no RDMA device"
# Tests with huge pages want some.
echo 64 >/proc/sys/vm/nr_hugepages

# died GID STATUS: the last test begun has no result of its own.
died() {
	local test
	test=$(sed -n '$s/^begin //p' "gid-$1")
	[ -n "$test" ] || fail "the suite ended with status $2, with no test begun"
	echo "died $test: signal $(($2 - 128))" >>"gid-$1"
}

# Status 0: all well; 1: some failed; 5: all were skipped.
for gid in 0 1; do
	say "--gid $gid"
	while :; do
		status=0
		# shellcheck disable=SC2086 # a list of words on purpose
		PYTHONDONTWRITEBYTECODE=1 python3 record.py "$PWD/tests" \
			"gid-$gid" --dev "$device" --gid "$gid" -v ${RNIC_TESTS:-} \
			>>"gid-$gid.log" 2>&1 || status=$?
		[ $status -gt 128 ] || break
		died "$gid" $status
	done
	case $status in
	0 | 1 | 5) tail -n 4 "gid-$gid.log" ;;
	*) tail -n 20 "gid-$gid.log"; fail "the suite ended with status $status" ;;
	esac
done
