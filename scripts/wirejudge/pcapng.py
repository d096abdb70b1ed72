# SPDX-License-Identifier: GPL-2.0-or-later
#
# The blocks of a file of the device, and the headers of its packets: what tshark does not
# tell, as whether the file has its end and how many packets the device says it has left
# out.

"""Reads pcapng files."""

import struct
import typing

PACKET, STATISTICS, DROPPED = 6, 5, 5
SECTION = b"\x0a\x0d\x0d\x0a"
AT_DATA = 28                    # of a packet's block
ETHERNET = 14
# Ethernet type: where the addresses and the TCP header are.
NETWORKS = {b"\x08\x00": (12, 4, 20), b"\x86\xdd": (8, 16, 40)}
AT_OFFSET, AT_FLAGS, AT_CHECKSUM = 12, 13, 16
SYN, ACK = 0x02, 0x10
START_UP, AT_MPA_FLAGS, START_UP_HEAD = b"MPA ID Re", 16, 20
MPA_MARKERS = 0x80


class Blocks(typing.NamedTuple):
    """
    is_cut: there are no statistics at the end. truncated: packets of which not all is
    there. reused: some ports are, by a SYN. marked: there are markers in some connection.
    """

    is_cut: bool
    dropped: int
    truncated: int
    reused: bool
    marked: bool


def _dropped(body):
    at = 12
    while at + 4 <= len(body):
        code, size = struct.unpack_from("<HH", body, at)
        if code == DROPPED:
            return struct.unpack_from("<Q", body, at + 4)[0]
        at += 4 + (size + 3) // 4 * 4
    return 0


def is_pcapng(path):
    """tcpdump's classic format is another one."""
    with open(path, "rb") as f:
        return f.read(4) in (SECTION, b"")


def blocks(octets):
    """(type, where it begins, where it ends) of each whole one."""
    at = 0
    while at + 8 <= len(octets):
        kind, size = struct.unpack_from("<II", octets, at)
        if size < 12 or at + size > len(octets):
            return
        yield kind, at, at + size
        at += size


def tcp_of(octets, block):
    """(where TCP's header is, key of sender, key of receiver), or None."""
    network = block + AT_DATA + ETHERNET
    place = NETWORKS.get(bytes(octets[network - 2:network]))
    if not place:
        return None
    addresses, size, header = place
    tcp = network + header
    source = network + addresses
    return (tcp, bytes(octets[source:source + size]) + bytes(octets[tcp:tcp + 2]),
            bytes(octets[source + size:source + 2 * size]) +
            bytes(octets[tcp + 2:tcp + 4]))


def start_up_at(octets, tcp, end):
    """Where the packet's start-up frame is, or None."""
    at = tcp + (octets[tcp + AT_OFFSET] >> 4) * 4
    if at + START_UP_HEAD < end and octets[at:at + len(START_UP)] == START_UP:
        return at
    return None


def packets(octets):
    """(tcp_of, start-up frame) of each packet of TCP."""
    for kind, at, end in blocks(octets):
        tcp = tcp_of(octets, at) if kind == PACKET else None
        if tcp:
            yield (*tcp, start_up_at(octets, tcp[0], end))


def is_syn(octets, tcp):
    return octets[tcp + AT_FLAGS] & (SYN | ACK) == SYN


def read(octets):
    """Steps over all of a file's octets."""
    end, cut, dropped, truncated = 0, True, 0, 0
    for kind, at, end in blocks(octets):
        cut = kind != STATISTICS
        if kind == STATISTICS:
            dropped += _dropped(octets[at + 8:end - 4])
        if kind == PACKET:
            captured, original = struct.unpack_from("<II", octets, at + 20)
            truncated += captured < original
    reused = marked = False
    seen = set()
    for tcp, source, target, start_up in packets(octets):
        if is_syn(octets, tcp):
            ends = frozenset((source, target))
            reused = reused or ends in seen
            seen.add(ends)
        if start_up and octets[start_up + AT_MPA_FLAGS] & MPA_MARKERS:
            marked = True
    return Blocks(cut or end != len(octets), dropped, truncated, reused, marked)


def ends(octets, numbers, count):
    """{number: last octets}, of these packets; the first one is number 1."""
    found, number = {}, 0
    for kind, at, _ in blocks(octets):
        number += kind == PACKET
        if kind == PACKET and number in numbers:
            size = struct.unpack_from("<I", octets, at + 20)[0]
            found[number] = bytes(octets[at + AT_DATA + max(size - count, 0):
                                         at + AT_DATA + size])
    return found
