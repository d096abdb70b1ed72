# SPDX-License-Identifier: GPL-2.0-or-later
#
# Cases of the stream: each field of FPDU, DDP and RDMAP headers with each kind of wrong
# value, in streams without CRC, with CRC, and with CRC and markers. The Terminate that
# is due comes from the RFC's clause beside it.

"""FPDUs and segments that are wrong."""

import struct

from . import octets
from .case import Case, Good, Terminate

PLAIN, CRC, MARKERS = "plain", "crc", "markers"
ALL = (PLAIN, CRC, MARKERS)

DDP = "RFC 5041 7.1 and 7.2"
RDMAP = "RFC 5040 4.8 and 7.2"
IGNORED = "RFC 5041 4.1, RFC 5040 4.1: reserved, not checked"
GARBAGE = b"\xee" * 8
ASK = 0x524e49433f373330    # rnic.rst: the question for messages of RFC 7306


def _case(field, value, expect, clause, segments, modes=ALL, prepare=None):
    """
    segments(target): what is sent, the last one is bad; a segment is octets, or
    (octets, arguments of Framer.fpdu).
    """
    def run(peer):
        if prepare:
            prepare(peer)
        segment = None
        for segment in segments(peer.target):
            segment, how = segment if isinstance(segment, tuple) else (segment, {})
            if not peer.put_segment(segment, **how):
                break
        return segment

    return Case(field, value, expect, clause, run, modes)


def _write(t, payload=GARBAGE, at=0, region=None, **fields):
    addr, stag = region or t.free
    return octets.tagged(octets.WRITE, stag, addr + at, payload, **fields)


def _send(payload=b"q" + bytes(7), **fields):
    return octets.untagged(octets.SEND, payload, **fields)


def _read(t, at=0, size=8, region=None, **fields):
    addr, stag = region or t.free
    return octets.untagged(octets.READ_REQUEST,
                           octets.read_header(stag, addr + at, size), **fields)


def _every_message(t):
    """A good one of each kind of RFC 5040, but for its place in the stream."""
    return {
        octets.WRITE: _write(t),
        octets.READ_REQUEST: _read(t),
        octets.READ_RESPONSE: octets.tagged(octets.READ_RESPONSE, 1, 0, GARBAGE),
        octets.SEND: _send(),
        octets.SEND_INV: octets.untagged(octets.SEND_INV, b"q", inv=0x1234567),
        octets.SEND_SE: octets.untagged(octets.SEND_SE, b"q"),
        octets.SEND_SE_INV: octets.untagged(octets.SEND_SE_INV, b"q", inv=0x1234567),
        octets.TERMINATE: octets.untagged(octets.TERMINATE, bytes(4)),
    }


def _first_octets(segment, and0=0xff, or0=0, and1=0xff, or1=0):
    return bytes((segment[0] & and0 | or0, segment[1] & and1 | or1)) + segment[2:]


# ---- MPA ------------------------------------------------------------------

def _mpa():
    short = Terminate(0x2003, "")
    why = "RFC 5044 8: the length is no DDP segment's (layer 2, code 3)"
    for size in (0, 1, 2, 13):
        yield _case("ULPDU_Length", f"{size}, tagged", short, why,
                    lambda t, size=size: [_write(t)[:size]])
    for size in (2, 14, 17):
        yield _case("ULPDU_Length", f"{size}, untagged", short, why,
                    lambda t, size=size: [_send()[:size]])
    crc = Terminate(0x2002, "")
    for bit in (0, 7, 8, 16, 31):
        yield _case("CRC", f"bit {bit} wrong", crc, "RFC 5044 4.4 and 8: code 2",
                    lambda t, bit=bit: [(_write(t), {"crc": _wrong_crc(t, bit)})],
                    modes=(CRC,))
    for mode in (CRC, MARKERS):
        yield _case("CRC", "zero", crc, "RFC 5044 4.4 and 8: code 2",
                    lambda t: [(_write(t), {"crc": bytes(4)})], modes=(mode,))
    yield _case("CRC", "any, without CRC", Good(), "RFC 5044 4.4: not checked then",
                lambda t: [(_write(t), {"crc": b"\xde\xad\xbe\xef"})], modes=(PLAIN,))
    yield _case("pad", "not zero", Good(),
                "RFC 5044 4.1: the pad is ignored but for the CRC",
                lambda t: [(_write(t, GARBAGE[:5]), {"pad": b"\xff\xff\xff"})])


def _wrong_crc(target, bit):
    good = octets.Framer(crc=True).fpdu(_write(target))[-4:]
    return (int.from_bytes(good, "big") ^ 1 << bit).to_bytes(4, "big")


def _markers():
    wrong = Terminate(0x2003, "")
    why = "RFC 5044 4.3 and 8: the marker points elsewhere (code 3)"
    for value in (4, 8, 508, 512, 0xfffc):
        yield _case("FPDUPTR of the first marker", str(value), wrong, why,
                    lambda t, v=value: [
                        (_write(t), {"marker": lambda _: struct.pack(">HH", 0, v)})],
                    modes=(MARKERS,))
    for off in (-4, 4, 512):
        yield _case("FPDUPTR inside an FPDU", f"{off:+} octets", wrong, why,
                    lambda t, off=off: [
                        (_write(t, b"\xee" * 900), {"marker": lambda back: struct.pack(
                            ">HH", 0, back and back + off & 0xffff)})],
                    modes=(MARKERS,))
    yield _case("FPDUPTR, low two bits", "3", Good(),
                "RFC 5044 4.2: they are zero and ignored",
                lambda t: [(_write(t), {"marker": lambda back: struct.pack(
                    ">HH", 0, back | 3)})], modes=(MARKERS,))
    yield _case("marker's reserved 16 bits", "0xffff", Good(),
                "RFC 5044 4.2: not checked on receipt",
                lambda t: [(_write(t), {"marker": lambda back: struct.pack(
                    ">HH", 0xffff, back)})], modes=(MARKERS,))


# ---- the two octets that all segments begin with ----------------------------

def _versions():
    for version in (0, 2, 3):
        yield _case("DV, tagged", str(version), Terminate(0x1104, ""),
                    DDP + ": 1/1/04, the header is not known",
                    lambda t, v=version: [_write(t, dv=v)])
        yield _case("DV, untagged", str(version), Terminate(0x1206, ""),
                    DDP + ": 1/2/06, the header is not known",
                    lambda t, v=version: [_send(dv=v)])
        for opcode in range(8):
            yield _case("RV", f"{version}, opcode {opcode}", Terminate(0x0205),
                        RDMAP + ": 0/2/05",
                        lambda t, v=version, o=opcode: [_first_octets(
                            _every_message(t)[o], and1=0x3f, or1=v << 6)])


def _opcodes():
    for opcode in range(8, 16):
        why = ("RFC 7306 4: not agreed on, " if opcode < 12 else "") + RDMAP
        yield _case("opcode", f"{opcode}, untagged", Terminate(0x0206), why,
                    lambda t, o=opcode: [octets.untagged(o, bytes(52))])
        yield _case("opcode", f"{opcode}, tagged", Terminate(0x0206), why,
                    lambda t, o=opcode: [octets.tagged(o, 0, 0, bytes(8), tagged=True)])
    for opcode in range(8):
        yield _case("T", f"wrong for opcode {opcode}", Terminate(0x0206),
                    "RFC 5040 4.1, Figure 4: each opcode is of one kind; 0/2/06",
                    lambda t, o=opcode: [_wrong_kind(t, o)])


def _wrong_kind(t, opcode):
    if opcode in octets.TAGGED:
        return octets.untagged(opcode, GARBAGE, tagged=False)
    return octets.tagged(opcode, t.free[1], t.free[0], bytes(32), tagged=True)


def _reserved():
    for bit in (1, 2, 4, 8):
        yield _case("DDP's reserved bits", f"{bit:#x}", Good(), IGNORED,
                    lambda t, b=bit: [_write(t, reserved=b)])
    for bits in (1, 2, 3):
        yield _case("RDMAP's reserved bits", f"{bits:#x}", Good(), IGNORED,
                    lambda t, b=bits: [_write(t, rsv=b)])
    yield Case("Invalidate STag of a Send", "a live STag", Good(),
               "RFC 5040 4.1: ignored there", _live_stag_in_send, ALL)


def _live_stag_in_send(peer):
    """The STag can still be written to."""
    peer.put_segment(_send(inv=peer.target.free[1]))
    peer.msn += 1
    peer.put_segment(_write(peer.target))


# ---- untagged -------------------------------------------------------------

def _queues():
    kinds = [o for o in range(8) if o not in octets.TAGGED]
    for opcode in kinds:
        right = octets.QN.get(opcode, 0)
        for queue in (0, 1, 2, 3, 4, 5, 255, 0x10000, 0x7fffffff, 0x80000000,
                      0xffffffff):
            if queue == right:
                continue
            yield _case("QN", f"{queue:#x}, opcode {opcode}", Terminate(0x1201),
                        DDP + ": 1/2/01", lambda t, o=opcode, q=queue: [
                            _with_queue(_every_message(t)[o], q)],
                        modes=ALL if queue in (4, 0xffffffff) else (PLAIN,))


def _with_queue(segment, queue):
    return segment[:6] + struct.pack(">I", queue) + segment[10:]


def _numbers():
    kinds = [o for o in range(8) if o not in octets.TAGGED]
    for opcode in kinds:
        for msn in (0, 2, 3, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff):
            yield _case("MSN", f"{msn:#x}, opcode {opcode}", Terminate(0x1203),
                        DDP + ": 1/2/03", lambda t, o=opcode, m=msn: [
                            _with_numbers(_every_message(t)[o], msn=m)],
                        modes=ALL if msn == 2 else (PLAIN,))
        for mo in (1, 4, 64, 0x80000000, 0xffffffff):
            yield _case("MO", f"{mo:#x}, opcode {opcode}", Terminate(0x1204),
                        DDP + ": 1/2/04", lambda t, o=opcode, m=mo: [
                            _with_numbers(_every_message(t)[o], mo=m)],
                        modes=ALL if mo == 4 else (PLAIN,))
    for mo in (0, 7, 9, 0xffffffff):
        yield _case("MO of a second segment", f"{mo}, not 8", Terminate(0x1204),
                    DDP + ": 1/2/04", lambda t, m=mo: [
                        _send(last=False), _send(mo=m)])


def _with_numbers(segment, msn=1, mo=0):
    return segment[:10] + struct.pack(">II", msn, mo) + segment[18:]


def _sends():
    too_long = Terminate(0x1205)
    yield _case("length of a Send", "65 octets for 64", too_long, DDP + ": 1/2/05",
                lambda t: [_send(b"q" * 65)])
    yield _case("length of a Send", "40000 octets for 64", too_long,
                DDP + ": 1/2/05", lambda t: [_send(b"q" * 40000)])
    yield _case("length of a Send", "the second segment ends at 65", too_long,
                DDP + ": 1/2/05", lambda t: [
                    _send(b"q" * 40, last=False), _send(b"q" * 25, mo=40)])
    yield _case("L", "clear, and no payload", Terminate(0x02ff),
                "RFC 5041 5.2: such a message has one segment; 0/2/ff",
                lambda t: [_send(b"", last=False)])
    for to in (octets.SEND_SE, octets.SEND_INV, octets.SEND_SE_INV):
        yield _case("opcode of a second segment", f"{to} after 3", Terminate(0x0206),
                    "RFC 5041 4.3: RsvdULP is one for all segments; 0/2/06",
                    lambda t, to=to: [_send(last=False),
                                      octets.untagged(to, b"q", mo=8)])
    unknown = Terminate(0x0209)
    refused = Terminate(0x0109)
    for opcode in (octets.SEND_INV, octets.SEND_SE_INV):
        for stag in (0xffffffff, 0x12345678):
            yield _case("Invalidate STag", f"{stag:#x}, opcode {opcode}", unknown,
                        "RFC 5040 4.8 and 7.2: code 09; type 2 for one not there",
                        lambda t, o=opcode, s=stag: [octets.untagged(o, b"q", inv=s)])
        yield _case("Invalidate STag", f"0, opcode {opcode}", refused,
                    "RFC 5040 4.8 and 7.2: code 09; type 1 (verbs, 7.8)",
                    lambda t, o=opcode: [octets.untagged(o, b"q", inv=0)])
        yield _case("Invalidate STag", f"another key, opcode {opcode}", refused,
                    "RFC 5040 4.8 and 7.2: code 09; type 1 (verbs, 7.8)",
                    lambda t, o=opcode: [octets.untagged(o, b"q",
                                                         inv=t.free[1] ^ 1)])
        yield _case("Invalidate STag", f"of another PD, opcode {opcode}", refused,
                    "RFC 5040 4.8 and 7.2: code 09; type 1",
                    lambda t, o=opcode: [octets.untagged(o, b"q", inv=t.foreign[1])])
        yield _case("Invalidate STag", f"stale, opcode {opcode}", unknown,
                    "RFC 5040 4.8 and 7.2: code 09; type 2",
                    lambda t, o=opcode: [octets.untagged(o, b"q", inv=t.stale[1])])
    yield _case("interleaving", "a Write within a Send", Terminate(0x0206),
                "RFC 5041 5.3: segments of one message follow each other; 0/2/06",
                lambda t: [_send(last=False), _write(t)])


# ---- tagged ---------------------------------------------------------------

def _regions():
    invalid, bounds = Terminate(0x1100), Terminate(0x1101)
    elsewhere, wrap = Terminate(0x1102), Terminate(0x1103)
    yield _case("STag", "no region's", invalid, DDP + ": 1/1/00",
                lambda t: [_write(t, region=(t.free[0], 0xdeadbe00))])
    yield _case("STag", "0xffffffff", invalid, DDP + ": 1/1/00",
                lambda t: [_write(t, region=(t.free[0], 0xffffffff))])
    yield _case("STag", "zero", invalid, DDP + ": 1/1/00",
                lambda t: [_write(t, region=(t.free[0], 0))])
    for bit in range(8):
        yield _case("STag's key", f"bit {bit} wrong", invalid, DDP + ": 1/1/00",
                    lambda t, b=bit: [
                        _write(t, region=(t.free[0], t.free[1] ^ 1 << b))])
    yield _case("STag", "deallocated", invalid, DDP + ": 1/1/00",
                lambda t: [_write(t, region=t.stale)])
    yield _case("STag", "of another PD", elsewhere, DDP + ": 1/1/02",
                lambda t: [_write(t, region=t.foreign)])
    for name in ("read_only", "local"):
        yield _case("STag", f"{name} region", elsewhere,
                    "RFC 5041 7.2 has no code for rights: 1/1/02",
                    lambda t, n=name: [_write(t, region=getattr(t, n))])
    for at, size in ((-1, 8), (-8, 8), (4089, 8), (4096, 1), (0, 4097), (0, 60000),
                     (1 << 20, 8), (-(1 << 30), 8)):
        yield _case("TO", f"{size} octets at {at} of 4096", bounds, DDP + ": 1/1/01",
                    lambda t, a=at, s=size: [_write(t, b"\xee" * s, at=a)])
    for at in (-1, -4, -7):
        yield _case("TO", f"2^64{at}, 8 octets", wrap, DDP + ": 1/1/03",
                    lambda t, a=at: [octets.tagged(
                        octets.WRITE, t.free[1], a, GARBAGE)])
    yield _case("STag of a second segment", "another live one", invalid,
                "RFC 5041 4.2: one for all segments; 1/1/00",
                lambda t: [_write(t, last=False),
                           _write(t, at=8, region=(t.free[0], t.write_only[1]))])
    for at in (0, 7, 9, 16):
        yield _case("TO of a second segment", f"{at}, not 8", bounds,
                    "RFC 5041 4.2: it continues; 1/1/01",
                    lambda t, a=at: [_write(t, last=False), _write(t, at=a)])
    yield _case("TO of a second segment", "behind the region", bounds, DDP + ": 1/1/01",
                lambda t: [_write(t, b"\xee" * 8, at=-8 + 2048, last=False),
                           _write(t, b"\xee" * 2049, at=2048)])
    yield _case("interleaving", "a Send within a Write", Terminate(0x0206),
                "RFC 5041 5.3: segments of one message follow each other; 0/2/06",
                lambda t: [_write(t, last=False), _send()])


def _empty_writes():
    yield _case("STag and TO of no octets", "any", Good(),
                "RFC 5041 5.2: not checked of a message without payload",
                lambda t: [octets.tagged(octets.WRITE, 0xffffffff, -1)])
    yield _case("L of a Write without payload", "clear", Terminate(0x02ff),
                "RFC 5041 5.2: such a message has one segment; 0/2/ff",
                lambda t: [_write(t, b"", last=False)])


# ---- Read Requests ----------------------------------------------------------

def _reads():
    stag, bounds = Terminate(0x0100, "R"), Terminate(0x0101, "R")
    rights, pd, wrap = (Terminate(0x0102, "R"), Terminate(0x0103, "R"),
                        Terminate(0x0104, "R"))
    for value in (0, 0xdeadbe00, 0xffffffff):
        yield _case("source STag", f"{value:#x}", stag, RDMAP + ": 0/1/00",
                    lambda t, v=value: [_read(t, region=(t.free[0], v))])
    yield _case("source STag", "wrong key", stag, RDMAP + ": 0/1/00",
                lambda t: [_read(t, region=(t.free[0], t.free[1] ^ 1))])
    yield _case("source STag", "deallocated", stag, RDMAP + ": 0/1/00",
                lambda t: [_read(t, region=t.stale)])
    yield _case("source STag", "of another PD", pd, RDMAP + ": 0/1/03",
                lambda t: [_read(t, region=t.foreign)])
    for name in ("write_only", "local"):
        yield _case("source STag", f"{name} region", rights, RDMAP + ": 0/1/02",
                    lambda t, n=name: [_read(t, region=getattr(t, n))])
    for at, size in ((-1, 8), (4089, 8), (4096, 1), (0, 4097), (0, 0x7fffffff),
                     (0, 0xffffffff)):
        yield _case("source TO and size", f"{size} octets at {at} of 4096", bounds,
                    RDMAP + ": 0/1/01",
                    lambda t, a=at, s=size: [_read(t, a, s)])
    for at in (-1, -4, -7):
        yield _case("source TO", f"2^64{at}, 8 octets", wrap, RDMAP + ": 0/1/04",
                    lambda t, a=at: [octets.untagged(
                        octets.READ_REQUEST, octets.read_header(t.free[1], a, 8))])
    for size in (0, 4, 24, 27):
        yield _case("length of a Read Request", f"{size}, not 28", Terminate(0x02ff),
                    "RFC 5040 4.4: 28 octets; 0/2/ff", lambda t, s=size: [
                        _read(t)[:octets.UNTAGGED_HEADER + s]])
    for more in (1, 4, 1000):
        yield _case("length of a Read Request", f"{28 + more}, not 28",
                    Terminate(0x1205), DDP + ": 1/2/05",
                    lambda t, m=more: [_read(t) + bytes(m)])
    yield _case("L of a Read Request", "clear", Terminate(0x02ff, "R"),
                "RFC 5040 4.4: one segment; 0/2/ff", lambda t: [_read(t, last=False)])


# ---- Read Responses -----------------------------------------------------------

def _responses():
    unasked = Terminate(0x0206)
    for payload in (b"", GARBAGE):
        yield _case("Read Response", f"unasked, {len(payload)} octets", unasked,
                    "RFC 5040 5.2: only to a Request; 0/2/06",
                    lambda t, p=payload: [octets.tagged(
                        octets.READ_RESPONSE, t.free[1], t.free[0], p)])
    forms = (
        ("STag", "another live one", 0x1100, lambda t, s, a: (t.free[1], a, 100, True)),
        ("STag", "zero", 0x1100, lambda t, s, a: (0, a, 100, True)),
        ("TO", "1 behind", 0x1101, lambda t, s, a: (s, a + 1, 100, True)),
        ("TO", "1 before", 0x1101, lambda t, s, a: (s, a - 1, 100, True)),
        ("length", "101, not 100", 0x1101, lambda t, s, a: (s, a, 101, True)),
        ("length", "101, not the last", 0x1101, lambda t, s, a: (s, a, 101, False)),
        ("length", "99, not 100", 0x1101, lambda t, s, a: (s, a, 99, True)),
        ("length", "0, not 100", 0x1101, lambda t, s, a: (s, a, 0, True)),
    )
    for field, value, code, make in forms:
        yield Case(f"{field} of a Read Response", value, Terminate(code),
                   DDP + ", RFC 5040 5.2.2",
                   lambda peer, make=make: _answer(peer, make), ALL)


def _answer(peer, make):
    peer.order(b"r", 0x1111, 0x2222, 100)
    request = peer.must_get(octets.READ_REQUEST)[octets.UNTAGGED_HEADER:]
    sink, sink_to, _, _, _ = struct.unpack(">IQIIQ", request)
    stag, to, size, last = make(peer.target, sink, sink_to)
    bad = octets.tagged(octets.READ_RESPONSE, stag, to, b"\xee" * size, last=last)
    peer.put_segment(bad)
    return bad


# ---- Terminate ------------------------------------------------------------

def _terminates():
    for size in (0, 2, 3):
        yield _case("length of a Terminate", str(size), Terminate(0x02ff),
                    "RFC 5040 4.8: four octets at least; 0/2/ff",
                    lambda t, s=size: [octets.untagged(octets.TERMINATE, bytes(s))])
    for size in (53, 1000):
        yield _case("length of a Terminate", str(size), Terminate(0x1205),
                    "RFC 5041 7.1: no room; 1/2/05",
                    lambda t, s=size: [octets.untagged(octets.TERMINATE, bytes(s))])
    yield _case("L of a Terminate", "clear", Terminate(0x02ff),
                "RFC 5040 4.8: one segment; 0/2/ff", lambda t: [
                    octets.untagged(octets.TERMINATE, bytes(4), last=False)])


# ---- RFC 7306 -------------------------------------------------------------

def _agree(peer):
    """Two rnics agree on RFC 7306 by this Read of no octets (rnic.rst)."""
    peer.put_segment(octets.untagged(octets.READ_REQUEST, octets.read_header(
        1, 0, 0, sink=0, sink_to=ASK)))
    peer.must_get(octets.READ_RESPONSE)


def _extensions():
    def case(field, value, code, clause, segment, echo="D"):
        return _case(field, value, Terminate(code, echo), clause,
                     lambda t: [segment(t)], prepare=_agree)

    for size in (0, 4, 7):
        yield case("length of Immediate Data", str(size), 0x02ff,
                   "RFC 7306 6: 8 octets; 0/2/ff",
                   lambda t, s=size: octets.untagged(octets.IMMEDIATE, bytes(s)))
    for size in (9, 64):
        yield case("length of Immediate Data", str(size), 0x1205, DDP + ": 1/2/05",
                   lambda t, s=size: octets.untagged(octets.IMMEDIATE, bytes(s)))
    for size in (0, 28, 51):
        yield case("length of an Atomic Request", str(size), 0x02ff,
                   "RFC 7306 5.2.1: 52 octets; 0/2/ff",
                   lambda t, s=size: octets.untagged(
                       octets.ATOMIC_REQUEST, bytes(s), msn=2))
    for queue in (0, 2, 3, 4):
        yield case("QN of an Atomic Request", str(queue), 0x1201, DDP + ": 1/2/01",
                   lambda t, q=queue: octets.untagged(
                       octets.ATOMIC_REQUEST, octets.atomic_header(t.free[1], t.free[0]),
                       qn=q))
    for operation in (1, 3, 15):
        yield case("AOpCode", str(operation), 0x0206,
                   "RFC 7306 5.2.1: unassigned; 0/2/06",
                   lambda t, o=operation: octets.untagged(
                       octets.ATOMIC_REQUEST,
                       octets.atomic_header(t.free[1], t.free[0], o), msn=2))
    for off in (1, 4, 7):
        yield case("TO of an Atomic Request", f"{off} off", 0x0207,
                   "RFC 7306 5: an unaligned target; 0/2/07",
                   lambda t, o=off: octets.untagged(
                       octets.ATOMIC_REQUEST,
                       octets.atomic_header(t.free[1], t.free[0] + o), msn=2))
    for number in (1, 3, 0xffffffff):
        yield case("MSN of an Atomic Request", f"{number:#x}", 0x1203,
                   DDP + ": 1/2/03", lambda t, n=number: octets.untagged(
                       octets.ATOMIC_REQUEST,
                       octets.atomic_header(t.free[1], t.free[0]), msn=n))
    yield case("Remote STag of an Atomic Request", "no region's", 0x0100,
               RDMAP + ": 0/1/00", lambda t: octets.untagged(
                   octets.ATOMIC_REQUEST, octets.atomic_header(0xdeadbe00, 0), msn=2))
    yield case("Atomic Response", "unasked", 0x0206, "RFC 7306 5: only to a Request",
               lambda t: octets.untagged(octets.ATOMIC_RESPONSE, bytes(12)))


def cases():
    for table in (_mpa, _markers, _versions, _opcodes, _reserved, _queues, _numbers,
                  _sends, _regions, _empty_writes, _reads, _responses, _terminates,
                  _extensions):
        yield from table()
