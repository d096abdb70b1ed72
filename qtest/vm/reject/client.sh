# SPDX-License-Identifier: GPL-2.0-or-later
#
# Asks to be rejected and accepted, with private data of many lengths; connects
# to a closed port and to an address where no guest is.

. /usr/lib/rnic/lib.sh
run_client reject cm-reject --nobody 10.77.0.99 "$(address_of server)"
cat /tmp/reject
