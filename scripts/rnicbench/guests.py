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


def _prepare(directory, variant, steps, seconds):
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(os.path.join(directory, "out"))
    for path in glob.glob(os.path.join(HERE, "guest", "*")):
        shutil.copy(path, directory)
    with open(os.path.join(directory, "steps"), "w", encoding="ascii") as f:
        for step in steps:
            f.write(cases.line(step, variant, seconds) + "\n")


def _read(directory, step):
    try:
        with open(os.path.join(directory, "out", step.name),
                  encoding="utf-8", errors="replace") as f:
            return results.of_guests(step, f.read())
    except FileNotFoundError:
        return {}


def _started(directory, step):
    return bool(glob.glob(os.path.join(directory, f".signal-{step.name}.*")))


def _run(directory, variant, steps, options, crc):
    """vm-run's exit status."""
    _prepare(directory, variant, steps, options.seconds_of(variant))
    command = [os.path.join(TOP, "scripts", "vm-run"), "--mem", str(MEMORY),
               "--cpus", str(options.cpus),
               "--timeout", str(120 + STEP_LIMIT * len(steps)),
               *OPTIONS[variant]]
    if crc:
        command += ["--device-opts", "mpa-crc=on"]
    with open(os.path.join(directory, "log"), "wb") as log:
        done = subprocess.run(command + [directory], stdout=log, stderr=log,
                              check=False)
    return done.returncode


def session(directory, variant, steps, options, crc=False):
    """
    options: of scripts/bench; seconds_of and cpus count here. Returns (case ->
    value of all steps that came to a result, steps that guests died of). A
    guest's end (siw's kernel side does crash) costs the step it was at: new
    guests go on behind it, or begin again if they were at none.
    """
    found, lost = {}, []
    while steps and len(lost) <= MOST_LOST:
        place = directory + "".join("+" for _ in lost)
        status = _run(place, variant, steps, options, crc)
        for step in steps:
            found.update(_read(place, step))
        started = [s for s in steps if _started(place, s)]
        if status == 0:
            break
        if started:
            steps = steps[steps.index(started[-1]) + 1:]
        lost.append(started[-1].name if started else "boot")
    return found, lost
