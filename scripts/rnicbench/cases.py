# SPDX-License-Identifier: GPL-2.0-or-later
#
# What is measured. A step is one line for the guests ("NAME KIND ARGUMENTS", see
# guest/steps.inc) or one call of raw-llp, and gives one figure or more. To add a
# case, add its step to STEPS and, if it is a new kind, its figures to results.py.

"""The cases of the benchmark."""

SIZES = {"64b": 64, "4k": 4096, "64k": 65536, "1m": 1 << 20}

RNIC = ("rnic_tcp", "rnic_unix")
SOFTWARE = ("siw", "rxe")
RAW = ("raw_tcp", "raw_unix")
VARIANTS = RNIC + SOFTWARE + RAW

IDLE_MANY = 1000    # QPs beside an active one, and to weigh one
IDLE_FEW = 100      # QPs while the processor time is taken


class Step:
    """words: for the guests; raw: for raw-llp or None; quick: in that mode."""

    def __init__(self, name, words, raw=None, quick=False, crc=False,
                 only=VARIANTS):
        self.name = name
        self.words = words
        self.raw = raw
        self.quick = quick
        self.crc = crc          # with a device that demands CRC
        self.only = only


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
                       quick=size in ("64b", "1m") or operation == "write")
    # perftest knows no duration together with events.
    yield Step("send_bw_1m_event",
               f"perftest ib_send_bw -s {SIZES['1m']} -n @N -e",
               _raw_bandwidth("1m"), quick=True)
    for operation in ("write", "send", "read"):
        yield Step(f"{operation}_lat_8b",
                   f"perftest ib_{operation}_lat -s 8 -n 1000",
                   ["latency", "8", "20000"] if operation != "read" else None,
                   quick=operation == "write")
    yield Step("write_bw_64k_q16", _bandwidth("write", "64k", "-q 16"),
               quick=True)
    yield Step("write_bw_64k_q64", _bandwidth("write", "64k", "-q 64"))
    yield Step("qps_16", "load -q 16 -s 64k -t @D", quick=True)
    yield Step("write_bw_64k_beside_1000",
               f"beside {IDLE_MANY} ib_write_bw -s 65536 -D @D -f 1")
    for operation in ("write", "send"):
        yield Step(f"{operation}_bw_1m_crc", _bandwidth(operation, "1m"),
                   quick=True, crc=True, only=RNIC)
    yield Step("connect_rate", "churn 100", ["connect", "2000"], quick=True)
    yield Step("register_1g", "register -s 1024M")
    yield Step("idle_cpu", f"idle {IDLE_FEW}", quick=True)


STEPS = list(_steps())


def chosen(quick, pattern, variant, crc=False):
    """The steps that variant runs."""
    return [s for s in STEPS if s.crc == crc and variant in s.only and
            (s.quick or not quick) and pattern.search(s.name)]


def line(step, variant, seconds):
    """@D: how long; @N: how many messages that takes, or nearly."""
    number = 25 if variant in SOFTWARE else 4000
    return (f"{step.name} {step.words}".replace("@D", str(seconds))
            .replace("@N", str(number * seconds)))


def raw_arguments(step, seconds):
    return [word.replace("@D", str(seconds)) for word in step.raw]
