# SPDX-License-Identifier: MIT
"""Four hosts on one network, each a network namespace: daemons on hosts 0 and 1 that are honest, one on
host 2 that means harm (hostile.py) and has a key for its own address, and host 3, which has neither.

	with Town(BUILD, Daemon) as town:
		…
"""
import os
import select
import subprocess
import sys
import threading
import time

from hostile import Orders
from private import Failure
from verbs_host import Host

WAIT_S = 30
ADDRESSES = tuple(f"10.88.0.{i + 1}" for i in range(4))
RDMA = tuple(f"10.77.0.{i + 1}" for i in range(4))
TALKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "double", "talker.py")


def ip(*args):
	subprocess.run(["ip", *args], check=True, capture_output=True, text=True)


class Town:
	"""@make: a daemon of remote_lanes.py; @settings: of all of them."""

	def __init__(self, build, make, **settings):
		self.build = build
		self.make = make
		self.settings = settings
		self.names = [f"shunt-{os.getpid()}-{i}" for i in range(4)]
		self.hub = f"shunt-{os.getpid()}-hub"
		self.daemons, self.hosts, self.opened = [], [], []

	def __enter__(self):
		try:
			self.open()
			return self
		except BaseException:
			self.__exit__()
			raise

	def __exit__(self, *exc):
		for manager in reversed(self.opened):
			manager.__exit__(*exc)
		for name in (*self.names, self.hub):
			subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

	def keep(self, manager):
		manager.__enter__()
		self.opened.append(manager)
		return manager

	def connect(self):
		ip("netns", "add", self.hub)
		ip("-n", self.hub, "link", "add", "hub", "type", "bridge")
		ip("-n", self.hub, "link", "set", "hub", "up")
		for i, name in enumerate(self.names):
			ip("netns", "add", name)
			ip("-n", name, "link", "set", "lo", "up")
			ip("-n", name, "link", "add", "cable", "type", "veth", "peer", "name", f"port{i}", "netns", self.hub)
			ip("-n", self.hub, "link", "set", f"port{i}", "master", "hub", "up")
			ip("-n", name, "address", "add", ADDRESSES[i] + "/24", "dev", "cable")
			ip("-n", name, "link", "set", "cable", "up")

	def open(self):
		self.connect()
		for i in range(4):
			self.hosts.append(self.keep(Host(self.hosts[0] if i else None)))
			self.hosts[i].add(f"mlx{i}", "mlx5", RDMA[i])
		for i in range(3):
			self.daemons.append(self.keep(self.make(self, i)))

	def logs(self):
		return "".join(f"--- host {i}:\n" + "\n".join(daemon.log_text().splitlines()[-25:]) + "\n"
			       for i, daemon in enumerate(self.daemons))

	def wait(self, what, condition, timeout=WAIT_S):
		until = time.monotonic() + timeout
		while not condition():
			if time.monotonic() > until:
				raise Failure(f"not {what}:\n{self.logs()}")
			time.sleep(0.02)

	def on(self, i, *command, **options):
		"""Start a program on host @i, which knows nothing of Shunt."""
		libraries = os.path.join(self.build, "tests", "lib", "verbs")
		return subprocess.Popen(["ip", "netns", "exec", self.names[i], *map(str, command)], text=True,
					env=self.hosts[i].env(libraries), stdin=subprocess.DEVNULL,
					stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


class Talk:
	"""Two programs (talker.py): on host @one, which connects, and on @other."""

	def __init__(self, town, one, other, port):
		self.town, self.ends, self.port = town, (one, other), port
		self.said = [b"", b""]
		command = (sys.executable, TALKER)
		listener = town.daemons[other].program(*command, "listen", ADDRESSES[other], port)
		self.programs = [None, listener]
		self.expect(1, "listening")
		self.programs[0] = town.daemons[one].program(*command, "connect", ADDRESSES[other], port)
		for i in range(2):
			self.expect(i, "connected")

	def __exit__(self, *exc):
		for program in self.programs:
			program.kill()
			program.communicate()

	def __enter__(self):
		self.promote()
		return self

	def entry(self, i):
		"""What `shunt ss` of end @i shows of the connection."""
		shown = self.town.daemons[self.ends[i]].ask("ss")["connections"]
		for connection in shown:
			if f":{self.port}" in connection["local"] + " " + connection["peer"]:
				return connection
		return {"lane": "none", "epoch": 0}

	def on_lane(self):
		return all(self.entry(i)["lane"] == "rdma" for i in range(2))

	def promote(self):
		for _ in range(300):
			self.both("chat 4")
			if self.on_lane():
				self.both("chat 4")
				return
			time.sleep(0.02)
		raise Failure(f"two programs came on no lane:\n{self.town.logs()}")

	def tell(self, i, what):
		try:
			self.programs[i].stdin.write(what + "\n")
			self.programs[i].stdin.flush()
		except BrokenPipeError:
			pass

	def answer(self, i, timeout=WAIT_S):
		out = self.programs[i].stdout.fileno()
		until = time.monotonic() + timeout
		while b"\n" not in self.said[i]:
			left = until - time.monotonic()
			if left <= 0 or not select.select([out], [], [], left)[0]:
				return "nothing"
			data = os.read(out, 4096)
			if not data:
				return "dead"
			self.said[i] += data
		line, self.said[i] = self.said[i].split(b"\n", 1)
		return line.decode()

	def expect(self, i, answer):
		said = self.answer(i)
		if said != answer:
			raise Failure(f"program {i} of port {self.port} says \"{said}\", not \"{answer}\":\n{self.town.logs()}")

	def both(self, what):
		for i in range(2):
			self.tell(i, what)
		for i in range(2):
			self.expect(i, "ok")


class Innocents:
	"""A connection of the two honest hosts that is chatted on, in a thread of its own, as long as it is
	entered, and has to stay on the one lane that it has."""

	def __init__(self, town, port):
		self.talk = Talk(town, 0, 1, port)
		self.talk.promote()
		self.epochs = self.epochs_now()
		self.rounds, self.failure, self.is_over = 0, None, False
		self.thread = threading.Thread(target=self._run)

	def epochs_now(self):
		return [(self.talk.entry(i)["lane"], self.talk.entry(i)["epoch"]) for i in range(2)]

	def __enter__(self):
		self.thread.start()
		return self

	def _run(self):
		try:
			while not self.is_over:
				self.talk.both("chat 50")
				self.rounds += 1
		except Failure as failure:
			self.failure = str(failure)

	def problems(self):
		"""What is wrong with it by now."""
		before, until = self.rounds, time.monotonic() + WAIT_S
		while self.rounds < before + 2 and not self.failure and time.monotonic() < until:
			time.sleep(0.01)
		if self.failure or self.rounds < before + 2:
			yield f"innocents: {self.failure or 'they stand still'}\n{self.talk.town.logs()}"
		elif self.epochs_now() != self.epochs:
			yield f"innocents: {self.epochs} became {self.epochs_now()}\n{self.talk.town.logs()}"

	def __exit__(self, *exc):
		self.is_over = True
		self.thread.join()
		self.talk.__exit__()


class HostileDaemon:
	"""Mixed into the daemon of host 2: it obeys orders."""

	def configure(self, **settings):
		super().configure(**settings)
		self.orders = Orders(self.dir, "shuntd")
		self.daemon_env = self.orders.env(self.build)
