# SPDX-License-Identifier: MIT
"""One boot of the guest under QEMU: no network, no disk, no KVM. Its root is this machine's, which it
reads over 9p and can not change; what it has to say goes into one folder that it may write."""
import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import time

import initramfs
from debian import Unavailable

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY_MB = 2048
# An emulated boot took 5 s on an idle machine of 2026; more than ten times that is a hang.
BOOT_S = 75
BOOT_TRIES = 3
PR_SET_PDEATHSIG = 1

# Quiet and quick; an oops ends the guest, so that it is seen at once.
KERNEL_WORDS = ("console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr tsc=reliable "
		"no_timer_check random.trust_cpu=on nowatchdog audit=0 apparmor=0 selinux=0 "
		"rcupdate.rcu_expedited=1")


def die_with_parent():
	ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Guest:
	"""Use it with `with`: at the end QEMU is gone, however it came to it."""

	def __init__(self, kernel, folder, cpus=1, environment=None):
		"""@folder: the shared one, which keeps the results; @environment: for the cases."""
		if not shutil.which("qemu-system-x86_64"):
			raise Unavailable("there is no qemu-system-x86_64 (Debian: qemu-system-x86)")
		for path in (HERE, folder):
			if re.search(r"[\s'\"]", path):
				raise Unavailable(f"blanks and quotes in a path are too much for it: {path}")
		self.kernel = kernel
		self.folder = folder
		self.cpus = cpus
		self.environment = dict(environment or {}, LAB_MODULES=os.path.dirname(kernel.root))
		self.process = None
		shutil.rmtree(folder, ignore_errors=True)
		os.makedirs(folder)

	def __enter__(self):
		return self

	def __exit__(self, *exc):
		self.stop()

	def stop(self):
		if self.running():
			self.process.kill()
			self.process.wait()

	def path(self, name):
		return os.path.join(self.folder, name)

	def text(self, name):
		"""The content of a file of the shared folder, "" if there is none."""
		try:
			with open(self.path(name), encoding="utf-8", errors="replace") as file:
				return file.read()
		except FileNotFoundError:
			return ""

	def boot(self, cases, say):
		"""Start the guest and wait until it has begun with @cases, lines of stage2.sh. A guest that
		dies before is started again: now and then an emulated kernel oopses in its start-up."""
		for attempt in range(1, BOOT_TRIES + 1):
			self.stop()
			self._prepare(cases)
			self._start()
			until = time.monotonic() + BOOT_S
			while not self.text("booted"):
				if self.process.poll() is not None or time.monotonic() > until:
					break
				time.sleep(0.05)
			else:
				self._pin()
				return float(self.text("booted").split()[0])
			say(f"boot {attempt} failed: {self.last_words()}")
			self.stop()
		raise RuntimeError(f"the guest did not boot in {BOOT_TRIES} attempts; its console is "
				   f"{self.path('console')}:\n" + self.text("console")[-2000:])

	def running(self):
		return bool(self.process) and self.process.poll() is None

	def last_words(self):
		"""What the guest's kernel or QEMU said of its end."""
		found = re.search(r"^.*(?:Oops|panic|BUG:|lab: ).*$", self.text("console"), re.M)
		said = found[0].strip() if found else "the console says nothing about it"
		return said + (": " + self.text("qemu.err").strip() if self.text("qemu.err").strip() else "")

	def _prepare(self, cases):
		with contextlib.suppress(FileNotFoundError):
			os.remove(self.path("booted"))
			os.rename(self.path("console"), self.path("console.earlier"))
		initramfs.write(self.path("initramfs"), os.path.join(HERE, "init.sh"),
				self.kernel.boot_modules())
		with open(self.path("cases"), "w", encoding="utf-8") as file:
			file.writelines(line + "\n" for line in cases)
		with open(self.path("environment"), "w", encoding="utf-8") as file:
			for name, value in self.environment.items():
				file.write(f"export {name}='{value}'\n")

	def _start(self):
		def share(tag, path, options):
			# A comma in a path is doubled for QEMU.
			path = path.replace(",", ",,")
			return ["-fsdev", f"local,id={tag},path={path},security_model=none{options}",
				"-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]

		command = ["qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi,tb-size=512",
			   "-cpu", "max", "-smp", str(self.cpus), "-m", str(MEMORY_MB), "-nodefaults",
			   "-no-user-config", "-display", "none", "-no-reboot",
			   "-name", "shunt-lab,debug-threads=on", "-nic", "none",
			   "-serial", "file:" + self.path("console"), "-kernel", self.kernel.image(),
			   "-initrd", self.path("initramfs"), "-append", f"{KERNEL_WORDS} lab={HERE}",
			   *share("host", "/", ",readonly=on,multidevs=remap"),
			   *share("share", self.folder, ""),
			   "-device", "virtio-rng-pci", "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]
		with open(self.path("qemu.err"), "w", encoding="utf-8") as errors:
			self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors,
							stderr=errors, preexec_fn=die_with_parent)

	def _pin(self):
		"""A host CPU to each virtual one: packed onto one, they wait milliseconds for each other."""
		if self.cpus < 2:
			return
		hosts = sorted(os.sched_getaffinity(0))
		tasks = f"/proc/{self.process.pid}/task"
		for task in os.listdir(tasks):
			# Threads come and go.
			with contextlib.suppress(OSError):
				with open(os.path.join(tasks, task, "comm"), encoding="ascii") as file:
					found = re.match(r"CPU (\d+)/", file.read())
				if found:
					os.sched_setaffinity(int(task), {hosts[int(found[1]) % len(hosts)]})
