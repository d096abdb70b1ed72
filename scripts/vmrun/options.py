# SPDX-License-Identifier: GPL-2.0-or-later
#
# The command line of vm-run. The options of one guest may also stand in
# DIR/NAME.opts, where they win over the command line for that guest.

"""Parses options, for the run and for each guest."""

import argparse
import os
import re
import shlex

from . import hosts, kernel, paths

ETHERNET_NICS = ["rnic", "virtio", "siw", "rxe"]
NICS = ETHERNET_NICS + ["user", "none"]

EXAMPLE = """\
For every NAME.sh in DIR, in sorted order, one virtual machine is booted: the
k-th has the address 10.77.0.k on its rnic adapter (10.78.0.k on a second one)
and finds all names in /etc/hosts. DIR is /mnt/run in each. NAME.sh runs as root
there; its output goes to DIR/NAME.out, its exit status to DIR/NAME.rc, the
console to DIR/NAME.console, and to DIR/NAME.qemu what QEMU says: the mistakes
of guests and peers that the adapter met, and its queue pairs' states. vm-run
exits 0 only if all of them did. A script that succeeds has to leave nothing
behind: when its processes have been killed, an rnic adapter that still holds an
object makes it a failure.

DIR/NAME.opts may hold options of that guest. An executable DIR/host runs on the
host beside the guests, in DIR; its environment has RNIC_RUN (a directory with
NAME.qmp sockets and NAME.pid files) and RNIC_HOST_NET (127.x.y: with --fabric
tcp, guest 10.77.0.k is 127.x.y.k). Scripts find functions in /usr/lib/rnic/lib.sh.

--hosts 1500 puts each guest's QEMU on a host of its own: a network namespace with one
interface of that MTU, on a subnet of its own, 198.18.k.0/24 (2001:db8:k::/64 with
--ipv6), behind a router. RDMA goes from host to host (it needs --fabric tcp), in
packets as they would be on a wire. DIR/host runs on the router, as root there: it can
capture, narrow a path (`ip route add HOST dev LINK mtu 1400`), and cut a cable
(`ip link set LINK down`). RNIC_LINKS has the router's interfaces at the cables to the
hosts, in the order of the guests' names, and RNIC_HOSTS the hosts' addresses. Without
root this takes user namespaces.

example: scripts/vm-run --timeout 60 --device-opts mpa-crc=on my-test/
"""


def _guest_options(parser):
    parser.add_argument("--kernel", choices=kernel.NAMES, default="debian",
                        help="the image's own, or the one that make "
                        "debug-kernel builds; with that all of a run has more "
                        "time, the guest has more memory, and a report of "
                        "the kernel's checks is a failure. In NAME.opts it "
                        "can be debian only: for a guest that is not tested")
    parser.add_argument("--mem", type=int, default=768, metavar="MIB",
                        help="memory of a guest (768)")
    parser.add_argument("--cpus", type=int, default=2, metavar="N",
                        help="processors of a guest (2)")
    parser.add_argument("--devices", type=int, default=1, metavar="N",
                        help="rnic adapters of a guest (1)")
    parser.add_argument("--device-opts", action="append", default=[],
                        metavar="PROPERTIES",
                        help="more properties for -device rnic")
    parser.add_argument("--fabric", choices=["unix", "tcp"], default="unix",
                        help="what carries the guests' RDMA: UNIX sockets in a "
                        "directory of this run alone (the default), or TCP "
                        "between loopback addresses of the host")
    parser.add_argument("--map", action="append", default=[],
                        metavar="GUEST/LEN=HOST/LEN",
                        help="more entries for the address map of --fabric tcp")
    parser.add_argument("--fabric-opts", action="append", default=[],
                        metavar="PROPERTIES",
                        help="more properties for the fabric object")
    parser.add_argument("--default-fabric", action="store_true",
                        help="no fabric object: the device makes its own, in "
                        "a directory of this run alone")
    parser.add_argument("--capture", action="store_true",
                        help="each rnic adapter writes its connections to "
                        "DIR/NAME.pcapng (the second one to NAME.1.pcapng, and "
                        "so on), for Wireshark, with all octets (capture-rate=0)")
    parser.add_argument("--qemu-arg", action="append", default=[],
                        metavar="ARG", help="another argument for QEMU")
    parser.add_argument("--kernel-arg", action="append", default=[],
                        metavar="ARG", help="another kernel argument")
    parser.add_argument("--nic", choices=NICS, default="rnic",
                        help="adapter: rnic; virtio on the same Ethernet; siw "
                        "or rxe: Linux's software RDMA over that; user: "
                        "virtio on user networking (10.0.2.15); none")
    parser.add_argument("--user-opts", action="append", default=[],
                        metavar="OPTIONS",
                        help="for --nic user: options of QEMU's netdev; "
                        "@NET@ is the run's 127.x.y")
    parser.add_argument("--no-netdev", action="store_true",
                        help="rnic without an Ethernet behind it")
    parser.add_argument("--may-die", action="store_true",
                        help="the guest may end without a result")


def _run_options(parser):
    parser.add_argument("--package", action="append", default=[],
                        metavar="P", help="another Debian package in the guests")
    parser.add_argument("--checked-provider", action="store_true",
                        help="the provider that scripts/build-provider --checked "
                        "builds, with ASan and UBSan: all of a run has more time, "
                        "and a report of a program is a failure")
    parser.add_argument("--ipv6", action="store_true",
                        help="the guests have no IPv4 address: the k-th is "
                        "fd77::k (fd78::k on a second adapter)")
    parser.add_argument("--timeout", type=float, default=300, metavar="S",
                        help="kill everything after so many seconds (300)")
    parser.add_argument("--patience", type=_factor, default=1, metavar="N",
                        help="factor for --timeout and, as RNIC_PATIENCE, for "
                        "what the guests' scripts wait for: for a machine that "
                        "does other things too (1)")
    parser.add_argument("--keep", action="store_true",
                        help="leave a shell in each guest when its script is "
                        "done; attach with scripts/vm-console")
    parser.add_argument("--interactive", action="store_true",
                        help="boot systemd and run no script")
    parser.add_argument("--env", action="append", default=[],
                        metavar="NAME=VALUE",
                        help="a variable for the scripts and the host program")
    parser.add_argument("--host-net", metavar="127.X.Y",
                        help="the host network of --fabric tcp")
    parser.add_argument("--hosts", type=int, metavar="MTU",
                        help="each guest is on a host of its own, in a network "
                        "namespace with this MTU (1500, 9000, ...), with a "
                        "router between them")
    parser.add_argument("--run-dir", metavar="D",
                        help="where sockets go (a temporary directory)")
    parser.add_argument("--allow-warnings", action="store_true",
                        help="a kernel warning in a guest is no failure")
    parser.add_argument("dir", metavar="DIR", help="directory of NAME.sh files")


def _factor(text):
    if not re.fullmatch("[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"{text} is not 1, 2, 3 or so")
    return int(text)


def parse():
    parser = argparse.ArgumentParser(
        prog="vm-run", epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs scripts in virtual machines with rnic adapters.")
    _run_options(parser)
    _guest_options(parser)
    options = parser.parse_args()
    if not os.path.isdir(options.dir):
        paths.die(f"{options.dir} is not a directory")
    options.dir = os.path.abspath(options.dir)
    for setting in options.env:
        if not re.fullmatch(r"[A-Za-z_]\w*=[^'\n]*", setting):
            paths.die(f"--env {setting}: must be NAME=VALUE, without '")
    if options.hosts is not None and not (hosts.MTU_MIN <= options.hosts
                                          <= hosts.MTU_MAX):
        paths.die(f"--hosts {options.hosts}: an MTU is {hosts.MTU_MIN} to "
                  f"{hosts.MTU_MAX}")
    return options


def for_guest(options, name):
    """The options of guest NAME: the run's, then those of NAME.opts."""
    parser = argparse.ArgumentParser(prog=f"vm-run: {name}.opts",
                                     add_help=False)
    _guest_options(parser)
    path = os.path.join(options.dir, name + ".opts")
    words = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            words = shlex.split(f.read(), comments=True)
    shared = {key: list(value) if isinstance(value, list) else value
              for key, value in vars(options).items()}
    own = parser.parse_args(words, argparse.Namespace(**shared))
    if own.kernel != options.kernel and own.kernel != "debian":
        paths.die(f"{name}.opts: --kernel {own.kernel} is for all guests of a run, as "
                  "all wait for it: only --kernel debian is for one")
    tcp = own.fabric == "tcp" and not own.default_fabric
    if own.map and not tcp:
        paths.die(f"{name}: --map needs --fabric tcp")
    if own.hosts and own.nic == "rnic" and not tcp:
        paths.die(f"{name}: --hosts needs --fabric tcp")
    return own
