# SPDX-License-Identifier: MIT
"""One end of a connection, told on standard input what to do, a line each; what came of it is said
on standard output. What is sent is a pattern, and is checked at the other end.

usage: talker.py listen|connect ADDRESS PORT

  chat N        N messages there and back
  write N       send N bytes
  fill          send what is taken at once
  last N        send N bytes, and exit at once
  read N        receive N bytes, or to the end
  poke          look whether there is anything to receive
  shut          send no more
  close         close, and do nothing
  exit          at once
"""
import os
import random
import select
import socket
import sys

BLOCK = random.Random(7).randbytes(65521)


def pattern(offset, count):
	at = offset % len(BLOCK)
	return (BLOCK[at:] + BLOCK * (count // len(BLOCK) + 1))[:count]


class Talker:
	def __init__(self, how, address, port):
		self.is_first = how == "connect"
		self.sent = self.received = 0
		if self.is_first:
			self.sock = socket.create_connection((address, port))
		else:
			with socket.create_server((address, port)) as listener:
				print("listening", flush=True)
				self.sock, _ = listener.accept()
		self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

	def write(self, count):
		self.sock.sendall(pattern(self.sent, count))
		self.sent += count
		return "wrote"

	def read(self, count):
		"""@count bytes: how many came, and how it ended."""
		begin, until = self.received, self.received + count
		while self.received < until:
			try:
				data = self.sock.recv(min(until - self.received, 1 << 17))
			except ConnectionResetError:
				return f"{self.received - begin} reset"
			except OSError as error:
				return f"{self.received - begin} {error}"
			if not data:
				return f"{self.received - begin} eof"
			if data != pattern(self.received, len(data)):
				return f"{self.received - begin} wrong"
			self.received += len(data)
		return f"{self.received - begin} ok"

	def chat(self, count):
		for _ in range(count):
			if self.is_first:
				self.write(100)
			said = self.read(100)
			if not said.endswith("ok"):
				return said
			if not self.is_first:
				self.write(100)
		return "ok"

	def fill(self):
		"""Until nothing is taken for a while."""
		self.sock.setblocking(False)
		while select.select([], [self.sock], [], 0.5)[1]:
			try:
				self.sent += self.sock.send(pattern(self.sent, 65536))
			except BlockingIOError:
				pass
		self.sock.setblocking(True)
		return str(self.sent)

	def obey(self, words):
		count = int(words[1]) if len(words) > 1 else 0
		if words[0] == "chat":
			return self.chat(count)
		if words[0] == "write":
			return self.write(count)
		if words[0] == "fill":
			return self.fill()
		if words[0] == "last":
			self.write(count)
			os._exit(0)
		if words[0] == "poke":
			return "poked" if not select.select([self.sock], [], [], 0)[0] else "not empty"
		if words[0] == "read":
			return self.read(count)
		if words[0] == "shut":
			self.sock.shutdown(socket.SHUT_WR)
			return "shut"
		if words[0] == "close":
			self.sock.close()
			return "closed"
		os._exit(0)


def main():
	talker = Talker(sys.argv[1], sys.argv[2], int(sys.argv[3]))
	print("connected", flush=True)
	for line in sys.stdin:
		print(talker.obey(line.split()), flush=True)


if __name__ == "__main__":
	main()
