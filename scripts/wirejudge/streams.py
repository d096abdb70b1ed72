# SPDX-License-Identifier: GPL-2.0-or-later
#
# The connections of one file: each direction's sequence numbers and octets, which all
# have to be MPA, its messages and its end.

"""Follows the connections of a file."""

import collections
import re

from . import messages
from .frames import FIN, RST, SYN

# 65535 of ULPDU, its length, padding, CRC, markers.
MOST_OF_FPDU = 66100
MOST_OF_START_UP = 20 + 512     # octets of Private Data
MISSING = re.compile(r"(\d+) octets before this are not in the file")
OLD = "began before this file"
NO_START_UP = "the stream does not begin with a start-up frame"
PARTIAL = True


class Way:
    """One direction."""

    def __init__(self):
        self.next = None            # sequence number
        self.octets = 0             # of the stream, in the file
        self.rest = 0               # of them, what is no start-up frame or whole FPDU
        self.opcodes = collections.Counter()
        self.terminate = None       # its code
        self.finished = False
        self.begun = False          # behind the start-up
        self.started = False        # the start-up frame is there
        self.judged = False         # whether it is
        self.first = None           # frame with the first octets behind the SYN
        self.last = None            # frame with octets
        self.missing = 0            # octets that the file says it has not


class Stream:
    """A connection. Way 0 is that of the SYN."""

    def __init__(self, frame):
        self.ends = (frame.source, frame.target)
        self.ways = (Way(), Way())
        self.old = OLD in frame.comments
        self.unread = False         # the file says that it lacks a start-up
        self.held = []              # faults, until both start-ups are there
        self.reset = False
        self.outbound = frame.outbound      # the SYN

    def way_of(self, frame):
        """Its number."""
        return 0 if (frame.source, frame.target) == self.ends else 1

    def is_whole(self):
        """Nothing of it is missing, as far as the file goes."""
        return not self.old and not any(w.missing for w in self.ways)

    def octets(self):
        """In the file."""
        return sum(w.octets for w in self.ways)

    def has_ended(self):
        """The next file of a ring has nothing of it."""
        return self.reset or all(w.finished for w in self.ways)


def distance(seq, before):
    """Signed, of sequence numbers."""
    ahead = (seq - before) & 0xffffffff
    return ahead - (1 << 32) if ahead >= 1 << 31 else ahead


class Streams:
    """
    All of one file, frame by frame and then end(). wrong(frame, text) is told what is not
    as it has to be; with PARTIAL it is an end within an FPDU. strict: the device has
    written the file.
    """

    def __init__(self, wrong, strict, may_lack, unmarked):
        self.wrong = wrong
        self.strict = strict
        self.unmarked = unmarked    # what the file says it lacks may have had markers
        self.may_lack = may_lack    # the file's statistics say that packets are lacking
        self.current = {}
        self.all = []               # see end()

    def _begin(self, frame):
        stream = Stream(frame)
        self.current[frame.stream] = stream
        self.all.append(stream)
        return stream

    def take(self, frame):
        """The stream and the number of the way of a TCP frame."""
        stream = self.current.get(frame.stream) or self._begin(frame)
        number = stream.way_of(frame)
        way = stream.ways[number]
        if frame.flags & SYN:
            way.next = (frame.seq + 1) & 0xffffffff
            return stream, number
        if frame.length or frame.flags & (FIN | RST):
            self._take_place(stream, way, frame)
        if frame.length:
            self._take_octets(stream, way, frame)
        if frame.flags & FIN:
            self._judge_begin(stream, way)
            self._finish(stream, way, frame)
        if frame.flags & RST:
            for each in stream.ways:
                self._judge_begin(stream, each)
        stream.reset = stream.reset or bool(frame.flags & RST)
        return stream, number

    def _take_place(self, stream, way, frame):
        """Sequence numbers go on where they were, or the file says what it lacks."""
        gap = distance(frame.seq, frame.seq if way.next is None else way.next)
        said = MISSING.search(frame.comments)
        starts_up = bool(frame.segments.private)
        if stream.old and not way.begun and not starts_up:
            way.missing += int(said[1]) if said else 0
            way.rest = 0
        elif gap < 0:
            self.wrong(frame, f"{-gap} octets are there twice")
        elif gap and (said and self._says(int(said[1]), gap) or
                      frame.flags & RST and self.may_lack):
            way.missing += gap
            self._leave_partial(stream, way, frame)
            stream.unread = stream.unread or not way.started
        elif gap:
            self.wrong(frame, f"{gap} octets are missing before it, and the file does "
                       "not say so")
            way.missing += gap
            way.rest = 0
        way.begun = way.begun or not starts_up
        way.next = (frame.seq + frame.length + bool(frame.flags & FIN)) & 0xffffffff

    def _says(self, said, gap):
        return said == gap or self.unmarked and 0 < said - gap <= said // 128 + 4

    def _leave_partial(self, stream, way, frame):
        """What is missing may have been the end of an FPDU."""
        if way.rest > MOST_OF_FPDU:
            self._not_mpa(stream, frame, f"{way.rest} octets before it are not MPA")
        way.rest = 0

    def _not_mpa(self, stream, frame, *fault):
        """
        Wireshark takes nothing for MPA before it has seen both start-ups, so this is no
        fault if one of them turns out to be among what the file lacks.
        """
        stream.held.append((frame, *fault))
        if all(w.started for w in stream.ways):
            self._tell(stream)

    def _tell(self, stream):
        if not stream.unread:
            for fault in stream.held:
                self.wrong(*fault)
        stream.held = []

    def end(self):
        """All frames have been taken."""
        for stream in self.all:
            self._tell(stream)

    def first_of_unread(self):
        """Frames that have to begin with a start-up frame; Wireshark does not say."""
        return [w.first for s in self.all if s.unread and self.strict and not s.old
                for w in s.ways if w.first and w.octets >= messages.START_UP_HEAD]

    def _take_octets(self, stream, way, frame):
        opcodes, octets, faults = messages.look_at(frame.segments)
        if way.finished:
            self.wrong(frame, f"{frame.length} octets behind the FIN")
        if not way.octets and not way.missing:
            way.first = frame
        way.octets += frame.length
        way.started = way.started or bool(frame.segments.private)
        way.last = frame
        if way.octets >= MOST_OF_START_UP:
            self._judge_begin(stream, way)
        way.rest += frame.length - octets
        if way.rest > MOST_OF_FPDU or way.rest < 0:
            self._not_mpa(stream, frame, f"{way.rest} octets that are not MPA"
                          if way.rest > 0 else "more octets of MPA than there are")
            way.rest = 0
        if opcodes and way.terminate is not None:
            self.wrong(frame, "a segment behind a Terminate")
        for fault in faults:
            self.wrong(frame, fault)
        way.opcodes.update(opcodes)
        if frame.terminates:
            way.terminate = frame.terminates[-1]

    def _judge_begin(self, stream, way):
        """MPA begins with a start-up frame. Others than the device may capture more."""
        if self.strict and way.octets >= messages.START_UP_HEAD and \
                not (way.started or way.missing or stream.old or way.judged):
            way.judged = True           # once is enough
            self._not_mpa(stream, way.last, NO_START_UP)

    def _finish(self, stream, way, frame):
        way.finished = True
        if way.rest and not stream.reset:
            self._not_mpa(stream, frame, f"the last {way.rest} octets before the FIN are "
                          "no whole FPDU", PARTIAL)
            way.rest = 0
