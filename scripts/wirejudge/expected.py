# SPDX-License-Identifier: GPL-2.0-or-later
#
# The file wire of a test: what the test has on its wire that is not there by default.
# qtest/README.md has its lines.

"""Reads what a test announces."""

import os
import re
import typing

from . import messages

PEER = "peer"
# What a program that is killed may cause: Linux takes its memory regions away before its
# queue pairs, so that a Write, a Read (RFC 5041 7.1, RFC 5040 4.8: Invalid STag) or a
# WR of its own (RDMAC verbs 6.4) meets none; or its connection is closed while the other
# end has work under way (6.2.2.2: Bad LLP Close).
OF_A_KILL = (0x1100, 0x0100, 0x0000, 0x0207)
COUNT = re.compile(r"(\d+)(\+|-(\d+))?")
CODE = re.compile(r"[0-2]/[0-3]/[0-9a-f]{2}")


class Refused(Exception):
    """The file cannot be read."""


class Rule(typing.NamedTuple):
    """So many of one kind, of all these senders together."""

    senders: tuple
    kind: int                   # an opcode, or a Terminate's code
    least: int
    most: typing.Optional[int]

    def count_text(self):
        if self.most is None:
            return f"{self.least} or more"
        return str(self.least) if self.most == self.least else \
            f"{self.least} to {self.most}"


class Expected:
    """What the lines say."""

    def __init__(self):
        self.terminates = []
        self.messages = []
        self.killed = []            # rules without a kind
        self.hostile = set()
        self.cut = set()
        self.logs = []

    def _add(self, rules, rule):
        for old in rules:
            if old.kind == rule.kind and set(old.senders) & set(rule.senders):
                raise Refused("these are announced already")
        rules.append(rule)

    def take(self, words, guests):
        """One line."""
        verb, *rest = words
        if verb == "terminate" and len(rest) == 3:
            self._add(self.terminates, Rule(_senders(rest[0], guests), _code(rest[1]),
                                            *_count(rest[2])))
        elif verb == "message" and len(rest) == 3:
            self._add(self.messages, Rule(_senders(rest[0], guests), _opcode(rest[1]),
                                          *_count(rest[2])))
        elif verb == "killed" and len(rest) == 2:
            self._add(self.killed, Rule(_senders(rest[0], guests), 0, 0,
                                        _count(rest[1])[1]))
        elif verb == "hostile" and len(rest) == 1:
            if rest[0] != PEER:
                raise Refused(f"only {PEER} may be hostile")
            self.hostile.add(PEER)
        elif verb == "cut" and len(rest) == 1:
            self.cut.update(_senders(rest[0], guests))
        elif verb == "log" and len(rest) == 1 and "/" not in rest[0]:
            self.logs.append(rest[0])
        else:
            raise Refused("no such line")


def _senders(text, guests):
    names = tuple(text.split(","))
    for name in names:
        if name != PEER and name not in guests:
            raise Refused(f"{name} is no guest")
    return names


def _code(text):
    if not CODE.fullmatch(text):
        raise Refused(f"{text} is no LAYER/TYPE/CODE")
    return messages.code_of(text)


def _opcode(text):
    if text not in messages.NAMES or text == "Terminate":
        raise Refused(f"{text} is none of the messages")
    return messages.NAMES.index(text)


def _count(text):
    m = COUNT.fullmatch(text)
    if not m or text == "0":
        raise Refused(f"{text} is none of N, N+, N-M")
    least = int(m[1])
    most = None if m[2] == "+" else int(m[3]) if m[3] else least
    if most is not None and most < max(least, 1):
        raise Refused(f"{text} is an empty range")
    return least, most


def read(path, guests):
    """Without a file: nothing out of the ordinary."""
    expected = Expected()
    if not os.path.exists(path):
        return expected
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = line.split("#")[0].split()
            try:
                if words:
                    expected.take(words, guests)
            except Refused as why:
                raise Refused(f"{path}:{number}: {why}") from None
    return expected
