# SPDX-License-Identifier: MIT
"""systemd in the guest: process 1 of process, mount and control-group namespaces of its own, on the
guest's root. A program runs in there as a unit:

	sys.exit(run_under_systemd(["/path/program", "argument"], seconds))

The guest's own process 1 is a shell, and the root is the host's: what walks all of it, waits for
devices or wants a terminal is masked.
"""
import os
import shlex
import signal
import subprocess
import time

UNITS = "/etc/systemd/system"
WANTS = UNITS + "/multi-user.target.wants"
STATUS = "/run/lab/systemd.rc"
OUTPUT = "/run/lab/systemd.out"

MASKED = [
	"systemd-tmpfiles-setup", "systemd-tmpfiles-setup-dev", "systemd-tmpfiles-clean", "systemd-udevd",
	"systemd-udev-trigger", "systemd-journal-flush", "ldconfig", "systemd-sysusers",
	"systemd-hwdb-update", "systemd-update-done", "systemd-update-utmp", "getty@tty1", "console-getty",
	"systemd-networkd", "systemd-timesyncd", "systemd-logind", "systemd-binfmt",
	"systemd-random-seed", "systemd-remount-fs", "systemd-modules-load", "systemd-sysctl",
	"systemd-machine-id-commit", "systemd-boot-system-token", "systemd-pstore",
]

PAYLOAD = """[Unit]
Description=What is run under systemd
After=basic.target
[Service]
Type=oneshot
Environment={environment}
StandardOutput=file:{output}
StandardError=inherit
ExecStart={command}
ExecStopPost=/bin/sh -c 'echo "$EXIT_STATUS" >{status}'
"""

BOOT = ("mount -t proc proc /proc; umount /sys/fs/cgroup; mount -t cgroup2 cgroup /sys/fs/cgroup; "
	"exec /lib/systemd/systemd --unit=multi-user.target --log-target=journal --show-status=no")


def mask():
	os.makedirs(WANTS, exist_ok=True)
	names = [name + ".service" for name in MASKED]
	for folder in (WANTS, "/lib/systemd/system/multi-user.target.wants"):
		names += [name for name in os.listdir(folder) if name.endswith((".service", ".timer"))]
	for name in set(names):
		path = os.path.join(UNITS, name)
		if os.path.lexists(path):
			os.unlink(path)
		os.symlink("/dev/null", path)


def run_under_systemd(command, seconds, variables=()):
	"""The exit status of @command, whose output is printed; 124 if it took longer. @variables: names of
	those that it is to have."""
	mask()
	with open(os.path.join(UNITS, "payload.service"), "w", encoding="utf-8") as unit:
		names = [name for name in ("LAB", "LAB_BUILD", "PATH", *variables) if name in os.environ]
		unit.write(PAYLOAD.format(environment=" ".join(f"{name}={os.environ[name]}" for name in names),
					  output=OUTPUT, status=STATUS, command=shlex.join(command)))
	os.symlink(os.path.join(UNITS, "payload.service"), os.path.join(WANTS, "payload.service"))
	for path in (STATUS, OUTPUT):
		if os.path.exists(path):
			os.unlink(path)
	manager = subprocess.Popen(["env", "-i", "container=lab", "PATH=" + os.environ["PATH"], "unshare", "-p",
				    "-f", "-m", "-C", "sh", "-c", BOOT], stdin=subprocess.DEVNULL)
	until = time.monotonic() + seconds
	shown = 0
	status = ""
	while not status.strip() and time.monotonic() < until and manager.poll() is None:
		time.sleep(0.2)
		status = read(STATUS)
		text = read(OUTPUT)
		print(text[shown:], end="", flush=True)
		shown = len(text)
	# Its process 1, with all that is in its namespace.
	subprocess.run(["pkill", "-KILL", "-P", str(manager.pid)], check=False)
	manager.send_signal(signal.SIGKILL)
	manager.wait()
	return int(status) if status.strip().isdigit() else 124


def read(path):
	try:
		with open(path, encoding="utf-8", errors="replace") as file:
			return file.read()
	except FileNotFoundError:
		return ""
