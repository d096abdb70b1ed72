# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a program is told of asynchronous events: by its name in Linux of each that the
# adapter can have of a QP, and of a CQ without room.

. /usr/lib/rnic/lib.sh

signal up
await forging
by-hand-events "$(rdma_device)" || fail "by-hand-events"
eventually 30 nothing_left || fail "$(objects_left)"

shows V8.3.3-3
