# SPDX-License-Identifier: GPL-2.0-or-later
#
# Two adapters have captured the two ends of a connection: what one has sent the other has
# received, all of it if it has the other's FIN, else the begin of it.

"""Compares the two ends of connections."""

import collections

from . import messages


def _by_ends(adapter):
    """(stream, whether it is all there), in their order."""
    found = collections.defaultdict(list)
    for capture in adapter.captures:
        newest = capture is adapter.captures[-1]
        for stream in capture.streams.all:
            whole = stream.is_whole() and (newest or stream.has_ended())
            found[stream.ends].append((stream, whole and not capture.blocks.is_cut))
    return found


def _text(ends):
    return " to ".join(f"{address}:{port}" for address, port in ends)


def _compare(sent, received):
    """What is wrong with one direction, or None."""
    if received.octets > sent.octets or received.opcodes - sent.opcodes:
        return "more was received than sent"
    if received.finished and received.octets != sent.octets:
        return f"{sent.octets} octets were sent, {received.octets} received"
    if received.finished and received.opcodes != sent.opcodes:
        return "other messages were received than sent"
    return None


def _pairs(site):
    for number, one in enumerate(site.adapters):
        for other in site.adapters[number + 1:]:
            ours, theirs = _by_ends(one), _by_ends(other)
            for ends in ours.keys() & theirs.keys():
                # Of connections that one end alone has seen it is not known which.
                if len(ours[ends]) == len(theirs[ends]):
                    yield from ((one, other, *pair)
                                for pair in zip(ours[ends], theirs[ends]))


def between_adapters(site):
    """How many ends have been captured of connections to another adapter."""
    return sum(1 for one in site.adapters for capture in one.captures
               for stream in capture.streams.all
               if any(address in other.own for other in site.adapters if other is not one
                      for address, _ in stream.ends))


def disagreements(site):
    """(how many connections have been compared, texts)"""
    compared, texts = 0, []
    for one, other, (ours, whole), (theirs, also_whole) in _pairs(site):
        if not (whole and also_whole):
            continue
        compared += 1
        for number in (0, 1):
            sender_first = bool(ours.outbound) == (number == 0)
            sent, received = (ours, theirs) if sender_first else (theirs, ours)
            why = _compare(sent.ways[number], received.ways[number])
            if why:
                ends = ours.ends if number == 0 else ours.ends[::-1]
                texts.append(f"{one.name}, {other.name}: {_text(ends)}: {why}")
    return compared, texts


def counts(counter):
    """As text."""
    return ", ".join(
        f"{messages.NAMES[op] if op < len(messages.NAMES) else f'opcode {op}'} {n}"
        for op, n in sorted(counter.items())) or "nothing"
