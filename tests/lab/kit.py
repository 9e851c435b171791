# SPDX-License-Identifier: MIT
"""For the cases that are Python: what helpers.sh has, and calls of Shunt's programs in the guest."""
import json
import os
import subprocess
import sys
import time

LAB = os.environ["LAB"]
BUILD = os.environ["LAB_BUILD"]
TOOL = os.path.join(BUILD, "tools", "shunt")
NARROW = os.path.join(BUILD, "tests", "lab", "narrow.so")
NOBODY = 65534

sys.path.insert(0, os.path.join(LAB, "..", "lib"))
from private import Failure, Private
from tap import Tap  # noqa: F401, for the cases


def shell(text, seconds=30):
	"""Run a few lines of shell with helpers.sh. A CompletedProcess with its output; status 124 if it
	took longer."""
	command = ["sh", "-c", '. "$LAB/helpers.sh"\n' + text]
	try:
		return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
				      stdin=subprocess.DEVNULL, text=True, timeout=seconds, check=False)
	except subprocess.TimeoutExpired as late:
		return subprocess.CompletedProcess(command, 124, (late.output or b"").decode())


def must(text, seconds=30):
	"""As shell(); ends the case if it fails. Returns the output."""
	done = shell(text, seconds)
	if done.returncode:
		sys.exit(f"{text}: status {done.returncode}: {done.stdout}")
	return done.stdout


def nothing(reason):
	"""The whole case is skipped."""
	print("1..0 # SKIP " + reason)
	sys.exit(0)


def need_rdma():
	if not os.path.exists(NARROW):
		nothing("the build has no RDMA")


def has_siw():
	return shell("have_siw").returncode == 0


def narrowed(inline):
	"""Environment for a program that sees the inline limit @inline; None: as the device is."""
	return {} if inline is None else {"SHUNT_LAB_INLINE": str(inline), "LD_PRELOAD": NARROW}


def tool(*args, env=None, seconds=60):
	"""One call of the `shunt` command. A CompletedProcess with text."""
	return subprocess.run([TOOL, *map(str, args)], env=dict(os.environ, **(env or {})),
			      capture_output=True, text=True, timeout=seconds,
			      stdin=subprocess.DEVNULL, check=False)


def ask(*args, env=None):
	"""What `shunt` says with --json; None and the reason if it does not."""
	done = tool(*args, "--json", env=env)
	try:
		return json.loads(done.stdout), done.stderr.strip()
	except json.JSONDecodeError:
		return None, f"status {done.returncode}: {done.stdout}{done.stderr}"


def until(condition, seconds, what):
	"""Wait until condition() gives something true, and return that."""
	end = time.monotonic() + seconds
	while True:
		found = condition()
		if found:
			return found
		if time.monotonic() > end:
			raise Failure(f"not in {seconds} s: {what}")
		time.sleep(0.1)


class Daemon(Private):
	"""The daemon of the build in the guest, with words for its devices. What it keeps of probes is
	with it unless @cache names a folder."""

	def __init__(self, inline=None, cache=None, user=None, limits=(), **settings):
		super().__init__(BUILD, user=user, limits=limits, log_level="debug", **settings)
		self.inline = inline
		self.cache = cache

	def start(self):
		self.env.update(narrowed(self.inline), SHUNT_CACHE_DIR=self.cache or self.dir + "/cache")
		super().start()

	def devices(self):
		"""By name, as `shunt devices` tells."""
		return {device["device"]: device for device in self.ask("devices")["devices"]}

	def ready(self, *names):
		"""Wait until these are ready, with pools as full as they are to be; as devices()."""

		def look():
			found = self.devices()
			return found if all(name in found and is_full(found[name]) for name in names) else None

		try:
			return until(look, 30, "ready: " + ", ".join(names))
		except Failure as failure:
			raise Failure(f"{failure}: {self.devices()}\n{self.log_text()[-3000:]}") from None

	def gone(self, *names):
		until(lambda: not set(names) & set(self.devices()), 10, "forgotten: " + ", ".join(names))

	def descriptors(self):
		"""What its open descriptors lead to, sorted; numbers of sockets and the like left out."""
		folder = f"/proc/{self.daemon.pid}/fd"
		links = []
		for fd in os.listdir(folder):
			try:
				links.append(os.readlink(os.path.join(folder, fd)).split(":[")[0])
			except FileNotFoundError:
				pass
		return sorted(links)

	def memory_kb(self, field):
		"""A line of /proc/PID/status, as VmPin."""
		with open(f"/proc/{self.daemon.pid}/status", encoding="ascii") as status:
			for line in status:
				if line.startswith(field + ":"):
					return int(line.split()[1])
		raise Failure(f"no {field} in /proc/PID/status")


def pools(device):
	return [port["pool"] for port in device["ports"] if "pool" in port]


def is_full(device):
	return device["state"] == "ready" and pools(device) and all(
		pool["ready"] >= pool["target"] and not pool["coming"] for pool in pools(device))


def queue_pairs(pid, device):
	"""Numbers of the queue pairs that the kernel knows of process @pid on @device, sorted. It names
	the thread that made them."""
	threads = {int(thread) for thread in os.listdir(f"/proc/{pid}/task")}
	shown = json.loads(must(f"rdma -j res show qp link {device}/-"))
	return sorted(row["lqpn"] for row in shown if row.get("pid") in threads)
