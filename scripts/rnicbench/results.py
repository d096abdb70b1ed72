# SPDX-License-Identifier: GPL-2.0-or-later
#
# The figures in what the measuring programs print. A function per kind of step
# takes the text and yields (case, value); units and directions are in FIGURES.

"""Reads the figures of a step."""

import re

# What a case's name ends or begins with: unit, whether more is better.
UNITS = [
    (r"_bw_", "MiB/s", True),
    (r"_rate_", "messages/s", True),
    (r"_lat_", "us", False),
    (r"^connect_rate$", "connections/s", True),
    (r"^(de)?register_", "ms", False),
    (r"^qps_16_total$", "MiB/s", True),
    (r"^qps_16_least$", "of a fair share", True),
    (r"^idle_memory$", "KiB per QP", False),
    (r"^idle_cpu", "% of a core", False),
]


def unit_of(case):
    for pattern, unit, higher in UNITS:
        if re.search(pattern, case):
            return unit, higher
    raise KeyError(case)


def _table_line(text):
    """The numbers below perftest's last line of headings."""
    lines = text.splitlines()
    at = [i for i, l in enumerate(lines) if l.strip().startswith("#bytes")]
    if not at or at[-1] + 1 >= len(lines):
        return []
    return re.findall(r"[-\d.]+", lines[at[-1] + 1])


def _perftest(name, text):
    numbers = _table_line(text)
    if "_lat_" in name:
        if len(numbers) >= 5:
            yield name, float(numbers[4])       # typical: the median
    elif len(numbers) >= 5 and float(numbers[3]) > 0:
        yield name, float(numbers[3])
        yield name.replace("_bw_", "_rate_"), 1e6 * float(numbers[4])


def _load(name, text):
    found = re.search(r": ([\d.]+) MiB/s together, least ([\d.]+)", text)
    if found:
        yield name + "_total", float(found.group(1))
        yield name + "_least", float(found.group(2))


def _churn(name, text):
    found = re.search(r"(\d+) connections in ([\d.]+) s", text)
    if found and float(found.group(2)):
        yield name, int(found.group(1)) / float(found.group(2))


def _register(name, text):
    found = re.search(r"registered in ([\d.]+) ms, deregistered in ([\d.]+)",
                      text)
    if found:
        yield name, float(found.group(1))
        yield "de" + name, float(found.group(2))


def _of_host(figures):
    """What guest/host says: the larger of the two sides counts."""
    def read(_name, text):
        for case, what in figures.items():
            found = re.search(what + ": (.*)", text)
            if found:
                yield case, max(float(v) for v in found.group(1).split())
    return read


KINDS = {"perftest": _perftest, "beside": _perftest, "load": _load,
         "churn": _churn, "register": _register,
         "memory": _of_host({"idle_memory": "KiB per QP"}),
         "idle": _of_host({"idle_cpu": "processor per cent",
                           "idle_cpu_no_qps": "quiet per cent"})}


def of_guests(step, text):
    """[(case, value)...]"""
    return list(KINDS[step.words.split()[0]](step.name, text))


def of_raw(step, text):
    """[(case, value)...]"""
    numbers = [float(n) for n in re.findall(r"[\d.]+", text)]
    found = [(step.name, n) for n in numbers[:1]]
    if "_bw_" in step.name:
        found += [(step.name.replace("_bw_", "_rate_"), n)
                  for n in numbers[1:2]]
    return found
