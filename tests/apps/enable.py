# SPDX-License-Identifier: MIT
"""shunt enable, disable and enabled: what they write into a system, and what they leave alone. First
in a folder that is the root of a system which does not run, then beside a systemctl that only notes
what it is told and answers as the real one does.

usage: enable.py BUILD_DIR
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from tap import Tap

ETC = "etc/systemd/system"
LIB = "usr/lib/systemd/system"
DROP_IN = "50-shunt.conf"
HEAD = "# Written by shunt enable; shunt disable removes it.\n[Service]\n"

# What stands for systemctl: properties are files, commands are noted.
SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$FAKE/calls"
case $1 in
show)
	for unit; do :; done
	IFS=,
	for key in $3; do
		if [ -e "$FAKE/$unit/$key" ]; then echo "$key=$(cat "$FAKE/$unit/$key")"; fi
	done;;
list-units) cat "$FAKE/instances";;
esac
"""


class Image:
	"""A root directory with units, and the tool to work on it."""

	def __init__(self, build):
		self.tool = os.path.abspath(os.path.join(build, "tools", "shunt"))
		self.library = os.path.abspath(os.path.join(build, "lib", "preload", "libshunt-preload.so"))
		self.root = tempfile.mkdtemp(prefix="shunt-test-")
		os.makedirs(self.path(ETC))
		os.makedirs(self.path(LIB))
		self.unit("redis-server", "")

	def path(self, *parts):
		return os.path.join(self.root, *parts)

	def write(self, name, text):
		os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
		with open(self.path(name), "w", encoding="utf-8") as file:
			file.write(text)

	def unit(self, name, service):
		self.write(f"{LIB}/{name}.service", f"[Unit]\nDescription=x\n[Service]\nExecStart=/bin/x\n{service}\n")

	def drop_in(self, unit):
		"""Text of ours, or None."""
		try:
			with open(self.path(ETC, unit + ".d", DROP_IN), encoding="utf-8") as file:
				return file.read()
		except FileNotFoundError:
			return None

	def tree(self):
		"""Every path, with the text of files."""
		found = {}
		for where, _, names in os.walk(self.root):
			found[where] = None
			for name in names:
				path = os.path.join(where, name)
				found[path] = os.readlink(path) if os.path.islink(path) else open(path, encoding="utf-8").read()
		return found

	def __call__(self, *args, root=True):
		where = ("--root", self.root) if root else ()
		return subprocess.run([self.tool, args[0], *where, *args[1:]], capture_output=True, text=True,
				      timeout=60, check=False)

	def close(self):
		shutil.rmtree(self.root)


def expect(done, status, *texts):
	if done.returncode != status:
		yield f"{done.args}: exit status {done.returncode}, not {status}: {done.stdout}{done.stderr}"
	for text in texts:
		if text not in done.stdout + done.stderr:
			yield f"{done.args} does not say \"{text}\" but: {done.stdout}{done.stderr}"


def preloads(image, unit, libraries, *more):
	"""Problems of the drop-in of @unit, which is to preload @libraries behind ours and have the lines @more."""
	wanted = HEAD + f"Environment=\"LD_PRELOAD={':'.join([image.library, *libraries])}\"\n" + \
		"".join(line + "\n" for line in more)
	if image.drop_in(unit) != wanted:
		yield f"{unit}: {image.drop_in(unit)}, not {wanted}"


def there_and_back(image):
	before = image.tree()
	done = image("enable", "redis-server")
	yield from expect(done, 0, f"{ETC}/redis-server.service.d/{DROP_IN}:", "LD_PRELOAD=" + image.library)
	yield from preloads(image, "redis-server.service", [])
	mode = os.stat(image.path(ETC, "redis-server.service.d", DROP_IN)).st_mode & 0o777
	if mode != 0o644:
		yield f"its mode is {mode:o}"
	after = image.tree()
	yield from expect(image("enable", "redis-server.service"), 0, "is enabled already")
	if image.tree() != after:
		yield "enabled again, it is another"
	yield from expect(image("disable", "redis-server"), 0, "is removed")
	if image.tree() != before:
		yield f"something is left: {set(image.tree()) - set(before)}"
	yield from expect(image("disable", "redis-server"), 0, "nothing to remove")
	yield from expect(image("disable", "other"), 1, "no unit other.service")


def dry_runs(image):
	before = image.tree()
	yield from expect(image("enable", "--dry-run", "redis-server"), 0, "LD_PRELOAD", "Nothing was written")
	if image.tree() != before:
		yield "it wrote something"
	image("enable", "redis-server")
	before = image.tree()
	yield from expect(image("disable", "--dry-run", "redis-server"), 0, "Nothing was removed")
	if image.tree() != before:
		yield "it removed something"


def folders_that_are_not_there(image):
	shutil.rmtree(image.path("etc"))
	yield from expect(image("enable", "redis-server"), 0)
	yield from preloads(image, "redis-server.service", [])


def others_files_stay(image):
	mine = f"{ETC}/redis-server.service.d/10-mine.conf"
	image.write(mine, "[Service]\nNice=1\n")
	image("enable", "redis-server")
	yield from expect(image("disable", "redis-server"), 0)
	if not os.path.exists(image.path(mine)):
		yield "another drop-in is gone"
	# A file of our name by somebody else.
	image.write(f"{ETC}/redis-server.service.d/{DROP_IN}", "[Service]\nNice=2\n")
	before = image.tree()
	for command in ("enable", "disable"):
		yield from expect(image(command, "redis-server"), 4, "was not written by shunt enable")
		yield from expect(image(command, "--dry-run", "redis-server"), 4, "was not written by shunt enable")
	if image.tree() != before:
		yield "somebody else's file was touched"
	if json.loads(image("enabled", "--json").stdout)["units"]:
		yield "somebody else's file is listed"


def what_is_preloaded_already_stays(image):
	for service, libraries in (
			("Environment=LD_PRELOAD=/a.so", ["/a.so"]),
			("Environment=\"LD_PRELOAD=/a.so /b.so\"", ["/a.so", "/b.so"]),
			("Environment=A=1 'LD_PRELOAD=/a.so:/b.so' B=2", ["/a.so", "/b.so"]),
			("Environment=LD_PRELOAD=/a.so\nEnvironment=LD_PRELOAD=/b.so", ["/b.so"]),
			("Environment=LD_PRELOAD=/a.so\nEnvironment=\nEnvironment=X=y", []),
			("Environment=X=y \\\n   LD_PRELOAD=/a.so", ["/a.so"]),
			("Environment=LD_PRELOAD=/old/libshunt-preload.so:/a.so", ["/a.so"]),
			("#Environment=LD_PRELOAD=/a.so\n; Environment=LD_PRELOAD=/b.so", []),
			("[Install]\nEnvironment=LD_PRELOAD=/a.so", [])):
		image.unit("x", service)
		yield from expect(image("enable", "x"), 0)
		yield from preloads(image, "x.service", libraries)
	# It follows what the unit says later, and what other drop-ins say.
	image.unit("x", "Environment=LD_PRELOAD=/c.so")
	image("enable", "x")
	yield from preloads(image, "x.service", ["/c.so"])
	image.write(f"{LIB}/service.d/20-all.conf", "[Service]\nEnvironment=LD_PRELOAD=/d.so\n")
	image("enable", "x")
	yield from preloads(image, "x.service", ["/d.so"])
	image.write(f"{ETC}/service.d/20-all.conf", "[Service]\n")
	image("enable", "x")
	yield from preloads(image, "x.service", ["/c.so"])
	image.write("run/systemd/system/x.service.d/30-e.conf", "[Service]\nEnvironment=LD_PRELOAD=/e.so\n")
	image("enable", "x")
	yield from preloads(image, "x.service", ["/e.so"])


def what_overrules_it_is_said(image):
	image.unit("x", "EnvironmentFile=-/etc/default/x")
	image.write("etc/default/x", "A=1\nLD_PRELOAD=/f.so\n")
	yield from expect(image("enable", "x"), 0, "/etc/default/x sets LD_PRELOAD")
	image.unit("x", "UnsetEnvironment=LD_PRELOAD")
	yield from expect(image("enable", "x"), 0, "UnsetEnvironment=")
	image.unit("x", "")
	image.write(f"{ETC}/x.service.d/90-late.conf", "[Service]\nEnvironment=LD_PRELOAD=/g.so\n")
	yield from expect(image("enable", "x"), 0, "/etc/systemd/system/x.service.d/90-late.conf is read later")


def sandboxes(image):
	runtime, library = "-/run/shunt", "-" + image.library
	for service, binds, note in (
			("ProtectSystem=strict\nMemoryDenyWriteExecute=yes\nNoNewPrivileges=yes", "", None),
			("RootDirectory=/srv/x", f"{runtime} {library}", "a root of its own"),
			("RootDirectory=/", "", None),
			("RootImage=/x.raw", f"{runtime} {library}", "a root of its own"),
			("TemporaryFileSystem=/run:ro /var", runtime, None),
			("TemporaryFileSystem=/", f"{runtime} {library}", None),
			("TemporaryFileSystem=/runner", "", None),
			("RestrictAddressFamilies=AF_INET AF_INET6", "", "add RestrictAddressFamilies=AF_UNIX in"),
			("RestrictAddressFamilies=none", "", "add RestrictAddressFamilies=AF_UNIX in"),
			("RestrictAddressFamilies=AF_INET\nRestrictAddressFamilies=AF_UNIX", "", None),
			("RestrictAddressFamilies=AF_INET\nRestrictAddressFamilies=", "", None),
			("RestrictAddressFamilies=~AF_UNIX", "", "makes no unix sockets|make no unix sockets"),
			("RestrictAddressFamilies=~AF_PACKET AF_NETLINK", "", None),
			("InaccessiblePaths=-/run/shunt", "", "InaccessiblePaths= hides /run/shunt"),
			("InaccessiblePaths=/runs", "", None),
			("PrivateNetwork=yes", "", "network of its own"),
			("PrivateNetwork=no", "", None),
			("NetworkNamespacePath=/run/netns/a", "", "network of its own"),
			("NoExecPaths=/", "", "add ExecPaths="),
			(f"NoExecPaths=/\nExecPaths=/bin {image.library}", "", None),
			("SystemCallFilter=@network-io read", "", "does not let it call memfd_create"),
			("SystemCallFilter=@system-service", "", None),
			("SystemCallFilter=~@mount", "", None)):
		image.unit("x", service)
		done = image("enable", "x")
		more = [f"BindReadOnlyPaths={binds}"] if binds else []
		yield from expect(done, 0)
		yield from preloads(image, "x.service", [], *more)
		notes = [line for line in done.stdout.splitlines()
			 if line.startswith("note: ") and "install Shunt there" not in line]
		if note is None and notes:
			yield f"{service}: {notes}"
		if note and not any(part in " ".join(notes) for part in note.split("|")):
			yield f"{service}: \"{note}\" is missing in {notes}"


def places_that_hide_the_library(image):
	for service, top, note in (("ProtectHome=yes", "/home", "ProtectHome="), ("ProtectHome=tmpfs", "/root", "ProtectHome="),
				   ("PrivateTmp=true", "/tmp", "PrivateTmp=")):
		image.unit("x", service)
		done = image("enable", "--dry-run", "x")
		hidden = image.library.startswith(top + "/")
		if (note in done.stdout) != hidden:
			yield f"{service}: {done.stdout}"


def names_of_units(image):
	image.unit("a@", "Environment=LD_PRELOAD=/t.so")
	image.write(f"{ETC}/a@.service.d/10.conf", "[Service]\nTemporaryFileSystem=/run\n")
	yield from expect(image("enable", "a@one"), 0)
	yield from preloads(image, "a@one.service", ["/t.so"], "BindReadOnlyPaths=-/run/shunt")
	yield from expect(image("enable", "a@"), 0, "all instances")
	yield from preloads(image, "a@.service", ["/t.so"], "BindReadOnlyPaths=-/run/shunt")
	image.unit("p-q-r", "")
	image.write(f"{LIB}/p-.service.d/10.conf", "[Service]\nEnvironment=LD_PRELOAD=/p.so\n")
	yield from expect(image("enable", "p-q-r"), 0)
	yield from preloads(image, "p-q-r.service", ["/p.so"])
	os.symlink(f"/{LIB}/redis-server.service", image.path(ETC, "redis.service"))
	yield from expect(image("enable", "redis"), 0, "redis.service is another name for redis-server.service")
	yield from preloads(image, "redis-server.service", [])
	yield from expect(image("disable", "redis"), 0, "redis-server.service.d")
	os.symlink("b.service", image.path(ETC, "c.service"))
	os.symlink("c.service", image.path(ETC, "b.service"))
	yield from expect(image("enable", "--dry-run", "b"), 0)
	os.symlink("/dev/null", image.path(ETC, "m.service"))
	yield from expect(image("enable", "m"), 1, "m.service is masked")
	for command in ("enable", "disable"):
		for name in ("x.socket", "a/b", "", ".", "..", "../x", "a b", "@x", "x\n", "y.target", "n" * 260):
			yield from expect(image(command, name), 2, "is not the name of a service")
		yield from expect(image(command), 2, "which unit?")
		yield from expect(image(command, "a", "b"), 2, "too many: b")
		yield from expect(image(command, "--now", "a"), 2, "--now is for the running system")
		yield from expect(image(command, "--wrong"), 2, "--wrong")
	yield from expect(image("enable", "unknown"), 1, "no unit unknown.service", "--force")
	yield from expect(image("enable", "--force", "unknown"), 0)
	yield from preloads(image, "unknown.service", [])
	yield from expect(image("enable", "--root", "/nonexistent", "x", root=False), 4, "/nonexistent: No such file")


def links_do_not_lead_out(image):
	"""An image is not to be trusted: what it links to is looked for inside of it."""
	outside = tempfile.mkdtemp(prefix="shunt-test-")
	try:
		os.symlink(outside, image.path(ETC, "redis-server.service.d"))
		yield from expect(image("enable", "redis-server"), 4)
		shutil.rmtree(image.path("etc"))
		os.symlink(outside, image.path("etc"))
		image("enable", "redis-server")
		if os.listdir(outside):
			yield f"it wrote outside of the image: {os.listdir(outside)}"
	finally:
		shutil.rmtree(outside)


def lists(image):
	yield from expect(image("enabled"), 0, "No unit is enabled")
	image("enable", "redis-server")
	image.unit("a@", "")
	image("enable", "a@")
	yield from expect(image("enabled"), 0, "redis-server.service", "a@.service", "the library is missing")
	image.write(image.library[1:], "")
	said = json.loads(image("enabled", "--json").stdout)
	if [unit["unit"] for unit in said["units"]] != ["a@.service", "redis-server.service"] or said["systemd"]:
		yield f"{said}"
	for unit in said["units"]:
		if unit["library"] != image.library or not unit["library_exists"] or unit["running"] is not None:
			yield f"{unit}"
	yield from expect(image("enabled"), 0, "when it starts")
	yield from expect(image("enabled", "x"), 2, "too many: x")


class Running(Image):
	"""A system that runs, as far as the tool can tell: a mount namespace with folders of its own."""

	def __init__(self, build):
		super().__init__(build)
		self.fake = self.path("fake")
		self.write("fake/bin/systemctl", SYSTEMCTL)
		os.chmod(self.path("fake/bin/systemctl"), 0o755)
		self.write("fake/instances", "")
		self.properties("redis-server.service", Id="redis-server.service", LoadState="loaded",
				ActiveState="active")

	def properties(self, unit, **values):
		for key, value in values.items():
			self.write(f"fake/{unit}/{key}", value)

	def calls(self):
		"""What it was told, but for questions; forgotten then."""
		path = self.path("fake/calls")
		lines = open(path, encoding="utf-8").read().splitlines() if os.path.exists(path) else []
		self.write("fake/calls", "")
		return [line for line in lines if not line.startswith(("show", "list-units"))]

	def __call__(self, *args):
		script = "mount -t tmpfs none /run && mkdir -p /run/systemd/system && " \
			f"mount --bind {self.path('etc')} /etc && exec \"$@\""
		return subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", self.tool, *args],
				      env=dict(os.environ, FAKE=self.fake, PATH=f"{self.fake}/bin:{os.environ['PATH']}"),
				      capture_output=True, text=True, timeout=60, check=False)


def a_running_system(image):
	yield from expect(image("enable", "redis-server"), 0, "goes on as it was: systemctl restart")
	if image.calls() != ["daemon-reload"]:
		yield "systemd was not told to reload, or of more"
	yield from preloads(image, "redis-server.service", [])
	yield from expect(image("enable", "--now", "redis-server"), 0, "is restarted")
	if image.calls() != ["restart -- redis-server.service"]:
		yield "--now did not restart it, or did more"
	yield from expect(image("disable", "--now", "redis-server"), 0, "is restarted")
	if image.calls() != ["daemon-reload", "restart -- redis-server.service"]:
		yield "disable --now did something else"
	yield from expect(image("enable", "--dry-run", "redis-server"), 0)
	if image.calls():
		yield "a dry run told systemd to do something"


def what_only_systemd_knows(image):
	image.properties("redis-server.service", RestrictAddressFamilies="AF_INET", RootDirectory="/srv",
			 SystemCallFilter="read write")
	yield from expect(image("enable", "redis-server"), 0, "RestrictAddressFamilies=AF_UNIX", "a root of its own",
			  "does not let it call")
	yield from preloads(image, "redis-server.service", [], f"BindReadOnlyPaths=-/run/shunt -{image.library}")
	image.properties("other.service", Id="redis-server.service", LoadState="loaded")
	yield from expect(image("enable", "other"), 0, "other.service is another name for redis-server.service")
	image.properties("gone.service", Id="gone.service", LoadState="not-found")
	yield from expect(image("enable", "gone"), 1, "no unit gone.service")
	image.properties("m.service", Id="m.service", LoadState="masked")
	yield from expect(image("enable", "m"), 1, "is masked")


def whether_processes_have_it(image):
	with_it = subprocess.Popen(["sleep", "60"], env=dict(os.environ, LD_PRELOAD=image.library))
	without = subprocess.Popen(["sleep", "60"])
	try:
		image("enable", "redis-server")
		while image.library not in open(f"/proc/{with_it.pid}/maps", encoding="utf-8").read():
			pass # it is being started
		for process, has, text in ((with_it, True, "in its process"), (without, False, "restart it")):
			image.properties("redis-server.service", MainPID=str(process.pid))
			said = json.loads(image("enabled", "--json").stdout)["units"][0]["running"]
			if said != [{"unit": "redis-server.service", "state": "active",
				     "processes": [{"pid": process.pid, "has_library": has}]}]:
				yield f"{said}"
			yield from expect(image("enabled"), 0, text)
		image.unit("a@", "")
		image.write("fake/instances", "a@1.service loaded active running x\na@2.service loaded inactive dead x\n")
		image.properties("a@1.service", MainPID=str(with_it.pid), ActiveState="active")
		image.properties("a@2.service", MainPID="0", ActiveState="inactive")
		os.makedirs(image.path(ETC, "a@.service.d"))
		shutil.copy(image.path(ETC, "redis-server.service.d", DROP_IN), image.path(ETC, "a@.service.d"))
		done = image("enabled")
		yield from expect(done, 0, "a@1.service", "in its process", "a@2.service", "when it starts")
	finally:
		for process in (with_it, without):
			process.kill()
			process.wait()


def main():
	tap = Tap()
	for case in (there_and_back, dry_runs, folders_that_are_not_there, others_files_stay,
		     what_is_preloaded_already_stays, what_overrules_it_is_said, sandboxes,
		     places_that_hide_the_library, names_of_units, links_do_not_lead_out, lists):
		image = Image(sys.argv[1])
		try:
			tap.result(case.__name__, case(image))
		finally:
			image.close()
	can = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/run"], capture_output=True,
			     check=False).returncode == 0
	for case in (a_running_system, what_only_systemd_knows, whether_processes_have_it):
		if not can:
			tap.skip(case.__name__, "no mount namespace can be made here: it takes root")
			continue
		image = Running(sys.argv[1])
		try:
			tap.result(case.__name__, case(image))
		finally:
			image.close()
	tap.end()


main()
