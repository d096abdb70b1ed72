# SPDX-License-Identifier: GPL-2.0-or-later
#
# Uses the server's rkeys, while they are good and when they are no more.

. /usr/lib/rnic/lib.sh
terminates=$(counter "$(rdma_device)" terminates_received)
run_client stale stale-stag "$(address_of server)"
cat /tmp/stale
terminates=$(($(counter "$(rdma_device)" terminates_received) - terminates))
[ $terminates = 12 ] || fail "$terminates Terminates instead of 12"
