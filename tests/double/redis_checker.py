# SPDX-License-Identifier: MIT
"""A client of redis that knows what every answer must be: many connections, each with keys of its
own, batches of commands on all of them at once, until a line or the end of standard input; then
every key is read once more. Prints a line "ready", and at the end one of JSON.

usage: redis_checker.py ADDRESS PORT CONNECTIONS SEED
"""
import json
import random
import select
import socket
import sys

KEYS = 8
VALUE_MAX = 60000
BATCH_MAX = 6
# Long enough for every time limit of a lane; a connection that is silent for longer is dead.
SILENT_S = 60
PAUSE_S = 0.02
BLOCK = random.Random(11).randbytes(2 * VALUE_MAX)


class Wrong(Exception):
	"""An answer that is not the one that was due."""


def command(*words):
	words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
	return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Connection:
	def __init__(self, address, port, number, seed):
		self.sock = socket.create_connection((address, port), timeout=SILENT_S)
		self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
		self.file = self.sock.makefile("rb")
		self.number = number
		self.chance = random.Random(seed * 1000 + number)
		self.values = {}
		self.due = []
		self.out = b""
		self.commands = self.bytes = 0

	def key(self, i):
		return f"{self.number}:{i}"

	def add(self, answer, *words):
		"""A command to be sent, and its answer: bytes of a value, or a line."""
		self.out += command(*words)
		self.due.append((words[0], words[1], answer))

	def plan(self):
		"""A batch, by the model of what the server holds."""
		for _ in range(self.chance.randrange(1, BATCH_MAX)):
			key = self.key(self.chance.randrange(KEYS))
			what = self.chance.choice(("set", "get", "get", "append", "count"))
			old = self.values.get(key)
			if what == "count":
				self.values["n" + key] = self.values.get("n" + key, 0) + 1
				self.add(b":%d" % self.values["n" + key], "INCR", "n" + key)
			elif what == "set" or old is None or what == "append" and len(old) > VALUE_MAX:
				size = self.chance.choice((3, 100, 1000, 5000, VALUE_MAX))
				begin = self.chance.randrange(VALUE_MAX)
				self.values[key] = BLOCK[begin:begin + size]
				self.add(b"+OK", "SET", key, self.values[key])
			elif what == "append":
				more = BLOCK[self.chance.randrange(VALUE_MAX):][:self.chance.randrange(1, 2000)]
				self.values[key] = old + more
				self.add(b":%d" % len(self.values[key]), "APPEND", key, more)
			else:
				self.add(old, "GET", key)

	def look(self, begin, end):
		"""Some of what the server must hold."""
		for key, value in list(self.values.items())[begin:end]:
			self.add(str(value).encode() if isinstance(value, int) else value, "GET", key)

	def send(self):
		self.sock.sendall(self.out)
		self.bytes += len(self.out)
		self.out = b""

	def check(self):
		"""Take every answer that is due."""
		for name, key, answer in self.due:
			line = self.file.readline()
			if not line.endswith(b"\r\n"):
				raise Wrong(f"connection {self.number} ended where {name} {key} was due an answer")
			found = line[:-2]
			if line.startswith(b"$"):
				found = self.file.read(int(line[1:]) + 2)[:-2]
			if found != answer:
				raise Wrong(f"connection {self.number}, {name} {key}: {len(found)} bytes {found[:40]}…, "
					    f"not {len(answer)} bytes {answer[:40]}…")
			self.commands += 1
			self.bytes += len(found)
		self.due = []


def turn(connections, plan):
	"""The same on each connection that is alive; what is wrong."""
	for step in (plan, Connection.send, Connection.check):
		for connection in list(connections):
			try:
				step(connection)
			except (OSError, Wrong) as error:
				connections.remove(connection)
				yield f"connection {connection.number}, port {connection.sock.getsockname()[1]}: {error}"


def main():
	address, port, count, seed = sys.argv[1], *map(int, sys.argv[2:])
	connections = [Connection(address, port, i, seed) for i in range(count)]
	everyone = list(connections)
	problems = []
	print("ready", flush=True)
	while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
		problems += turn(connections, Connection.plan)
	# In parts: a server that can't write reads no more.
	for i in range(KEYS):
		problems += turn(connections, lambda one, i=i: one.look(2 * i, 2 * i + 2))
	print(json.dumps({"problems": problems, "connections": count, "alive": len(connections),
			  "commands": sum(one.commands for one in everyone),
			  "bytes": sum(one.bytes for one in everyone)}), flush=True)
	sys.exit(1 if problems else 0)


if __name__ == "__main__":
	main()
