# SPDX-License-Identifier: GPL-2.0-or-later
#
# A process's rkeys that are no more: each use is refused with a Terminate.

. /usr/lib/rnic/lib.sh
terminates=$(counter "$(rdma_device)" terminates_sent)
start_server stale 7471 stale-stag --server
end_server
terminates=$(($(counter "$(rdma_device)" terminates_sent) - terminates))
[ $terminates = 12 ] || fail "$terminates Terminates instead of 12"
