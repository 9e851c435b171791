# SPDX-License-Identifier: MIT
"""What the kernel's AF_SMC needs told, and tells, by generic netlink (include/uapi/linux/smc.h): rxe
has RoCE v2 addresses only, so that its peers must have an enterprise id in common."""
import socket
import struct

NETLINK_GENERIC, CONTROLLER = 16, 16
NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
GET_FAMILY, FAMILY_ID, FAMILY_NAME = 3, 1, 2
GET_STATS, ADD_UEID = 7, 10
EID_ENTRY, EID_BYTES = 1, 32
STATS, STATS_SMCR = 7, 2
# SMC_NLA_STATS_T_…: connections that came about as SMC-Rv2, and bytes sent.
FIGURES = {"clients": 8, "servers": 10, "sent": 17}


def attribute(kind, data):
	return struct.pack("HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def attributes(data):
	"""Those of a message, by kind."""
	found = {}
	while len(data) >= 4:
		length, kind = struct.unpack_from("HH", data)
		if length < 4:
			break
		found[kind & 0x3fff] = data[4:length]
		data = data[(length + 3) & ~3:]
	return found


class Control:
	"""A socket to the kernel's SMC, whose module must be there."""

	def __init__(self):
		self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
		answer = self._ask(CONTROLLER, GET_FAMILY, attribute(FAMILY_NAME, b"SMC_GEN_NETLINK\0"), ACK)
		self.family = struct.unpack("H", answer[0][FAMILY_ID][:2])[0]

	def _ask(self, family, command, data=b"", flags=ACK):
		"""The answers, each as attributes(). Raises OSError with the kernel's error."""
		body = struct.pack("BBH", command, 1, 0) + data
		self.socket.send(struct.pack("IHHII", 16 + len(body), family, REQUEST | flags, 1, 0) + body)
		answers = []
		while True:
			data = self.socket.recv(65536)
			while data:
				length, kind = struct.unpack_from("IH", data)
				if kind == NLMSG_ERROR:
					error = struct.unpack_from("i", data, 16)[0]
					if error:
						raise OSError(-error, f"SMC, command {command}")
					return answers
				if kind == NLMSG_DONE:
					return answers
				answers.append(attributes(data[20:length]))
				data = data[(length + 3) & ~3:]

	def add_ueid(self, name):
		self._ask(self.family, ADD_UEID, attribute(EID_ENTRY, name.ljust(EID_BYTES).encode() + b"\0"))

	def stats(self):
		"""Totals of SMC-R, by the names of FIGURES."""
		for answer in self._ask(self.family, GET_STATS, flags=DUMP):
			of = attributes(attributes(answer.get(STATS, b"")).get(STATS_SMCR, b""))
			if of:
				return {name: int.from_bytes(of.get(kind, b""), "little")
					for name, kind in FIGURES.items()}
		return dict.fromkeys(FIGURES, 0)
