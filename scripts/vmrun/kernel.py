# SPDX-License-Identifier: GPL-2.0-or-later
#
# Which kernel guests boot: the image's own (debian), or the debug kernel with
# KASAN, lockdep and the like (debug). The latter is several times slower and
# needs more memory: what that means for a run is in this file only.

"""The kernel of a run."""

import os

from . import paths

NAMES = ["debian", "debug"]


class Kernel:
    """
    slowness: factor for times that are a promise: what the kernel and the capture
    make slower; patience: the same for all else that a run waits for, on the host and
    in the guests, the user's factor (--patience) included; memory: factor for a
    guest's.
    """

    def __init__(self, name, image, captures, patience):
        self.name = name
        self.debug = name == "debug"
        self.slowness = (6 if self.debug else 1) * (2 if captures else 1)
        self.patience = patience * self.slowness
        self.memory = 2 if self.debug else 1
        self.dir = paths.debug_kernel() if self.debug else image

    def vmlinuz(self):
        return os.path.join(self.dir, "vmlinuz")
