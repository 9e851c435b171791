# SPDX-License-Identifier: MIT
"""The programs of remote_torture.py: each works on connections between both hosts until it is told
to end, and knows whether all was right. Host 1 serves, host 0 calls."""
import json
import os
import subprocess
import sys
import threading
import time

from private import Failure
from remote_lanes import ADDRESSES, PORT

MIB = 1 << 20
START_S = 20
# Longer than every time limit of a lane.
END_S = 120


class Watched:
	"""A program whose output is read as it comes, so that it never waits for us."""

	def __init__(self, process):
		self.process = process
		self.lines, self.errors = [], []
		self.threads = [threading.Thread(target=self._read, args=pair, daemon=True)
				for pair in ((process.stdout, self.lines), (process.stderr, self.errors))]
		for thread in self.threads:
			thread.start()

	@staticmethod
	def _read(file, lines):
		for line in file:
			lines.append(line.rstrip())

	def said(self):
		return "\n".join(self.lines[-30:] + self.errors[-30:])

	def await_line(self, start):
		until = time.monotonic() + START_S
		while not any(line.startswith(start) for line in self.lines):
			if self.process.poll() is not None or time.monotonic() > until:
				raise Failure(f"{self.process.args} does not say {start!r}: {self.said()}")
			time.sleep(0.01)

	def status(self, timeout_s):
		"""The exit status, or None: it does not end."""
		try:
			status = self.process.wait(timeout_s)
		except subprocess.TimeoutExpired:
			return None
		for thread in self.threads:
			thread.join()
		return status

	def kill(self):
		self.process.kill()
		self.process.wait()


class Traffic:
	"""Some connections. expected and alive are set by finish(), bytes are those compared."""

	name = "?"

	def __init__(self):
		self.programs = []
		self.expected = self.alive = self.bytes = 0

	def start(self, daemon, *command):
		program = Watched(daemon.program(*command))
		self.programs.append(program)
		return program

	def is_over(self):
		"""Whether a program has ended that was to work on."""
		return any(program.process.poll() is not None for program in self.programs)

	def said(self):
		return "".join(f"{program.process.args[-6:]}: {program.process.poll()}: {program.said()}\n"
			       for program in self.programs)

	def kill(self):
		for program in self.programs:
			program.kill()


class Streams(Traffic):
	"""The checksummed stream both ways at once, one behind the other until there is an end."""

	name = "stream"

	def __init__(self, pair, size, rate):
		super().__init__()
		self.pair, self.size, self.rate = pair, size, rate
		self.problems = []
		self.begin(size)

	def begin(self, size):
		args = ("--bytes", size, "--rate", self.rate, "--timeout", END_S + 3 * size // self.rate)
		self.programs = []
		self.start(self.pair.daemons[1], *self.stream(), *args, "listen", PORT, ADDRESSES[1])
		time.sleep(0.5)
		self.start(self.pair.daemons[0], *self.stream(), *args, "connect", ADDRESSES[1], PORT)
		self.expected += 1
		self.limit_s = END_S + 4 * size // self.rate

	def stream(self):
		return [os.path.join(self.pair.build, "tests", "apps", "stream")]

	def collect(self):
		"""Wait for the end of the present one."""
		right = 0
		for program in self.programs:
			status = program.status(self.limit_s)
			if status != 0:
				self.problems.append(f"a stream's exit status is {status}: {program.said()}")
				program.kill()
				continue
			result = json.loads(program.lines[-1])
			self.bytes += result["rx"]
			right += result["ok"]
		self.alive += right == 2

	def is_over(self):
		"""A stream may end in order before the torture does: then comes another one."""
		if not super().is_over():
			return False
		self.collect()
		if not self.problems:
			self.begin(self.size // 4)
		return bool(self.problems)

	def finish(self):
		if not self.problems:
			self.collect()
		return self.problems


class Redis(Traffic):
	"""redis-server, a client that checks every answer, and redis-benchmark."""

	name = "redis"

	def __init__(self, pair, checked, bench, seed):
		super().__init__()
		self.pair, self.bench, self.expected = pair, bench, checked + bench
		self.port = PORT + 1
		self.server = self.start(pair.daemons[1], "redis-server", "--port", self.port, "--bind",
					 ADDRESSES[1], "--protected-mode", "no", "--save", "", "--appendonly",
					 "no", "--dir", pair.daemons[1].dir)
		until = time.monotonic() + START_S
		while self.ask("ping") != "PONG":
			if time.monotonic() > until:
				raise Failure(f"redis-server does not come up: {self.said()}")
			time.sleep(0.05)
		path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "redis_checker.py")
		self.checker = self.start(pair.daemons[0], sys.executable, path, ADDRESSES[1], self.port,
					  checked, seed)
		self.checker.await_line("ready")
		self.start(pair.daemons[0], "nice", "redis-benchmark", "-h", ADDRESSES[1], "-p", self.port, "-c",
			   bench, "-n", 1 << 30, "-t", "set", "-q", "-d", 300)

	def ask(self, *words):
		"""From outside of Shunt."""
		return subprocess.run(["ip", "netns", "exec", self.pair.names[1], "redis-cli", "-h", ADDRESSES[1],
				       "-p", str(self.port), *words], capture_output=True, text=True,
				      timeout=START_S, check=False).stdout.strip()

	def benchmark_alive(self):
		"""How many connections of redis-benchmark have had a command lately."""
		alive = 0
		for line in self.ask("client", "list").splitlines():
			words = dict(word.split("=", 1) for word in line.split() if "=" in word)
			alive += words.get("cmd") == "set" and int(words["idle"]) <= 1
		return alive

	def finish(self):
		problems = []
		self.checker.process.stdin.close()
		if self.checker.status(END_S) is None:
			problems.append("the checking client does not end")
			return problems
		try:
			result = json.loads(self.checker.lines[-1])
		except (ValueError, IndexError):
			return [f"the checking client says nothing: {self.checker.said()}"]
		problems += result["problems"]
		self.alive += result["alive"]
		self.bytes += result["bytes"]
		# Its connections are the only ones that are left.
		until = time.monotonic() + START_S
		while self.benchmark_alive() < self.bench and time.monotonic() < until:
			time.sleep(0.2)
		alive = self.benchmark_alive()
		self.alive += alive
		if alive < self.bench:
			problems.append(f"{alive} of {self.bench} connections of redis-benchmark are served:\n"
					f"{self.ask('client', 'list')}")
		return problems


class Iperf(Traffic):
	"""iperf3, one run behind the other, both ways at once."""

	name = "iperf3"

	def __init__(self, pair, seconds, rate):
		super().__init__()
		self.pair, self.seconds = pair, seconds
		self.client = None
		self.args = ["-t", seconds, "-b", 8 * rate, "-l", "32K", "--bidir", "-J"]
		self.problems = []
		self.moved = 0
		self.stopping = False
		self.start(pair.daemons[1], "iperf3", "-s", "-B", ADDRESSES[1], "-p", PORT + 2, "-J",
			   "--forceflush")
		time.sleep(0.5)
		self.thread = threading.Thread(target=self._runs)
		self.thread.start()

	def _runs(self):
		"""Three connections each: one to talk over, one for each direction."""
		while not self.stopping and not self.problems:
			self.client = Watched(self.pair.daemons[0].program(
				"iperf3", "-c", ADDRESSES[1], "-p", PORT + 2, *self.args))
			self.expected += 3
			status = self.client.status(self.seconds + END_S)
			if status is None:
				self.client.kill()
			text = "\n".join(self.client.lines)
			try:
				end = json.loads(text)["end"]
				both = [end["sum_received"]["bytes"], end["sum_received_bidir_reverse"]["bytes"]]
			except (ValueError, KeyError):
				both = []
			if status != 0 or len(both) < 2 or not min(both):
				self.problems.append(f"iperf3's exit status is {status}, {both}: {text[-3000:]}")
				return
			self.moved += sum(both)
			self.alive += 3

	def is_over(self):
		return super().is_over() or bool(self.problems)

	def finish(self):
		self.stopping = True
		self.thread.join()
		return self.problems

	def kill(self):
		self.stopping = True
		if self.client:
			self.client.kill()
		super().kill()
		self.thread.join()
