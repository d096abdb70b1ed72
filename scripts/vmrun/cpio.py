# SPDX-License-Identifier: GPL-2.0-or-later
#
# The smallest writer of the archive format an initrd is made of: vm-run adds
# each guest's own few files to the common initrd with it.

"""Writes files as a cpio archive (newc)."""


def _entry(name, mode, data):
    fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % f for f in fields)
    head += name.encode() + b"\0"
    head += b"\0" * (-len(head) % 4)
    return head + data + b"\0" * (-len(data) % 4)


def _directories(names):
    found = set()
    for name in names:
        parts = name.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            found.add("/".join(parts[:depth]))
    return sorted(found)


def archive(files):
    """files: path -> text. Returns the archive as bytes."""
    out = [_entry(d, 0o40755, b"") for d in _directories(files)]
    for name, text in sorted(files.items()):
        out.append(_entry(name, 0o100644, text.encode()))
    out.append(_entry("TRAILER!!!", 0, b""))
    return b"".join(out)
