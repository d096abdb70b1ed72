# SPDX-License-Identifier: GPL-2.0-or-later
#
# Lends a disk and answers, while the client's adapter fails again and again.

. /usr/lib/rnic/lib.sh
. /usr/lib/rnic/nvme-target.sh

lend_disk 16 "$(address_of server)"
# rping ends with its client.
while ! signalled over; do
	rping -s -S 4096 -p 7174 >>/tmp/rping 2>&1
done &
answering=$!
signal lent
await over $((240 + 60 * CYCLES))
kill $answering
pkill rping
take_disk_back
eventually 30 nothing_left || fail "$(objects_left)"
