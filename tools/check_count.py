# SPDX-License-Identifier: MIT
"""Count what tools/check.sh ran.

usage: check_count.py RESULTS

Each line of RESULTS is "pass NAME", "fail NAME" or "skip NAME", or "log SUITE FILE": a log of meson's
with one JSON object per line and test. A test that prints TAP counts with its subtests; one that
does not, as one. A test that meson calls failed counts at least one failure, whatever it printed,
and planned subtests that never reported count as failed. Prints the failures and the skips by name,
under each failure the last comments that its test made before it, and last "N passed, N failed[, N skipped]"; exit status 0 if something passed and nothing failed.
"""
import json
import re
import sys

RESULT = re.compile(r"^(not )?ok\b *\d* *(?:- *)?([^#]*?) *(?:# *(SKIP|TODO)\b *(.*))?$", re.I)
PLAN = re.compile(r"^1\.\.(\d+)")

# Comments shown of a failure. Chosen: what was checked, and what was found.
SHOWN = 8


class Count:
	def __init__(self):
		self.passed = 0
		self.failures = []
		self.skips = []

	def tap(self, name, text):
		"""Subtests of one test; how many reported and how many were planned."""
		seen = planned = 0
		said = []
		for line in text.splitlines():
			plan = PLAN.match(line)
			if plan:
				planned = int(plan.group(1))
				continue
			if line.startswith("#"):
				said.append(line)
			result = RESULT.match(line)
			if not result:
				continue
			seen += 1
			bad, what, directive, reason = result.groups()
			if directive and directive.upper() == "SKIP" and not bad:
				self.skips.append(f"{name}: {what}: {reason}")
			elif bad:
				self.failures.append("\n  ".join([f"{name}: {what}"] + said[-SHOWN:]))
			else:
				self.passed += 1
			said = []
		return seen, planned

	def test(self, suite, test):
		# Meson names the suite too once there are several.
		name = f"{suite}/{test['name'].split(' / ')[-1]}"
		failures = len(self.failures)
		seen, planned = self.tap(name, test.get("stdout") or "")
		if planned > seen:
			self.failures += [f"{name}: {planned - seen} of {planned} subtests never reported"
					  ] * (planned - seen)
		result = test["result"]
		if result in ("OK", "EXPECTEDFAIL"):
			self.passed += seen == 0
		elif result in ("SKIP", "Skipped"):
			if seen == 0:
				self.skips.append(f"{name}: skipped as a whole")
		elif len(self.failures) == failures:
			self.failures.append(f"{name}: {result}, exit status {test.get('returncode')}")

	def read(self, path):
		with open(path, encoding="utf-8") as results:
			for line in results.read().splitlines():
				kind, _, rest = line.partition(" ")
				if kind == "pass":
					self.passed += 1
				elif kind == "fail":
					self.failures.append(rest)
				elif kind == "skip":
					self.skips.append(rest)
				elif kind == "log":
					suite, _, log = rest.partition(" ")
					self.log(suite, log)

	def log(self, suite, path):
		with open(path, encoding="utf-8", errors="replace") as log:
			for line in log:
				self.test(suite, json.loads(line))


def main():
	count = Count()
	count.read(sys.argv[1])
	for skip in count.skips:
		print(f"SKIPPED {skip}")
	for failure in count.failures:
		print(f"FAILED  {failure}")
	if not count.passed and not count.failures:
		print("nothing ran: that is a failure too")
	summary = f"{count.passed} passed, {len(count.failures)} failed"
	if count.skips:
		summary += f", {len(count.skips)} skipped"
	print(summary)
	return 0 if count.passed and not count.failures else 1


sys.exit(main())
