# SPDX-License-Identifier: MIT
"""Hosts that lack something for RDMA: the daemon starts, serves lanes within the host, and says in
one line what is missing and how to get it.

Each scene is set in a mount namespace of its own, as root; the daemon and the programs then run as a
user without any capability, since root would pass everywhere.

usage: no_rdma.py BUILD_DIR [DOUBLE_DIR]
       no_rdma.py --inside BUILD_DIR      (as that user: one JSON object to stdout)
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure, Private
from scenes import DEV, SYS
from tap import Tap

USER = 65534
# Two seconds of a stream: time enough to be promoted, and for a lane to carry most of it.
BYTES = 8 << 20
RATE = 4 << 20
NETLINK_RDMA = 20

# Name, how the scene is set, what single lines must say, and what no line may say.
SCENES = [
	("no_device", DEV + "mount -t tmpfs none /sys/class",
	 [["no RDMA device here", "modprobe rdma_rxe"]], ["warning"]),
	("node_closed", DEV + SYS + "chmod 600 /dev/infiniband/uverbs0 /dev/infiniband/rdma_cm",
	 [["no access to /dev/infiniband/uverbs0", "rxe0", "chmod 666", "rdma-core"],
	  ["no access to /dev/infiniband/rdma_cm", "rdma-core"]], []),
	("folder_closed", DEV + SYS + "chmod 700 /dev/infiniband",
	 [["no access to /dev/infiniband/uverbs0", "chmod 755 /dev/infiniband", "rdma-core"],
	  ["no access to /dev/infiniband/rdma_cm", "chmod 755 /dev/infiniband"]], []),
	("no_provider", DEV + SYS + "mount -t tmpfs none /etc/libibverbs.d",
	 [["libibverbs has no provider library", "rxe0", "ibverbs-providers"]], []),
	("no_cm", DEV + SYS + "rm /dev/infiniband/rdma_cm; mount -t tmpfs none /etc/libibverbs.d",
	 [["no /dev/infiniband/rdma_cm", "modprobe rdma_ucm"]], []),
]

# On the double, whose devices nobody may forbid: locked memory alone is short.
MEMLOCK = ("memlock_64_kib", "ulimit -l 64",
	   [["only 64 KiB of memory may be locked", "LimitMEMLOCK=infinity", "ulimit -l"],
	    ["mlx0 is not used", "locked memory", "64 KiB"],
	    ["rxe0: rings can't be registered", "ulimit -l"]], [])


def capabilities():
	with open("/proc/self/status", encoding="ascii") as status:
		return int(re.search(r"^CapEff:\s*(\w+)", status.read(), re.M).group(1), 16)


def inside(build):
	"""As the user, in the scene: what the daemon logs, and what a lane does."""
	result = {"uid": os.geteuid(), "capabilities": capabilities()}
	with Private(build) as private:
		until = time.monotonic() + 20
		while not private.ask("devices")["scanned"] and time.monotonic() < until:
			time.sleep(0.02)
		stream = subprocess.run([os.path.join(build, "tests", "apps", "stream"), "--native",
					 "--bytes", str(BYTES), "--rate", str(RATE),
					 "--seed", "1", "--timeout", "60", "pair"],
					env=private.env, capture_output=True, text=True, timeout=90,
					stdin=subprocess.DEVNULL, check=False)
		# What takes longer than the scan has had the time of the stream, and some more.
		while private.ask("devices")["devices"] and time.monotonic() < until and any(
				device["state"] in ("opening", "probing")
				for device in private.ask("devices")["devices"]):
			time.sleep(0.05)
		result["stream"] = stream.returncode
		result["stream_errors"] = stream.stderr
		result["stats"] = private.ask("stats")
		result["notes"] = private.ask("devices")["notes"]
		result["log"] = private.log_text().splitlines()
	print(json.dumps(result))


def as_user(*command):
	"""Whether @command succeeds as the user."""
	return subprocess.run(["setpriv", "--reuid", str(USER), "--clear-groups", *command], check=False,
			      capture_output=True).returncode == 0


def usable_python():
	"""An interpreter that the user may run, or None: ours may lie in root's home."""
	for path in (sys.executable, "/usr/bin/python3"):
		if as_user("test", "-x", path):
			return path
	return None


def run_scene(build, setting, env):
	home = tempfile.mkdtemp(prefix="shunt-scene-")
	os.chown(home, USER, USER)
	script = f"set -e\n{setting}\nexec setpriv --reuid {USER} --regid {USER} --clear-groups " \
		 "--bounding-set -all --inh-caps -all --no-new-privs " \
		 f"env HOME={home} SHUNT_CACHE_DIR={home} TMPDIR=/tmp " \
		 f"{usable_python()} {os.path.abspath(__file__)} --inside {build}"
	done = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", script],
			      env=env, capture_output=True, text=True, timeout=200, check=False)
	shutil.rmtree(home, ignore_errors=True)
	if done.returncode:
		return None, [f"status {done.returncode}", done.stderr]
	return json.loads(done.stdout), []


def check_scene(result, wanted, unwanted):
	if result["uid"] != USER or result["capabilities"]:
		yield f"ran as uid {result['uid']} with capabilities {result['capabilities']:x}"
	if result["stream"]:
		yield f"the stream ended with {result['stream']}: {result['stream_errors']}"
	if result["stats"]["lanes"] < 2 or result["stats"]["lane_bytes"]["tx"] < BYTES:
		yield f"no lane carried the stream: {result['stats']}"
	for words in wanted:
		lines = [line for line in result["log"] if words[0] in line]
		if len(lines) != 1:
			yield f"{len(lines)} lines say \"{words[0]}\", not one"
		for word in words[1:]:
			if lines and word not in lines[0]:
				yield f"\"{word}\" is not in: {lines[0]}"
	for word in unwanted:
		yield from (f"unwanted: {line}" for line in result["log"] if word in line)


def double_host(double):
	"""A host of the verbs double, for the user. rxe keeps its queues in the kernel, mlx5 pins them."""
	folder = tempfile.mkdtemp(prefix="shunt-host-")
	with open(os.path.join(folder, "host"), "w", encoding="ascii") as host:
		host.write("device name=rxe0 personality=rxe index=1\n"
			   "port device=rxe0 num=1 state=active\n"
			   "gid device=rxe0 index=0 type=v2 gid=::ffff:10.77.0.1\n"
			   "addr device=rxe0 ip=10.77.0.1\n"
			   "device name=mlx0 personality=mlx5 index=2\n"
			   "port device=mlx0 num=1 state=active\n"
			   "gid device=mlx0 index=0 type=v2 gid=::ffff:10.77.0.2\n"
			   "addr device=mlx0 ip=10.77.0.2\n")
	os.mkdir(os.path.join(folder, "fabric"))
	for path in (folder, os.path.join(folder, "fabric"), os.path.join(folder, "host")):
		os.chown(path, USER, USER)
	return folder, dict(os.environ, VERBS_DOUBLE_DIR=folder, LD_LIBRARY_PATH=double)


def obstacle(build):
	"""Why no scene can be set here, or None."""
	if os.geteuid():
		return "only root can set the scenes"
	for tool in ("unshare", "setpriv", "bash"):
		if not shutil.which(tool):
			return f"no {tool} here (util-linux)"
	if subprocess.run(["unshare", "--mount", "--propagation", "private", "true"], check=False,
			  capture_output=True).returncode:
		return "no right to make a mount namespace"
	for path in (os.path.join(build, "daemon", "shuntd"), os.path.abspath(__file__)):
		if not as_user("test", "-r", path):
			return f"user {USER} may not read {path}"
	if not usable_python():
		return f"user {USER} may not run {sys.executable}"
	try:
		socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA).close()
		return "this kernel tells of its RDMA devices by netlink: no scene can hide them"
	except OSError:
		return None


def main():
	if sys.argv[1] == "--inside":
		try:
			inside(sys.argv[2])
		except Failure as failure:
			sys.exit(str(failure))
		return
	build = os.path.abspath(sys.argv[1])
	# With the libraries of the host, whatever a test runner has put before them.
	plain = {key: value for key, value in os.environ.items()
		 if key not in ("LD_LIBRARY_PATH", "VERBS_DOUBLE_DIR")}
	scenes = [(scene, plain) for scene in SCENES]
	folder = None
	if len(sys.argv) > 2:
		folder, env = double_host(sys.argv[2])
		scenes.append((MEMLOCK, env))
	tap = Tap()
	reason = obstacle(build)
	for (name, setting, wanted, unwanted), env in scenes:
		if reason:
			tap.skip(name, reason)
			continue
		result, problems = run_scene(build, setting, env)
		if result:
			for line in result["log"]:
				tap.diag(line)
			problems = check_scene(result, wanted, unwanted)
		tap.result(name, problems)
	if folder:
		shutil.rmtree(folder, ignore_errors=True)
	tap.end()


main()
