# SPDX-License-Identifier: GPL-2.0-or-later
#
# The Ethernet between the guests. Every adapter is a QEMU dgram netdev on a
# pair of Unix sockets; two adapters are wired to each other, more go through a
# small learning switch that runs in a thread here. It never waits long for a
# guest that has stopped reading and survives guests that end.

"""Connects QEMU dgram netdevs."""

import os
import selectors
import socket
import threading

SEND_PATIENCE = 0.02
FRAME_MAX = 70000
BUFFER = 4 << 20


class Switch:
    """Ports are numbered from 0; each has a guest side and a switch side."""

    def __init__(self, directory, name, ports):
        self.base = os.path.join(directory, name)
        self.ports = ports
        self.stations = {}
        self.sockets = []
        if ports > 2:
            self._start()

    def _guest(self, port):
        return f"{self.base}.{port}"

    def _far(self, port):
        """Where a guest's frames go: to the other guest or to the switch."""
        if self.ports == 2:
            return self._guest(1 - port)
        return f"{self.base}.{port}.switch"

    def netdev(self, port, ident):
        return (f"dgram,id={ident},local.type=unix,"
                f"local.path={self._guest(port)},remote.type=unix,"
                f"remote.path={self._far(port)}")

    def _start(self):
        for port in range(self.ports):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            sock.bind(self._far(port))
            sock.settimeout(SEND_PATIENCE)
            self.sockets.append(sock)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        selector = selectors.DefaultSelector()
        for port, sock in enumerate(self.sockets):
            selector.register(sock, selectors.EVENT_READ, port)
        while True:
            for key, _ in selector.select():
                self._frame(key.data)

    def _frame(self, port):
        try:
            frame = self.sockets[port].recv(FRAME_MAX)
        except OSError:
            return
        if len(frame) < 14:
            return
        self.stations[frame[6:12]] = port
        known = self.stations.get(frame[0:6])
        for other in range(self.ports):
            if other != port and known in (None, other):
                self._send(other, frame)

    def _send(self, port, frame):
        try:
            self.sockets[port].sendto(frame, self._guest(port))
        except OSError:
            pass  # not started yet, ended, or too slow: Ethernet may lose
