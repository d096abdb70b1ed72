# SPDX-License-Identifier: GPL-2.0-or-later
#
# Cases of MPA start-up in which the guest is the initiator: it connects, once for each
# case in this order, and its Request meets a Reply with a wrong field.

"""Replies that are wrong."""

import dataclasses
import socket
import struct

from . import octets
from .case import Case, Close, Terminate, check_end, check_terminate
from .peer import Peer, Wrong

BAD_FRAME = "RFC 5044 7.1.2: a bad Reply closes TCP"
A, RTR_WRITE, RTR_READ = 0x8000, 0x8000, 0x4000


@dataclasses.dataclass(frozen=True)
class Established:
    """The guest sees a connection, and closes it in order."""

    def __str__(self):
        return "connects"


@dataclasses.dataclass
class Request:
    """The guest's."""

    flags: int
    peer_to_peer: bool


def _reply(request, **fields):
    """A good one, but for fields."""
    more = {"more_ird": A, "more_ord": RTR_WRITE} if request.peer_to_peer else {}
    return octets.mpa(**{"key": octets.REPLY_KEY, **more, **fields})


def _case(field, value, expect, clause, make):
    def run(peer, request):
        peer.put(make(request))
        if expect == Close():
            peer.finish()

    return Case(field, value, expect, clause, run)


def _bad(field, value, clause=BAD_FRAME, **fields):
    return _case(field, value, Close(), clause, lambda r: _reply(r, **fields))


def cases():
    for at in range(0, 16, 3):
        key = bytearray(octets.REPLY_KEY)
        key[at] ^= 0x20
        yield _bad("key", f"octet {at} is {key[at]:#04x}", key=bytes(key))
    yield _bad("key", "that of a Request", "RFC 5044 7.1.2: two initiators; close",
               key=octets.REQUEST_KEY)
    for revision in (0, 3, 255):
        yield _bad("Rev", str(revision), revision=revision)
    yield _bad("Rev", "1, to an enhanced Request", "RFC 6581 10: close",
               revision=1, flags=0)
    yield _bad("S", "0, to an enhanced Request", "RFC 6581 10: close", flags=0)
    for length in (513, 0x8000, 0xffff):
        yield _bad("PD_Length", str(length), length=length, private=bytes(1000))
    for length in range(4):
        yield _case("PD_Length", f"{length} with S", Close(),
                    "RFC 6581 6: with S the first four octets are there",
                    lambda r, n=length: octets.REPLY_KEY + struct.pack(
                        ">BBH", octets.S, 2, n) + bytes(n))
    for cut in (0, 1, 15, 16, 19, 20, 23):
        yield _case("cut", f"FIN after {cut} octets", Close(),
                    "RFC 5044 7.1.2: a Reply that is not whole",
                    lambda r, c=cut: _reply(r)[:c])
    yield _case("R", "1", Close(), "RFC 5044 7.1.2: rejected",
                lambda r: _reply(r, flags=octets.S | octets.R))
    yield _case("ORD", "0x3ffe", Terminate(0x2006, ""), "RFC 6581 9.1: 2/0/06",
                lambda r: _reply(r, ord_=0x3ffe))
    yield _case("RTR kinds", "none", Terminate(0x2007, ""), "RFC 6581 9.3: 2/0/07",
                lambda r: _reply(r, more_ord=0))
    for bit in (1, 2, 4, 8):
        yield _case("reserved", f"{bit:#x}", Established(),
                    "RFC 5044 7.1.1: not checked",
                    lambda r, b=bit: _reply(r, flags=octets.S | b))
    yield _case("IRD", "0", Established(), "RFC 6581 9.1: the guest's ORD is 0 then",
                lambda r: _reply(r, ird=0))


class Acceptor:
    """Meets the guest's connects."""

    def __init__(self, address, patience):
        self.patience = patience
        self.listener = socket.create_server(address, backlog=64)
        self.listener.settimeout(120 * patience)
        self.cases = list(cases())

    def _take(self):
        connection, _ = self.listener.accept()
        peer = Peer.__new__(Peer)
        peer.adopt(connection, self.patience)
        frame = peer.exactly(20)
        flags, _, length = struct.unpack(">BBH", frame[16:])
        private = peer.exactly(length)
        depths = struct.unpack(">H", private[:2])[0] if flags & octets.S else 0
        return peer, Request(flags, bool(depths & A))

    def meet(self, case):
        """The case's turn; raises Wrong."""
        peer, request = self._take()
        with peer:
            case.run(peer, request)
            if isinstance(case.expect, Terminate):
                if case.expect.code == 0x2007 and not request.peer_to_peer:
                    raise Wrong("the guest's Request has no A")
                peer.unframer = octets.Unframer(bool(request.flags & octets.C))
                check_terminate(peer, case.expect, None)
            elif isinstance(case.expect, Close):
                check_end(peer)
            else:
                peer.until_end()

    @staticmethod
    def right_event(case, line):
        """What the guest's program has been told, as hostile-target prints it, or None."""
        if line is None:
            return False
        return ("ESTABLISHED" in line) == isinstance(case.expect, Established)
