# SPDX-License-Identifier: MIT
"""Starting and stopping what is measured, and proving that it was on the ring."""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure, Private # pylint: disable=unused-import

# Of the bytes of a measurement over Shunt at least so much must have gone over the ring: each
# connection starts on TCP.
RING_SHARE_MIN = 0.8


class Missing(Exception):
	"""A program that a benchmark needs is not installed."""


def need(*names):
	for name in names:
		if not shutil.which(name):
			raise Missing(f"{name} is not installed")


def free_port():
	with socket.socket() as sock:
		sock.bind(("127.0.0.1", 0))
		return sock.getsockname()[1]


def is_listening(port):
	"""By the kernel's list: a probe would be a connection."""
	for name in ("/proc/net/tcp", "/proc/net/tcp6"):
		with contextlib.suppress(OSError), open(name, encoding="ascii") as table:
			for line in table:
				words = line.split()
				if words[1].endswith(f":{port:04X}") and words[3] == "0A":
					return True
	return False


class Way:
	"""How programs are run: plainly (private is None), or under Shunt with a private daemon; each
	of the two sides pinned to a CPU of its own if @cpus says so."""

	def __init__(self, private=None, cpus=None):
		self.private = private
		self.cpus = cpus

	def command(self, words, side):
		words = [str(word) for word in words]
		if self.private:
			words = self.private.under(words)
		if self.cpus:
			words = ["taskset", "-c", str(self.cpus[side]), *words]
		return words

	def env(self):
		return self.private.env if self.private else None

	def run(self, words, side=1, timeout=120):
		"""A client: run it to its end; its standard output."""
		done = subprocess.run(self.command(words, side), env=self.env(), capture_output=True, text=True,
				      timeout=timeout, stdin=subprocess.DEVNULL, check=False)
		if done.returncode:
			raise Failure(f"{' '.join(map(str, words))}: exit status {done.returncode}: "
				      f"{(done.stderr + done.stdout).strip()[-400:]}")
		return done.stdout

	@contextlib.contextmanager
	def server(self, words, port, side=0):
		"""A server, from when it listens on @port on; ended by its pid."""
		process = subprocess.Popen(self.command(words, side), env=self.env(),
					   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
					   stderr=subprocess.DEVNULL)
		try:
			until = time.monotonic() + 10
			while not is_listening(port):
				if process.poll() is not None or time.monotonic() > until:
					raise Failure(f"{words[0]} did not start to listen")
				time.sleep(0.02)
			yield process
		finally:
			if process.poll() is None:
				process.send_signal(signal.SIGTERM)
				try:
					process.wait(5)
				except subprocess.TimeoutExpired:
					process.kill()
					process.wait()

	def totals(self):
		"""(ends promoted, bytes over the ring, bytes over TCP, ends seen) until now."""
		stats = self.private.ask("stats")
		return (stats["promoted"], sum(stats["lane_bytes"].values()),
			sum(stats["tcp_bytes"].values()), stats["seen"])

	def on_ring(self, fn):
		"""Call @fn, and insist that what it did went over the ring. Plain ways just call it."""
		if not self.private:
			return fn()
		before = self.totals()
		result = fn()
		time.sleep(0.05) # the other end may still be closing
		promoted, ring, tcp, _ = (a - b for a, b in zip(self.totals(), before))
		if promoted < 1 or ring < RING_SHARE_MIN * (ring + tcp):
			raise Failure(f"not on the ring: {promoted} ends promoted, {ring} bytes over the ring, "
				      f"{tcp} over TCP")
		return dict(result, ring_share=ring / (ring + tcp))

	def off_ring(self, fn):
		"""Call @fn, and insist that nothing was promoted."""
		if not self.private:
			return fn()
		before = self.totals()
		result = fn()
		time.sleep(0.05)
		after = self.totals()
		if after[0] != before[0]:
			raise Failure(f"{after[0] - before[0]} ends were promoted, none should be")
		return result


def bench_program(private, name):
	return os.path.join(private.build, "tests", "bench", "bench-" + name)


def json_line(text):
	return json.loads(text.strip().splitlines()[-1])


def cpu_ns(pid):
	"""CPU time of all threads of @pid until now."""
	total = 0
	for task in os.listdir(f"/proc/{pid}/task"):
		with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as stat:
			total += int(stat.read().split()[0])
	return total
