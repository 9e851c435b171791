# SPDX-License-Identifier: MIT
"""For the cases that are Python: what helpers.sh has, and calls of Shunt's programs in the guest."""
import json
import os
import subprocess
import sys

LAB = os.environ["LAB"]
BUILD = os.environ["LAB_BUILD"]
TOOL = os.path.join(BUILD, "tools", "shunt")
NARROW = os.path.join(BUILD, "tests", "lab", "narrow.so")
NOBODY = 65534

sys.path.insert(0, os.path.join(LAB, "..", "lib"))
from tap import Tap  # noqa: F401, for the cases


def shell(text, seconds=30):
	"""Run a few lines of shell with helpers.sh. A CompletedProcess with its output."""
	return subprocess.run(["sh", "-c", '. "$LAB/helpers.sh"\n' + text], stdout=subprocess.PIPE,
			      stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
			      timeout=seconds, check=False)


def must(text, seconds=30):
	"""As shell(); ends the case if it fails. Returns the output."""
	done = shell(text, seconds)
	if done.returncode:
		sys.exit(f"{text}: status {done.returncode}: {done.stdout}")
	return done.stdout


def nothing(reason):
	"""The whole case is skipped."""
	print("1..0 # SKIP " + reason)
	sys.exit(0)


def need_rdma():
	if not os.path.exists(NARROW):
		nothing("the build has no RDMA")


def has_siw():
	return shell("have_siw").returncode == 0


def narrowed(inline):
	"""Environment for a program that sees the inline limit @inline; None: as the device is."""
	return {} if inline is None else {"SHUNT_LAB_INLINE": str(inline), "LD_PRELOAD": NARROW}


def tool(*args, env=None, seconds=60):
	"""One call of the `shunt` command. A CompletedProcess with text."""
	return subprocess.run([TOOL, *map(str, args)], env=dict(os.environ, **(env or {})),
			      capture_output=True, text=True, timeout=seconds,
			      stdin=subprocess.DEVNULL, check=False)


def ask(*args, env=None):
	"""What `shunt` says with --json; None and the reason if it does not."""
	done = tool(*args, "--json", env=env)
	try:
		return json.loads(done.stdout), done.stderr.strip()
	except json.JSONDecodeError:
		return None, f"status {done.returncode}: {done.stdout}{done.stderr}"
