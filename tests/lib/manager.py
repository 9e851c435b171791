# SPDX-License-Identifier: MIT
"""A service manager for tests: hears what a daemon tells it (sd_notify(3)), keeps the descriptors
that it is given, and starts a successor with them."""
import array
import fcntl
import os
import socket
import threading
import time

# Of the descriptors that a process is started with.
FIRST_PASSED = 3
# Above them.
HIGH = 1000


class Manager:
	"""Its socket is NAME in @directory."""

	def __init__(self, directory, name="notify"):
		self.path = os.path.join(directory, name)
		self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		self.sock.bind(self.path)
		self.changed = threading.Condition()
		self.told = []   # messages, each a list of lines
		self.kept = {}   # name: descriptor
		self.ever_kept = 0
		self.thread = threading.Thread(target=self._hear, daemon=True)
		self.thread.start()

	def _hear(self):
		room = socket.CMSG_SPACE(8 * array.array("i").itemsize)
		while True:
			try:
				text, ancillary, _, _ = self.sock.recvmsg(4096, room)
			except OSError:
				return
			if not text:
				return
			fds = array.array("i")
			for _, _, passed in ancillary:
				fds.frombytes(passed)
			for fd in fds:
				os.set_inheritable(fd, False)
			with self.changed:
				self._take(text.decode().splitlines(), list(fds))
				self.changed.notify_all()

	def _take(self, lines, fds):
		self.told.append(lines)
		name = next((line[7:] for line in lines if line.startswith("FDNAME=")), None)
		if "FDSTORE=1" in lines and name and name not in self.kept and len(fds) == 1:
			self.kept[name] = fds.pop()
			self.ever_kept += 1
		elif "FDSTOREREMOVE=1" in lines and name in self.kept:
			fds.append(self.kept.pop(name))
		for fd in fds:
			os.close(fd)

	def until(self, wanted, seconds=10):
		"""Messages up to the next one with a line that begins with @wanted; None: none came. What
		was returned is not looked at again."""
		end = time.monotonic() + seconds
		with self.changed:
			while True:
				for i, lines in enumerate(self.told):
					if any(line.startswith(wanted) for line in lines):
						taken, self.told = self.told[:i + 1], self.told[i + 1:]
						return taken
				left = end - time.monotonic()
				if left <= 0 or not self.changed.wait(left):
					return None

	def wait_kept(self, n, seconds=10):
		"""Whether @n descriptors are kept, soon."""
		end = time.monotonic() + seconds
		with self.changed:
			while len(self.kept) != n:
				if not self.changed.wait(end - time.monotonic()) and time.monotonic() > end:
					return False
		return True

	def start_with(self):
		"""What subprocess.Popen needs to pass what is kept: words before the command, variables, and
		arguments. The copies kept here stay."""
		with self.changed:
			kept = dict(self.kept)
		names, fds = list(kept), list(kept.values())
		if not names:
			return [], {}, {}

		def place():
			high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH) for fd in fds]
			for i, fd in enumerate(high):
				os.dup2(fd, FIRST_PASSED + i)
		env = {"LISTEN_FDS": str(len(fds)), "LISTEN_FDNAMES": ":".join(names)}
		return (["sh", "-c", "LISTEN_PID=$$ exec \"$0\" \"$@\""], env,
			{"preexec_fn": place, "close_fds": False})

	def drop_all(self):
		"""As when the service is stopped for good."""
		with self.changed:
			for fd in self.kept.values():
				os.close(fd)
			self.kept.clear()

	def close(self):
		self.sock.shutdown(socket.SHUT_RDWR)
		self.sock.close()
		self.thread.join(5)
		self.drop_all()
