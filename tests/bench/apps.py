# SPDX-License-Identifier: MIT
"""Programs as they are: redis and iperf3."""
import contextlib
import csv
import io
import json

from pairs import Result, rounds
from programs import Private, Way, free_port, need


def redis_benchmark(way, port, operation, pipeline, requests):
	out = way.run(["redis-benchmark", "-p", port, "-c", 50, "-n", requests, "-t", operation, "-P",
		       pipeline, "--csv"])
	for row in csv.reader(io.StringIO(out)):
		if row and row[0].lower().startswith(operation):
			return {"rps": float(row[1])}
	raise RuntimeError(f"redis-benchmark said: {out}")


def bench_redis(bench):
	"""redis-benchmark -c 50, GET and SET, one request at a time and 16 in a row."""
	need("redis-server", "redis-benchmark")
	with contextlib.ExitStack() as stack:
		private = stack.enter_context(Private(bench.build))
		ways = {"TCP": Way(None, bench.cpus), "Shunt": Way(private, bench.cpus)}
		ports = {}
		for name, way in ways.items():
			ports[name] = free_port()
			stack.enter_context(way.server(
				["redis-server", "--port", ports[name], "--bind", "127.0.0.1", "--save", "",
				 "--appendonly", "no", "--dir", private.dir], ports[name]))

		def variant(name, *args):
			way = ways[name]
			return lambda: way.on_ring(lambda: redis_benchmark(way, ports[name], *args))

		for pipeline, requests in ((1, 100000), (16, 1000000)):
			for operation in bench.some(["get", "set"]):
				args = (operation, pipeline, requests // bench.shorter)
				samples = rounds({name: variant(name, *args) for name in ways}, bench.rounds(9),
						 bench.progress(f"redis {operation} -P {pipeline}"))
				bench.add(Result(f"redis {operation} -P {pipeline}", samples, "rps", "1000/s",
						 "higher", ("least", 1.5) if pipeline == 1 else None, 1e-3))


def iperf(way, port, seconds):
	out = json.loads(way.run(["iperf3", "-c", "127.0.0.1", "-p", port, "-t", seconds, "-J"]))
	return {"bw": out["end"]["sum_received"]["bits_per_second"] / 8}


def bench_iperf(bench):
	"""iperf3, one stream."""
	need("iperf3")
	with contextlib.ExitStack() as stack:
		private = stack.enter_context(Private(bench.build))
		ways = {"TCP": Way(None, bench.cpus), "Shunt": Way(private, bench.cpus)}
		ports = {}
		for name, way in ways.items():
			ports[name] = free_port()
			stack.enter_context(way.server(["iperf3", "-s", "-p", ports[name]], ports[name]))

		def variant(name):
			way = ways[name]
			return lambda: way.on_ring(lambda: iperf(way, ports[name], 1 if bench.quick else 2))

		samples = rounds({name: variant(name) for name in ways}, bench.rounds(7),
				 bench.progress("iperf3"))
		bench.add(Result("iperf3", samples, "bw", "MB/s", "higher", None, 1e-6))
