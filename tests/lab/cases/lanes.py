#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two daemons and the lane between them on the real drivers: other people's programs are promoted, which
counters prove; and a checked stream loses its way in the middle, goes on over TCP, and is promoted
again when the way is back. The figures are of an emulated machine; what they are good for is to see
that something has changed."""
import os
import re
import sys
import time

sys.path.insert(0, os.environ["LAB"])
from hosts import Hosts
from kit import Failure, Tap, has_siw, must, need_rdma, until

PORT = 7800
# Of what programs have moved, the least that went over lanes: they begin on TCP, for a second or two.
LANE_SHARE = 0.5
# Of a stream each way: how fast, and how long; the longer one is for a machine that has more to do.
STREAM = ("--rate", "256K", "--max-op", "16K", "--timeout", "150")
STREAM_BYTES = ("6M", "24M")
# For what has no deadline of its own: programs start in half a second, or in ten beside others' load.
START_S = 60
# A lane is given up within the deadline of TEST_LINK (2 s), and comes again within the longest pause
# between dials (10 s); emulated.
LEFT_S = 30
BACK_S = 45


class TooShort(Exception):
	"""The stream was through before its path was; nothing is proved, nor wrong."""


def moved(side):
	"""Totals of @side: (bytes over lanes, over TCP, lanes made)."""
	stats = side.ask("stats")
	return tuple(stats[kind]["tx"] + stats[kind]["rx"] for kind in ("lane_bytes", "tcp_bytes")) + (
		stats["lanes_between_hosts"]["made"],)


def promoted(hosts, before):
	"""Problems: what was moved since @before was not moved by lanes between hosts."""
	for side, old in zip(hosts.sides, before):
		lane, tcp, made = (now - then for now, then in zip(moved(side), old))
		print(f"# host {side.index}: {made} lanes, {lane} bytes over them, {tcp} over TCP")
		if not made or lane < LANE_SHARE * (lane + tcp):
			yield f"host {side.index}: {made} lanes, {lane} bytes over them, {tcp} over TCP\n{hosts.logs()}"


def listens(server):
	"""Whether @server, a program, listens on PORT, or has ended."""
	return server.poll() is not None or must(f"ss -Hltn sport = {PORT}")


def qperf(hosts):
	before = [moved(side) for side in hosts.sides]
	server = hosts[1].program(["qperf", "-lp", PORT])
	try:
		until(lambda: listens(server), START_S, "qperf listens")
		for size in ("64", "16K"):
			said = hosts[0].run(["qperf", hosts[1].address, "-lp", PORT, "-ip", PORT + 1, "-t", 4, "-m",
					     size, "tcp_lat", "tcp_bw"])
			figures = re.findall(r"(?:latency|bw) *= *(.*)", said)
			print(f"# qperf {size}: tcp_lat {', tcp_bw '.join(figures)}")
			if len(figures) != 2:
				yield f"qperf said: {said}"
	finally:
		server.kill()
		server.communicate()
	yield from promoted(hosts, before)


def redis(hosts):
	before = [moved(side) for side in hosts.sides]
	server = hosts[1].program(["redis-server", "--bind", hosts[1].address, "--port", PORT, "--save", "",
				   "--protected-mode", "no"])
	try:
		until(lambda: listens(server), START_S, "redis listens")
		said = hosts[0].run(["redis-benchmark", "-h", hosts[1].address, "-p", PORT, "-n", 1000, "-c", 4,
				     "-d", 64, "-t", "set,get", "-q"], seconds=120)
		figures = [line for line in re.split(r"[\r\n]+", said) if "requests per second" in line]
		for line in figures:
			print(f"# redis-benchmark {line}")
		if len(figures) < 2:
			yield f"redis-benchmark said: {said}"
	finally:
		server.terminate()
		server.communicate()
	yield from promoted(hosts, before)


class Faults:
	"""One stream that is checked, and what befalls the path of its lane meanwhile."""

	def __init__(self, hosts, size):
		self.hosts = hosts
		self.programs = hosts.stream("--bytes", size, *STREAM)
		self.began = time.monotonic()

	def is_running(self):
		return all(program.poll() is None for program in self.programs)

	def wait(self, what, condition, seconds):
		"""The seconds it took."""
		begun = time.monotonic()

		def look():
			if self.is_running():
				return condition()
			ends = self.end()
			if any(status for status, _ in ends):
				raise Failure(f"the stream ended before: {what}: {ends}\n{self.hosts.logs()}")
			raise TooShort(what)

		self.hosts.wait(what, look, seconds)
		return time.monotonic() - begun

	def on_lane(self):
		took = self.wait("on a lane", lambda: all(side.lanes() for side in self.hosts.sides), BACK_S)
		links = self.hosts[0].ask("links")["links"]
		if not any(link["state"] == "up" for link in links):
			raise Failure(f"shunt links shows no link that is up: {links}")
		return took

	def on_tcp(self):
		return self.wait("on TCP", lambda: not any(side.lanes() for side in self.hosts.sides), LEFT_S)

	def goes_on(self):
		"""The kernel's TCP has payload of both ends confirmed."""

		def confirmed():
			said = must("ss -Htin 'sport = 7700 or dport = 7700'")
			return [int(count) for count in re.findall(r"bytes_acked:(\d+)", said)]

		before = confirmed()
		self.wait("goes on over TCP", lambda: all(
			now > then for now, then in zip(confirmed(), before, strict=True)), LEFT_S)

	def end(self):
		"""What the programs said, and how they ended."""
		said = [program.communicate(timeout=200)[0].strip() for program in self.programs]
		return [(program.returncode, text) for program, text in zip(self.programs, said)]

	def kill(self):
		for program in self.programs:
			if program.poll() is None:
				program.kill()
				program.communicate()


def meet(hosts, size, befall):
	"""A stream that meets @befall, a generator: it makes the path go, and then come back. Problems."""
	stream = Faults(hosts, size)
	try:
		print(f"# on a lane in {stream.on_lane():.1f} s")
		for what in befall:
			print(f"# {what}: on TCP in {stream.on_tcp():.1f} s", flush=True)
			stream.goes_on()
			print(f"# {next(befall)}: on a lane in {stream.on_lane():.1f} s", flush=True)
		ends = stream.end()
		print(f"# done in {time.monotonic() - stream.began:.1f} s: {ends}")
		if any(status for status, _ in ends):
			yield f"the stream: {ends}\n{hosts.logs()}"
	finally:
		stream.kill()
		for side in hosts.sides:
			side.mend()


def faults(hosts, make):
	"""meet() with what @make gives, and once more if the stream was too short."""
	for size in STREAM_BYTES:
		try:
			return list(meet(hosts, size, make(hosts)))
		except TooShort as short:
			print(f"# a stream of {size} was through before it was {short}", flush=True)
	return ["the stream was too short"]


def ports(hosts):
	for side in hosts.sides:
		side.port_down()
		yield f"port of host {side.index} down"
		side.port_up()
		yield f"port of host {side.index} up"


def devices(hosts):
	for side in hosts.sides:
		took = side.del_device()
		yield f"device of host {side.index} deleted ({took:.1f} s)"
		side.add_device()
		yield f"device of host {side.index} added"


def port_down(hosts):
	return faults(hosts, ports)


def device_goes(hosts):
	return faults(hosts, devices)


CASES = [qperf, redis, port_down, device_goes]


def main():
	need_rdma()
	tap = Tap()
	for kind in ("rxe", "siw"):
		if kind == "siw" and not has_siw():
			tap.skip(kind, "no siw module could be built")
			continue
		try:
			with Hosts(kind, backoff_min_ms=50, backoff_max_ms=500) as hosts:
				hosts.link()
				for case in CASES:
					begun = time.monotonic()
					try:
						problems = list(case(hosts))
					except Failure as failure:
						problems = [str(failure)]
					print(f"# {kind}: {case.__name__} took {time.monotonic() - begun:.1f} s")
					tap.result(f"{kind}: {case.__name__}", problems)
		except Failure as failure:
			tap.result(f"{kind}: two hosts", [str(failure)])
	tap.end()


if __name__ == "__main__":
	main()
