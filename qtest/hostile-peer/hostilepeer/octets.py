# SPDX-License-Identifier: GPL-2.0-or-later
#
# The octets of MPA, DDP and RDMAP, made by hand from RFC 5040, 5041, 5044, 6581 and
# 7306, and independent of the device's own engine. Each field can be given a value
# that the RFCs forbid. No socket and no rule about answers is here.

"""Frames, segments and FPDUs as octets."""

import struct

REQUEST_KEY = b"MPA ID Req Frame"
REPLY_KEY = b"MPA ID Rep Frame"
M, C, R, S = 0x80, 0x40, 0x20, 0x10

WRITE, READ_REQUEST, READ_RESPONSE, SEND, SEND_INV = 0, 1, 2, 3, 4
SEND_SE, SEND_SE_INV, TERMINATE = 5, 6, 7
IMMEDIATE, IMMEDIATE_SE, ATOMIC_REQUEST, ATOMIC_RESPONSE = 8, 9, 10, 11
TAGGED = (WRITE, READ_RESPONSE)
QN = {READ_REQUEST: 1, TERMINATE: 2, ATOMIC_REQUEST: 1, ATOMIC_RESPONSE: 3}

TAGGED_HEADER, UNTAGGED_HEADER, READ_HEADER = 14, 18, 28
MARKER_SPACING, MARKER = 512, 4


def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82f63b78 if n & 1 else 0)
        table.append(n)
    return table


CRC_TABLE = _crc_table()


def crc32c(octets):
    """RFC 5044 4.4, as four octets of the wire."""
    crc = 0xffffffff
    for octet in octets:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ octet) & 0xff]
    return struct.pack("<I", crc ^ 0xffffffff)


assert crc32c(b"123456789") == bytes.fromhex("839206e3")


def mpa(key=REQUEST_KEY, flags=S, revision=2, private=b"", length=None,
        ird=8, ord_=8, more_ird=0, more_ord=0):
    """
    A start-up frame. With S in flags the enhanced octets (RFC 6581) go first;
    more_ird and more_ord are the bits A and B, C and D beside IRD and ORD.
    """
    if flags & S:
        private = struct.pack(">HH", ird | more_ird, ord_ | more_ord) + private
    if length is None:
        length = len(private)
    return key + struct.pack(">BBH", flags, revision, length & 0xffff) + private


def header(opcode, tagged=None, last=True, reserved=0, dv=1, rv=1, rsv=0):
    """The two octets that every segment begins with."""
    if tagged is None:
        tagged = opcode in TAGGED
    return bytes(((tagged << 7) | (last << 6) | reserved << 2 | dv,
                  rv << 6 | rsv << 4 | opcode))


def tagged(opcode, stag, to, payload=b"", **fields):
    """A tagged segment."""
    return (header(opcode, tagged=fields.pop("tagged", True), **fields) +
            struct.pack(">IQ", stag & 0xffffffff, to & 2 ** 64 - 1) + payload)


def untagged(opcode, payload=b"", msn=1, mo=0, qn=None, inv=0, **fields):
    """An untagged segment, on its opcode's queue if qn does not say otherwise."""
    if qn is None:
        qn = QN.get(opcode, 0)
    return (header(opcode, tagged=fields.pop("tagged", False), **fields) +
            struct.pack(">IIII", inv, qn, msn & 0xffffffff, mo & 0xffffffff) +
            payload)


def read_header(source, source_to, size, sink=0x5151, sink_to=0x1234567890):
    """What stands behind the DDP header of a Read Request."""
    return struct.pack(">IQIIQ", sink, sink_to & 2 ** 64 - 1, size, source,
                       source_to & 2 ** 64 - 1)


def atomic_header(stag, to, operation=0, data=0, mask=0, number=7):
    """That of an Atomic Request: FetchAdd if operation is 0."""
    return struct.pack(">IIIQQQQQ", operation, number, stag, to & 2 ** 64 - 1,
                       data, mask, 0, 2 ** 64 - 1)


class Framer:
    """
    Makes FPDUs of segments, in the order in which they are sent. spoil, a function
    of a bytearray, changes an FPDU before its CRC is computed, spoil_crc after.
    marker changes a marker: (offset back to the FPDU) -> 4 octets.
    """

    def __init__(self, crc=False, markers=False):
        self.crc = crc
        self.markers = markers
        self.position = 0

    def fpdu(self, ulpdu, length=None, pad=b"\0\0\0", crc=None, marker=None):
        size = len(ulpdu) if length is None else length
        content = struct.pack(">H", size) + ulpdu
        content += pad[:-len(content) % 4]
        marker = marker or (lambda back: struct.pack(">HH", 0, back))
        out = self._with_markers(content, marker)
        if crc is None:
            crc = crc32c(out) if self.crc else b"\0\0\0\0"
        self.position = (self.position + len(out) + 4) % MARKER_SPACING
        return out + crc

    def _with_markers(self, content, marker):
        """A marker right before the CRC belongs in front of it."""
        if not self.markers:
            return content
        out = bytearray()
        start = None
        for at in range(0, len(content) + 4, 4):
            if (self.position + len(out)) % MARKER_SPACING == 0:
                out += marker(len(out) - (start or 0) if start is not None else 0)
            if start is None:
                start = len(out)
            out += content[at:at + 4]
        return bytes(out)


class Unframer:
    """Takes FPDUs off a stream of octets; checks CRC and markers, if there are any."""

    def __init__(self, crc=False, markers=False):
        self.crc = crc
        self.markers = markers
        self.position = 0
        self.octets = b""

    def _whole(self):
        """(FPDU's octets on the wire, its content), or None: more are needed."""
        wire, content, start = 0, bytearray(), None
        need = 4
        while len(content) < need:
            if self.markers and (self.position + wire) % MARKER_SPACING == 0:
                if len(self.octets) < wire + MARKER:
                    return None
                back = struct.unpack(">H", self.octets[wire + 2:wire + 4])[0]
                if back != (wire - start if start is not None else 0):
                    raise ValueError(f"a marker points {back} octets back")
                wire += MARKER
            if start is None:
                start = wire
            if len(self.octets) < wire + 4:
                return None
            content += self.octets[wire:wire + 4]
            wire += 4
            if len(content) == 4:
                size = struct.unpack(">H", content[:2])[0]
                need = (2 + size + 3) // 4 * 4 + 4
        return wire, bytes(content)

    def take(self):
        """The next ULPDU, or None."""
        whole = self._whole()
        if whole is None:
            return None
        wire, content = whole
        if self.crc and crc32c(self.octets[:wire - 4]) != content[-4:]:
            raise ValueError("a wrong CRC")
        self.octets = self.octets[wire:]
        self.position = (self.position + wire) % MARKER_SPACING
        return content[2:2 + struct.unpack(">H", content[:2])[0]]
