# SPDX-License-Identifier: MIT
"""What the daemon writes to the journal: entries with their fields, read by a journal of our own in a
mount namespace, where /run/systemd/journal/socket is ours.

usage: journal.py BUILD_DIR
       journal.py --inside BUILD_DIR      (in that namespace: one JSON object to stdout)
"""
import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure, Private
from tap import Tap
from verbs_host import Host

SOCKET = "/run/systemd/journal/socket"
KEY = "5ec2e7" * 10 + "77aa"
PORT = 17609
WAIT_S = 30


class Journal:
	"""Takes datagrams of the native protocol."""

	def __init__(self):
		os.makedirs(os.path.dirname(SOCKET), exist_ok=True)
		self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		self.socket.bind(SOCKET)
		self.entries = []
		threading.Thread(target=self._read, daemon=True).start()

	def _read(self):
		while True:
			text = self.socket.recv(1 << 16).decode("utf-8", "replace")
			self.entries.append(dict(line.split("=", 1) for line in text.splitlines()))

	def find(self, event):
		return [entry for entry in self.entries if entry.get("SHUNT_EVENT") == event]

	def wait(self, event, count=1):
		until = time.monotonic() + WAIT_S
		while len(self.find(event)) < count:
			if time.monotonic() > until:
				return False
			time.sleep(0.02)
		return True


class Daemon(Private):
	def start(self):
		# As systemd does: standard error is the journal's stream, and JOURNAL_STREAM says so.
		stat = os.fstat(self.log.fileno())
		self.daemon_env = {"JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"}
		super().start()


def knock(daemon):
	"""A client, and a peer, that talk nonsense."""
	with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
		client.connect(os.path.join(daemon.dir, "shuntd.sock"))
		client.send(b"nonsense")
		client.settimeout(10)
		try:
			client.recv(100)
		except OSError:
			pass
	with socket.create_connection(("127.0.0.1", PORT), 10) as peer:
		peer.send(b"GET / HTTP/1.0\r\n\r\n")
		peer.settimeout(10)
		try:
			while peer.recv(100):
				pass
		except OSError:
			pass


def inside(build):
	journal = Journal()
	libraries = os.path.join(build, "tests", "lib", "verbs")
	missing = []
	with Host() as host:
		host.add("rxe0", "rxe", "10.77.0.1")
		key = os.path.join(host.dir, "key")
		with open(key, "w", encoding="ascii") as file:
			file.write(KEY + "\n")
		os.chmod(key, 0o600)
		settings = {"log_level": "debug", "peer_sessions": "on", "peer_port": PORT, "peer_key": key,
			    "peer_listen": "127.0.0.1", "rdma_rescan_ms": 100}
		with Daemon(build, **settings) as daemon:
			# What stop() and start() say comes from the second daemon.
			daemon.stop()
			daemon.env.update(VERBS_DOUBLE_DIR=host.dir, LD_LIBRARY_PATH=libraries,
					  SHUNT_CACHE_DIR=os.path.join(daemon.dir, "cache"))
			daemon.start()
			missing += [event for event in ("daemon-ready", "device-ready", "port-changed")
				    if not journal.wait(event)]
			subprocess.run([os.path.join(build, "tests", "apps", "stream"), "--native", "--bytes",
					str(4 << 20), "--rate", str(4 << 20), "--seed", "1", "--timeout", "60",
					"pair"], env=daemon.env, check=True, timeout=90,
				       capture_output=True)
			knock(daemon)
			host.remove("rxe0")
			daemon.daemon.send_signal(signal.SIGHUP)
			missing += [event for event in ("connection-promoted", "client-cut-off", "peer-refused",
							"device-gone", "config-reloaded") if not journal.wait(event)]
			daemon.stop()
			missing += [event for event in ("daemon-stopping",) if not journal.wait(event)]
			with open(daemon.env["SHUNT_CONF"], "w", encoding="ascii") as conf:
				conf.write("spin_us = \"x\";\n")
			refused = subprocess.run([os.path.join(build, "daemon", "shuntd")], check=False,
						 env=dict(daemon.env, **daemon.daemon_env), stdout=daemon.log,
						 stderr=daemon.log, timeout=30).returncode
			missing += [event for event in ("config-refused",) if not journal.wait(event)]
			log, pid = daemon.log_text(), daemon.daemon.pid
	print(json.dumps({"entries": journal.entries, "missing": missing, "stderr": log, "pid": pid,
			  "refused": refused}))


def has_fields(result, table):
	"""Each entry has what the table promises of its kind."""
	yield from (f"no {event}" for event in result["missing"])
	for entry in result["entries"]:
		if not {"PRIORITY", "SYSLOG_IDENTIFIER", "MESSAGE"} <= set(entry):
			yield f"an entry without its head: {entry}"
		own = {key for key in entry if key.startswith("SHUNT_")}
		if "MESSAGE_ID" not in entry:
			if own:
				yield f"fields without an id: {entry}"
			continue
		number, fields = table[entry["SHUNT_EVENT"]]
		if entry["MESSAGE_ID"] != number or not own - {"SHUNT_EVENT"} <= set(fields):
			yield f"not as in the table: {entry}"


def tells(result):
	"""Single entries say what has happened."""
	last = {}
	for entry in result["entries"]:
		last[entry.get("SHUNT_EVENT")] = entry
	for event, key, value in (
			("device-ready", "SHUNT_DEVICE", "rxe0"), ("device-gone", "SHUNT_DEVICE", "rxe0"),
			("port-changed", "SHUNT_STATE", "active"), ("daemon-stopping", "SHUNT_REASON", "told to"),
			("config-reloaded", "SHUNT_CHANGES", "0"),
			("client-cut-off", "SHUNT_UID", str(os.getuid())), ("connection-promoted", "SHUNT_LANE", "ring"),
			("peer-refused", "SHUNT_PEER", "127.0.0.1")):
		if last.get(event, {}).get(key) != value:
			yield f"{event} has no {key}={value}: {last.get(event)}"
	if "spin_us" not in last.get("config-refused", {}).get("SHUNT_REASON", "") or result["refused"] != 1:
		yield f"config-refused: {last.get('config-refused')}, status {result['refused']}"


def nothing_twice(result):
	if result["stderr"]:
		yield f"lines went to standard error as well: {result['stderr']}"


def no_secret(result):
	text = json.dumps(result["entries"]).lower()
	raw = bytes.fromhex(KEY)
	for form in (KEY, base64.b64encode(raw).decode().lower(), raw.decode("latin-1").lower()):
		if form in text:
			yield f"the key is in the journal as {form}"


def obstacle(build):
	if os.geteuid():
		return "only root can have a journal of its own"
	if not shutil.which("unshare") or not shutil.which("mount"):
		return "no unshare or mount here (util-linux)"
	with open(os.path.join(build, "daemon", "shuntd"), "rb") as file:
		if b"sd_journal_sendv" not in file.read():
			return "built without libsystemd"
	return None


def main():
	if sys.argv[1] == "--inside":
		try:
			inside(os.path.abspath(sys.argv[2]))
		except Failure as failure:
			sys.exit(str(failure))
		return
	build = os.path.abspath(sys.argv[1])
	names = ("entries_have_their_fields", "entries_tell_what_happened", "nothing_is_said_twice",
		 "no_secret_in_any_field")
	tap = Tap()
	reason = obstacle(build)
	if reason:
		for name in names:
			tap.skip(name, reason)
		tap.end()
		return
	shown = subprocess.run([os.path.join(build, "daemon", "shuntd"), "--print-events"], check=True,
			       capture_output=True, text=True, timeout=30).stdout
	table = {name: (number, fields.split()) for name, number, fields in
		 re.findall(r"^(\S+)\n    MESSAGE_ID=(\S+)\n.*, fields (.*)$", shown, re.M)}
	script = "mkdir -p /run/systemd && mount -t tmpfs none /run/systemd && exec \"$@\""
	done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh",
			       sys.executable, os.path.abspath(__file__), "--inside", build],
			      capture_output=True, text=True, timeout=200, check=False)
	if done.returncode:
		for name in names:
			tap.result(name, [f"status {done.returncode}", done.stderr])
		tap.end()
		return
	result = json.loads(done.stdout)
	for entry in result["entries"]:
		tap.diag(entry["MESSAGE"])
	for name, problems in zip(names, (has_fields(result, table), tells(result), nothing_twice(result),
					   no_secret(result))):
		tap.result(name, problems)
	tap.end()


main()
