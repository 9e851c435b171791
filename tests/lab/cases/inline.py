#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lanes between hosts at every inline limit, down to none: bytes are right, and go in the form that the
limit gives them. What it costs is told by bench.py inline.

Some of the limits; all of them with $SHUNT_LONG, which bench.py inline proves as well."""
import os
import sys

sys.path.insert(0, os.environ["LAB"])
from forms import LIMITS, close_all, open_all, prove
from kit import Failure, Tap, has_siw, need_rdma


# None, a header alone, one that is no round number, and the most of each.
SOME = {"rxe": [0, 32, 101, 236], "siw": [0, 80]}


def every_limit(tap, kind):
	ways = open_all(kind, (LIMITS if os.environ.get("LAB_LONG") else SOME)[kind])
	tap.diag(f"{kind}: {len(ways)} lanes")
	for limit, way in ways.items():
		prove(tap, way, limit)
	if tap.failed:
		for way in ways.values():
			tap.diag(way.hosts.logs())
	close_all(ways)


def main():
	need_rdma()
	tap = Tap()
	try:
		every_limit(tap, "rxe")
		if has_siw():
			every_limit(tap, "siw")
		else:
			tap.skip("siw", "the kernel has no siw")
	except Failure as failure:
		tap.result("lanes at every limit", [failure])
	tap.end()


main()
