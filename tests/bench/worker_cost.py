# SPDX-License-Identifier: MIT
"""Instructions that the data worker of a device executes for a message of 64 bytes: sent by one, received
by another, the device itself not counted. bench-worker-turns under callgrind, twice: the difference is
what a message costs, without the beginning. It is the same in each run, so it is a test, with a limit.

usage: worker_cost.py PROGRAM
"""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from tap import Tap

# Measured: 3512 with gcc 12 -O2 for x86-64, in four turns of both workers for two messages. Chosen: a
# twentieth more, so that another release of a compiler passes, and one more look at a lane does not.
LIMIT = 3690
MESSAGES = (1000, 6000)


def count(program, messages, folder):
	"""Instructions in turns of workers; those of the wire below, which stands for a device."""
	out = os.path.join(folder, f"callgrind.{messages}")
	subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--collect-atstart=no",
			"--toggle-collect=worker_turn", program], check=True, capture_output=True, timeout=200,
		       env=dict(os.environ, WORKER_MESSAGES=str(messages)))
	text = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", out],
			      check=True, capture_output=True, text=True, timeout=60).stdout
	total = int(re.search(r"^\s*([\d,]+) .*PROGRAM TOTALS", text, re.M).group(1).replace(",", ""))
	wire = {} # a function may be listed by more than one path of its file
	for number, name in re.findall(r"^\s*([\d,]+) [^=\n]*:(wire_\w+)(?: \[|$)", text, re.M):
		wire[name] = max(wire.get(name, 0), int(number.replace(",", "")))
	if sorted(wire) != ["wire_poll_cq", "wire_post_recv", "wire_post_send"]:
		raise ValueError(f"of the wire callgrind knows {wire}")
	return total - sum(wire.values())


def main():
	tap = Tap()
	name = "instructions of a worker per message of 64 bytes"
	if not shutil.which("valgrind"):
		tap.skip(name, "valgrind is missing: apt-get install valgrind")
	elif platform.machine() != "x86_64":
		tap.skip(name, f"the limit is for x86-64, this is {platform.machine()}")
	else:
		with tempfile.TemporaryDirectory(prefix="shunt-cost-") as folder:
			few, many = (count(sys.argv[1], messages, folder) for messages in MESSAGES)
		each = (many - few) / (MESSAGES[1] - MESSAGES[0])
		tap.diag(f"{each:.1f} instructions per message; {LIMIT} are allowed")
		tap.result(name, [] if 0 < each <= LIMIT else [f"{each:.1f} instructions"])
	tap.end()


main()
