# SPDX-License-Identifier: MIT
"""qperf, the bare ring and the native API: latency and bandwidth of one connection."""
import contextlib

from pairs import Result, rounds
from programs import Private, Way, bench_program, free_port, json_line, need

LAT, BW = "tcp_lat", "tcp_bw"
SIZES = ["1", "64", "512", "1K", "4K", "16K", "64K"]


def qperf(way, port, test, size, seconds):
	"""One measurement: {"latency": ns} or {"bw": bytes per second}."""
	out = way.run(["qperf", "-lp", port, "127.0.0.1", "-uu", "-t", seconds, "-m", size, test])
	for line in out.splitlines():
		words = line.split()
		if len(words) > 2 and words[1] == "=":
			return {words[0]: float(words[2])}
	raise RuntimeError(f"qperf said: {out}")


class Qperf:
	"""A qperf server for one way, and measurements by it."""

	def __init__(self, stack, way, seconds):
		self.way = way
		self.seconds = seconds
		self.port = free_port()
		stack.enter_context(way.server(["qperf", "-lp", self.port], self.port))

	def variant(self, test, size):
		return lambda: self.way.on_ring(
			lambda: qperf(self.way, self.port, test, size, self.seconds))


def result_of(test, size, samples, claim=None, note=""):
	if test == LAT:
		return Result(f"{test} {size}{note}", samples, "latency", "us", "lower", claim, 1e-3)
	return Result(f"{test} {size}{note}", samples, "bw", "MB/s", "higher", claim, 1e-6)


def bench_qperf(bench):
	"""tcp_lat and tcp_bw, TCP against Shunt, by size."""
	need("qperf")
	with contextlib.ExitStack() as stack:
		private = stack.enter_context(Private(bench.build))
		tcp = Qperf(stack, Way(None, bench.cpus), 1)
		shunt = Qperf(stack, Way(private, bench.cpus), 1)
		for test in (LAT, BW):
			for size in bench.some(SIZES):
				samples = rounds({"TCP": tcp.variant(test, size),
						  "Shunt": shunt.variant(test, size)},
						 bench.rounds(7), bench.progress(f"{test} {size}"))
				bench.add(result_of(test, size, samples))


def bench_targets(bench):
	"""What the same-host lane promises: latency, bandwidth, never slower without spinning, and how
	far it is from what the memory allows."""
	need("qperf")
	count = bench.rounds(11)
	with contextlib.ExitStack() as stack:
		private = stack.enter_context(Private(bench.build))
		sleeping = stack.enter_context(Private(bench.build, spin_us=0))
		tcp = Qperf(stack, Way(None, bench.cpus), 1)
		shunt = Qperf(stack, Way(private, bench.cpus), 1)
		never = Qperf(stack, Way(sleeping, bench.cpus), 1)

		def compare(test, size, second, claim, note=""):
			samples = rounds({"TCP": tcp.variant(test, size), "Shunt": second.variant(test, size)},
					 count, bench.progress(f"{test} {size}{note}"))
			bench.add(result_of(test, size, samples, claim, note))

		compare(LAT, "64", shunt, ("least", 20))
		for size in bench.some(["1", "64", "4K", "64K"]):
			compare(LAT, size, never, ("least", 1), " spin_us=0")
		compare(BW, "64K", shunt, ("least", 3))
		compare(BW, "64", shunt, ("least", 10))
		compare(BW, "64K", never, ("least", 1), " spin_us=0")
		samples = rounds({"bare ring": lambda: bare_ring(bench, private),
				  "Shunt": shunt.variant(LAT, "64")},
				 count, bench.progress("the bare ring"))
		bench.add(Result("tcp_lat 64 to bare ring", samples, "latency", "us", "cost", ("most", 2.5),
				 1e-3))


def bare_ring(bench, private):
	pinned = ",".join(map(str, bench.cpus)) if bench.cpus else "none"
	line = json_line(Way().run([bench_program(private, "ringpong"), "--size", 64, "--ms", 500,
				    "--cpus", pinned]))
	return {"latency": line["latency_ns"]}


def bench_native(bench):
	"""The native API, and its zero-copy calls, against TCP sockets in the same program."""
	pinned = ",".join(map(str, bench.cpus)) if bench.cpus else "none"
	with Private(bench.build) as private:
		way = Way(private)

		def variant(api, *args):
			command = [bench_program(private, "native"), "--api", api, "--ms", bench.ms(500), "--cpus",
				   pinned, *args]
			if api == "socket":
				return lambda: json_line(Way().run(command))
			# It uses the library itself, without the shim.
			plain = Way()
			plain.env = lambda: private.env
			return lambda: way.on_ring(lambda: json_line(plain.run(command)))

		for api in ("native", "zerocopy"):
			for size in bench.some(["64", "4K", "64K"]):
				samples = rounds({"TCP": variant("socket", "--size", size),
						  "API": variant(api, "--size", size)},
						 bench.rounds(7), bench.progress(f"{api} {size}"))
				bench.add(Result(f"{api} latency {size}", samples, "latency_ns", "us", "lower",
						 None, 1e-3))
				args = ("--size", size, "--bandwidth", "--touch")
				samples = rounds({"TCP": variant("socket", *args), "API": variant(api, *args)},
						 bench.rounds(7), bench.progress(f"{api} {size} bandwidth"))
				bench.add(Result(f"{api} bandwidth {size}", samples, "bytes_per_s", "MB/s",
						 "higher", None, 1e-6))
