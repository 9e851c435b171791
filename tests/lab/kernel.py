# SPDX-License-Identifier: MIT
"""The guest's kernel: Debian's own 6.12, the modules the lab wants, and siw, which Debian leaves out,
built from Debian's source of the same version.

Everything is made once per kernel version and kept in the cache folder:

	debs/			what was downloaded
	VERSION/vmlinuz		as packaged
	VERSION/vmlinux		unpacked, if zstd is here: emulated, unpacking takes seconds a boot
	VERSION/lib/modules/	the wanted modules and what they depend on, unpacked
	VERSION/siw.log		why there is no siw, if there is none
	VERSION/wanted		MODULES, as they were then: with other ones it is made again
"""
import contextlib
import lzma
import os
import pathlib
import platform
import re
import shutil
import struct
import subprocess

import debian
from debian import Unavailable

IMAGE = "linux-image-6.12-amd64"
SERIES = "6.12"

# What finds the root; then networks, faults of networks, and RDMA.
BOOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
MODULES = BOOT_MODULES + (
	"virtio_rng", "virtio_net", "veth", "dummy", "sch_netem", "inet_diag", "tcp_diag", "unix_diag",
	"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "iw_cm", "ib_cm", "rdma_rxe", "siw", "smc",
	"crc32c_intel", "crc32_pclmul", "crc32_generic", "crc32c_generic", "libcrc32c")


class Kernel:
	def __init__(self, cache, say):
		"""@cache: the folder to keep things in; @say: told what takes its time."""
		if platform.machine() != "x86_64":
			raise Unavailable(f"the lab's guest is x86-64; this machine is {platform.machine()}")
		self.cache = cache
		self.say = say
		try:
			package = debian.depends(IMAGE, "linux-image-")
			self.release = package[len("linux-image-"):]
			self.version = debian.candidate(package)
		except Unavailable:
			if not self._newest():
				raise
			package = None
		self.folder = os.path.join(cache, self.version)
		self.root = os.path.join(self.folder, "lib", "modules", self.release)
		if not self._is_made(package):
			self._make(package)

	def _newest(self):
		"""Where apt knows of no kernel: what an earlier run has left."""
		kept = [path for path in pathlib.Path(self.cache).glob("*/lib/modules/*")
			if not path.parents[2].name.endswith((".new", ".tree"))]
		if not kept:
			return False
		newest = max(kept, key=lambda path: path.stat().st_mtime)
		self.release, self.version = newest.name, newest.parents[2].name
		return True

	def _is_made(self, package):
		"""Whether it is there, with the modules that are wanted now if they can be had."""
		if not os.path.exists(self.folder):
			return False
		try:
			with open(os.path.join(self.folder, "wanted"), encoding="ascii") as file:
				return file.read().split() == list(MODULES) or not package
		except FileNotFoundError:
			return not package

	def image(self):
		"""What QEMU is to start."""
		unpacked = os.path.join(self.folder, "vmlinux")
		return unpacked if os.path.exists(unpacked) else os.path.join(self.folder, "vmlinuz")

	def boot_modules(self):
		"""Paths of the modules that find the root, each after those that it needs."""
		order = []
		for name in BOOT_MODULES:
			shown = debian.run("modprobe", "-d", self.folder, "-S", self.release,
					   "--show-depends", name)
			order += [line.split()[1] for line in shown.splitlines() if line.startswith("insmod ")]
		return list(dict.fromkeys(order))

	def _download(self, package):
		return debian.download(package, self.version, os.path.join(self.cache, "debs"))

	def _make(self, package):
		"""All of it in a folder of another name, which is renamed when it is complete."""
		tree = self.folder + ".tree"
		done, self.folder = self.folder, self.folder + ".new"
		self.root = os.path.join(self.folder, "lib", "modules", self.release)
		for old in (tree, self.folder):
			shutil.rmtree(old, ignore_errors=True)
		os.makedirs(self.root)
		try:
			self.say(f"fetching and unpacking {package} {self.version}")
			debian.unpack(self._download(package), tree)
			shutil.copy(os.path.join(tree, "boot", "vmlinuz-" + self.release),
				    os.path.join(self.folder, "vmlinuz"))
			self._unpack_image()
			self._copy_modules(os.path.join(tree, "lib", "modules", self.release))
			self._siw(tree)
			debian.run("depmod", "-b", self.folder, self.release)
			with open(os.path.join(self.folder, "wanted"), "w", encoding="ascii") as file:
				file.write(" ".join(MODULES) + "\n")
		finally:
			shutil.rmtree(tree, ignore_errors=True)
		shutil.rmtree(done, ignore_errors=True)
		os.rename(self.folder, done)
		self.folder = done
		self.root = os.path.join(done, "lib", "modules", self.release)

	def _unpack_image(self):
		"""The ELF file that is packed in vmlinuz (Documentation/arch/x86/boot.rst, payload_offset).
		Without it the kernel unpacks itself, slower."""
		with open(os.path.join(self.folder, "vmlinuz"), "rb") as file:
			data = file.read()
		start = (data[0x1f1] + 1) * 512
		offset, length = struct.unpack_from("<II", data, 0x248)
		packed = data[start + offset:start + offset + length]
		# The packed size is followed by the unpacked one, four bytes that zstd does not know.
		with contextlib.suppress(FileNotFoundError):
			elf = subprocess.run(["zstd", "-dcq"], input=packed[:-4], stdout=subprocess.PIPE,
					     stderr=subprocess.DEVNULL, check=False).stdout
			if elf.startswith(b"\x7fELF"):
				with open(os.path.join(self.folder, "vmlinux"), "wb") as file:
					file.write(elf)

	def _copy_modules(self, source):
		"""The wanted modules and, by their own words, what they depend on."""
		paths = {}
		for where, _, names in os.walk(source):
			for name in names:
				module = re.match(r"(.*)\.ko(\.xz)?$", name)
				if module:
					paths[module[1].replace("-", "_")] = os.path.join(where, name)
		todo, seen = list(MODULES), set()
		while todo:
			name = todo.pop()
			if name in seen or name not in paths:
				continue
			seen.add(name)
			path = os.path.relpath(paths[name], source)
			opener = lzma.open if path.endswith(".xz") else open
			with opener(paths[name], "rb") as file:
				data = file.read()
			target = os.path.join(self.root, path.removesuffix(".xz"))
			os.makedirs(os.path.dirname(target), exist_ok=True)
			with open(target, "wb") as file:
				file.write(data)
			for field in re.findall(rb"\0(?:depends|softdep)=([^\0]*)\0", b"\0" + data):
				words = re.split(r"[, ]+", field.decode())
				todo += [word.replace("-", "_") for word in words if word and word[-1] != ":"]
		for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
			shutil.copy(os.path.join(source, name), self.root)

	def _siw(self, tree):
		"""Build siw.ko; if that fails the lab does without, and its cases say so."""
		log = os.path.join(self.folder, "siw.log")
		try:
			self._build_siw(tree, log)
		except (Unavailable, OSError) as problem:
			with open(log, "a", encoding="utf-8") as file:
				file.write(str(problem) + "\n")
			self.say(f"no siw in the guest: {str(problem).splitlines()[0]}")

	def _build_siw(self, tree, log):
		self.say("fetching headers and source, building siw.ko (a minute)")
		base = self.release.removesuffix("-amd64")
		for package in (f"linux-headers-{self.release}", f"linux-headers-{base}-common",
				f"linux-kbuild-{base}"):
			debian.unpack(self._download(package), tree)
		headers = os.path.join(tree, "usr", "src", "linux-headers-" + self.release)
		# As packaged it includes the common part by the path where it would be installed.
		with open(os.path.join(headers, "Makefile"), "w", encoding="utf-8") as file:
			file.write(f"include {tree}/usr/src/linux-headers-{base}-common/Makefile\n")
		name = f"linux-source-{SERIES}"
		inner = f"usr/src/{name}.tar.xz"
		part = f"{name}/drivers/infiniband/sw/siw"
		debian.run("sh", "-ec", 'dpkg-deb --fsys-tarfile "$1" | tar -xO "./$2" | tar -xJ -C "$3" "$4"',
			   "sh", self._download(name), inner, tree, part)
		source = os.path.join(tree, part)
		with open(log, "w", encoding="utf-8") as output:
			# No pahole: the type information of the module is left out.
			made = subprocess.run(
				["make", "-C", headers, f"M={source}", "CONFIG_RDMA_SIW=m",
				 "CONFIG_DEBUG_INFO_BTF_MODULES=", f"-j{os.cpu_count()}", "modules"],
				stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=False)
		if made.returncode:
			raise Unavailable(f"building siw.ko failed, see {log}")
		os.makedirs(os.path.join(self.root, "updates"))
		debian.run("strip", "-g", "-o", os.path.join(self.root, "updates", "siw.ko"),
			   os.path.join(source, "siw.ko"))
		os.remove(log)
