# SPDX-License-Identifier: GPL-2.0-or-later
#
# The sockets alone, between two processes of the host: raw-llp.c.

"""Runs the steps that raw-llp can do."""

import os
import subprocess
import time

from . import cases, results
from .samples import Figure

HERE = os.path.dirname(os.path.abspath(__file__))


def build(directory):
    program = os.path.join(directory, "raw-llp")
    subprocess.run(["gcc", "-O2", "-Wall", "-o", program,
                    os.path.join(HERE, "raw-llp.c")], check=True)
    return program


def session(program, variant, runs, seconds):
    """
    [Figure...]. What is the same call for several cases is made once in each
    turn.
    """
    outputs, found = {}, []
    for run in runs:
        turn = run.name.removeprefix(run.step.name)
        call = [variant.split("_")[1],
                *cases.raw_arguments(run.step, seconds)]
        key = (turn, *call)
        if key not in outputs:
            begin = time.time()
            done = subprocess.run([program, *call], stdout=subprocess.PIPE,
                                  text=True, check=False,
                                  timeout=60 + 2 * seconds)
            outputs[key] = done.stdout, begin, time.time()
        text, *between = outputs[key]
        found += [Figure(run.step, case, value, *between)
                  for case, value in results.of_raw(run.step, text)]
    return found
