# SPDX-License-Identifier: MIT
"""Debian packages for the lab: downloaded and unpacked into a folder, never installed."""
import glob
import os
import subprocess


class Unavailable(Exception):
	"""Something the lab needs can not be had on this machine; the text says what."""


def run(*command, **options):
	"""One command that must succeed; its standard output."""
	try:
		done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
				      stdin=subprocess.DEVNULL, check=False, **options)
	except FileNotFoundError:
		raise Unavailable(f"there is no program {command[0]}") from None
	if done.returncode:
		raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()[-500:] or done.stdout[-500:]}")
	return done.stdout


def depends(meta, prefix):
	"""The package beginning with @prefix that the package @meta depends on."""
	for line in run("apt-cache", "depends", meta).splitlines():
		kind, _, name = line.strip().partition(": ")
		if kind == "Depends" and name.startswith(prefix):
			return name
	raise Unavailable(f"no package {meta} here: it is in Debian 12's security archive "
			  "(apt-get update?)")


def candidate(package):
	"""The version that apt would install."""
	for line in run("apt-cache", "policy", package).splitlines():
		kind, _, version = line.strip().partition(": ")
		if kind == "Candidate" and version != "(none)":
			return version
	raise Unavailable(f"no version of the package {package} can be had")


def download(package, version, folder):
	"""The package's file in @folder, fetched unless it is there already."""
	os.makedirs(folder, exist_ok=True)
	pattern = os.path.join(folder, f"{package}_{version.replace(':', '%3a')}_*.deb")
	if not glob.glob(pattern):
		run("apt-get", "download", "-qq", f"{package}={version}", cwd=folder)
	found = glob.glob(pattern)
	if not found:
		raise Unavailable(f"apt-get download {package}={version} left no file in {folder}")
	return found[0]


def unpack(deb, folder):
	run("dpkg-deb", "-x", deb, folder)
