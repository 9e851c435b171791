# SPDX-License-Identifier: MIT
"""What links and messages between two whole daemons cost, counted by a library that is preloaded into
both (tests/lib/count): no queue pair is made on the way to a link, and a message makes none, registers
nothing and allocates nothing. The scene is that of remote_lanes.py.

usage: remote_cost.py BUILD_DIR [CASE]...
"""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import remote_lanes
from remote_lanes import ADDRESSES, PORT, Failure, Namespaces, Pair, Tap
import counts
from counts import Counts
from distance import Cable

# One way.
DELAY_S = 0.1
PROMOTIONS = 6
LINKS = 50
MESSAGES = 100000


class Daemon(remote_lanes.Daemon):
	"""One that is counted."""

	def configure(self, **settings):
		super().configure(**settings)
		self.counts = Counts(self.dir, "shuntd")
		self.daemon_env = self.counts.env(self.build)

	def port(self):
		"""The only port of the only device."""
		return self.ask("devices")["devices"][0]["ports"][0]

	def is_ready(self):
		"""Its device is probed, and has what it keeps ready."""
		devices = self.ask("devices")["devices"]
		return (devices and devices[0]["state"] == "ready" and devices[0]["probe"]["frontier"] and
			pool_is_full(devices[0]["ports"][0]["pool"]) and
			devices[0]["memory"]["ready_halves"] == 4)

	def thread_name(self, tid):
		with open(f"/proc/{self.daemon.pid}/task/{tid}/comm", encoding="utf-8") as comm:
			return comm.read().strip()

	def threads(self):
		"""What each of its threads has done, by role. The worker is called as its device is, and the
		control thread as well, which is the one that makes queue pairs."""
		roles = {}
		for tid, numbers in self.counts.threads().items():
			if tid == self.daemon.pid:
				roles["loop"] = numbers
			elif numbers["create_qp"]:
				roles["control"] = numbers
			elif self.thread_name(tid) in self.host.devices:
				roles["worker"] = numbers
			else:
				roles[self.thread_name(tid)] = numbers
		return roles


class Pings:
	"""tests/double/pings, one on each host."""

	def __init__(self, pair, count, max_bytes, pause_us=0):
		path = os.path.join(pair.build, "tests", "double", "pings")
		self.programs = []
		for i, role in ((1, "listen"), (0, "connect")):
			self.programs.append(pair.daemons[i].program(path, role, ADDRESSES[1], PORT, count,
								     max_bytes, pause_us))
			time.sleep(0.5)

	def end(self, timeout=60):
		"""How many messages went, when all did; raises Failure otherwise."""
		said = []
		for program in reversed(self.programs):
			out, errors = program.communicate(timeout=timeout)
			if program.returncode:
				raise Failure(f"a program ended with {program.returncode}: {errors}")
			said.append(int(out))
		if said[0] != said[1]:
			raise Failure(f"one end counts {said[0]} messages, the other {said[1]}")
		return said[0]


def pool_is_full(pool):
	return pool["ready"] >= pool["target"] and not pool["coming"] and not pool["waiting"]


class Making:
	"""Links in the making, from the calls and events of a daemon: from the first step of a dial, or the
	request of the other end, until the link is up or its id is destroyed."""

	def __init__(self, events):
		self.dialled = self.accepted = 0
		self.made_on_path = 0
		self.slowest_ms = 0
		self.begun = {}
		for event in events:
			self.take(event)

	def take(self, event):
		up = event.what == "establish" or event.what == "cm_event" and event.value == counts.ESTABLISHED
		if event.what == "resolve_addr":
			self.begun[event.object] = event
		elif event.what == "cm_event" and event.value == counts.CONNECT_REQUEST:
			self.begun[event.object] = event
		elif event.what in ("create_qp", "create_cq"):
			self.made_on_path += bool(self.begun)
		elif up or event.what == "destroy_id":
			begin = self.begun.pop(event.object, None)
			if begin and up:
				self.dialled += begin.what == "resolve_addr"
				self.accepted += begin.what != "resolve_addr"
				self.slowest_ms = max(self.slowest_ms, (event.ns - begin.ns) / 1e6)


def lose_link(pair, turn):
	"""As a real link is lost: what one end sends does not arrive."""
	action = ("action=error status=12", "action=flush", "action=partial")[turn % 3]
	pair.hosts[turn % 2].faults(f"send device=mlx{turn % 2} {action}\n")


def fifty_links_make_no_queue_pair(build, tap):
	with Pair(build, make=Daemon, backoff_min_ms=10, backoff_max_ms=50, pool_min=2) as pair:
		def ups():
			return [daemon.log_text().count("link up over") for daemon in pair.daemons]
		def is_ready(i):
			return (ups()[i] == turn + 1 and pool_is_full(pair.daemons[i].port()["pool"]) and
				any(c["lane"] == "rdma" for c in pair.daemons[i].ask("ss")["connections"]))
		for i, daemon in enumerate(pair.daemons):
			pair.wait(f"host {i} ready", daemon.is_ready)
		pings = Pings(pair, 1 << 40, 1000, pause_us=500)
		for turn in range(LINKS):
			# Up, in use by a lane, and behind it the pool is full again.
			for i in range(2):
				pair.wait(f"link {turn}, a lane on it, and a full pool at host {i}: "
					  f"{ups()}, {pair.daemons[i].port()}", lambda i=i: is_ready(i))
			if turn + 1 < LINKS:
				lose_link(pair, turn)
		messages = pings.end()
		for i, daemon in enumerate(pair.daemons):
			made = Making(daemon.counts.events())
			pool = daemon.port()["pool"]
			roles = daemon.threads()
			creators = {role: n["create_qp"] for role, n in roles.items() if n["create_qp"]}
			tap.diag(f"host {i}: {made.dialled} links dialled, {made.accepted} accepted, the slowest in "
				 f"{made.slowest_ms:.1f} ms; queue pairs made meanwhile: {made.made_on_path}; "
				 f"pool: {pool['created']} made, {pool['taken']} taken, {pool['waited']} waited "
				 f"for, {pool['destroyed']} destroyed, {pool['ready']} ready; {pair.lanes(i)} "
				 f"lanes; {messages} messages")
			if made.dialled + made.accepted < LINKS or pool["taken"] < LINKS:
				yield f"host {i}: not {LINKS} links: {made.dialled} + {made.accepted}, {pool}"
			if made.made_on_path:
				yield f"host {i}: {made.made_on_path} queue pairs were made on the way to a link"
			if pool["waited"] or pool["failed"]:
				yield f"host {i}: links waited for the pool: {pool}"
			if list(creators) != ["control"]:
				yield f"host {i}: queue pairs are made by {creators}"
			if not pool_is_full(pool):
				yield f"host {i}: the pool is not full again: {pool}"
			if pool["created"] != pool["ready"] + pool["out"] + pool["destroyed"]:
				yield f"host {i}: queue pairs are missing: {pool}"


class Snapshot:
	"""What a daemon has done up to now, and with how many messages."""

	def __init__(self, daemon):
		links = daemon.ask("links")["links"]
		self.forms = {form: sum(link["messages"][form] for link in links)
			      for form in ("eager", "write_inline", "by_reference")}
		self.messages = sum(self.forms.values())
		self.roles = daemon.threads()
		self.verbs = {what: daemon.counts.total(what)
			      for what in ("create_qp", "create_cq", "reg_mr", "dereg_mr")}

	def since(self, before):
		"""What has come to that since @before."""
		diff = Snapshot.__new__(Snapshot)
		diff.messages = self.messages - before.messages
		diff.forms = {form: n - before.forms[form] for form, n in self.forms.items()}
		diff.verbs = {what: n - before.verbs[what] for what, n in self.verbs.items()}
		diff.allocs = {role: n["alloc"] - before.roles.get(role, {"alloc": 0})["alloc"]
			       for role, n in self.roles.items()}
		return diff


def messages_make_and_allocate_nothing(build, tap):
	with Pair(build, make=Daemon) as pair:
		def is_on_lane():
			return all(c["lane"] == "rdma" for daemon in pair.daemons
				   for c in daemon.ask("ss")["connections"] or [{"lane": "none"}])
		for i, daemon in enumerate(pair.daemons):
			pair.wait(f"host {i} ready", daemon.is_ready)
		pings = Pings(pair, 1 << 40, 20000)
		pair.wait("a lane", is_on_lane)
		before = [Snapshot(daemon) for daemon in pair.daemons]
		after = before
		until = time.monotonic() + 120
		while (sum(now.messages - then.messages for now, then in zip(after, before)) < MESSAGES and
		       time.monotonic() < until):
			time.sleep(2)
			after = [Snapshot(daemon) for daemon in pair.daemons]
		pings.end()
		diffs = [now.since(then) for now, then in zip(after, before)]
		for i, diff in enumerate(diffs):
			tap.diag(f"host {i}: {diff.messages} messages {diff.forms}; {diff.verbs}; "
				 f"allocations by thread: {diff.allocs}")
			if not all(diff.forms.values()):
				yield f"host {i}: not all forms: {diff.forms}"
			if any(diff.verbs.values()):
				yield f"host {i}: {diff.verbs}"
			if diff.allocs["worker"]:
				yield f"host {i}: the worker allocates: {diff.allocs}"
			# Questions like these, and looks at the devices.
			if sum(diff.allocs.values()) > diff.messages / 4:
				yield f"host {i}: too much for what has nothing to do with messages: {diff.allocs}"
		if sum(diff.messages for diff in diffs) < MESSAGES:
			yield f"only {[diff.messages for diff in diffs]} messages"


class FarApart(Namespaces):
	"""With a long way between them."""

	def connect(self):
		self.cable = Cable(self.names, [address + "/24" for address in ADDRESSES], DELAY_S)
		self.cable.__enter__()

	def __exit__(self, *exc):
		self.cable.__exit__(*exc)
		super().__exit__(*exc)


class Promotion:
	"""When the ends of one connection did what, in round trips, from the moment of the later offer."""

	def __init__(self, pair):
		offered, paired, self.ready = [], [], []
		for daemon in pair.daemons:
			pid = daemon.ask("ss")["connections"][0]["pid"]
			events = daemon.ask("why", pid)["connections"][0]["events"]
			times = {event["text"].split()[0]: event["time_ms"] for event in events
				 if event["epoch"] == 1}
			offered.append(times["waits"])
			paired.append(times["paired"])
			self.ready.append(times["both"])
		trip_ms = 2000 * DELAY_S
		self.trips = (max(self.ready) - max(offered)) / trip_ms
		self.trips_known = (max(self.ready) - max(paired)) / trip_ms
		# In half a round trip the other daemon hears of an offer; the rest is for a busy machine.
		self.in_turn = abs(offered[0] - offered[1]) > 1500 * DELAY_S


def a_promotion_takes_one_round_trip(build, tap):
	"""From when both offers are there, MATCH and its answer. Of offers that cross no daemon knows, for half
	a round trip more, that they are. A second round trip would be seen in each figure."""
	with Pair(build, make=Daemon, spaces=FarApart) as pair:
		pair.warm_up()
		for _ in range(PROMOTIONS):
			pings = Pings(pair, 1 << 40, 1000)
			pair.wait("a lane", lambda: all(c["state"] == "ring" for daemon in pair.daemons for c in
							daemon.ask("ss")["connections"] or [{"state": ""}]))
			seen = Promotion(pair)
			pings.end()
			tap.diag(f"{seen.trips:.2f} round trips from the later offer on, {seen.trips_known:.2f} "
				 f"since both daemons know both; offers {'came in turn' if seen.in_turn else 'may have crossed'}")
			if seen.trips_known > 1.4 or seen.trips > (1.4 if seen.in_turn else 1.9):
				yield f"{seen.trips:.2f}, {seen.trips_known:.2f} round trips:\n{pair.logs()}"


CASES = [fifty_links_make_no_queue_pair, messages_make_and_allocate_nothing,
	 a_promotion_takes_one_round_trip]


def main():
	build = os.path.abspath(sys.argv[1])
	tap = Tap()
	for case in CASES:
		if sys.argv[2:] and case.__name__ not in sys.argv[2:]:
			continue
		try:
			problems = list(case(build, tap))
		except Failure as failure:
			problems = [str(failure)]
		tap.result(case.__name__, problems)
	tap.end()


if __name__ == "__main__":
	main()
