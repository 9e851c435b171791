#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the lab: cases on the real rdma_rxe and siw drivers, in a guest under QEMU.

usage: lab.py BUILD_DIR [--list] [--cpus N] [--require] [CASE]...

	--list		name the cases and end
	--cpus N	virtual CPUs (1); programs that poll want 2, and the guest is slower to start
	--require	a machine that can not run it is a failure, not a skip

With $SHUNT_LONG set cases have LAB_LONG set, do more, and may take LONG_FACTOR times as long.

Prints TAP. Packages and the built kernel are kept in $SHUNT_LAB_CACHE, else BUILD_DIR/lab, beside
run/, the folder of the last run: what each case printed, the guest's console and its kernel's log. If
$SHUNT_LAB_PROGRESS names a file, what goes on is appended to it as well.
"""
import argparse
import fcntl
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(0, HERE)
from cases import TIMED_OUT, read_list
from debian import Unavailable
from guest import Guest
from kernel import Kernel
from tap import Tap

SAY_EVERY_S = 5
# Above its limit, for the two signals that end a case.
CASE_EXTRA_S = 15
END_S = 15
OUTPUT_SHOWN = 3000
LONG_FACTOR = 6


LONG = bool(os.environ.get("SHUNT_LONG"))


class Lab:
	def __init__(self, build, cpus, environment=None):
		"""@environment: for the cases."""
		self.build = os.path.abspath(build)
		self.environment = dict(environment or {}, LAB_BUILD=self.build)
		if LONG:
			self.environment["LAB_LONG"] = "1"
		self.cache = os.path.abspath(os.environ.get("SHUNT_LAB_CACHE")
					     or os.path.join(self.build, "lab"))
		self.folder = os.path.join(self.build, "lab", "run")
		self.cpus = cpus
		self.tap = Tap()
		self.started = time.monotonic()
		self.lock = None

	def say(self, text):
		line = f"lab {time.monotonic() - self.started:4.0f} s: {text}"
		self.tap.diag(line)
		progress = os.environ.get("SHUNT_LAB_PROGRESS")
		if progress:
			with open(progress, "a", encoding="utf-8") as file:
				file.write(line + "\n")

	def kernel(self):
		"""The kernel of the cache, made if need be; one run at a time uses a cache and a folder."""
		os.makedirs(self.cache, exist_ok=True)
		os.makedirs(os.path.dirname(self.folder), exist_ok=True)
		self.lock = open(os.path.join(self.cache, "lock"), "w", encoding="utf-8")
		fcntl.flock(self.lock, fcntl.LOCK_EX)
		done = threading.Event()
		ticker = threading.Thread(target=self._tick, args=(done,), daemon=True)
		ticker.start()
		try:
			return Kernel(self.cache, self.say)
		finally:
			done.set()
			ticker.join()

	def _tick(self, done):
		while not done.wait(SAY_EVERY_S):
			self.say("preparing the kernel")

	def run(self, kernel, cases):
		"""All of the cases; those behind one that ends the guest run in a new one."""
		todo = list(cases)
		with Guest(kernel, self.folder, self.cpus, self.environment) as guest:
			while todo:
				took = guest.boot([case.line() for case in todo], self.say)
				self.say(f"guest with Linux {kernel.release} booted in {took:.1f} s")
				while todo and self._follow(guest, todo[0]):
					todo.pop(0)
				if todo:
					todo.pop(0)
					how = "does not answer" if guest.running() else "died"
					self.say(f"the guest {how}: {guest.last_words()}")
					self.tap.diag(guest.text("console")[-OUTPUT_SHOWN:])
			self._wait_end(guest)

	def _follow(self, guest, case):
		"""Wait for one case and report it. Returns whether the guest goes on."""
		begun = said = time.monotonic()
		until = begun + case.limit_s + CASE_EXTRA_S
		while not guest.text(case.name + ".rc").strip():
			now = time.monotonic()
			if now > until or not guest.running():
				break
			if now - said > SAY_EVERY_S:
				said = now
				results = guest.text(case.name + ".out").count("ok ")
				self.say(f"{case.name}: {now - begun:.0f} s, {results} results")
			time.sleep(0.05)
		status = guest.text(case.name + ".rc").strip()
		if not status or int(status) in TIMED_OUT:
			self.tap.diag("the last that was said:\n" + guest.text("last")[-OUTPUT_SHOWN:])
		well = case.report(self.tap, guest.text(case.name + ".out"), guest.text(case.name + ".err"),
				   int(status) if status else None)
		self.say(f"{case.name}: {'passed' if well else 'FAILED'} "
			 f"in {time.monotonic() - begun:.1f} s")
		return bool(status)

	def _wait_end(self, guest):
		until = time.monotonic() + END_S
		while guest.running() and time.monotonic() < until:
			time.sleep(0.05)


def main():
	parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
	parser.add_argument("build")
	parser.add_argument("--list", action="store_true")
	parser.add_argument("--cpus", type=int, default=1)
	parser.add_argument("--require", action="store_true")
	parser.add_argument("case", nargs="*")
	args = parser.parse_intermixed_args()
	cases = read_list()
	if args.list:
		print("\n".join(case.name for case in cases))
		return
	unknown = set(args.case) - {case.name for case in cases}
	if unknown:
		parser.error("no case " + ", ".join(sorted(unknown)))
	cases = [case for case in cases
		 if (case.name in args.case if args.case else LONG or not case.is_long)]
	for case in cases if LONG else ():
		case.limit_s *= LONG_FACTOR
	lab = Lab(args.build, args.cpus)
	try:
		lab.run(lab.kernel(), cases)
	except Unavailable as missing:
		if args.require:
			lab.tap.result("the lab runs here", [missing])
		else:
			lab.say(f"******** LAB NOT RUN: {missing} ********")
			lab.tap.skip("the lab", str(missing).splitlines()[0])
	except RuntimeError as failure:
		lab.tap.result("the guest boots", [failure])
	lab.tap.end()


if __name__ == "__main__":
	main()
