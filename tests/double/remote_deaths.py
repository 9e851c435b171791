# SPDX-License-Identifier: MIT
"""Lanes between hosts whose daemons die, end and come back: two whole daemons in two network
namespaces, and programs under Shunt whose streams are checked byte by byte.

usage: remote_deaths.py BUILD_DIR [--rounds N] [CASE]...
"""
import argparse
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure
from remote_lanes import ADDRESSES, PORT, Pair
from tap import Tap

# Quick to come back, quick to be promoted again.
SETTINGS = {"resume_timeout_s": 20, "backoff_min_ms": 10, "backoff_max_ms": 50, "peer_retry_max_ms": 200}


def on_lanes(pair):
	"""Whether the program of each host is on a lane."""
	for daemon in pair.daemons:
		done = daemon.run_tool("ss", "--json")
		if '"rdma"' not in done.stdout:
			return False
	return True


def sessions(pair):
	"""How many of the two daemons have a session."""
	return sum(any(peer["state"] == "up" for peer in daemon.ask("peers")["peers"]) for daemon in pair.daemons)


def adoptions(pair):
	return pair.logs().count("adopted from a predecessor")


def run_rounds(pair, rounds, act, programs):
	"""@act(round) as often, each time with both programs on a lane."""
	for turn in range(rounds):
		until = time.monotonic() + 20
		while not on_lanes(pair):
			if any(program.poll() is not None for program in programs):
				yield f"the stream ended before round {turn}"
				return
			if time.monotonic() > until:
				yield f"round {turn}: no lane\n{pair.logs()}"
				return
			time.sleep(0.02)
		time.sleep(0.05 + 0.01 * (turn % 7))
		act(turn)


def under_a_stream(build, rounds, act, wants_adoptions):
	with Pair(build, **SETTINGS) as pair:
		pair.warm_up()

		def meanwhile(programs):
			yield from run_rounds(pair, rounds, lambda turn: act(pair, turn), programs)

		yield from pair.run("--bytes", f"{8 + 2 * rounds}M", "--rate", "1M", "--timeout",
				    str(30 + 5 * rounds), meanwhile=meanwhile)
		if wants_adoptions and adoptions(pair) < rounds // 2:
			yield f"only {adoptions(pair)} lanes were adopted in {rounds} rounds:\n{pair.logs()}"


def kill(pair, *victims):
	for i in victims:
		pair.daemons[i].kill()
	for i in victims:
		pair.daemons[i].start()


def one_daemon_is_killed(build, rounds):
	yield from under_a_stream(build, rounds, lambda pair, turn: kill(pair, 0), True)


def the_other_is_killed(build, rounds):
	yield from under_a_stream(build, rounds, lambda pair, turn: kill(pair, 1), True)


def both_are_killed(build, rounds):
	yield from under_a_stream(build, rounds, lambda pair, turn: kill(pair, turn % 2, 1 - turn % 2), True)


def stop(pair, *victims):
	for i in victims:
		pair.daemons[i].stop()
	for i in victims:
		pair.daemons[i].start()


def a_daemon_is_told_to_end(build, rounds):
	"""Nothing is left to a successor: connections are on TCP before it ends."""
	with Pair(build, stop_wait_ms=8000, **SETTINGS) as pair:
		pair.warm_up()

		def meanwhile(programs):
			yield from run_rounds(pair, rounds, lambda turn: stop(pair, turn % 2), programs)

		yield from pair.run("--bytes", f"{8 + 2 * rounds}M", "--rate", "1M", "--timeout",
				    str(30 + 5 * rounds), meanwhile=meanwhile)
		if adoptions(pair) or "are left after" in pair.logs():
			yield f"a lane outlived an end in order:\n{pair.logs()}"


def many_streams_leave_at_once(build, rounds):
	"""Each lane's last words arrive, so that none stands still and is waited for."""
	with Pair(build, **SETTINGS) as pair:
		pair.warm_up()
		args = ("--bytes", f"{4 + 3 * rounds}M", "--rate", "1M", "--max-op", "8K")
		programs = [pair.daemons[1].stream(*args, "listen", PORT + i, ADDRESSES[1]) for i in range(12)]
		time.sleep(0.5)
		programs += [pair.daemons[0].stream(*args, "connect", ADDRESSES[1], PORT + i) for i in range(12)]
		yield from run_rounds(pair, rounds, lambda turn: stop(pair, *[(0,), (1,), (0, 1)][turn % 3]),
				      programs)
		for program in programs:
			try:
				out, errors = program.communicate(timeout=60)
			except subprocess.TimeoutExpired:
				program.kill()
				out, errors = program.communicate()
			if program.returncode:
				yield f"a program ended with {program.returncode}: {errors}\n{out}\n{pair.logs()}"
		if adoptions(pair) or "are left after" in pair.logs():
			yield f"a lane outlived an end in order:\n{pair.logs()}"


def daemons_die_at_any_moment(build, rounds):
	"""Also while lanes are made, lost, adopted or left."""
	prng = random.Random(build + str(time.time()) if rounds > 5 else 1)
	with Pair(build, **SETTINGS) as pair:
		pair.warm_up()

		def meanwhile(programs):
			for _ in range(4 * rounds):
				time.sleep(prng.uniform(0, 0.4))
				victims = prng.choice([(0,), (1,), (0, 1), (1, 0)])
				prng.choice([kill, kill, stop])(pair, *victims)
				if any(program.poll() is not None for program in programs):
					break
			yield from ()

		yield from pair.run("--bytes", f"{8 + 2 * rounds}M", "--rate", "1M", "--timeout",
				    str(60 + 10 * rounds), meanwhile=meanwhile)


def give_key(daemon, text):
	path = os.path.join(daemon.dir, "key")
	with open(path, "w", encoding="utf-8") as file:
		file.write(text * 32 + "\n")
	os.chmod(path, 0o600)
	daemon.stop()
	daemon.configure(**{**daemon.settings, "peer_key": path})
	daemon.start()


def a_key_is_revoked(build, rounds):
	"""The daemon that does not take it any more was started anew for that: connections go on over
	TCP, and are promoted again when the daemons have one key."""
	with Pair(build, **SETTINGS) as pair:
		for daemon in pair.daemons:
			give_key(daemon, "a1")
		pair.warm_up()

		def meanwhile(programs):
			def change(turn):
				give_key(pair.daemons[turn % 2], "b2")
				time.sleep(0.3)
				if sessions(pair):
					raise Failure(f"two keys, and a session:\n{pair.logs()}")
				give_key(pair.daemons[turn % 2], "a1")
			yield from run_rounds(pair, rounds, change, programs)

		yield from pair.run("--bytes", f"{8 + 3 * rounds}M", "--rate", "1M", "--timeout",
				    str(30 + 10 * rounds), meanwhile=meanwhile)
		if adoptions(pair):
			yield f"a lane outlived an end in order:\n{pair.logs()}"


def main(cases):
	parser = argparse.ArgumentParser()
	parser.add_argument("build")
	parser.add_argument("cases", nargs="*")
	parser.add_argument("--rounds", type=int, default=3)
	args = parser.parse_intermixed_args()
	build = os.path.abspath(args.build)
	tap = Tap()
	for case in cases:
		if args.cases and case.__name__ not in args.cases:
			continue
		try:
			problems = list(case(build, args.rounds))
		except Failure as failure:
			problems = [str(failure)]
		tap.result(case.__name__, problems)
	tap.end()


if __name__ == "__main__":
	main([
		one_daemon_is_killed,
		the_other_is_killed,
		both_are_killed,
		a_daemon_is_told_to_end,
		many_streams_leave_at_once,
		daemons_die_at_any_moment,
		a_key_is_revoked,
	])
