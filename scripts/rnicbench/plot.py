# SPDX-License-Identifier: GPL-2.0-or-later
#
# The results as a picture, drawn by gnuplot: bandwidth over the size of messages
# for each operation, and the latencies.

"""Writes an SVG."""

import os
import subprocess
import tempfile

from . import cases

TITLES = {"rnic_tcp": "rnic, TCP", "rnic_unix": "rnic, UNIX", "siw": "siw",
          "rxe": "rxe", "raw_tcp": "TCP alone", "raw_unix": "UNIX alone"}


def _curves(rows, operation):
    """Blocks of (size, MiB/s), one for each variant that has any."""
    for variant in cases.VARIANTS:
        points = [(octets, rows.get(f"{operation}_bw_{size}", {}).get(variant))
                  for size, octets in cases.SIZES.items()]
        points = [(x, y) for x, y in points if y]
        if points:
            yield variant, points


def _data(name, points):
    lines = "\n".join(f"{x} {y}" for x, y in points)
    return f"${name} << EOD\n{lines}\nEOD\n"


def _bandwidth(rows, operation):
    data, plots = "", []
    for variant, points in _curves(rows, operation):
        name = f"{operation}_{variant}"
        data += _data(name, points)
        plots.append(f"${name} using 1:2 with linespoints "
                     f"title '{TITLES[variant]}'")
    if not plots:
        return ""
    return (data + f"set title 'RDMA {operation.capitalize()}'\n"
            "set logscale xy\nset xlabel 'octets of a message'\n"
            "set ylabel 'MiB/s'\nplot " + ", ".join(plots) + "\n"
            "unset logscale\n")


def _latency(rows):
    bars = []
    for case in ("write_lat_8b", "send_lat_8b"):
        bars += [(f'"{case.split("_")[0]}, {TITLES[v]}"', rows[case][v])
                 for v in cases.VARIANTS if case in rows and rows[case].get(v)]
    if not bars:
        return ""
    return (_data("latency", bars) + "set title 'latency of 8 octets'\n"
            "set ylabel 'us'\nunset xlabel\nset logscale y\n"
            "set xtics rotate by -40\nset style fill solid 0.5\n"
            "set boxwidth 0.8\n"
            "plot $latency using 0:2:xtic(1) with boxes notitle\n")


def write(path, table):
    rows = {row["case"]: row for row in table}
    script = ("set terminal svg size 1200,900 dynamic background 'white'\n"
              f"set output '{path}.svg'\nset key left top\nset grid\n"
              "set multiplot layout 2,2\n")
    script += "".join(_bandwidth(rows, o) for o in ("write", "read", "send"))
    script += _latency(rows) + "unset multiplot\n"
    with tempfile.NamedTemporaryFile("w", suffix=".gnuplot") as f:
        f.write(script)
        f.flush()
        subprocess.run(["gnuplot", f.name], check=True,
                       env=dict(os.environ, LC_ALL="C"))
