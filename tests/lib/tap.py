# SPDX-License-Identifier: MIT
"""TAP for tests that are scripts: the counterpart of tap.h."""
import sys


class Tap:
	"""Collect results, print each as it comes, and the plan at the end."""

	def __init__(self):
		self.count = 0
		self.failed = 0

	def diag(self, text):
		for line in str(text).splitlines():
			print("# " + line, flush=True)

	def _line(self, ok, name, suffix=""):
		self.count += 1
		self.failed += not ok
		print(f"{'ok' if ok else 'not ok'} {self.count} - {name}{suffix}", flush=True)

	def result(self, name, problems):
		"""One result: it fails if there are problems (an iterable of lines)."""
		problems = list(problems)
		for problem in problems:
			self.diag(problem)
		self._line(not problems, name)

	def skip(self, name, reason):
		self._line(True, name, " # SKIP " + reason)

	def end(self):
		print(f"1..{self.count}", flush=True)
		sys.exit(1 if self.failed or not self.count else 0)
