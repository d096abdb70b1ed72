# SPDX-License-Identifier: GPL-2.0-or-later
#
# Lends a disk and answers, while the client's adapter fails again and again.

. /usr/lib/rnic/lib.sh
. /usr/lib/rnic/interrupted-server.sh

serve_interrupted $((240 + 80 * CYCLES))
