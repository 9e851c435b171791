# SPDX-License-Identifier: MIT
"""Orders to a daemon that means harm (hostile/hostile.h says more), and words of its language.

	orders = Orders(FOLDER, "shuntd")
	subprocess.Popen(…, env=dict(env, **orders.env(BUILD)))
	orders.say("10.88.0.1", frame(OFFER, …))
	orders.send(CDC, (4, 4, 7, True))
"""
import mmap
import os
import socket
import struct
import time

# As in hostile.h.
PATCHES, BYTES, PRIVATE_BYTES = 8, 1 << 20, 256
NOTHING, SESSION, SEND, WRITE, FRAME, CONNECT = range(6)
HEAD = struct.Struct("=8I")
PATCH = struct.Struct("=IIQII")
LENS = struct.Struct("=II")
AT_LENS = HEAD.size + PATCHES * PATCH.size
AT_PRIVATE = AT_LENS + LENS.size
AT_BYTES = AT_PRIVATE + PRIVATE_BYTES
SIZE = AT_BYTES + BYTES

# enum peer_type, enum link_msg_type, enum link_word
HELLO, OFFER, WITHDRAW, MATCH, REFUSE, NONCE_ASK, NONCE, LOST, REPLAYED, PING, PONG, BYE = range(1, 13)
CDC, STATE, LANE_DONE, CREDIT, TEST_ASK, TEST_ANSWER, LINK_BYE = range(1, 8)


class Orders:
	"""To the process named @program, by a file in @folder."""

	def __init__(self, folder, program):
		self.path = os.path.join(folder, "orders")
		self.program = program
		with open(self.path, "w+b") as file:
			file.truncate(SIZE)
			self.map = mmap.mmap(file.fileno(), SIZE)

	def env(self, build):
		"""What the program's environment needs."""
		return {"HOSTILE_FILE": self.path, "HOSTILE_PROGRAM": self.program,
			"LD_PRELOAD": os.path.join(build, "tests", "lib", "hostile", "libhostile.so")}

	def _give(self, kind, target=0, kind_of=0, repeat=0, new_len=0, patches=(), data=b""):
		given = HEAD.unpack_from(self.map)[0]
		for i, (at, count, value, is_added) in enumerate(patches):
			PATCH.pack_into(self.map, HEAD.size + i * PATCH.size, at, count, value % (1 << 64), is_added, 0)
		struct.pack_into("=I", self.map, AT_LENS + 4, len(data))
		self.map[AT_BYTES:AT_BYTES + len(data)] = data
		struct.pack_into("=6I", self.map, 8, kind, target, kind_of, repeat, new_len, len(patches))
		# Last: with this it holds.
		struct.pack_into("=I", self.map, 0, given + 1)

	def say(self, address, data, repeat=0):
		"""@data, and so many times more, on the session with the daemon at @address."""
		target = struct.unpack("=I", socket.inet_aton(address))[0]
		self._give(SESSION, target=target, data=data, repeat=repeat)

	def send(self, kind, *patches, repeat=0, new_len=0):
		"""The next message of @kind (0: any) on a link with its bytes changed: each patch is (at, bytes,
		value, whether it is added)."""
		self._give(SEND, kind_of=kind, patches=patches, repeat=repeat, new_len=new_len)

	def write(self, address=0, rkey=0):
		"""The next RDMA WRITE by so much beside the place that is right."""
		self._give(WRITE, patches=((0, 0, address, False), (0, 0, rkey, False)))

	def frame(self, address, kind, *patches):
		"""The next message of @kind to the daemon at @address that is the first of a piece, changed."""
		target = struct.unpack("=I", socket.inet_aton(address))[0]
		self._give(FRAME, target=target, kind_of=kind, patches=patches)

	def connect(self, *patches, is_kept_back=False):
		"""The next dial over RDMA with its private data changed, or not done."""
		self._give(CONNECT, kind_of=int(is_kept_back), patches=patches)

	def wait(self, timeout=10):
		"""Whether it has been carried out."""
		until = time.monotonic() + timeout
		while True:
			given, done = HEAD.unpack_from(self.map)[:2]
			if given == done or time.monotonic() > until:
				return given == done
			time.sleep(0.005)

	def last_private(self):
		"""The private data of its last dial."""
		count = LENS.unpack_from(self.map, AT_LENS)[0]
		return bytes(self.map[AT_PRIVATE:AT_PRIVATE + count])


def frame(kind, fields):
	return struct.pack(">IHH", 8 + len(fields), kind, 0) + fields


def address(text, port):
	"""A struct peer_address."""
	return b"\x04" + socket.inet_aton(text) + bytes(12) + struct.pack(">H", port)


def hello(uuid, rdma=()):
	"""@rdma: (address, port) of RoCE v2 devices."""
	fields = struct.pack(">IH16s32sH", 0x53687064, 1, uuid, b"by hand", len(rdma))
	for text, port in rdma:
		gid = bytes(10) + b"\xff\xff" + socket.inet_aton(text)
		fields += struct.pack(">BBB16s", 2, 2, 24, gid) + address(text, port) + b"rdma0".ljust(16, b"\0")
	return frame(HELLO, fields)


def offer(number, local, remote, ring_bytes=65536, figures=(0, 0, 0), answers=0):
	return frame(OFFER, struct.pack(">Q", number) + address(*local) + address(*remote) +
		     struct.pack(">QQQBQIQ", *figures, 1, ring_bytes, 1, answers))


def match(own, other, token=(0, 1), epoch=1, link=1):
	return frame(MATCH, struct.pack(">QQIIIIQQQ", own, other, *token, epoch, 77, 4096, 65536, link))


def refuse(number, reason=1):
	return frame(REFUSE, struct.pack(">QH", number, reason))


def nonce_ask(number, source=0, target=0):
	return frame(NONCE_ASK, struct.pack(">QHH", number, source, target))


def lane_at(kind, number, local, remote, epoch=1, offset=0):
	return frame(kind, struct.pack(">Q", number) + address(*local) + address(*remote) +
		     struct.pack(">IQ", epoch, offset))
