# SPDX-License-Identifier: MIT
"""The double's symbols and their versions, beside those of the installed libraries.

usage: verbs_symbols.py FOLDER_OF_THE_LIBRARIES
"""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from tap import Tap

# Not a program's interface: what providers use, and what the double's libraries share.
PRIVATE = re.compile(r"PRIVATE|VERBS_DOUBLE")
# In the library for itself only: librdmacm of the same build is its only user.
INTERNAL = {"ibv_copy_ah_attr_from_kern", "ibv_copy_path_rec_from_kern",
	    "ibv_copy_path_rec_to_kern", "ibv_copy_qp_attr_from_kern", "ibv_register_driver"}


def symbols(path):
	"""{(name, version)} of what programs bind to by default."""
	done = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", path],
			      capture_output=True, text=True, check=True)
	found = set()
	for line in done.stdout.splitlines():
		name, _, version = line.split()[-1].partition("@@")
		if version and name != version and not PRIVATE.search(version):
			found.add((name, version))
	return found


def installed(soname):
	"""Where the dynamic linker finds the real one, or None."""
	done = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True)
	match = re.search(rf"^\s*{re.escape(soname)} .*=> (\S+)$", done.stdout, re.M)
	return match.group(1) if match else None


def differences(double, real):
	versions = {version for _, version in double}
	for name, version in sorted(double - real):
		yield f"{name}@@{version} is not in the installed library"
	# A later release has later versions.
	for name, version in sorted(real - double):
		if version in versions and name not in INTERNAL:
			yield f"{name}@@{version} is not in the double"
	if len(double) < 20:
		yield f"only {len(double)} symbols"


def main():
	tap = Tap()
	for soname in ("libibverbs.so.1", "librdmacm.so.1"):
		real = installed(soname)
		if not shutil.which("nm"):
			tap.skip(soname, "no nm here (binutils)")
		elif not real:
			tap.skip(soname, f"no {soname} is installed")
		else:
			double = symbols(os.path.join(sys.argv[1], soname))
			tap.result(soname, differences(double, symbols(real)))
	tap.end()


main()
