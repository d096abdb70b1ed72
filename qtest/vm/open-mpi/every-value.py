# SPDX-License-Identifier: GPL-2.0-or-later
#
# every-value.py STEP...: an MPI program of any number of processes: a ring, and an
# allreduce, with every value checked. The first process prints what was done.

"""Checks what MPI moves."""

import array
import sys

from mpi4py import MPI

# Octets of a message; the longer ones are moved by RDMA.
LENGTHS = (8, 4096, 1 << 20)
ROUNDS = 10

world = MPI.COMM_WORLD
rank = world.Get_rank()
size = world.Get_size()


def values(length, owner, turn):
    """What process OWNER sends in TURN."""
    return array.array("q", (owner << 48 | turn << 32 | i
                             for i in range(length // 8)))


def check(what, got, expected):
    if got != expected:
        print(f"process {rank}: {what}: a value is wrong", file=sys.stderr)
        world.Abort(1)


def ring(length):
    left, right = (rank - 1) % size, (rank + 1) % size
    for turn in range(ROUNDS):
        got = array.array("q", bytes(length))
        world.Sendrecv(values(length, rank, turn), right, 0, got, left, 0)
        check("ring", got, values(length, left, turn))


def allreduce(length):
    for turn in range(ROUNDS):
        got = array.array("q", bytes(length))
        world.Allreduce(values(length, rank, turn), got, MPI.SUM)
        total = sum(range(size)) << 48
        check("allreduce", got, array.array(
            "q", (total + size * (turn << 32 | i)
                  for i in range(length // 8))))


STEPS = {"ring": ring, "allreduce": allreduce}

for octets in LENGTHS:
    for step in (STEPS[name] for name in sys.argv[1:]):
        step(octets)
        world.Barrier()
        if rank == 0:
            print(f"{step.__name__} of {octets} octets: all right",
                  flush=True)
