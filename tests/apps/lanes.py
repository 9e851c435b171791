# SPDX-License-Identifier: MIT
"""A checksummed stream between two processes, while from outside its connection is sent back to TCP
again and again, and its daemon is killed and started anew: not a byte may be lost, repeated or out
of order, and the lane must really have changed that often. With --between-hosts the lane is one
between hosts (tests/lib/relay); then its links are lost all the time, now and then one host's daemon
dies, and the kills are those of both at once.

usage: lanes.py BUILD_DIR [--between-hosts] [--long] [--only native|socket] [--seed N] [--bytes N]
                [--changes N]
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure, Private
from tap import Tap

MIB = 1 << 20

# The measure of a usual run, and of --long: bytes each way, complete lane changes in each direction,
# bytes per second and direction, how often the daemon is killed.
USUAL = {"bytes": 128 * MIB, "changes": 100, "rate": 12 * MIB, "kills": 3}
BETWEEN = dict(USUAL, bytes=64 * MIB, rate=10 * MIB)
LONG = {"bytes": 2048 * MIB, "changes": 1000, "rate": 40 * MIB, "kills": 10}

# Both lanes must have carried at least so much of all bytes.
SHARE_MIN = 0.2

TIMEOUT_S = 300

# Streams that are tried, each of twice the bytes, on a machine that is busy with other things.
ATTEMPTS = 3


class Stream:
	"""The stream program, both processes; its results are read as they come."""

	def __init__(self, private, mode, measure, seed):
		program = os.path.join(private.build, "tests", "apps", "stream")
		command = [program, "--bytes", measure["bytes"], "--rate", measure["rate"], "--seed", seed,
			   "--timeout", TIMEOUT_S, "--hold"]
		if mode == "native":
			command += ["--native"]
		command = [str(word) for word in command + ["pair"]]
		if mode == "socket":
			command = private.under(command)
		self.results = []
		self.process = subprocess.Popen(command, env=private.env, stdin=subprocess.PIPE,
						stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
		self.errors = ""
		self.first_result = None
		self.threads = [threading.Thread(target=fn) for fn in (self._read, self._read_errors)]
		for thread in self.threads:
			thread.start()

	def _read(self):
		for line in self.process.stdout:
			self.results.append(json.loads(line))
			self.first_result = self.first_result or time.monotonic()

	def _read_errors(self):
		self.errors = self.process.stderr.read()

	def running(self):
		if self.first_result and time.monotonic() - self.first_result > 10:
			return False # the other process is gone
		return len(self.results) < 2 and self.process.poll() is None

	def finish(self):
		"""Let both ends close; the exit status."""
		self.process.stdin.close()
		try:
			status = self.process.wait(60)
		except subprocess.TimeoutExpired:
			self.process.kill()
			status = "not ended within 60 s after its last byte"
		for thread in self.threads:
			thread.join()
		return status


class Meddler:
	"""Sends the connection back to TCP from a random end, as often as it is found on a lane."""

	def __init__(self, private, measure, seed):
		self.private = private
		self.measure = measure
		self.random = random.Random(seed)
		self.asked = 0
		self.kills = 0
		self.pids = []
		self.pause_s = 0.0

	def ends(self):
		try:
			return self.private.ask("ss")["connections"]
		except Failure:
			return []

	def find(self, stream):
		while stream.running() and len(self.pids) < 2:
			self.pids = sorted({end["pid"] for end in self.ends()})
			time.sleep(0.02)

	def steer(self):
		"""Stay on the ring a little longer if it carries too little."""
		ends = self.ends()
		ring = sum(sum(end["lane_bytes"].values()) for end in ends)
		tcp = sum(sum(end["tcp_bytes"].values()) for end in ends)
		if not ends or not ring + tcp:
			return
		share = ring / (ring + tcp)
		if share < 0.4:
			self.pause_s += 0.002
		elif share > 0.6:
			self.pause_s = max(0.0, self.pause_s - 0.002)

	def kill_daemon(self):
		self.private.kill()
		time.sleep(self.random.choice((0, 0.01, 0.2)))
		self.private.start()
		self.kills += 1

	def change(self):
		"""One change of lanes. Whether there was one to ask for."""
		if self.private.relay is None:
			return self.private.run_tool("demote", self.random.choice(self.pids or [1])).returncode == 0
		self.private.daemon.send_signal(signal.SIGUSR1)
		time.sleep(0.02)
		return True

	def work(self, stream):
		self.find(stream)
		cycles = self.measure["changes"] // 2
		kill_at = [cycles * (k + 1) // (self.measure["kills"] + 1)
			   for k in range(self.measure["kills"])]
		while stream.running():
			if self.change():
				self.asked += 1
				if self.asked % 20 == 0:
					self.steer()
				time.sleep(self.pause_s)
			if self.kills < len(kill_at) and self.asked >= kill_at[self.kills]:
				self.kill_daemon()


def problems_of(stream, meddler, ends, measure):
	"""What is wrong with a run; also prints what was seen."""
	if len(stream.results) < 2:
		yield "a process of the stream ended without a result"
	for result in stream.results:
		if not result["ok"]:
			yield f"process {result['pid']}: wrong bytes"
		if min(result["tx"], result["rx"]) < measure["bytes"]:
			yield f"process {result['pid']}: {result['tx']} bytes sent, {result['rx']} received"
	# One whose daemon has just died is not known to the next one before its next lane.
	if len(ends) not in ((2,) if meddler.private.relay is None else (1, 2)):
		yield f"the daemon knows {len(ends)} ends at last, not 2"
	for end in ends:
		ring, tcp = sum(end["lane_bytes"].values()), sum(end["tcp_bytes"].values())
		if end["lane_changes"]["rx"] < measure["changes"]:
			yield (f"process {end['pid']}: {end['lane_changes']['rx']} lane changes of what it "
			       f"receives, at least {measure['changes']} wanted")
		if min(ring, tcp) < SHARE_MIN * (ring + tcp):
			yield f"process {end['pid']}: {ring} bytes over the ring, {tcp} over TCP: too uneven"
	if meddler.kills < measure["kills"]:
		yield f"the daemon was killed {meddler.kills} times, {measure['kills']} wanted"


def was_too_slow(stream, meddler, measure):
	"""Whether the stream was over, in order, before enough changes had been asked for: that is the
	machine's fault, not the lanes'."""
	return (meddler.asked < measure["changes"] and len(stream.results) == 2 and
		all(result["ok"] for result in stream.results))


def run(tap, build, mode, measure, seed, between):
	"""Streams of more and more bytes, until one was long enough for all changes."""
	for attempt in range(ATTEMPTS):
		if run_once(tap, build, mode, measure, seed, between, attempt + 1 == ATTEMPTS):
			return
		measure = dict(measure, bytes=2 * measure["bytes"])


def run_once(tap, build, mode, measure, seed, between, is_last):
	"""False: there is no result, since the machine is too slow for @measure."""
	settings = {"promote_after": 1, "backoff_min_ms": 1, "backoff_max_ms": 1}
	name = ("between_hosts_" if between else "lanes_") + mode
	if between:
		settings["relay"] = {"seed": seed, "death_ms": 400}
	with Private(build, **settings) as private:
		if mode == "socket" and not private.preload():
			tap.skip(name, "no preload library in this build")
			return True
		begin = time.monotonic()
		stream = Stream(private, mode, measure, seed)
		meddler = Meddler(private, measure, seed)
		meddler.work(stream)
		ends = meddler.ends()
		found = list(problems_of(stream, meddler, ends, measure))
		status = stream.finish()
		if status != 0:
			found.append(f"the stream program: exit status {status}")
		for end in ends:
			tap.diag(f"{mode}: process {end['pid']}: {end['lane_changes']['rx']} lane changes of its "
				 f"receive direction, {end['epoch']} lanes; bytes over the ring "
				 f"{end['lane_bytes']}, over TCP {end['tcp_bytes']}")
		tap.diag(f"{mode}: {meddler.asked} changes asked for, daemon killed {meddler.kills} times, "
			 f"{time.monotonic() - begin:.1f} s, seed {seed}")
		if found and status == 0 and not is_last and was_too_slow(stream, meddler, measure):
			tap.diag(f"{mode}: too few changes for this measure: once more, with twice the bytes")
			return False
		if found:
			tap.diag(stream.errors)
			tap.diag(private.log_text())
			tap.diag(json.dumps(stream.results))
		tap.result(name, found)
		return True


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
	parser.add_argument("build")
	parser.add_argument("--long", action="store_true", default=bool(os.environ.get("SHUNT_LONG")))
	parser.add_argument("--between-hosts", action="store_true")
	parser.add_argument("--only", choices=("native", "socket"))
	parser.add_argument("--seed", type=int, default=random.randrange(1, 1 << 31))
	for key in ("bytes", "changes", "rate", "kills"):
		parser.add_argument("--" + key, type=int)
	args = parser.parse_args()
	measure = dict(LONG if args.long else BETWEEN if args.between_hosts else USUAL)
	measure.update({key: getattr(args, key) for key in measure if getattr(args, key) is not None})
	tap = Tap()
	for mode in ("native", "socket"):
		if args.only in (None, mode):
			run(tap, args.build, mode, measure, args.seed, args.between_hosts)
	tap.end()


main()
