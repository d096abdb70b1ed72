# SPDX-License-Identifier: GPL-2.0-or-later
#
# A test's captures against what the test announces: faults, Terminates, messages of RFC
# 7306, the log of a peer, both ends.

"""What is wrong with the wire of a test."""

import collections
import os
import re

from . import ends, messages
from .expected import OF_A_KILL, PEER
from .messages import code_of, code_text

# Sent before a queue pair has the stream: the device does not trace these.
OF_START_UP = (0x2006, 0x2007)
LOGGED = re.compile(r"^# Terminate (\S+) received at port (\d+)$", re.M)


def _rule(rules, sender, kind=0):
    return next((r for r in rules if r.kind == kind and sender in r.senders), None)


class Verdict:
    """faults and notes, as texts."""

    def __init__(self, site, expected, directory):
        self.site = site
        self.expected = expected
        self.directory = directory
        self.notes = []
        self.faults = []
        self._judge_files()
        self._judge_captures()
        self._collect_terminates()
        self._judge_log()
        self._judge_terminates()
        self._judge_traces()
        self._judge_messages()
        self._compare_ends()

    def _compare_ends(self):
        compared, texts = ends.disagreements(self.site)
        self.notes.append(f"{compared} connections with both ends captured agree"
                          if not texts else f"{compared} connections compared")
        left = ends.between_adapters(self.site) - 2 * compared
        if left:
            self.notes.append(f"{left} ends of connections between adapters are not "
                              "compared")
        self.faults += texts

    # ---- each file -------------------------------------------------------

    def _judge_files(self):
        for guest, file in self.site.without_capture():
            self.faults.append(f"{guest} has an adapter, but there is no {file}")
        for adapter in self.site.adapters:
            is_cut = any(c.blocks.is_cut for c in adapter.captures)
            if is_cut and adapter.guest not in self.expected.cut:
                self.faults.append(f"{adapter.name} has no end")
        for guest in self.expected.cut:
            if not any(c.blocks.is_cut for a in self.site.of_guest(guest)
                       for c in a.captures):
                self.faults.append(f"no file of {guest} is cut, as announced")

    def _judge_captures(self):
        for adapter in self.site.adapters:
            for capture in adapter.captures:
                for fault in capture.faults:
                    sender = self.site.sender(adapter, fault)
                    if sender in self.expected.hostile or \
                            fault.partial and sender in self.expected.cut:
                        continue
                    self.faults.append(f"{fault} (from {sender})")

    # ---- Terminates ------------------------------------------------------

    def _collect_terminates(self):
        """By sender: the sender's file is the best witness, others' are the next."""
        self.own = collections.defaultdict(list)
        self.others = collections.defaultdict(list)
        for adapter in self.site.adapters:
            for capture in adapter.captures:
                for t in capture.terminates:
                    sender = self.site.sender(adapter, t)
                    own = sender == adapter.guest
                    (self.own if own else self.others)[sender].append(t)

    def _senders(self):
        return sorted({*self.own, *self.others, *self.site.guests})

    def _seen(self, sender):
        """Terminates of a sender, each once."""
        own, others = self.own[sender], self.others[sender]
        return own if self.site.is_complete(sender) or len(own) >= len(others) else others

    def _judge_log(self):
        """A peer's log announces what it has received, by the peer's port."""
        self.logged = collections.Counter()
        for name in self.expected.logs:
            path = os.path.join(self.directory, name)
            with open(path, encoding="utf-8", errors="replace") as f:
                self.logged.update((int(port), code) for code, port
                                   in LOGGED.findall(f.read()))
        there = collections.Counter(
            (t.target[1], code_text(t.code)) for sender in self._senders()
            for t in self._seen(sender))
        incomplete = any(a.lacks() for a in self.site.adapters)
        self.logged_only = collections.Counter()    # by code
        for (port, code), n in sorted((self.logged - there).items()):
            self.logged_only[code_of(code)] += n
            text = f"{n} Terminates {code} were received at port {port}, by the log"
            if incomplete:
                self.notes.append(f"{text}; not all was captured")
            else:
                self.faults.append(f"{text}, but are not there")
        if self.expected.logs:
            self.notes.append(f"{sum(self.logged.values())} Terminates by the log")

    def _not_logged(self, sender):
        """Each line of a log announces one."""
        left = self.logged.copy()
        for t in self._seen(sender):
            key = (t.target[1], code_text(t.code))
            if left[key]:
                left[key] -= 1
            else:
                yield t

    def _judge_terminates(self):
        captured, possible = collections.Counter(), collections.Counter()
        left = []                   # (sender, code, how many, Terminates)
        for sender in self._senders():
            if sender in self.expected.hostile:
                continue
            seen = list(self._not_logged(sender))
            codes = collections.Counter(t.code for t in seen)
            for code, n in (codes + self._not_captured(sender)).items():
                rule = _rule(self.expected.terminates, sender, code)
                if rule:
                    captured[rule] += codes[code]
                    possible[rule] += n
                else:
                    left.append((sender, code, n, seen))
        for rule in self.expected.terminates:
            self._judge_rule(rule, captured[rule], possible[rule], left)
        self._judge_left(left)

    def _not_captured(self, sender):
        """Of its trace, without those that a log announces."""
        if sender not in self.site.traces or self.site.is_complete(sender):
            return collections.Counter()
        rest = self.site.traces[sender].terminates - collections.Counter(
            t.code for t in self._seen(sender))
        logged = rest & self.logged_only
        self.logged_only -= logged
        return rest - logged

    def _judge_rule(self, rule, captured, possible, left):
        """More than a rule's most may be those of a kill."""
        more = captured - rule.most if rule.most is not None else 0
        if more > 0 and rule.kind in OF_A_KILL and \
                all(_rule(self.expected.killed, s) for s in rule.senders):
            left.append((rule.senders[0], rule.kind, more, []))
        elif more > 0 or possible < rule.least:
            self.faults.append(
                f"Terminate {code_text(rule.kind)} of {' or '.join(rule.senders)}: "
                f"{max(captured, possible)}, announced are {rule.count_text()}")

    def _judge_left(self, left):
        kills = collections.Counter()
        for sender, code, n, seen in left:
            rule = _rule(self.expected.killed, sender)
            if rule and code in OF_A_KILL:
                kills[rule] += n
            else:
                self._unannounced(sender, code, seen)
        for rule, n in kills.items():
            if rule.most is not None and n > rule.most:
                self.faults.append(f"{n} Terminates of {' or '.join(rule.senders)} may be "
                                   f"those of a kill, announced are {rule.most} at most")
            self.notes.append(f"{n} Terminates by a kill")

    def _unannounced(self, sender, code, seen):
        where = [f"{t.path} frame {t.frame}" for t in seen if t.code == code]
        self.faults.append(
            f"{sender} sends Terminate {code_text(code)}, which is not announced: " +
            (", ".join(where[:5]) + (", ..." if len(where) > 5 else "") if where
             else "by its trace; it is not in what was captured"))

    def _judge_traces(self):
        for guest, traces in self.site.traces.items():
            own = collections.Counter(t.code for t in self.own[guest]
                                      if t.code not in OF_START_UP)
            if not traces.has_adapter:
                continue
            for code, n in (own - traces.terminates).items():
                self.faults.append(f"{n} Terminates {code_text(code)} more are there "
                                   f"than {guest}'s QEMU has traced")
            more = traces.terminates - own
            for code, n in sorted(more.items()):
                why = "no octet of them was sent" if self.site.is_complete(guest) else \
                    "not all was captured"
                self.notes.append(f"{guest}: {n} Terminates {code_text(code)} by its "
                                  f"trace are not there: {why}")

    # ---- messages --------------------------------------------------------

    def _sent(self, sender):
        """By the sender's own files, or by others' if it has none."""
        total = collections.Counter()
        for adapter in self.site.of_guest(sender) or self.site.adapters:
            for capture in adapter.captures:
                for stream in capture.streams.all:
                    for number, way in enumerate(stream.ways):
                        if self.site.sender_of_way(adapter, stream, number) == sender:
                            total.update(way.opcodes)
        return total

    def _judge_messages(self):
        sent = {s: self._sent(s) for s in {*self.site.guests, PEER} -
                self.expected.hostile}
        rules = self.expected.messages
        for sender, counter in sorted(sent.items()):
            for op in messages.OF_RFC_7306:
                if counter[op] and not _rule(rules, sender, op):
                    self.faults.append(f"{sender} sends {counter[op]} "
                                       f"{messages.NAMES[op]}, not announced")
        for rule in rules:
            count = sum(sent.get(s, collections.Counter())[rule.kind]
                        for s in rule.senders)
            what = f"{messages.NAMES[rule.kind]} of {' or '.join(rule.senders)}"
            if rule.most is not None and count > rule.most:
                self.faults.append(f"{what}: {count}, announced are {rule.count_text()}")
            elif count < rule.least:
                text = f"{what}: {count}, announced are {rule.count_text()}"
                if all(self.site.is_complete(s) for s in rule.senders):
                    self.faults.append(text)
                else:
                    self.notes.append(f"{text}; not all was captured")
