# SPDX-License-Identifier: GPL-2.0-or-later
#
# Its whole virtual machine is killed in the middle of a transfer (by the
# program host).

. /usr/lib/rnic/lib.sh
start_server victim 7471 victim --server
end_server
