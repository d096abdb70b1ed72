# SPDX-License-Identifier: GPL-2.0-or-later
#
# Open MPI over libfabric's verbs;ofi_rxm. This end runs what the other one's mpirun
# asks for, in place of an ssh server.

. /usr/lib/rnic/lib.sh

socat TCP-LISTEN:2222,reuseaddr,fork EXEC:sh &
eventually 30 tcp_open 2222 || fail "socat does not listen"
signal listening
await over 150
eventually 30 nothing_left || fail "$(objects_left)"
