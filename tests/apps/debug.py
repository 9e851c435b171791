# SPDX-License-Identifier: MIT
"""shunt debug: what is in the archive, and that no secret is.

usage: debug.py BUILD_DIR
"""
import base64
import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure, Private
from tap import Tap

KEY = bytes(range(0x61, 0x81))
CREDENTIAL = bytes(range(0xa0, 0xc0))
# One for each place where somebody may have put a secret.
MARKS = {place: f"Mark{number}of{place}" for number, place in enumerate((
	"comment", "unknown", "environment", "program", "argument", "certificate", "journal", "pem"))}

ALWAYS = {"MANIFEST.txt", "versions.txt", "settings.txt", "check.json", "sysctl.txt", "meminfo.txt",
	  "limits-here.txt", "net-snmp.txt", "net-netstat.txt", "kernel.txt"}
ANSWERS = {"status.json", "ss.json", "stats.json", "links.json", "peers.json", "devices.json"}

# In place of the commands: a log in which somebody has said too much.
JOURNAL = f"""#!/bin/sh
cat <<EOF
Dec 01 10:00:00 $(uname -n) shuntd[5]: peer 10.20.30.40: the key is {KEY.hex()}
Dec 01 10:00:01 $(uname -n) shuntd[5]: password={MARKS['journal']} for fd00::1234
-----BEGIN PRIVATE KEY-----
{MARKS['pem']}
-----END PRIVATE KEY-----
Dec 01 10:00:02 $(uname -n) shuntd[5]: {base64.b64encode(KEY).decode()}
EOF
"""


class Daemon(Private):
	def configure(self, **settings):
		super().configure(**settings)
		self.bin = os.path.join(self.dir, "bin")
		os.makedirs(self.bin, exist_ok=True)
		journalctl = os.path.join(self.bin, "journalctl")
		with open(journalctl, "w", encoding="ascii") as file:
			file.write(JOURNAL)
		os.chmod(journalctl, 0o755)
		self.env["PATH"] = self.bin + ":/usr/sbin:/usr/bin:/sbin:/bin"
		self.env["TMPDIR"] = os.path.join(self.dir, "tmp")
		os.makedirs(self.env["TMPDIR"], exist_ok=True)

	def debug(self, *args, status=0, **options):
		done = subprocess.run([self.tool, "debug", *args], env=self.env, cwd=self.dir, timeout=120,
				      capture_output=True, check=False, **options)
		if done.returncode != status:
			raise Failure(f"status {done.returncode}: {done.stdout} {done.stderr}")
		if os.listdir(self.env["TMPDIR"]):
			raise Failure(f"left behind: {os.listdir(self.env['TMPDIR'])}")
		return done


def unpack(archive):
	"""Names, without the folder, and contents."""
	with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
		folders = {member.name.split("/")[0] for member in tar.getmembers()}
		if len(folders) != 1:
			raise Failure(f"not in one folder: {folders}")
		return {member.name.split("/", 1)[1]: tar.extractfile(member).read() for member in tar.getmembers()
			if member.isfile()}


def forms(secret):
	"""How the bytes of a key may be written."""
	yield secret
	yield secret.hex().encode()
	yield secret.hex().upper().encode()
	yield base64.b64encode(secret)
	yield secret[:16].hex().encode()


def leaks(files):
	for name, content in files.items():
		for secret in (KEY, CREDENTIAL):
			yield from (f"{name} has a key as {form}" for form in forms(secret) if form in content)
		yield from (f"{name} has the mark of the {place}" for place, mark in MARKS.items()
			    if mark.encode() in content)


def plant(daemon):
	"""A secret in each place; the settings stay good."""
	key = os.path.join(daemon.dir, "key")
	with open(key, "w", encoding="ascii") as file:
		file.write(KEY.hex() + "\n")
	os.chmod(key, 0o600)
	pem = os.path.join(daemon.dir, "cert.key")
	with open(pem, "w", encoding="ascii") as file:
		file.write(f"-----BEGIN PRIVATE KEY-----\n{MARKS['certificate']}\n-----END PRIVATE KEY-----\n")
	os.chmod(pem, 0o600)
	credentials = os.path.join(daemon.dir, "credentials")
	os.mkdir(credentials)
	with open(os.path.join(credentials, "shunt-peer-key"), "w", encoding="ascii") as file:
		file.write(CREDENTIAL.hex())
	daemon.configure(peer_ca=pem, peer_cert=pem, peer_cert_key=pem, peer_sessions="off", log_level="debug")
	with open(daemon.env["SHUNT_CONF"], "a", encoding="ascii") as conf:
		conf.write(f"# {MARKS['comment']} {KEY.hex()}\npeers = ( {{ address = \"10.20.30.41\"; "
			   f"key = \"{CREDENTIAL.hex()}\"; }}, {{ address = \"10.20.30.42\"; "
			   f"key = \"{key}\"; }} );\n")
	daemon.daemon_env = {"CREDENTIALS_DIRECTORY": credentials, "SHUNT_SECRET": MARKS["environment"]}


@contextlib.contextmanager
def busy(daemon):
	"""A program with a connection on a lane, which has secrets of its own."""
	code = ("import socket,threading,time\n"
		"l=socket.create_server(('127.0.0.1',0))\nc=socket.create_connection(l.getsockname())\n"
		"s,_=l.accept()\n"
		"while 1:\n c.send(b'x'); s.recv(1); s.send(b'y'); c.recv(1); time.sleep(.002)\n")
	process = subprocess.Popen(daemon.under([sys.executable, "-c", code, MARKS["argument"]]),
				   env=dict(daemon.env, PROGRAM_SECRET=MARKS["program"]),
				   stderr=subprocess.PIPE)
	until = time.monotonic() + 30
	while not any(connection["lane"] == "ring" for connection in daemon.ask("ss")["connections"]):
		if time.monotonic() > until or process.poll() is not None:
			process.kill()
			raise Failure(f"no lane: {process.communicate()}")
		time.sleep(0.05)
	try:
		yield
	finally:
		process.kill()
		process.communicate()


def whole(build):
	with Daemon(build) as daemon:
		daemon.stop()
		plant(daemon)
		daemon.start()
		with busy(daemon):
			done = daemon.debug("--output", "report.tar.gz")
		if b"No secret is in it" not in done.stdout or b"Wrote report.tar.gz" not in done.stdout:
			yield f"it says: {done.stdout}"
		path = os.path.join(daemon.dir, "report.tar.gz")
		if os.stat(path).st_mode & 0o077:
			yield "others may read the archive"
		with open(path, "rb") as file:
			archive = file.read()
		files = unpack(archive)
		yield from leaks(dict(files, archive=archive, stdout=done.stdout))
		missing = (ALWAYS | ANSWERS | {"why.json", "journal.txt", "limits-daemon.txt"}) - set(files)
		if missing:
			yield f"missing: {missing}"
		manifest = files["MANIFEST.txt"].decode()
		yield from (f"{name} is not in the manifest" for name in files
			    if name != "MANIFEST.txt" and "\n" + name + " " not in manifest)
		for name in ANSWERS | {"why.json", "check.json"}:
			json.loads(files[name])
		if json.loads(files["status.json"])["pid"] != daemon.daemon.pid or \
		   len(json.loads(files["why.json"])["connections"]) != 2:
			yield f"not this daemon's: {files['status.json']} {files['why.json']}"
		if b"10.20.30.40" not in files["journal.txt"] or b"log_level" not in files["settings.txt"] or \
		   b"cert.key" not in files["settings.txt"] or b"10.20.30.41" not in files["settings.txt"]:
			yield f"too much is left out: {files['journal.txt']} {files['settings.txt']}"


def broken_settings(build):
	with Daemon(build) as daemon:
		with open(daemon.env["SHUNT_CONF"], "w", encoding="ascii") as conf:
			conf.write(f"# {MARKS['comment']}\nsecret_thing = \"{MARKS['unknown']}\";\n"
				   f"peer_key = \"{KEY.hex()}\";\n")
		files = unpack(daemon.debug("--output", "-").stdout)
		yield from leaks(files)
		if b"wrong" not in files["settings.txt"] or b"secret_thing" not in files["check.json"]:
			yield f"it does not say that the settings are wrong: {files['settings.txt']}"


def anonymous(build):
	host = os.uname().nodename
	with Daemon(build) as daemon:
		daemon.stop()
		plant(daemon)
		daemon.start()
		addresses = subprocess.run(["ip", "-o", "address"], capture_output=True, text=True, check=False).stdout
		own = {word.split("/")[0] for line in addresses.splitlines() for word in line.split()[3:4]}
		own = {address for address in own if not address.startswith("127.") and address != "::1"}
		files = unpack(daemon.debug("--anonymize", "--output", "-").stdout)
		yield from leaks(files)
		for name, content in files.items():
			for word in own | {"10.20.30.40", "10.20.30.41", "fd00::1234"}:
				if word.encode() in content:
					yield f"{name} has {word}"
			if len(host) > 2 and host != "localhost" and host.encode() in content:
				yield f"{name} has the name of the host"
			if name.endswith(".json"):
				json.loads(content)
		if b"address-" not in files["journal.txt"]:
			yield f"no other name for an address: {files['journal.txt']}"


def without_a_daemon(build):
	with Daemon(build) as daemon:
		daemon.kill()
		done = daemon.debug("--output", "dead.tar.gz")
		with open(os.path.join(daemon.dir, "dead.tar.gz"), "rb") as file:
			files = unpack(file.read())
		if not ALWAYS <= set(files) or ANSWERS & set(files):
			yield f"in it: {sorted(files)}"
		for name in ANSWERS:
			if f"missing: {name}".encode() not in done.stdout or \
			   not any(line.startswith(name) and "MISSING: no daemon answers" in line
				   for line in files["MANIFEST.txt"].decode().splitlines()):
				yield f"it does not say that {name} is missing"
		# Where others may write, a log may be a link to anything that only root may read.
		os.symlink(daemon.env["SHUNT_CONF"], os.path.join(daemon.dir, "shuntd.log"))
		if "shuntd.log" not in unpack(daemon.debug("--output", "-").stdout):
			yield "no log of the daemon that has died"
		os.chmod(daemon.dir, 0o777)
		if "shuntd.log" in unpack(daemon.debug("--output", "-").stdout):
			yield "a log in a folder of others"
		if b"nobody behind it" not in files["check.json"]:
			yield f"the check does not say what is wrong: {files['check.json']}"


def daemon_that_hangs(build):
	with Daemon(build) as daemon:
		daemon.daemon.send_signal(signal.SIGSTOP)
		started = time.monotonic()
		try:
			files = unpack(daemon.debug("--output", "-").stdout)
		finally:
			daemon.daemon.send_signal(signal.SIGCONT)
		if not ALWAYS <= set(files) or b"in time" not in files["check.json"]:
			yield f"in it: {sorted(files)}: {files.get('check.json')}"
		if time.monotonic() - started > 45:
			yield f"it took {time.monotonic() - started} s"


def commands_that_fail(build):
	with Daemon(build) as daemon:
		for name, script in (("lscpu", "sleep 100"), ("ip", "echo broken; exit 3"),
				     ("rdma", "yes 0123456789012345678901234567890 | head -c 20000000")):
			with open(os.path.join(daemon.bin, name), "w", encoding="ascii") as file:
				file.write("#!/bin/sh\n" + script + "\n")
			os.chmod(os.path.join(daemon.bin, name), 0o755)
		done = daemon.debug("--output", "x.tar.gz")
		with open(os.path.join(daemon.dir, "x.tar.gz"), "rb") as file:
			files = unpack(file.read())
		manifest = files["MANIFEST.txt"].decode()
		if b"missing: cpu.txt" not in done.stdout or "cpu.txt" in files:
			yield f"a command that hangs: {done.stdout}"
		if files["addresses.txt"] != b"broken\n" or "status 3" not in manifest:
			yield f"a command that fails: {files['addresses.txt']} {manifest}"
		if not 1 << 22 < len(files["rdma-links.txt"]) <= 8 << 20 or "only its end" not in manifest:
			yield f"a command that says too much: {len(files['rdma-links.txt'])} {manifest}"


def outputs(build):
	with Daemon(build) as daemon:
		done = daemon.debug()
		names = [name for name in os.listdir(daemon.dir) if name.startswith("shunt-debug-")]
		if len(names) != 1 or names[0].encode() not in done.stdout:
			yield f"{names}: {done.stdout}"
		taken = os.path.join(daemon.dir, "taken")
		with open(taken, "w", encoding="ascii") as file:
			file.write("mine")
		done = daemon.debug("--output", "taken", status=4)
		with open(taken, encoding="ascii") as file:
			if file.read() != "mine" or b"name another" not in done.stderr:
				yield f"a file that is there: {done.stderr}"
		done = daemon.debug("--output", "/nowhere/x", status=4)
		if b"/nowhere/x can't be made" not in done.stderr:
			yield f"no folder: {done.stderr}"
		daemon.env["PATH"] = daemon.bin
		done = daemon.debug("--output", "none", status=4)
		if b"install the package tar" not in done.stderr or os.path.exists(os.path.join(daemon.dir, "none")):
			yield f"without tar: {done.stderr}"
		for args, text in ((("--output",), b"needs a value"), (("--output", "--help"), b"needs a file"), (("x",), b"too many: x"), (("--no",), b"--no")):
			if text not in daemon.debug(*args, status=2).stderr:
				yield f"{args} is not refused as it should"


def interrupted(build):
	with Daemon(build) as daemon:
		with open(os.path.join(daemon.bin, "journalctl"), "w", encoding="ascii") as file:
			file.write("#!/bin/sh\nexec sleep 100\n")
		process = subprocess.Popen([daemon.tool, "debug", "--output", "cut"], env=daemon.env, cwd=daemon.dir,
					   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
		time.sleep(1.5)
		process.send_signal(signal.SIGTERM)
		_, errors = process.communicate(timeout=20)
		if process.returncode != 4 or os.listdir(daemon.env["TMPDIR"]) or \
		   os.path.exists(os.path.join(daemon.dir, "cut")):
			yield f"status {process.returncode}, {errors}, {os.listdir(daemon.env['TMPDIR'])}"


def main():
	build = os.path.abspath(sys.argv[1])
	tap = Tap()
	for case in (whole, broken_settings, anonymous, without_a_daemon, daemon_that_hangs, commands_that_fail,
		     outputs, interrupted):
		if not shutil.which("tar") or not shutil.which("gzip"):
			tap.skip(case.__name__, "no tar or gzip here")
			continue
		try:
			problems = list(case(build))
		except Failure as failure:
			problems = [str(failure)]
		tap.result(case.__name__, problems)
	tap.end()


main()
