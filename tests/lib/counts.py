# SPDX-License-Identifier: MIT
"""What a program on the verbs double does, counted from outside; count/count.h says what and how.

	counts = Counts(FOLDER, "shuntd")
	subprocess.Popen(…, env=dict(env, **counts.env(BUILD)))
	counts.threads(), counts.events()
"""
import mmap
import os
import struct

# As in count.h.
THREADS, EVENTS = 64, 8192
WHAT = ("alloc", "create_qp", "destroy_qp", "reg_mr", "dereg_mr", "create_cq", "resolve_addr", "connect",
	"accept", "establish", "destroy_id", "cm_event")
HEAD = struct.Struct("=II")
THREAD = struct.Struct(f"=iI{len(WHAT)}Q")
EVENT = struct.Struct("=QQiHH")
# enum rdma_cm_event_type
CONNECT_REQUEST, ESTABLISHED = 4, 9


class Event:
	def __init__(self, ns, obj, tid, what, value):
		self.ns, self.object, self.tid, self.what, self.value = ns, obj, tid, WHAT[what], value


class Counts:
	"""The counts of one process named @program, in a file in @folder."""

	def __init__(self, folder, program):
		self.path = os.path.join(folder, "counts")
		self.program = program
		size = HEAD.size + THREADS * THREAD.size + EVENTS * EVENT.size
		with open(self.path, "w+b") as file:
			file.truncate(size)
			self.map = mmap.mmap(file.fileno(), size)

	def env(self, build):
		"""What the program's environment needs."""
		return {"COUNT_FILE": self.path, "COUNT_PROGRAM": self.program,
			"LD_PRELOAD": os.path.join(build, "tests", "lib", "count", "libcount.so")}

	def threads(self):
		"""{id of a thread: {what: how often}}."""
		count = HEAD.unpack_from(self.map)[0]
		if count > THREADS:
			raise OverflowError(f"{count} threads")
		found = {}
		for i in range(count):
			tid, _, *numbers = THREAD.unpack_from(self.map, HEAD.size + i * THREAD.size)
			found[tid] = dict(zip(WHAT, numbers))
		return found

	def total(self, what):
		return sum(thread[what] for thread in self.threads().values())

	def events(self):
		"""All calls, in the order in which they came back."""
		count = HEAD.unpack_from(self.map)[1]
		if count > EVENTS:
			raise OverflowError(f"{count} events")
		first = HEAD.size + THREADS * THREAD.size
		events = [Event(*EVENT.unpack_from(self.map, first + i * EVENT.size)) for i in range(count)]
		return sorted((event for event in events if event.ns), key=lambda event: event.ns)
