# SPDX-License-Identifier: MIT
"""Write the guest's initramfs: a cpio archive in the format "newc"
(Documentation/driver-api/early-userspace/buffer-format.rst), so that neither cpio nor the right to
make device nodes is needed."""
import os
import shutil

from debian import Unavailable

FOLDERS = ("bin", "dev", "host", "memory", "modules", "proc", "root")
APPLETS = ("insmod", "mount", "mkdir", "poweroff", "sh", "switch_root", "umount")

MODE_FOLDER, MODE_FILE, MODE_LINK, MODE_DEVICE = 0o040755, 0o100755, 0o120777, 0o020600


class Archive:
	def __init__(self, file):
		self.file = file
		self.inode = 0

	def _pad(self, length):
		self.file.write(b"\0" * (-length % 4))

	def add(self, name, mode, data=b"", device=(0, 0)):
		self.inode += 1
		encoded = name.encode() + b"\0"
		fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
		header = b"070701" + b"".join(b"%08x" % field for field in fields)
		self.file.write(header + encoded)
		self._pad(len(header) + len(encoded))
		self.file.write(data)
		self._pad(len(data))


def read(path):
	with open(path, "rb") as file:
		return file.read()


def write(path, init, modules):
	"""@path: the archive; @init: the first program; @modules: paths, in the order of loading."""
	busybox = shutil.which("busybox")
	if not busybox:
		raise Unavailable("there is no busybox (Debian: busybox-static)")
	with open(path, "wb") as file:
		archive = Archive(file)
		for name in FOLDERS:
			archive.add(name, MODE_FOLDER)
		archive.add("dev/console", MODE_DEVICE, device=(5, 1))
		archive.add("dev/null", MODE_DEVICE, device=(1, 3))
		archive.add("bin/busybox", MODE_FILE, read(busybox))
		for name in APPLETS:
			archive.add("bin/" + name, MODE_LINK, b"busybox")
		archive.add("init", MODE_FILE, read(init))
		for module in modules:
			archive.add("modules/" + os.path.basename(module), MODE_FILE, read(module))
		order = "".join(os.path.basename(module) + "\n" for module in modules)
		archive.add("modules/order", MODE_FILE, order.encode())
		archive.add("TRAILER!!!", 0)
