#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`shunt probe` on the real drivers: it finds exactly the limits that cases/limits.sh shows to be there,
within its budget of queue pairs, and leaves none behind."""
import os
import sys

sys.path.insert(0, os.environ["LAB"])
from kit import Tap, ask, has_siw, must, narrowed, need_rdma, shell, tool

CREATIONS_MAX = {256: 10, 1024: 12}

# Device, limit of narrow.so, what to ask, bytes found, reason.
PROBES = (
	("rxe_va", None, 256, 256, "usable_asked"),
	("rxe_va", None, 1024, 512, "usable"),
	("rxe_va", 216, 256, 216, "usable"),
	("rxe_va", 216, 1024, 216, "usable"),
	("rxe_va", 101, 256, 101, "usable"),
	("rxe_va", 101, 1024, 101, "usable"),
	("rxe_va", 96, 256, 96, "usable"),
	("rxe_va", 48, 256, 48, "usable"),
	("rxe_va", 0, 256, 0, "not_granted"),
	("rxe_va", "ignored", 256, 0, "ignored"),
	("siw_vb", None, 256, 80, "usable"),
	("siw_vb", None, 1024, 80, "usable"),
	("siw_vb", 48, 256, 48, "usable"),
	("siw_vb", "ignored", 256, 0, "ignored"),
)


def probe(device, inline, wanted, used, reason):
	"""Problems of one probe, without what is kept of earlier ones."""
	answer, said = ask("probe", "--no-cache", "--device", device, "--ask", wanted,
			   env=narrowed(inline))
	if not answer or len(answer["devices"]) != 1:
		yield f"no answer: {said}"
		return
	found = answer["devices"][0]["probe"]
	if (found["used"], found["reason"]) != (used, reason):
		yield f"{found['used']} bytes, {found['reason']}; wanted {used}, {reason}: {found}"
	if used and (found["granted"], found["verified"], found["exact"]) != (used, used, True):
		yield f"not granted, verified and exact: {found}"
	if found["creations"] > CREATIONS_MAX[wanted]:
		yield f"{found['creations']} queue pairs tried: {found['steps']}"


def resources():
	"""Queue pairs, completion queues, domains and regions of the host, less the kernel's own."""
	return shell("rdma res show qp; rdma res show cq; rdma res show pd; rdma res show mr").stdout


def as_text():
	done = tool("probe", "--no-cache", "--device", "rxe_va", "--ask", 1024)
	if done.returncode or "512 bytes inline" not in done.stdout:
		yield f"status {done.returncode}: {done.stdout}{done.stderr}"


def while_down():
	"""A port that is down proves nothing about inline; that is an error, and not remembered."""
	must("ip link set va down; sleep 0.5")
	answer, said = ask("probe", "--device", "rxe_va")
	if not answer or answer["devices"][0]["probe"]["reason"] != "unverified":
		yield f"down: {answer} {said}"
	must("veth_up va 10.77.0.1 10.77.0.2; within 5 active rxe_va")
	answer, said = ask("probe", "--device", "rxe_va")
	if not answer or answer["devices"][0]["probe"]["used"] != 256:
		yield f"up again: {answer} {said}"


def main():
	need_rdma()
	tap = Tap()
	os.environ.update(SHUNT_CONF=os.devnull, SHUNT_CACHE_DIR="/var/tmp/probe")
	siw = has_siw()
	must("veth va vb 10.77.0.1 10.77.0.2 && rxe va && within 5 active rxe_va")
	if siw:
		must("siw vb && within 5 active siw_vb")
	before = resources()
	tap.result("resources_can_be_seen", [] if "rxe_va" in before else [before])
	for device, inline, wanted, used, reason in PROBES:
		name = f"{device[:3]}_{'as_it_is' if inline is None else inline}_ask_{wanted}"
		if device.startswith("siw") and not siw:
			tap.skip(name, "no siw module could be built")
			continue
		tap.result(name, probe(device, inline, wanted, used, reason))
	tap.result("as_text", as_text())
	tap.result("while_down", while_down())
	left = resources()
	tap.result("nothing_left", [] if left == before else [f"before:\n{before}\nnow:\n{left}"])
	must("rdma link del rxe_va")
	if siw:
		must("rdma link del siw_vb")
	must("veth_del va vb")
	tap.end()


main()
