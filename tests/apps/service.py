# SPDX-License-Identifier: MIT
"""The daemon as a service: what it tells its manager, what signals do, and its settings while it
runs.

usage: service.py BUILD_DIR
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from manager import Manager
from private import Failure, Private
from tap import Tap


SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# systemd's figure times ten: 2.0.
EXPOSURE_MAX = 20


class Service(Private):
	"""A private daemon with a manager."""

	def __init__(self, build, env=None, **settings):
		super().__init__(build, **settings)
		self.daemon_env = env or {}

	def start(self):
		self.manager = Manager(self.dir)
		super().start()

	def __exit__(self, *exc):
		super().__exit__(*exc)
		self.manager.close()

	def reload(self, **settings):
		"""Change the settings and have them read; what the daemon logged of it."""
		self.configure(**settings)
		return self.hang_up()

	def hang_up(self):
		before = len(self.log_text())
		self.daemon.send_signal(signal.SIGHUP)
		if self.manager.until("RELOADING=1") is None or self.manager.until("READY=1") is None:
			raise Failure(f"reading the settings again was not told: {self.manager.told}")
		return self.log_text()[before:]


def silent_client_ms(private):
	"""How long the daemon bears a client that says nothing."""
	with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
		sock.connect(os.path.join(private.dir, "shuntd.sock"))
		sock.settimeout(20)
		began = time.monotonic()
		while sock.recv(4096):
			pass
		return (time.monotonic() - began) * 1000


def tells_when_it_is_ready_and_when_it_ends(build):
	with Service(build) as service:
		told = service.manager.until("READY=1")
		if told is None:
			yield f"READY=1 never came: {service.manager.told}"
			return
		status = [line for message in told for line in message if line.startswith("STATUS=")]
		if not status or "Programs:" not in status[-1]:
			yield f"the status is not told: {told}"
		service.daemon.send_signal(signal.SIGTERM)
		if service.manager.until("STOPPING=1") is None:
			yield f"STOPPING=1 never came: {service.manager.told}"
		if service.daemon.wait(10) != 0:
			yield f"exit status {service.daemon.returncode}"


def status_follows_what_is_served(build):
	with Service(build) as service:
		service.manager.until("READY=1")
		with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
			sock.connect(os.path.join(service.dir, "shuntd.sock"))
			if service.manager.until("STATUS=Programs: 1,") is None:
				yield f"a client is not in the status: {service.manager.told}"
		if service.manager.until("STATUS=Programs: 0,") is None:
			yield f"a client that went is still in the status: {service.manager.told}"
		# At rest nothing is told.
		told = service.manager.until("STATUS=", 2.5)
		if told is not None:
			yield f"the status was told without a change: {told}"


def feeds_its_watchdog(build):
	with Service(build, env={"WATCHDOG_USEC": "400000"}) as service:
		service.manager.until("READY=1")
		began = time.monotonic()
		for _ in range(5):
			if service.manager.until("WATCHDOG=1", 2) is None:
				yield "the watchdog starves"
				return
		took = time.monotonic() - began
		if not 0.5 < took < 3:
			yield f"five signs of life took {took:.2f} s, where 1 s was due"
		service.daemon.send_signal(signal.SIGSTOP)
		service.manager.until("WATCHDOG=1", 0.3) # one may be under way
		if service.manager.until("WATCHDOG=1", 1) is not None:
			yield "a stopped daemon gives signs of life"
		service.daemon.send_signal(signal.SIGCONT)
		if service.manager.until("WATCHDOG=1", 2) is None:
			yield "a daemon that goes on gives no signs of life"


def takes_over_changed_settings(build):
	with Service(build, hello_wait_ms=60000, pair_wait_ms=1000) as service:
		service.manager.until("READY=1")
		log = service.reload(hello_wait_ms=100, pair_wait_ms=1000)
		if "hello_wait_ms is 100 milliseconds, from now on; it was 60000" not in log:
			yield f"the change is not told: {log}"
		if "read again, 1 changed" not in log:
			yield f"the sum is not told: {log}"
		took = silent_client_ms(service)
		if took > 5000:
			yield f"a silent client was borne for {took:.0f} ms: the new setting does not hold"
		log = service.hang_up()
		if "read again, 0 changed" not in log:
			yield f"nothing was changed, but: {log}"


def tells_what_needs_a_restart(build):
	with Service(build) as service:
		service.manager.until("READY=1")
		log = service.reload(ring_bytes=65536, spin_us=7)
		for text in ("ring_bytes is 65536 bytes, but not before the daemon is restarted",
			     "spin_us is 7 microseconds, for programs that start from now on",
			     "read again, 2 changed, of these some only when the daemon is restarted"):
			if text not in log:
				yield f"\"{text}\" is not told: {log}"


def a_broken_file_changes_nothing(build):
	with Service(build, hello_wait_ms=100) as service:
		service.manager.until("READY=1")
		with open(service.env["SHUNT_CONF"], "w", encoding="utf-8") as conf:
			conf.write("hello_wait_ms = 50000;\nspin_us = \"often\";\n")
		log = service.hang_up()
		if "shunt.conf:2: spin_us must be a whole number" not in log or "nothing of it is changed" not in log:
			yield f"what is wrong is not told: {log}"
		if service.daemon.poll() is not None:
			yield "the daemon has ended"
			return
		took = silent_client_ms(service)
		if took > 5000:
			yield f"half of a broken file holds: a silent client was borne for {took:.0f} ms"


def is_started_by_its_socket(build):
	"""Socket activation: who calls before the daemon runs is served by it."""
	private = Private(build)
	with private:
		private.stop()
		path = os.path.join(private.dir, "shuntd.sock")
		activator = subprocess.Popen(
			["systemd-socket-activate", "--seqpacket", "-l", path, "-E", "SHUNT_RUNTIME_DIR",
			 "-E", "SHUNT_CONF", os.path.join(private.build, "daemon", "shuntd")],
			env=private.env, stdout=private.log, stderr=private.log, stdin=subprocess.DEVNULL)
		try:
			end = time.monotonic() + 10
			while not os.path.exists(path) and time.monotonic() < end:
				time.sleep(0.01)
			done = private.run_tool("status")
			if done.returncode or str(activator.pid) not in done.stdout:
				yield f"the daemon that was started does not answer: {done.stdout}{done.stderr}"
		finally:
			activator.terminate()
			activator.wait(10)
		if not os.path.exists(path):
			yield "the daemon has removed the socket, which is its manager's"


def the_units_are_sound(build):
	"""As systemd reads them; and how exposed it thinks that the service is, from 0 to 10."""
	with tempfile.TemporaryDirectory(prefix="shunt-test-") as place:
		for name, folder in (("shuntd.service", os.path.join(build, "systemd")),
				     ("shuntd.socket", os.path.join(SOURCE, "systemd"))):
			with open(os.path.join(folder, name), encoding="utf-8") as unit:
				lines = [line for line in unit if not line.startswith("Documentation=")]
			with open(os.path.join(place, name), "w", encoding="utf-8") as unit:
				unit.writelines(re.sub(r"^ExecStart=\S+", "ExecStart=" + os.path.abspath(
					os.path.join(build, "daemon", "shuntd")), line) for line in lines)
		unit = os.path.join(place, "shuntd.service")
		done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True,
				      timeout=60, check=False)
		if done.returncode or done.stderr.strip():
			yield f"systemd-analyze verify: {done.stdout}{done.stderr}"
		done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager",
				       f"--threshold={EXPOSURE_MAX}", unit],
				      capture_output=True, text=True, timeout=60, check=False)
		verdict = [line for line in done.stdout.splitlines() if "Overall exposure" in line]
		print("#", *verdict, flush=True)
		if done.returncode or not verdict:
			yield f"systemd-analyze security: {done.stdout[-2000:]}{done.stderr}"


def main():
	tap = Tap()
	for case in (tells_when_it_is_ready_and_when_it_ends, status_follows_what_is_served,
		     feeds_its_watchdog, takes_over_changed_settings, tells_what_needs_a_restart,
		     a_broken_file_changes_nothing, is_started_by_its_socket, the_units_are_sound):
		tap.result(case.__name__, case(sys.argv[1]))
	tap.end()


main()
