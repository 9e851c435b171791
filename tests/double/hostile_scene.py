# SPDX-License-Identifier: MIT
"""What the cases of remote_hostile.py share: the daemons of the town, and how they are looked at."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure
from remote_lanes import Daemon
from town import ADDRESSES, HostileDaemon, Talk

PORT = 7700
# By how much an honest daemon may grow, KiB, whatever comes. Chosen: above what a lane and a link of
# the double need, far below what is sent.
GROWTH_KIB = 12 << 10
LINES_MAX = 40

# For programs of host 3, which has no key: connect N times, say WHAT (hex) and hold the line; what the
# other end has closed after SECONDS is counted.
STRANGER = """
import select, socket, sys, time
address, count, what, seconds = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3]), float(sys.argv[4])
socks = []
for _ in range(count):
	sock = socket.create_connection((address, 7609))
	socks.append(sock)
	try:
		for byte in what:
			sock.send(bytes([byte]))
	except OSError:
		pass
until, closed = time.monotonic() + seconds, 0
while socks and time.monotonic() < until:
	for sock in select.select(socks, [], [], 0.1)[0]:
		try:
			over = not sock.recv(4096)
		except OSError:
			over = True
		if over:
			socks.remove(sock)
			closed += 1
print(closed)
"""


class Honest(Daemon):
	def entry(self):
		if self.settings["peer_key"] == self.key_of_hostile:
			return ""
		return f'{{ address = "{ADDRESSES[2]}"; key = "{self.key_of_hostile}"; }}'


class Hostile(HostileDaemon, Daemon):
	pass


def write_key(path, text):
	with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
		file.write(text * 32 + "\n")


def make_with_one_key(town, i):
	return make(town, i, is_one=True)


def make(town, i, is_one=False):
	"""The daemon of host @i. The honest ones have a key, and another for the hostile one."""
	folder = town.hosts[0].dir
	keys = [os.path.join(folder, name) for name in ("key-honest", "key-hostile")]
	if not os.path.exists(keys[0]):
		write_key(keys[0], "a1")
		write_key(keys[1], "b2")
	kind = Hostile if i == 2 else Honest
	kind.key_of_hostile = keys[1]
	return kind(town.build, town.names[i], town.hosts[i], ADDRESSES[1] if i == 0 else ADDRESSES[0],
		      peer_key=keys[i == 2 or is_one], peer_ping_ms=100, peer_retry_max_ms=200, backoff_min_ms=10,
		      backoff_max_ms=50, peer_offers_max=500, peer_lapse_ms=500, log_level="info", peer_handshake_ms=1000, **town.settings)


class Scene:
	"""All that the cases need: the town, the innocents, and what the honest daemons were before."""

	def __init__(self, town, innocents):
		self.town, self.innocents = town, innocents
		self.orders = town.daemons[2].orders
		self.port = PORT + 1
		self.begin()

	def rss(self, i):
		with open(f"/proc/{self.town.daemons[i].daemon.pid}/status", encoding="ascii") as status:
			return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])

	def begin(self):
		self.before = [self.rss(i) for i in range(2)]
		self.lines = [len(self.town.daemons[i].log_text().splitlines()) for i in range(2)]

	def new_log(self, i=0):
		return "\n".join(self.town.daemons[i].log_text().splitlines()[self.lines[i]:])

	def logged(self, pattern, i=0):
		self.town.wait(f"logged: {pattern}", lambda: re.search(pattern, self.new_log(i)), timeout=10)

	def refused(self, kind):
		return self.town.daemons[0].ask("peers")["refused"][kind]

	def end(self):
		yield from self.innocents.problems()
		for i in range(2):
			grown = self.rss(i) - self.before[i]
			if grown > GROWTH_KIB:
				yield f"host {i} has grown by {grown} KiB"
			count = len(self.new_log(i).splitlines())
			if count > LINES_MAX:
				yield f"host {i} has logged {count} lines:\n{self.new_log(i)[:6000]}"

	def talk(self):
		"""Of the hostile host with host 0, on a lane."""
		self.port += 1
		return Talk(self.town, 2, 0, self.port)

	def uuid(self, i):
		return self.town.daemons[i].ask("peers")["uuid"]

	def session_is_up(self, address=ADDRESSES[2]):
		return any(peer["address"] == address and peer["state"] == "up"
			   for peer in self.town.daemons[0].ask("peers")["peers"])

	def say(self, data, repeat=0):
		"""To host 0, with a session that is there for it."""
		self.have_session()
		self.orders.say(ADDRESSES[0], data, repeat)
		if not self.orders.wait():
			raise Failure(f"the hostile daemon says nothing:\n{self.town.logs()}")

	def have_session(self):
		"""A connection that waits is what makes the daemons call."""
		if not self.session_is_up():
			with self.talk():
				pass
		self.town.wait("a session", self.session_is_up)

	def total(self, key):
		answer = self.town.daemons[0].ask("peers")
		return answer["ended_sessions"][key] + sum(peer["counts"][key] for peer in answer["peers"])
