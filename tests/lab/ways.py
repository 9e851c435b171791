# SPDX-License-Identifier: MIT
"""In the guest: the ways that two programs talk to each other, and what it costs in each."""
import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess

from hosts import RDMA_ADDRESSES
from kit import BUILD, Failure, must
from smc import Control

TALK = os.path.join(BUILD, "tests", "lab", "talk")
RSOCKETS = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"
TRACING = "/sys/kernel/tracing"
# What a side of Shunt has sent on its lane, of all that it has sent: a connection begins on TCP.
LANE_SHARE_MIN = 0.99
PR_SET_PDEATHSIG = 1


def die_with_parent():
	ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Way:
	"""A pair of talk.c that are connected, TCP's if nothing else is said."""

	port = 7800

	def __init__(self, name, address=RDMA_ADDRESSES[1], words=(), env=None):
		self.name = name
		self.address = address
		self.words = list(words)
		self.env = env
		Way.port += 1
		self.port = Way.port
		self.server = self.client = None

	def start(self, side, command):
		"""One of the two: @side 0 asks, 1 serves."""
		del side
		return subprocess.Popen(command, env=dict(os.environ, **(self.env or {})), text=True,
					stdin=subprocess.PIPE, stdout=subprocess.PIPE,
					preexec_fn=die_with_parent)

	def open(self):
		to = [self.address, str(self.port)]
		self.server = self.start(1, [TALK, *self.words, "serve", *to])
		if self.server.stdout.readline() != "listening\n":
			raise Failure(f"{self.name}: the server does not listen")
		self.client = self.start(0, [TALK, *self.words, "ask", *to])
		return self

	def close(self):
		self.client.stdin.close()
		for program in (self.client, self.server):
			try:
				program.wait(20)
			except subprocess.TimeoutExpired:
				program.kill()
				program.wait()

	def finish(self):
		"""Close it. Problems: what was measured was something else."""
		self.close()
		return ()

	def ask(self, *words):
		"""Have a task done: its answer."""
		self.client.stdin.write(" ".join(map(str, words)) + "\n")
		self.client.stdin.flush()
		line = self.client.stdout.readline()
		if not line:
			raise Failure(f"{self.name}: {words}: the program has ended")
		return json.loads(line)

	def pids(self):
		return {self.client.pid, self.server.pid}


class Smc(Way):
	"""The kernel's SMC-R, proved by its own counters: it falls back to TCP without a word."""

	def __init__(self):
		super().__init__("SMC-R", words=["--smc"])
		must("modprobe smc")
		self.control = Control()
		self.control.add_ueid("LAB")

	def open(self):
		before = self.control.stats()
		super().open()
		self.ask("lat", 64, 10)
		after = self.control.stats()
		if after["clients"] != before["clients"] + 1 or after["servers"] != before["servers"] + 1:
			raise Failure(f"SMC-R: it is not SMC-Rv2: {before}, then {after}")
		return self


class Rsockets(Way):
	"""librdmacm's sockets over RDMA, which is asked not to spin either."""

	def __init__(self, spin_us):
		super().__init__("rsockets", env={"LD_PRELOAD": RSOCKETS})
		must(f"mkdir -p /etc/rdma/rsocket && echo {spin_us} >/etc/rdma/rsocket/polling_time")


class Shunt(Way):
	"""A lane between the two daemons of @hosts, proved by their counters."""

	def __init__(self, hosts, name="Shunt"):
		super().__init__(name, hosts[1].address)
		self.hosts = hosts

	def start(self, side, command):
		return self.hosts[side].program(command, stdin=subprocess.PIPE, stderr=None,
						preexec_fn=die_with_parent)

	def open(self):
		before = [side.ask("stats")["promoted"] for side in self.hosts.sides]
		super().open()

		def is_promoted():
			self.ask("lat", 64, 50)
			return all(side.ask("stats")["promoted"] > n and side.lanes()
				   for side, n in zip(self.hosts.sides, before))

		self.hosts.wait("on a lane", is_promoted)
		return self

	def finish(self):
		"""Close it. Problems, if not all went over the lane: the daemons are told at the end."""
		lanes = [side.lanes() for side in self.hosts.sides]
		self.close()
		for side in self.hosts.sides:
			stats = side.ask("stats")
			sent, tcp = stats["lane_bytes"]["tx"], stats["tcp_bytes"]["tx"]
			if not all(lanes) or sent < LANE_SHARE_MIN * (sent + tcp):
				yield f"{self.name}: {sent} bytes went over the lane, {tcp} over TCP: {stats}"

	def daemons(self):
		return {side.daemon.pid for side in self.hosts.sides}


# --- what a message costs -----------------------------------------------------------------------


def read(path):
	with open(path, encoding="ascii") as file:
		return file.read()


def switches():
	"""Context switches of the whole guest since it began."""
	return int(re.search(r"^ctxt (\d+)", read("/proc/stat"), re.M)[1])


def packets(devices):
	"""Packets that these RDMA devices have sent."""
	return sum(int(read(f"/sys/class/infiniband/{name}/ports/1/hw_counters/sent_pkts"))
		   for name in devices)


@contextlib.contextmanager
def probed(function):
	"""Have calls of a function of the kernel traced. Gives the event for traced(), or None."""
	definitions = TRACING + "/kprobe_events"
	try:
		with open(definitions, "a", encoding="ascii") as file:
			file.write(f"p:kprobes/lab_{function} {function}\n")
	except OSError:
		yield None # not this kernel's
		return
	try:
		yield f"kprobes/lab_{function}"
	finally:
		with open(definitions, "a", encoding="ascii") as file:
			file.write(f"-:kprobes/lab_{function}\n")


def posts(way, kind, ms):
	"""Posts to the driver's send queues per message, whoever makes them; None: not to be seen."""
	with probed(f"{kind}_post_send") as event:
		if not event:
			return None
		with traced(event, "common_pid") as look:
			messages = 2 * way.ask("lat", 64, ms)["messages"]
			return sum(count for _keys, count in look()) / messages


@contextlib.contextmanager
def traced(event, keys):
	"""Count @event by @keys. Gives a function that returns [(text of the keys, count)]."""
	folder = f"{TRACING}/events/{event}"

	def trigger(text):
		with open(folder + "/trigger", "w", encoding="ascii") as file:
			file.write(text)

	def look():
		found = re.findall(r"^\{ (.*?) \} hitcount: +(\d+)", read(folder + "/hist"), re.M)
		return [(re.sub(r" +", " ", keys), int(count)) for keys, count in found]

	trigger(f"hist:keys={keys}:size=4096")
	try:
		yield look
	finally:
		trigger(f"!hist:keys={keys}")


def counted(way, devices, ms=1000):
	"""Each per message of 64 bytes one way, in ping-pong: context switches, packets, posts, and system
	calls of the programs and of the daemons by name."""
	if not os.path.exists(TRACING + "/events"):
		must(f"mount -t tracefs tracefs {TRACING}")
	programs = way.pids()
	daemons = way.daemons() if isinstance(way, Shunt) else set()
	threads = {int(thread): pid for pid in programs | daemons for thread in os.listdir(f"/proc/{pid}/task")}
	before = switches(), packets(devices)
	messages = 2 * way.ask("lat", 64, ms)["messages"]
	figures = {"context switches": (switches() - before[0]) / messages,
		   "packets": (packets(devices) - before[1]) / messages}
	calls = {}
	with traced("raw_syscalls/sys_enter", "common_pid,id.syscall") as look:
		messages = 2 * way.ask("lat", 64, ms)["messages"]
		for keys, count in look():
			found = re.match(r"common_pid: (\d+), id: (?:sys_)?(\w+)", keys)
			pid = threads.get(int(found[1]))
			if pid is None or count < messages / 20:
				continue
			name = f"{'daemon' if pid in daemons else 'program'} {found[2]}"
			calls[name] = calls.get(name, 0) + count / messages
	switched = {}
	with traced("sched/sched_switch", "prev_comm") as look:
		messages = 2 * way.ask("lat", 64, ms)["messages"]
		for keys, count in look():
			name = re.match(r"prev_comm: (\S*)", keys)[1]
			name = re.sub(r"/.*", "", name)
			if count >= messages / 20:
				switched[name] = switched.get(name, 0) + count / messages
	figures["posts"] = posts(way, devices[0].split("_")[0], ms)
	return {**figures, "system calls": sum(calls.values()), "calls": calls, "switched": switched}

