# SPDX-License-Identifier: GPL-2.0-or-later
#
# Connects and disconnects 200 times, a message and its answer each time.

. /usr/lib/rnic/lib.sh
run_client churn cm-churn --number 200 "$(address_of server)"
cat /tmp/churn
