# SPDX-License-Identifier: GPL-2.0-or-later
#
# Is killed while both sides write, read and send without a pause.

. /usr/lib/rnic/lib.sh
start_server victim 7471 victim --die-after 1500 --server
wait "$server_pid"
[ $? -eq 137 ] || { cat /tmp/victim; fail "was not killed by SIGKILL"; }

# The adapter is as good as before.
start_server rping 7174 rping -s -v -C 5
end_server
