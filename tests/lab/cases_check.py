# SPDX-License-Identifier: MIT
"""What the lab makes of a case: whatever the case does, a failure must not count as passed."""
import contextlib
import io
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(0, HERE)
from cases import Case, read_list
from tap import Tap

GOOD = "# said\nok 1 - one\nok 2 - two\n1..2\n"

# What it prints, its exit status (None: it never ended), then how many results there must be and how
# many of these failed.
ENDINGS = (
	("passes", GOOD, 0, 2, 0),
	("skips_one", "ok 1 - one # SKIP no siw\n1..1\n", 0, 1, 0),
	("skips_all", "1..0 # SKIP no RDMA\n", 0, 1, 0),
	("fails", "ok 1 - one\nnot ok 2 - two\n1..2\n", 1, 2, 1),
	("fails_with_status_0", "not ok 1 - one\n1..1\n", 0, 2, 2),
	("no_failure_but_a_status", GOOD, 3, 3, 1),
	("ends_early", "ok 1 - one\n", 0, 2, 1),
	("ends_early_and_fails", "ok 1 - one\n", 1, 2, 1),
	("prints_nothing", "", 0, 1, 1),
	("too_few_results", "ok 1 - one\n1..2\n", 0, 2, 1),
	("too_many_results", "ok 1 - one\nok 2 - two\n1..1\n", 0, 3, 1),
	("too_late", GOOD, 124, 3, 1),
	("guest_died", "ok 1 - one\n", None, 2, 1),
	("guest_died_after_the_plan", GOOD, None, 3, 1),
)


def ending(out, status, results, failures):
	"""Problems of a report of such a case."""
	inner = Tap()
	with contextlib.redirect_stdout(io.StringIO()) as printed:
		well = Case("case", 10, "program").report(inner, out, "errors", status)
	if (inner.count, inner.failed) != (results, failures) or well != (failures == 0):
		yield f"{inner.count} results and {inner.failed} failures, not {results} and {failures}:"
		yield printed.getvalue()


def the_list():
	if not read_list():
		yield "list.txt is empty"
	listed = {case.program for case in read_list()}
	for name in sorted(os.listdir(os.path.join(HERE, "cases"))):
		if os.path.join(HERE, "cases", name) not in listed:
			yield f"cases/{name} is not in list.txt"


def main():
	tap = Tap()
	for name, *what in ENDINGS:
		tap.result(name, ending(*what))
	tap.result("every_case_is_listed", the_list())
	tap.end()


main()
