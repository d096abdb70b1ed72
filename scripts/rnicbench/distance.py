# SPDX-License-Identifier: GPL-2.0-or-later
#
# Whether the host's processors were near each other while something was
# measured: cpu-distance.c looks all the time. Where the host is a virtual machine
# itself, its hypervisor moves them, and what goes from thread to thread through
# the caches moves up to six times as fast when the two share one.

"""The distance of the processors, second by second."""

import bisect
import os
import statistics
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))

EVERY = 250         # ms
FAR = 150           # ns there and back: cores that share a cache take some 50 to
                    # 100, others 200 and more
SOME = 0.15         # a figure is of far processors if so much of its time is
SELDOM = 0.1        # of all time. That rarely near is how this host is.


class Distance:
    """Looks from start() to stop(). Knows nothing of a host of one processor."""

    def __init__(self, directory):
        self.program = os.path.join(directory, "cpu-distance")
        self.log = os.path.join(directory, "cpu-distance.log")
        self.process = None
        self.looks = []     # (UNIX time, nanoseconds of a round trip)
        self.read = 0       # octets of the log

    def start(self):
        subprocess.run(["gcc", "-O2", "-Wall", "-pthread", "-o", self.program,
                        os.path.join(HERE, "cpu-distance.c")], check=True)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([self.program, str(EVERY)],
                                            stdout=log)

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def _update(self):
        with open(self.log, "rb") as log:
            log.seek(self.read)
            whole = log.read().rpartition(b"\n")[0]
        self.read += len(whole)
        self.looks += [tuple(map(float, line.split()))
                       for line in whole.splitlines() if line]

    def _between(self, begin=0.0, end=float("inf")):
        self._update()
        first, last = (bisect.bisect(self.looks, (when,))
                       for when in (begin, end))
        return [ns for _, ns in self.looks[first:last]]

    def far(self, begin, end):
        """Whether they were far from each other then; UNIX times."""
        looks = self._between(begin, end)
        return bool(looks) and share_of_far(looks) > SOME

    def is_usual(self):
        """Whether far is how they are, so that it says nothing of a figure."""
        looks = self._between()
        return not looks or share_of_far(looks) > 1 - SELDOM

    def text(self):
        looks = self._between()
        near = [ns for ns in looks if ns <= FAR]
        far = [ns for ns in looks if ns > FAR]
        both = " and ".join(f"{statistics.median(some):.0f} ns"
                            for some in (near, far) if some)
        if not looks:
            return "the processors' distance is not known"
        return (f"the host's processors were far from each other for "
                f"{100 * share_of_far(looks):.0f} % of the time (a cache line "
                f"there and back: {both})")


def share_of_far(looks):
    return sum(ns > FAR for ns in looks) / len(looks)
