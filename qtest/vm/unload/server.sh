# SPDX-License-Identifier: GPL-2.0-or-later
#
# The side that keeps its driver: it is told when the other side's goes away,
# and serves it again afterwards.

. /usr/lib/rnic/lib.sh

start_server victim 7471 victim --server
end_server
cat /tmp/victim

start_server again 7174 rping -s -v -C 10
end_server
start_server reloaded 7174 rping -s -v -C 10
end_server

shows V5.1.2-1
