# SPDX-License-Identifier: GPL-2.0-or-later
#
# The results as a file, as a table for people, and measured against what the
# project wants of itself. A target is a line of _targets().

"""Reports."""

import json
import os
import platform
import time

from . import cases, results


def objects(medians):
    """What bench.json holds: a list, in the order of the steps."""
    table = []
    for case in sorted(medians, key=_order):
        unit, higher = results.unit_of(case)
        row = {"case": case, "unit": unit, "higher_is_better": higher}
        row.update({v: medians[case].get(v) for v in cases.VARIANTS})
        table.append(row)
    return table


def _order(case):
    plain = case.replace("_rate_", "_bw_").removeprefix("de")
    for i, step in enumerate(cases.STEPS):
        if plain == step.name or plain.startswith(step.name + "_"):
            return i, "_rate_" in case, case
    return len(cases.STEPS), False, case


# --------------------------------------------------------------- targets

class Figures:
    """Looks up figures; what is missing is None and stays None."""

    def __init__(self, table):
        self.rows = {row["case"]: row for row in table}

    def get(self, case, variant):
        return self.rows.get(case, {}).get(variant)

    def ratio(self, one, other):
        a, b = self.get(*one), self.get(*other)
        return a / b if a is not None and b else None


def _at_least(limit, *pair):
    return lambda f: (f.ratio(*pair), limit, True)


def _at_most(limit, *pair):
    return lambda f: (f.ratio(*pair), limit, False)


def _value(limit, case, variant, higher):
    return lambda f: (f.get(case, variant), limit, higher)


def _sixteen(variant):
    """Writes of 16 QPs together against the best of one, of whatever size."""
    def check(figures):
        one, many = (
            [figures.get(f"write_bw_{size}{more}", variant) or 0
             for size in cases.SIZES] for more in ("", "_q16"))
        known = max(one) and max(many)
        return (max(many) / max(one) if known else None, 0.9, True)
    return check


def _targets():
    raws = {"rnic_tcp": "raw_tcp", "rnic_unix": "raw_unix"}
    share = {"rnic_tcp": 0.6, "rnic_unix": 0.4}
    event = {"rnic_tcp": 0.8, "rnic_unix": 0.6}
    for v in cases.RNIC:
        yield (f"1 MiB Send by events, {v} / {raws[v]}",
               _at_least(event[v], ("send_bw_1m_event", v),
                         ("send_bw_1m_event", raws[v])))
        for op in ("write", "send"):
            yield (f"1 MiB {op.capitalize()}, {v} / {raws[v]}",
                   _at_least(share[v], (f"{op}_bw_1m", v),
                             (f"{op}_bw_1m", raws[v])))
    for op in ("write", "send"):
        yield (f"1 MiB {op.capitalize()}, rnic_unix / rnic_tcp",
               _at_least(1.5, (f"{op}_bw_1m", "rnic_unix"),
                         (f"{op}_bw_1m", "rnic_tcp")))
    for v in cases.RNIC:
        yield (f"1 MiB Read / Write, {v}",
               _at_least(0.7, ("read_bw_1m", v), ("write_bw_1m", v)))
    tcp = "rnic_tcp"
    yield ("4 KiB Write, rnic_tcp / siw",
           _at_least(20, ("write_bw_4k", tcp), ("write_bw_4k", "siw")))
    yield ("64 B Write messages, rnic_tcp / siw",
           _at_least(10, ("write_rate_64b", tcp), ("write_rate_64b", "siw")))
    yield ("8 B Write latency, rnic_tcp / siw",
           _at_most(0.5, ("write_lat_8b", tcp), ("write_lat_8b", "siw")))
    yield ("8 B Write latency, rnic_tcp / raw_tcp",
           _at_most(5, ("write_lat_8b", tcp), ("write_lat_8b", "raw_tcp")))
    for v in cases.RNIC:
        yield f"16 QPs' Writes together / the best of one's, {v}", _sixteen(v)
        yield (f"16 QPs' 64 KiB Writes together / one's, {v}",
               _at_least(0.9, ("write_bw_64k_q16", v), ("write_bw_64k", v)))
        yield (f"the least of 16 QPs, of its fair share, {v}",
               _value(0.5, "qps_16_least", v, True))
        yield (f"one QP beside 1,000 idle ones / alone, {v}",
               _at_least(0.9, ("write_bw_64k_beside_1000", v),
                         ("write_bw_64k", v)))
        yield (f"KiB of QEMU for an idle connected QP, {v}",
               _value(16, "idle_memory", v, False))
        yield (f"1 MiB Write with CRC / without, {v}",
               _at_least(0.6, ("write_bw_1m_crc", v), ("write_bw_1m", v)))
        for size, name in (("64k", "64 KiB"), ("1m", "1 MiB")):
            yield (f"{name} Write while it is captured / while not, {v}",
                   _at_least(0.5, (f"write_bw_{size}_capture", v),
                             (f"write_bw_{size}", v)))
        yield (f"% of a core of QEMU with 100 idle QPs, {v}",
               _value(2, "idle_cpu", v, False))


def check(table):
    """(text, value or None, limit, higher, holds or None) of each target."""
    figures = Figures(table)
    for text_, look in _targets():
        value, limit, higher = look(figures)
        holds = None
        if value is not None:
            holds = value >= limit if higher else value <= limit
        yield text_, value, limit, higher, holds


# ----------------------------------------------------------------- table

def _number(value):
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}"


RATIOS = [("tcp/raw", "rnic_tcp", "raw_tcp"),
          ("unix/raw", "rnic_unix", "raw_unix"),
          ("unix/tcp", "rnic_unix", "rnic_tcp"),
          ("tcp/siw", "rnic_tcp", "siw"), ("tcp/rxe", "rnic_tcp", "rxe")]


def _row(row):
    cells = [f"{row['case']:<26} {row['unit']:<16}"]
    cells += [f"{_number(row[v]):>10}" for v in cases.VARIANTS]
    for _, one, other in RATIOS:
        a, b = row[one], row[other]
        cells.append(f"{_number(a / b if a is not None and b else None):>8}")
    return " ".join(cells)


def text(table):
    heads = [f"{'case':<26} {'unit':<16}"]
    heads += [f"{v:>10}" for v in cases.VARIANTS]
    heads += [f"{name:>8}" for name, _, _ in RATIOS]
    lines = [" ".join(heads)] + [_row(row) for row in table]
    lines += ["", "targets (of this run):"]
    for what, value, limit, higher, holds in check(table):
        verdict = {True: "holds", False: "DOES NOT HOLD",
                   None: "not measured"}[holds]
        sign = ">=" if higher else "<="
        lines.append(f"  {what:<52} {_number(value):>8} {sign} {limit:<4} "
                     f"{verdict}")
    return "\n".join(lines)


def distance_text(samples, everything):
    """everything: the table in which all figures count."""
    total, far, counted = samples.numbers()
    told = (f"{samples.distance.text()}. Of {total} figures {far} were taken at "
            f"such times; {counted} of these count, for want of others.")
    if far == counted:
        return told
    missed = [what for what, _, _, _, holds in check(everything)
              if holds is False]
    return told + "\nIf all counted, " + (
        f"{len(missed)} target(s) would not hold: {'; '.join(missed)}."
        if missed else "every measured target would hold.")


def _machine(options):
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return (f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} x {model}, "
            f"Linux {platform.release()}; guests with {options.cpus} virtual "
            f"processor(s); medians of {options.rounds} "
            f"round(s), {options.seconds} s each, siw and rxe "
            f"{options.seconds_of('siw')} s" +
            ("" if options.quick else f"; what the targets compare, of rnic "
             f"and of sockets, {cases.AGAIN} times in each round") + "\n")


def write_samples(path, values):
    """values: of Samples.values()."""
    with open(path + "-samples.json", "w", encoding="ascii") as f:
        json.dump(values, f, indent=1)
        f.write("\n")


def write(path, table, told, options):
    with open(path + ".json", "w", encoding="ascii") as f:
        json.dump(table, f, indent=1)
        f.write("\n")
    with open(path + ".txt", "w", encoding="utf-8") as f:
        f.write(_machine(options) + "\n" + told + "\n")
