#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Benchmarks between hosts, in the lab's guest: real soft-RDMA drivers, in emulation.

usage: bench.py BUILD [--quick] [--rounds N] [--cpus N] [--kind rxe|siw] [--spin-us N] [--json FILE] NAME

	peers	Shunt beside the kernel's SMC-R, rsockets and plain TCP, over the same device
	inline	Shunt with all inline data that the device has, beside each lower limit and none:
		that bytes are right, and what form they take, is proved on the way

Every figure is taken in rounds, one way after the other; told are medians, the median of the rounds'
ratios with its 95 % bootstrap interval, and the same of Shunt against itself (control). All sides
spin for so long, by default not at all: with one CPU, who spins keeps from running whom it waits for.
"""
import argparse
import json
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(0, os.path.join(HERE, "..", "bench"))
from cases import Case
from debian import Unavailable
from lab import Lab
from pairs import Result, interval, print_table

SIZES = [1 << i for i in range(12)]
# Emulated, all of it takes so long at most.
LIMIT_S = 1500
# Of each sample. There are more lanes beside each other in inline.
MS = {("peers", True): {"lat": 60, "bw": 100}, ("peers", False): {"lat": 150, "bw": 300},
      ("inline", True): {"lat": 40, "bw": 60}, ("inline", False): {"lat": 60, "bw": 100}}


def order_of(args):
	return {"what": args.name, "kind": args.kind, "spin_us": args.spin_us,
		"rounds": args.rounds or (3 if args.quick else 11),
		"ms": MS[args.name, args.quick],
		"tasks": {"lat": [1, 64, 2048] if args.quick else SIZES, "bw": [64, 65536]}}


def one_result(figure, first, second):
	"""A line of the table: how much better @second is than @first."""
	samples = {name: figure["samples"][name] for name in (first, second)}
	samples["control"] = figure["samples"]["control"]
	if figure["task"] == "lat":
		return Result(f"latency {figure['size']}", samples, "ns", "us", "lower", None, 1e-3, second)
	return Result(f"bandwidth {figure['size']}", samples, "bytes_per_s", "MB/s", "higher", None, 1e-6,
		      second)


def peers_show(found):
	results = []
	for peer in [name for name in found["figures"][0]["samples"] if name not in ("Shunt", "control")]:
		some = [one_result(figure, peer, "Shunt") for figure in found["figures"]]
		print_table(some)
		print()
		results += some
	for name, costs in found["costs"].items():
		print(f"{name}, per 64 B message: {costs['context switches']:.2f} context switches, "
		      f"{costs['packets']:.2f} packets, {costs['system calls']:.2f} system calls"
		      + (f", {costs['posts']:.2f} posts" if costs["posts"] is not None else ""))
		for kind in ("calls", "switched"):
			print(f"  {kind}: " + ", ".join(f"{key} {count:.2f}"
							for key, count in sorted(costs[kind].items())))
	print(f"work requests per 64 B message: {found['costs']['Shunt']['work requests']:.2f}")
	return [result.json() for result in results]


def difference(samples, over, under, key, scale):
	"""That of the paired samples: median and 95 % interval."""
	differences = [(a[key] - b[key]) * scale for a, b in zip(samples[over], samples[under])]
	return [statistics.median(differences), *interval(differences)]


def inline_show(found):
	results = []
	names = [name for name in found["figures"][0]["samples"] if name != "control"]
	for limited in names[1:]:
		some = [one_result(figure, limited, names[0]) for figure in found["figures"]]
		for figure, result in zip(found["figures"], some):
			key, scale = ("ns", 1e-3) if figure["task"] == "lat" else ("bytes_per_s", 1e-6)
			result.extra = {"difference": difference(figure["samples"], limited, names[0], key, scale),
					"control_difference": difference(figure["samples"], "control", names[0],
									 key, scale)}
		print_table(some)
		forms = ", ".join(f"{size}: {form} {sent[form]}" for size, sent in found["sent"][limited].items()
				  for form in ("eager", "write_inline", "by_reference") if sent[form])
		print(f"messages by size and form: {forms}\n")
		results += some
	return [result.json() for result in results]


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
	parser.add_argument("build")
	parser.add_argument("name", choices=["peers", "inline"])
	parser.add_argument("--quick", action="store_true", help="few rounds: a first impression")
	parser.add_argument("--rounds", type=int, help="how many (11, quick: 3)")
	parser.add_argument("--cpus", type=int, default=1, help="of the guest (1)")
	parser.add_argument("--kind", choices=["rxe", "siw"], default="rxe")
	parser.add_argument("--spin-us", type=int, default=0, help="longest spin, on all sides (0)")
	parser.add_argument("--json", metavar="FILE", help="write everything there too")
	args = parser.parse_args()
	order = order_of(args)
	lab = Lab(args.build, args.cpus, {"LAB_BENCH": json.dumps(order)})
	try:
		lab.run(lab.kernel(), [Case("bench", LIMIT_S, os.path.join(HERE, "measure.py"))])
	except (Unavailable, RuntimeError) as problem:
		sys.exit(f"bench.py: {problem}")
	path = os.path.join(lab.folder, "figures.json")
	if not os.path.exists(path):
		sys.exit("bench.py: not measured")
	with open(path, encoding="utf-8") as file:
		found = json.load(file)
	results = {"peers": peers_show, "inline": inline_show}[args.name](found)
	if args.json:
		with open(args.json, "w", encoding="utf-8") as file:
			json.dump({"order": order, "results": results, **found}, file, indent=1)
	if lab.tap.failed:
		sys.exit("bench.py: NOT measured as it should be, see above")


main()
