# SPDX-License-Identifier: MIT
"""Lanes between hosts whose path goes and comes back, on the verbs double: the port is down for a while,
the device is taken out and plugged in again. A stream is checked meanwhile; and whoever has waited
longer and longer between dials does not wait any more when there is a path again.

usage: remote_paths.py BUILD_DIR [CASE]...
"""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from remote_lanes import Pair, Failure
from tap import Tap

# What a daemon without a path says of its own, and of the other's.
NO_PATH = ("no address of its devices can be reached from ours", "no link: the other daemon makes none now")
# So often in vain, and the next pause is 6.4 s (daemon/links_impl.h): far above AT_ONCE_S.
IN_VAIN = 7
AT_ONCE_S = 4


def up(pair):
	"""How many links the daemons have had."""
	return [daemon.log_text().count("link up over") for daemon in pair.daemons]


def in_vain(daemon):
	return sum(daemon.log_text().count(text) for text in NO_PATH)


def path_comes_back(build, take, give):
	with Pair(build, backoff_min_ms=10, backoff_max_ms=50) as pair:
		pair.warm_up()

		def lose(programs):
			pair.wait("on a lane", lambda: pair.lanes(0) and pair.lanes(1))
			before, tried = up(pair), [in_vain(daemon) for daemon in pair.daemons]
			take(pair)
			pair.wait("tried in vain", lambda: all(
				in_vain(daemon) - old >= IN_VAIN for daemon, old in zip(pair.daemons, tried)))
			if up(pair) != before:
				yield f"links were made without a path:\n{pair.logs()}"
			lanes = [pair.lanes(i) for i in range(2)]
			begun = time.monotonic()
			give(pair)
			pair.wait("a link again", lambda: all(now > then for now, then in zip(up(pair), before)))
			took = time.monotonic() - begun
			if took > AT_ONCE_S:
				yield f"a link only {took:.1f} s after there was a path:\n{pair.logs()}"
			pair.wait("on a lane again", lambda: all(
				pair.lanes(i) > lanes[i] or programs[0].poll() is not None for i in range(2)))
			if any(program.poll() is not None for program in programs):
				yield f"the stream was over too early\n{pair.logs()}"

		yield from pair.run("--bytes", "8M", "--rate", "256K", "--max-op", "16K", "--timeout", "55",
				    meanwhile=lose)


def a_port_that_was_down_is_used_at_once(build):
	yield from path_comes_back(build, lambda pair: pair.hosts[0].port("mlx0", "down"),
				   lambda pair: pair.hosts[0].port("mlx0", "active"))


def a_device_that_comes_back_is_used_at_once(build):
	yield from path_comes_back(build, lambda pair: pair.hosts[1].remove("mlx1"),
				   lambda pair: pair.hosts[1].add("mlx1", "mlx5", "10.77.0.2"))


CASES = [a_port_that_was_down_is_used_at_once, a_device_that_comes_back_is_used_at_once]


def main():
	build = os.path.abspath(sys.argv[1])
	tap = Tap()
	for case in CASES:
		if sys.argv[2:] and case.__name__ not in sys.argv[2:]:
			continue
		try:
			problems = list(case(build))
		except Failure as failure:
			problems = [str(failure)]
		tap.result(case.__name__, problems)
	tap.end()


if __name__ == "__main__":
	main()
