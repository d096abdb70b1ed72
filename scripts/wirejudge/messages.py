# SPDX-License-Identifier: GPL-2.0-or-later
#
# The kinds of RDMAP messages (RFC 5040 4.1, RFC 7306 4), by which header and on which
# queue each goes, and what is wrong with the segments of a frame.

"""Opcodes, and the headers that they have."""

import functools

from .frames import SEPARATOR

NAMES = ("Write", "Read-Request", "Read-Response", "Send", "Send-Invalidate", "Send-SE",
         "Send-SE-Invalidate", "Terminate", "Immediate", "Immediate-SE",
         "Atomic-Request", "Atomic-Response")
TERMINATE = 7
# Both ends have to agree on these.
OF_RFC_7306 = range(8, 12)
TAGGED = (0, 2)
QUEUES = {1: 1, 7: 2, 10: 1, 11: 3}
START_UP_HEAD, MARKER, CRC = 20, 4, 4


def code_text(code):
    """As layer, error type and error code are written."""
    return f"{code >> 12}/{code >> 8 & 15}/{code & 255:02x}"


def code_of(text):
    """From code_text."""
    layer, etype, code = text.split("/")
    return int(layer) << 12 | int(etype) << 8 | int(code, 16)


def _numbers(text):
    return [int(v, 0) for v in text.split(SEPARATOR)] if text else []


def octets_of(private, lengths, markers):
    """On the wire: start-up frames, FPDUs, and the markers in them."""
    return (sum(START_UP_HEAD + n for n in private) +
            sum((2 + n + 3) // 4 * 4 + CRC for n in lengths) + MARKER * markers)


def _wrong_header(opcode, tagged, queue):
    if tagged != (opcode in TAGGED):
        return f"{NAMES[opcode]} with T={int(tagged)}"
    if not tagged and queue != QUEUES.get(opcode, 0):
        return f"{NAMES[opcode]} on queue {queue}"
    return None


def _wrong(segments, opcodes, lengths):
    if len(opcodes) != len(lengths):
        yield "an FPDU without a DDP segment"
        return
    unknown = [op for op in opcodes if op >= len(NAMES)]
    if unknown:
        yield f"opcode {unknown[0]}, which is no message's"
    if any(v != 1 for v in _numbers(segments.versions)):
        yield "a DDP version that is not 1"
    if any(v != 1 for v in _numbers(segments.rdmap_versions)):
        yield "an RDMAP version that is not 1"
    tagged = [v not in ("0", "False") for v in segments.tagged.split(SEPARATOR) if v]
    queues = _numbers(segments.queues)
    if unknown or len(tagged) != len(opcodes) or len(queues) != tagged.count(False):
        if not unknown:
            yield "a segment whose headers are not all there"
        return
    for opcode, is_tagged in zip(opcodes, tagged):
        why = _wrong_header(opcode, is_tagged, None if is_tagged else queues.pop(0))
        if why:
            yield why
    if TERMINATE in opcodes[:-1]:
        yield "a segment behind a Terminate"


@functools.lru_cache(maxsize=65536)
def look_at(segments):
    """(opcodes, octets of the stream that they account for, what is wrong with them)"""
    opcodes = tuple(_numbers(segments.opcodes))
    lengths = _numbers(segments.lengths)
    markers = segments.markers.count(SEPARATOR) + 1 if segments.markers else 0
    return (opcodes, octets_of(_numbers(segments.private), lengths, markers),
            tuple(_wrong(segments, opcodes, lengths)) if lengths or opcodes else ())
