# SPDX-License-Identifier: GPL-2.0-or-later
#
# The frames of a file, by way of copies where Wireshark needs them (copies.py).

"""From a file to frames."""

import contextlib
import ipaddress
import mmap
import os
import shutil
import tempfile

from . import copies, frames, pcapng


@contextlib.contextmanager
def _octets(path, write=False):
    """Of a file; without write they are not changed."""
    with open(path, "r+b" if write else "rb") as f:
        if not os.fstat(f.fileno()).st_size:
            yield b""
            return
        with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_WRITE if write
                       else mmap.ACCESS_READ) as octets:
            yield octets


def _end(key):
    """What a frame calls it."""
    return str(ipaddress.ip_address(key[:-2])), int.from_bytes(key[-2:], "big")


class Source:
    """Of one file. is_ours: the device has written it, not tcpdump."""

    def __init__(self, path):
        self.path = path
        self.is_ours = pcapng.is_pcapng(path)
        self.blocks = pcapng.Blocks(False, 0, 0, False, False)
        self.bad_crcs = []          # (frame's number, sender's address)
        self.ports = {}
        if self.is_ours:
            with _octets(path) as octets:
                self.blocks = pcapng.read(octets)

    def frames(self):
        """All of them; when they are over, bad_crcs is known."""
        with tempfile.TemporaryDirectory(dir=os.path.dirname(self.path)) as place:
            path, unjudged = self.path, set()
            if self.blocks.reused:
                path = self._renamed(place)
            if self.blocks.marked:
                path, unjudged = self._unmarked(path, place)
            yield from self._read(path, unjudged)

    def _renamed(self, place):
        copy = shutil.copy(self.path, os.path.join(place, "renamed"))
        with _octets(copy, write=True) as octets:
            self.ports = copies.Renamer(octets).ports
        return copy

    def _put_back(self, frame):
        """The ports that it has in truth."""
        if not self.ports:
            return frame
        (source, a), (target, b) = frame.source, frame.target
        return frame._replace(source=(source, self.ports.get(a, a)),
                              target=(target, self.ports.get(b, b)))

    @staticmethod
    def _unmarked(path, place):
        """And the directions whose CRCs cover markers that are gone."""
        copy = os.path.join(place, "unmarked")
        with _octets(path) as octets, open(copy, "wb") as out:
            unmarker = copies.Unmarker(octets)
            unmarker.write(out)
        return copy, {(_end(source), _end(target)) for source, target in unmarker.wanted}

    def ends(self, numbers, count):
        """Of these frames, as they are in the file: the last octets."""
        with _octets(self.path) as octets:
            return pcapng.ends(octets, numbers, count)

    def _read(self, path, unjudged):
        """unjudged: directions of which no CRC is."""
        has_crc, numbers = False, set()
        for frame in frames.read(path, self.is_ours):
            has_crc = has_crc or frame.has_crc
            if (frame.source, frame.target) in unjudged:
                numbers.add(frame.number)
            yield self._put_back(frame)
        if has_crc:
            self.bad_crcs = [bad for bad in frames.bad_crcs(path)
                             if bad[0] not in numbers]
