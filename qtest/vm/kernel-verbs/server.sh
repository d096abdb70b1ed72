# SPDX-License-Identifier: GPL-2.0-or-later
#
# Kernel verbs between two guests: data is moved through Fast-Registered
# regions 100000 times; 100 connections are made and drained; stale STags are
# refused; the module that does it, and the driver under it, are taken away in
# the middle.

. /usr/lib/rnic/lib.sh
. ./kverbs.sh.inc

# serve STEP [PARAMETER...]
serve() {
	load server "${@:2}"
	signal "$1"
}

terminates=$(counter "$(rdma_device)" terminates_sent)
serve stale mode=stale
passes stale
terminates=$(($(counter "$(rdma_device)" terminates_sent) - terminates))
[ $terminates = 14 ] || fail "$terminates Terminates instead of 14"

serve softirq poll=softirq
passes softirq
serve direct poll=direct
passes direct
serve transfer
passes transfer
serve connections
passes connections

say "unloading at any time"
load server
unload
serve peer-leaves
loses peer-leaves
note_transfer
serve server-leaves
eventually 60 moving || fail "nothing moves: $(result)"
unload
serve driver-leaves
loses driver-leaves

serve afterwards
passes afterwards
nothing_left || fail "$(objects_left)"

shows_driver V6.2.2.3-4 V6.2.4-5 V7.2-3 V7.2.1-1 V7.2.2-2 V7.3.2.1-3 V7.3.2.5-3 \
	V7.3.2.5-13 V7.6.1.1-2 V7.8-5 V8.1.2.1-4 V8.1.2.2-12 V8.1.2.3.2-1 \
	V8.1.3.2.1-4 V8.2.2.1-10 V8.2.2.2-5 V8.2.5-13 V9.1-2 V9.2.6.1-1 V9.3.1.1-3 \
	V9.3.1.1-12 V9.3.1.1-18
