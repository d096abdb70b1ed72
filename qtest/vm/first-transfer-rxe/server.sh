# SPDX-License-Identifier: GPL-2.0-or-later
#
# docs/first-transfer.c over an adapter of another kind.

. /usr/lib/rnic/lib.sh

start_server first 18515 first-transfer "$(rdma_device)"
end_server
grep -q 'second half: "written without the server.s help"' /tmp/first || {
	cat /tmp/first
	fail "the server has other data"
}
