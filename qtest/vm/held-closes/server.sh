# SPDX-License-Identifier: GPL-2.0-or-later
#
# The peer, which stands still for a while: the host sees to that.

. /usr/lib/rnic/lib.sh

start_server held 7471 held-close "$(address_of server)"
end_server
cat /tmp/held
eventually 30 nothing_left || fail "$(objects_left)"
