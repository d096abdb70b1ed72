# SPDX-License-Identifier: GPL-2.0-or-later
#
# Connections that close, and one that terminates, while the peer does not answer.

. /usr/lib/rnic/lib.sh

await held
held-close "$(address_of server)" /mnt/run || fail "held-close"
eventually 30 nothing_left || fail "$(objects_left)"

shows V6.2.3-12 V6.2.5-2 V6.2.5-6 V6.2.5-10
