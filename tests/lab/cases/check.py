#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""shunt check on the real drivers: a good host passes, and each damage is named, with its remedy."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.environ["LAB"])
from kit import NOBODY, Daemon, Failure, Tap, has_siw, must, need_rdma

PORT = 17611


def check(daemon, *args):
	"""Exit status and lines."""
	done = daemon.run_tool("check", "--json", *args)
	try:
		return done.returncode, json.loads(done.stdout)["checks"]
	except json.JSONDecodeError:
		raise Failure(f"status {done.returncode}: {done.stdout}{done.stderr}") from None


def names(result, verdict, name, found, remedy):
	status, lines = result
	own = [line for line in lines if line["check"] == name]
	if not any(line["verdict"] == verdict and found in line["subject"] + ": " + line["found"] and
		   remedy in line["remedy"] for line in own):
		yield f"{name} does not {verdict} with \"{found}\" and \"{remedy}\": {own}"
	if (verdict == "fail") != (status == 1):
		yield f"exit status {status}"


def without_a_device():
	with Daemon() as daemon:
		yield from names(check(daemon), "warn", "rdma", "no RDMA device here", "modprobe rdma_rxe")


def good(device, found):
	with Daemon() as daemon:
		daemon.ready(device)
		status, lines = check(daemon)
		bad = [line for line in lines if line["verdict"] == "fail"]
		if status or bad:
			yield f"status {status}: {bad}"
		yield from names((status, lines), "pass", "rdma", f"{device} port 1: {found}", "")
		for line in lines:
			print(f"# {line['verdict']} {line['check']} {line['subject']}: {line['found']}", flush=True)


def port_down():
	with Daemon() as daemon:
		daemon.ready("rxe_va")
		must("ip link set va down")
		try:
			yield from names(check(daemon), "fail", "rdma", "rxe_va port 1: is down", "ip link set va up")
		finally:
			must("veth_up va 10.77.0.1 10.77.0.2 && within 5 active rxe_va")


def user_without(*damage, limits=("--memlock=unlimited",)):
	"""What the check of a user says, whose daemon runs; @damage: verdict, name, found, remedy."""
	with Daemon(user=NOBODY, limits=limits) as daemon:
		yield from names(check(daemon), *damage)


def settings_and_keys():
	with Daemon() as daemon:
		key = os.path.join(daemon.dir, "key")
		with open(key, "w", encoding="ascii") as file:
			file.write("00" * 32)
		os.chmod(key, 0o644)
		daemon.configure(peer_key=key, peer_port=PORT)
		yield from names(check(daemon), "fail", "keys", "mode 0644", f"chmod 0600 {key}")
		os.chmod(key, 0o600)
		yield from names(check(daemon, "--peer", "127.0.0.1"), "fail", "peers", "refused", f"peer_port = {PORT}")
		with open(daemon.env["SHUNT_CONF"], "w", encoding="ascii") as conf:
			conf.write("spin_us = \"x\";\n")
		yield from names(check(daemon), "fail", "settings", ":1: spin_us", "--check-config")


def dead_daemon():
	with Daemon() as daemon:
		daemon.kill()
		yield from names(check(daemon), "fail", "daemon", "nobody behind it", "systemctl restart shuntd")


def program_in_another_namespace():
	with Daemon() as daemon:
		process = subprocess.Popen(daemon.under(["unshare", "--net", "sleep", "60"]), env=daemon.env)
		try:
			must("sleep 2")
			yield from names(check(daemon, "--pid", process.pid), "fail", "program", "network namespace",
					 "nsenter")
		finally:
			process.kill()
			process.wait()


def guarded(problems):
	try:
		yield from problems
	except Failure as failure:
		yield str(failure)


def main():
	need_rdma()
	tap = Tap()
	tap.result("no_device_is_a_warning", guarded(without_a_device()))
	must("veth va vb 10.77.0.1 10.77.0.2 && rxe va && within 5 active rxe_va")
	tap.result("good_rxe", guarded(good("rxe_va", "RoCE v2 10.77.0.1 on va")))
	tap.result("port_down", guarded(port_down()))
	tap.result("memlock_64_KiB", guarded(user_without("fail", "memlock", "only 64K", "LimitMEMLOCK=infinity",
							    limits=("--memlock=65536",))))
	must("chmod 600 /dev/infiniband/uverbs0")
	tap.result("device_file_closed", guarded(user_without("fail", "nodes", "/dev/infiniband/uverbs0: closed to",
							      "chmod 666 /dev/infiniband/uverbs0")))
	must("chmod 666 /dev/infiniband/uverbs0; mkdir -p /run/empty; "
	     "mount --bind /run/empty /usr/lib/x86_64-linux-gnu/libibverbs")
	tap.result("no_provider", guarded(user_without("fail", "rdma", "no provider library", "ibverbs-providers")))
	must("umount /usr/lib/x86_64-linux-gnu/libibverbs")
	tap.result("settings_keys_and_peer", guarded(settings_and_keys()))
	tap.result("dead_daemon", guarded(dead_daemon()))
	tap.result("program_in_another_namespace", guarded(program_in_another_namespace()))
	must("rdma link del rxe_va")
	if has_siw():
		must("siw va && within 5 active siw_va")
		tap.result("good_siw", guarded(good("siw_va", "iWARP 10.77.0.1 on va")))
		must("rdma link del siw_va")
	else:
		tap.skip("good_siw", "no siw module could be built")
	must("veth_del va vb")
	tap.end()


main()
