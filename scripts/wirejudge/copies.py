# SPDX-License-Identifier: GPL-2.0-or-later
#
# Copies of captures for Wireshark 4.0. It takes the start-up of a connection whose ports
# were used before for FPDUs of the earlier one: in a copy no two connections have the
# same ports. It takes M in either start-up frame for markers in both directions (RFC 5044
# 7.1.1: in the one that the sender of M receives), and with markers finds an FPDU only if
# it is a segment: in another copy there are no markers.

"""Changes captures so that Wireshark understands them."""

import struct

from .pcapng import (AT_CHECKSUM, AT_DATA, AT_FLAGS, AT_MPA_FLAGS, AT_OFFSET, ETHERNET,
                     MPA_MARKERS, NETWORKS, PACKET, START_UP_HEAD, blocks, is_syn, packets,
                     start_up_at, tcp_of)

AT_SEQ, AT_ACK, AT_SIZE, AT_MPA_PRIVATE = 4, 8, 20, 18
MARKER, SPACING = 4, 512
IPV4_HEADER, IPV4_AT_LENGTH, IPV4_AT_CHECKSUM, IPV6_AT_LENGTH = 20, 2, 10, 4
PROTOCOL_TCP = 6


def _replace(octets, tcp, at, word):
    """With the checksum that the change makes (RFC 1624)."""
    old = int.from_bytes(octets[at:at + 2], "big")
    total = struct.unpack_from(">H", octets, tcp + AT_CHECKSUM)[0] ^ 0xffff
    total += (old ^ 0xffff) + int.from_bytes(word, "big")
    total = (total & 0xffff) + (total >> 16)
    total = (total & 0xffff) + (total >> 16)
    struct.pack_into(">H", octets, tcp + AT_CHECKSUM, total ^ 0xffff)
    octets[at:at + 2] = word


class Renamer:
    """Gives the connecting end of a connection whose ports were used another port."""

    def __init__(self, octets):
        self.octets = octets            # changed
        self.ports = {}                 # new: old
        self.now = {}                   # ends: (the end that is renamed, its port)
        used = set()
        for _, source, target, _ in packets(octets):
            used |= {source[-2:], target[-2:]}
        self.free = (p for p in (n.to_bytes(2, "big") for n in range(65535, 0, -1))
                     if p not in used)
        for tcp, source, target, _ in packets(octets):
            self._rename(tcp, source, target)

    def _rename(self, tcp, source, target):
        ends = frozenset((source, target))
        if is_syn(self.octets, tcp):
            port = next(self.free, None) if ends in self.now else None
            self.now[ends] = (source, port)
            if port:
                self.ports[int.from_bytes(port, "big")] = \
                    int.from_bytes(source[-2:], "big")
        renamed, port = self.now.get(ends, (None, None))
        if port:
            _replace(self.octets, tcp, tcp if source == renamed else tcp + 2, port)


def _checksum(octets):
    """RFC 1071."""
    octets += bytes(len(octets) % 2)
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff


def _markers_before(at):
    """Octets of markers, of the first ones of a stream of FPDUs."""
    return at // SPACING * MARKER + min(at % SPACING, MARKER)


class Unmarker:
    """
    Takes the markers out of all directions that have some, and M out of the start-up. No
    two connections may have the same ports.
    """

    def __init__(self, octets):
        self.octets = octets
        self.wanted = set()             # directions that have markers
        self.begins = {}                # by direction: sequence number of its first FPDU
        self._learn()

    def _learn(self):
        for tcp, source, target, start_up in packets(self.octets):
            if start_up and (source, target) not in self.begins:
                private = struct.unpack_from(">H", self.octets, start_up + AT_MPA_PRIVATE)
                self.begins[source, target] = (self._seq(tcp) + START_UP_HEAD +
                                               private[0]) & 0xffffffff
                if self.octets[start_up + AT_MPA_FLAGS] & MPA_MARKERS:
                    self.wanted.add((target, source))

    def _seq(self, tcp):
        return struct.unpack_from(">I", self.octets, tcp + AT_SEQ)[0]

    def write(self, out):
        """The copy."""
        for kind, at, end in blocks(self.octets):
            block = self.octets[at:end]
            tcp = tcp_of(self.octets, at) if kind == PACKET else None
            if tcp:
                block = self._packet(bytearray(block), tcp[0] - at, *tcp[1:])
            out.write(block)

    def _number(self, number, direction):
        """
        A sequence number of a direction, in the copy. (None, the same one): none behind
        markers.
        """
        begin = self.begins.get(direction)
        if direction not in self.wanted or begin is None:
            return None, number
        at = (number - begin) & 0xffffffff
        if at >= 1 << 31:
            return None, number
        return at, (number - _markers_before(at)) & 0xffffffff

    def _packet(self, block, tcp, source, target):
        ack = struct.unpack_from(">I", block, tcp + AT_ACK)[0]
        new = self._number(ack, (target, source))[1].to_bytes(4, "big")
        _replace(block, tcp, tcp + AT_ACK, new[:2])
        _replace(block, tcp, tcp + AT_ACK + 2, new[2:])
        start_up = start_up_at(block, tcp, len(block))
        seq = struct.unpack_from(">I", block, tcp + AT_SEQ)[0]
        begin = self.begins.get((source, target))
        if start_up and begin is not None and (seq - begin) & 0x80000000:
            flags = block[start_up + AT_MPA_FLAGS] & ~MPA_MARKERS
            _replace(block, tcp, start_up + AT_MPA_FLAGS,
                     bytes((flags, block[start_up + AT_MPA_FLAGS + 1])))
            return block
        at, seq = self._number(seq, (source, target))
        return block if at is None else self._without(block, tcp, at, seq)

    @staticmethod
    def _without(block, tcp, at, seq):
        """
        The first octet of the segment is number at of the FPDUs; seq: its sequence
        number, in the copy.
        """
        head = tcp + (block[tcp + AT_OFFSET] >> 4) * 4
        size = struct.unpack_from("<I", block, AT_SIZE)[0]
        end = AT_DATA + size
        payload = b"".join(
            block[head + max(k, at) - at:min(head + k + SPACING - MARKER - at, end)]
            for k in range(at // SPACING * SPACING + MARKER, at + end - head, SPACING)
            if k + SPACING - MARKER > at)
        packet = block[AT_DATA:head] + payload
        network, header = AT_DATA + ETHERNET, tcp - AT_DATA
        struct.pack_into(">I", packet, header + AT_SEQ, seq)
        _finish(packet, network - AT_DATA, header)
        options = block[AT_DATA + (size + 3) // 4 * 4:-4]
        body = (bytes(block[8:20]) + struct.pack("<II", len(packet), len(packet)) +
                packet + bytes(-len(packet) % 4) + options)
        length = struct.pack("<I", len(body) + 12)
        return bytes(block[:4]) + length + body + length


def _finish(packet, network, tcp):
    """Lengths and checksums, of a packet whose payload has changed."""
    length = len(packet) - tcp
    addresses, size, header = NETWORKS[bytes(packet[network - 2:network])]
    if header == IPV4_HEADER:
        struct.pack_into(">H", packet, network + IPV4_AT_LENGTH, header + length)
        struct.pack_into(">H", packet, network + IPV4_AT_CHECKSUM, 0)
        struct.pack_into(">H", packet, network + IPV4_AT_CHECKSUM,
                         _checksum(packet[network:network + header]))
    else:
        struct.pack_into(">H", packet, network + IPV6_AT_LENGTH, length)
    ends = packet[network + addresses:network + addresses + 2 * size]
    struct.pack_into(">H", packet, tcp + AT_CHECKSUM, 0)
    struct.pack_into(">H", packet, tcp + AT_CHECKSUM, _checksum(
        ends + struct.pack(">II", length, PROTOCOL_TCP) + packet[tcp:]))
