# SPDX-License-Identifier: GPL-2.0-or-later
#
# Loopback addresses of the host for the guests' RDMA connections. Each vm-run
# gets a block of networks of its own, so that any number can run at once; a
# lock file per block says that it is taken, and the kernel frees it when vm-run
# ends, however it ends.

"""Hands out 127.x.y.0/24 networks."""

import fcntl
import os

from . import paths

LOCKS = "/tmp/rnic-host-networks"
BLOCKS = 1024
PER_BLOCK = 16
FIRST = 100


def _networks(block):
    first = block * PER_BLOCK
    return [f"127.{FIRST + n // 256}.{n % 256}"
            for n in range(first, first + PER_BLOCK)]


def _take(block):
    """The open lock file, or None when someone has it."""
    path = os.path.join(LOCKS, str(block))
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def allocate():
    """(prefixes such as '127.100.16', a handle to keep)."""
    if not os.path.isdir(LOCKS):
        os.makedirs(LOCKS, exist_ok=True)
        os.chmod(LOCKS, 0o1777)
    for block in range(BLOCKS):
        handle = _take(block)
        if handle is not None:
            return _networks(block), handle
    paths.die(f"all blocks of loopback networks are taken (see {LOCKS})")
    return None
