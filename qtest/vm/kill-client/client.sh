# SPDX-License-Identifier: GPL-2.0-or-later
#
# Is killed while both sides write, read and send without a pause.

. /usr/lib/rnic/lib.sh
await victim
victim --die-after 1500 "$(address_of server)"
[ $? -eq 137 ] || fail "was not killed by SIGKILL"

# The adapter is as good as before.
run_client rping rping -c -v -C 5 -a "$(address_of server)"
rpings_right rping 5
