#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""In the guest, for bench.py: what $LAB_BENCH asks for is measured in rounds, and the samples are
written to the shared folder. Whether each way went where it should is a result; how fast is none.

The guest ends with it: nothing is taken down. (SMC's link groups outlive their connections by ten
minutes, and the guest does not survive that their device goes.)"""
import json
import os
import sys

sys.path.insert(0, os.environ["LAB"])
sys.path.insert(0, os.path.join(os.environ["LAB"], "..", "bench"))
from forms import AS_IT_IS, LIMITS, measured, open_all, prove
from hosts import RDMA_ENDS, Hosts
from kit import Failure, Tap, need_rdma, shell
from pairs import rounds
from ways import RSOCKETS, Rsockets, Shunt, Smc, Way, counted

OUTPUT = "/run/lab/figures.json"
# The link's packets take 4 KiB.
MTU = 4300


def progress(text):
	print("# " + text, flush=True)


def open_ways(tap, hosts, spin_us):
	"""Those that there are, Shunt first, by name."""
	makers = [lambda: Shunt(hosts), lambda: Way("TCP"), lambda: Rsockets(spin_us), Smc]
	names = ["Shunt", "TCP", "rsockets", "SMC-R"]
	found = {}
	for name, make in zip(names, makers):
		if name == "rsockets" and not os.path.exists(RSOCKETS):
			tap.skip(name, "no " + RSOCKETS)
		elif name == "SMC-R" and shell("modprobe smc").returncode:
			tap.skip(name, "the kernel has no module smc")
		else:
			found[name] = make().open()
			progress(f"{name} is connected")
	return found


def peers(tap, order):
	"""Shunt beside what else there is on the same device."""
	hosts = Hosts(order["kind"], mtu=MTU, spin_us=order["spin_us"]).__enter__()
	hosts.link()
	ways = open_ways(tap, hosts, order["spin_us"])
	devices = [f"{order['kind']}_{end}" for end in RDMA_ENDS]
	figures = []
	for task, sizes in order["tasks"].items():
		for size in sizes:
			ms = order["ms"][task]
			samples = rounds({name: lambda way=way: way.ask(task, size, ms)
					  for name, way in ways.items()}, order["rounds"])
			figures.append({"task": task, "size": size, "samples": samples})
			progress(f"{task} {size}")
	costs = {name: counted(way, devices) for name, way in ways.items()}
	sent = measured(ways["Shunt"], 64, order["ms"]["lat"])
	costs["Shunt"]["work requests"] = sent["wrs"] / sent["asked"]
	for name, way in ways.items():
		tap.result(f"{name} measured", way.finish())
	return {"figures": figures, "costs": costs}


def inline(tap, order):
	"""Shunt with the inline data that the device has, beside each limit of it."""
	limits = [None, *LIMITS[order["kind"]]]
	ways = open_all(order["kind"], limits, mtu=MTU, spin_us=order["spin_us"])
	progress(f"{len(ways)} lanes")
	figures = []
	for task, sizes in order["tasks"].items():
		for size in sizes:
			samples = rounds({way.name: lambda way=way: way.ask(task, size, order["ms"][task])
					  for way in ways.values()}, order["rounds"])
			figures.append({"task": task, "size": size, "samples": samples})
			progress(f"{task} {size}")
	sent = {way.name: {size: measured(way, size) for size in order["tasks"]["lat"]}
		for way in ways.values()}
	for limit in limits:
		prove(tap, ways[limit], AS_IT_IS[order["kind"]] if limit is None else limit)
	for way in ways.values():
		tap.result(f"{order['kind']}, {way.name}: all went over the lane", way.finish())
	return {"figures": figures, "sent": sent}


def main():
	need_rdma()
	order = json.loads(os.environ["LAB_BENCH"])
	tap = Tap()
	try:
		found = {"peers": peers, "inline": inline}[order["what"]](tap, order)
		with open(OUTPUT, "w", encoding="utf-8") as file:
			json.dump(found, file)
	except Failure as failure:
		tap.result("measured", [failure])
	tap.end()


main()
