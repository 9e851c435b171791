#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The daemon as a user without rights, on hosts that lack something for RDMA: it starts, serves lanes of
this host, and says in one line each what is missing and how to get it. For root none of it would be
missing."""
import contextlib
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.environ["LAB"])
from kit import NOBODY, BUILD, Daemon, Failure, Tap, must, need_rdma, pools, until

MEMLOCK = ("--memlock=65536",)


def lane(daemon):
	"""A connection between two processes goes over the ring."""
	program = os.path.join(BUILD, "tests", "apps", "stream")
	process = subprocess.Popen(daemon.under([program, "--bytes", "1G", "--rate", "1M", "pair"]),
				   env=daemon.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
				   start_new_session=True)

	def both_on_ring():
		ends = daemon.ask("ss")["connections"]
		return len(ends) == 2 and all(end["lane"] == "ring" for end in ends)

	try:
		until(both_on_ring, 20, f"a lane: {daemon.ask('ss')}")
	finally:
		with contextlib.suppress(ProcessLookupError):
			os.killpg(process.pid, signal.SIGKILL)
		process.wait()


def notes(daemon):
	"""What `shunt devices` says is missing, once the host has been looked at."""
	answer = until(lambda: (found := daemon.ask("devices"))["scanned"] and found, 10, "a look")
	return {note["what"]: note["text"] for note in answer["notes"]}


def lacks(what, *words, limits=(), **settings):
	"""Problems of a daemon that is to say that @what is missing, in these words, and in one line."""
	with Daemon(user=NOBODY, limits=limits, promote_after=1, **settings) as daemon:
		found = notes(daemon)
		if what not in found:
			yield f"no word of {what}: {found}"
			return
		for word in words:
			if word not in found[what]:
				yield f"nothing about \"{word}\": {found[what]}"
		lines = [line for line in daemon.log_text().splitlines() if found[what] in line]
		if len(lines) != 1:
			yield f"{len(lines)} lines of the log instead of one: {daemon.log_text()}"
		lane(daemon)


def works():
	"""Nothing missing: a user without rights, but with memory to lock, has devices and pools."""
	with Daemon(user=NOBODY, limits=("--memlock=unlimited",)) as daemon:
		found = daemon.ready("rxe_va")
		if found["rxe_va"]["probe"]["used"] != 256 or not pools(found["rxe_va"]):
			yield str(found)


def guarded(problems):
	try:
		yield from problems
	except Failure as failure:
		yield str(failure)


def main():
	need_rdma()
	tap = Tap()
	tap.result("no_device", guarded(lacks("no_device", "rdma link add")))
	must("veth va vb 10.77.0.1 10.77.0.2 && rxe va && within 5 active rxe_va")
	tap.result("nothing_missing", guarded(works()))
	tap.result("memlock_64_KiB", guarded(lacks("memlock", "LimitMEMLOCK", limits=MEMLOCK)))
	must("chmod 600 /dev/infiniband/uverbs0")
	tap.result("device_file_closed", guarded(lacks("uverbs_denied", "/dev/infiniband/uverbs0")))
	must("chmod 666 /dev/infiniband/uverbs0; mkdir /run/empty; "
	     "mount --bind /run/empty /usr/lib/x86_64-linux-gnu/libibverbs")
	tap.result("no_providers", guarded(lacks("no_provider", "ibverbs-providers")))
	must("umount /usr/lib/x86_64-linux-gnu/libibverbs; rdma link del rxe_va; veth_del va vb")
	tap.end()


main()
