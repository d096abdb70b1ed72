# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other guest with two adapters.

. /usr/lib/rnic/lib.sh

run_client first rping -c -v -C 20 -a 10.77.0.1
rpings_right first 20
run_client second rping -c -v -C 20 -a 10.78.0.1
rpings_right second 20

ib_write_bw -R -F -s 65536 -n 300 -p 18601 >/tmp/w1 2>&1 &
one=$!
ib_write_bw -R -F -s 65536 -n 300 -p 18602 >/tmp/w2 2>&1 &
two=$!
eventually 30 serving $one 18601 || fail "the first server"
eventually 30 serving $two 18602 || fail "the second server"
signal both
wait $one || { cat /tmp/w1; fail "the first adapter"; }
wait $two || { cat /tmp/w2; fail "the second adapter"; }
