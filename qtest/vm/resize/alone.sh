# SPDX-License-Identifier: GPL-2.0-or-later
#
# Queues resized while they are in use, thousands of times; all completions come,
# once and in order. The program killed while it resizes, of which nothing may be
# left.

. /usr/lib/rnic/lib.sh

me=$(address_of alone)

resize-self "$me" || fail "resize-self"
resize-self --srq --number 2000 "$me" || fail "resize-self --srq"
resize-self --extended --number 1000 "$me" || fail "resize-self --extended"

say "killed while resizing"
before=$(counter "$(rdma_device)" tx_octets)
resize-self --number 100000000 "$me" &
program=$!
eventually 60 sent_since "$before" || fail "resize-self sends nothing"
kill -KILL $program || fail "resize-self has ended by itself"
wait $program
eventually 30 nothing_left || fail "$(objects_left)"
resize-self --number 10 "$me" || fail "resize-self afterwards"
eventually 30 nothing_left || fail "$(objects_left)"

shows V5.3.2-1 V5.3.3-1 V5.3.3-2 V5.3.3-3 V6.1.3-7 V6.1.3-8 V6.1.3-9 V6.1.3-10 \
	V6.3.2-1 V6.3.2-2 V6.3.2-3 V8.3.1-2 V9.2.1.2-5 V9.2.3.3-1 V9.2.3.3-2 \
	V9.2.3.3-3 V9.2.3.3-4 V9.2.4.3-1 V9.2.4.3-4 V9.2.4.3-5 V9.2.5.3-8 \
	V9.2.5.3-9 V9.2.5.3-10 V9.2.5.3-13
shows_provider V5.3-1 V8.2.4-4 V8.2.4-6
