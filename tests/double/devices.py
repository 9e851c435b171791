# SPDX-License-Identifier: MIT
"""A whole daemon and its RDMA devices, on the verbs double: several at once, plugged in, unplugged in
every moment, ports and addresses that change.

usage: devices.py BUILD_DIR
"""
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure, Private
from tap import Tap
from verbs_host import Host

WAIT_S = 30
# What `rdma link del` may take.
RELEASE_S = 5
# Growth of a daemon that is no leak: what allocators keep.
RSS_KIB = 4096


class Daemon(Private):
	"""A daemon on a host of the double."""

	def stop(self):
		super().stop()
		if self.daemon and self.daemon.returncode:
			raise Failure(f"the daemon ended with {self.daemon.returncode}:\n{self.log_text()}")

	def __init__(self, build, host, **settings):
		super().__init__(build, **{"rdma_rescan_ms": 100, **settings})
		self.host = host

	def configure(self, **settings):
		libraries = os.path.join(self.build, "tests", "lib", "verbs")
		self.env.update(VERBS_DOUBLE_DIR=self.host.dir, LD_LIBRARY_PATH=libraries,
				SHUNT_CACHE_DIR=os.path.join(self.dir, "cache"))
		super().configure(**settings)

	def devices(self):
		return {device["device"]: device for device in self.ask("devices")["devices"]}

	def wait(self, what, condition):
		"""What @condition makes of the devices, as soon as that is true."""
		until = time.monotonic() + WAIT_S
		while True:
			devices = self.devices()
			try:
				result = condition(devices)
			except (KeyError, IndexError): # not there yet
				result = None
			if result:
				return result
			if time.monotonic() > until:
				raise Failure(f"not {what}: {devices}; log:\n{self.log_text()}")
			time.sleep(0.02)

	def wait_ready(self, name):
		"""Device @name: probed, its pool and its halves full, its frontier found."""
		def is_ready(devices):
			device = devices[name]
			pool = device["ports"][0]["pool"]
			return (device["state"] == "ready" and pool["coming"] == 0 and
				pool["ready"] >= pool["target"] and device["probe"]["frontier"] and
				device["memory"]["ready_halves"] == 4) and device
		return self.wait(name + " ready", is_ready)

	def counts(self):
		"""Descriptors, threads, mappings of halves, resident KiB."""
		process = f"/proc/{self.daemon.pid}"
		with open(process + "/maps", encoding="ascii") as maps:
			text = maps.read()
		halves = text.count("memfd:shunt-half")
		with open(process + "/status", encoding="ascii") as status:
			fields = dict(line.split(":", 1) for line in status)
		# A sanitizer keeps what was freed; it looks for leaks itself, at the end.
		rss = 0 if "libasan" in text or "libtsan" in text else int(fields["VmRSS"].split()[0])
		return {"descriptors": len(os.listdir(process + "/fd")), "threads": int(fields["Threads"]),
			"halves": halves, "rss": rss}


def await_free(host, name, daemon):
	"""That nobody holds the device any more, within what is allowed: problems."""
	started = time.monotonic()
	while host.is_held(name):
		if time.monotonic() - started > RELEASE_S:
			yield f"{name} is still held; log:\n{daemon.log_text()}"
			return
		time.sleep(0.01)


def compare(before, after):
	for key in ("descriptors", "threads", "halves"):
		if before[key] != after[key]:
			yield f"{key}: {before[key]} before, {after[key]} after"
	if after["rss"] > before["rss"] + RSS_KIB:
		yield f"resident: {before['rss']} KiB before, {after['rss']} after"


def settled(daemon, before):
	"""The counts, when they are those of @before or have had the time to become so."""
	until = time.monotonic() + 5
	while list(compare(before, daemon.counts())) and time.monotonic() < until:
		time.sleep(0.05)
	return daemon.counts()


def devices_keep_their_own_limits(build, host):
	host.add("rxe0", "rxe", "10.77.0.1", inline=101)
	host.add("mlx0", "mlx5", "10.77.0.2")
	host.add("ib0", "mlx4", "10.77.0.3")
	with Daemon(build, host) as daemon:
		for name, used in (("rxe0", 101), ("mlx0", 236), ("ib0", 236)):
			probe = daemon.wait_ready(name)["probe"]
			if probe["used"] != used:
				yield f"{name} uses {probe['used']} bytes inline, not {used}: {probe}"
		text = daemon.run_tool("devices").stdout
		for word in ("rxe0: ready, RoCE", "101 bytes used", "frontier", "pool", "queue pairs"):
			if word not in text:
				yield f"shunt devices does not say \"{word}\":\n{text}"


def removal(build, host, name, personality, **settings):
	"""@name comes and goes in all moments of its life; a neighbour is not disturbed."""
	chance = random.Random(7)
	host.add("keep0", "mlx5", "10.77.0.1")
	with Daemon(build, host, pool_min=40, pool_max=64, **settings) as daemon:
		# Once in full, so that everything that is loaded once is.
		host.add(name, personality, "10.77.0.2")
		daemon.wait_ready(name)
		host.remove(name)
		yield from await_free(host, name, daemon)
		keep = daemon.wait_ready("keep0")
		daemon.wait("gone", lambda devices: name not in devices)
		before = daemon.counts()
		for _ in range(25):
			host.add(name, personality, "10.77.0.2")
			time.sleep(chance.choice((0.1, 0.15, 0.2, 0.3)) * chance.random() * 2)
			host.remove(name)
			yield from await_free(host, name, daemon)
		daemon.wait("gone", lambda devices: name not in devices)
		yield from compare(before, settled(daemon, before))
		after = daemon.wait_ready("keep0")
		for key in ("created", "destroyed", "ready"):
			if keep["ports"][0]["pool"][key] != after["ports"][0]["pool"][key]:
				yield f"the neighbour's pool: {keep['ports'][0]['pool']}, then " \
				      f"{after['ports'][0]['pool']}"
		if keep["memory"] != after["memory"] or keep["qps"] != after["qps"]:
			yield f"the neighbour: {keep}, then {after}"
		# And it can come back for good.
		host.add(name, personality, "10.77.0.2")
		daemon.wait_ready(name)


def removal_in_every_moment(build, host):
	yield from removal(build, host, "rxe0", "rxe")


def removal_with_a_fatal_event(build, host):
	yield from removal(build, host, "mlx1", "mlx5")


def usual_settings_release_in_time(build, host):
	host.add("rxe0", "rxe", "10.77.0.1")
	host.add("rxe1", "rxe", "10.77.0.2")
	with Daemon(build, host, rdma_rescan_ms=3000) as daemon:
		daemon.wait_ready("rxe0")
		daemon.wait_ready("rxe1")
		host.remove("rxe0")
		yield from await_free(host, "rxe0", daemon)
		if daemon.wait_ready("rxe1")["state"] != "ready":
			yield "the other device does not work on"


def the_last_device_goes_and_comes_back(build, host):
	host.add("rxe0", "rxe", "10.77.0.1")
	with Daemon(build, host) as daemon:
		first = daemon.wait_ready("rxe0")
		for _ in range(5):
			host.remove("rxe0")
			yield from await_free(host, "rxe0", daemon)
			daemon.wait("gone", lambda devices: not devices)
			host.add("rxe0", "rxe", "10.77.0.1")
			again = daemon.wait_ready("rxe0")
			if not again["ports"][0].get("cm_port"):
				yield f"it does not listen for links any more: {again['ports'][0]}"
		if not first["ports"][0].get("cm_port"):
			yield f"it does not listen for links: {first['ports'][0]}"
		if again["probe"]["used"] != first["probe"]["used"]:
			yield f"inline was {first['probe']['used']}, is {again['probe']['used']}"


def ports_and_addresses_are_followed(build, host):
	host.add("rxe0", "rxe", "10.77.0.1")
	with Daemon(build, host) as daemon:
		port = daemon.wait_ready("rxe0")["ports"][0]
		if port["state"] != "active" or port["gid"] != "10.77.0.1" or port["gid_type"] != "RoCEv2":
			yield f"at first: {port}"
		host.port("rxe0", "down")
		daemon.wait("down", lambda devices: devices["rxe0"]["ports"][0]["state"] == "down")
		host.port("rxe0", "active")
		daemon.wait("active", lambda devices: devices["rxe0"]["ports"][0]["state"] == "active")
		host.address("rxe0", "10.77.0.9")
		port = daemon.wait("moved", lambda devices: devices["rxe0"]["ports"][0]["gid"] == "10.77.0.9"
				   and devices["rxe0"]["ports"][0])
		if not port.get("cm_port"):
			yield f"it does not listen on its new address: {port}"
		if daemon.devices()["rxe0"]["state"] != "ready":
			yield f"it is {daemon.devices()['rxe0']['state']} now"


def devices_that_can_not_be_used_say_why(build, host):
	host.add("efa0", "efa")
	host.add("shut0", "rxe", "10.77.0.1", open="ENOMEM")
	with Daemon(build, host) as daemon:
		for name, word in (("efa0", "no reliable connections"), ("shut0", "memory")):
			device = daemon.wait(name, lambda devices, name=name:
					     devices[name]["state"] == "unused" and devices[name])
			if word not in device["why"]:
				yield f"{name}: {device['why']}"
			if sum(f"{name} is not used" in line for line in daemon.log_text().splitlines()) != 1:
				yield f"{name}: not one line in the log:\n{daemon.log_text()}"


def unused_devices_are_let_go_of_as_well(build, host):
	host.add("efa0", "efa")
	host.add("rxe0", "rxe", "10.77.0.1")
	host.add("rxe1", "rxe", "10.77.0.2")
	with Daemon(build, host) as daemon:
		daemon.wait_ready("rxe0")
		daemon.wait_ready("rxe1")
		# librdmacm looks at its list, and opens all of it.
		host.remove("rxe0")
		yield from await_free(host, "rxe0", daemon)
		host.remove("efa0")
		yield from await_free(host, "efa0", daemon)
		daemon.wait("gone", lambda devices: list(devices) == ["rxe1"])


def budgets_are_kept(build, host):
	host.add("rxe0", "rxe", "10.77.0.1", max_qp=16)
	with Daemon(build, host, pool_min=30, pool_max=30, qps_per_device=1000) as daemon:
		device = daemon.wait("full", lambda devices:
				     devices["rxe0"]["qps"]["in_use"] == 14 and devices["rxe0"])
		if device["qps"]["max"] != 14 or device["ports"][0]["pool"]["failed"]:
			yield f"{device['qps']}, {device['ports'][0]['pool']}"


def switched_off(build, host):
	host.add("rxe0", "rxe", "10.77.0.1")
	with Daemon(build, host, rdma="off") as daemon:
		answer = daemon.ask("devices")
		if answer["rdma"] != "off" or answer["devices"]:
			yield str(answer)
		if host.is_held("rxe0"):
			yield "it holds the device nevertheless"
		if "switched off" not in daemon.run_tool("devices").stdout:
			yield daemon.run_tool("devices").stdout


def the_daemon_ends_in_every_moment(build, host):
	host.add("rxe0", "rxe", "10.77.0.1")
	host.add("mlx0", "mlx5", "10.77.0.2")
	for pause in (0, 0.01, 0.02, 0.05, 0.1, 0.3, 1):
		with Daemon(build, host, pool_min=64, pool_max=64) as daemon:
			time.sleep(pause)
			daemon.daemon.send_signal(signal.SIGTERM)
			status = daemon.daemon.wait(10)
			if status:
				yield f"after {pause} s: status {status}\n{daemon.log_text()}"
		yield from await_free(host, "rxe0", daemon)


CASES = (
	devices_keep_their_own_limits,
	removal_in_every_moment,
	removal_with_a_fatal_event,
	usual_settings_release_in_time,
	the_last_device_goes_and_comes_back,
	ports_and_addresses_are_followed,
	devices_that_can_not_be_used_say_why,
	unused_devices_are_let_go_of_as_well,
	budgets_are_kept,
	switched_off,
	the_daemon_ends_in_every_moment,
)


def main():
	tap = Tap()
	for case in CASES:
		if len(sys.argv) > 2 and case.__name__ not in sys.argv[2:]:
			continue
		with Host() as host:
			try:
				tap.result(case.__name__, case(os.path.abspath(sys.argv[1]), host))
			except Failure as failure:
				tap.result(case.__name__, [failure])
	tap.end()


main()
