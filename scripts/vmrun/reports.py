# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a guest reports of mistakes: its kernel's warnings, oopses, and what the
# debug kernel's checks find; what ASan and UBSan find in its programs, with a
# checked provider. The kernel's text is the guest's console, and of a guest
# with a debug kernel its whole log and kmemleak's report, too, which images/guest/
# kernel-reports leaves in NAME.kernel; a program's is in NAME.checks.PROGRAM.PID. Reports that are not ours are listed in
# qtest/vm/known-reports.

"""Finds the reports of a guest."""

import glob
import os
import re

from . import paths

CUT_HERE = "------------[ cut here ]------------"
FIRST_LINE = re.compile("|".join((
    re.escape(CUT_HERE),
    r"WARNING: ",           # WARN(), and lockdep's and RCU's
    r"BUG: ", r"BUG ",      # KASAN's, too
    r"kernel BUG at ", r"Kernel panic", r"Oops: ", r"general protection fault",
    r"KASAN: ", r"UBSAN: ", r"ODEBUG: ", r"DMA-API: .*(driver|mappings|out of memory)",
    r"INFO: task .* blocked", r"INFO: trying to register", r"INFO: lockdep",
    r"rcu: INFO: .*(stall|starved)", r"INFO: rcu.*stall",
    r".*possible circular locking", r".*suspicious RCU",
    r"list_(add|del) corruption", r"refcount_t: ", r"ref_tracker: ",
    r"unregister_netdevice: waiting", r"unreferenced object ",
    r"kmemleak: (Cannot|Unable|Kernel memory leak detector disabled)")))
SANITIZER = re.compile(r"ERROR: AddressSanitizer")
TIME = re.compile(r"^\[[ \d.]+\](?:\[[ TC\d]+\])? ?")
# A frame that the unwinder found on the stack, but not on the way of the calls.
GUESSED_FRAME = re.compile(r"^ *\? .*\n?", re.MULTILINE)
LONGEST = 500   # lines of a report that are compared with patterns
PRINTED = 100   # lines of it that are shown
HEAD = 4        # lines at its beginning that may look like another's


def _patterns(path):
    with open(path, encoding="utf-8") as f:
        return [re.compile(line.rpartition(": ")[0]) for line in f
                if line.strip() and not line.startswith("#")]


def reviewed(directory=None):
    """The patterns of qtest/vm/known-reports, and of the run's own such file."""
    own = os.path.join(directory, "known-reports") if directory else ""
    return (_patterns(os.path.join(paths.TOP, "qtest", "vm", "known-reports")) +
            (_patterns(own) if os.path.exists(own) else []))


def split(text):
    """The reports in TEXT, each from its first line on."""
    lines = [TIME.sub("", line) for line in
             text.replace("\r", "").split("\n")]
    starts = []
    for k, line in enumerate(lines):
        if FIRST_LINE.match(line) and not (
                starts and k - starts[-1] < HEAD and
                lines[starts[-1]] == CUT_HERE):
            starts.append(k)
    ends = starts[1:] + [len(lines)]
    return ["\n".join(lines[first:min(end, first + LONGEST)]).strip()
            for first, end in zip(starts, ends)]


def _is_known(text, known):
    return any(pattern.search(text) for pattern in known)


def of(guest):
    """
    The reports of GUEST's kernel that are not reviewed. Frames of earlier calls, which
    still lie on the stack, are not what a report is about.
    """
    known = reviewed(guest.run.options.dir)
    return ["\n".join(report.split("\n")[:PRINTED])
            for report in split(guest.kernel_text())
            if not _is_known(GUESSED_FRAME.sub("", report), known)]


def _texts_of_programs(guest):
    for path in sorted(glob.glob(glob.escape(guest.file(".checks")) + ".*")):
        with open(path, encoding="utf-8", errors="replace") as f:
            text = f.read().strip()
        if text:
            yield f"{os.path.basename(path)}\n{text}"


def of_programs(guest):
    """What sanitizers say of GUEST's programs, if it is not reviewed."""
    known = reviewed(guest.run.options.dir)
    return [text for text in _texts_of_programs(guest)
            if not _is_known(text, known)]


def title(report):
    """One line of it: the first, or of a program's the one that says what is wrong."""
    lines = [line for line in report.split("\n") if line != CUT_HERE]
    for line in lines:
        if SANITIZER.search(line):
            return f"{lines[0]}: {line.strip()}"
    return lines[0].strip() if lines else report
