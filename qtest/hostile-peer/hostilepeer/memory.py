# SPDX-License-Identifier: GPL-2.0-or-later
#
# The memory of a QEMU process as the kernel counts it.

"""What QEMU has beside its guest."""

import re

GUEST_MEMORY = 256 << 20    # a mapping of this size is the guest's memory
MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ")


def own_memory(pid):
    """
    Octets in memory, without the guest's memory, and without the code that TCG has
    translated: both grow with what the guest does.
    """
    total, counts = 0, False
    with open(f"/proc/{pid}/smaps", encoding="ascii", errors="replace") as f:
        for line in f:
            mapping = MAPPING.match(line)
            if mapping:
                size = int(mapping.group(2), 16) - int(mapping.group(1), 16)
                translated = "x" in mapping.group(3) and "/" not in line
                counts = size < GUEST_MEMORY and not translated
            elif counts and line.startswith("Rss:"):
                total += int(line.split()[1]) * 1024
    return total
