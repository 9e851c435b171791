#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The daemon on the real drivers: each device is probed, verified and pooled by what it can do, and
when one is removed the kernel gets it back at once, while the daemon and the other device live on."""
import os
import sys
import time

sys.path.insert(0, os.environ["LAB"])
from kit import Daemon, Failure, Tap, has_siw, must, need_rdma, pools, queue_pairs, shell, until

DEL_MAX_S = 5
# Of the heap: what a malloc keeps in hand.
HEAP_SLACK_KB = 1024
# From the arrival of a device to its removal, seconds; None: it is ready. Probing takes about 0.1, the
# pool and the rest as long again.
PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4, None, 0.8)

# Limit of narrow.so, what to ask, bytes used on rxe, reason.
NARROWED = (
	(None, 1024, 512, "usable"),
	(216, 256, 216, "usable"),
	(101, 256, 101, "usable"),
	(96, 256, 96, "usable"),
	(48, 256, 48, "usable"),
	(0, 256, 0, "not_granted"),
	("ignored", 256, 0, "ignored"),
)


def expect(device, used, reason):
	"""Problems of a ready device: what it may post inline, and a pool that fits."""
	probe = device["probe"]
	if (probe["used"], probe["reason"]) != (used, reason):
		yield f"{probe['used']} bytes, {probe['reason']}; wanted {used}, {reason}: {probe}"
	if used and (probe["granted"], probe["verified"]) != (used, used):
		yield f"not granted and verified: {probe}"
	for pool in pools(device):
		if pool["ready"] < 2 or pool["created"] != pool["ready"] or pool["failed"]:
			yield f"pool: {pool}"


def in_kernel(daemon, device):
	"""The queue pairs that the daemon says it has are those that the kernel knows."""
	found = queue_pairs(daemon.daemon.pid, device["device"])
	if len(found) != device["qps"]["in_use"]:
		yield f"{device['device']}: queue pairs {found}, not {device['qps']['in_use']} of them"


def narrowed(inline, wanted, used, reason):
	"""One device behind narrow.so and nothing kept of earlier probes."""
	with Daemon(inline, inline_ask=wanted) as daemon:
		device = daemon.ready("rxe_va")["rxe_va"]
		yield from expect(device, used, reason)
		yield from in_kernel(daemon, device)


def together():
	"""Two devices with different limits, in one daemon."""
	with Daemon() as daemon:
		found = daemon.ready("rxe_va", "siw_vb")
		yield from expect(found["rxe_va"], 256, "usable_asked")
		yield from expect(found["siw_vb"], 80, "usable")
		for device in found.values():
			yield from in_kernel(daemon, device)


def warm_start():
	"""What was found is found again without a trial: only the pool's own queue pairs are made, which
	shows in their numbers, since rxe counts on."""
	with Daemon() as daemon:
		until(lambda: daemon.ready("rxe_va")["rxe_va"]["probe"]["frontier"], 20, "the frontier")
		numbers = []
		for _ in range(2):
			daemon.stop()
			daemon.start()
			device = daemon.ready("rxe_va")["rxe_va"]
			yield from expect(device, 256, "usable_asked")
			if not device["probe"]["cached"]:
				yield f"probed again: {device['probe']}"
			numbers += queue_pairs(daemon.daemon.pid, "rxe_va")
		if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
			yield f"numbers of queue pairs are not in a row: {numbers}"


def remove(name):
	"""`rdma link del`. Yields if it takes too long."""
	begun = time.monotonic()
	done = shell(f"rdma link del {name}", seconds=20)
	took = time.monotonic() - begun
	print(f"# rdma link del {name}: {took:.2f} s")
	if done.returncode or took > DEL_MAX_S:
		yield f"rdma link del {name}: status {done.returncode} after {took:.1f} s: {done.stdout}"


def removal(daemon, pause_s):
	"""Add rxe_va beside the other device, remove it @pause_s after the daemon has seen it, or when it
	is ready (None), and look at what the daemon is left with."""
	must("rxe va")
	if pause_s is None:
		daemon.ready("rxe_va")
	else:
		time.sleep(pause_s)
	yield from remove("rxe_va")
	daemon.gone("rxe_va")
	if daemon.daemon.poll() is not None:
		yield f"the daemon has ended: {daemon.log_text()[-2000:]}"


def removals(other):
	"""In every stage of its life, with @other beside it, which notices nothing."""
	with Daemon() as daemon:
		daemon.ready(other)
		# Once before counting: what is made at first need stays.
		yield from removal(daemon, None)
		pid = daemon.daemon.pid
		before = daemon.ready(other)[other]
		descriptors, pinned = daemon.descriptors(), daemon.memory_kb("VmPin")
		heap = daemon.memory_kb("VmData")
		for pause_s in PAUSES:
			yield from removal(daemon, pause_s)
		after = daemon.ready(other)[other]
		print(f"# {len(descriptors)} descriptors, {pinned} KiB pinned, {heap} KiB of data before, "
		      f"{len(daemon.descriptors())}, {daemon.memory_kb('VmPin')}, "
		      f"{daemon.memory_kb('VmData')} after {len(PAUSES)} removals")
		if daemon.descriptors() != descriptors:
			yield f"descriptors before: {descriptors}\nafter: {daemon.descriptors()}"
		if daemon.memory_kb("VmPin") != pinned:
			yield f"pinned memory: {pinned} KiB before, {daemon.memory_kb('VmPin')} after"
		if daemon.memory_kb("VmData") > heap + HEAP_SLACK_KB:
			yield f"memory: {heap} KiB before, {daemon.memory_kb('VmData')} after"
		if after["qps"] != before["qps"] or pools(after) != pools(before):
			yield f"{other} before: {before}\nafter: {after}"
		yield from in_kernel(daemon, after)
		if daemon.daemon.pid != pid:
			yield "it is another daemon"


def the_last():
	"""The last device of the host goes, and comes back."""
	with Daemon() as daemon:
		for _ in range(3):
			daemon.ready("rxe_va")
			yield from remove("rxe_va")
			daemon.gone("rxe_va")
			must("rxe va && within 5 active rxe_va")
		device = daemon.ready("rxe_va")["rxe_va"]
		yield from expect(device, 256, "usable_asked")
		yield from in_kernel(daemon, device)


def guarded(problems):
	"""A wait that was in vain is a problem as well."""
	try:
		yield from problems
	except Failure as failure:
		yield str(failure)


def main():
	need_rdma()
	tap = Tap()
	siw = has_siw()
	must("veth va vb 10.77.0.1 10.77.0.2 && rxe va && within 5 active rxe_va")
	for inline, wanted, used, reason in NARROWED:
		name = f"rxe_{'as_it_is' if inline is None else inline}_ask_{wanted}"
		tap.result(name, guarded(narrowed(inline, wanted, used, reason)))
	tap.result("warm_start", guarded(warm_start()))
	tap.result("the_last_goes", guarded(the_last()))
	other = "siw_vb" if siw else "rxe_vb"
	must(("siw" if siw else "rxe") + f" vb && within 5 active {other}")
	if siw:
		tap.result("rxe_and_siw", guarded(together()))
	else:
		tap.skip("rxe_and_siw", "no siw module could be built")
	must("rdma link del rxe_va")
	tap.result("removals", guarded(removals(other)))
	must(f"rdma link del {other}; veth_del va vb")
	tap.end()


main()
