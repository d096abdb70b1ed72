# SPDX-License-Identifier: GPL-2.0-or-later
#
# All figures of a run, and which of them count. Where the host's processors were
# near each other at times (distance.py), a figure of another time says more of
# the hypervisor than of what was measured: it is kept, but set aside once there
# are enough without it. That looks at the processors, never at the figure.

"""Keeps the figures and makes medians of them."""

import collections
import statistics

# begin, end: UNIX times between which it was measured.
Figure = collections.namedtuple("Figure", "step case value begin end")


class Samples:
    """
    distance: a Distance. enough(variant, step): so many figures of near
    processors count alone.
    """

    def __init__(self, distance, enough):
        self.distance = distance
        self.enough = enough
        self.figures = collections.defaultdict(list)    # (variant, case)

    def add(self, variant, found):
        for figure in found:
            self.figures[variant, figure.case].append(figure)

    def is_far(self, figure):
        return (figure.step.moves_data and not self.distance.is_usual() and
                self.distance.far(figure.begin, figure.end))

    def _counted(self, variant, figures):
        near = [f for f in figures if not self.is_far(f)]
        enough = len(near) >= self.enough(variant, figures[0].step)
        return near if enough else figures

    def medians(self, everything=False):
        """case -> variant -> value."""
        found = {}
        for (variant, case), figures in self.figures.items():
            counted = figures if everything else self._counted(variant, figures)
            found.setdefault(case, {})[variant] = statistics.median(
                f.value for f in counted)
        return found

    def lacking(self, variant, step):
        """How many times more it is to run until there are enough near ones."""
        figures = [fs for (v, _), fs in self.figures.items()
                   if v == variant and fs[0].step is step]
        if not figures:
            return 0            # it fails: not by being far
        near = sum(not self.is_far(f) for f in figures[0])
        return max(0, self.enough(variant, step) - near)

    def numbers(self):
        """Figures: all, those of far processors, and of these the counted."""
        everything = far = counted = 0
        for (variant, _), figures in self.figures.items():
            everything += len(figures)
            far += sum(map(self.is_far, figures))
            counted += sum(map(self.is_far, self._counted(variant, figures)))
        return everything, far, counted

    def values(self):
        """case -> variant -> near, far -> values in the order of time."""
        found = {}
        for (variant, case), figures in self.figures.items():
            place = found.setdefault(case, {})
            place[variant] = {"near": [], "far": []}
            for f in figures:
                place[variant]["far" if self.is_far(f) else "near"].append(
                    f.value)
        return found
