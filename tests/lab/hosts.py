# SPDX-License-Identifier: MIT
"""Two hosts in one guest: two daemons, each with a runtime directory, an address and a device of the
real drivers, and a link between them.

	with Hosts("rxe") as hosts:
		hosts.link()
		server = hosts[1].program(["qperf"])
		client = hosts[0].run(["qperf", hosts[1].address, "tcp_lat"])

Linux 6.12's rxe serves one network namespace only, so both are in the initial one. What programs say
over TCP, and the daemons, crosses one veth pair; RDMA has another, of which the daemons learn by their
lists of peers: whatever happens to RDMA, TCP is not touched by it.
"""
import os
import subprocess
import time

from kit import Daemon, Failure, must, until

TCP_ENDS = ("ta", "tb")
TCP_ADDRESSES = ("10.66.0.1", "10.66.0.2")
RDMA_ENDS = ("va", "vb")
RDMA_ADDRESSES = ("10.77.0.1", "10.77.0.2")
# A link is dialled within a second of a session; emulation makes that ten.
LINK_S = 30


class Side(Daemon):
	"""One host: its daemon, and programs under it.

	address: what programs listen on, or are reached by; device, netdev, rdma_address: of RDMA."""

	def __init__(self, index, kind, inline=None, cap=None, **settings):
		# Before the configuration is written.
		self.cap = cap
		super().__init__(inline, **{"remote_lanes": "on", "peer_sessions": "on", "promote_after": 2,
					    "peer_retry_min_ms": 50, "rdma_rescan_ms": 500, **settings,
					    "peer_listen": TCP_ADDRESSES[index]})
		self.index = index
		self.kind = kind
		self.address = TCP_ADDRESSES[index]
		self.netdev = RDMA_ENDS[index]
		self.device = f"{kind}_{self.netdev}"
		self.rdma_address = RDMA_ADDRESSES[index]

	def configure(self, **settings):
		"""The other's device is none of ours; the hello can't tell where the other's is."""
		other = 1 - self.index
		super().configure(**settings)
		rules = [f'{{ name = "*_{RDMA_ENDS[other]}"; use = "no"; }}']
		if self.cap is not None:
			rules.append(f'{{ name = "*"; inline_cap = {self.cap}; }}')
		with open(self.env["SHUNT_CONF"], "a", encoding="utf-8") as conf:
			conf.write(f'devices = ( {", ".join(rules)} );\n'
				   f'peers = ( {{ address = "{TCP_ADDRESSES[other]}"; '
				   f'rdma_address = "{RDMA_ADDRESSES[other]}"; }} );\n')

	def plain_env(self):
		"""For what is to meet this daemon without a limit of narrow.so."""
		return {key: value for key, value in self.env.items()
			if key not in ("LD_PRELOAD", "SHUNT_LAB_INLINE")}

	def program(self, command, plain=False, **options):
		"""Start @command under this daemon, or, @plain, on TCP alone. A Popen with text."""
		words = list(map(str, command))
		options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
			   "stderr": subprocess.STDOUT, "text": True, "env": self.plain_env(), **options}
		return subprocess.Popen(words if plain else self.under(words), **options)

	def run(self, command, seconds=60, **options):
		"""Run it to its end; its output. Raises Failure if it fails or takes longer."""
		program = self.program(command, **options)
		try:
			said = program.communicate(timeout=seconds)[0]
		except subprocess.TimeoutExpired:
			program.kill()
			said = program.communicate()[0]
			raise Failure(f"{command}: not in {seconds} s: {said}") from None
		if program.returncode:
			raise Failure(f"{command}: status {program.returncode}: {said}")
		return said

	def lanes(self):
		"""Connections of this side that are on a lane over RDMA now."""
		return [one for one in self.ask("ss")["connections"] if one["lane"] == "rdma"]

	def count(self, text):
		"""How often the daemon has logged @text."""
		return self.log_text().count(text)

	def add_device(self):
		must(f"{self.kind} {self.netdev} && within 5 active {self.device}")

	def del_device(self):
		"""`rdma link del`. Returns the seconds it took."""
		begun = time.monotonic()
		must(f"rdma link del {self.device}", seconds=20)
		return time.monotonic() - begun

	def port_down(self):
		must(f"ip link set {self.netdev} down")

	def port_up(self):
		must(f"veth_up {self.netdev} {self.rdma_address} {RDMA_ADDRESSES[1 - self.index]}")

	def mend(self):
		"""Port and device are as they were at first, whatever has befallen them."""
		self.port_up()
		if not os.path.exists(f"/sys/class/infiniband/{self.device}"):
			self.add_device()


class Hosts:
	"""Both, in a layout of their own. @kind: "rxe" or "siw"; @inline: of narrow.so; @cap: inline_cap of
	their devices; @beside: other Hosts, whose layout they share; @settings: of both daemons."""

	def __init__(self, kind, inline=None, mtu=1500, cap=None, beside=None, **settings):
		self.kind = kind
		self.mtu = mtu
		self.beside = beside
		self.peer_port = beside.peer_port + 1 if beside else 7609
		settings = {"peer_port": self.peer_port, **settings}
		self.sides = [Side(i, kind, inline, cap, **settings) for i in range(2)]
		self.entered = []

	def __getitem__(self, index):
		return self.sides[index]

	def lay_out(self):
		rdma = f"{self.kind} {RDMA_ENDS[0]} && {self.kind} {RDMA_ENDS[1]}"
		must(f"veth {' '.join(TCP_ENDS)} {' '.join(TCP_ADDRESSES)} && "
		     f"veth {' '.join(RDMA_ENDS)} {' '.join(RDMA_ADDRESSES)} {self.mtu} && {rdma} && "
		     f"within 5 active {self[0].device} && within 5 active {self[1].device}")

	def __enter__(self):
		if not self.beside:
			self.lay_out()
		try:
			for side in self.sides:
				side.__enter__()
				self.entered.append(side)
			for side in self.sides:
				side.ready(side.device)
		except BaseException:
			self.__exit__()
			raise
		return self

	def __exit__(self, *exc):
		for side in reversed(self.entered):
			side.__exit__(*exc)
		if self.beside:
			return
		must("".join(f"! [ -e /sys/class/infiniband/{side.device} ] || rdma link del {side.device};"
			     for side in self.sides)
		     + f"veth_del {' '.join(RDMA_ENDS)}; veth_del {' '.join(TCP_ENDS)}")

	def logs(self):
		return "".join(f"--- host {side.index}:\n{side.log_text()}" for side in self.sides)

	def wait(self, what, condition, seconds=LINK_S):
		"""until(), with the logs if it is in vain."""
		try:
			return until(condition, seconds, what)
		except Failure as failure:
			raise Failure(f"{failure}\n{self.logs()}") from None

	def stream(self, *args, **options):
		"""Start a checked stream each way between them; the two programs, whose connecting end is the
		first. @args: of tests/apps/stream; @options: of program()."""
		path = os.path.join(self[0].build, "tests", "apps", "stream")
		words = [path, *map(str, args)]
		listening = self[1].program([*words, "listen", 7700, self[1].address], **options)
		until(lambda: must("ss -Hltn sport = 7700"), LINK_S, "the stream's server listens")
		return self[0].program([*words, "connect", self[1].address, 7700], **options), listening

	def link(self):
		"""Have the daemons make their link: a connection that waits is what makes them talk."""
		if all(side.count("link up over") for side in self.sides):
			return
		for program in self.stream("--bytes", "64K", "--rate", "64K"):
			said = program.communicate(timeout=60)[0]
			if program.returncode:
				raise Failure(f"a stream ended with {program.returncode}: {said}\n{self.logs()}")
		self.wait("a link", lambda: all(side.count("link up over") for side in self.sides))
