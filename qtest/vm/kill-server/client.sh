# SPDX-License-Identifier: GPL-2.0-or-later
#
# Is told, when the server is killed, and gets every work request back.

. /usr/lib/rnic/lib.sh
run_client victim victim "$(address_of server)"
cat /tmp/victim

# The adapter is as good as before.
run_client rping rping -c -v -C 5 -a "$(address_of server)"
rpings_right rping 5
