# SPDX-License-Identifier: MIT
"""Ends of programs and daemons on a lane between hosts: what was written before the end arrives, or the
other end sees a reset; never does a short stream end as if it were whole. tests/lib/relay plays both
daemons.

usage: between.py BUILD_DIR [CASE…]
"""
import argparse
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Private
from tap import Tap

# Less than a ring, so that a write of it does not wait for anybody.
BYTES = 100000
WAIT_S = 20
ANSWER_S = 10

# Both ends say something until their connection is on a lane, and then do what they are told: they
# read a line each from standard input, and tell what came of it.
PROGRAM = """
import os, socket, sys, time
role, port = sys.argv[1], int(sys.argv[2])
if role == "server":
	listener = socket.create_server(("127.0.0.1", port))
	print("listens", flush=True)
	sock = listener.accept()[0]
else:
	sock = socket.create_connection(("127.0.0.1", port))
for i in range(int(sys.argv[3])):
	sock.sendall(b"x")
	sock.recv(1, socket.MSG_WAITALL)
	time.sleep(0.002)
print("runs", flush=True)
for line in sys.stdin:
	word, number = line.split()
	if word == "send":
		sock.sendall(bytes(int(number)))
		print("sent", flush=True)
	elif word == "receive":
		got, end = 0, "eof"
		try:
			while True:
				n = len(sock.recv(65536))
				got += n
				if not n:
					break
		except OSError as error:
			end = type(error).__name__
		print(f"received {got} {end}", flush=True)
	elif word == "shut":
		sock.shutdown(socket.SHUT_WR)
		print("shut", flush=True)
	elif word == "exit":
		os._exit(0)
"""


class End:
	"""A program at one end of the connection."""

	def __init__(self, private, role, port, rounds=100):
		env = dict(private.env, LD_PRELOAD=private.preload())
		self.process = subprocess.Popen([sys.executable, "-c", PROGRAM, role, str(port), str(rounds)],
						env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
						text=True)
		self.lines = queue.Queue()
		threading.Thread(target=self._read, daemon=True).start()

	def _read(self):
		for line in self.process.stdout:
			self.lines.put(line.strip())
		self.lines.put("ended")

	def tell(self, text):
		self.process.stdin.write(text + "\n")
		self.process.stdin.flush()

	def answer(self):
		try:
			return self.lines.get(timeout=ANSWER_S)
		except queue.Empty:
			return "nothing"

	def kill(self):
		self.process.kill()
		self.process.wait()


def free_port():
	with socket.create_server(("127.0.0.1", 0)) as sock:
		return sock.getsockname()[1]


def pair(private):
	"""Two programs whose connection is on a lane."""
	port = free_port()
	server = End(private, "server", port)
	server.answer()
	client = End(private, "client", port)
	found = [server.answer(), client.answer()]
	states = [end["state"] for end in private.ask("ss")["connections"]]
	if found != ["runs", "runs"] or len(states) != 2 or not set(states) <= {"ring", "mapped"}:
		raise AssertionError(f"no lane: {found}, {states}")
	return server, client


def expect(found, wanted):
	return [] if found in wanted else [f"{found!r}, not one of {wanted}"]


def exit_behind_a_write(private):
	server, client = pair(private)
	server.tell("receive 0")
	client.tell(f"send {BYTES}\nexit 0")
	return expect(server.answer(), [f"received {BYTES} eof"])


def killed_behind_a_write(private):
	server, client = pair(private)
	client.tell(f"send {BYTES}")
	client.answer()
	client.kill()
	server.tell("receive 0")
	return expect(server.answer(), [f"received {BYTES} eof"])


def lost_link_and_exit(private):
	server, client = pair(private)
	server.tell("receive 0")
	private.daemon.send_signal(signal.SIGSTOP)
	client.tell(f"send {BYTES}\nexit 0")
	client.answer()
	time.sleep(0.2)
	private.daemon.send_signal(signal.SIGUSR1)
	private.daemon.send_signal(signal.SIGCONT)
	return expect(server.answer(), [f"received {BYTES} eof"])


def program_and_daemon_killed(private):
	server, client = pair(private)
	private.daemon.send_signal(signal.SIGSTOP)
	client.tell(f"send {BYTES}")
	client.answer()
	client.kill()
	private.kill()
	server.tell("receive 0")
	return expect(server.answer(), ["received 0 ConnectionResetError"])


def daemon_killed_and_started(private):
	server, client = pair(private)
	private.daemon.send_signal(signal.SIGSTOP)
	client.tell(f"send {BYTES}")
	client.answer()
	server.tell("receive 0")
	private.kill()
	private.start()
	sent = BYTES
	# Until the new daemon knows the lane, it would die with its program.
	while len(private.ask("ss")["connections"]) < 2 and sent < BYTES + 1000:
		client.tell("send 1")
		client.answer()
		sent += 1
		time.sleep(0.02)
	client.tell("exit 0")
	return expect(server.answer(), [f"received {sent} eof"])


def daemon_gone_for_good(private):
	server, client = pair(private)
	private.kill()
	begin = time.monotonic()
	for end in (server, client):
		end.tell("receive 0")
	found = expect(server.answer(), ["received 0 ConnectionResetError"])
	found += expect(client.answer(), ["received 0 ConnectionResetError"])
	took = time.monotonic() - begin
	if not 0.5 < took < 5:
		found.append(f"it took {took:.1f} s, and the limit is 1 s")
	return found


def daemon_dies_before_it_tells(private):
	"""One end is on a lane of which the other never hears, and for which it asks no more."""
	port = free_port()
	server = End(private, "server", port)
	server.answer()
	client = End(private, "client", port)
	found = expect([server.answer(), client.answer()], [["runs", "runs"]])
	time.sleep(2 * LIMITS_S[daemon_dies_before_it_tells])
	for first, second in ((server, client), (client, server)):
		first.tell(f"send {BYTES}\nshut 0")
		found += expect([first.answer(), first.answer()], [["sent", "shut"]])
		second.tell("receive 0")
		found += expect(second.answer(), [f"received {BYTES} eof"])
	if "the daemon of its host dies" not in private.log_text():
		found.append("no daemon has died")
	return found


def ready(private, end, states):
	"""Have @end send single bytes until the daemon knows its side in one of @states; how many."""
	for sent in range(1000):
		if any(found["pid"] == end.process.pid and found["state"] in states
		       for found in private.ask("ss")["connections"]):
			return sent
		end.tell("send 1")
		end.answer()
		time.sleep(0.01)
	raise AssertionError(f"not {states}")


def shut_before_the_other_end_is_there(private):
	"""One end has its part of a lane, and shuts its direction; then the other end does not come. The
	relay takes the lane back then, of which a program hears at its next call. (A daemon keeps a lane
	that has begun, and sends the FIN itself.)"""
	port = free_port()
	server = End(private, "server", port, 0)
	server.answer()
	client = End(private, "client", port, 0)
	found = expect([server.answer(), client.answer()], [["runs", "runs"]])
	there = ready(private, server, ["registered"])
	here = ready(private, client, ["ring", "mapped"])
	for end in (client, server):
		end.tell("shut 0")
		end.answer()
		end.tell("receive 0")
	found += expect(client.answer(), [f"received {there} eof"])
	until = time.monotonic() + ANSWER_S
	while server.lines.empty() and time.monotonic() < until:
		client.tell("receive 0")
		found += expect(client.answer(), ["received 0 eof"])
		time.sleep(0.01)
	return found + expect(server.answer(), [f"received {here} eof"])


LIMITS_S = {daemon_gone_for_good: 1, daemon_dies_before_it_tells: 1}
SETTINGS = {daemon_dies_before_it_tells: {"half_begun": 1}}

CASES = (exit_behind_a_write, killed_behind_a_write, lost_link_and_exit, program_and_daemon_killed,
	 daemon_killed_and_started, daemon_gone_for_good, daemon_dies_before_it_tells, shut_before_the_other_end_is_there)


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
	parser.add_argument("build")
	parser.add_argument("cases", nargs="*")
	args = parser.parse_args()
	tap = Tap()
	signal.alarm(len(CASES) * WAIT_S)
	for case in CASES:
		if args.cases and case.__name__ not in args.cases:
			continue
		relay = dict(SETTINGS.get(case, {}), delay_ms=1)
		with Private(args.build, relay=relay, promote_after=1, backoff_min_ms=60000,
			     backoff_max_ms=60000, resume_timeout_s=LIMITS_S.get(case, 30)) as private:
			try:
				found = case(private)
			except (AssertionError, OSError, ValueError) as error:
				found = [str(error)]
			if found:
				tap.diag(private.log_text())
			tap.result(case.__name__, found)
	tap.end()


main()
