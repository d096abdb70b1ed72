# SPDX-License-Identifier: GPL-2.0-or-later
#
# One session: two fresh guests of a variant, which go through their steps. The
# guests' side of it is in guest/.

"""Runs steps in virtual machines."""

import glob
import os
import shutil
import subprocess

from . import cases, results
from .samples import Figure

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))

OPTIONS = {
    "rnic_tcp": ["--fabric", "tcp"],
    "rnic_unix": ["--fabric", "unix"],
    "siw": ["--nic", "siw"],
    "rxe": ["--nic", "rxe"],
}
MEMORY = 1700       # MiB: a gigabyte to register, and the system
MOST_LOST = 6       # guests of one session
STEP_LIMIT = 120    # seconds for all attempts of a step together, on average


def _prepare(directory, variant, runs, seconds):
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(os.path.join(directory, "out"))
    for path in glob.glob(os.path.join(HERE, "guest", "*")):
        shutil.copy(path, directory)
    with open(os.path.join(directory, "steps"), "w", encoding="ascii") as f:
        for run in runs:
            f.write(cases.line(run, variant, seconds) + "\n")


def _between(directory, run):
    """UNIX times of the attempt that came to a result, as the client says."""
    return [max(map(os.path.getmtime, glob.glob(
        os.path.join(directory, f".signal-{what}.{run.name}.*"))), default=0.0)
        for what in ("begin", "end")]


def _read(directory, run):
    try:
        with open(os.path.join(directory, "out", run.name),
                  encoding="utf-8", errors="replace") as f:
            text = f.read()
    except FileNotFoundError:
        return []
    return [Figure(run.step, case, value, *_between(directory, run))
            for case, value in results.of_guests(run.step, text)]


def _started(directory, run):
    return bool(glob.glob(os.path.join(directory, f".signal-{run.name}.*")))


def _virtual_machines(directory, variant, runs, options, device):
    """vm-run's exit status."""
    _prepare(directory, variant, runs, options.seconds_of(variant))
    command = [os.path.join(TOP, "scripts", "vm-run"), "--mem", str(MEMORY),
               "--cpus", str(options.cpus),
               "--timeout", str(120 + STEP_LIMIT * len(runs)),
               *OPTIONS[variant], *cases.DEVICES[device]]
    with open(os.path.join(directory, "log"), "wb") as log:
        done = subprocess.run(command + [directory], stdout=log, stderr=log,
                              check=False)
    return done.returncode


def session(directory, variant, runs, options, device):
    """
    options: of scripts/bench; seconds_of and cpus count here. Returns ([Figure...]
    of all runs that came to a result, names of the runs that guests died of). A
    guest's end (siw's kernel side does crash) costs the run it was at: new guests
    go on behind it, or begin again if they were at none.
    """
    found, lost = [], []
    while runs and len(lost) <= MOST_LOST:
        place = directory + "".join("+" for _ in lost)
        status = _virtual_machines(place, variant, runs, options, device)
        for run in runs:
            found += _read(place, run)
        started = [r for r in runs if _started(place, r)]
        if status == 0:
            break
        if started:
            runs = runs[runs.index(started[-1]) + 1:]
        lost.append(started[-1].name if started else "boot")
    return found, lost
