# SPDX-License-Identifier: MIT
"""What a daemon does with kept results of probes: a warm start creates the pool's queue pairs only,
and a device that no longer grants what is kept is found out and probed again.

usage: probe_kept.py BUILD_DIR
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure, Private
from probe_host import Host
from tap import Tap

POOL_MIN = 2
WAIT_S = 30


def has_full_pool(device):
	pool = device["ports"][0].get("pool")
	return pool and pool["ready"] >= POOL_MIN and pool["coming"] == 0


class Daemon(Private):
	"""A daemon on a host of the double."""

	def __init__(self, build, host):
		super().__init__(build)
		self.host = host

	def configure(self, **settings):
		self.env.update(self.host.env())

	def device(self):
		devices = self.ask("devices")["devices"]
		return devices[0] if devices else {}

	def wait(self, condition):
		"""The device, as soon as @condition holds for it and its pool is as full as it is to be."""
		return self.wait_for(lambda device: condition(device) and has_full_pool(device))

	def wait_for(self, condition):
		"""The device, as soon as it has been probed and @condition holds for it."""
		until = time.monotonic() + WAIT_S
		while True:
			device = self.device()
			if "probe" in device and condition(device):
				return device
			if time.monotonic() > until:
				raise Failure(f"the device is {device}; log:\n{self.log_text()}")
			time.sleep(0.02)


def rxe(more=""):
	return ("rxe0", "rxe", "active", more)


def a_cold_start_keeps_what_it_finds(build, host):
	host.devices(rxe())
	with Daemon(build, host) as daemon:
		device = daemon.wait(lambda device: True)
		probe = device["probe"]
		if (probe["used"], probe["cached"], probe["creations"]) != (256, False, 2):
			yield f"probe: {probe}"
	kept = list(host.kept().values())
	if [entry["used"] for entry in kept] != [256]:
		yield f"kept: {kept}"


def a_warm_start_tries_nothing(build, host):
	host.devices(rxe())
	with Daemon(build, host) as daemon:
		# The frontier, which is found in the background, is kept as well.
		daemon.wait(lambda device: device["probe"]["frontier"])
	host.count_creations()
	with Daemon(build, host) as daemon:
		device = daemon.wait(lambda device: True)
		time.sleep(0.5)
		created = device["ports"][0]["pool"]["created"]
		if (device["probe"]["used"], device["probe"]["cached"]) != (256, True):
			yield f"probe: {device['probe']}"
		if created != host.creations():
			yield f"{host.creations()} queue pairs were asked for, {created} of them by the pool"


def a_device_that_has_become_less_is_found_out(build, host):
	host.devices(rxe())
	with Daemon(build, host) as daemon:
		daemon.wait(lambda device: True)
	host.devices(rxe("inline=101"))
	with Daemon(build, host) as daemon:
		device = daemon.wait(lambda device: device["probe"]["used"] == 101)
		if device["probe"]["cached"] or device["qps"]["refusals"] < 1:
			yield f"device: {device}"
	kept = list(host.kept().values())
	if [entry["used"] for entry in kept] != [101]:
		yield f"kept: {kept}"


def what_the_path_decided_is_tried_again(build, host):
	host.devices(("rxe0", "rxe", "down", ""))
	with Daemon(build, host) as daemon:
		device = daemon.wait_for(lambda device: device["probe"]["reason"] != "pending")
		if (device["probe"]["reason"], device["probe"]["used"]) != ("unverified", 0):
			yield f"port down: {device['probe']}"
		if host.kept():
			yield f"kept: {host.kept()}"
		host.devices(rxe())
		device = daemon.wait(lambda device: device["probe"]["used"] == 256)
		if device["probe"]["cached"]:
			yield f"port active: {device['probe']}"
	if len(host.kept()) != 1:
		yield f"kept: {host.kept()}"


def main():
	tap = Tap()
	for test in (a_cold_start_keeps_what_it_finds, a_warm_start_tries_nothing,
		     a_device_that_has_become_less_is_found_out,
		     what_the_path_decided_is_tried_again):
		host = Host(os.path.join(sys.argv[1], "tools", "shunt"))
		try:
			tap.result(test.__name__, list(test(sys.argv[1], host)))
		except Failure as failure:
			tap.result(test.__name__, [failure])
		finally:
			host.close()
	tap.end()


main()
