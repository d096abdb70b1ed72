# SPDX-License-Identifier: GPL-2.0-or-later
#
# A host of its own for each guest (vm-run --hosts): a network namespace in which its
# QEMU runs, with a cable (veth) to a router, which is the namespace that vm-run and the
# program DIR/host are in. Every host has a subnet of its own. A namespace is there as
# long as a process in it or a descriptor of it, and all of these end with vm-run: no
# file names one, and nothing has to be taken back.

"""Network namespaces with routes between them."""

import ctypes
import os
import subprocess

from . import paths

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

# The hosts' subnets are of ranges that no other network uses (RFC 2544, RFC 3849).
IPV4 = "198.18.{}."
IPV6 = "2001:db8:{}::"
ROUTER, FIRST_OF_HOST = 1, 2
MTU_MIN, MTU_MAX = 1280, 65535

IPV4_ROUTER = {"ipv4/ip_forward": "1"}
# A cable that was cut and is whole again works as before, and at once: no address is
# looked for at other hosts first.
IPV6_ROUTER = {"ipv6/conf/all/forwarding": "1",
               "ipv6/conf/all/keep_addr_on_down": "1"}
IPV6_SETTINGS = {"ipv6/conf/default/accept_dad": "0"}

UPLINK = "uplink"


def _call(function, *arguments):
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def _become_root():
    """In a user namespace, where one may have network namespaces."""
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWUSER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"0 {uid} 1")
    _write("/proc/self/gid_map", f"0 {gid} 1")


def _new_namespace(settings):
    """A descriptor of it; this process is in it."""
    _call("unshare", CLONE_NEWNET)
    for name in settings:
        _write(f"/proc/sys/net/{name}", settings[name])
    return os.open("/proc/self/ns/net", os.O_RDONLY)


def _ip(lines, pass_fds=()):
    try:
        done = subprocess.run(
            ["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            pass_fds=pass_fds, check=False)
    except FileNotFoundError:
        paths.die("--hosts needs the program ip (Debian: iproute2)")
    if done.returncode:
        paths.die(f"--hosts: ip: {' '.join(done.stdout.split())}")


class Network:
    """Hosts are numbered from 1, as the guests are."""

    def __init__(self, count, adapters, mtu, ipv6):
        self.mtu = mtu
        self.ipv6 = ipv6
        self.adapters = adapters
        self.settings = IPV6_SETTINGS if ipv6 else {}
        try:
            self.router = self._become_router()
            self.hosts = [self._host(k + 1) for k in range(count)]
        except OSError as why:
            paths.cannot(f"no network namespaces for --hosts here: {why} (who "
                         "is not root needs user namespaces)")
        _ip(["link set lo up"] + sum(
            (self._router_lines(k + 1) for k in range(count)), []))

    # ---- names -----------------------------------------------------------

    def _in_subnet(self, k, number):
        return (IPV6 if self.ipv6 else IPV4).format(k) + str(number)

    def address(self, k, adapter=0):
        """Of host k, for that adapter of its guest."""
        return self._in_subnet(k, FIRST_OF_HOST + adapter)

    def length(self):
        """Of an address's prefix that has this address alone."""
        return 128 if self.ipv6 else 32

    @staticmethod
    def link(k):
        """The router's interface at the cable to host k."""
        return f"link{k}"

    def environment(self):
        """What the program on the router is told."""
        numbers = range(1, len(self.hosts) + 1)
        return {"RNIC_LINKS": " ".join(self.link(k) for k in numbers),
                "RNIC_HOSTS": " ".join(self.address(k) for k in numbers)}

    # ---- set-up ----------------------------------------------------------

    def _become_router(self):
        if os.geteuid():
            _become_root()
        return _new_namespace(self.settings | (
            IPV6_ROUTER if self.ipv6 else IPV4_ROUTER))

    def _with_length(self, address):
        return address + ("/64" if self.ipv6 else "/24")

    def _host(self, k):
        """
        Its namespace's descriptor. Of the two ends of a cable, neither makes packets
        of many segments (TSO): what a capture shows is what a wire would have.
        """
        namespace = _new_namespace(self.settings)
        link = f"mtu {self.mtu} gso_max_segs 1"
        lines = ["link set lo up",
                 f"link add name {UPLINK} {link} type veth peer "
                 f"name {self.link(k)} {link} netns /proc/self/fd/{self.router}"]
        lines += [f"address add {self._with_length(self.address(k, adapter))} "
                  f"dev {UPLINK}" for adapter in range(self.adapters)]
        lines += [f"link set {UPLINK} up",
                  f"route add default via {self._in_subnet(k, ROUTER)}"]
        _ip(lines, (self.router,))
        self._enter(self.router)
        return namespace

    def _router_lines(self, k):
        address = self._with_length(self._in_subnet(k, ROUTER))
        return [f"address add {address} dev {self.link(k)}",
                f"link set {self.link(k)} up"]

    # ---- use -------------------------------------------------------------

    @staticmethod
    def _enter(namespace):
        _call("setns", namespace, CLONE_NEWNET)

    def enter(self, k):
        """This process, which is to run on host k."""
        self._enter(self.hosts[k - 1])
