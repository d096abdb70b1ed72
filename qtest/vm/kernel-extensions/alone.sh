# SPDX-License-Identifier: GPL-2.0-or-later
#
# Atomic operations, immediate data and Reads with several SGEs, posted by a kernel
# module.

. /usr/lib/rnic/lib.sh

modprobe kverbs_self || fail "kverbs_self: $(dmesg | tail -n 5)"
rmmod kverbs_self || fail "kverbs_self does not go away"
eventually 30 nothing_left || fail "$(objects_left)"
