# SPDX-License-Identifier: GPL-2.0-or-later
#
# What is measured. A step is one line for the guests ("NAME KIND ARGUMENTS", see
# guest/steps.inc) or one call of raw-llp, and gives one figure or more. To add a
# case, add its step to STEPS and, if it is a new kind, its figures to results.py.

"""The cases of the benchmark."""

import collections

SIZES = {"64b": 64, "4k": 4096, "64k": 65536, "1m": 1 << 20}

RNIC = ("rnic_tcp", "rnic_unix")
SOFTWARE = ("siw", "rxe")
RAW = ("raw_tcp", "raw_unix")
VARIANTS = RNIC + SOFTWARE + RAW

# What a step wants of the devices, beside what they are without options: vm-run's.
# A capture is a ring of files, so that it does not fill the disk, and has the device's
# own capture-rate, which vm-run leaves out.
DEVICES = {
    "": [],
    "crc": ["--device-opts", "mpa-crc=on"],
    "capture": ["--capture", "--device-opts", "capture-size=64M,capture-files=2,"
                "capture-rate=64M"],
}

IDLE_MANY = 1000    # QPs beside an active one, and to weigh one
IDLE_FEW = 100      # QPs while the processor time is taken

# How often a session runs a step whose figures the targets compare: such a figure
# may be twice as large when Linux happens to put the two data threads on two
# processors, and it takes many samples until a median is no longer one of chance.
AGAIN = 3

# Of a case of latency: a second or so. After a few hundred Linux still moves the
# threads between the processors, and the median would be that of a moment.
ROUND_TRIPS = 20000


class Step:
    """
    words: for the guests; raw: for raw-llp or None; quick: in that mode; times:
    how often in a session, of rnic and of the sockets alone.
    """

    def __init__(self, name, words, raw=None, quick=False, device="",
                 only=VARIANTS, times=1):
        self.name = name
        self.words = words
        self.raw = raw
        self.quick = quick
        self.device = device    # one of DEVICES
        self.only = only
        self.times = times
        # Whether a figure tells how fast data goes from thread to thread.
        self.moves_data = raw is not None or words.split()[0] in (
            "perftest", "beside", "load")


# A step's turn in a session. name: one of its own, as files are named so.
Run = collections.namedtuple("Run", "name step")


def _bandwidth(operation, size, more="", **how):
    return (f"perftest ib_{operation}_bw -s {SIZES[size]} -D @D -f 1 {more}"
            .strip())


def _raw_bandwidth(size):
    return ["bandwidth", str(SIZES[size]), "@D"]


def _steps():
    # First: later QEMU has memory that it got for other queue pairs.
    yield Step("idle_memory", f"memory {IDLE_MANY}", only=RNIC)
    for size in SIZES:
        for operation in ("write", "read", "send"):
            yield Step(f"{operation}_bw_{size}", _bandwidth(operation, size),
                       _raw_bandwidth(size),
                       quick=size in ("64b", "1m") or operation == "write",
                       times=AGAIN if size == "1m" or (operation, size) ==
                       ("write", "64k") else 1)
    # perftest knows no duration together with events.
    yield Step("send_bw_1m_event",
               f"perftest ib_send_bw -s {SIZES['1m']} -n @N -e",
               _raw_bandwidth("1m"), quick=True, times=AGAIN)
    for operation in ("write", "send", "read"):
        yield Step(f"{operation}_lat_8b",
                   f"perftest ib_{operation}_lat -s 8 -n @L",
                   ["latency", "8", str(ROUND_TRIPS)]
                   if operation != "read" else None,
                   quick=operation == "write",
                   times=AGAIN if operation == "write" else 1)
    yield Step("write_bw_64k_q16", _bandwidth("write", "64k", "-q 16"),
               quick=True, times=AGAIN)
    # Of the caches too: 16 MiB of buffers at each end, where one QP has 1 MiB.
    yield Step("write_bw_1m_q16", _bandwidth("write", "1m", "-q 16"),
               only=RNIC, times=AGAIN)
    yield Step("write_bw_64k_q64", _bandwidth("write", "64k", "-q 64"))
    yield Step("qps_16", "load -q 16 -s 64k -t @D", quick=True, times=AGAIN)
    yield Step("write_bw_64k_beside_1000",
               f"beside {IDLE_MANY} ib_write_bw -s 65536 -D @D -f 1",
               times=AGAIN)
    for operation in ("write", "send"):
        yield Step(f"{operation}_bw_1m_crc", _bandwidth(operation, "1m"),
                   quick=True, device="crc", only=RNIC, times=AGAIN)
    for size in ("64k", "1m"):
        yield Step(f"write_bw_{size}_capture", _bandwidth("write", size),
                   quick=True, device="capture", only=RNIC, times=AGAIN)
    yield Step("connect_rate", "churn 100", ["connect", "2000"], quick=True)
    yield Step("register_1g", "register -s 1024M")
    yield Step("idle_cpu", f"idle {IDLE_FEW}", quick=True)


STEPS = list(_steps())


def turns(quick, variant, step):
    """How often a session of variant runs step."""
    return 1 if quick or variant in SOFTWARE else step.times


def chosen(quick, pattern, variant, device, how_often):
    """
    The runs of a session of variant: all steps once, then those of more times
    again, so that a step's runs are far from each other.
    how_often(variant, step): a number of times.
    """
    steps = [(s, how_often(variant, s)) for s in STEPS
             if s.device == device and variant in s.only and
             (s.quick or not quick) and (s.raw or variant not in RAW) and
             pattern.search(s.name)]
    most = max((times for _, times in steps), default=0)
    return [Run(s.name if turn == 1 else f"{s.name}-{turn}", s)
            for turn in range(1, most + 1)
            for s, times in steps if turn <= times]


def line(run, variant, seconds):
    """
    @D: how long; @N: how many messages that takes, or nearly; @L: round trips,
    fewer of what takes ten times as long for each.
    """
    software = variant in SOFTWARE
    return (f"{run.name} {run.step.words}".replace("@D", str(seconds))
            .replace("@N", str((25 if software else 4000) * seconds))
            .replace("@L", str(ROUND_TRIPS // 10 if software
                               else ROUND_TRIPS)))


def raw_arguments(step, seconds):
    return [word.replace("@D", str(seconds)) for word in step.raw]
