# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other guest without an Ethernet.

. /usr/lib/rnic/lib.sh
run_client rping rping -c -v -C 20 -a "$(address_of server)"
rpings_right rping 20
