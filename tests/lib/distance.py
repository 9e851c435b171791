# SPDX-License-Identifier: MIT
"""A cable that takes its time: two TUN devices, one in each of two network namespaces, and a thread that
carries each packet over when it is due. For tests that ask how often something goes to and fro.

	with Cable(("name0", "name1"), ("10.88.0.1/24", "10.88.0.2/24"), delay_s=0.1):
		…
"""
import collections
import fcntl
import os
import select
import struct
import subprocess
import threading
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
PACKET_MAX = 65536


def ip(*args):
	subprocess.run(["ip", *args], check=True, capture_output=True, text=True)


class Cable:
	"""Between the namespaces @names, which are there, with these addresses; delay: one way."""

	def __init__(self, names, addresses, delay_s):
		self.names, self.addresses, self.delay_s = names, addresses, delay_s
		self.fds = []
		self.ends = os.pipe()
		self.thread = threading.Thread(target=self._carry, daemon=True)

	def __enter__(self):
		for i, (name, address) in enumerate(zip(self.names, self.addresses)):
			device = f"cable{i}-{os.getpid() % 100000}"
			fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
			self.fds.append(fd)
			fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
			ip("link", "set", device, "netns", name)
			ip("-n", name, "address", "add", address, "dev", device)
			ip("-n", name, "link", "set", device, "up")
		self.thread.start()
		return self

	def __exit__(self, *exc):
		os.write(self.ends[1], b"x")
		self.thread.join()
		for fd in (*self.fds, *self.ends):
			os.close(fd)

	def _carry(self):
		queue = collections.deque() # (when, to which, packet): all take as long, so in order
		while True:
			wait = max(0, queue[0][0] - time.monotonic()) if queue else None
			ready = select.select([*self.fds, self.ends[0]], [], [], wait)[0]
			if self.ends[0] in ready:
				return
			for fd in ready:
				packet = os.read(fd, PACKET_MAX)
				queue.append((time.monotonic() + self.delay_s,
					      self.fds[1 - self.fds.index(fd)], packet))
			while queue and queue[0][0] <= time.monotonic():
				_, fd, packet = queue.popleft()
				try:
					os.write(fd, packet)
				except OSError: # as a cable loses what nobody takes
					pass
