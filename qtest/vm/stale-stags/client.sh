# SPDX-License-Identifier: GPL-2.0-or-later
#
# Uses the server's rkeys, while they are good and when they are no more.

. /usr/lib/rnic/lib.sh
terminates=$(counter "$(rdma_device)" terminates_received)
run_client stale stale-stag "$(address_of server)"
cat /tmp/stale
terminates=$(($(counter "$(rdma_device)" terminates_received) - terminates))
[ $terminates = 12 ] || fail "$terminates Terminates instead of 12"

shows V7.5.2-1 V7.10.1-1 V7.10.4.1-3 V9.2.6.7-1 R8.1.1-4
shows_provider V8.2.2.1-2 V9.3.2.1-7
