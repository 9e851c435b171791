# SPDX-License-Identifier: MIT
"""`shunt probe` as its users meet it, on the verbs double: table, JSON, exit statuses, what it says
when something is missing, and what it keeps.

usage: probe_tool.py SHUNT
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from probe_host import Host
from tap import Tap

OK, NOT_FOUND, USAGE, FAILED = 0, 1, 2, 4


def wrong(done, status, *words):
	"""Problems of a finished call: its exit status, and words that its output must hold."""
	if done.returncode != status:
		yield f"exit status {done.returncode}, not {status}: {done.stdout}{done.stderr}"
	for word in words:
		if word not in done.stdout + done.stderr:
			yield f"no \"{word}\" in: {done.stdout}{done.stderr}"


def steps_are_shown(host):
	host.devices(("rxe0", "rxe", "active", ""))
	yield from wrong(host.run(), OK, "rxe0: RoCE", "depth 256, 1 piece, 256 bytes inline", "STEP",
			 "base           0        16  created", "whole        256       256  created",
			 "verify       256       256  arrived", "result: 256 bytes inline.",
			 "2 queue pairs tried")


def refusals_are_shown(host):
	host.devices(("bnxt0", "bnxt-static", "active", ""), ("c0", "mlx5-cx4lx", "active", "wqebb=1024"))
	yield from wrong(host.run(), OK, "refused: errno untouched", "result: 96 bytes inline",
			 "refused: ENOSPC", "result: 60 bytes inline")


def packets_may_be_smaller(host):
	"""hns takes inline messages of one packet only."""
	host.devices(("hns0", "hns-hip09", "active mtu=512", ""))
	yield from wrong(host.run("--ask", "1024"), OK, "whole       1024      1024  created",
			 "result: 512 bytes inline.", "up to the packet size of the path")


def several_devices_keep_their_own(host):
	host.devices(("a", "rxe", "active", ""), ("b", "qedr-old", "active", ""),
		     ("c", "efa", "active", ""), ("d", "pvrdma", "active", ""))
	done = host.run("--json")
	yield from wrong(done, OK)
	found = {each["name"]: each["probe"] for each in json.loads(done.stdout)["devices"]}
	want = {"a": (256, "usable_asked"), "b": (128, "usable"), "c": (0, "no_rc"),
		"d": (0, "not_granted")}
	if {name: (probe["used"], probe["reason"]) for name, probe in found.items()} != want:
		yield f"found {found}"


def one_device(host):
	host.devices(("a", "rxe", "active", ""), ("b", "qedr-old", "active", ""))
	done = host.run("--device", "b", "--ask", "1024", "--json")
	yield from wrong(done, OK)
	devices = json.loads(done.stdout)["devices"]
	if [each["name"] for each in devices] != ["b"] or devices[0]["probe"]["asked"] != 1024:
		yield f"found {devices}"
	yield from wrong(host.run("--device", "x"), NOT_FOUND, 'no RDMA device "x"', "  a\n", "  b\n")


def json_tells_all(host):
	host.devices(("m", "mlx5", "active", "guid=0011223344556677 fw=1.2.3"))
	done = host.run("--json", "--frontier")
	yield from wrong(done, OK)
	device = json.loads(done.stdout)["devices"][0]
	probe = device["probe"]
	for key, value in (("transport", "RoCE"), ("guid", "0011223344556677"), ("firmware", "1.2.3"),
			   ("vendor_id", 0x02c9), ("driver", "mlx5_core")):
		if device[key] != value:
			yield f"{key} is {device[key]}, not {value}"
	for key, value in (("depth", 256), ("asked", 256), ("cap", 236), ("floor", 32), ("granted", 252),
			   ("verified", 236), ("used", 236), ("reason", "usable_capped"), ("error", None),
			   ("creations", 2), ("cached", False), ("port", 1)):
		if probe[key] != value:
			yield f"{key} is {probe[key]}, not {value}"
	if [step["step"] for step in probe["steps"]] != ["base", "whole", "verify"]:
		yield f"steps: {probe['steps']}"
	if [(point["inline_bytes"], point["send_wr"]) for point in probe["frontier"]] != [
			(0, 8192), (64, 4096), (128, 4096), (236, 4096)]:
		yield f"frontier: {probe['frontier']}"


def settings_count(host):
	host.devices(("m", "mlx5", "active", ""), ("rxe0", "rxe", "active", ""))
	host.settings('rdma_depth = 8192;\ninline_floor = 64;\n'
		      'devices = ( { name = "rxe*"; use = "no"; } );\n')
	done = host.run()
	yield from wrong(done, OK, "depth 8192", "The settings say not to use this device.",
			 "less inline than a control message needs")
	host.settings('devices = (\n { name = "rxe*"; usage = "no"; } );\n')
	yield from wrong(host.run(), FAILED, f"{host.conf}:2: unknown key usage of a device")


def what_is_missing_is_told(host):
	host.devices()
	yield from wrong(host.run(), NOT_FOUND, "no RDMA device here")
	host.devices(("rxe0", "rxe", "active", "open=EACCES"))
	yield from wrong(host.run(), FAILED, "rxe0: can't be opened: Permission denied",
			 "/dev/infiniband/uverbs*")
	host.devices(("m", "mlx5", "active", "memlock=65536"))
	yield from wrong(host.run(), FAILED, "Cannot allocate memory")
	host.devices(("m", "mlx5", "active", "max_qp_wr=100"))
	yield from wrong(host.run(), FAILED, "at most 100 entries: set rdma_depth")
	host.devices(("m", "mlx5", "down", ""))
	yield from wrong(host.run(), FAILED, "port 1 is down", "Bring a port of m up")


def results_are_kept(host):
	host.devices(("rxe0", "rxe", "active", ""))
	host.run("--no-cache")
	if host.kept():
		yield f"kept with --no-cache: {host.kept()}"
	host.run()
	kept = list(host.kept().values())
	if len(kept) != 1 or kept[0]["used"] != 256:
		yield f"kept: {kept}"
	# The same device, and it has become less.
	host.devices(("rxe0", "rxe", "active", "inline=100"))
	yield from wrong(host.run(), OK, "result: 100 bytes", "the kept result was 256 bytes")
	kept = list(host.kept().values())
	if len(kept) != 1 or kept[0]["used"] != 100:
		yield f"kept: {kept}"
	# What the path decided is no result, and what was known is no longer.
	host.devices(("rxe0", "rxe", "down", ""))
	host.run()
	if host.kept():
		yield f"kept: {host.kept()}"


def a_damaged_file_is_told(host):
	host.devices(("rxe0", "rxe", "active", ""))
	os.makedirs(host.cache)
	with open(os.path.join(host.cache, "probe.json"), "w", encoding="utf-8") as file:
		file.write("{ oops")
	yield from wrong(host.run(), OK, "probe.json: line 1", "it is replaced")
	if len(host.kept()) != 1:
		yield f"kept: {host.kept()}"


def wrong_calls_are_told(host):
	for args in (("--ask", "0"), ("--ask", "x"), ("--ask", "65536"), ("--ask",), ("--loud",), ("more",)):
		yield from wrong(host.run(*args), USAGE, "Try: shunt probe --help")
	yield from wrong(host.run("--help"), OK, "--no-cache", "Exit status")


def main():
	tap = Tap()
	for test in (steps_are_shown, refusals_are_shown, packets_may_be_smaller,
		     several_devices_keep_their_own, one_device, json_tells_all, settings_count,
		     what_is_missing_is_told, results_are_kept, a_damaged_file_is_told,
		     wrong_calls_are_told):
		host = Host(sys.argv[1])
		try:
			tap.result(test.__name__, list(test(host)))
		finally:
			host.close()
	tap.end()


main()
