# SPDX-License-Identifier: MIT
"""The harness itself: what it must call a failure, it does.

usage: tap_check.py SPECIMEN
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from tap import Tap

# Case → exit status (None: by a signal), its result line, and what else must be printed.
EXPECT = {
	"passes": (0, "ok 1 - passes", []),
	"runs_no_check": (1, "not ok 1 - runs_no_check", ["no check was run"]),
	"differs": (1, "not ok 1 - differs",
		["6 * 7 == 43: got 42 (0x2a), want 43 (0x2b)", 'got "got", want "want"',
		 "got -9 (Bad file descriptor)", "tap_specimen.c:"]),
	"stops_at_require": (1, "not ok 1 - stops_at_require", []),
	"is_skipped": (0, "ok 1 - is_skipped # SKIP no luck here", []),
	"fails_and_is_skipped": (1, "not ok 1 - fails_and_is_skipped", []),
	"fails_in_a_child": (1, "not ok 1 - fails_in_a_child", []),
	"child_ends_badly": (1, "not ok 1 - child_ends_badly", ["wait status 0x300"]),
	"crashes": (None, None, ["1..1"]),
}


def run(*command):
	return subprocess.run(command, capture_output=True, text=True)


def problems_of(specimen, case):
	status, line, texts = EXPECT[case]
	done = run(specimen, case)
	if status is not None and done.returncode != status or status is None and done.returncode == 0:
		yield f"exit status {done.returncode}, want {status}"
	lines = done.stdout.splitlines()
	if line and line not in lines:
		yield f"no line '{line}' in: {done.stdout}"
	if not line and any(" - " + case in text for text in lines):
		yield f"a result in: {done.stdout}"
	for text in texts:
		if text not in done.stdout:
			yield f"no '{text}' in: {done.stdout}"
	if "not reached" in done.stdout:
		yield "went on behind a failed REQUIRE"


def main():
	specimen = sys.argv[1]
	tap = Tap()
	listed = run(specimen, "--list").stdout.split()
	tap.result("lists_its_cases", [] if listed == list(EXPECT) else [str(listed)])
	for case in EXPECT:
		tap.result(case, problems_of(specimen, case))
	unknown = run(specimen, "no_such_case")
	tap.result("unknown_case_is_an_error",
		   [] if unknown.returncode == 2 else [f"exit status {unknown.returncode}"])
	tap.end()


main()
