# SPDX-License-Identifier: MIT
"""The list of cases, and their results.

list.txt has a line for each case: its name, how many seconds it may take, and perhaps "long": then it
runs with $SHUNT_LONG, or when it is named. A case is a program,
cases/NAME.sh or cases/NAME.py; it runs in the guest as root, in the order of the list, all in one
boot, and prints TAP. It leaves no device, process or address behind.
"""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
RESULT = re.compile(r"^(not )?ok\b *\d* *(?:- *)?([^#]*?) *(?:# *SKIP\b *(.*))?$", re.I)
PLAN = re.compile(r"^1\.\.(\d+)(?: *# *SKIP\b *(.*))?", re.I)
# timeout's own statuses: its time was up; its child was killed.
TIMED_OUT = (124, 137)


class Case:
	def __init__(self, name, limit_s, program, is_long=False):
		self.name = name
		self.limit_s = limit_s
		self.program = program
		self.is_long = is_long

	def line(self):
		return f"{self.name} {self.limit_s} {self.program}"

	def report(self, tap, out, err, status):
		"""Hand on what the case printed; @status: its exit status, or None if it never ended.
		Returns whether all was well."""
		failed = tap.failed
		seen, planned = 0, None
		for line in out.splitlines():
			plan, result = PLAN.match(line), RESULT.match(line)
			if plan:
				planned = int(plan[1])
				if not planned:
					tap.skip(self.name, plan[2] or "the case says no reason")
			elif result:
				seen += 1
				name = f"{self.name}: {result[2]}"
				if result[1]:
					tap.result(name, ["see the lines before"])
				elif result[3] is not None:
					tap.skip(name, result[3])
				else:
					tap.result(name, [])
			else:
				tap.diag(line.removeprefix("# "))
		problems = list(self._problems(seen, planned, status, tap.failed > failed))
		if problems:
			tap.result(f"{self.name}: ran to its end", problems)
		if tap.failed > failed and err.strip():
			tap.diag("standard error:\n" + err[-4000:])
		return tap.failed == failed

	def _problems(self, seen, planned, status, failed):
		if status is None:
			yield "the guest ended before the case did"
		elif status in TIMED_OUT:
			yield f"took more than its {self.limit_s} s"
		elif status and not failed:
			yield f"exit status {status}"
		if planned is None:
			yield "no plan: it ended early"
		elif planned != seen:
			yield f"{planned} results planned, {seen} seen"
		elif failed and not status:
			yield "exit status 0 in spite of failures"


def read_list():
	"""The cases, in their order."""
	found = []
	with open(os.path.join(HERE, "list.txt"), encoding="utf-8") as file:
		for number, line in enumerate(file, 1):
			words = line.split("#")[0].split()
			if not words:
				continue
			if len(words) < 2 or not words[1].isdigit() or words[2:] not in ([], ["long"]):
				raise ValueError(f"list.txt:{number}: NAME SECONDS [long] is wanted, not: "
						 f"{line.strip()}")
			stem = os.path.join(HERE, "cases", words[0])
			for program in (stem + ".sh", stem + ".py"):
				if os.access(program, os.X_OK):
					found.append(Case(words[0], int(words[1]), program, len(words) > 2))
					break
			else:
				raise ValueError(f"list.txt:{number}: {stem}.sh or .py is not there or not "
						 "executable")
	return found
