# SPDX-License-Identifier: MIT
"""The `shunt` command as its users meet it: exit statuses, messages, JSON, and the daemon that
`shunt run` starts.

usage: tool.py BUILD_DIR
"""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure, Private
from tap import Tap

SUBCOMMANDS = ("run", "ss", "why", "top", "stats", "metrics", "status", "demote", "devices", "peers", "links",
	       "check", "debug", "probe", "explain", "enable", "disable", "enabled")
PRELOAD = "libshunt-preload.so"


class Tool:
	"""The tool with a runtime directory in which nobody serves yet."""

	def __init__(self, build):
		self.path = os.path.abspath(os.path.join(build, "tools", "shunt"))
		self.dir = tempfile.mkdtemp(prefix="shunt-test-")
		self.env = dict(os.environ, SHUNT_RUNTIME_DIR=self.dir, SHUNT_CONF=os.devnull)
		self.env.pop("LD_PRELOAD", None)

	def __call__(self, *args, **env):
		return subprocess.run([self.path, *map(str, args)], env=dict(self.env, **env), text=True,
				      capture_output=True, timeout=60, stdin=subprocess.DEVNULL, check=False)

	def daemon_pid(self):
		"""Who holds the lock of the directory, or None."""
		try:
			with open(os.path.join(self.dir, "shuntd.lock"), encoding="ascii") as lock:
				return int(lock.read())
		except (OSError, ValueError):
			return None

	def close(self):
		pid = self.daemon_pid()
		if pid:
			with contextlib.suppress(ProcessLookupError):
				os.kill(pid, signal.SIGTERM)
		shutil.rmtree(self.dir, ignore_errors=True)


def expect(done, status, *texts):
	"""Problems of a finished call: its exit status, and words that its output must hold."""
	if done.returncode != status:
		yield f"{done.args}: exit status {done.returncode}, not {status}: {done.stderr}"
	for text in texts:
		if text not in done.stdout + done.stderr:
			yield f"{done.args} does not say \"{text}\" but: {done.stdout}{done.stderr}"


def usage(tool):
	yield from expect(tool(), 2, "Usage", *SUBCOMMANDS)
	yield from expect(tool("--help"), 0, "Usage", *SUBCOMMANDS)
	yield from expect(tool("--version"), 0, "shunt ")
	yield from expect(tool("sss"), 2, "no subcommand \"sss\"")
	for name in SUBCOMMANDS:
		yield from expect(tool(name, "--help"), 0, f"Usage: shunt {name}")
		yield from expect(tool("help", name), 0, f"Usage: shunt {name}")
		yield from expect(tool(name, "--wrong"), 125 if name == "run" else 2, "--wrong",
				  f"Try: shunt {name} --help")


def bad_targets(tool):
	for name in ("why", "demote"):
		for text in ("x", "1:", ":1", "0", "-1", "1:2:3", "1:-2", "99999999999", "1 "):
			yield from expect(tool(name, "--", text), 2, f"\"{text}\" is not PID or PID:FD")
		yield from expect(tool(name), 2, "PID or PID:FD")
		yield from expect(tool(name, "1", "2"), 2, "too many: 2")
	yield from expect(tool("ss", "--pid", "x"), 2, "\"x\"")
	yield from expect(tool("ss", "--lane", "x"), 2, "tcp, ring or rdma")
	yield from expect(tool("ss", "--lane"), 2, "--lane needs a value")


def no_daemon(tool):
	for args in (("ss",), ("stats",), ("status",), ("why", "1"), ("demote", "1")):
		yield from expect(tool(*args), 3, "no shuntd answers", tool.dir)
	yield from expect(tool("ss", SHUNT_RUNTIME_DIR="relative"), 3, "absolute path")
	yield from expect(tool("run", "--daemon", "system", "true"), 125, "no daemon answers in " + tool.dir)


def run_statuses(tool):
	yield from expect(tool("run", "--daemon", "none", "sh", "-c", "exit 7"), 7)
	yield from expect(tool("run", "--daemon", "none", "/nonexistent"), 127, "/nonexistent")
	yield from expect(tool("run", "--daemon", "none", "/dev/null"), 126, "/dev/null")
	yield from expect(tool("run", "--daemon", "other", "true"), 125, "auto, system or none")
	yield from expect(tool("run"), 125, "which command?")
	yield from expect(tool("run", "true", SHUNT_RUNTIME_DIR="/nonexistent/x"), 125,
			  "/nonexistent/x: the directory above it is missing")
	# What follows the command is its own.
	yield from expect(tool("run", "--daemon", "none", "echo", "--help"), 0, "--help")


def run_preloads(tool):
	show = ("run", "--daemon", "none", "sh", "-c", "echo $LD_PRELOAD")
	for old in ("", "libm.so.6", "libm.so.6:libc.so.6"):
		done = tool(*show, LD_PRELOAD=old)
		words = done.stdout.strip().split(":")
		if not words[0].endswith("/" + PRELOAD) or ":".join(words[1:]) != old:
			yield f"LD_PRELOAD={old} became {done.stdout}"
	done = tool("run", "--daemon", "none", tool.path, *show)
	if done.stdout.count(PRELOAD) != 1:
		yield f"run within run: {done.stdout}"
	yield from expect(tool("run", "--daemon", "none", "cat", "/proc/self/maps"), 0, PRELOAD)


def one_daemon_of_many_starts(tool):
	"""Of callers at the same time one starts the daemon; it is nobody's child and has no terminal."""
	calls = [subprocess.Popen([tool.path, "run", "true"], env=tool.env, stderr=subprocess.PIPE, text=True)
		 for _ in range(8)]
	for call in calls:
		errors = call.communicate(timeout=60)[1]
		if call.returncode:
			yield f"exit status {call.returncode}: {errors}"
	first = tool.daemon_pid()
	status = json.loads(tool("status", "--json").stdout or "{}")
	if not first or status.get("pid") != first:
		yield f"process {first} holds the lock, but the daemon is {status}"
		return
	if os.getsid(first) == os.getsid(0):
		yield "the daemon is in our session"
	with open(f"/proc/{first}/environ", encoding="utf-8", errors="replace") as environ:
		if "LD_PRELOAD=" in environ.read():
			yield "the daemon was started with LD_PRELOAD"
	yield from expect(tool("run", "--verbose", "true"), 0, "using the daemon in " + tool.dir, PRELOAD)
	if tool.daemon_pid() != first:
		yield "a later run started another daemon"
	yield from expect(tool("run", "--daemon", "system", "true"), 0)


def failed_start(tool):
	"""A daemon that can't start says why."""
	conf = os.path.join(tool.dir, "bad.conf")
	with open(conf, "w", encoding="ascii") as file:
		file.write("spin_ms = 3;\n")
	yield from expect(tool("run", "true", SHUNT_CONF=conf), 125, "bad.conf:1", "spin_us")


@contextlib.contextmanager
def stream(private):
	"""A connection that goes on until told, and its two ends as `shunt ss` shows them."""
	program = os.path.join(private.build, "tests", "apps", "stream")
	process = subprocess.Popen(private.under([program, "--bytes", "1G", "--rate", "20M", "pair"]),
				   env=private.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
				   start_new_session=True)
	try:
		until = time.monotonic() + 20
		while True:
			ends = private.ask("ss")["connections"]
			if len(ends) == 2 and all(end["lane"] == "ring" for end in ends):
				break
			if time.monotonic() > until:
				raise Failure(f"not on the ring: {ends}")
			time.sleep(0.05)
		yield ends
	finally:
		os.killpg(process.pid, signal.SIGKILL)
		process.wait()


def keys(what, found, wanted):
	missing = set(wanted) - set(found)
	if missing:
		yield f"{what} has no {sorted(missing)}"


def shows_connections(private, ends):
	yield from keys("ss", ends[0], ("pid", "comm", "fd", "local", "peer", "lane", "epoch", "state", "reason",
					 "tcp_bytes", "lane_bytes"))
	if ends[0]["local"] != ends[1]["peer"]:
		yield f"these are not two ends of one connection: {ends}"
	pid = ends[0]["pid"]
	for args, count in ((("--pid", pid), 1), (("--lane", "ring"), 2), (("--lane", "rdma"), 0)):
		found = private.ask("ss", *args)["connections"]
		if len(found) != count:
			yield f"ss {args}: {len(found)} connections, not {count}"
	yield from expect(private.run_tool("ss"), 0, "stream", ends[0]["local"], "ring", "LANE")
	yield from keys("stats", private.ask("stats"), ("seen", "promoted", "lane_bytes", "tcp_bytes",
							"demotions"))
	yield from expect(private.run_tool("stats"), 0, "promoted", "over lanes")
	yield from expect(private.run_tool("status"), 0, "shuntd", private.dir)


def counts_messages(private, ends):
	"""Sizes of messages: all of them together are the bytes of the rings."""
	def total(stats, way):
		lane = stats["by_lane"]["ring"]
		return lane["bytes"][way], lane["messages"][way], lane["sizes"][way]
	old = private.ask("stats")
	time.sleep(0.2)
	new = private.ask("stats")
	for way in ("tx", "rx"):
		total_bytes, messages, sizes = total(new, way)
		if messages != sum(sizes) or not messages:
			yield f"{way}: {messages} messages, of these sizes: {sizes}"
		if messages <= total(old, way)[1] or total_bytes <= total(old, way)[0]:
			yield f"{way}: {total(old, way)} became {total(new, way)}"
		# Those of a bucket have more bytes than the limit of the one before; the figures of the
		# two ways are read while the program counts on.
		limits = new["size_limits"]
		if len(sizes) != len(limits) + 1 or \
		   total_bytes < sum(n * limit for n, limit in zip(sizes[1:], limits)):
			yield f"{way}: {total_bytes} bytes can't be of these sizes: {sizes}"
	end = private.ask("ss", "--pid", ends[0]["pid"])["connections"][0]
	if sum(end["lane_messages"].values()) <= 0:
		yield f"no messages: {end}"
	yield from expect(private.run_tool("stats"), 0, "by size in bytes", "up to 64", "over 256K")


def tells_why(private, ends):
	pid, fd = ends[0]["pid"], ends[0]["fd"]
	yield from expect(private.run_tool("why", pid), 0, f"process {pid}", "History", "paired")
	yield from expect(private.run_tool("why", f"{pid}:{fd}"), 0, ends[0]["local"])
	yield from keys("why", private.ask("why", pid)["connections"][0], ("events", "lane"))
	yield from expect(private.run_tool("why", f"{pid}:9999"), 1, "no open socket")
	yield from expect(private.run_tool("why", os.getpid()), 1, "does not run under Shunt")
	yield from expect(private.run_tool("why", 2 ** 31 - 1), 1, "no process")


def demotes(private, ends):
	pid, fd = ends[0]["pid"], ends[0]["fd"]
	yield from expect(private.run_tool("demote", f"{pid}:{fd}"), 0, "asked 1 connection")
	for _ in range(20): # as long as it is on its way, it may be asked again; that is one event
		private.run_tool("demote", f"{pid}:{fd}")
	events = private.ask("why", f"{pid}:{fd}")["connections"][0]["events"]
	if not any("paired" in event["text"] for event in events):
		yield f"asking again has pushed out how it began: {events}"
	until = time.monotonic() + 10
	while not private.ask("stats")["demotions"].get("requested"):
		if time.monotonic() > until:
			yield f"it was not demoted: {private.ask('why', pid)}"
			return
		time.sleep(0.02)
	yield from expect(private.run_tool("demote", f"{pid}:9999"), 1, "9999")
	yield from expect(private.run_tool("demote", os.getpid()), 1, "does not run under Shunt")


def main():
	tap = Tap()
	build = sys.argv[1]
	for case in (usage, bad_targets, no_daemon, run_statuses, run_preloads, one_daemon_of_many_starts,
		     failed_start):
		tool = Tool(build)
		try:
			tap.result(case.__name__, case(tool))
		finally:
			tool.close()
	with Private(build, backoff_min_ms=2000, promote_after=1) as private, stream(private) as ends:
		for case in (shows_connections, counts_messages, tells_why, demotes):
			tap.result(case.__name__, case(private, ends))
	tap.end()


main()
