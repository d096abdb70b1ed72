# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other end of server.sh.

. /usr/lib/rnic/lib.sh
. ./kverbs.sh.inc

# connect STEP [PARAMETER...]
connect() {
	await "$1"
	load client "${@:2}"
}

for_ever=1000000000

connect stale mode=stale
passes stale

connect softirq poll=softirq iterations=3000
passes softirq
connect direct poll=direct iterations=3000
passes direct
start=$(now)
connect transfer iterations=100000 max_size=16384
passes transfer
echo "100000 iterations: from $start to $(now)"
connect connections connections=100 iterations=20 slots=4 max_size=4096
passes connections

note_transfer
connect peer-leaves iterations=$for_ever
eventually 60 moving || fail "nothing moves: $(result)"
unload
connect server-leaves iterations=$for_ever
loses server-leaves

note_transfer
connect driver-leaves iterations=$for_ever
eventually 60 moving || fail "nothing moves: $(result)"
unbind_driver
loses driver-leaves
bind_driver

connect afterwards iterations=100
passes afterwards
dmesg | grep kverbs_check | tail -n 5
nothing_left || fail "$(objects_left)"
