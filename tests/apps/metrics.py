# SPDX-License-Identifier: MIT
"""`shunt metrics`, read by two parsers that are not ours: promtool of Debian's prometheus, and that of
python3-prometheus-client. Without them the test fails: tools/check.sh installs both.

usage: metrics.py BUILD_DIR
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))
from private import Failure, Private
from tap import Tap

PARSE = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
print(json.dumps([[f.name, f.type, f.unit, [[s.name, s.labels, s.value] for s in f.samples]]
	for f in parse(sys.stdin.read())]))
"""


def find_promtool():
	unpacked = os.path.join(ROOT, "build-tools", "usr", "bin", "promtool")
	return shutil.which("promtool") or (unpacked if os.path.exists(unpacked) else None)


def parsed(text):
	"""Families by name as the Python parser sees them."""
	errors = ""
	for python in (sys.executable, "/usr/bin/python3"):
		done = subprocess.run([python, "-c", PARSE], input=text, capture_output=True, text=True,
				      timeout=60, check=False)
		if done.returncode == 0:
			return {name: (kind, unit, samples) for name, kind, unit, samples in json.loads(done.stdout)}
		if "ModuleNotFoundError" not in done.stderr:
			raise Failure("the OpenMetrics parser: " + done.stderr)
		errors += done.stderr
	raise Failure("no OpenMetrics parser; apt-get install python3-prometheus-client: " + errors)


def sample(families, family, name, **labels):
	for found, its, value in families[family][2]:
		if found == name and its == labels:
			return value
	raise Failure(f"no {name}{labels} in {families[family]}")


def text_of(private, *args):
	done = private.run_tool("metrics", *args)
	if done.returncode:
		raise Failure(f"metrics {args}: {done.stderr}")
	return done.stdout


def says_what_stats_says(private):
	stats = private.ask("stats")
	families = parsed(text_of(private))
	for way, name in (("tx", "sent"), ("rx", "received")):
		lane = stats["by_lane"]["ring"]
		wanted = {"_sum": lane["bytes"][way], "_count": lane["messages"][way]}
		for suffix, value in wanted.items():
			found = sample(families, "shunt_message_size_bytes", "shunt_message_size_bytes" + suffix,
				       lane="ring", way=name)
			if found != value or not value:
				yield f"{suffix} {name}: {found}, but stats say {value}"
		found = sample(families, "shunt_stream_bytes", "shunt_stream_bytes_total", lane="tcp", way=name)
		if found != stats["tcp_bytes"][way]:
			yield f"tcp {name}: {found}, but stats say {stats['tcp_bytes']}"
	if sample(families, "shunt_lanes", "shunt_lanes_total", lane="ring") != stats["lanes"]:
		yield "not as many lanes as stats say"
	reasons = [its["reason"] for _, its, _ in families["shunt_demotions"][2]]
	if "requested" not in reasons or len(set(reasons)) != len(reasons):
		yield f"reasons: {reasons}"


def is_bounded(private):
	"""No label per connection, process, or anything else that a program could make many of."""
	allowed = {"lane", "way", "reason", "le", "device", "form", "peer", "version"}
	for name, (kind, unit, samples) in parsed(text_of(private)).items():
		for _, labels, _ in samples:
			if set(labels) - allowed:
				yield f"{name}: labels {labels}"
		if unit and not name.endswith("_" + unit):
			yield f"{name} does not end in its unit {unit}"
		if not name.startswith("shunt_") or kind == "unknown":
			yield f"{name} is of type {kind}"


def promtool_reads_it(private):
	promtool = find_promtool()
	if not promtool:
		yield "no promtool; it is in Debian's package prometheus, tools/check.sh gets it"
		return
	# Its OpenMetrics parser, which wants times.
	lines = text_of(private).splitlines()
	stamped = [line if line.startswith("#") else f"{line} 1700000000" for line in lines]
	with tempfile.TemporaryDirectory() as folder:
		path = os.path.join(folder, "metrics")
		with open(path, "w", encoding="utf-8") as out:
			out.write("\n".join(stamped) + "\n")
		done = subprocess.run([promtool, "tsdb", "create-blocks-from", "openmetrics", path,
				       os.path.join(folder, "out")], capture_output=True, text=True, timeout=60,
				      check=False)
		if done.returncode:
			yield f"promtool tsdb: {done.stdout}{done.stderr}"
	# And that of the older format, with its own rules of style.
	done = subprocess.run([promtool, "check", "metrics"], input=text_of(private, "--prometheus"),
			      capture_output=True, text=True, timeout=60, check=False)
	if done.returncode:
		yield f"promtool check metrics: {done.stdout}{done.stderr}"


def parsers_bite(private):
	"""What is broken is told."""
	text = text_of(private)
	broken = {"no EOF": text.replace("# EOF\n", ""), "a counter without _total": text.replace("_total", ""),
		  "buckets that shrink": re.sub(r'(_bucket\{.*le="\+Inf"\} )\d+', r"\g<1>-1", text)}
	for what, wrong in broken.items():
		if wrong == text:
			yield f"{what}: nothing was broken"
		try:
			parsed(wrong)
			yield f"{what}: the parser takes it"
		except Failure as failure:
			if "apt-get" in str(failure):
				yield str(failure)


def writes_a_file(private):
	with tempfile.TemporaryDirectory() as folder:
		path = os.path.join(folder, "shunt.prom")
		for _ in range(2):
			done = private.run_tool("metrics", "--prometheus", "--output", path)
			if done.returncode or done.stdout:
				yield f"metrics --output: {done}"
		if os.listdir(folder) != ["shunt.prom"]:
			yield f"left behind: {os.listdir(folder)}"
		with open(path, encoding="utf-8") as file:
			if "shunt_lanes_total" not in file.read():
				yield "not the metrics"
		if os.stat(path).st_mode & 0o044 != 0o044 & ~os.umask(os.umask(0)):
			yield f"mode {os.stat(path).st_mode:o}: others can't read it"
		done = private.run_tool("metrics", "--output", os.path.join(folder, "none", "x"))
		if done.returncode != 4 or "none/x" not in done.stderr:
			yield f"into no folder: {done}"


def answers_http(private):
	"""The one-liner of the manual page, and a scraper."""
	with socket.socket() as probe:
		probe.bind(("127.0.0.1", 0))
		port = probe.getsockname()[1]
	words = [f"--setenv={name}={private.env[name]}" for name in ("SHUNT_RUNTIME_DIR", "SHUNT_CONF")]
	server = subprocess.Popen(["systemd-socket-activate", "--accept", "--inetd", *words, "-l",
				   f"127.0.0.1:{port}", private.tool, "metrics", "--http"], stderr=subprocess.DEVNULL)
	url = f"http://127.0.0.1:{port}/metrics"
	try:
		until = time.monotonic() + 10
		while True:
			try:
				answer = urllib.request.urlopen(url, timeout=10)
				break
			except OSError as error:
				if time.monotonic() > until:
					yield f"no answer: {error}"
					return
				time.sleep(0.05)
		if "application/openmetrics-text" not in answer.headers["Content-Type"]:
			yield f"of type {answer.headers['Content-Type']}"
		if "shunt_lanes" not in parsed(answer.read().decode()):
			yield "not the metrics"
	finally:
		server.terminate()
		server.wait()
	for request, status in (("GET / HTTP/1.1\r\n\r\n", "404"), ("PUT /metrics HTTP/1.1\r\n\r\n", "405"),
				("nonsense\r\n\r\n", "400"), ("", "400"), ("x" * 20000, "400"),
				("HEAD /metrics?a=b HTTP/1.0\r\n\r\n", "200")):
		done = subprocess.run([private.tool, "metrics", "--http"], input=request, env=private.env, text=True,
				      capture_output=True, timeout=30, check=False)
		if not done.stdout.startswith(f"HTTP/1.0 {status} "):
			yield f"{request[:40]!r}: {done.stdout[:80]!r}"


def no_daemon(private):
	private.stop()
	with tempfile.TemporaryDirectory() as folder:
		path = os.path.join(folder, "shunt.prom")
		with open(path, "w", encoding="ascii") as old:
			old.write("old\n")
		if private.run_tool("metrics", "--output", path).returncode != 3:
			yield "no daemon is not told by the exit status"
		with open(path, encoding="ascii") as old:
			if old.read() != "old\n":
				yield "the old file is gone"
	done = subprocess.run([private.tool, "metrics", "--http"], input="GET /metrics HTTP/1.1\r\n\r\n",
			      env=private.env, text=True, capture_output=True, timeout=30, check=False)
	if not done.stdout.startswith("HTTP/1.0 503 "):
		yield f"without a daemon: {done.stdout}"


def main():
	tap = Tap()
	build = sys.argv[1]
	with Private(build, promote_after=1) as private:
		program = os.path.join(build, "tests", "apps", "stream")
		subprocess.run(private.under([program, "--bytes", "8M", "--rate", "8M", "pair"]), env=private.env, timeout=60,
			       stdout=subprocess.DEVNULL, check=True)
		for case in (says_what_stats_says, is_bounded, promtool_reads_it, parsers_bite, writes_a_file,
			     answers_http, no_daemon):
			try:
				tap.result(case.__name__, list(case(private)))
			except Failure as failure:
				tap.result(case.__name__, [str(failure)])
	tap.end()


main()
