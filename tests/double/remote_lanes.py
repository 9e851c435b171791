# SPDX-License-Identifier: MIT
"""Lanes between hosts: two whole daemons in two network namespaces, a link of the verbs double
between them, and programs under Shunt whose stream goes over it and is checked byte by byte.

usage: remote_lanes.py BUILD_DIR [CASE]...
"""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure, Private
from tap import Tap
from verbs_host import Host

WAIT_S = 30
ADDRESSES = ("10.88.0.1", "10.88.0.2")
PORT = 7700


def ip(*args):
	subprocess.run(["ip", *args], check=True, capture_output=True, text=True)


# Connections one after the other, of one to eleven messages: many end while they get a lane.
SHORT_PROGRAM = """
import random, socket, sys, time
role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
if role == "listen":
	listener = socket.create_server((address, port))
	print("listens", flush=True)
	while True:
		sock = listener.accept()[0]
		while data := sock.recv(100):
			sock.sendall(data)
		sock.close()
chance, until, count = random.Random(1), time.monotonic() + 5, 0
while time.monotonic() < until:
	sock = socket.create_connection((address, port))
	for i in range(chance.randrange(1, 12)):
		sock.sendall(b"0123456789")
		if len(sock.recv(10, socket.MSG_WAITALL)) != 10:
			sys.exit("a short answer")
		if chance.random() < 0.3:
			time.sleep(chance.random() * 0.001)
	sock.close()
	count += 1
print(count, flush=True)
"""


class Namespaces:
	"""Two network namespaces with a cable between them."""

	def __init__(self):
		self.names = [f"shunt-{os.getpid()}-{i}" for i in range(2)]

	def __enter__(self):
		for name in self.names:
			ip("netns", "add", name)
			ip("-n", name, "link", "set", "lo", "up")
		self.connect()
		return self

	def connect(self):
		ip("-n", self.names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable",
		   "netns", self.names[1])
		for name, address in zip(self.names, ADDRESSES):
			ip("-n", name, "address", "add", address + "/24", "dev", "cable")
			ip("-n", name, "link", "set", "cable", "up")

	def __exit__(self, *exc):
		for name in self.names:
			subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


class Daemon(Private):
	"""The daemon of one host: in a namespace, on a host of the double."""

	def __init__(self, build, namespace, host, other, conf="", **settings):
		super().__init__(build, **{"rdma_rescan_ms": 100, "remote_lanes": "on", "log_level": "debug",
					   "peer_sessions": "on", "promote_after": 2,
					   "peer_retry_min_ms": 20, **settings})
		self.prefix = ["ip", "netns", "exec", namespace]
		self.host = host
		self.other = other
		self.conf = conf

	def configure(self, **settings):
		libraries = os.path.join(self.build, "tests", "lib", "verbs")
		self.env.update(VERBS_DOUBLE_DIR=self.host.dir, LD_LIBRARY_PATH=libraries,
				SHUNT_CACHE_DIR=os.path.join(self.dir, "cache"))
		super().configure(**settings)
		with open(self.env["SHUNT_CONF"], "a", encoding="utf-8") as conf:
			conf.write(f'peers = ( {self.entry()} );\n{self.conf}')

	def entry(self):
		"""Of the other one, in the settings."""
		return f'{{ address = "{self.other}"; }}'

	def kill(self):
		super().kill()
		self.daemon = None

	def stop(self):
		super().stop()
		if self.daemon and self.daemon.returncode:
			raise Failure(f"the daemon ended with {self.daemon.returncode}:\n{self.log_text()}")

	def program(self, *command):
		"""Start @command under this daemon."""
		env = {key: value for key, value in self.env.items()
		       if key not in ("LD_LIBRARY_PATH", "VERBS_DOUBLE_DIR")}
		return subprocess.Popen(self.under([*map(str, command)]), env=env, text=True,
					stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

	def stream(self, *args):
		"""Start the program that streams."""
		return self.program(os.path.join(self.build, "tests", "apps", "stream"), *args)


class Pair:
	"""Both hosts; @conf: text for both files of settings; @spaces: where they are."""

	def __init__(self, build, conf="", make=Daemon, spaces=Namespaces, **settings):
		self.build = build
		self.spaces = spaces
		self.conf = conf
		self.make = make # of a daemon
		self.settings = settings
		self.daemons = []
		self.opened = []

	def __enter__(self):
		try:
			return self.open()
		except BaseException:
			self.__exit__()
			raise

	def keep(self, manager):
		manager.__enter__()
		self.opened.append(manager)
		return manager

	def open(self):
		spaces = self.keep(self.spaces())
		self.names = spaces.names
		first = self.keep(Host())
		self.hosts = [first, self.keep(Host(first))]
		for i, host in enumerate(self.hosts):
			host.add(f"mlx{i}", "mlx5", f"10.77.0.{i + 1}")
			self.daemons.append(self.keep(self.make(self.build, spaces.names[i], host,
								ADDRESSES[1 - i], self.conf, **self.settings)))
		return self

	def __exit__(self, *exc):
		for manager in reversed(self.opened):
			manager.__exit__(*exc)

	def logs(self):
		return "".join(f"--- host {i}:\n{daemon.log_text()}" for i, daemon in enumerate(self.daemons))

	def wait(self, what, condition):
		until = time.monotonic() + WAIT_S
		while not condition():
			if time.monotonic() > until:
				raise Failure(f"not {what}:\n{self.logs()}")
			time.sleep(0.01)

	def link_is_up(self):
		return all("link up over" in daemon.log_text() for daemon in self.daemons)

	def warm_up(self):
		"""Have the daemons call each other: a connection that waits is what makes them."""
		problems = list(self.run("--bytes", "64K", "--max-op", "2K", "--rate", "128K"))
		if problems:
			raise Failure("\n".join(problems))
		self.wait("a link", self.link_is_up)

	def run(self, *args, meanwhile=None):
		"""One stream each way; problems."""
		programs = [self.daemons[1].stream(*args, "listen", PORT, ADDRESSES[1])]
		time.sleep(0.5)
		programs.append(self.daemons[0].stream(*args, "connect", ADDRESSES[1], PORT))
		if meanwhile:
			yield from meanwhile(programs)
		for program in programs:
			try:
				out, errors = program.communicate(timeout=60)
			except subprocess.TimeoutExpired:
				program.kill()
				out, errors = program.communicate()
				yield "a program hangs"
			if program.returncode:
				yield f"a program ended with {program.returncode}: {errors}\n{out}\n{self.logs()}"

	def lanes(self, i):
		return self.daemons[i].ask("stats")["lanes"]


def a_stream_goes_over_a_lane(build):
	with Pair(build) as pair:
		pair.warm_up()
		def look(programs):
			shown = []
			while all(program.poll() is None for program in programs) and "rdma" not in shown:
				shown = [c["lane"] for c in pair.daemons[0].ask("ss")["connections"]]
				time.sleep(0.05)
			if "rdma" not in shown:
				yield f"shunt ss shows {shown}:\n{pair.logs()}"
		yield from pair.run("--bytes", "32M", "--rate", "8M", meanwhile=look)
		for i in range(2):
			stats = pair.daemons[i].ask("stats")
			if stats["lanes"] < 1 or stats["lane_bytes"]["tx"] < 16 << 20:
				yield f"host {i}: not over a lane: {stats}\n{pair.logs()}"


def links_are_lost_under_a_stream(build):
	with Pair(build, backoff_min_ms=10, backoff_max_ms=50) as pair:
		pair.warm_up()
		def lose(programs):
			# In the middle of a message, before one, behind one.
			for turn in range(1000):
				time.sleep(0.25)
				if any(program.poll() is not None for program in programs):
					break
				fault = ("action=partial", "action=error status=12", "action=flush")[turn % 3]
				pair.hosts[turn % 2].faults(f"send device=mlx{turn % 2} {fault}\n")
			yield from ()
		yield from pair.run("--bytes", "24M", "--rate", "4M", "--timeout", "40", meanwhile=lose)
		lost = sum(line.count("is lost:") for line in pair.logs().splitlines())
		if lost < 6 or pair.lanes(0) < 4:
			yield f"{lost} links were lost, {pair.lanes(0)} lanes made:\n{pair.logs()}"


def connections_that_end_while_they_are_promoted_cost_no_link(build):
	"""Whichever daemon goes first, which its UUID decides: a few of them see both."""
	for _ in range(3):
		with Pair(build) as pair:
			pair.warm_up()
			args = ("-c", SHORT_PROGRAM)
			listener = pair.daemons[1].program(sys.executable, *args, "listen", ADDRESSES[1], PORT)
			listener.stdout.readline()
			caller = pair.daemons[0].program(sys.executable, *args, "connect", ADDRESSES[1], PORT)
			out, errors = caller.communicate(timeout=30)
			if caller.returncode or listener.poll() is not None:
				yield f"a program ended: {errors}"
			# As long as an end may be waited for.
			time.sleep(2.5)
			listener.kill()
			listener.communicate()
			lost = [line for line in pair.logs().splitlines() if "the link over" in line]
			if lost or pair.lanes(0) < 20:
				yield f"{out.strip()} connections, {pair.lanes(0)} lanes, lost: {lost}"


CASES = [a_stream_goes_over_a_lane, links_are_lost_under_a_stream,
	 connections_that_end_while_they_are_promoted_cost_no_link]


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
