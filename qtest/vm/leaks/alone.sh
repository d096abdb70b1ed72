# SPDX-License-Identifier: GPL-2.0-or-later
#
# What libibverbs and the provider keep of an object goes with it. What finds leaks at the
# end of every test finds all kinds of objects while a process holds them, and none when
# it is gone.

. /usr/lib/rnic/lib.sh

holds() {
	objects_left | grep -q "has [1-9][0-9]* $1,"
}

leaks-self "$(rdma_device)" || fail "leaks-self"
nothing_left || fail "in use already: $(objects_left)"
window-self --number 100000000 "$(address_of alone)" &
program=$!
for kind in qps cqs pds stags listeners; do
	eventually 30 holds $kind || fail "no $kind in use: $(objects_left)"
	say "$kind"
done
kill -KILL $program
wait $program
eventually 30 nothing_left || fail "still in use: $(objects_left)"
