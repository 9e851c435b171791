#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Benchmarks of Shunt on one host.

usage: bench.py [--build DIR] [--quick] [--cpus A,B|none] [--json FILE] NAME...

Every figure is taken in turns with the same programs over plain TCP, in rounds; told are medians,
the median of the rounds' ratios with its 95 % bootstrap interval, and the same of TCP against
itself (control). That the connections of Shunt were on the ring (or, where they live too briefly,
were not) is checked by the daemon's counters each time, and is an error if it is not so. A slow
figure is no error.
"""
import argparse
import json
import os
import sys
import time

from apps import bench_iperf, bench_redis
from facts import host_facts, print_facts
from idle import bench_idle
from micro import bench_native, bench_qperf, bench_targets
from pairs import print_table
from programs import Failure, Missing, Private
from short import bench_connloop, bench_nginx, bench_short

BENCHMARKS = {
	"qperf": bench_qperf,
	"targets": bench_targets,
	"native": bench_native,
	"redis": bench_redis,
	"iperf": bench_iperf,
	"short": bench_short,
	"connloop": bench_connloop,
	"nginx": bench_nginx,
	"idle": bench_idle,
}
# What "all" runs: "short" holds two of the others.
ALL = ("targets", "qperf", "native", "redis", "iperf", "short", "idle")


class Bench:
	"""What a benchmark is given: how long to measure, and where to put its results."""

	def __init__(self, build, quick=False, cpus=None, smoke=False):
		self.build = build
		self.quick = quick or smoke
		self.smoke = smoke
		self.cpus = cpus
		self.results = []
		self.facts = {}
		self.shorter = 5 if self.quick else 1

	def rounds(self, usual):
		return 1 if self.smoke else min(usual, 3) if self.quick else usual

	def ms(self, usual):
		return 50 if self.smoke else usual

	def some(self, items):
		"""All items, or the first only when it is but to be seen whether it works."""
		return items[:1] if self.smoke else items

	def progress(self, name):
		begin = time.monotonic()

		def show(text):
			if not self.smoke:
				print(f"\r{name}: {text}, {time.monotonic() - begin:.0f} s   ", end="",
				      file=sys.stderr, flush=True)
		return show

	def add(self, result):
		self.results.append(result)

	def add_facts(self, name, facts):
		self.facts[name] = facts

	def json(self):
		return {"results": [r.json() for r in self.results], **self.facts}


def default_build():
	return os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build")


def parse_cpus(text):
	if text == "none" or (text is None and len(os.sched_getaffinity(0)) < 2):
		return None
	if text is None:
		return sorted(os.sched_getaffinity(0))[:2]
	return [int(part) for part in text.split(",")]


def print_facts_of(name, facts):
	print(f"\n{name}:")
	for key, value in facts.items():
		print(f"  {key.replace('_', ' '):36} {value}")


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
	parser.add_argument("names", nargs="+", metavar="NAME", choices=[*BENCHMARKS, "all"],
			    help="\n".join(f"{k:9} {f.__doc__}" for k, f in BENCHMARKS.items())
			    + "\nall       " + ", ".join(ALL))
	parser.add_argument("--build", default=default_build(), help="build tree (build/)")
	parser.add_argument("--quick", action="store_true", help="few rounds: a first impression")
	parser.add_argument("--cpus", help="pin the two sides to CPUs A and B (the first two), or none")
	parser.add_argument("--json", metavar="FILE", help="write everything there too; - is standard output")
	args = parser.parse_args()
	names = [n for name in args.names for n in (ALL if name == "all" else (name,))]
	bench = Bench(args.build, args.quick, parse_cpus(args.cpus))
	with Private(args.build) as private:
		facts = host_facts(args.build, private)
	facts["sides pinned to"] = f"CPUs {bench.cpus[0]} and {bench.cpus[1]}" if bench.cpus else "none"
	if args.json != "-":
		print_facts(facts)
	failed = 0
	for name in names:
		before = len(bench.results)
		try:
			BENCHMARKS[name](bench)
		except Missing as missing:
			print(f"{name}: SKIPPED: {missing}", file=sys.stderr)
		except (Failure, RuntimeError) as failure:
			failed = 1
			print(f"\n{name}: FAILED: {failure}", file=sys.stderr)
		print(file=sys.stderr)
		if args.json != "-":
			print_table(bench.results[before:])
			if name in bench.facts:
				print_facts_of(name, bench.facts[name])
			print(flush=True)
	if args.json:
		out = sys.stdout if args.json == "-" else open(args.json, "w", encoding="utf-8")
		json.dump({"host": facts, "load average after": os.getloadavg(), **bench.json()}, out, indent=1)
		out.write("\n")
	return failed


if __name__ == "__main__":
	sys.exit(main())
