# SPDX-License-Identifier: MIT
"""Connections that live for one request: what Shunt costs where it gains nothing."""
import contextlib
import os
import re

from pairs import Result, rounds
from programs import Private, Way, bench_program, cpu_ns, free_port, json_line, need

# The claim of the design: such connections cost what TCP costs.
CLAIM = ("upper", 1.05)

NGINX_CONF = """
daemon off;
master_process off;
worker_processes 1;
pid {dir}/nginx-{port}.pid;
error_log {dir}/nginx-{port}.err;
events {{ worker_connections 1024; }}
http {{
	access_log off;
	keepalive_timeout 0;
	client_body_temp_path {dir}/body;
	proxy_temp_path {dir}/proxy;
	fastcgi_temp_path {dir}/fastcgi;
	uwsgi_temp_path {dir}/uwsgi;
	scgi_temp_path {dir}/scgi;
	server {{
		listen 127.0.0.1:{port};
		location / {{ return 200 "hello\\n"; }}
	}}
}}
"""


def start_nginx(stack, way, folder):
	port = free_port()
	conf = os.path.join(folder, f"nginx-{port}.conf")
	with open(conf, "w", encoding="ascii") as file:
		file.write(NGINX_CONF.format(dir=folder, port=port))
	process = stack.enter_context(way.server(
		["nginx", "-c", conf, "-e", os.path.join(folder, f"nginx-{port}.err")], port))
	return port, process.pid


def wrk(way, port, pid, seconds):
	"""Time per request, and the server's CPU time per request, in ns."""
	before = cpu_ns(pid)
	out = way.run(["wrk", "-t", 1, "-c", 8, "-d", f"{seconds}s", "-H", "Connection: close",
		       f"http://127.0.0.1:{port}/"])
	used = cpu_ns(pid) - before
	requests = re.search(r"(\d+) requests in ([\d.]+)(m?s)", out)
	rate = re.search(r"Requests/sec:\s*([\d.]+)", out)
	if not requests or not rate or "Socket errors" in out:
		raise RuntimeError(f"wrk said: {out}")
	return {"time": 1e9 / float(rate.group(1)), "cpu": used / int(requests.group(1))}


def bench_nginx(bench):
	"""nginx and wrk without keep-alive."""
	need("nginx", "wrk")
	with contextlib.ExitStack() as stack:
		private = stack.enter_context(Private(bench.build))
		ways = {"TCP": Way(None, bench.cpus), "Shunt": Way(private, bench.cpus)}
		servers = {name: start_nginx(stack, way, private.dir) for name, way in ways.items()}

		def variant(name):
			way = ways[name]
			return lambda: way.off_ring(lambda: wrk(way, *servers[name], 1))

		samples = rounds({name: variant(name) for name in ways}, bench.rounds(100),
				 bench.progress("nginx and wrk"))
		bench.add(Result("nginx + wrk, time per request", samples, "time", "us", "cost", CLAIM, 1e-3))
		bench.add(Result("nginx + wrk, server's CPU", samples, "cpu", "us", "cost", CLAIM, 1e-3))


def bench_connloop(bench):
	"""A loop of connect, one request, close."""
	with Private(bench.build) as private:
		ways = {"TCP": Way(), "Shunt": Way(private)}
		command = [bench_program(private, "connloop"), "--connections", 20000 // bench.shorter, "--cpus",
			   ",".join(map(str, bench.cpus)) if bench.cpus else "none"]

		def variant(way):
			return lambda: way.off_ring(lambda: json_line(way.run(command)))

		samples = rounds({name: variant(way) for name, way in ways.items()}, bench.rounds(25),
				 bench.progress("connect and close"))
		bench.add(Result("connect/close, time", samples, "ns_per_connection", "us", "cost", CLAIM, 1e-3))
		bench.add(Result("connect/close, CPU", samples, "cpu_ns_per_connection", "us", "cost", CLAIM,
				 1e-3))


def bench_short(bench):
	"""Both of the above."""
	bench_connloop(bench)
	bench_nginx(bench)
