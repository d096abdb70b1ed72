# SPDX-License-Identifier: GPL-2.0-or-later
#
# Each post either is seen by the device, which looks once more before it sleeps,
# or rings its doorbell. Where both sides miss each other, once in a million
# posts, the client waits for ever, and timeout ends it (status 124).

. /usr/lib/rnic/lib.sh

perftest_client many timeout $((100 * RNIC_PATIENCE)) ib_write_bw -R -F -N -s 64 -n 4000000 \
	"$(address_of server)"
tail -n 3 /tmp/many
