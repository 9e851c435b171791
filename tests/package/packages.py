# SPDX-License-Identifier: MIT
"""The Debian packages in a clean root: installed, used, upgraded, removed and purged.

usage: packages.py SOURCE_ROOT FOLDER

FOLDER keeps the roots for the next run. What runs in the root has its processes and mounts in
namespaces that end with each command. The next version is made of the packages themselves: another
number and another shipped shunt.conf.
"""
import glob
import os
import re
import shutil
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from tap import Tap

NEXT = "0.1.0+next"
OWN = ("shunt", "libshunt-preload", "libshunt0", "libshunt-dev")
# Where packages leave nothing of their own but what dpkg, apt and the user's accounts are kept in.
KEPT = ("/var/lib/dpkg", "/var/lib/apt", "/var/cache", "/var/log", "/etc/passwd", "/etc/group", "/etc/shadow",
	"/etc/gshadow", "/etc/ld.so.cache", "/etc/.pwd.lock", "/proc", "/sys", "/dev", "/tmp", "/pkg",
	"/var/lib/systemd")

# A server and a client in Perl, which every Debian has; the client checks what comes back.
PROGRAM = r"""
use strict; use warnings; use IO::Socket::INET;
if ($ARGV[0] eq "serve") {
	my $l = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1", LocalPort => 7001, ReuseAddr => 1)
		or die "listen: $!";
	open(my $ready, ">", "/tmp/ready"); close($ready);
	my $c = $l->accept();
	while ((my $n = sysread($c, my $buf, 65536)) > 0) { syswrite($c, $buf) == $n or die "short" }
	exit 0;
}
my $c = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => 7001) or die "connect: $!";
for my $i (1 .. 2000) {
	my $out = sprintf("%08d", $i) x 64;
	syswrite($c, $out) == length($out) or die "short";
	my $in = "";
	while (length($in) < length($out)) { sysread($c, $in, 65536, length($in)) or die "eof" }
	$in eq $out or die "wrong bytes in message $i";
}
print "intact\n";
system("shunt ss --json > /tmp/ss.json; shunt stats --json > /tmp/stats.json");
"""

USE = """
set -e
rm -f /tmp/ready
mkdir -p /run/shunt
setpriv --reuid shunt --regid shunt --init-groups /usr/sbin/shuntd --runtime-dir /run/shunt 2> /tmp/daemon.log &
daemon=$!
for i in $(seq 100); do [ -S /run/shunt/shuntd.sock ] && break; sleep 0.1; done
shunt run --daemon system perl /tmp/program.pl serve &
server=$!
for i in $(seq 100); do [ -e /tmp/ready ] && break; sleep 0.1; done
shunt run --daemon system perl /tmp/program.pl call
wait $server
kill $daemon
wait $daemon
"""


class Failed(Exception):
	"""A step that the rest needs; the text says what was printed."""


def run(*command, check=True, **options):
	done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
			      stdin=subprocess.DEVNULL, timeout=900, check=False, **options)
	if check and done.returncode:
		raise Failed(f"{' '.join(command)[:200]}: status {done.returncode}\n{done.stdout[-3000:]}")
	return done.stdout


class Root:
	def __init__(self, path):
		self.path = path

	def run(self, script, check=True):
		"""A script in the root, with processes, mounts and a network of its own."""
		env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
		       "DEBIAN_FRONTEND": "noninteractive"}
		return run("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c",
			   f"mount -t proc proc {self.path}/proc && mount -t tmpfs tmpfs {self.path}/dev/shm && ip link set lo up && "
			   f"exec chroot {self.path} sh -c \"$1\"", "sh", script, check=check, env=env)

	def files(self):
		"""Every file with its kind, mode and owner, but those that dpkg and accounts are kept in."""
		found = {}
		for folder, folders, names in os.walk(self.path):
			inside = folder[len(self.path):] or "/"
			if any(inside == kept or inside.startswith(kept + "/") for kept in KEPT):
				folders[:] = []
				continue
			for name in folders + names:
				path = os.path.join(inside, name)
				if not path.startswith(KEPT):
					about = os.lstat(os.path.join(folder, name))
					found[path] = (stat.filemode(about.st_mode), about.st_uid, about.st_gid)
		return found

	def read(self, path):
		with open(self.path + path, encoding="utf-8") as file:
			return file.read()

	def write(self, path, text):
		with open(self.path + path, "w", encoding="utf-8") as file:
			file.write(text)


def names(debs):
	return " ".join("/pkg/" + os.path.basename(deb) for deb in debs)


def next_version(debs, folder):
	"""The packages again, as the next version would be: a later number, another shunt.conf."""
	made = []
	os.makedirs(folder, exist_ok=True)
	for deb in debs:
		tree = os.path.join(folder, "tree")
		shutil.rmtree(tree, ignore_errors=True)
		run("dpkg-deb", "-R", deb, tree)
		control = os.path.join(tree, "DEBIAN", "control")
		with open(control, encoding="utf-8") as file:
			text = file.read()
		old = re.search(r"^Version: (.*)$", text, re.M).group(1)
		text = re.sub(r"^Version: .*$", "Version: " + NEXT, text, flags=re.M).replace(f"(= {old})", f"(= {NEXT})")
		with open(control, "w", encoding="utf-8") as file:
			file.write(text)
		conf = os.path.join(tree, "etc", "shunt.conf")
		if os.path.exists(conf):
			with open(conf, "a", encoding="utf-8") as file:
				file.write("# of the next version\n")
		sums = os.path.join(tree, "DEBIAN", "md5sums")
		if os.path.exists(sums):
			os.unlink(sums)
		made.append(os.path.join(folder, os.path.basename(deb).replace(old, NEXT)))
		run("dpkg-deb", "--root-owner-group", "-b", tree, made[-1])
	shutil.rmtree(tree)
	return made


class Test:
	def __init__(self, source, folder):
		self.source, self.folder = source, folder
		self.debs, self.next = [], []
		self.root, self.before = None, {}

	def prepare(self):
		"""Build; and a root that has all that the packages depend on, and nothing of Shunt."""
		out = os.path.join(self.folder, "out")
		shutil.rmtree(out, ignore_errors=True)
		os.makedirs(out)
		done = subprocess.run([os.path.join(self.source, "tools", "package.sh"), "--root",
				       os.path.join(self.folder, "build-root"), out], stdout=subprocess.PIPE,
				      stderr=subprocess.STDOUT, text=True, check=False, timeout=1500)
		if done.returncode:
			return done.returncode, done.stdout
		self.debs = [glob.glob(f"{out}/{name}_*.deb")[0] for name in OWN]
		needs = {"systemd"}
		for deb in self.debs:
			for need in run("dpkg-deb", "-f", deb, "Depends").replace("|", ",").split(","):
				need = need.strip().split(" ")[0]
				if need and need not in OWN and "sysusers" not in need:
					needs.add(need)
		tar = os.path.join(self.folder, "clean.tar")
		listed = tar + ".packages"
		if not (os.path.exists(tar) and os.path.exists(listed) and
			open(listed, encoding="utf-8").read() == " ".join(sorted(needs))):
			run(os.path.join(self.source, "tests", "package", "root.sh"), tar, ",".join(sorted(needs)))
			with open(listed, "w", encoding="utf-8") as file:
				file.write(" ".join(sorted(needs)))
		path = os.path.join(self.folder, "root")
		shutil.rmtree(path, ignore_errors=True)
		os.makedirs(path)
		run("tar", "-x", "-C", path, "-f", tar)
		self.root = Root(path)
		os.makedirs(path + "/pkg")
		# The first start of a system does this, and what it makes stays.
		self.root.run("ldconfig; systemd-sysusers")
		self.before = self.root.files()
		self.next = next_version(self.debs, os.path.join(self.folder, "next"))
		for deb in self.debs + self.next:
			shutil.copy(deb, path + "/pkg")
		return 0, ""

	def installs(self):
		self.root.run(f"dpkg -i {names(self.debs)}")
		version = self.root.run("shunt --version; shuntd --version")
		if version.split() != ["shunt", "0.1.0", "shuntd", "0.1.0"]:
			yield f"the versions are {version}"
		there = self.root.files()
		uid = int(self.root.run("id -u shunt"))
		gid = int(self.root.run("id -g shunt"))
		for path, wanted in (
			("/etc/shunt.conf", ("-rw-r--r--", 0, 0)),
			("/usr/bin/shunt", ("-rwxr-xr-x", 0, 0)),
			("/usr/sbin/shuntd", ("-rwxr-xr-x", 0, 0)),
			("/usr/lib/systemd/system/shuntd.service", ("-rw-r--r--", 0, 0)),
			("/usr/lib/systemd/system/shuntd.socket", ("-rw-r--r--", 0, 0)),
			("/usr/share/man/man5/shunt.conf.5.gz", ("-rw-r--r--", 0, 0)),
			("/usr/share/man/man7/shunt.7.gz", ("-rw-r--r--", 0, 0)),
			("/usr/share/man/man8/shuntd.8.gz", ("-rw-r--r--", 0, 0)),
			("/usr/share/bash-completion/completions/shunt", ("-rw-r--r--", 0, 0)),
			("/usr/include/shunt/shunt.h", ("-rw-r--r--", 0, 0)),
			("/run/shunt", ("drwxr-xr-x", uid, gid)),
			("/etc/systemd/system/multi-user.target.wants/shuntd.service", ("lrwxrwxrwx", 0, 0)),
			("/etc/systemd/system/sockets.target.wants/shuntd.socket", ("lrwxrwxrwx", 0, 0)),
		):
			if there.get(path) != wanted:
				yield f"{path} is {there.get(path)}, not {wanted}"
		yield from (f"{path} is {about}, writable by others or set-user-ID" for path, about in there.items()
			    if path not in self.before and about[0][0] != "l" and
			    (about[0][8] == "w" or "s" in about[0].lower()[1:]))
		home = self.root.run("getent passwd shunt").strip().split(":")
		if home[6] not in ("/usr/sbin/nologin", "/sbin/nologin"):
			yield f"one can log in as shunt: {home}"
		good = self.root.run("shuntd --check-config /etc/shunt.conf", check=False)
		if good != "/etc/shunt.conf: good\n":
			yield good

	def works(self):
		self.root.write("/tmp/program.pl", PROGRAM)
		printed = self.root.run(USE)
		if "intact" not in printed:
			yield printed
		listed = self.root.read("/tmp/ss.json")
		if listed.count('"ring"') < 2:
			yield f"the connection is not on a ring at both ends: {listed[:2000]}"
		if self.root.run("find /var/lib/shunt -user 0 2>/dev/null", check=False).strip():
			yield "something of root's in /var/lib/shunt"

	def upgrades(self):
		"""To the next version; a changed shunt.conf is kept, an unchanged one is replaced."""
		self.root.run(f"dpkg -i {names(self.next)}")
		if not self.root.read("/etc/shunt.conf").endswith("# of the next version\n"):
			yield "an unchanged shunt.conf was not replaced"
		self.root.run(f"dpkg -i {names(self.debs)}")
		changed = self.root.read("/etc/shunt.conf").replace("#spin_us = 50;", "spin_us = 20;")
		self.root.write("/etc/shunt.conf", changed)
		self.root.run(f"dpkg --force-confdef --force-confold -i {names(self.next)}")
		if self.root.read("/etc/shunt.conf") != changed:
			yield "a changed shunt.conf was not kept"
		version = self.root.run("dpkg-query -W -f '${Version} ${Status}\\n' " + " ".join(OWN))
		if version != f"{NEXT} install ok installed\n" * len(OWN):
			yield version
		printed = self.root.run(USE)
		if "intact" not in printed:
			yield "after the upgrade: " + printed

	def removes(self):
		self.root.run("mkdir -p /var/lib/shunt && echo '{}' > /var/lib/shunt/probe.json")
		# A unit that nobody disabled, as shunt enable leaves it; and a file of somebody else's.
		self.root.run("cd /etc/systemd/system && mkdir a.service.d b.service.d && "
			      "echo 'Environment=LD_PRELOAD=/usr/lib/libshunt-preload.so' > a.service.d/50-shunt.conf && "
			      "echo '# mine' > b.service.d/50-shunt.conf")
		self.root.run("dpkg -r " + " ".join(reversed(OWN)))
		for path, wanted in (("/etc/shunt.conf", True), ("/usr/bin/shunt", False), ("/usr/sbin/shuntd", False),
				     ("/var/lib/shunt/probe.json", True)):
			if os.path.exists(self.root.path + path) != wanted:
				yield f"{path} is {'gone' if wanted else 'still there'} after the removal"

	def purges(self):
		self.root.run("dpkg --purge " + " ".join(reversed(OWN)))
		after = self.root.files()
		for path in ("/etc/systemd/system/b.service.d", "/etc/systemd/system/b.service.d/50-shunt.conf"):
			if not after.pop(path, None):
				yield f"{path}, which is not Shunt's, is gone"
		for path in sorted(set(after) ^ set(self.before)):
			yield f"{path} {'stays behind' if path in after else 'is missing'}"
		yield from (f"{path} was {self.before[path]} and is {after[path]}" for path in sorted(self.before)
			    if path in after and after[path] != self.before[path])


def main():
	source, folder = sys.argv[1:3]
	tap = Tap()
	test = Test(source, os.path.abspath(folder))
	os.makedirs(folder, exist_ok=True)
	if os.geteuid() != 0 or not all(shutil.which(name) for name in ("mmdebstrap", "dpkg-deb", "unshare", "ip")):
		tap.skip("packages", "needs root, Debian, iproute2 and mmdebstrap")
		tap.end()
	status, text = test.prepare()
	if status == 3:
		tap.skip("packages", text.strip().splitlines()[-1])
		tap.end()
	tap.result("packages_are_built_and_lintian_is_silent", text.splitlines() if status else [])
	if status:
		tap.end()
	for check in (test.installs, test.works, test.upgrades, test.removes, test.purges):
		try:
			tap.result(check.__name__, check())
		except Failed as failure:
			tap.result(check.__name__, str(failure).splitlines())
			break
	tap.end()


main()
