# SPDX-License-Identifier: GPL-2.0-or-later
#
# Rejects and accepts as the client asks, with private data.

. /usr/lib/rnic/lib.sh
start_server reject 7471 cm-reject --server
end_server
