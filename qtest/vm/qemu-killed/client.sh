# SPDX-License-Identifier: GPL-2.0-or-later
#
# Loses its peer's whole machine in the middle of a transfer: it is told so and
# gets every work request back.

. /usr/lib/rnic/lib.sh
await victim
victim "$(address_of server)" &
program=$!
eventually 60 transferring
kill -0 $program || fail "the transfer did not last"
signal transferring
wait $program || fail "victim"
