# SPDX-License-Identifier: GPL-2.0-or-later
#
# The other side of client.sh.

. /usr/lib/rnic/lib.sh

perftest_server many 18515 ib_write_bw -R -F -N -s 64 -n 4000000
