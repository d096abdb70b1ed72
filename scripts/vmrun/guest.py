# SPDX-License-Identifier: GPL-2.0-or-later
#
# One guest: its QEMU command line, its own part of the initrd, its process and
# its result.

"""A virtual machine of a run."""

import os
import shutil
import subprocess
import time

from . import accel, child, cpio, kernel, paths

# maxcpus: guest-setup puts the other processors to work.
KERNEL_ARGS = ("console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off "
               "nokaslr audit=0 no_timer_check rcupdate.rcu_expedited=1 "
               "cryptomgr.notests random.trust_cpu=on net.ifnames=0 "
               "8250.nr_uarts=1 sysrq_always_enabled maxcpus=1 rnic_guest=1")
SYSTEMD_ARGS = ("systemd.condition-needs-update=no quiet "
                "systemd.machine_id=52540077000000000000000000000000")
# What the device says of the mistakes of others, and of QPs' lives: little, and
# all that is left of a failure that does not come again.
TRACES = ("rnic_err_*", "rnic_ub_*", "rnic_terminate_*", "rnic_qp_state",
          "rnic_capture", "rnic_capture_next_file")
MOST_DEVICES = 8


class Guest:
    """options: its own; run: what all guests of the run share."""

    def __init__(self, run, name, index, options):
        self.run = run
        self.name = name
        self.index = index
        self.options = options
        self.kernel = kernel.Kernel(run.image, options)
        self.initrd = run.initrd(self.kernel)
        self.process = None
        self.started = None

    def file(self, suffix):
        return os.path.join(self.run.options.dir, self.name + suffix)

    def socket(self, kind):
        return os.path.join(self.run.directory, f"{self.name}.{kind}")

    # ---- what the guest is told ------------------------------------------

    def _description(self):
        shell = "yes" if self.run.options.keep else "no"
        values = {"RNIC_NAME": self.name, "RNIC_INDEX": self.index,
                  "RNIC_ADDRESSES": self._addresses(),
                  "RNIC_IP": "6" if self.run.options.ipv6 else "4",
                  "RNIC_NIC": self.options.nic, "RNIC_SHELL": shell,
                  "RNIC_NAMES": " ".join(self.run.names),
                  "RNIC_KERNEL": self.kernel.name,
                  "RNIC_CHECKED_PROVIDER":
                  "yes" if self.run.options.checked_provider else "",
                  "RNIC_PATIENCE": self.run.kernel.patience,
                  "RNIC_SLOWNESS": self.run.kernel.slowness,
                  "RNIC_HOST_NET": self.run.host_nets[0]}
        lines = [f"export {k}='{v}'\n" for k, v in values.items()]
        for setting in self.run.options.env:
            name, value = setting.split("=", 1)
            lines.append(f"export {name}='{value}'\n")
        return "".join(lines)

    def _addresses(self):
        """Of its adapters, in their order."""
        return " ".join(
            f"{self.run.address(d, self.index)}/{self.run.prefix_length()}"
            for d in range(MOST_DEVICES))

    def _write_initrd(self):
        path = self.socket("initrd")
        own = cpio.archive({
            "overlay/etc/rnic/run": self._description(),
            "overlay/etc/rnic/hosts": self.run.hosts()})
        with open(path, "wb") as out:
            for part in self.initrd:
                with open(part, "rb") as f:
                    shutil.copyfileobj(f, out)
            out.write(own)
        return path

    # ---- the adapters ----------------------------------------------------

    def mac(self, device):
        return f"52:54:00:{0x77 + device:02x}:00:{self.index:02x}"

    def _host_address(self, device, k):
        """With the length of its prefix: of that adapter of the k-th guest."""
        if self.run.network:
            return (f"{self.run.network.address(k, device)}"
                    f"/{self.run.network.length()}")
        return f"{self.run.host_nets[device]}.{k}/32"

    def _fabric_map(self):
        nets = self.run.host_nets
        if self.run.network or self.run.options.ipv6:
            length = 128 if self.run.options.ipv6 else 32
            entries = [f"{self.run.address(d, k + 1)}/{length}="
                       f"{self._host_address(d, k + 1)}"
                       for d in range(self.options.devices)
                       for k in range(len(self.run.names))]
        else:
            entries = [f"10.{77 + d}.0.0/24={nets[d]}.0/24"
                       for d in range(MOST_DEVICES)]
        entries += [e.replace("@NET@", nets[0]) for e in self.options.map]
        return ";".join(entries)

    def _fabric(self, device):
        if self.options.default_fabric:
            return [], ""
        ident = f"f{device}"
        more = "".join("," + o for o in self.options.fabric_opts)
        if self.options.fabric == "unix":
            text = f"rnic-fabric-unix,id={ident},dir={self.run.socket_dir()}"
        else:
            text = f"rnic-fabric-tcp,id={ident},map={self._fabric_map()}"
        text += more
        return ["-object", text], f",fabric={ident}"

    def capture_file(self, device):
        return self.file(f".{device}.pcapng" if device else ".pcapng")

    def _capture(self, device):
        """All octets, unless --device-opts has another rate: they come later."""
        if not self.options.capture:
            return ""
        file = self.capture_file(device).replace(",", ",,")
        return f",capture={file},capture-rate=0"

    def _rnic(self, device):
        fabric, name = self._fabric(device)
        more = self._capture(device) + "".join(
            "," + o for o in self.options.device_opts)
        ethernet, netdev = [], ""
        if not self.options.no_netdev:
            ident = f"n{device}"
            ethernet = ["-netdev", self.run.netdev(self, device, ident)]
            netdev = f",netdev={ident}"
        return fabric + ethernet + [
            "-device",
            f"rnic,id=rnic{device}{netdev},mac={self.mac(device)}{name}{more}"]

    def _virtio(self, device):
        return ["-netdev", self.run.netdev(self, device, f"n{device}"),
                "-device", f"virtio-net-pci,netdev=n{device},romfile=,"
                f"mac={self.mac(device)}"]

    def _user(self):
        more = "".join("," + o.replace("@NET@", self.run.host_nets[0])
                       for o in self.options.user_opts)
        return ["-netdev", "user,id=n0" + more,
                "-device", f"virtio-net-pci,netdev=n0,romfile=,"
                f"mac={self.mac(0)}"]

    def _adapters(self):
        nic = self.options.nic
        if nic == "none":
            return []
        if nic == "user":
            return self._user()
        make = self._rnic if nic == "rnic" else self._virtio
        return sum((make(d) for d in range(self.options.devices)), [])

    # ---- the process -----------------------------------------------------

    def _kernel_args(self):
        if self.run.options.interactive:
            init = ["rnic_init=/sbin/init", SYSTEMD_ARGS]
        else:
            init = ["rnic_init=/usr/lib/rnic/batch-init"]
        return " ".join([KERNEL_ARGS] + init + self.kernel.arguments +
                        self.options.kernel_arg)

    def _command(self):
        return [
            paths.qemu(), "-name", f"{self.name},debug-threads=on",
            # Linux leaves the HPET running unused: 250 wake-ups a second.
            "-machine", "q35,hpet=off",
            *accel.options(self.run.accel),
            "-m", str(self.options.mem * self.kernel.memory), "-smp", str(self.options.cpus),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", self.kernel.vmlinuz(),
            "-initrd", self._write_initrd(),
            "-append", self._kernel_args(),
            "-drive", "if=none,id=root,format=raw,snapshot=on,cache=unsafe,"
            f"file={self.run.image}/root.ext4",
            "-device", "virtio-blk-pci,drive=root",
            "-fsdev", "local,id=run,security_model=none,"
            f"path={self.run.options.dir}",
            "-device", "virtio-9p-pci,fsdev=run,mount_tag=run",
            "-object", "rng-random,id=rng,filename=/dev/urandom",
            "-device", "virtio-rng-pci,rng=rng",
            "-chardev", f"socket,id=con,path={self.socket('con')},server=on,"
            f"wait=off,logfile={self.file('.console')},logappend=off",
            "-serial", "chardev:con",
            "-qmp", f"unix:{self.socket('qmp')},server=on,wait=off",
            "-pidfile", self.socket("pid"),
            *sum((["-trace", events] for events in TRACES), []),
            *self.options.qemu_arg, *self._adapters()]

    def _in_the_child(self):
        """
        Ctrl-C at the terminal is for vm-run, which ends its guests. A group, not a
        session: where Linux shares the processors out by session (sched_autogroup),
        a guest's threads could wait for seconds while another guest polls.
        """
        if self.run.network:
            self.run.network.enter(self.index)
        os.setpgrp()
        child.die_with_parent()

    def start(self):
        command = self._command()
        with open(self.socket("command"), "w", encoding="utf-8") as f:
            f.write("\n".join(command) + "\n")
        with open(self.file(".qemu"), "wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=errors,
                stderr=errors, preexec_fn=self._in_the_child,
                env=dict(os.environ, TMPDIR="/var/tmp",
                         XDG_RUNTIME_DIR=self.run.directory))
        self.started = time.monotonic()

    def ended(self):
        return self.process.poll() is not None

    def kill(self):
        if not self.ended():
            self.process.kill()
        self.process.wait()

    # ---- the result ------------------------------------------------------

    def status(self):
        """The script's exit status, or None when there is none."""
        try:
            with open(self.file(".rc"), encoding="ascii") as f:
                return int(f.read())
        except (OSError, ValueError):
            return None

    def errors(self):
        """What QEMU itself said, without the device's traces."""
        with open(self.file(".qemu"), encoding="utf-8",
                  errors="replace") as f:
            return "".join(line for line in f
                           if not line.startswith("rnic_")).strip()

    def _text(self, suffix):
        try:
            with open(self.file(suffix), encoding="utf-8",
                      errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    def console_text(self):
        return self._text(".console")

    def has_kernel_text(self):
        return os.path.exists(self.file(".kernel"))

    def kernel_text(self):
        """
        All that its kernel said: its log, as far as the guest could collect it,
        and what only the console has, as it came later.
        """
        log = self._text(".kernel")
        if not log:
            return self.console_text()
        there = set(log.split("\n"))
        later = [line for line in
                 self.console_text().replace("\r", "").split("\n")
                 if line not in there]
        return log + "\n".join(later)
