# SPDX-License-Identifier: GPL-2.0-or-later
#
# What tshark finds in a file: one record for each frame, by one pass with -T fields.
# A second pass, for streams that use CRCs only, reads the text of CRC fields: tshark 4.0
# says nowhere else that one is wrong.

"""Frames of a capture, as tshark's fields."""

import os
import re
import subprocess
import tempfile
import typing

TSHARK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                      "tshark-iwarp")
SEPARATOR = "|"
WARNING, ERROR = 0x600000, 0x800000
FIN, SYN, RST = 0x01, 0x02, 0x04
OUTBOUND = 2

ETYPES = ("rdma", "ddp", "llp")
CODES = ("_rdma", "_ddp_tagged", "_ddp_untagged", "_llp", "")
FIELDS = ("frame.number", "frame.packet_flags_direction", "ip.src", "ipv6.src",
          "ip.dst", "ipv6.dst", "tcp.srcport", "tcp.dstport", "tcp.stream", "tcp.flags",
          "tcp.seq_raw", "tcp.len", "frame.comment", "_ws.expert.severity",
          "_ws.expert.message", "iwarp_mpa.pdlength", "iwarp_mpa.ulpdulength",
          "iwarp_mpa.marker_fpduptr", "iwarp_mpa.crc_check", "iwarp_ddp.tagged_flag",
          "iwarp_ddp.dv", "iwarp_ddp.qn", "iwarp_rdma.version", "iwarp_rdma.opcode",
          "iwarp_rdma.term_layer", *(f"iwarp_rdma.term_etype_{e}" for e in ETYPES),
          "iwarp_rdma.term_etype", *(f"iwarp_rdma.term_errcode{c}" for c in CODES))


class Segments(typing.NamedTuple):
    """Of one frame: MPA, DDP and RDMAP, each field's values as tshark prints them."""

    private: str
    lengths: str
    markers: str
    tagged: str
    versions: str
    queues: str
    rdmap_versions: str
    opcodes: str


class Frame(typing.NamedTuple):
    """Frames that are not TCP have no stream."""

    number: int
    outbound: typing.Optional[bool]     # None: the file does not say
    source: tuple                       # (address, port)
    target: tuple
    stream: typing.Optional[int]
    flags: int
    seq: int
    length: int
    comments: str
    experts: list                       # (severity, message)
    segments: Segments
    terminates: list                    # codes, 0xLTCC
    has_crc: bool


def _values(text):
    return text.split(SEPARATOR) if text else []


def _terminates(values):
    """Layers are in order; an error type and a code are with the kind of their own."""
    layers = _values(values[0])
    types = [_values(v) for v in values[1:5]]
    codes = [_values(v) for v in values[5:]]
    found = []
    for layer in layers:
        number = int(layer, 0)
        kind = types[min(number, 3)]
        etype = int(kind.pop(0), 0) if kind else 0
        places = {0: (0, 4), 1: (etype, 4) if etype in (1, 2) else (4,),
                  2: (3, 4)}.get(number, (4,))
        place = next((codes[p] for p in places if codes[p]), None)
        code = int(place.pop(0), 0) if place else 0
        found.append(number << 12 | etype << 8 | code)
    return found


def _frame(line):
    v = line.split("\t")
    stream = int(v[8]) if v[8] else None
    return Frame(
        number=int(v[0]), outbound=int(v[1], 0) & 3 == OUTBOUND if v[1] else None,
        source=(v[2] or v[3], int(v[6] or 0)), target=(v[4] or v[5], int(v[7] or 0)),
        stream=stream, flags=int(v[9] or "0", 0), seq=int(v[10] or 0),
        length=int(v[11] or 0), comments=v[12],
        experts=[(int(s), m) for s, m in zip(_values(v[13]), _values(v[14]))],
        segments=Segments(v[15], v[16], v[17], v[19], v[20], v[21], v[22], v[23]),
        terminates=_terminates(v[24:]) if v[24] else [], has_crc=bool(v[18]))


def _tshark(path, *arguments):
    """Lines of its output; what it says of trouble follows as an error."""
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen([TSHARK, "-r", path, *arguments], text=True,
                              errors="replace", stdout=subprocess.PIPE,
                              stderr=errors) as process:
            yield from (line.rstrip("\n") for line in process.stdout)
        errors.seek(0)
        said = [s for s in errors.read().splitlines() if s and "as user" not in s]
        # Of a file that is cut tshark has told all that is there.
        if process.returncode and not any("cut short" in s for s in said):
            raise OSError(f"tshark of {path}: {' '.join(said) or process.returncode}")


def read(path, checksums):
    """checksums: of IP and TCP too."""
    options = ["-T", "fields", "-E", f"aggregator={SEPARATOR}", "-E", "separator=/t"]
    for name in FIELDS:
        options += ["-e", name]
    if checksums:
        options += ["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]
    yield from map(_frame, _tshark(path, *options))


def bad_crcs(path):
    """(frame's number, sender's address) of those that have one."""
    number, source = 0, ""
    for line in _tshark(path, "-Y", "iwarp_mpa.crc_check", "-O", "iwarp_mpa"):
        begin = re.match(r"Frame (\d+):", line)
        sender = re.match(r"Internet Protocol Version \d, Src: ([^,]+),", line)
        if begin:
            number = int(begin[1])
        elif sender:
            source = sender[1]
        elif "Bad CRC32" in line:
            yield number, source
