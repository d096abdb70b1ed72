# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a process may register, and that what it has registered stays where it
# is, under pressure and after fork(), as long as one STag refers to it. What its
# control group may have of the adapter.

. /usr/lib/rnic/lib.sh

memory-self "$(address_of alone)" || fail "memory-self"
by-hand-quota "$(rdma_device)" || fail "by-hand-quota"
eventually 30 nothing_left || fail "$(objects_left)"

shows V7.5-3 V7.6.1.1-4 V7.6.2-4 V7.9-3 R8.1.1-8 R8.1.2-4 R8.1.2-6
