# SPDX-License-Identifier: GPL-2.0-or-later
#
# Memory registered in all the ways there are: small and huge pages, odd offsets,
# an IOVA, zero based, shared memory, a dma-buf; 1 GiB of the first ones. Parts of
# each are written and read, with every byte there and around checked; a byte
# outside cannot be reached, nor anything once it is deregistered.

. /usr/lib/rnic/lib.sh

modprobe -q udmabuf
echo 2048 >/sys/module/udmabuf/parameters/size_limit_mb || fail "no udmabuf"
echo 520 >/proc/sys/vm/nr_hugepages
[ "$(cat /proc/sys/vm/nr_hugepages)" = 520 ] || fail "no huge pages"

region-self "$(address_of alone)" || fail "region-self"
for kind in "small pages, odd" "huge pages" "huge pages, odd"; do
	region-self --kind "$kind" --size 1G "$(address_of alone)" ||
		fail "region-self, 1 GiB"
done

shows V7.3.1.1-1 V7.3.1.1-2 V7.3.1.1-3 V7.3.2.2-1 V7.3.2.2-3 V7.6.1.1-1 V7.6.1.1-3 \
	V7.6.1.2-1 V7.6.2-1 V7.9-1 V9.2.6.2-1 V9.2.6.2-3 \
	V9.2.6.2-5 V9.2.6.2-6
shows_provider V7.6.1.1-2
