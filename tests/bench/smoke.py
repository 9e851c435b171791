# SPDX-License-Identifier: MIT
"""Whether the benchmarks work: each once, briefly, on whatever else runs here. How fast it was does
not matter; that it was on the ring does.

usage: smoke.py BUILD_DIR
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from bench import ALL, BENCHMARKS, Bench
from programs import Failure, Missing
from tap import Tap


def main():
	tap = Tap()
	for name in ALL:
		bench = Bench(sys.argv[1], smoke=True)
		try:
			BENCHMARKS[name](bench)
		except Missing as missing:
			tap.skip(name, str(missing))
			continue
		except (Failure, RuntimeError) as failure:
			tap.result(name, [failure])
			continue
		for result in bench.results:
			tap.diag(f"{result.name}: {result.medians[0]:.3g} and {result.medians[1]:.3g} {result.unit}")
		tap.result(name, [] if bench.results or bench.facts else ["no results"])
	tap.end()


main()
