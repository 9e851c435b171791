# SPDX-License-Identifier: MIT
"""Many idle promoted connections: CPU time and memory."""
import os
import re
import resource
import subprocess
import time

from programs import Failure, Private, bench_program, json_line

RING_BYTES = 16384 # 10,000 connections of the default size would take 5 GB
PROMOTE_S = 120 # at most, until all are on the ring
FDS_PER_CONNECTION = 3 # in each process, once promoted: the socket and two bells
FDS_APART = 300
SETTLE_S = 3 # from the last message until the clock starts


def ticks(pid):
	"""User and system time in clock ticks, as in /proc/PID/stat."""
	with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
		words = stat.read().rsplit(")", 1)[1].split()
	return int(words[11]) + int(words[12])


def memory(pid):
	"""Kilobytes by kind, from smaps_rollup: a page shared by n processes counts 1/n in Pss."""
	with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as smaps:
		found = dict(re.findall(r"^(\w+):\s+(\d+) kB", smaps.read(), re.M))
	return {key: int(found.get(key, 0)) for key in ("Rss", "Pss", "Pss_Anon", "Pss_Shmem")}


class Crowd:
	"""Pairs of processes with @count connections in all, as many pairs as the limit on descriptors
	asks for."""

	def __init__(self, private, count, under):
		limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
		most = max(1, (limit - FDS_APART) // FDS_PER_CONNECTION)
		pairs = -(-count // most)
		self.processes = []
		self.pids = []
		for i in range(pairs):
			command = [bench_program(private, "idle"), "--connections",
				   str(count * (i + 1) // pairs - count * i // pairs)]
			self.processes.append(subprocess.Popen(
				private.under(command) if under else command, env=private.env,
				stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
		for process in self.processes:
			self.pids += _line(process)["pids"]

	def round(self):
		"""Messages back and forth on each connection; how many such rounds there were."""
		for process in self.processes:
			process.stdin.write("more\n")
			process.stdin.flush()
		return [_line(process)["rounds"] for process in self.processes][0]

	def stop(self):
		for process in self.processes:
			process.stdin.close()
		for process in self.processes:
			process.wait(60)


def _line(process):
	line = process.stdout.readline()
	if not line:
		raise Failure(f"the idle program ended with status {process.wait()}")
	return json_line(line)


def _promote_all(private, crowd, ends):
	"""Rounds until all ends have a lane; how many it took."""
	until = time.monotonic() + PROMOTE_S
	while True:
		number = crowd.round()
		stats = private.ask("stats")
		if stats["promoted"] >= ends and stats["open"] == ends:
			return number
		if time.monotonic() > until:
			raise Failure(f"{stats['promoted']} of {ends} ends were promoted in {PROMOTE_S} s: "
				      f"{stats}\n{private.log_text()}")
		time.sleep(0.05)


def _shared_kb():
	with open("/proc/meminfo", encoding="ascii") as info:
		return int(re.search(r"^Shmem:\s+(\d+)", info.read(), re.M).group(1))


def bench_idle(bench):
	"""10,000 idle promoted connections for a minute."""
	count = 10000 // (10 if bench.quick else 1)
	seconds = 5 if bench.quick else 60
	with Private(bench.build, ring_bytes=RING_BYTES) as private:
		crowd = Crowd(private, count, False)
		crowd.round()
		plain = [memory(pid) for pid in crowd.pids]
		crowd.stop()

		shared = _shared_kb()
		crowd = Crowd(private, count, True)
		rounds = _promote_all(private, crowd, 2 * count)
		time.sleep(SETTLE_S)
		watched = [*crowd.pids, private.daemon.pid]
		before = [ticks(pid) for pid in watched]
		time.sleep(seconds)
		used = [ticks(pid) - first for pid, first in zip(watched, before)]
		lanes = [memory(pid) for pid in crowd.pids]
		shared = _shared_kb() - shared
		daemon = memory(private.daemon.pid)
		daemon_fds = len(os.listdir(f"/proc/{private.daemon.pid}/fd"))
		crowd.stop()
	own = sum(a["Pss_Anon"] - b["Pss_Anon"] for a, b in zip(lanes, plain))
	bench.add_facts("idle", {
		"connections": count, "processes": len(lanes), "rounds_until_promoted": rounds,
		"seconds": seconds, "ticks_per_s": os.sysconf("SC_CLK_TCK"),
		"ticks_of_each_process": used[:-1], "ticks_of_the_daemon": used[-1],
		"ring_bytes": RING_BYTES,
		"shared_kb_per_connection": round(shared / count, 2),
		"own_kb_per_connection_and_end": round(own / count / 2, 2),
		"descriptors_of_the_daemon": daemon_fds,
		"daemon_kb_per_connection": round(daemon["Pss_Anon"] / count, 2),
		"claim": "at most one tick per process in 60 s",
		"verdict": "met" if max(used) <= 1 else "NOT met",
	})
