# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a case is, the reactions it may expect, and how they are checked. The tables of
# cases are in startup.py, stream.py, replies.py and flow.py.

"""A case, and the reaction it expects."""

import dataclasses
import struct
from typing import Callable

from . import octets
from .peer import FIN, RST, Wrong

# Terminate flags (RFC 5040 4.8).
HDR_M, HDR_D, HDR_R = 0x80, 0x40, 0x20


@dataclasses.dataclass(frozen=True)
class Terminate:
    """
    A Terminate of this code (layer, type, code), nothing before it, and then the end
    of the stream. Echo: what of the bad segment it shows: "" nothing, "D" its length
    and DDP header, "R" the header of the Read Request too.
    """

    code: int
    echo: str = "D"

    def __str__(self):
        return (f"Terminate {self.code >> 12}/{self.code >> 8 & 15}/"
                f"{self.code & 255:02x}")


@dataclasses.dataclass(frozen=True)
class Close:
    """The end, and not one octet before it."""

    def __str__(self):
        return "close"


@dataclasses.dataclass(frozen=True)
class Good:
    """The field is not to be looked at: the connection works as if nothing was."""

    def __str__(self):
        return "goes on"


@dataclasses.dataclass(frozen=True)
class Own:
    """The case says by itself what is wrong."""

    what: str

    def __str__(self):
        return self.what


@dataclasses.dataclass(frozen=True)
class Case:
    """
    run(peer) does it, and returns the bad segment if there is one. With Own as its
    expectation it is run(site), makes its connections itself and checks all.
    """

    field: str
    value: str
    expect: object
    clause: str
    run: Callable
    modes: tuple = ()


def expected_echo(echo, bad):
    """The octets behind the first four of the Terminate header, and the flags."""
    if not echo or bad is None:
        return 0, b""
    size = octets.TAGGED_HEADER if bad[0] & 0x80 else octets.UNTAGGED_HEADER
    shown = struct.pack(">H", len(bad)) + bad[:size]
    flags = HDR_M | HDR_D
    if echo == "R":
        shown += bad[size:size + octets.READ_HEADER]
        flags |= HDR_R
    return flags, shown


def check_terminate(peer, expect, bad):
    ulpdu = peer.segment()
    if ulpdu in (FIN, RST):
        raise Wrong(f"{ulpdu} without a Terminate")
    fixed = octets.untagged(octets.TERMINATE)
    if ulpdu[:octets.UNTAGGED_HEADER] != fixed:
        raise Wrong(f"no Terminate with QN 2, MSN 1, MO 0: {ulpdu.hex()}")
    body = ulpdu[octets.UNTAGGED_HEADER:]
    code, flags = struct.unpack(">HB", body[:3])
    if code != expect.code:
        raise Wrong(f"Terminate 0x{code:04x}, not 0x{expect.code:04x}")
    want_flags, shown = expected_echo(expect.echo, bad)
    if flags != want_flags or body[3] or body[4:] != shown:
        raise Wrong(f"it shows flags {flags:#x} {body[3:].hex()}, not "
                    f"{want_flags:#x} 00{shown.hex()}")
    check_end(peer)


def check_end(peer):
    """As this end has nothing more to say, FIN and RST are both an end."""
    end = peer.segment() if peer.unframer else peer.until_end()
    if end in (FIN, RST):
        return
    if isinstance(end, tuple):
        data, _ = end
        if not data:
            return
        end = data
    raise Wrong(f"{end.hex()} where the end is due")


def check_good(peer):
    peer.echo()
    peer.finish()
    check_end(peer)


def check(peer, case, bad):
    if isinstance(case.expect, Terminate):
        check_terminate(peer, case.expect, bad)
    elif isinstance(case.expect, Close):
        check_end(peer)
    else:
        check_good(peer)
