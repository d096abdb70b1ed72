# SPDX-License-Identifier: GPL-2.0-or-later
#
# Cases of MPA start-up in which the hostile peer is the initiator: every field of the
# Request (RFC 5044 7.1.1, RFC 6581 6 and 9), cut, and with octets behind it.

"""Requests that are wrong."""

import struct

from . import octets
from .case import Case, Close, Good

BAD_FRAME = "RFC 5044 7.1.2: a bad Request closes TCP, no Reply"
NOT_CHECKED = "RFC 5044 7.1.1: reserved bits, and R of a Request, are not checked"
PRIVATE = struct.pack(">BBH", ord("h"), 8, 1)


def _bad(name, value, frame, clause=BAD_FRAME, finish=False):
    def run(peer):
        peer.put(frame)
        if finish:
            peer.finish()

    return Case(name, value, Close(), clause, run)


def _good(name, value, frame, clause):
    def run(peer):
        peer.put(frame)
        peer.take_reply(markers=bool(frame[16] & octets.M),
                        crc=bool(frame[16] & octets.C))

    return Case(name, value, Good(), clause, run)


def _keys():
    for at in range(16):
        key = bytearray(octets.REQUEST_KEY)
        key[at] ^= 0x20
        yield _bad("key", f"octet {at} is {key[at]:#04x}",
                   octets.mpa(key=bytes(key)))
    yield _bad("key", "that of a Reply", octets.mpa(key=octets.REPLY_KEY))
    yield _bad("key", "zero", octets.mpa(key=bytes(16)))


def _revisions():
    for revision in (0, 3, 4, 127, 128, 255):
        yield _bad("Rev", str(revision), octets.mpa(revision=revision),
                   "RFC 5044 7.1.1: a revision that is not supported closes TCP")
    yield _good("Rev", "1, and S, which is reserved there",
                octets.mpa(revision=1, flags=octets.S, private=PRIVATE),
                NOT_CHECKED)
    yield _good("Rev", "1", octets.mpa(revision=1, flags=0, private=PRIVATE),
                "RFC 6581 6: a listener goes on accepting Rev 1")


def _lengths():
    for length in (513, 514, 1024, 0x7fff, 0x8000, 0xffff):
        yield _bad("PD_Length", str(length),
                   octets.mpa(length=length, private=bytes(min(length, 2000))),
                   "RFC 5044 7.1.1: above 512 closes TCP")
    for length in range(4):
        yield _bad("PD_Length", f"{length} with S",
                   octets.mpa(flags=0)[:16] +
                   struct.pack(">BBH", octets.S, 2, length) + bytes(length),
                   "RFC 6581 6: with S the first four octets are there")
    frame = octets.mpa(private=PRIVATE)
    for cut in range(1, len(frame)):
        yield _bad("cut", f"FIN after {cut} octets", frame[:cut],
                   "RFC 5044 7.1.2: a Request that is not whole", finish=True)
    yield _bad("PD_Length", "4 less than is sent",
               octets.mpa(private=PRIVATE, length=4),
               "RFC 5044 7.1.1: PD_Length is exact, nothing goes before the Reply")
    yield _bad("octets behind the Request", "an FPDU",
               octets.mpa(private=PRIVATE) +
               octets.Framer().fpdu(octets.tagged(octets.WRITE, 1, 0)),
               "RFC 5044 7.1.2: the initiator sends FPDUs after the Reply")


def _flags():
    for bit in (1, 2, 4, 8):
        yield _good("reserved", f"{bit:#x}",
                    octets.mpa(flags=octets.S | bit, private=PRIVATE), NOT_CHECKED)
    yield _good("R", "1", octets.mpa(flags=octets.S | octets.R, private=PRIVATE),
                NOT_CHECKED)
    for flags, name in ((octets.M, "M"), (octets.C, "C"), (octets.M | octets.C, "M and C")):
        yield _good(name, "1", octets.mpa(flags=octets.S | flags, private=PRIVATE),
                    "RFC 5044 7.1.1: M and C are the peer's to choose")


def _depths():
    for depth in (0, 1, 0x3ffe, 0x3fff):
        yield _good("IRD and ORD", f"{depth:#x}",
                    octets.mpa(ird=depth, ord_=depth, private=PRIVATE),
                    "RFC 6581 9.1: any depth can be answered")
    for more in (0x4000, 0xc000):
        yield _good("RTR kinds without A", f"{more:#x}",
                    octets.mpa(more_ord=more, private=PRIVATE),
                    "RFC 6581 9.2: without A they are ignored")


def cases():
    for table in (_keys, _revisions, _lengths, _flags, _depths):
        yield from table()
