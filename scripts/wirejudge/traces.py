# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a guest's QEMU has said in NAME.qemu, as vm-run has it traced: each Terminate
# that the device was about to send, and each file that it began.

"""Another witness than the file."""

import collections
import re

SENT = re.compile(r"^rnic_terminate_sent .*code 0x([0-9a-f]{4})", re.M)
FILE = re.compile(r"^rnic_capture (\S+): ", re.M)
NEXT = re.compile(r"^rnic_capture_next_file (\S+)", re.M)


class Traces:
    """Of one guest; there: it has an adapter that has done something."""

    def __init__(self, path):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                text = f.read()
        except OSError:
            text = ""
        self.has_adapter = re.search(r"^rnic_\w+ ", text, re.M) is not None
        self.terminates = collections.Counter(int(c, 16) for c in SENT.findall(text))
        self.files = set(FILE.findall(text))
        self.next_files = collections.Counter(NEXT.findall(text))
