# SPDX-License-Identifier: MIT
"""The verbs double answers as the drivers that it stands for: what cases/facts.sh and cases/limits.sh
find on the real ones.

usage: facts_on_double.py PROGRAM_FOLDER DOUBLE_FOLDER
"""
import difflib
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from tap import Tap

ADDRESS = "10.77.0.1"
HOST = """device name=d personality={0} index=1
port device=d num=1 state=active netdev=lo ifindex=1
gid device=d port=1 index=0 type=v2 gid=::ffff:{1} ifindex=1
addr device=d port=1 ip={1}
"""
LIMITS = {
	"rxe": ["zero 16", "accepted 512 granted 512", "refused 513 EINVAL", "reference arrived",
		"inline arrived"],
	"siw": ["zero 0", "accepted 80 granted 80", "refused 81 EINVAL", "reference arrived",
		"inline arrived"],
}


def output(double, personality, *command):
	"""Lines that a program prints on a host of the double with one such device."""
	with tempfile.TemporaryDirectory(prefix="shunt-facts-") as state:
		os.mkdir(os.path.join(state, "fabric"))
		with open(os.path.join(state, "host"), "w", encoding="ascii") as host:
			host.write(HOST.format(personality, ADDRESS))
		env = dict(os.environ, LD_LIBRARY_PATH=double, VERBS_DOUBLE_DIR=state)
		done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100,
				      check=False)
	if done.returncode:
		return [f"status {done.returncode}", *done.stderr.splitlines()]
	return done.stdout.splitlines()


def differences(wanted, got):
	return difflib.unified_diff(wanted, got, "driver", "double", n=0, lineterm="")


def main():
	folder, double = sys.argv[1:]
	tap = Tap()
	for personality in ("rxe", "siw"):
		with open(os.path.join(HERE, "facts", personality + ".txt"), encoding="ascii") as file:
			wanted = file.read().splitlines()
		got = output(double, personality, os.path.join(folder, "verbs-facts"), ADDRESS)
		tap.result(personality + "_answers", differences(wanted, got))
		got = output(double, personality, os.path.join(folder, "inline-limit"), "d", ADDRESS)
		tap.result(personality + "_limits", differences(LIMITS[personality], got))
	tap.end()


main()
