# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a guest does that was not done when the time was up: where its processors
# are, by QEMU, and which of its tasks wait and run, by its kernel, which
# answers a break on the serial line (SysRq) on its console.

"""The last words of a guest that hangs."""

import json
import os
import re
import socket
import subprocess
import time

from . import paths

PATIENCE = 15   # seconds for QEMU's monitor, which may hang, too
QUIET = 2       # seconds without a word after which the kernel is done
ANSWER_MAX = 20
BLOCKED_TASKS, ALL_PROCESSORS = b"w", b"l"


def _monitor(guest, command, arguments):
    done = subprocess.run(
        [os.path.join(paths.TOP, "scripts", "qmp"), guest.socket("qmp"),
         command, arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=PATIENCE, check=False)
    return done.stdout


def _ask_monitor(guest, question):
    answer = _monitor(guest, "human-monitor-command",
                      json.dumps({"command-line": question}))
    try:
        return json.loads(answer)
    except ValueError:
        return answer


def _processors(guest):
    """
    A sentence on each. One that is halted takes interrupts, and with one still
    in service in its local APIC it will take no other of that priority, ever.
    """
    answer = _ask_monitor(guest, "info registers -a")
    states = re.findall(r"CPU#(\d+).*?RIP=(\w+).*?HLT=(\d)", answer,
                        re.DOTALL)
    if not states:
        yield f"QEMU does not say what it does: {answer.strip()}"
    for number, address, halted in states:
        service = re.search(r"^ISR\t ([\d ]+)", _ask_monitor(
            guest, f"info lapic {number}"), re.MULTILINE)
        yield (f"processor {number} is " +
               ("halted" if halted == "1" else "running") + f" at {address}" +
               (f" with interrupt {service[1].strip()} in service"
                if service else ""))


def _await_quiet(guest):
    end = time.monotonic() + ANSWER_MAX
    said = None
    while said != guest.console_text() and time.monotonic() < end:
        said = guest.console_text()
        time.sleep(QUIET)


def _ask_kernel(guest):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as console:
        console.connect(guest.socket("con"))
        for question in (BLOCKED_TASKS, ALL_PROCESSORS):
            _monitor(guest, "chardev-send-break", '{"id": "con"}')
            console.sendall(question)
            _await_quiet(guest)


def ask(guest):
    """Says it, and in the guest's output, too. Takes some seconds."""
    with open(guest.file(".out"), "a", encoding="utf-8") as out:
        try:
            for sentence in _processors(guest):
                paths.say(f"{guest.name}: {sentence}")
                out.write(f"error: not done in time: {sentence}\n")
            _ask_kernel(guest)
        except (OSError, subprocess.TimeoutExpired) as why:
            paths.say(f"{guest.name}: cannot ask it what it does: {why}")
