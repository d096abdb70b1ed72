# SPDX-License-Identifier: GPL-2.0-or-later
#
# What vm-run starts does not outlive it, whatever kills it.

"""Ties a child's life to its parent's."""

import ctypes
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent():
    """For the child, before it becomes another program."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
