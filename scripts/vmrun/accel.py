# SPDX-License-Identifier: GPL-2.0-or-later
#
# Whether guests run on KVM. That /dev/kvm opens is no proof (nested and
# sandboxed hosts): a trial boot of the guest's kernel is. Its outcome is
# remembered until the host reboots. RNIC_ACCEL=tcg or =kvm overrides.

"""Chooses the accelerator."""

import os
import subprocess
import tempfile

from . import paths

TRIAL_SECONDS = 20
MARK = "initrd: no root file system"


def _trial(image, initrd):
    """Boots kernel and initrd without a disk: does the initrd speak?"""
    with tempfile.NamedTemporaryFile() as joined:
        for part in initrd:
            with open(part, "rb") as f:
                joined.write(f.read())
        joined.flush()
        return _boot(image, joined.name)


def _boot(image, initrd):
    command = [paths.qemu(), "-machine", "q35", "-accel", "kvm", "-cpu",
               "host", "-m", "256", "-nodefaults", "-display", "none",
               "-no-reboot", "-serial", "stdio",
               "-kernel", os.path.join(image, "vmlinuz"),
               "-initrd", initrd,
               "-append", "console=ttyS0 quiet panic=-1"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              timeout=TRIAL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    said = done.stdout.decode(errors="replace")
    if done.returncode and "kvm" not in said.lower():
        paths.die(f"QEMU does not start: {said.strip()[-300:]}")
    return MARK in said


def _remembered():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        return os.path.join(paths.cache(), "kvm-trial-" + f.read().strip())


def _kvm_works(image, initrd):
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    note = _remembered()
    if not os.path.exists(note):
        paths.say("trying whether a guest runs on /dev/kvm")
        works = _trial(image, initrd)
        if not works:
            paths.say("/dev/kvm is there but no guest runs on it: using TCG")
        with open(note, "w", encoding="ascii") as f:
            f.write("yes" if works else "no")
    with open(note, encoding="ascii") as f:
        return f.read() == "yes"


def choose(image, initrd):
    wanted = os.environ.get("RNIC_ACCEL")
    if wanted not in (None, "", "tcg", "kvm"):
        paths.die(f"RNIC_ACCEL={wanted}: must be tcg or kvm")
    return wanted or ("kvm" if _kvm_works(image, initrd) else "tcg")


def options(accel):
    if accel == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg,thread=multi", "-cpu", "max"]
