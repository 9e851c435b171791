# SPDX-License-Identifier: MIT
"""shunt check on this machine, on hosts of the verbs double, and on hosts that are damaged in many
ways: each damage is named, with its remedy.

usage: check.py BUILD_DIR
       check.py --scene NAME BUILD_DIR      (in namespaces of its own: runs the case of that name)
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure, Private
from scenes import DEV, SYS
from tap import Tap
from verbs_host import Host

USER = 65534
PORT = 17610
KEY = "0123456789abcdef" * 4


class Daemon(Private):
	def __init__(self, build, host=None, **settings):
		super().__init__(build, **settings)
		self.host = host

	def configure(self, **settings):
		self.env["SHUNT_CACHE_DIR"] = os.path.join(self.dir, "cache")
		if self.host:
			self.env.update(VERBS_DOUBLE_DIR=self.host.dir,
					LD_LIBRARY_PATH=os.path.join(self.build, "tests", "lib", "verbs"))
		super().configure(**settings)

	def wait_ready(self, count):
		until = time.monotonic() + 30
		while sum(device["state"] not in ("opening", "probing")
			  for device in self.ask("devices")["devices"]) < count:
			if time.monotonic() > until:
				raise Failure(f"devices are not ready: {self.ask('devices')}")
			time.sleep(0.02)


def check(private, *args, prefix=(), env=None):
	"""Exit status and report; with --json and without it says the same."""
	command = [*prefix, private.tool, "check", *map(str, args)]
	env = env or private.env
	text = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
	done = subprocess.run([*command, "--json"], env=env, capture_output=True, text=True, timeout=120,
			      check=False)
	if done.stderr or text.stderr:
		raise Failure(f"{command}: {done.stderr}{text.stderr}")
	report = json.loads(done.stdout)
	for line in report["checks"]:
		if line["verdict"] != "pass" and not line["remedy"]:
			raise Failure(f"no remedy: {line}")
	if text.returncode != done.returncode or "\033" in text.stdout or \
	   not text.stdout.endswith(f"{report['warnings']} warnings, {report['failed']} failed\n"):
		raise Failure(f"the text differs: {text.stdout} {report}")
	if (done.returncode == 1) != (report["verdict"] == "fail") or done.returncode not in (0, 1):
		raise Failure(f"status {done.returncode} for {report['verdict']}")
	return done.returncode, report["checks"]


def names(result, verdict, name, found, remedy):
	"""Whether the report has such a line; and the exit status fits. Yields problems."""
	status, lines = result
	own = [line for line in lines if line["check"] == name]
	if not any(line["verdict"] == verdict and found in line["subject"] + ": " + line["found"] and
		   remedy in line["remedy"] for line in own):
		yield f"{name} does not {verdict} with \"{found}\" and \"{remedy}\": {own}"
	if verdict == "fail" and status != 1:
		yield f"exit status {status} for a failure"


def good(result):
	status, lines = result
	bad = [line for line in lines if line["verdict"] == "fail"]
	if status or bad:
		yield f"status {status}: {bad}"


# --- the host -----------------------------------------------------------------------------------


def this_machine(build):
	with Daemon(build) as daemon:
		result = check(daemon)
		yield from good(result)
		if not os.path.isdir("/sys/class/infiniband") or not os.listdir("/sys/class/infiniband"):
			yield from names(result, "warn", "rdma", "no RDMA device here", "modprobe rdma_rxe")
		yield from names(result, "pass", "kernel", "the daemon says so, too", "")
		yield from names(result, "pass", "daemon", f"process {daemon.daemon.pid}", "")
		yield from names(result, "pass", "version", "shuntd: version", "")
		# A colour is for eyes.
		done = subprocess.run(["script", "-qec", f"{daemon.tool} check", "/dev/null"], env=daemon.env,
				      capture_output=True, text=True, timeout=60, check=False,
				      stdin=subprocess.DEVNULL) if shutil.which("script") else None
		if done and "\033[32mpass" not in done.stdout:
			yield f"no colour on a terminal: {done.stdout}"


def good_devices(build):
	with Host() as host:
		host.add("rxe0", "rxe", "10.77.0.1")
		host.add("siw0", "siw", "10.77.0.2")
		host.add("ib0", "mlx5-ib", None)
		host.mtu("rxe0", 4096)
		with Daemon(build, host) as daemon:
			daemon.wait_ready(3)
			result = check(daemon)
			yield from good(result)
			for found in ("rxe0 port 1: RoCE v2 10.77.0.1", "siw0 port 1: iWARP",
				      "ib0 port 1: InfiniBand", "rxe0 port 1: path MTU 4096"):
				yield from names(result, "pass", "rdma", found, "")
			_, lines = check(daemon, "--device", "siw0")
			if any("rxe0" in line["subject"] for line in lines if line["check"] == "rdma"):
				yield f"--device siw0 tells of others: {lines}"
			yield from names(check(daemon, "--device", "nope"), "fail", "rdma", "no such RDMA device",
					 "rdma link show")


def damaged_ports(build):
	with Host() as host:
		host.add("rxe0", "rxe", "10.77.0.1")
		host.mtu("rxe0", 4096)
		host.add("down0", "rxe", "10.77.0.2")
		host.mtu("down0", 4096)
		host.port("down0", "down")
		host.add("local0", "rxe", None)
		host.add("slow0", "rxe", "10.77.0.4")
		with Daemon(build, host) as daemon:
			daemon.wait_ready(4)
			result = check(daemon)
			yield from names(result, "warn", "rdma", "down0 port 1: is down", "ip link show")
			yield from names(result, "warn", "rdma", "local0 port 1: only the link-local",
					 "ip address add")
			yield from names(result, "warn", "rdma", "slow0 port 1: path MTU 1024, but lo",
					 "ip link set lo down")
			if result[0]:
				yield f"a port that is down fails, beside others that are up: {result}"
			yield from names(check(daemon, "--device", "down0"), "fail", "rdma", "is down", "")
			host.remove("rxe0")
			host.remove("local0")
			host.remove("slow0")
			yield from names(check(daemon), "fail", "rdma", "is down", "")


def small_path_mtu(build):
	"""In a network namespace: a path MTU that does not fit."""
	subprocess.run("ip link add d0 mtu 1500 type veth peer name d1 mtu 1500; ip link set d1 up; ip link set d0 up; ip link set lo up", shell=True,
		       check=True)
	ifindex = socket.if_nametoindex("d0")
	with Host() as host:
		host.add("rxe0", "rxe", "10.77.0.1")
		host.netdev("rxe0", "d0", ifindex)
		host.mtu("rxe0", 2048)
		with Daemon(build, host) as daemon:
			daemon.wait_ready(1)
			yield from names(check(daemon), "fail", "rdma", "2048 does not fit into d0 with MTU 1500",
					 "ip link set d0 mtu 2144")
			subprocess.run(["ip", "link", "set", "d0", "down"], check=True)
			host.port("rxe0", "down")
			yield from names(check(daemon), "fail", "rdma", "is down", "ip link set d0 up")


def memlock_of_64_kib(build):
	with Host() as host:
		host.add("mlx0", "mlx5", "10.77.0.1")
		for path in (host.dir, os.path.join(host.dir, "fabric")):
			os.chmod(path, 0o777)
		daemon = Daemon(build, host)
		daemon.user, daemon.prefix = USER, ["prlimit", "--memlock=65536", "setpriv", f"--reuid={USER}",
						    f"--regid={USER}", "--clear-groups", "--inh-caps=-all",
						    "--bounding-set=-all"]
		with daemon:
			daemon.wait_ready(1)
			yield from names(check(daemon, prefix=daemon.prefix), "fail", "memlock", "only 64K",
					 "LimitMEMLOCK=infinity")
			result = check(daemon, prefix=daemon.prefix)
			yield from names(result, "warn", "rdma", "mlx0: the daemon does not use it",
					 "shunt probe --device mlx0")
			yield from names(result, "fail", "rdma", "64 KiB of memory may be locked",
					 "LimitMEMLOCK=infinity")


def limits_of_the_unit(build):
	"""Without a daemon root is told of what systemd would give it."""
	with Daemon(build) as daemon:
		daemon.kill()
		folder = os.path.join(daemon.dir, "bin")
		os.mkdir(folder)
		with open(os.path.join(folder, "systemctl"), "w", encoding="ascii") as file:
			file.write("#!/bin/sh\necho LimitMEMLOCK=65536\necho LimitNOFILE=1048576\necho LoadState=loaded\n")
		os.chmod(os.path.join(folder, "systemctl"), 0o755)
		result = check(daemon, env=dict(daemon.env, PATH=folder + ":" + os.environ["PATH"]))
		yield from names(result, "warn", "memlock", "the service shuntd (which does not run) may lock only 64K",
				 "LimitMEMLOCK=infinity")
		yield from names(result, "pass", "descriptors", "the service shuntd", "")


def few_descriptors(build):
	daemon = Daemon(build)
	daemon.prefix = ["prlimit", "--nofile=300"]
	with daemon:
		yield from names(check(daemon), "warn", "descriptors", "may open 300 descriptors", "LimitNOFILE=")


# --- device files, as a user without rights ------------------------------------------------------


def as_user(build, setting):
	"""The report of the user on a host that @setting makes; a daemon of his own answers."""
	home = tempfile.mkdtemp(prefix="shunt-scene-")
	os.chown(home, USER, USER)
	env = {key: value for key, value in os.environ.items()
	       if key not in ("LD_LIBRARY_PATH", "VERBS_DOUBLE_DIR")}
	env.update(SHUNT_RUNTIME_DIR=home, SHUNT_CONF=os.devnull, SHUNT_CACHE_DIR=home)
	script = f"set -e\n{setting}\nexec setpriv --reuid {USER} --regid {USER} --clear-groups " \
		 f"--bounding-set -all --inh-caps -all {build}/tools/shunt check --json"
	try:
		done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", script],
				      env=env, capture_output=True, text=True, timeout=100, check=False)
		if done.returncode not in (0, 1):
			raise Failure(f"status {done.returncode}: {done.stderr}")
		return done.returncode, json.loads(done.stdout)["checks"]
	finally:
		shutil.rmtree(home, ignore_errors=True)


def nodes_closed(build):
	result = as_user(build, DEV + SYS + "chmod 600 /dev/infiniband/uverbs0; "
					    "chgrp 1 /dev/infiniband/rdma_cm; chmod 660 /dev/infiniband/rdma_cm")
	yield from names(result, "fail", "nodes", "/dev/infiniband/uverbs0: closed to you",
			 "chmod 666 /dev/infiniband/uverbs0")
	yield from names(result, "fail", "nodes", "group daemon, mode 0660", "SupplementaryGroups=daemon")
	yield from names(result, "fail", "rdma", "no access to /dev/infiniband/uverbs0", "rdma-core")
	result = as_user(build, DEV + SYS + "chmod 700 /dev/infiniband")
	yield from names(result, "fail", "nodes", "Permission denied", "chmod 755 /dev/infiniband")


def no_provider(build):
	result = as_user(build, DEV + SYS + "mount -t tmpfs none /etc/libibverbs.d")
	yield from names(result, "fail", "rdma", "rxe0: RDMA device rxe0: libibverbs has no provider",
			 "ibverbs-providers")


def no_nodes(build):
	result = as_user(build, DEV + SYS + "rm /dev/infiniband/*")
	yield from names(result, "warn", "nodes", "no device nodes", "modprobe ib_uverbs")
	yield from names(result, "fail", "rdma", "/dev/infiniband/uverbs0 is missing", "--device /dev/infiniband")


# --- the daemon ----------------------------------------------------------------------------------


def broken_settings(build):
	with Daemon(build) as daemon:
		conf = daemon.env["SHUNT_CONF"]
		with open(conf, "w", encoding="ascii") as file:
			file.write("spin_us = 10;\npromote_after = \"x\";\n")
		yield from names(check(daemon), "fail", "settings", f"{conf}:2: promote_after",
				 f"shuntd --check-config {conf}")
		# Without SHUNT_CONF, the file that the daemon was started with.
		env = {key: value for key, value in daemon.env.items() if key != "SHUNT_CONF"}
		yield from names(check(daemon, env=env), "fail", "settings", f"{conf}:2: promote_after", conf)
		os.remove(conf)
		yield from names(check(daemon), "fail", "settings", "No such file", "--print-config")
	# As the daemon was told on its command line, from where it was started.
	with Daemon(build) as daemon:
		daemon.stop()
		with open(os.path.join(daemon.dir, "other.conf"), "w", encoding="ascii") as file:
			file.write("spin_us = 10;\n")
		env = {key: value for key, value in daemon.env.items() if key != "SHUNT_CONF"}
		daemon.daemon = subprocess.Popen([os.path.join(daemon.build, "daemon", "shuntd"), "--config", "other.conf"],
						 cwd=daemon.dir, env=env, stdout=daemon.log, stderr=daemon.log)
		until = time.monotonic() + 10
		while daemon.run_tool("status").returncode and time.monotonic() < until:
			time.sleep(0.05)
		with open(os.path.join(daemon.dir, "other.conf"), "w", encoding="ascii") as file:
			file.write("spin_us = -1;\n")
		yield from names(check(daemon, env=env), "fail", "settings", "other.conf:1: spin_us", "--check-config")


def no_daemon(build):
	with Daemon(build) as daemon:
		daemon.kill()
		yield from names(check(daemon), "fail", "daemon", "nobody behind it", "systemctl restart shuntd")
		for name in ("shuntd.sock", "shuntd.lock"):
			with contextlib.suppress(FileNotFoundError):
				os.remove(os.path.join(daemon.dir, name))
		yield from names(check(daemon), "fail", "daemon", "no daemon runs here",
				 "systemctl enable --now shuntd.socket")


def daemon_that_hangs(build):
	with Daemon(build) as daemon:
		daemon.daemon.send_signal(signal.SIGSTOP)
		try:
			yield from names(check(daemon), "fail", "daemon", "does not answer in time",
					 "systemctl restart shuntd")
		finally:
			daemon.daemon.send_signal(signal.SIGCONT)


def socket_of_others(build):
	with Daemon(build) as daemon:
		other = ["setpriv", "--reuid", str(USER), "--clear-groups"]
		os.chmod(daemon.dir, 0o755)
		os.chmod(daemon.env["SHUNT_CONF"], 0o644)
		os.chmod(os.path.join(daemon.dir, "shuntd.sock"), 0o600)
		yield from names(check(daemon, prefix=other), "fail", "daemon",
				 f"mode 0600, and you are user {USER}", "SocketMode=0666")
		os.chmod(daemon.dir, 0o777)
		yield from names(check(daemon), "fail", "daemon", "others may write in it (mode 0777)",
				 f"chmod go-w {daemon.dir}")
		os.chmod(daemon.dir, 0o755)
		os.chown(daemon.dir, USER, USER)
		yield from names(check(daemon), "fail", "daemon", f"belongs to user {USER}", "chown 0")
		os.chown(daemon.dir, 0, 0)
		yield from names(check(daemon, env=dict(daemon.env, SHUNT_RUNTIME_DIR="relative")), "fail", "daemon",
				 "no absolute path", "unset SHUNT_RUNTIME_DIR")


def keys(build):
	with Daemon(build) as daemon:
		key = os.path.join(daemon.dir, "key")
		with open(key, "w", encoding="ascii") as file:
			file.write(KEY)
		daemon.configure(peer_key=key)
		os.chmod(key, 0o600)
		result = check(daemon)
		yield from good(result)
		yield from names(result, "pass", "keys", "readable by the daemon alone", "")
		os.chmod(key, 0o644)
		yield from names(check(daemon), "fail", "keys", "mode 0644", f"chmod 0600 {key}")
		os.chmod(key, 0o600)
		os.chown(key, USER, USER)
		yield from names(check(daemon), "fail", "keys", f"belongs to user {USER}", f"chown 0 {key}")
		os.chown(key, 0, 0)
		with open(key, "w", encoding="ascii") as file:
			file.write("not a key")
		yield from names(check(daemon), "fail", "keys", "holds no key", "openssl rand -hex 32")
		os.remove(key)
		yield from names(check(daemon), "fail", "keys", "No such file", "peer_key")


# --- peers ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def listener(talk):
	"""Someone else on the port: @talk is called with each connection."""
	with socket.create_server(("127.0.0.1", PORT)) as server:
		def serve():
			while True:
				try:
					connection, _ = server.accept()
				except OSError:
					return
				with contextlib.suppress(OSError):
					talk(connection)
		threading.Thread(target=serve, daemon=True).start()
		yield
		server.shutdown(socket.SHUT_RDWR)


def write_key(folder, name, text):
	path = os.path.join(folder, name)
	with open(path, "w", encoding="ascii") as file:
		file.write(text)
	os.chmod(path, 0o600)
	return path


def peers_on_the_port(build):
	"""In a network namespace: who answers on peer_port."""
	subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
	kept = []
	with Daemon(build) as daemon:
		key = write_key(daemon.dir, "key", KEY)
		daemon.configure(peer_key=key, peer_port=PORT, peer_sessions="off")
		args = ("--peer", "127.0.0.1")
		yield from names(check(daemon, *args), "fail", "peers", "refused", f"peer_port = {PORT}")
		with listener(lambda connection: (connection.send(b"SSH-2.0-x\r\n"), kept.append(connection))):
			yield from names(check(daemon, *args), "fail", "peers", "is no shuntd",
					 f"ss -ltnp sport = :{PORT}")
		with listener(kept.append):
			yield from names(check(daemon, *args), "fail", "peers", "says nothing", "restart shuntd")
		with listener(lambda connection: connection.close()):
			yield from names(check(daemon, *args), "fail", "peers", "hangs up at once",
					 "peers of shunt.conf")
		with Daemon(build, peer_key=key, peer_port=PORT, peer_sessions="on") as other:
			result = check(daemon, *args)
			yield from good(result)
			yield from names(result, "pass", "peers", "answers and has the same key", "")
			if "warning" in other.log_text():
				yield f"the other daemon complains of being asked: {other.log_text()}"
			write_key(daemon.dir, "key", "f" * 64)
			yield from names(check(daemon, *args), "fail", "peers", "don't accept each other",
					 "same peer_key")
			write_key(daemon.dir, "key", "nonsense")
			yield from names(check(daemon, *args), "warn", "peers", "can be reached", "as root")
		# Those of the settings, without --peer.
		with open(daemon.env["SHUNT_CONF"], "w", encoding="ascii") as conf:
			conf.write(f"peer_port = {PORT};\npeers = ( {{ address = \"127.0.0.1\"; }}, "
				   "{ address = \"127.0.0.2\"; } );\n")
		result = check(daemon)
		yield from names(result, "fail", "peers", f"127.0.0.1:{PORT}: refused", "")
		yield from names(result, "fail", "peers", f"127.0.0.2:{PORT}: refused", "")
		yield from names(result, "warn", "keys", "no key: whoever calls", "openssl rand")


def peers_behind_a_firewall(build):
	"""In a network namespace: a wire on which nobody answers, and routes that refuse."""
	subprocess.run("ip link set lo up; ip link add d0 type veth peer name d1; ip link set d1 up; ip link set d0 arp off up; "
		       "ip address add 10.99.0.1/24 dev d0; ip route add prohibit 10.99.1.1; "
		       "ip route add unreachable 10.99.2.1; ip route add blackhole 10.99.3.1", shell=True,
		       check=True)
	with Daemon(build) as daemon:
		for address, found, remedy in (("10.99.0.2", "a firewall drops it", "tcp dport 7609 accept"),
					       ("10.99.1.1", "forbidden on this host", "prohibiting route"),
					       ("10.99.2.1", "can't be reached", "ip route get 10.99.2.1"),
					       ("10.99.3.1", "can't be reached", "ip route get 10.99.3.1"),
					       ("10.98.0.1", "can't be reached", "ip route get 10.98.0.1")):
			yield from names(check(daemon, "--peer", address), "fail", "peers", found, remedy)


# --- programs ------------------------------------------------------------------------------------


@contextlib.contextmanager
def program(command, **options):
	"""@command, once it is what it will be."""
	process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
				   stderr=subprocess.DEVNULL, **options)
	time.sleep(0.3)
	try:
		yield process.pid
	finally:
		process.kill()
		process.wait()


def programs(build):
	with Daemon(build) as daemon:
		with program(daemon.under(["sleep", "60"]), env=daemon.env) as pid:
			result = check(daemon, "--pid", pid)
			yield from good(result)
			yield from names(result, "pass", "program", "has the library in it", "")
		with program(["sleep", "60"]) as pid:
			yield from names(check(daemon, "--pid", pid), "fail", "program", "started without Shunt",
					 "shunt run")
		with program(["sleep", "60"], env=dict(daemon.env, LD_PRELOAD="/nowhere/libshunt-preload.so")) as pid:
			yield from names(check(daemon, "--pid", pid), "fail", "program", "but not in memory", "chmod")
		with program(daemon.under(["unshare", "--net", "sleep", "60"]), env=daemon.env) as pid:
			yield from names(check(daemon, "--pid", pid), "fail", "program", "network namespace",
					 f"nsenter -t {pid} -n shuntd")
		hidden = f"mount -t tmpfs none {daemon.dir}; exec sleep 60"
		with program(daemon.under(["unshare", "--mount", "sh", "-c", hidden]), env=daemon.env) as pid:
			yield from names(check(daemon, "--pid", pid), "fail", "program", "does not see",
					 f"BindPaths={daemon.dir}")
		elsewhere = dict(daemon.env, SHUNT_RUNTIME_DIR="/tmp/elsewhere")
		with program(daemon.under(["sleep", "60"]), env=elsewhere) as pid:
			yield from names(check(daemon, "--pid", pid), "warn", "program", "in /tmp/elsewhere only",
					 "unset SHUNT_RUNTIME_DIR")
		yield from names(check(daemon, "--pid", pid), "fail", "program", "no such process", "pgrep")
		dead = subprocess.Popen(["true"])
		time.sleep(0.3)
		yield from names(check(daemon, "--pid", dead.pid), "fail", "program", "no such process", "pgrep")
		dead.wait()
		with program(["sleep", "60"]) as pid:
			yield from names(check(daemon, "--pid", pid, prefix=["setpriv", "--reuid", str(USER)]),
					 "warn", "program", "not for us to look into", f"sudo shunt check --pid {pid}")


def programs_of_special_kinds(build):
	with Daemon(build) as daemon, tempfile.TemporaryDirectory() as folder:
		os.chmod(folder, 0o755)
		secure = os.path.join(folder, "sleep")
		shutil.copy(os.path.realpath(shutil.which("sleep")), secure)
		os.chmod(secure, 0o4755)
		env = dict(daemon.env, LD_PRELOAD=daemon.preload())
		with program(["setpriv", "--reuid", str(USER), "--clear-groups", secure, "60"], env=env) as pid:
			yield from names(check(daemon, "--pid", pid), "fail", "program", "set-uid",
					 "AmbientCapabilities=")
		static = os.path.join(folder, "static")
		source = "void _start(void) { for (;;) ; }"
		subprocess.run(["cc", "-static", "-nostdlib", "-x", "c", "-o", static, "-"], input=source, text=True,
			       check=True)
		with program([static], env=env) as pid:
			yield from names(check(daemon, "--pid", pid), "fail", "program", "statically linked",
					 "dynamically linked")


def usage(build):
	tool = os.path.join(build, "tools", "shunt")
	for args, text in ((("--pid", "x"), "process id"), (("--pid", "0"), "process id"),
			   (("--peer", "host"), "IP address"), (("--peer",), "needs a value"),
			   (("x",), "too many: x"), (("--wrong",), "--wrong")):
		done = subprocess.run([tool, "check", *args], capture_output=True, text=True, timeout=20, check=False)
		if done.returncode != 2 or text not in done.stderr:
			yield f"{args}: {done.returncode}: {done.stderr}"


# Which of them need namespaces of their own, and what.
CASES = (
	(usage, ()), (this_machine, ()), (good_devices, ()), (damaged_ports, ()), (small_path_mtu, ("--net",)),
	(memlock_of_64_kib, ()), (limits_of_the_unit, ()), (few_descriptors, ()), (nodes_closed, ()), (no_provider, ()), (no_nodes, ()),
	(broken_settings, ()), (no_daemon, ()), (daemon_that_hangs, ()), (socket_of_others, ()), (keys, ()),
	(peers_on_the_port, ("--net",)), (peers_behind_a_firewall, ("--net",)), (programs, ()),
	(programs_of_special_kinds, ()),
)


def obstacle(build, case):
	"""Why @case can't be run here, or None."""
	if os.geteuid():
		return "only root can do damage to a host"
	for tool in ("unshare", "setpriv", "prlimit", "ip", "bash"):
		if not shutil.which(tool):
			return f"no {tool} here (util-linux, iproute2)"
	if case in (nodes_closed, no_provider, no_nodes):
		try:
			socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20).close()
			return "this kernel tells of its RDMA devices by netlink: no scene can hide them"
		except OSError:
			pass
	if case in (nodes_closed, no_provider, no_nodes, memlock_of_64_kib) and subprocess.run(
			["setpriv", "--reuid", str(USER), "--clear-groups", "test", "-x",
			 os.path.join(build, "tools", "shunt")], check=False).returncode:
		return f"user {USER} may not run what was built"
	if case is programs_of_special_kinds and not shutil.which("cc"):
		return "no cc here"
	return None


def run(case, build):
	try:
		yield from case(build)
	except Failure as failure:
		yield str(failure)


def main():
	if sys.argv[1] == "--scene":
		case = next(case for case, _ in CASES if case.__name__ == sys.argv[2])
		print(json.dumps(list(run(case, os.path.abspath(sys.argv[3])))))
		return
	build = os.path.abspath(sys.argv[1])
	tap = Tap()
	for case, spaces in CASES:
		reason = obstacle(build, case)
		if reason:
			tap.skip(case.__name__, reason)
		elif not spaces:
			tap.result(case.__name__, run(case, build))
		else:
			done = subprocess.run(["unshare", *spaces, sys.executable, os.path.abspath(__file__),
					       "--scene", case.__name__, build], capture_output=True, text=True,
					      timeout=200, check=False)
			tap.result(case.__name__, json.loads(done.stdout) if done.returncode == 0 else
				   [f"status {done.returncode}", done.stderr])
	tap.end()


main()
