# SPDX-License-Identifier: GPL-2.0-or-later
#
# A connection to the guest's adapter: MPA start-up by hand, octets out in any pieces,
# what comes back as segments, and how the connection ended. What may be wrong with a
# case is said by raising Wrong.

"""One hostile connection."""

import errno
import select
import socket
import struct
import time

from . import octets

FIN, RST = "FIN", "RST"
PIECE = 65536


class Wrong(Exception):
    """The device did not do what the case expects."""


class Target:
    """What hostile-target has told in its Reply: where its memory is."""

    REGIONS = ("free", "read_only", "write_only", "local", "foreign", "stale")

    def __init__(self, private):
        words = struct.unpack_from(">II" + "QI" * len(self.REGIONS), private)
        self.size, self.read_depth = words[:2]
        for number, name in enumerate(self.REGIONS):
            setattr(self, name, words[2 + 2 * number:4 + 2 * number])


class Peer:
    """
    A TCP connection. With startup() it becomes a stream of FPDUs; receives is how
    many receives hostile-target posts, and whether it posts another for each used.
    """

    def __init__(self, address, source, patience):
        self.adopt(socket.create_connection(
            address, timeout=30 * patience,
            source_address=(source, 0) if source else None), patience)

    def adopt(self, connection, patience):
        self.patience = patience
        self.socket = connection
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.framer = self.unframer = self.target = self.reply = None
        self.msn = 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    # ---- octets ----------------------------------------------------------

    def put(self, data):
        """False: the device has reset the connection."""
        try:
            self.socket.sendall(data)
        except OSError as why:
            if why.errno in (errno.EPIPE, errno.ECONNRESET):
                return False
            raise
        return True

    def finish(self):
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def abort(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                               struct.pack("ii", 1, 0))
        self.socket.close()

    def some(self, seconds=30):
        """Octets, FIN or RST."""
        ready = select.select([self.socket], [], [], seconds * self.patience)
        if not ready[0]:
            raise Wrong(f"nothing came for {seconds * self.patience:.0f} s")
        try:
            return self.socket.recv(PIECE) or FIN
        except OSError:
            return RST

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.some_at_most(count - len(data))
            if more in (FIN, RST):
                raise Wrong(f"{more} after {len(data)} of {count} octets")
            data += more
        return data

    def some_at_most(self, count):
        ready = select.select([self.socket], [], [], 30 * self.patience)
        if not ready[0]:
            raise Wrong("nothing came")
        try:
            return self.socket.recv(count) or FIN
        except OSError:
            return RST

    def until_end(self, seconds=30):
        """(all octets, FIN or RST)"""
        data, deadline = b"", time.monotonic() + seconds * self.patience
        while True:
            more = self.some(max(deadline - time.monotonic(), 0.01) / self.patience)
            if more in (FIN, RST):
                return data, more
            data += more

    # ---- start-up --------------------------------------------------------

    def startup(self, receives=8, again=True, crc=False, markers=False, **fields):
        """A good Request, and the device's Reply to it."""
        flags = (octets.S | (octets.C if crc else 0) |
                 (octets.M if markers else 0))
        private = struct.pack(">BBH", ord("h"), receives, again)
        self.put(octets.mpa(flags=flags, private=private, **fields))
        self.take_reply(crc, markers)

    def take_reply(self, crc=False, markers=False):
        frame = self.exactly(20)
        if frame[:16] != octets.REPLY_KEY:
            raise Wrong(f"no Reply: {frame.hex()}")
        flags, revision, length = struct.unpack(">BBH", frame[16:])
        private = self.exactly(length)
        if flags & octets.R:
            raise Wrong("the Request was rejected")
        self.reply = (flags, revision, private)
        if flags & octets.S:
            private = private[4:]
        self.target = Target(private)
        crc = crc or bool(flags & octets.C)
        self.framer = octets.Framer(crc, bool(flags & octets.M))
        self.unframer = octets.Unframer(crc, markers)

    # ---- segments --------------------------------------------------------

    def put_segment(self, ulpdu, **how):
        return self.put(self.framer.fpdu(ulpdu, **how))

    def _say_terminate(self, ulpdu):
        """For judge-captures: this one has to be in the device's capture."""
        if ulpdu[1] & 15 == octets.TERMINATE and len(ulpdu) >= 20:
            code = struct.unpack_from(">H", ulpdu, octets.UNTAGGED_HEADER)[0]
            port = self.socket.getsockname()[1]
            # A whole line at once, beside those of other threads.
            print(f"# Terminate {code >> 12}/{code >> 8 & 15}/{code & 255:02x} "
                  f"received at port {port}\n", end="", flush=True)

    def take(self):
        """The next segment that is there already, or None."""
        try:
            ulpdu = self.unframer.take()
        except ValueError as why:
            raise Wrong(f"the device sends {why}") from None
        if ulpdu is not None:
            self._say_terminate(ulpdu)
        return ulpdu

    def segment(self):
        """The next segment that comes, or FIN or RST."""
        while True:
            ulpdu = self.take()
            if ulpdu is not None:
                return ulpdu
            more = self.some()
            if more in (FIN, RST):
                if self.unframer.octets:
                    raise Wrong(f"{more} in the middle of an FPDU")
                return more
            self.unframer.octets += more

    def must_get(self, opcode):
        ulpdu = self.segment()
        if ulpdu in (FIN, RST):
            raise Wrong(f"{ulpdu} instead of opcode {opcode}")
        if ulpdu[1] & 15 != opcode:
            raise Wrong(f"{ulpdu.hex()} instead of opcode {opcode}")
        return ulpdu

    # ---- what a healthy connection does ------------------------------------

    def echo(self, data=b"e and back again"):
        """A Send that hostile-target answers with the same octets."""
        self.put_segment(octets.untagged(octets.SEND, data, msn=self.msn))
        self.msn += 1
        self.expect_echo(data)

    def expect_echo(self, data):
        got = self.must_get(octets.SEND)[octets.UNTAGGED_HEADER:]
        if got != data:
            raise Wrong(f"the echo of {data.hex()} is {got.hex()}")

    def order(self, letter, stag=0, to=0, length=0):
        """Makes hostile-target post a WR."""
        order = struct.pack(">cxxxIQI", letter, stag, to, length)
        self.put_segment(octets.untagged(octets.SEND, order, msn=self.msn))
        self.msn += 1
