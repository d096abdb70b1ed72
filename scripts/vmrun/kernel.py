# SPDX-License-Identifier: GPL-2.0-or-later
#
# Which kernel guests boot: the image's own (debian), or the debug kernel with
# KASAN, lockdep and the like (debug). The latter is several times slower and
# needs more memory: what that means for a run, and what captures and a checked
# provider mean for it, is in this file only. All guests of a run wait as long as the
# run's kernel takes, whichever their own is.

"""The kernel of a guest, and that of a run: of all guests without one of their own."""

import os

from . import paths

NAMES = ["debian", "debug"]


class Kernel:
    """
    slowness: factor for times that are a promise: what the kernel, the capture and
    the provider's sanitizers make slower; patience: the same for all else that a run waits for, on the host and
    in the guests, the user's factor (--patience) included; memory: factor for a
    guest's.
    """

    def __init__(self, image, options):
        self.name = options.kernel
        self.debug = self.name == "debug"
        self.slowness = ((6 if self.debug else 1) * (2 if options.capture else 1) *
                         (2 if options.checked_provider else 1))
        self.patience = options.patience * self.slowness
        self.memory = 2 if self.debug else 1
        # All reports, not the first one alone.
        self.arguments = ["kasan_multi_shot"] if self.debug else []
        self.dir = paths.debug_kernel() if self.debug else image

    def vmlinuz(self):
        return os.path.join(self.dir, "vmlinuz")
