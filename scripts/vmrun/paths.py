# SPDX-License-Identifier: GPL-2.0-or-later
#
# Where vm-run finds what the build made, and how it says that it did not.

"""Paths of the clone and of the user's cache."""

import functools
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD = os.path.join(TOP, "build")
SKIPPED = 77


def die(message):
    sys.exit(f"vm-run: error: {message}")


def cannot(message):
    """Not a mistake, but what this host does not allow: as a skipped test's."""
    say(message)
    sys.exit(SKIPPED)


def say(message):
    print(f"vm-run: {message}", flush=True)


def cache():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("RNIC_CACHE") or os.path.join(home, "rnic")


def qemu():
    path = os.environ.get("RNIC_QEMU",
                          os.path.join(BUILD, "qemu", "qemu-system-x86_64"))
    if not os.path.exists(path):
        die(f"{path} is not there; run make qemu first")
    return path


@functools.cache
def made_by(*command):
    """
    The last line a script of the clone prints: the path of what it made. All guests
    ask; the script runs once.
    """
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode:
        die(f"{os.path.basename(command[0])} failed")
    return done.stdout.strip().splitlines()[-1]


def image(packages):
    return made_by(os.path.join(TOP, "images", "make-image"), *packages)


def debug_kernel():
    return made_by(os.path.join(TOP, "scripts", "build-debug-kernel"))


def provider(checked):
    """What build-provider made; of the usual one it is no fault to have none."""
    path = os.path.join(BUILD, "provider-checked" if checked else "provider")
    if checked and not os.path.exists(os.path.join(path, "rnic.driver")):
        die(f"{path} is not there; run scripts/build-provider --checked first")
    return path


def overlay(image_dir, kernel_dir, provider_dir):
    return made_by(os.path.join(TOP, "images", "make-overlay"), image_dir,
                   kernel_dir, provider_dir)
