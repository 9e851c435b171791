# SPDX-License-Identifier: MIT
"""Lanes between hosts whose daemons die, end and come back: two whole daemons in two network
namespaces, and programs under Shunt whose streams are checked byte by byte.

usage: remote_deaths.py BUILD_DIR [--rounds N] [CASE]...
"""
import argparse
import os
import random
import select
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure
from remote_lanes import ADDRESSES, PORT, WAIT_S, Pair, ip
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


class Talk:
	"""Two programs (talker.py) on one lane, and what they are told."""

	def __init__(self, pair):
		self.pair = pair
		self.said = [b"", b""]
		path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "talker.py")
		command = (sys.executable, path)
		port = PORT + 1
		self.programs = [None, pair.daemons[1].program(*command, "listen", ADDRESSES[1], port)]
		self.expect(1, "listening")
		self.programs[0] = pair.daemons[0].program(*command, "connect", ADDRESSES[1], port)
		for i in range(2):
			self.expect(i, "connected")

	def __enter__(self):
		for _ in range(200):
			self.both("chat 4")
			if on_lanes(self.pair):
				self.both("chat 4")
				return self
			time.sleep(0.02)
		raise Failure(f"two programs came on no lane:\n{self.pair.logs()}")

	def __exit__(self, *exc):
		for program in self.programs:
			program.kill()
			program.communicate()

	def tell(self, i, what):
		self.programs[i].stdin.write(what + "\n")
		self.programs[i].stdin.flush()

	def answer(self, i):
		out = self.programs[i].stdout.fileno()
		until = time.monotonic() + WAIT_S
		while b"\n" not in self.said[i]:
			left = until - time.monotonic()
			if left <= 0 or not select.select([out], [], [], left)[0]:
				raise Failure(f"program {i} says nothing:\n{self.pair.logs()}")
			bytes_read = os.read(out, 4096)
			if not bytes_read:
				raise Failure(f"program {i} has died: {self.programs[i].stderr.read()}\n{self.pair.logs()}")
			self.said[i] += bytes_read
		line, self.said[i] = self.said[i].split(b"\n", 1)
		return line.decode()

	def expect(self, i, *answers):
		said = self.answer(i)
		if said not in answers:
			raise Failure(f"program {i} says \"{said}\", not \"{answers}\":\n{self.pair.logs()}")

	def both(self, what):
		for i in range(2):
			self.tell(i, what)
		for i in range(2):
			self.expect(i, "ok")


def talks(build, rounds, act, **settings):
	"""@act(pair, talk, round) as often, each time with two programs on a fresh lane."""
	with Pair(build, **{**SETTINGS, **settings}) as pair:
		pair.warm_up()
		for turn in range(rounds):
			with Talk(pair) as talk:
				act(pair, talk, turn)
	yield from ()


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
					yield "the stream ended too early"
					return

		yield from pair.run("--bytes", f"{8 + 4 * rounds}M", "--rate", "1M", "--timeout",
				    str(60 + 10 * rounds), meanwhile=meanwhile)


class NoSessions:
	"""While it is entered, no packet of a session between the daemons goes through."""

	def __init__(self, pair):
		self.pair = pair

	def rules(self, what):
		for name in self.pair.names:
			for port in ("dport", "sport"):
				ip("-n", name, "rule", what, "pref", "1", "ipproto", "tcp", port, "7609", "blackhole")

	def __enter__(self):
		self.rules("add")

	def __exit__(self, *exc):
		self.rules("del")


def a_session_is_lost_and_comes_back(build, rounds):
	"""Lanes do not care; nor does a lane that is lost meanwhile, when there is one again."""
	def act(pair, talk, turn):
		with NoSessions(pair):
			pair.wait("without a session", lambda: not sessions(pair))
			talk.both("chat 10")
			if not on_lanes(pair):
				raise Failure(f"a lane went with a session:\n{pair.logs()}")
			if turn % 2:
				pair.hosts[0].faults("send device=mlx0 action=error status=12\n")
			talk.tell(0, "write 600000")
			time.sleep(0.3)
		talk.tell(1, "read 600000")
		talk.expect(0, "wrote")
		talk.expect(1, "600000 ok")
		talk.both("chat 10")
	yield from talks(build, rounds, act, peer_ping_ms=100, peer_dead_ms=300)


def a_session_does_not_come_back(build, rounds):
	"""Lanes leave while their link works."""
	def act(pair, talk, turn):
		with NoSessions(pair):
			talk.tell(0, "write 600000")
			talk.tell(1, "read 600000")
			talk.expect(0, "wrote")
			talk.expect(1, "600000 ok")
			for _ in range(200):
				talk.both("chat 10")
				if not on_lanes(pair):
					break
				time.sleep(0.02)
			else:
				raise Failure(f"still on a lane without a session:\n{pair.logs()}")
			talk.both("chat 100")
			pair.wait("without a link",
				  lambda: pair.logs().count("no session with its daemon any more") > turn)
		talk.both("chat 10")
		pair.wait("a session", lambda: sessions(pair) == 2)
	yield from talks(build, min(rounds, 4), act, peer_ping_ms=100, peer_dead_ms=300,
			 peer_lapse_ms=500)


def a_program_is_stopped_when_its_daemon_dies(build, rounds):
	"""Its peer waits, within the time limit; then both go on."""
	def act(pair, talk, turn):
		victim = turn % 2
		talk.tell(0, "write 600000")
		time.sleep(0.05)
		talk.programs[victim].send_signal(signal.SIGSTOP)
		kill(pair, victim)
		time.sleep(0.3)
		talk.tell(1, "read 600000")
		time.sleep(0.1)
		talk.programs[victim].send_signal(signal.SIGCONT)
		talk.expect(0, "wrote")
		talk.expect(1, "600000 ok")
		talk.both("chat 10")
	yield from talks(build, rounds, act)


def a_program_is_idle_when_its_daemon_dies(build, rounds):
	"""It sits in a place where it can't be woken, and goes on when it is called again."""
	def act(pair, talk, turn):
		talk.tell(0, "write 100000")
		talk.expect(0, "wrote")
		time.sleep(0.2) # what its daemon does not carry in time is carried when it is called
		kill(pair, *[(0,), (1,), (0, 1)][turn % 3])
		time.sleep(0.3)
		talk.tell(1, "read 100000")
		if turn % 2:
			talk.tell(0, "chat 10")
		talk.expect(1, "100000 ok")
		if not turn % 2:
			talk.tell(0, "chat 10")
		talk.tell(1, "chat 10")
		for i in range(2):
			talk.expect(i, "ok")
	yield from talks(build, rounds, act)


def a_daemon_dies_behind_a_half_close(build, rounds):
	"""The end of one direction arrives behind all of its bytes, and the other one goes on."""
	def act(pair, talk, turn):
		talk.tell(0, "write 200000")
		talk.tell(0, "shut")
		talk.tell(0, "read 50000")
		time.sleep(0.002 * (turn % 5))
		kill(pair, *[(0,), (1,), (0, 1)][turn % 3])
		talk.tell(1, "read 300000")
		talk.tell(1, "write 50000")
		talk.expect(0, "wrote")
		talk.expect(0, "shut")
		talk.expect(1, "200000 eof")
		talk.expect(1, "wrote")
		talk.expect(0, "50000 ok")
		talk.tell(1, "exit")
		talk.tell(0, "read 1")
		talk.expect(0, "0 eof")
	yield from talks(build, rounds, act)


def a_program_leaves_the_rest_to_its_daemon(build, rounds):
	"""It exits right behind its last write; all of it arrives, whatever happens to the link."""
	def act(pair, talk, turn):
		talk.tell(0, "last 250000")
		talk.programs[0].wait(WAIT_S)
		if turn % 3 == 1:
			kill(pair, 1)
		elif turn % 3 == 2:
			pair.hosts[0].faults("send device=mlx0 action=error status=12\n")
		time.sleep(0.05)
		talk.tell(1, "read 1000000")
		talk.expect(1, "250000 eof")
	yield from talks(build, rounds, act)


def a_daemon_does_not_come_back(build, rounds):
	"""What it alone knew is lost: both connections end in a reset, within the time limit."""
	def act(pair, talk, turn):
		victim = turn % 2
		talk.tell(0, "fill")
		size = int(talk.answer(0))
		pair.daemons[victim].kill()
		talk.tell(1, f"read {size + 1}")
		talk.tell(0, "read 1")
		said = [talk.answer(i) for i in range(2)]
		pair.daemons[victim].start()
		if not all(words.endswith("reset") for words in said):
			raise Failure(f"round {turn}: the programs say {said} of {size} bytes:\n{pair.logs()}")
	yield from talks(build, min(rounds, 2), act, resume_timeout_s=2)


def program_and_daemon_die_together(build, rounds):
	"""A reset at the other end, never the end of a short stream. (Bytes that went over TCP before
	the lane had begun are the kernel's: they arrive.)"""
	resets = []
	def act(pair, talk, turn):
		talk.tell(0, "fill")
		size = int(talk.answer(0))
		victims = [talk.programs[0], pair.daemons[0]]
		for victim in victims if turn % 2 else reversed(victims):
			victim.kill()
		talk.tell(1, f"read {size + 1}")
		said = talk.answer(1)
		pair.daemons[0].start()
		resets.append(said.endswith("reset"))
		if not resets[-1] and said != f"{size} eof":
			raise Failure(f"round {turn}: the reader says \"{said}\" of {size} bytes:\n{pair.logs()}")
	yield from talks(build, rounds, act)
	if sum(resets) < rounds // 2:
		yield f"{sum(resets)} of {rounds} connections were reset"


CASES = [
	one_daemon_is_killed,
	the_other_is_killed,
	both_are_killed,
	a_daemon_is_told_to_end,
	daemons_die_at_any_moment,
	a_session_is_lost_and_comes_back,
	a_session_does_not_come_back,
	a_program_is_stopped_when_its_daemon_dies,
	a_program_is_idle_when_its_daemon_dies,
	a_daemon_dies_behind_a_half_close,
	a_program_leaves_the_rest_to_its_daemon,
	a_daemon_does_not_come_back,
	program_and_daemon_die_together,
]


def main():
	parser = argparse.ArgumentParser()
	parser.add_argument("build")
	parser.add_argument("cases", nargs="*")
	parser.add_argument("--rounds", type=int, default=5)
	args = parser.parse_intermixed_args()
	build = os.path.abspath(args.build)
	tap = Tap()
	for case in CASES:
		if args.cases and case.__name__ not in args.cases:
			continue
		try:
			problems = list(case(build, args.rounds))
		except Failure as failure:
			problems = [str(failure)]
		tap.result(case.__name__, problems)
	tap.end()


if __name__ == "__main__":
	main()
