# SPDX-License-Identifier: MIT
"""What an operator sees of lanes between hosts: the figures of `shunt links`, `ss` and `stats` are
compared with traffic that is known exactly. Two hosts as in remote_lanes.py.

usage: remote_counts.py BUILD_DIR [CASE]...
"""
import contextlib
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure
from remote_lanes import ADDRESSES, PORT, Pair
from tap import Tap

LONG = 10000

# Both ends of a ping-pong: some messages by themselves, then as many of a size as each line of the
# input says.
PONG = """
import socket, sys
role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
if role == "listen":
	with socket.create_server((address, port)) as listener:
		print("listens", flush=True)
		peer, _ = listener.accept()
else:
	peer = socket.create_connection((address, port))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

def take(left):
	while left:
		got = peer.recv(left)
		if not got:
			sys.exit("the other end is gone")
		left -= len(got)

def play(count, size):
	message = bytes(size)
	for _ in range(count):
		if role == "listen":
			take(size)
		peer.sendall(message)
		if role != "listen":
			take(size)
	print("played", flush=True)

for line in sys.stdin:
	play(*map(int, line.split()))
"""


class Pong:
	"""A connection over both hosts of @pair; host 0 dials."""

	def __init__(self, pair, port=PORT):
		self.pair = pair
		self.programs = [None, None]
		self.port = port
		self.pair.wait("a link", self.pair.link_is_up)

	def __enter__(self):
		self.start(1, "listen")
		self.read(1, "listens")
		self.start(0, "connect")
		return self

	def start(self, i, role):
		daemon = self.pair.daemons[i]
		env = {key: value for key, value in daemon.env.items()
		       if key not in ("LD_LIBRARY_PATH", "VERBS_DOUBLE_DIR")}
		self.programs[i] = subprocess.Popen(
			daemon.under([sys.executable, "-c", PONG, role, ADDRESSES[1], str(self.port)]), env=env,
			text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

	def read(self, i, expected):
		line = self.programs[i].stdout.readline().strip()
		if line != expected:
			self.programs[i].kill()
			raise Failure(f"the program of host {i} said {line!r}: {self.programs[i].stderr.read()}\n"
				      f"{self.pair.logs()}")

	def play(self, count, size):
		for program in self.programs:
			program.stdin.write(f"{count} {size}\n")
			program.stdin.flush()
		for i in range(2):
			self.read(i, "played")

	def connection(self, i, *question):
		"""Ours, as `shunt ss` of host @i shows it, or another question does."""
		for shown in self.pair.daemons[i].ask(*(question or ("ss",)))["connections"]:
			if str(self.port) in (shown["local"].rpartition(":")[2], shown["peer"].rpartition(":")[2]):
				return shown
		return None

	def to_lane(self):
		"""Play until both hosts say that it is on a lane."""
		def is_there():
			self.play(2, 1)
			return all((self.connection(i) or {}).get("lane") == "rdma" for i in range(2))
		self.pair.wait("on a lane", is_there)
		# The last words of the beginning are out.
		self.play(20, 1)

	def __exit__(self, *exc):
		for program in self.programs:
			if program:
				program.stdin.close()
		for program in self.programs:
			if program:
				with contextlib.suppress(subprocess.TimeoutExpired):
					program.wait(20)
				program.kill()
				program.wait()


def link_of(pair, i):
	links = [link for link in pair.daemons[i].ask("links")["links"] if link["state"] == "up"]
	if len(links) != 1:
		raise Failure(f"host {i} has {len(links)} links:\n{pair.logs()}")
	return links[0]


def difference(before, after):
	"""Figure by figure, where both have one."""
	if isinstance(after, dict):
		return {key: difference(before[key], value) for key, value in after.items() if key in before}
	return after - before if isinstance(after, (int, float)) and isinstance(before, (int, float)) else after


def form_of(inline_bytes, size):
	return "eager" if 32 + size <= inline_bytes else "write_inline" if size <= inline_bytes else "by_reference"


def sizes_of(pair, i):
	"""How many messages the programs have counted, by size; and their bytes."""
	lane = pair.daemons[i].ask("stats")["by_lane"]["rdma"]
	return {"bytes": lane["bytes"], "tx": dict(enumerate(lane["sizes"]["tx"])),
		"rx": dict(enumerate(lane["sizes"]["rx"]))}


def check_play(pair, pong, count, size):
	"""Play; problems with what the links count of it."""
	before = [link_of(pair, i) for i in range(2)]
	lanes = [pong.connection(i)["remote"] for i in range(2)]
	sizes = [sizes_of(pair, i) for i in range(2)]
	pong.play(count, size)
	for i in range(2):
		link = link_of(pair, i)
		seen = difference(before[i], link)
		form = form_of(link["inline_bytes"], size)
		what = f"host {i}, {count} of {size} bytes, {link['inline_bytes']} inline"
		expected = {name: count if name == form else 0 for name in seen["messages"]}
		per = 1 if form == "eager" else 2
		# Questions whether the peer is there, and credits, go between, and need one each. A ring
		# that wraps cuts a WRITE in two; no ring is smaller than this.
		spare = max(2, count // 100)
		cuts = 0 if form == "eager" else size * count // 65536 + 1
		if seen["messages"] != expected:
			yield f"{what}: messages {seen['messages']}"
		if seen["bytes"] != {name: size * n for name, n in expected.items()}:
			yield f"{what}: bytes {seen['bytes']}"
		if not per * count <= seen["sent"]["wrs"] <= per * count + spare + cuts:
			yield f"{what}: {seen['sent']}, {seen['control']}"
		if not count <= seen["sent"]["posts"] <= count + spare:
			yield f"{what}: {seen['sent']}, {seen['control']}"
		if seen["received"]["bytes"] != size * count:
			yield f"{what}: received {seen['received']}"
		lane = difference(lanes[i], pong.connection(i)["remote"])
		if lane["messages"] != expected or lane["bytes"] != {"tx": size * count, "rx": size * count}:
			yield f"{what}: the connection shows {lane}"
		# What the programs say of it: up to 64 bytes, to 256, to 1 KiB, and so on.
		fits = next(bucket for bucket in range(8) if size <= 64 << 2 * bucket)
		counted = {bucket: count if bucket == fits else 0 for bucket in range(8)}
		if difference(sizes[i], sizes_of(pair, i)) != {"bytes": {"tx": size * count, "rx": size * count},
							       "tx": counted, "rx": counted}:
			yield f"{what}: sizes were {sizes[i]}, are {sizes_of(pair, i)}"
		if count == LONG:
			print(f"# {what}: {seen['sent']['wrs'] / count:.4f} work requests and "
			      f"{seen['sent']['posts'] / count:.4f} posts per message, "
			      f"window updates {seen['window_updates']}", flush=True)


def ping_pongs_are_counted(build):
	with Pair(build) as pair:
		pair.warm_up()
		with Pong(pair) as pong:
			pong.to_lane()
			for size in (64, 1, 204, 205, 236, 237):
				yield from check_play(pair, pong, LONG if size == 64 else 500, size)
		for i in range(2):
			# Both have ended on the lane, or been closed there.
			if "none" in pair.daemons[i].ask("stats")["demotions"]:
				yield f"host {i}: a lane ended for no reason: {pair.daemons[i].ask('stats')}"


def the_form_follows_the_inline_limit(build):
	for inline in (0, 32, 48, 80, 96, 101, 216, 236):
		rule = f"inline_cap = {inline};" if inline else 'inline = "off";'
		with Pair(build, conf=f'devices = ( {{ name = "*"; {rule} }} );\n') as pair:
			pair.warm_up()
			if link_of(pair, 0)["inline_bytes"] != inline:
				yield f"{link_of(pair, 0)['inline_bytes']} bytes inline instead of {inline}"
			with Pong(pair) as pong:
				pong.to_lane()
				if inline in (0, 32):
					yield from check_play(pair, pong, LONG, 64)
				for size in sorted({1, 64, max(1, inline - 32), inline - 31, inline, inline + 1, 5000}):
					if size > 0:
						yield from check_play(pair, pong, 200, size)


def a_lost_link_is_named(build):
	with Pair(build, backoff_min_ms=10, backoff_max_ms=50) as pair:
		pair.warm_up()
		with Pong(pair) as pong:
			pong.to_lane()
			number = link_of(pair, 0)["link"]
			pair.hosts[0].faults("send device=mlx0 action=error status=12\n")
			pong.play(100, 64)
			pong.to_lane()
			pids = [pong.connection(i)["pid"] for i in range(2)]
			events = [event["text"] for event in pong.connection(0, "why", pids[0])["events"]]
			if not any(f"link {number} to 10.88.0.2 over mlx0 was lost: sending: " in event for event in events):
				yield f"shunt why says {events}"
			for i in range(2):
				stats = pair.daemons[i].ask("stats")
				# That of warm_up() may have ended on its lane, too.
				stats["demotions"].pop("closed", None)
				if stats["demotions"] != {"lane_lost": 1}:
					yield f"host {i}: {stats['demotions']}"
				if stats["lanes_between_hosts"] != {"made": stats["lanes"], "lost": 1}:
					yield f"host {i}: {stats['lanes_between_hosts']}, {stats['lanes']} lanes"
				seen = pair.daemons[i].ask("links")
				if seen["lost"] != 1 or seen["peers"][0]["last_lost"] != seen["losses"][0]:
					yield f"host {i}: {seen}"
				if seen["totals"]["messages"] != seen["devices"][0]["messages"]:
					yield f"host {i}: {seen['totals']}, {seen['devices']}"


def a_pool_without_queue_pairs_is_named(build):
	with Pair(build, backoff_min_ms=10, backoff_max_ms=50) as pair:
		pair.warm_up()
		none = "create_qp device=mlx0 errno=ENOMEM count=inf\n"
		def is_empty():
			pair.hosts[0].faults(none + "send device=mlx0 action=error status=12\n")
			time.sleep(0.1)
			return all(pair.daemons[i].ask("links")["peers"][0]["reason"] == "no_queue_pair"
				   for i in range(2))
		pair.wait("without queue pairs", is_empty)
		with Pong(pair) as pong:
			def is_refused():
				pong.play(4, 1)
				time.sleep(0.05)
				return all((pong.connection(i) or {}).get("reason") == "no_queue_pair" for i in range(2))
			pair.wait("refused for that reason", is_refused)
			for i in range(2):
				shown = pair.daemons[i].run_tool("why", pong.connection(i)["pid"]).stdout
				if "waits for a queue pair" not in " ".join(shown.split()):
					yield f"host {i}: {shown}"
			if "no queue pair" not in pair.daemons[0].run_tool("links").stdout:
				yield pair.daemons[0].run_tool("links").stdout
			pair.hosts[0].faults("")
			pong.to_lane()


RING = 256 << 10

def what_is_pinned_is_charged(build):
	with Pair(build, backoff_min_ms=10, backoff_max_ms=50, pinned_bytes_per_uid=3 * RING) as pair:
		pair.warm_up()
		with Pong(pair) as second:
			with Pong(pair, PORT + 1) as first:
				first.to_lane()
				def is_refused():
					second.play(4, 1)
					return all((second.connection(i) or {}).get("reason") == "over_quota" for i in range(2))
				pair.wait("refused for what is pinned", is_refused)
				for i in range(2):
					if first.connection(i)["lane"] != "rdma":
						yield f"host {i}: {first.connection(i)}"
			# All of it was given back.
			second.to_lane()


CASES = [ping_pongs_are_counted, the_form_follows_the_inline_limit, a_lost_link_is_named,
	 a_pool_without_queue_pairs_is_named, what_is_pinned_is_charged]


def main():
	build = os.path.abspath(sys.argv[1])
	tap = Tap()
	for case in CASES:
		if sys.argv[2:] and case.__name__ not in sys.argv[2:]:
			continue
		try:
			problems = list(case(build))
		except Failure as failure:
			problems = [str(failure)]
		tap.result(case.__name__, problems)
	tap.end()


if __name__ == "__main__":
	main()
