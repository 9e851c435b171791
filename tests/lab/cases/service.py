#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The installed daemon as a service of systemd, in its sandbox: started by its socket, ready when a
device is probed, watched, reloaded, restarted and killed under programs whose bytes are checked."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.environ["LAB"])
from kit import BUILD, Failure, Tap, must, need_rdma, until
from systemd import run_under_systemd

PREFIX = "/usr/local"
SOCKET = "/run/shunt/shuntd.sock"
CONF = PREFIX + "/etc/shunt.conf"
TOOL = PREFIX + "/bin/shunt"
STREAM = os.path.join(BUILD, "tests", "apps", "stream")
DROP_IN = "/etc/systemd/system/shuntd.service.d"
ROUNDS = 100 if os.environ.get("LAB_LONG") else 8


def run(*command, seconds=60):
	return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds,
			      stdin=subprocess.DEVNULL, check=False)


def systemctl(*words):
	done = run("systemctl", *words)
	if done.returncode:
		raise Failure(f"systemctl {' '.join(words)}: {done.returncode}: {done.stdout}{done.stderr}\n{journal()}")
	return done.stdout


def show(*names):
	"""Properties of the service."""
	text = systemctl("show", "shuntd.service", *[word for name in names for word in ("-p", name)])
	return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def journal(*words):
	return run("journalctl", "-u", "shuntd", "--no-pager", "-o", "cat", *words).stdout[-4000:]


def main_pid():
	return int(show("MainPID")["MainPID"])


def ask(*words):
	done = run(TOOL, *words, "--json")
	if done.returncode:
		raise Failure(f"shunt {' '.join(words)}: {done.stdout}{done.stderr}\n{journal()}")
	return json.loads(done.stdout)


def active():
	return show("ActiveState")["ActiveState"] == "active"


def install():
	"""Problems of the installation: what a package does behind its files."""
	must("systemd-sysusers " + PREFIX + "/lib/sysusers.d/shunt.conf", 60)
	must("systemd-tmpfiles --create " + PREFIX + "/lib/tmpfiles.d/shunt.conf", 60)
	place = os.stat("/run/shunt")
	owner = must("id -u shunt").strip()
	if str(place.st_uid) != owner or place.st_mode & 0o777 != 0o755:
		yield f"/run/shunt has owner {place.st_uid} and mode {place.st_mode:o}"
	with open(CONF, "w", encoding="utf-8") as conf:
		conf.write("promote_after = 1;\nbackoff_min_ms = 1;\nbackoff_max_ms = 20;\n")
	os.makedirs(DROP_IN, exist_ok=True)
	with open(DROP_IN + "/lab.conf", "w", encoding="utf-8") as drop_in:
		# Quick to be watched; and many restarts in a row are meant.
		drop_in.write("[Unit]\nStartLimitIntervalSec=0\n[Service]\nWatchdogSec=4\n")
	systemctl("daemon-reload")


def is_started_by_its_socket():
	systemctl("start", "shuntd.socket")
	if active():
		yield "the service runs before anybody has called"
	answer = ask("status")
	if answer["pid"] != main_pid():
		yield f"who answers is not the service: {answer}, {show('MainPID', 'ActiveState')}"
	until(active, 30, f"the service is ready: {journal()}")


def is_ready_when_its_device_is():
	"""In its sandbox, as its user, without capabilities, and with memory to lock."""
	found = ask("devices")["devices"]
	if not found or found[0]["probe"]["used"] != 256:
		yield f"ready without a device that is probed: {found}\n{journal()}"
	with open(f"/proc/{main_pid()}/status", encoding="utf-8") as file:
		status = dict(line.split(":", 1) for line in file.read().splitlines())
	if status["Uid"].split()[0] != must("id -u shunt").strip():
		yield f"it runs as {status['Uid']}"
	for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb"):
		if int(status[name].strip(), 16):
			yield f"{name} is {status[name].strip()}"
	if status["NoNewPrivs"].strip() != "1" or status["Seccomp"].strip() != "2":
		yield f"NoNewPrivs {status['NoNewPrivs']}, Seccomp {status['Seccomp']}"
	text = show("StatusText")["StatusText"]
	if "RDMA devices ready: 1 of 1" not in text:
		yield f"the status line is: {text}"


def is_little_exposed():
	done = run("systemd-analyze", "security", "--no-pager", "--threshold=20", "shuntd.service")
	verdict = [line for line in done.stdout.splitlines() if "Overall" in line]
	print("#", *verdict, flush=True)
	if done.returncode or not verdict:
		yield done.stdout[-1000:] + done.stderr


def reloads():
	pid = main_pid()
	with open(CONF, "a", encoding="utf-8") as conf:
		conf.write("pair_wait_ms = 2500;\n")
	systemctl("reload", "shuntd")
	until(lambda: "pair_wait_ms is 2500 milliseconds, from now on" in journal(), 10, "the change in the journal")
	if main_pid() != pid or not active():
		yield "the daemon is another one"


def has_fields_in_the_journal():
	entries = [json.loads(line) for line in
		   run("journalctl", "-u", "shuntd", "-o", "json", "--no-pager").stdout.splitlines()]
	ready = [entry for entry in entries if "serving" in str(entry.get("MESSAGE", ""))]
	if not ready or not re.fullmatch("[0-9a-f]{32}", ready[0].get("MESSAGE_ID", "")):
		yield f"no MESSAGE_ID: {ready[:1]}"
	elif "SHUNT_VERSION" not in ready[0]:
		yield f"no field of ours: {ready[0]}"


def a_stopped_daemon_is_restarted():
	pid = main_pid()
	os.kill(pid, signal.SIGSTOP)
	try:
		until(lambda: main_pid() not in (0, pid) and active(), 40, "another daemon")
	except Failure:
		with contextlib.suppress(ProcessLookupError):
			os.kill(pid, signal.SIGCONT)
		raise
	if "Watchdog timeout" not in run("journalctl", "--no-pager", "-o", "cat").stdout:
		yield f"it was not the watchdog: {run('journalctl', '--no-pager', '-n', '30').stdout}"


@contextlib.contextmanager
def checked_load():
	"""Two programs that send each other a stream, each byte of which is checked."""
	command = [TOOL, "run", "--daemon", "none", STREAM, "--bytes", "4G", "--rate", "2M", "--timeout", "3000",
		   "pair"]
	process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
				   stdin=subprocess.DEVNULL, start_new_session=True)
	try:
		yield process
		if process.poll() is not None:
			raise Failure(f"the stream ended with {process.returncode}: {process.stdout.read()}")
	finally:
		with contextlib.suppress(ProcessLookupError):
			os.killpg(process.pid, signal.SIGINT)
		try:
			process.communicate(timeout=10)
		except subprocess.TimeoutExpired:
			os.killpg(process.pid, signal.SIGKILL)
			process.communicate()


def ring_bytes():
	ends = ask("ss")["connections"]
	return sum(sum(end["lane_bytes"].values()) for end in ends) if len(ends) == 2 else 0


def is_on_ring(process):
	if process.poll() is not None:
		raise Failure(f"the stream ended: {process.stdout.read()}")
	ends = ask("ss")["connections"]
	return len(ends) == 2 and all(end["lane"] == "ring" for end in ends)


def goes_on(process, rounds, act):
	"""@act as often. Each time the load is on a lane that goes on with the next daemon, and then on one
	that this has made, of which it sees how the bytes move."""
	for turn in range(rounds):
		act()
		until(lambda: is_on_ring(process), 30, f"round {turn}: a lane: {ask('ss')}\n{journal()}")
		before = ring_bytes()
		run(TOOL, "demote", ask("ss")["connections"][0]["pid"])
		until(lambda: is_on_ring(process) and ring_bytes() > before, 30,
		      f"round {turn}: bytes on another lane: {ask('ss')}")


def survives_restarts(process):
	until(lambda: is_on_ring(process), 30, "a lane")
	goes_on(process, ROUNDS, lambda: systemctl("restart", "shuntd.service"))
	print(f"# {ROUNDS} restarts under a checked stream", flush=True)
	yield from ()


def survives_kills(process):
	def kill():
		pid = main_pid()
		os.kill(pid, signal.SIGKILL)
		until(lambda: main_pid() not in (0, pid) and active(), 20, "another daemon")
	until(lambda: is_on_ring(process), 30, "a lane")
	goes_on(process, ROUNDS, kill)
	print(f"# {ROUNDS} kills under a checked stream", flush=True)
	yield from ()


def stops():
	systemctl("stop", "shuntd.service", "shuntd.socket")
	if os.path.exists(SOCKET):
		yield "the socket is left"


def guarded(problems):
	try:
		yield from problems
	except Failure as failure:
		yield str(failure)


def inside():
	tap = Tap()
	for case in (install, is_started_by_its_socket, is_ready_when_its_device_is, is_little_exposed, reloads,
		     has_fields_in_the_journal, a_stopped_daemon_is_restarted):
		tap.result(case.__name__, guarded(case()))
	for case in (survives_restarts, survives_kills):
		with checked_load() as process:
			tap.result(case.__name__, guarded(case(process)))
	tap.result("stops", guarded(stops()))
	tap.end()


def main():
	if "inside" in sys.argv:
		inside()
		return
	need_rdma()
	must("veth va vb 10.77.0.1 10.77.0.2 && rxe va && within 5 active rxe_va")
	# As udev would.
	must("chmod 666 /dev/infiniband/uverbs0 /dev/infiniband/rdma_cm")
	must(f"meson install -C {BUILD} --no-rebuild --quiet", 120)
	began = time.monotonic()
	status = run_under_systemd([sys.executable, os.path.abspath(__file__), "inside"], 20 * ROUNDS + 200, ["LAB_LONG"])
	print(f"# {time.monotonic() - began:.0f} s under systemd", flush=True)
	must("rdma link del rxe_va; veth_del va vb")
	sys.exit(status)


main()
