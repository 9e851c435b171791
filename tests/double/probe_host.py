# SPDX-License-Identifier: MIT
"""A host of the verbs double with devices, settings and kept results, for tests of the probe."""
import json
import os
import re
import shutil
import subprocess
import tempfile


class Host:
	"""A state folder of the double, and a folder for what the tool keeps."""

	def __init__(self, shunt):
		self.shunt = shunt
		self.dir = tempfile.mkdtemp(prefix="shunt-probe-")
		self.verbs = os.path.join(self.dir, "verbs")
		self.cache = os.path.join(self.dir, "cache")
		self.conf = os.path.join(self.dir, "conf")
		os.makedirs(os.path.join(self.verbs, "fabric"))
		self.settings("")
		self.devices()

	def settings(self, text):
		with open(self.conf, "w", encoding="utf-8") as file:
			file.write(text)

	def devices(self, *devices):
		"""Each is (name, personality, state of its port, more keys)."""
		lines = []
		for index, (name, personality, state, more) in enumerate(devices, 1):
			lines += [
				f"device name={name} personality={personality} index={index} {more}",
				f"port device={name} num=1 state={state} netdev=lo ifindex=1",
				f"gid device={name} index=0 type=v2 gid=::ffff:10.77.0.{index}",
			]
		path = os.path.join(self.verbs, "host")
		with open(path + ".new", "w", encoding="utf-8") as file:
			file.write("\n".join(lines) + "\n")
		os.rename(path + ".new", path)

	def env(self):
		"""What puts a program on this host."""
		return {"VERBS_DOUBLE_DIR": self.verbs, "SHUNT_CONF": self.conf, "SHUNT_CACHE_DIR": self.cache}

	def run(self, *args):
		return subprocess.run([self.shunt, "probe", *args], env=dict(os.environ, **self.env()),
				      capture_output=True, text=True, timeout=60, check=False)

	def count_creations(self):
		"""Begin to count the queue pairs that are asked for: a fault that lets all of them pass."""
		with open(os.path.join(self.verbs, "faults"), "w", encoding="utf-8") as file:
			file.write("create_qp skip=1000000 errno=EIO\n")

	def creations(self):
		with open(os.path.join(self.verbs, "faults"), encoding="utf-8") as file:
			return 1000000 - int(re.search(r"skip=(\d+)", file.read()).group(1))

	def kept(self):
		"""Entries of the file of results."""
		try:
			with open(os.path.join(self.cache, "probe.json"), encoding="utf-8") as file:
				return json.load(file)["entries"]
		except FileNotFoundError:
			return {}

	def close(self):
		shutil.rmtree(self.dir)
