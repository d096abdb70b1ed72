# SPDX-License-Identifier: GPL-2.0-or-later
#
# Is told, when the client is killed, and gets every work request back.

. /usr/lib/rnic/lib.sh
start_server victim 7471 victim --server
end_server
cat /tmp/victim

# The adapter is as good as before.
start_server rping 7174 rping -s -v -C 5
end_server

shows V6.1.4-2
shows_provider V6.2.3-6 V8.2.4-6 V9.5.2-2
