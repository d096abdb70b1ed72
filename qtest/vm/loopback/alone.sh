# SPDX-License-Identifier: GPL-2.0-or-later
#
# A guest that connects to itself, through its own address: within one process, by
# both interfaces of posting and polling, then between two processes, once all with the
# stock programs.

. /usr/lib/rnic/lib.sh
self=$(address_of alone)

loopback-self "$self" || fail "loopback-self"
loopback-self --extended --port 7472 --size 1M "$self" ||
	fail "loopback-self --extended"

start_server rping 7174 rping -s -v -C 50
rping -c -v -C 50 -a "$self" >/tmp/rping-client 2>&1 || fail "rping"
end_server
rpings_right rping-client 50

start_server write 18515 ib_write_bw -R -F -s 65536 -n 500
ib_write_bw -R -F -s 65536 -n 500 "$self" || fail "ib_write_bw"
end_server

shows V6.2.1.2-4 V6.6.1.1-1
shows_provider V8.1.2.1-9 V8.1.2.2-2 V8.1.3.2-7 V8.1.3.3-2 V9.3.1.2-2 R3.2-6
