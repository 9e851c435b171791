# SPDX-License-Identifier: MIT
"""redis, iperf3 and a checksummed stream between two hosts, promoted, whose links are killed, whose
daemons are killed and whose devices are taken away again and again: every sum must match and every
connection must live. What was done and what came of it is printed, from the counters of both daemons.

usage: remote_torture.py BUILD_DIR [--long] [--seed N] [--links N] [--kills N] [--removals N]
                         [--bytes N] [--daemon BUILD_DIR] [--logs FILE]
"""
import argparse
import collections
import os
import random
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure
from remote_deaths import SETTINGS
from remote_lanes import PORT, Daemon, Pair
from remote_programs import a_program_leaves_the_rest_to_its_daemon, program_and_daemon_die_together
from tap import Tap
from torture_programs import MIB, Iperf, Redis, Streams

# Kills of links, of each daemon, removals of devices; bytes of the stream and its rate each way;
# connections of the checking client and of redis-benchmark; seconds of a run of iperf3; rounds of
# the programs that end. The long form is what the project promises; the usual one takes a minute.
USUAL = {"links": 6, "kills": 2, "removals": 2, "bytes": 64 * MIB, "rate": 4 * MIB, "checked": 3,
	 "bench": 3, "seconds": 5, "ends": 2}
LONG = {"links": 200, "kills": 50, "removals": 20, "bytes": 2048 * MIB, "rate": 6 * MIB, "checked": 8,
	"bench": 8, "seconds": 20, "ends": 20}

LANE_WAIT_S = 40
# A device may be held so long by who does not know yet that it is gone.
RELEASE_S = 10
# At most so long everything works before the next kill.
DWELL_S = 0.6
# Of the bytes of all programs so much must have gone over links, or it was TCP that was tested.
SHARE_MIN = 0.2
FAULTS = ("action=partial", "action=error status=12", "action=flush")
LOG_LINES = 150
PROGRAMS = ("redis-server", "redis-benchmark", "redis-cli", "iperf3")
SANITIZER = re.compile("ERROR: [A-Za-z]*Sanitizer|runtime error:")


def add(sums, found, path=""):
	"""The figures of @found, however deep, each under its path."""
	for key, value in found.items():
		name = f"{path}.{key}" if path else key
		if isinstance(value, dict):
			add(sums, value, name)
		elif isinstance(value, int):
			sums[name] += value


class Figures:
	"""What both daemons count, over their deaths: what one knew is asked for right before."""

	def __init__(self, pair):
		self.pair = pair
		self.dead = [collections.Counter(), collections.Counter()]

	def take(self, i):
		add(self.dead[i], self.pair.daemons[i].ask("stats"))

	def all(self):
		sums = self.dead[0] + self.dead[1]
		for daemon in self.pair.daemons:
			add(sums, daemon.ask("stats"))
		return sums


class Torture:
	def __init__(self, pair, measure, seed):
		self.pair = pair
		self.measure = measure
		self.chance = random.Random(seed)
		self.figures = Figures(pair)
		self.done = collections.Counter()
		self.extra = 0
		self.traffic = []

	def start(self):
		measure = self.measure
		self.traffic.append(Streams(self.pair, measure["bytes"], measure["rate"]))
		self.traffic.append(Redis(self.pair, measure["checked"], measure["bench"],
					  self.chance.randrange(1 << 20)))
		self.traffic.append(Iperf(self.pair, measure["seconds"], measure["rate"] // 2))

	def tail(self):
		return "".join(f"--- host {i}:\n" + "\n".join(daemon.log_text().splitlines()[-LOG_LINES:]) + "\n"
			       for i, daemon in enumerate(self.pair.daemons))

	def lanes(self, i):
		"""Of the connections that host @i knows: how many are on a lane, and whether the stream is."""
		found = self.pair.daemons[i].ask("ss")["connections"]
		names = [f"{end['local']} {end['peer']}" for end in found if end["lane"] == "rdma"]
		return len(names), any(f":{PORT} " in name + " " for name in names)

	def await_lanes(self):
		"""The stream and half of redis on lanes, on both hosts."""
		wanted = 1 + (self.measure["checked"] + self.measure["bench"]) // 2
		until = time.monotonic() + LANE_WAIT_S
		while True:
			for traffic in self.traffic:
				if traffic.is_over():
					raise Failure(f"{traffic.name} ended:\n{traffic.said()}\n{self.tail()}")
			found = [self.lanes(i) for i in range(2)]
			if all(count >= wanted and has_stream for count, has_stream in found):
				return
			if time.monotonic() > until:
				shown = [daemon.run_tool("ss").stdout for daemon in self.pair.daemons]
				raise Failure(f"no lanes: {found}\n{shown[0]}\n{shown[1]}\n{self.tail()}")
			time.sleep(0.05)

	def kill_link(self, i):
		fault = self.chance.choice(FAULTS)
		self.pair.hosts[i].faults(f"send device=mlx{i} {fault}\n")
		until = time.monotonic() + LANE_WAIT_S
		while self.pair.hosts[i].faults_left().strip():
			if time.monotonic() > until:
				raise Failure(f"host {i} has sent nothing that could be lost\n{self.tail()}")
			time.sleep(0.01)

	def kill_daemon(self, i):
		daemon = self.pair.daemons[i]
		self.figures.take(i)
		if daemon.daemon.poll() is not None:
			raise Failure(f"daemon {i} has ended by itself, with {daemon.daemon.returncode}\n{self.tail()}")
		daemon.kill()
		time.sleep(self.chance.choice((0, 0, 0.05, 0.5)))
		daemon.start()

	def remove_device(self, i):
		host, name = self.pair.hosts[i], f"mlx{i}"
		host.remove(name)
		if not host.wait_free(name, RELEASE_S):
			raise Failure(f"{name} is still held\n{self.tail()}")
		time.sleep(self.chance.choice((0, 0.1, 0.5)))
		host.add(name, "mlx5", f"10.77.0.{i + 1}")

	def events(self):
		"""(name, act, host), in any order."""
		events = [("link", self.kill_link, i % 2) for i in range(self.measure["links"])]
		events += [(f"daemon {i}", self.kill_daemon, i) for i in (0, 1) for _ in range(self.measure["kills"])]
		events += [("device", self.remove_device, i % 2) for i in range(self.measure["removals"])]
		self.chance.shuffle(events)
		return events

	def one_more(self):
		"""While lanes are made or lost, and not counted."""
		time.sleep(self.chance.uniform(0, 0.3))
		i = self.chance.randrange(2)
		self.chance.choice((self.kill_daemon, self.remove_device))(i)
		self.extra += 1

	def run(self, tap):
		events = self.events()
		begin = time.monotonic()
		for count, (name, act, i) in enumerate(events, 1):
			self.await_lanes()
			time.sleep(self.chance.uniform(0, DWELL_S))
			act(i)
			self.done[name] += 1
			if self.chance.random() < 0.1:
				self.one_more()
			if count % 10 == 0 or count == len(events):
				tap.diag(f"{time.monotonic() - begin:.0f} s: {count} of {len(events)}: "
					 f"{dict(sorted(self.done.items()))}, and {self.extra} more")
		self.await_lanes()

	def finish(self, tap):
		"""Let everything end; what is wrong."""
		problems = [f"{traffic.name}: {problem}" for traffic in self.traffic for problem in traffic.finish()]
		problems += self.sum_up(tap)
		problems += [line for line in self.pair.logs().splitlines() if SANITIZER.search(line)]
		return [*problems, self.tail()] if problems else []

	def sum_up(self, tap):
		sums = self.figures.all()
		demotions = {key.partition(".")[2]: count for key, count in sums.items() if key.startswith("demotions.")}
		resets = {key.partition(".")[2]: count for key, count in sums.items() if key.startswith("resets.")}
		links = {form: (sums[f"links.messages.{form}"], sums[f"links.bytes.{form}"])
			 for form in ("eager", "write_inline", "by_reference")}
		carried = sum(size for _, size in links.values())
		expected = sum(traffic.expected for traffic in self.traffic)
		alive = sum(traffic.alive for traffic in self.traffic)
		adopted = self.pair.logs().count("adopted from a predecessor")
		compared = sum(traffic.bytes for traffic in self.traffic)
		moved = compared + self.traffic[-1].moved
		tap.diag(f"lanes made {sums['lanes_between_hosts.made']}, lost {sums['lanes_between_hosts.lost']}; "
			 f"over links (messages, bytes): {links}: {carried} bytes, {100 * carried // max(moved, 1)} % "
			 "of what the stream, the checking client and iperf3 had")
		tap.diag(f"kills {dict(sorted(self.done.items()))} and {self.extra} more; adopted {adopted}; "
			 f"promotions {sums['promoted']}; demotions {demotions}; resets {resets}; bytes compared "
			 f"{compared}, of iperf3 {self.traffic[-1].moved}; connections alive {alive} of {expected}")
		if alive != expected:
			yield f"{expected - alive} connections are dead"
		if resets:
			yield f"connections were reset: {resets}"
		if carried < SHARE_MIN * moved:
			yield f"only {carried} bytes were on lanes"
		if adopted < self.done["daemon 0"] + self.done["daemon 1"]:
			yield f"only {adopted} lanes were adopted"
		if compared < 2 * self.measure["bytes"]:
			yield f"only {compared} bytes were compared"


def everything_dies_under_programs(build, measure, tap, args):
	def make(*words, **settings):
		daemon = Daemon(*words, **settings)
		daemon.daemon_build = os.path.abspath(args.daemon or build)
		return daemon

	with Pair(build, make=make, **SETTINGS) as pair:
		pair.warm_up()
		torture = Torture(pair, measure, args.seed)
		try:
			torture.start()
			torture.run(tap)
			return torture.finish(tap)
		except Failure as failure:
			return [str(failure)]
		finally:
			for traffic in torture.traffic:
				traffic.kill()
			if args.logs:
				with open(args.logs, "w", encoding="utf-8") as file:
					file.write(pair.logs())


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
	parser.add_argument("build")
	parser.add_argument("--long", action="store_true", default=bool(os.environ.get("SHUNT_LONG")))
	parser.add_argument("--seed", type=int, default=random.randrange(1, 1 << 31))
	parser.add_argument("--daemon", metavar="BUILD_DIR", help="the daemons are from there")
	parser.add_argument("--logs", metavar="FILE", help="keep what the daemons say")
	for key in USUAL:
		parser.add_argument("--" + key, type=int)
	args = parser.parse_args()
	measure = dict(LONG if args.long else USUAL)
	measure.update({key: getattr(args, key) for key in measure if getattr(args, key) is not None})
	build = os.path.abspath(args.build)
	tap = Tap()
	tap.diag(f"seed {args.seed}, {measure}")
	missing = [name for name in PROGRAMS if not shutil.which(name)]
	if missing:
		tap.skip("everything_dies_under_programs", f"not installed: {' '.join(missing)}")
	else:
		tap.result("everything_dies_under_programs",
			   everything_dies_under_programs(build, measure, tap, args))
	for case in (a_program_leaves_the_rest_to_its_daemon, program_and_daemon_die_together):
		try:
			problems = list(case(build, measure["ends"]))
		except Failure as failure:
			problems = [str(failure)]
		tap.result(case.__name__, problems)
	tap.end()


if __name__ == "__main__":
	main()
