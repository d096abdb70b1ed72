# SPDX-License-Identifier: GPL-2.0-or-later
#
# The side that keeps its adapter: it is told that the other's is gone.

. /usr/lib/rnic/lib.sh

start_server victim 7471 victim --server
end_server
cat /tmp/victim
