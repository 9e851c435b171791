# SPDX-License-Identifier: MIT
"""Programs that others wrote for real devices, unmodified, on the verbs double.

usage: verbs_tools.py FOLDER_OF_THE_LIBRARIES
"""
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from tap import Tap
import verbs_host
from verbs_host import Host

LIBRARIES = sys.argv[1]


def client_and_server(host, server, client, peer=None):
	"""Problems of running both; the client may come too early, and is tried again."""
	first = host.start(server, LIBRARIES, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
	try:
		for _ in range(50):
			time.sleep(0.1)
			second = (peer or host).run(client, LIBRARIES)
			if second.returncode == 0 or first.poll() is not None:
				break
		output, _ = first.communicate(timeout=30)
	finally:
		first.kill()
	if second.returncode:
		yield f"{client[0]} ended with {second.returncode}: {second.stdout}{second.stderr}"
	if first.returncode:
		yield f"{server[0]} as server ended with {first.returncode}: {output}"


def devinfo():
	with Host() as host:
		host.add("mlx5_0", "mlx5-ib", "10.77.0.1")
		host.add("siw0", "siw", "10.77.0.2")
		done = host.run(["ibv_devinfo", "-v"], LIBRARIES)
		for wanted in ("hca_id:\tmlx5_0", "hca_id:\tsiw0", "PORT_ACTIVE", "iWARP",
			       "InfiniBand", "28.41.1000"):
			if wanted not in done.stdout:
				yield f"no {wanted!r} in {done.stdout}{done.stderr}"


def pingpong():
	for personality in ("rxe", "mlx5-ib"):
		with Host() as host, Host(host) as peer:
			host.add("a", personality, "10.77.0.1")
			peer.add("b", personality, "10.77.0.2")
			common = ["-n", "100", "-p", "18517"] + (["-g", "3"] if personality == "rxe" else [])
			yield from client_and_server(host, ["ibv_rc_pingpong", "-d", "a", *common],
						     ["ibv_rc_pingpong", "-d", "b", *common, "127.0.0.1"],
						     peer)


def rping():
	for personality in ("rxe", "mlx5-ib", "siw"):
		with Host() as host, Host(host) as peer:
			host.add("a", personality, "10.77.0.1")
			peer.add("b", personality, "10.77.0.2")
			common = ["-a", "10.77.0.1", "-C", "20", "-V"]
			yield from client_and_server(host, ["rping", "-s", *common], ["rping", "-c", *common],
						     peer)


def perftest():
	with Host() as host:
		host.add("a", "rxe", "10.77.0.1")
		for program in ("ib_send_lat", "ib_write_bw"):
			command = [program, "-d", "a", "-x", "3", "-n", "200", "-p", "18518"]
			yield from client_and_server(host, command, command + ["127.0.0.1"])


def networks():
	"""The helper for Python has the personalities' networks as well; they must be the same."""
	table = os.path.join(os.path.dirname(verbs_host.__file__), "verbs", "personality.c")
	with open(table, encoding="utf-8") as file:
		rows = re.findall(r'\{"([a-z0-9-]+)",\s*"\w+",\s*(NET_\w+)', file.read())
	known = {"NET_IB": verbs_host.IB, "NET_IWARP": verbs_host.IWARP, "NET_OTHER": verbs_host.OTHER}
	for net, names in known.items():
		table_names = {name for name, row_net in rows if row_net == net}
		if table_names != names or not names:
			yield f"{net}: {sorted(table_names)} in the table, {sorted(names)} in verbs_host.py"


CASES = (
	("ibv_devinfo", "ibverbs-utils", devinfo),
	("ibv_rc_pingpong", "ibverbs-utils", pingpong),
	("rping", "rdmacm-utils", rping),
	("ib_send_lat", "perftest", perftest),
)


def main():
	tap = Tap()
	tap.result("networks_of_the_helper", networks())
	for program, package, case in CASES:
		if shutil.which(program):
			tap.result(program, case())
		else:
			tap.skip(program, f"no {program} here (package {package})")
	tap.end()


main()
