# SPDX-License-Identifier: MIT
"""Hosts of the verbs double, for tests in Python: the counterpart of verbs/host.h, which says more.

	with Host() as host:
		host.add("rxe0", "rxe", "10.77.0.1")
		host.run(["ibv_devinfo"], libraries=FOLDER_OF_THE_BUILD)

The libraries are in tests/lib/verbs/ of the build.
"""
import fcntl
import os
import shutil
import subprocess
import tempfile
import time

# The networks of personalities that are not RoCE; as in verbs/personality.c.
IB = {"mlx5-ib", "mlx4", "mthca", "hfi1", "qib"}
IWARP = {"irdma-x722", "erdma", "cxgb4", "siw"}
OTHER = {"efa", "efa-wide"}


class Device:
	# Devices plugged in by this process: makes indices and LIDs differ.
	plugged = 0

	def __init__(self, name, personality, ip, settings):
		self.name = name
		self.personality = personality
		self.ip = ip
		self.settings = dict(settings)
		self.state = "active"
		self.mtu = None
		self.netdev = "lo"
		self.ifindex = 1
		self.index = Device.plugged + (os.getpid() & 0xfff) * 8
		Device.plugged += 1

	def gids(self):
		"""(type, GID) in the order of the table."""
		local = f"fe80::200:ff:fe00:{self.index + 1:x}"
		if self.personality in IB | IWARP | OTHER:
			return [("ib", local)]
		gids = [("v1", local), ("v2", local)]
		if self.ip:
			mapped = self.ip if ":" in self.ip else "::ffff:" + self.ip
			gids += [("v1", mapped), ("v2", mapped)]
		return gids

	def lines(self):
		settings = "".join(f" {key}={value}" for key, value in self.settings.items())
		lid = self.index + 1 if self.personality in IB else 0
		yield f"device name={self.name} personality={self.personality} index={self.index}{settings}"
		mtu = f"mtu={self.mtu} " if self.mtu else ""
		yield (f"port device={self.name} num=1 state={self.state} lid={lid} {mtu}"
		       f"netdev={self.netdev} ifindex={self.ifindex}")
		for index, (kind, gid) in enumerate(self.gids()):
			yield f"gid device={self.name} index={index} type={kind} gid={gid}"
		if self.ip:
			yield f"addr device={self.name} ip={self.ip}"


class Host:
	"""A state folder. On a network of its own, or, with a host as argument, on that one's."""

	def __init__(self, network_of=None):
		self.dir = tempfile.mkdtemp(prefix="verbs-host-")
		os.chmod(self.dir, 0o777)
		self.devices = {}
		fabric = os.path.join(self.dir, "fabric")
		if network_of:
			os.symlink(os.path.realpath(os.path.join(network_of.dir, "fabric")), fabric)
		else:
			os.mkdir(fabric)
			os.chmod(fabric, 0o777)
		self._write_host()
		self.faults("")

	def __enter__(self):
		return self

	def __exit__(self, *unused):
		self.close()

	def close(self):
		shutil.rmtree(self.dir, ignore_errors=True)

	def _replace(self, name, text):
		new = os.path.join(self.dir, f".{name}.new")
		with open(new, "w", encoding="ascii") as file:
			file.write(text)
		os.chmod(new, 0o666)
		os.rename(new, os.path.join(self.dir, name))

	def _write_host(self):
		lines = [line for device in self.devices.values() for line in device.lines()]
		self._replace("host", "".join(line + "\n" for line in lines))

	def add(self, name, personality, ip=None, **settings):
		"""Plug a device in; settings are figures of its personality: inline=101, open="EACCES"…"""
		self.devices[name] = Device(name, personality, ip, settings)
		self._write_host()

	def remove(self, name):
		del self.devices[name]
		self._write_host()

	def set(self, name, key, value):
		"""Override a figure, or undo that (None)."""
		settings = self.devices[name].settings
		settings.pop(key, None)
		if value is not None:
			settings[key] = value
		self._write_host()

	def port(self, name, state):
		self.devices[name].state = state
		self._write_host()

	def address(self, name, ip):
		self.devices[name].ip = ip
		self._write_host()

	def netdev(self, name, netdev, ifindex):
		self.devices[name].netdev = netdev
		self.devices[name].ifindex = ifindex
		self._write_host()

	def mtu(self, name, mtu):
		self.devices[name].mtu = mtu
		self._write_host()

	def faults(self, lines):
		"""What is injected from now on; see verbs/fault.h."""
		self._replace("faults", lines)

	def faults_left(self):
		with open(os.path.join(self.dir, "faults"), encoding="ascii") as file:
			fcntl.flock(file, fcntl.LOCK_SH)
			return file.read()

	def is_held(self, name):
		"""Whether any process holds the device open, be it plugged in still or not."""
		refs = os.path.join(self.dir, "refs")
		for folder in os.listdir(refs) if os.path.isdir(refs) else ():
			if folder.rpartition(".")[0] != name:
				continue
			for file in os.listdir(os.path.join(refs, folder)):
				if self._is_locked(os.path.join(refs, folder, file)):
					return True
		return False

	@staticmethod
	def _is_locked(path):
		try:
			with open(path, "r+", encoding="ascii") as file:
				fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
		except FileNotFoundError:
			return False
		except BlockingIOError:
			return True
		return False

	def wait_free(self, name, timeout_s):
		end = time.monotonic() + timeout_s
		while self.is_held(name):
			if time.monotonic() > end:
				return False
			time.sleep(0.005)
		return True

	def env(self, libraries, base=None):
		"""The environment of a program on this host."""
		env = dict(os.environ if base is None else base)
		env["VERBS_DOUBLE_DIR"] = self.dir
		env["LD_LIBRARY_PATH"] = libraries
		return env

	def run(self, command, libraries, timeout=60):
		"""Run a program to its end; a subprocess.CompletedProcess with both outputs as text."""
		return subprocess.run(command, env=self.env(libraries), capture_output=True, text=True,
				      timeout=timeout)

	def start(self, command, libraries, **options):
		"""Start one; a subprocess.Popen."""
		return subprocess.Popen(command, env=self.env(libraries), text=True, **options)
