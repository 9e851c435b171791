# SPDX-License-Identifier: MIT
"""tools/check_count.py: that nothing which did not run, or went wrong, counts as passed.

usage: count_check.py SOURCE_ROOT
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from tap import Tap


def meson_test(result, stdout="", returncode=0):
	return {"name": "some", "result": result, "stdout": stdout, "returncode": returncode}


# Name → the lines of the results file or tests of a log, exit status, last line.
CASES = {
	"nothing": ([], 1, "0 passed, 0 failed"),
	"only_skips": (["skip a"], 1, "0 passed, 0 failed, 1 skipped"),
	"steps": (["pass a", "fail b: why", "skip c"], 1, "1 passed, 1 failed, 1 skipped"),
	"plain_tests": ([meson_test("OK"), meson_test("FAIL", returncode=1), meson_test("TIMEOUT")], 1,
			"1 passed, 2 failed"),
	"whole_skip": ([meson_test("OK"), meson_test("SKIP", returncode=77)], 0,
		       "1 passed, 0 failed, 1 skipped"),
	"subtests": ([meson_test("OK", "1..3\nok 1 - a\n# note\nok 2 - b # SKIP no c\nok 3 - d")], 0,
		     "2 passed, 0 failed, 1 skipped"),
	"failed_subtest": ([meson_test("FAIL", "1..2\nok 1 - a\nnot ok 2 - b", 1)], 1,
			   "1 passed, 1 failed"),
	"plan_at_the_end": ([meson_test("OK", "ok 1 - a\nok 2 - b\n1..2")], 0, "2 passed, 0 failed"),
	"died_in_the_middle": ([meson_test("ERROR", "1..4\nok 1 - a", -6)], 1, "1 passed, 3 failed"),
	"died_at_the_end": ([meson_test("ERROR", "1..1\nok 1 - a", 1)], 1, "1 passed, 1 failed"),
	"failed_and_skipped": ([meson_test("FAIL", "1..1\nnot ok 1 - a # SKIP b", 1)], 1,
			       "0 passed, 1 failed"),
}


def problems_of(root, case):
	lines, status, last = CASES[case]
	with tempfile.TemporaryDirectory() as where:
		log, results = os.path.join(where, "log.json"), os.path.join(where, "results")
		tests = [json.dumps(line) for line in lines if isinstance(line, dict)]
		with open(log, "w", encoding="utf-8") as file:
			file.writelines(test + "\n" for test in tests)
		with open(results, "w", encoding="utf-8") as file:
			file.writelines(line + "\n" for line in lines if isinstance(line, str))
			file.write(f"log suite {log}\n")
		done = subprocess.run([sys.executable, os.path.join(root, "tools", "check_count.py"), results],
				      capture_output=True, text=True)
	if done.returncode != status:
		yield f"exit status {done.returncode}, want {status}"
	if not done.stdout.endswith(last + "\n") or done.stdout.splitlines()[-1] != last:
		yield f"last line is not '{last}' in: {done.stdout}{done.stderr}"


def main():
	tap = Tap()
	for case in CASES:
		tap.result(case, problems_of(sys.argv[1], case))
	tap.end()


main()
