# SPDX-License-Identifier: MIT
"""The cases of socket semantics, each run on kernel TCP as the reference, under the preload library
on a lane, and under it while its connections are sent back to TCP again and again; and the same on
lanes between hosts, of which tests/lib/relay plays both daemons, with links that are lost at random
moments. What a case prints must be the same each time, and the daemon must have seen the
connections on lanes.

usage: run.py BUILD_DIR [--mode lane|switch|remote|remote-switch] [--rounds N] [--seed N] [CASE…]
"""
import argparse
import difflib
import os
import random
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Private
from tap import Tap

CASE_TIMEOUT_S = 60

MODES = ("lane", "switch", "remote", "remote-switch")

# Of the ends that a case makes, at least so many must have been on a lane.
PROMOTED_MIN = 0.9

# Cases with connections that can have no lane, may be over before they get one, or are so many that
# the demotions from outside come in floods: they do not count for that.
UNCOUNTED = ("few_descriptors", "inherited_low_water", "inherited_timestamps",
	     "lane_begins_under_a_poller", "many_connections", "readiness_is_true", "readiness_of_many")

# What depends on the moment between hosts. Bytes that have arrived in a ring of another host, and are
# vouched for, can't be handed over any more: passing a socket on with such bytes unread fails, if the
# lane has just been left. And a direction that ends is writable again when the daemon has vouched.
AT_ODDS = {
	"remote": ("poll_states",),
	"remote-switch": ("exec_with_a_number", "passed_to_another_process", "poll_states"),
}

# Of the control protocol (lib/core/ctl.h).
CTL_VERSION = 2
CTL_HELLO, CTL_DEMOTE_REQ, CTL_WELCOME = 1, 10, 33
CTL_HELLO_TOOL = 1


class Meddler(threading.Thread):
	"""Asks the daemon, at random moments, to demote all connections of a process."""

	def __init__(self, directory, pid, seed):
		super().__init__()
		self.random = random.Random(seed)
		self.pid = pid
		self.ended = threading.Event()
		self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		self.sock.connect(os.path.join(directory, "shuntd.sock"))
		answer = self.send(CTL_HELLO, struct.pack("<II", CTL_VERSION, CTL_HELLO_TOOL))
		if struct.unpack("<H", answer[:2])[0] != CTL_WELCOME:
			raise RuntimeError(f"the daemon did not answer with WELCOME: {answer}")

	def send(self, kind, body):
		self.sock.send(struct.pack("<HHIQ", kind, 16 + len(body), 0, kind == CTL_DEMOTE_REQ) + body)
		return self.sock.recv(4096)

	def run(self):
		while not self.ended.wait(self.random.choice((0, 0.001, 0.003, 0.01))):
			try:
				self.send(CTL_DEMOTE_REQ, struct.pack("<ii", self.pid, -1))
			except OSError:
				return

	def end(self):
		self.ended.set()
		self.join()
		self.sock.close()


class Runner:
	def __init__(self, build, private):
		self.program = os.path.join(build, "tests", "conformance", "conformance")
		self.private = private

	def cases(self):
		done = subprocess.run([self.program, "--list"], capture_output=True, text=True, check=True)
		return done.stdout.split()

	def run(self, case, mode, seed=0):
		"""What the case printed, its exit status as the last line."""
		env = dict(self.private.env)
		# Faults and leaks of a case are its own business; other programs are run too. A fault
		# in a copy leaves its handler by a jump, and all is well then.
		for tool, more in (("ASAN", "detect_leaks=0"), ("TSAN", "report_signal_unsafe=0")):
			env[tool + "_OPTIONS"] = ":".join((env.get(tool + "_OPTIONS", ""), more,
							   "handle_segv=0:handle_sigbus=0"))
		program = self.program
		if mode != "plain" and env.get("SHUNT_TEST_LINKED"):
			program = env["SHUNT_TEST_LINKED"]
			env["CONF_LANE"] = "1"
		elif mode != "plain":
			preload = [env.get("SHUNT_TEST_PRELOAD_FIRST"), self.private.preload()]
			env["LD_PRELOAD"] = " ".join(filter(None, preload))
			env["CONF_LANE"] = "1"
		process = subprocess.Popen([program, case], env=env, stdin=subprocess.DEVNULL,
					   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
					   errors="backslashreplace", start_new_session=True)
		meddler = None
		if mode.endswith("switch"):
			meddler = Meddler(self.private.dir, process.pid, seed)
		if meddler:
			meddler.start()
		try:
			text, _ = process.communicate(timeout=CASE_TIMEOUT_S)
			status = process.returncode
		except subprocess.TimeoutExpired:
			os.killpg(process.pid, 9)
			text, _ = process.communicate()
			status = f"none within {CASE_TIMEOUT_S} s"
		if meddler:
			meddler.end()
		return text.splitlines() + [f"(exit status {status})"]


def differences(reference, got):
	yield from difflib.unified_diff(reference, got, "kernel TCP", "Shunt", lineterm="")


def run_mode(tap, runner, mode, cases, references, args):
	for case in cases:
		found = []
		for turn in range(args.rounds):
			seed = args.seed + turn
			found = list(differences(references[case], runner.run(case, mode, seed)))
			if found:
				found.append(f"seed {seed}")
				break
		tap.result(f"{mode}_{case}", found)


def promoted(tap, runner, name):
	"""How many of the ends that were seen had a lane."""
	stats = runner.private.ask("stats")
	tap.diag(f"{name}: {stats}")
	seen, had = stats["seen"], stats["promoted"]
	problems = []
	if not had or had < PROMOTED_MIN * seen:
		problems.append(f"{had} of {seen} ends had a lane")
	tap.result(f"{name}_was_on_lanes", problems)


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
	parser.add_argument("build")
	parser.add_argument("cases", nargs="*")
	parser.add_argument("--mode", choices=MODES)
	parser.add_argument("--rounds", type=int, default=5 if os.environ.get("SHUNT_LONG") else 1)
	parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
	args = parser.parse_intermixed_args()
	tap = Tap()
	references = {}
	for mode in MODES:
		if (args.mode or "lane,switch") not in (mode, "lane,switch") or (
				not args.mode and mode.startswith("remote")):
			continue
		settings = {"promote_after": 1, "backoff_min_ms": 1, "backoff_max_ms": 1}
		if mode.startswith("remote"):
			loss_ms = 30 if mode == "remote-switch" else 0
			settings["relay"] = {"seed": args.seed, "loss_ms": loss_ms}
		with Private(args.build, **settings) as private:
			runner = Runner(args.build, private)
			cases = args.cases or [case for case in runner.cases()
						if case not in AT_ODDS.get(mode, ())]
			for case in cases:
				if case not in references:
					references[case] = runner.run(case, "plain")
			proved = [case for case in cases if case not in UNCOUNTED]
			run_mode(tap, runner, mode, proved, references, args)
			if proved:
				promoted(tap, runner, mode)
			uncounted = [case for case in cases if case in UNCOUNTED]
			run_mode(tap, runner, mode, uncounted, references, args)
	broken = [case for case in references if references[case][-1] != "(exit status 0)"]
	tap.result("the_reference_runs", [f"{case}: {references[case]}" for case in broken])
	tap.end()


main()
