# SPDX-License-Identifier: MIT
"""Two hosts: two network namespaces joined by a veth pair, a daemon with an RDMA device of the verbs
double in each, and programs under Shunt that talk from one to the other.

usage: peers.py BUILD_DIR
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure, Private
from tap import Tap
from verbs_host import Host

WAIT_S = 30
ADDRESSES = ("10.99.0.1", "10.99.0.2")
MIB = 1 << 20

# A server that sends back what it gets, and a client that checks that, at a rate: argv is the
# address, or nothing, then port, bytes and bytes per second.
SERVER = """
import socket, sys
with socket.create_server(("0.0.0.0", int(sys.argv[1]))) as listener:
	peer = listener.accept()[0]
	while data := peer.recv(65536):
		peer.sendall(data)
"""
CLIENT = """
import random, socket, sys, time
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
total, rate, pattern, done = int(sys.argv[3]), int(sys.argv[4]), random.Random(7), 0
since = time.monotonic()
while done < total:
	block = pattern.randbytes(16384)
	peer.sendall(block)
	got = b""
	while len(got) < len(block):
		more = peer.recv(len(block) - len(got))
		assert more, f"the end after {done + len(got)} bytes"
		got += more
	assert got == block, f"wrong bytes at {done}"
	done += len(block)
	time.sleep(max(0, since + done / rate - time.monotonic()))
peer.shutdown(socket.SHUT_WR)
assert not peer.recv(1)
"""
# A hundred connections of one request each.
SHORT_SERVER = """
import socket
with socket.create_server(("0.0.0.0", 7701)) as listener:
	for _ in range(100):
		with listener.accept()[0] as peer:
			peer.sendall(peer.recv(100))
"""
SHORT_CLIENT = """
import socket, sys
for _ in range(100):
	with socket.create_connection((sys.argv[1], 7701)) as peer:
		peer.sendall(b"x" * 50)
		assert peer.recv(100) and not peer.recv(1)
"""


class Peer(Private):
	"""The daemon of one host. @enter: the words that run a command in its namespace."""

	def __init__(self, build, index, enter, rdma, **settings):
		super().__init__(build, **settings)
		self.index = index
		self.enter = enter
		self.rdma = rdma

	def start(self):
		self.env.update(VERBS_DOUBLE_DIR=self.rdma.dir,
				SHUNT_CACHE_DIR=os.path.join(self.dir, "cache"))
		libraries = os.path.join(self.build, "tests", "lib", "verbs")
		self.daemon = subprocess.Popen(
			[*self.enter, os.path.join(self.build, "daemon", "shuntd")],
			env={**self.env, "LD_LIBRARY_PATH": libraries}, stdout=self.log, stderr=self.log,
			stdin=subprocess.DEVNULL)
		until = time.monotonic() + WAIT_S
		while self.run_tool("status").returncode:
			if self.daemon.poll() is not None or time.monotonic() > until:
				raise Failure("the daemon did not come up:\n" + self.log_text())
			time.sleep(0.01)

	def stop(self):
		super().stop()
		if self.daemon and self.daemon.returncode not in (0, -9, None):
			raise Failure(f"the daemon ended with {self.daemon.returncode}:\n{self.log_text()}")

	def peers(self):
		return self.ask("peers")

	def total(self, key):
		"""A count, over all sessions there are and were."""
		answer = self.peers()
		return answer["ended_sessions"][key] + sum(peer["counts"][key] for peer in answer["peers"])

	def wait(self, what, condition):
		until = time.monotonic() + WAIT_S
		while True:
			answer = self.peers()
			if condition(answer):
				return answer
			if time.monotonic() > until:
				raise Failure(f"not {what}: {json.dumps(answer)}; {json.dumps(self.ask('stats'))}; log:\n{self.log_text()}")
			time.sleep(0.02)

	def wait_total(self, key, least):
		until = time.monotonic() + WAIT_S
		while self.total(key) < least:
			if time.monotonic() > until:
				raise Failure(f"{key} stay below {least}: {json.dumps(self.peers())}; log:\n"
					      f"{self.log_text()}")
			time.sleep(0.02)

	def program(self, text, *words, is_plain=False):
		"""Run a Python program here, under Shunt or plain."""
		command = [sys.executable, "-c", text, *map(str, words)]
		return subprocess.Popen([*self.enter, *(command if is_plain else self.under(command))],
					env=self.env, text=True, stdout=subprocess.PIPE,
					stderr=subprocess.PIPE)


def run(*words):
	subprocess.run(words, check=True, capture_output=True, text=True)


def netns_of(pid):
	return os.readlink(f"/proc/{pid}/ns/net")


def join_namespaces():
	"""This process is host 0, the other one a sleeper in a namespace of its own: that process."""
	other = subprocess.Popen(["unshare", "-n", "sleep", "1000"], stdin=subprocess.DEVNULL)
	until = time.monotonic() + WAIT_S
	while netns_of(other.pid) == netns_of(os.getpid()):
		if time.monotonic() > until:
			raise Failure("no second network namespace")
		time.sleep(0.01)
	inside = ("nsenter", "-t", str(other.pid), "-n")
	run("ip", "link", "set", "lo", "up")
	run("ip", "link", "add", "va", "type", "veth", "peer", "name", "vb", "netns", str(other.pid))
	run("ip", "addr", "add", ADDRESSES[0] + "/24", "dev", "va")
	run("ip", "link", "set", "va", "up")
	run(*inside, "ip", "link", "set", "lo", "up")
	run(*inside, "ip", "addr", "add", ADDRESSES[1] + "/24", "dev", "vb")
	run(*inside, "ip", "link", "set", "vb", "up")
	return other, inside


def finish(processes):
	"""What is wrong with programs that should end well."""
	for process in processes:
		try:
			errors = process.communicate(timeout=60)[1]
		except subprocess.TimeoutExpired:
			process.kill()
			errors = "not ended: " + process.communicate()[1]
		if process.returncode:
			yield f"{process.args[-5:]}: status {process.returncode}: {errors}"


def stream_both(peers, meanwhile=None, count=8 * MIB, is_plain=False):
	"""A checked stream from host 0 to host 1 and back. What is wrong with it."""
	server = peers[1].program(SERVER, 7700, is_plain=is_plain)
	time.sleep(0.5)
	client = peers[0].program(CLIENT, ADDRESSES[1], 7700, count, 8 * MIB)
	if meanwhile:
		meanwhile()
	yield from finish((client, server))


def sees_the_other(peers):
	"""Sessions come up by themselves when programs talk, with the RDMA addresses of the other."""
	yield from stream_both(peers)
	for index, peer in enumerate(peers):
		other = peers[not index]
		answer = peer.wait("a session", lambda a: any(p["state"] == "up" for p in a["peers"]))
		[session] = answer["peers"]
		if session["address"] != ADDRESSES[not index] or session["local"] != ADDRESSES[index]:
			yield f"host {index}: session of {session['local']} with {session['address']}"
		if session["uuid"] != other.peers()["uuid"] or session["secured_by"] != "key":
			yield f"host {index}: {session}"
		peer.wait("the other's RDMA device", lambda a: a["peers"] and a["peers"][0].get("rdma"))
		rdma = peer.peers()["peers"][0]["rdma"][0]
		if rdma["device"] != "rxe0" or rdma["address"] != ADDRESSES[not index]:
			yield f"host {index}: RDMA of the other: {rdma}"
		if peer.total("matches") < 1 or peer.total("offers_sent") < 1:
			yield f"host {index}: nothing was matched: {answer}"


def text_shows_it(peers):
	shown = peers[0].run_tool("peers")
	for pattern in (r"^this daemon: UUID [0-9a-f-]{36}, listening on port 7609, secured by key$",
			rf"^{ADDRESSES[1]} from {ADDRESSES[0]}: up, secured by key, ",
			r"^  daemon       shuntd \d", r"^  offers       \d+ sent, \d+ received, [1-9]\d* matched",
			r"^  rdma         rxe0, RoCEv2, 10\.99\.0\.2"):
		if not re.search(pattern, shown.stdout, re.M):
			yield f"no {pattern} in\n{shown.stdout}{shown.stderr}"


def short_ones_cost_nothing(peers):
	"""A hundred connections of one request: no offer, no call."""
	before = [(peer.total("messages_sent"), peer.peers()["dials"]) for peer in peers]
	server = peers[1].program(SHORT_SERVER)
	time.sleep(0.5)
	yield from finish((peers[0].program(SHORT_CLIENT, ADDRESSES[1]), server))
	for index, peer in enumerate(peers):
		sent, dials = before[index]
		# Nothing but questions whether the other lives.
		if peer.total("offers_sent") != peers_offers[index] or peer.peers()["dials"] != dials:
			yield f"host {index}: {peer.peers()}"
		if peer.total("messages_sent") - sent > 10:
			yield f"host {index}: {peer.total('messages_sent') - sent} messages"


peers_offers = [0, 0]


def killed_daemons(peers):
	"""kill -9 and a new start of either side in the middle of a stream: bytes are right, sessions
	come back, and there are matches again."""
	for victim in (0, 1, 0, 1):
		def kill(victim=victim):
			time.sleep(0.5)
			peers[victim].kill()
			peers[victim].start()
		yield from stream_both(peers, meanwhile=kill, count=24 * MIB)
		before = [peer.total("matches") for peer in peers]
		yield from stream_both(peers)
		for index, peer in enumerate(peers):
			try:
				peer.wait_total("matches", before[index] + 1)
			except Failure as failure:
				yield str(failure)


def absent_daemon(peers):
	"""The other host's daemon is away: the stream runs, and calls keep to the back-off."""
	peers[1].stop()
	before = peers[0].peers()["dials"]
	yield from stream_both(peers, count=48 * MIB, is_plain=True)
	[host] = peers[0].wait("a host that does not answer", lambda a: a["unreachable"])["unreachable"]
	if host["address"] != ADDRESSES[1] or not host["why"]:
		yield f"{host}"
	dials = peers[0].peers()["dials"] - before
	# 6 s: at 0.2, 0.6, 1.4, 3.0, 6.2 s and not more often.
	if not 1 <= dials <= 6:
		yield f"{dials} calls in six seconds"
	peers[1].start()


def main():
	if "PEERS_NETNS" not in os.environ:
		for tool in ("ip", "unshare", "nsenter"):
			if not shutil.which(tool):
				tap = Tap()
				tap.skip("two_hosts", f"no {tool} here (iproute2, util-linux)")
				tap.end()
		os.environ["PEERS_NETNS"] = "1"
		user = [] if os.geteuid() == 0 else ["-r"]
		os.execvp("unshare", ["unshare", "-n", *user, sys.executable, *sys.argv])
	tap = Tap()
	other, inside = join_namespaces()
	with tempfile.TemporaryDirectory(prefix="shunt-peers-") as folder:
		key = os.path.join(folder, "key")
		with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
			file.write(os.urandom(32).hex() + "\n")
		settings = {"peer_sessions": "on", "peer_key": key, "peer_retry_min_ms": 200,
			    "rdma_rescan_ms": 100}
		hosts = [Host(), None]
		hosts[1] = Host(network_of=hosts[0])
		for index, host in enumerate(hosts):
			host.add("rxe0", "rxe", ADDRESSES[index])
		try:
			with Peer(sys.argv[1], 0, (), hosts[0], **settings) as one, \
			     Peer(sys.argv[1], 1, inside, hosts[1], **settings) as two:
				peers = (one, two)
				tap.result("sessions_come_up_when_programs_talk", sees_the_other(peers))
				tap.result("shunt_peers_shows_them", text_shows_it(peers))
				peers_offers[:] = [peer.total("offers_sent") for peer in peers]
				tap.result("short_connections_cost_nothing", short_ones_cost_nothing(peers))
				tap.result("daemons_that_are_killed_come_back", killed_daemons(peers))
				tap.result("an_absent_daemon_is_left_in_peace", absent_daemon(peers))
		finally:
			other.kill()
			other.wait()
			for host in hosts:
				host.close()
	tap.end()


main()
