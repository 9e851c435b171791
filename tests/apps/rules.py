# SPDX-License-Identifier: MIT
"""Rules with programs as they are: one is kept on TCP, another is accelerated, and the daemon's
counters say so; what changes when the rules do; and programs of users whom the daemon may not look at.

usage: rules.py BUILD_DIR
"""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Private
from tap import Tap

# Who may write where the programs expect the daemon, but may not look at root's processes.
STRANGER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all,+dac_override",
	    "--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override"]

# More than is ever needed on a busy machine.
WAIT_S = 30


class Ruled(Private):
	"""A private daemon with rules, and two programs that do the same under different names."""

	def __init__(self, build, rules, daemon_prefix=(), **settings):
		self.rules = rules
		self.daemon_prefix = list(daemon_prefix)
		super().__init__(build, promote_after=1, backoff_min_ms=50, **settings)

	def configure(self, **settings):
		super().configure(**settings)
		with open(self.env["SHUNT_CONF"], "a", encoding="utf-8") as conf:
			conf.write(f"rules = (\n{self.rules}\n);\n")

	def start(self):
		self.prefix = self.daemon_prefix
		super().start()
		self.prefix = []

	def reload(self, rules):
		self.rules = rules
		self.configure(**self.settings)
		self.daemon.send_signal(signal.SIGHUP)

	@contextlib.contextmanager
	def stream(self, name):
		"""A connection of a program called @name that goes on; its process."""
		program = os.path.join(self.dir, name)
		if not os.path.exists(program):
			shutil.copy(os.path.join(self.build, "tests", "apps", "stream"), program)
		process = subprocess.Popen(
			[self.tool, "run", "--daemon", "none", program, "--bytes", "1G", "--rate", "20M", "pair"],
			env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
			start_new_session=True)
		try:
			yield process
		finally:
			os.killpg(process.pid, signal.SIGKILL)
			process.wait()

	def ends(self, name):
		return [end for end in self.ask("ss")["connections"] if end["comm"] == name]

	def until(self, name, good, what):
		"""Problems, if the two ends of @name are not all @good soon."""
		limit = time.monotonic() + WAIT_S
		while True:
			ends = self.ends(name)
			if len(ends) == 2 and all(map(good, ends)):
				return
			if time.monotonic() > limit:
				yield f"{name} is not {what}: {ends}"
				return
			time.sleep(0.05)


def on_ring(end):
	return end["lane"] == "ring" and end["lane_bytes"]["tx"] > 1 << 20


def is_kept(end):
	return end["lane"] == "tcp" and end["reason"] == "kept_by_rule"


def one_is_kept_another_accelerated(private):
	with private.stream("slow") as slow, private.stream("fast"):
		yield from private.until("fast", on_ring, "accelerated")
		yield from private.until("slow", is_kept, "kept on TCP")
		time.sleep(1) # thousands of calls
		if slow.poll() is not None:
			yield "the program that is kept on TCP has ended"
		for end in private.ends("slow"):
			if end["lane_bytes"] != {"tx": 0, "rx": 0}:
				yield f"bytes of a kept end went over a lane: {end}"
		if not any(end.get("rule") == 2 for end in private.ends("slow")):
			yield f"the rule is not named: {private.ends('slow')}"
		stats = private.ask("stats")
		if stats["promoted"] != 2:
			yield f"not exactly one connection was promoted: {stats}"
		# At most what each end asks for at first, however many calls there were since.
		if not 1 <= stats["refusals"].get("kept_by_rule", 0) <= 6:
			yield f"an end asks again and again: {stats['refusals']}"
		why = private.run_tool("why", private.ends("slow")[0]["pid"]).stdout
		why += private.run_tool("why", private.ends("slow")[1]["pid"]).stdout
		if "kept on TCP by rule 2 of the settings, in line" not in why:
			yield f"why does not tell: {why}"


def new_rules_take_lanes_away(private):
	with private.stream("fast"):
		yield from private.until("fast", on_ring, "accelerated")
		private.reload("{ port = 1; action = \"tcp\"; }, { program = \"fast\"; action = \"tcp\"; }")
		yield from private.until("fast", is_kept, "back on TCP")
		demotions = private.ask("stats")["demotions"]
		if not demotions.get("kept_by_rule"):
			yield f"the reason is not counted: {demotions}"
		private.reload("")
	with private.stream("fast"):
		yield from private.until("fast", on_ring, "accelerated again")


def explains(private, rules):
	"""What `shunt explain` says of connections, by the daemon's rules and by those of a file."""
	slow = os.path.join(private.dir, "slow")
	for args, action, rule, differs in (
			(("--program", slow, "--to", "127.0.0.1:80"), "tcp", 2, ["program", None]),
			(("--program", slow, "--to", "127.0.0.1:80", "--in"), "accelerate", None,
			 ["program", "direction"]),
			(("--program", "slow", "--to", "[::1]:80"), "accelerate", None, ["program", "to"]),
			(("--program", "other", "--to", "127.0.0.1:80"), "accelerate", 1, [None]),
			(("--program", "/x/other", "--to", "10.0.0.1:1", "--out", "--unit", "u", "--user", "0"),
			 "accelerate", 1, [None])):
		for place in (), ("--config", private.env["SHUNT_CONF"]):
			said = private.ask("explain", *args, *place)
			if (said["action"], said["rule"]) != (action, rule):
				yield f"{args} {place}: {said}"
			if [entry["differs"] for entry in said["rules"]] != differs:
				yield f"{args} {place}: it differs elsewhere: {said['rules']}"
			if said["source"] != ("file" if place else "daemon"):
				yield f"{args} {place}: not from there: {said['source']}"
	done = private.run_tool("explain", "--program", slow, "--to", "127.0.0.1:80")
	for text in (f"of the daemon in {private.dir}", f"does not match: program is {slow}", "matches, and decides",
		     "stays on TCP, by rule 2", rules.splitlines()[0].split("}")[0].strip()):
		if text not in done.stdout:
			yield f"\"{text}\" is missing: {done.stdout}"


def explain_refuses(private, _rules):
	good = ["--program", "x", "--to", "10.0.0.1:1"]
	for args, status, text in (
			([], 2, "--program is missing"),
			(good[:2], 2, "--to is missing"),
			([*good, "--in", "--out"], 2, "exclude each other"),
			([*good, "--user", "no-such-user"], 2, "there is no user \"no-such-user\""),
			([*good, "--unit", ""], 2, "not the name of a unit"),
			([*good, "more"], 2, "too many: more"),
			([*good, "--config"], 2, "--config needs a value"),
			([*good, "--config", "/nonexistent"], 4, "/nonexistent: can't be read"),
			*(([*good[:3], to], 2, f"\"{to}\" is not ADDRESS:PORT")
			  for to in ("10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "fd00::1:80", "host:1",
				     "[fd00::1]", "10.0.0.1:-1", "10.0.0.1: 1", ":1", "[10.0.0:1"))):
		done = private.run_tool("explain", *args)
		if done.returncode != status or text not in done.stderr:
			yield f"{args}: {done.returncode}, {done.stderr}"


def another_users_program(private):
	"""The daemon may not look at it: it goes by what came with the greeting, and its control group."""
	with private.stream("slow"), private.stream("fast"):
		yield from private.until("fast", on_ring, "accelerated")
		yield from private.until("slow", is_kept, "kept on TCP")
		look = ["readlink", f"/proc/{private.ends('slow')[0]['pid']}/exe"]
		if subprocess.run([*STRANGER, *look], capture_output=True, check=False).returncode == 0:
			yield "the daemon could look for itself, so this proves nothing"


def main():
	tap = Tap()
	rules = "{ program = \"other\"; action = \"accelerate\"; },\n" \
		"{ program = \"slow\"; direction = \"out\"; to = \"127.0.0.0/8\"; action = \"tcp\"; }"
	with Ruled(sys.argv[1], rules) as private:
		for case in (one_is_kept_another_accelerated, new_rules_take_lanes_away):
			tap.result(case.__name__, case(private))
	with Ruled(sys.argv[1], rules) as private:
		for case in (explains, explain_refuses):
			tap.result(case.__name__, case(private, rules))
	if os.geteuid() == 0:
		with Ruled(sys.argv[1], rules, STRANGER, users="all") as private:
			tap.result(another_users_program.__name__, another_users_program(private))
	else:
		tap.skip(another_users_program.__name__, "only root has programs of several users")
	tap.end()


main()
