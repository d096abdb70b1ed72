# SPDX-License-Identifier: GPL-2.0-or-later
#
# record.py TESTS RESULTS ARGUMENT...: runs rdma-core's TESTS/run_tests.py with the
# ARGUMENTs, as it is, and appends to the file RESULTS a line when a test begins
# and one when it has ended:
#
#	begin ID
#	ok|skip|fail|error ID: REASON
#
# Tests that RESULTS names already are left out. So a test that kills the process
# costs its own result only: the caller runs this again. A test that takes longer
# than LIMIT seconds kills the process by SIGALRM.
#
# Python's collector of cycles is off, and the process ends without tidying up. A
# test that fails or is skipped leaves its objects in a cycle, with the exception;
# pyverbs 56 then may destroy a CQ or QP after its context, in memory that was
# freed, with every provider (MALLOC_PERTURB_=165 shows it with siw).

"""Runs rdma-core's own tests in a guest and records the result of each."""

import gc
import os
import runpy
import signal
import sys
import unittest

LIMIT = 120

tests, path = sys.argv[1:3]
sys.argv = [os.path.join(tests, "run_tests.py")] + sys.argv[3:]
sys.path.insert(0, tests)
sys.path.insert(0, os.path.dirname(tests))


def name_of(test):
    """Of a test, or of what is set up for a whole class, in one word."""
    return test.id().removeprefix("tests.").replace(" ", "-")


def begun():
    """IDs of the tests that an earlier process has begun."""
    if not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as results:
        return {line.split()[1] for line in results
                if line.startswith("begin ")}


def flat(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from flat(part)
        else:
            yield part


class Result(unittest.TextTestResult):
    """What unittest prints, and the lines of RESULTS."""

    def write(self, *words):
        with open(path, "a", encoding="utf-8") as results:
            results.write(" ".join(words) + "\n")

    def end(self, outcome, test, reason=""):
        signal.alarm(0)
        self.write(outcome, name_of(test) + ":", " ".join(str(reason).split()))

    def startTest(self, test):
        self.write("begin", name_of(test))
        signal.alarm(LIMIT)
        super().startTest(test)

    def addSuccess(self, test):
        self.end("ok", test)
        super().addSuccess(test)

    def addSkip(self, test, reason):
        self.end("skip", test, reason)
        super().addSkip(test, reason)

    def addFailure(self, test, err):
        self.end("fail", test, err[1])
        super().addFailure(test, err)

    def addError(self, test, err):
        self.end("error", test, f"{err[0].__name__}: {err[1]}")
        super().addError(test, err)

    def addSubTest(self, test, subtest, err):
        if err:
            self.end("fail", test, err[1])
        super().addSubTest(test, subtest, err)


class Runner(unittest.TextTestRunner):
    """Leaves out what was begun before."""

    resultclass = Result

    def run(self, test):
        done = begun()
        return super().run(unittest.TestSuite(
            one for one in flat(test) if name_of(one) not in done))


gc.disable()
unittest.runner.TextTestRunner = Runner
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
    status = 0
except SystemExit as end:
    status = end.code
sys.stdout.flush()
sys.stderr.flush()
os._exit(int(status or 0))
