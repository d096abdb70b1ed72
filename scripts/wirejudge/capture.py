# SPDX-License-Identifier: GPL-2.0-or-later
#
# One file: its frames are read, its connections followed, and what is wrong is kept.

"""Judges one capture by itself."""

import collections
import re
import typing

from . import frames, messages, pcapng
from .source import Source
from .streams import MISSING, NO_START_UP, Streams

# What Wireshark's experts warn of, though it is in order: the judge follows sequence
# numbers itself.
USUAL = re.compile(r"Connection reset \(RST\)|Previous segment\(s\) not captured|"
                   r"ACKed segment that wasn't captured")


# Of a Terminate of RDMAP Wireshark 4.0 takes the DDP header that it shows for one of 18
# octets, and misses four if it is a tagged segment's of 14 (RFC 5040 4.8).
ECHO_ULPDU, ECHO_FPDU, AT_ECHO, TAGGED = "38", 44, 26, 0x80


def _may_be_tagged_echo(frame, message):
    return (message.startswith("Malformed Packet") and len(frame.terminates) == 1 and
            frame.terminates[0] >> 12 == 0 and
            frame.segments.lengths.split(frames.SEPARATOR)[-1] == ECHO_ULPDU)


class Fault(typing.NamedTuple):
    """sender: an address, None: the file itself. partial: an end within an FPDU."""

    path: str
    frame: int
    sender: typing.Optional[str]
    outbound: typing.Optional[bool]
    text: str
    partial: bool = False

    def __str__(self):
        where = f"{self.path}: frame {self.frame}" if self.frame else self.path
        return f"{where}: {self.text}"


class Terminate(typing.NamedTuple):
    """On the wire."""

    path: str
    frame: int
    sender: str
    outbound: typing.Optional[bool]
    target: tuple               # (address, port)
    code: int


class Capture:
    """
    A file of an adapter. strict: the device has written it, so that every warning
    counts.
    """

    def __init__(self, path, name):
        source = Source(path)
        self.name = name
        self.strict = source.is_ours
        self.blocks = source.blocks
        self.faults = []
        self.terminates = []
        self.own = set()            # addresses of the adapter
        self.sent = collections.Counter()
        self.received = collections.Counter()
        self.octets = 0
        self.said_missing = 0       # where no segment follows
        self.streams = Streams(self._wrong, self.strict,
                               self.blocks.dropped or self.blocks.is_cut,
                               self.blocks.marked)
        self.doubtful = []          # frames, see below
        if self.blocks.truncated:
            self.faults.append(Fault(name, 0, None, None, "packets are cut "
                                     f"(capture-rate, -snaplen): {self.blocks.truncated}; "
                                     "it cannot be judged"))
        for frame in source.frames():
            self._take(frame)
        self.streams.end()
        self._judge_doubtful(source)
        self._judge_unread(source)
        for number, address in source.bad_crcs:
            self.faults.append(Fault(name, number, address, address in self.own,
                                     "a wrong CRC"))

    def _wrong(self, frame, text, partial=False):
        self.faults.append(Fault(self.name, frame.number, frame.source[0] or None,
                                 frame.outbound, text, partial))

    def _take(self, frame):
        for severity, message in frame.experts:
            if _may_be_tagged_echo(frame, message):
                self.doubtful.append(frame)
            elif severity >= frames.ERROR or (self.strict and severity >= frames.WARNING
                                            and not USUAL.match(message)):
                self._wrong(frame, f"Wireshark: {message}")
        if frame.stream is None:
            self.said_missing += sum(int(n) for n in MISSING.findall(frame.comments))
            return
        self.streams.take(frame)
        if frame.outbound:
            self.own.add(frame.source[0])
        self.octets += frame.length
        opcodes = messages.look_at(frame.segments)[0]
        if opcodes:
            (self.sent if frame.outbound in (True, None)
             else self.received).update(opcodes)
        for code in frame.terminates:
            self.terminates.append(Terminate(self.name, frame.number, frame.source[0],
                                             frame.outbound, frame.target, code))

    def _judge_doubtful(self, source):
        if not self.doubtful:
            return
        ends = source.ends({f.number for f in self.doubtful}, ECHO_FPDU)
        for frame in self.doubtful:
            octets = ends[frame.number]
            if len(octets) < ECHO_FPDU or not octets[AT_ECHO] & TAGGED:
                self._wrong(frame, "Wireshark: a malformed Terminate")

    def _judge_unread(self, source):
        """A connection whose other start-up is not in the file."""
        first = self.streams.first_of_unread()
        octets = source.ends({f.number for f in first},
                             max((f.length for f in first), default=0))
        for frame in first:
            payload = octets[frame.number][-frame.length:]
            if not payload.startswith(pcapng.START_UP):
                self._wrong(frame, NO_START_UP)
        if 2 * self.unread()[1] > self.octets:
            self.faults.append(Fault(self.name, 0, None, None, "most octets are of "
                                     "connections whose start-up is not in the file"))

    def unread(self):
        """Connections that Wireshark does not take for MPA, and their octets."""
        streams = [s for s in self.streams.all if s.unread]
        return len(streams), sum(s.octets() for s in streams)

    def lacks(self, is_oldest):
        """Why not all is in the file, or None; in the oldest one all has to begin."""
        streams = self.streams.all
        missing = sum(w.missing for s in streams for w in s.ways) + self.said_missing
        old = sum(s.old for s in streams) if is_oldest else 0
        if self.blocks.is_cut:
            return "it has no end"
        if self.blocks.dropped:
            return f"{self.blocks.dropped} packets, by its statistics"
        if old:
            return f"the begin of {old} connections"
        return f"{missing} octets, as it says" if missing else None
