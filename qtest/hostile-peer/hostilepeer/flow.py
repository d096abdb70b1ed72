# SPDX-License-Identifier: GPL-2.0-or-later
#
# Cases of time and amount: streams that are cut, slow, silent, or more than anybody
# can take. What each octet means is right in most of them.

"""Slow, cut and flooded."""

import random
import select
import struct
import time

from . import octets
from .case import Case, Own, Terminate, check_end, check_good, check_terminate
from .peer import FIN, RST, Wrong

LOST = "RFC 5044 8, code 1; RDMAC verbs 6.2.2.2, Bad LLP Close: 0x0207"
LIMIT = "RFC 5044 7.1.2: the wait for a Request should be limited"
BOUNDED = "RFC 5040 8.1.2: a peer cannot use up what others need"


def _piece(target):
    return octets.tagged(octets.WRITE, target.free[1], target.free[0], b"\xee" * 20)


# ---- cut ------------------------------------------------------------------

def _cut_by_fin(site, mode, cut):
    with site.connect(mode) as peer:
        peer.put(peer.framer.fpdu(_piece(peer.target))[:cut])
        peer.finish()
        check_terminate(peer, Terminate(0x0207, ""), None)


def _cut_by_rst(site, mode):
    """No answer can come: that the device lives shows the next connection."""
    for cut in range(1, 44, 3):
        with site.connect(mode) as peer:
            peer.put(peer.framer.fpdu(_piece(peer.target))[:cut])
            peer.abort()
    with site.connect(mode) as peer:
        check_good(peer)


def _cut_anywhere(site, mode, cut):
    """Two TCP segments, whatever is in each."""
    with site.connect(mode) as peer:
        data = b"".join(peer.framer.fpdu(_piece(peer.target)) for _ in range(3))
        peer.put(data[:cut])
        time.sleep(0.002)
        peer.put(data[cut:])
        check_good(peer)


def _cuts():
    end = Own("Terminate 0/2/07")
    for mode in ("plain", "crc", "markers"):
        for cut in range(1, 40, 1 if mode == "plain" else 7):
            yield Case("cut", f"FIN after {cut} octets of an FPDU", end, LOST,
                       lambda site, m=mode, c=cut: _cut_by_fin(site, m, c), (mode,))
        for cut in range(1, 120, 4 if mode == "plain" else 19):
            yield Case("cut", f"TCP segments meet at {cut}", Own("goes on"),
                       "RFC 5044 4.1: any TCP segmentation",
                       lambda site, m=mode, c=cut: _cut_anywhere(site, m, c), (mode,))
        yield Case("cut", "RST within an FPDU", Own("closed"), LOST,
                   lambda site, m=mode: _cut_by_rst(site, m), (mode,))


# ---- slow -----------------------------------------------------------------

def _octet_by_octet(site, mode):
    with site.open(mode) as peer:
        flags = octets.S | (octets.C if mode == "crc" else 0)
        for octet in octets.mpa(flags=flags, private=struct.pack(">BBH", ord("h"), 8, 1)):
            peer.put(bytes((octet,)))
        peer.take_reply(crc=mode == "crc")
        for octet in peer.framer.fpdu(_piece(peer.target)):
            peer.put(bytes((octet,)))
        check_good(peer)


def _silent(site, frame, count):
    """Nobody waits for them for ever, and nobody else waits for them."""
    peers = [site.open("plain") for _ in range(count)]
    try:
        for peer in peers:
            peer.put(frame)
        with site.connect("plain") as peer:
            check_good(peer)
        for peer in peers:
            check_end(peer)
    finally:
        for peer in peers:
            peer.socket.close()


def _slow():
    for mode in ("plain", "crc", "markers"):
        yield Case("pace", "one octet at a time", Own("goes on"),
                   "RFC 5044 4.1: any TCP segmentation",
                   lambda site, m=mode: _octet_by_octet(site, m), (mode,))
    for frame, name in ((b"", "nothing"), (octets.REQUEST_KEY, "a key, and nothing more")):
        yield Case("pace", f"30 connections send {name}", Own("close in time"), LIMIT,
                   lambda site, f=frame: _silent(site, f, 30), ("plain",))


# ---- flooded --------------------------------------------------------------

def _garbage(site, mode, size):
    with site.connect(mode) as peer:
        peer.put(random.Random(f"{site.seed} {mode} {size}").randbytes(size))
        peer.finish()
        data, _ = peer.until_end()
        if len(data) > 100:
            raise Wrong(f"{len(data)} octets come back")
        peer.unframer.octets = data
        while peer.take() is not None:
            pass


def _writes(site, mode):
    """As fast as the device takes them; the receives after them are in order."""
    deadline = time.monotonic() + site.seconds
    with site.connect(mode) as peer:
        write = octets.tagged(octets.WRITE, peer.target.free[1], peer.target.free[0],
                              b"\xee" * 2048)
        burst = b""
        while time.monotonic() < deadline:
            # Without markers they all are the same.
            if mode == "markers" or not burst:
                burst = b"".join(peer.framer.fpdu(write) for _ in range(8))
            if not peer.put(burst):
                raise Wrong("the device has reset the connection")
        check_good(peer)


def _unread(site, mode):
    """
    Requests without an end, and not one response is read: the device takes no more of
    them, or says that there were too many. It keeps nothing of what it cannot send.
    """
    deadline = time.monotonic() + site.seconds
    with site.connect(mode) as peer:
        addr, stag = peer.target.free
        peer.socket.setblocking(False)
        data, msn = b"", 1
        while time.monotonic() < deadline:
            if not data:
                data = peer.framer.fpdu(octets.untagged(
                    octets.READ_REQUEST, octets.read_header(stag, addr, 4096), msn=msn))
                msn += 1
            select.select([], [peer.socket], [], 0.1)
            try:
                data = data[peer.socket.send(data):]
            except BlockingIOError:
                pass
            except OSError:
                break
        peer.abort()
    with site.connect(mode) as peer:
        check_good(peer)


def _too_many_reads(site, mode):
    """In one piece, so that the device meets them before it has answered the first."""
    with site.connect(mode) as peer:
        addr, stag = peer.target.free
        peer.put(b"".join(peer.framer.fpdu(octets.untagged(
            octets.READ_REQUEST, octets.read_header(stag, addr, 4096), msn=n + 1))
            for n in range(peer.target.read_depth + 200)))
        while True:
            ulpdu = peer.segment()
            if ulpdu in (FIN, RST):
                raise Wrong(f"{ulpdu} without a Terminate")
            if ulpdu[1] & 15 == octets.TERMINATE:
                break
        code = struct.unpack(">H", ulpdu[18:20])[0]
        if code != 0x1202:
            raise Wrong(f"Terminate {code:#06x}")
        check_end(peer)


def _crowd(site, count, leave):
    """All at once; then leave(peer) each."""
    peers = [site.open("plain") for _ in range(count)]
    try:
        for peer in peers:
            peer.put(octets.mpa(private=struct.pack(">BBH", ord("h"), 8, 1)))
        for peer in peers:
            leave(peer)
    finally:
        for peer in peers:
            peer.socket.close()
    with site.connect("plain") as peer:
        check_good(peer)


def _leave_after_reply(peer):
    peer.take_reply()
    check_good(peer)


def _floods():
    for mode in ("plain", "crc", "markers"):
        for size in (100, 70000, 1 << 20):
            yield Case("flood", f"{size} random octets", Own("close"),
                       "RFC 5044 8: whatever they are",
                       lambda site, m=mode, s=size: _garbage(site, m, s), (mode,))
        yield Case("flood", "Writes", Own("goes on"), BOUNDED,
                   lambda site, m=mode: _writes(site, m), (mode,))
        yield Case("flood", "Reads, responses are not read",
                   Own("no more is taken, or close"), BOUNDED,
                   lambda site, m=mode: _unread(site, m), (mode,))
    yield Case("flood", "more Reads than IRD", Own("Terminate 1/2/02"),
               "RFC 5040 6.1 and 5041 7.1: no buffer on QN 1",
               lambda site: _too_many_reads(site, "plain"), ("plain",))
    yield Case("flood", "40 connections at once", Own("all are served"), BOUNDED,
               lambda site: _crowd(site, 40, _leave_after_reply), ("plain",))
    yield Case("flood", "60 connections that leave before the Reply",
               Own("closed"), BOUNDED,
               lambda site: _crowd(site, 60, lambda peer: peer.abort()), ("plain",))


def cases():
    for table in (_cuts, _slow, _floods):
        yield from table()
