# SPDX-License-Identifier: MIT
"""Lanes between hosts that a service manager keeps for the next daemon: also those of programs that
make no call, are stopped or gone. Two whole daemons in two network namespaces, each with a manager.

usage: remote_kept.py BUILD_DIR [--rounds N] [CASE]...
"""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from manager import Manager
from private import Failure
from remote_deaths import SETTINGS, main
from remote_lanes import WAIT_S, Daemon, Pair
from remote_programs import Talk



class Managed(Daemon):
	"""The daemon of one host, with a manager that keeps descriptors."""

	def start(self):
		if not self.manager:
			self.manager = Manager(self.dir)
		super().start()

	def __exit__(self, *exc):
		try:
			super().__exit__(*exc)
		finally:
			if self.manager:
				self.manager.close()


def crash(pair, *victims):
	"""What is kept of each is there for the next one."""
	for i in victims:
		pair.daemons[i].kill()
	for i in victims:
		pair.daemons[i].start()


def restored(pair):
	return pair.logs().count("taken over from a predecessor")


def talks(build, rounds, act, **settings):
	"""@act(pair, talk, round) as often, with two programs on a fresh lane that both managers keep;
	nothing is kept when they are gone."""
	with Pair(build, make=Managed, **{**SETTINGS, **settings}) as pair:
		pair.warm_up()
		for turn in range(rounds):
			with Talk(pair) as talk:
				for daemon in pair.daemons:
					if not daemon.manager.wait_kept(1):
						raise Failure(f"round {turn}: {len(daemon.manager.kept)} lanes are kept, not 1:\n"
							      f"{pair.logs()}")
				act(pair, talk, turn)
			for i, daemon in enumerate(pair.daemons):
				if not daemon.manager.wait_kept(0, WAIT_S):
					yield (f"round {turn}: manager {i} keeps {len(daemon.manager.kept)} lanes of programs "
					       f"that are gone:\n{pair.logs()}")
					return
		if restored(pair) < rounds:
			yield f"{restored(pair)} lanes were taken over in {rounds} rounds:\n{pair.logs()}"


def a_stopped_program_is_replayed_for(build, rounds):
	"""It has written and never runs again before all of it is at the other end."""
	def act(pair, talk, turn):
		talk.tell(0, "write 200000")
		talk.expect(0, "wrote")
		talk.programs[0].send_signal(signal.SIGSTOP)
		crash(pair, *[(0,), (0, 1)][turn % 2])
		talk.tell(1, "read 200000")
		talk.expect(1, "200000 ok")
		talk.programs[0].send_signal(signal.SIGCONT)
		talk.both("chat 10")
	yield from talks(build, rounds, act)


def an_idle_program_is_replayed_for(build, rounds):
	"""It makes no call that could wake it, neither before nor after its daemon's death."""
	def act(pair, talk, turn):
		talk.tell(0, "write 200000")
		talk.expect(0, "wrote")
		crash(pair, *[(0,), (1,), (0, 1)][turn % 3])
		talk.tell(1, "read 200000")
		talk.expect(1, "200000 ok")
		talk.both("chat 10")
	yield from talks(build, rounds, act)


def a_program_that_is_gone_is_replayed_for(build, rounds):
	"""It has ended in order with its last bytes on the lane, and then its daemon dies: as long as it
	lived somebody had to bring the lane, and nobody does any more."""
	def act(pair, talk, turn):
		talk.tell(0, "last 250000")
		talk.programs[0].wait(WAIT_S)
		crash(pair, *[(0,), (0, 1)][turn % 2])
		talk.tell(1, "read 1000000")
		talk.expect(1, "250000 eof")
	yield from talks(build, rounds, act)


def a_program_dies_while_there_is_no_daemon(build, rounds):
	"""What it had written arrives, and then the end of its connection."""
	def act(pair, talk, turn):
		talk.tell(0, "write 150000")
		talk.expect(0, "wrote")
		pair.daemons[0].kill()
		talk.programs[0].kill()
		talk.programs[0].wait(WAIT_S)
		pair.daemons[0].start()
		talk.tell(1, "read 1000000")
		talk.expect(1, "150000 eof", "150000 reset")
	yield from talks(build, rounds, act)


def a_connection_that_went_on_over_tcp_is_left_alone(build, rounds):
	"""Its daemons end in order and it goes back to TCP first, so that nothing of it is kept then."""
	def act(pair, talk, turn):
		for i in range(2):
			talk.tell(i, "chat 3000")
		for daemon in pair.daemons:
			daemon.stop()
		for i in range(2):
			talk.expect(i, "ok")
		for daemon in pair.daemons:
			if daemon.manager.kept:
				raise Failure(f"a lane that was left is kept:\n{pair.logs()}")
		for daemon in pair.daemons:
			daemon.start()
		talk.both("chat 10")
	for problem in talks(build, rounds, act):
		if "were taken over in" not in problem:
			yield problem


if __name__ == "__main__":
	main([
		a_stopped_program_is_replayed_for,
		an_idle_program_is_replayed_for,
		a_program_that_is_gone_is_replayed_for,
		a_program_dies_while_there_is_no_daemon,
		a_connection_that_went_on_over_tcp_is_left_alone,
	])
