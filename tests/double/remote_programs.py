# SPDX-License-Identifier: MIT
"""What daemons that die, end or lose each other mean for programs on a lane between hosts that are
busy, idle, stopped, half-closed, or gone: two whole daemons in two network namespaces, and two
programs that are told step by step what to do (talker.py).

usage: remote_programs.py BUILD_DIR [--rounds N] [CASE]...
"""
import os
import select
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure
from remote_deaths import SETTINGS, kill, main, on_lanes, sessions, stop
from remote_lanes import ADDRESSES, PORT, WAIT_S, Pair, ip

# A lane that was not made is tried again within the pauses of SETTINGS; less than peer_lapse_ms,
# within which a link without a session is given up.
LANE_S = 6

# A session is lost soon, and not because the machine is busy.
QUICK_LOSS = {"peer_ping_ms": 200, "peer_dead_ms": 1000}


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
		self.end()

	def end(self):
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
	yield from talks(build, rounds, act, **QUICK_LOSS)


def made_lanes(pair):
	"""How many of the two daemons have a lane that has not begun."""
	shown = [end.get("remote", {}).get("state") for daemon in pair.daemons
		 for end in daemon.ask("ss")["connections"]]
	return shown.count("being made")


def a_session_is_lost_while_a_lane_is_made(build, rounds):
	"""What the daemons say to each other of it then is lost; when there is a session again, they
	come to agree, and the next lane begins. Programs map their part when they are called: before
	the loss, or behind it."""
	def act(pair, talk, turn):
		"""Whether there was a lane to be met in the making: on a busy machine it may have begun
		within one message."""
		until = time.monotonic() + WAIT_S
		while made_lanes(pair) < 2:
			if on_lanes(pair):
				return False
			if time.monotonic() > until:
				shown = [daemon.run_tool("ss").stdout for daemon in pair.daemons]
				raise Failure(f"no lane is made: {shown}\n{pair.logs()}")
			talk.both("chat 1")
			time.sleep(0.05)
		early = [(), (0,), (1,)][turn % 3]
		for i in early:
			talk.tell(i, "poke")
			talk.expect(i, "poked")
		time.sleep(0.05)
		with NoSessions(pair):
			pair.wait("without a session", lambda: not sessions(pair))
			for i in {0, 1} - {*early}:
				talk.tell(i, "poke")
				talk.expect(i, "poked")
			time.sleep(0.05)
		pair.wait("a session", lambda: sessions(pair) == 2)
		until = time.monotonic() + LANE_S
		while not on_lanes(pair):
			if time.monotonic() > until:
				raise Failure(f"round {turn}: no lane with a session:\n{pair.logs()}")
			talk.both("chat 4")
			time.sleep(0.02)
		talk.both("chat 10")
		return True

	with Pair(build, **{**SETTINGS, **QUICK_LOSS}) as pair:
		pair.warm_up()
		met = tried = 0
		while met < rounds:
			tried += 1
			if tried > 10 * rounds:
				raise Failure(f"{met} lanes were met in the making, of {tried}")
			talk = Talk(pair)
			try:
				met += act(pair, talk, met)
			finally:
				talk.end()
	yield from ()


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
	yield from talks(build, min(rounds, 4), act, **QUICK_LOSS,
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


def a_program_closes_without_a_daemon(build, rounds):
	"""A close waits for a successor for a while, which sees to the rest."""
	def act(pair, talk, turn):
		victim = turn % 2
		talk.tell(0, "write 200000")
		talk.expect(0, "wrote")
		pair.daemons[victim].kill()
		talk.tell(0, "close")
		time.sleep(0.1)
		pair.daemons[victim].start()
		talk.tell(1, "read 300000")
		talk.expect(0, "closed")
		talk.expect(1, "200000 eof")
	yield from talks(build, rounds, act, demote_wait_ms=10000)


def an_end_in_order_has_a_limit(build, rounds):
	"""A program that is stopped keeps no daemon from its end; its successor goes on."""
	def act(pair, talk, turn):
		victim = turn % 2
		talk.tell(0, "write 600000")
		time.sleep(0.05)
		talk.programs[victim].send_signal(signal.SIGSTOP)
		stop(pair, victim)
		if pair.logs().count("are left after") != turn + 1:
			raise Failure(f"round {turn}: it did not wait in vain:\n{pair.logs()}")
		talk.programs[victim].send_signal(signal.SIGCONT)
		talk.tell(1, "read 600000")
		talk.expect(0, "wrote")
		talk.expect(1, "600000 ok")
		talk.both("chat 10")
	yield from talks(build, min(rounds, 4), act, stop_wait_ms=300)


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


if __name__ == "__main__":
	main([
		a_session_is_lost_and_comes_back,
		a_session_is_lost_while_a_lane_is_made,
		a_session_does_not_come_back,
		a_program_is_stopped_when_its_daemon_dies,
		a_program_is_idle_when_its_daemon_dies,
		a_daemon_dies_behind_a_half_close,
		a_program_leaves_the_rest_to_its_daemon,
		a_program_closes_without_a_daemon,
		an_end_in_order_has_a_limit,
		a_daemon_does_not_come_back,
		program_and_daemon_die_together,
	])
