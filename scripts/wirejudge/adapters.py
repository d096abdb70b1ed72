# SPDX-License-Identifier: GPL-2.0-or-later
#
# The files of a test's directory by the adapter that has written them, and who has which
# address.

"""Adapters of a test's guests, with their captures."""

import collections
import glob
import os
import re

from . import expected
from .capture import Capture
from .traces import Traces

# NAME.pcapng, NAME.1.pcapng (the second adapter), NAME.LABEL.pcapng (one that was
# plugged in later), and .N behind each: older files of a ring.
FILE = re.compile(r"(([A-Za-z0-9][A-Za-z0-9-]*)(?:\.[\w-]+)?\.pcapng)(?:\.(\d+))?")


class Adapter:
    """One adapter: its files, the oldest first."""

    def __init__(self, guest, name, captures, next_files):
        self.guest = guest
        self.name = name
        self.captures = captures
        self.own = set().union(*(c.own for c in captures))
        self.gone = max(next_files - (len(captures) - 1), 0)

    def lacks(self):
        """Why not all is there: a list."""
        each = [(c.name, c.lacks(number == 0)) for number, c in enumerate(self.captures)]
        why = [f"{name}: {text}" for name, text in each if text]
        if self.gone:
            why.insert(0, f"{self.name}: {self.gone} older files of the ring are gone")
        return why

    def total(self, of):
        """The sum of the captures' counters."""
        return sum((of(c) for c in self.captures), collections.Counter())


class Site:
    """All of a test's directory."""

    def __init__(self, directory):
        self.guests = sorted(os.path.basename(p)[:-3] for p in
                             glob.glob(os.path.join(glob.escape(directory), "*.sh")))
        self.traces = {g: Traces(os.path.join(directory, g + ".qemu"))
                       for g in self.guests}
        self.adapters = []
        for (guest, name), files in sorted(self._files(directory).items()):
            captures = [Capture(os.path.join(directory, f), f)
                        for _, f in sorted(files, reverse=True)]
            self.adapters.append(Adapter(guest, name, captures, self._next(guest, name)))

    def _files(self, directory):
        found = collections.defaultdict(list)
        for file in os.listdir(directory):
            m = FILE.fullmatch(file)
            if m and m[2] in self.guests:
                found[m[2], m[1]].append((int(m[3] or 0), file))
        return found

    def _next(self, guest, name):
        """How many files it has begun after its first one."""
        return sum(n for path, n in self.traces[guest].next_files.items()
                   if os.path.basename(path) == name)

    def without_capture(self):
        """(guest, file) of what was begun and is not there."""
        there = {(a.guest, a.name) for a in self.adapters}
        for guest, traces in self.traces.items():
            begun = {os.path.basename(f) for f in traces.files} or {guest + ".pcapng"}
            if traces.has_adapter:
                yield from ((guest, f) for f in sorted(begun) if (guest, f) not in there)

    def of_guest(self, guest):
        """Its adapters."""
        return [a for a in self.adapters if a.guest == guest]

    def is_complete(self, guest):
        """All that it has sent is in its files."""
        own = self.of_guest(guest)
        return bool(own) and not any(a.lacks() for a in own)

    def owner(self, address):
        """A guest's name, or the peer's: all other addresses are its."""
        for adapter in self.adapters:
            if address in adapter.own:
                return adapter.guest
        m = re.fullmatch(r"(?:10\.\d+\.0\.|fd\d\d::)(\d+)", address)
        if m and 1 <= int(m[1]) <= len(self.guests):
            return self.guests[int(m[1]) - 1]
        return expected.PEER

    def sender_of_way(self, adapter, stream, number):
        """Of a direction of a connection in a capture of an adapter."""
        if stream.outbound == (number == 0):
            return adapter.guest
        return self.owner(stream.ends[number][0])

    def sender(self, adapter, record):
        """Of a fault or a Terminate in a capture of an adapter."""
        if record.outbound or record.sender is None:
            return adapter.guest
        return self.owner(record.sender)
