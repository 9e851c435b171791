# SPDX-License-Identifier: MIT
"""Broken files of settings: for each, word for word, what shuntd --check-config says: the file, the
line, the key, and what would be right.

usage: broken_conf.py SHUNTD
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from tap import Tap

# What bad.conf holds, and what is said of it.
BROKEN = (
	(b'spin_us = 50\nring_bytes = 4096;\nx\n',
	 'bad.conf:3: syntax error: the file ends here, within a setting; a line looks like: spin_us'
	 ' = 50;'),
	(b'spin_us 50;\n',
	 'bad.conf:1: syntax error in, or before, "spin_us 50;"; a line looks like: spin_us = 50;'),
	(b'spin_us = ;\n',
	 'bad.conf:1: syntax error in, or before, "spin_us = ;"; a line looks like: spin_us = 50;'),
	(b'spin_us = 50;\nspin_us = 60;\n',
	 'bad.conf:2: the key before the = is set already; keep one of the two'),
	(b'log_level = "info;\n',
	 'bad.conf:1: the text that begins here is never closed; put a " at its end'),
	(b'log_level = "in\nfo";\n',
	 'bad.conf:1: log_level is "in\nfo", but must be one of "error", "warning", "info", "debug"'),
	(b'log_level = info;\n',
	 'bad.conf:1: syntax error in, or before, "log_level = info;"; a line looks like: spin_us = '
	 '50;'),
	(b'log_level = "loud";\n',
	 'bad.conf:1: log_level is "loud", but must be one of "error", "warning", "info", "debug"'),
	(b'log_level = 3;\n',
	 'bad.conf:1: log_level must be one of the words "error", "warning", "info", "debug", in quo'
	 'tes'),
	(b'spin_us = "50";\n',
	 'bad.conf:1: spin_us must be a whole number of microseconds from 0 to 100000'),
	(b'spin_us = 1.5;\n',
	 'bad.conf:1: spin_us must be a whole number of microseconds from 0 to 100000'),
	(b'spin_us = true;\n',
	 'bad.conf:1: spin_us must be a whole number of microseconds from 0 to 100000'),
	(b'spin_us = -1;\n',
	 'bad.conf:1: spin_us is -1, but must be from 0 to 100000 microseconds'),
	(b'spin_us = 100001;\n',
	 'bad.conf:1: spin_us is 100001, but must be from 0 to 100000 microseconds'),
	(b'spin_us = 99999999999;\n',
	 'bad.conf:1: 99999999999 needs an L at its end, as each number above 2147483647'),
	(b'spin_us = 99999999999999999999999;\n',
	 'bad.conf:1: 99999999999999999999999 is larger than any setting may be (2^63 - 1)'),
	(b'ring_bytes_per_uid = 8589934592;\n',
	 'bad.conf:1: 8589934592 needs an L at its end, as each number above 2147483647'),
	(b'ring_bytes_per_uid = 0xffffffffffffffffffff;\n',
	 'bad.conf:1: 0xffffffffffffffffffff is larger than any setting may be (2^63 - 1)'),
	(b'ring_bytes_per_uid = 99999999999999999999L;\n',
	 'bad.conf:1: 99999999999999999999 is larger than any setting may be (2^63 - 1)'),
	(b'ring_bytes = 5000;\n',
	 'bad.conf:1: ring_bytes is 5000, but must be a power of two'),
	(b'ring_bytes = [ 4096 ];\n',
	 'bad.conf:1: ring_bytes must be a whole number of bytes from 4096 to 67108864'),
	(b'spin_us = ( 1 );\n',
	 'bad.conf:1: spin_us must be a whole number of microseconds from 0 to 100000'),
	(b'spin_us = { a = 1; };\n',
	 'bad.conf:1: spin_us must be a whole number of microseconds from 0 to 100000'),
	(b'spinus = 5;\n',
	 'bad.conf:1: unknown key spinus; did you mean spin_us?'),
	(b'quite_another = 5;\n',
	 'bad.conf:1: unknown key quite_another; shuntd --print-config lists the keys'),
	(b'Spin_us = 5;\n',
	 'bad.conf:1: unknown key Spin_us; did you mean spin_us?'),
	(b'peer_listen = "10.0.0";\n',
	 'bad.conf:1: peer_listen must be an IP address in quotes, such as "10.0.0.1"'),
	(b'peer_listen = "example";\n',
	 'bad.conf:1: peer_listen must be an IP address in quotes, such as "10.0.0.1"'),
	(b'peer_key = "etc/key";\n',
	 'bad.conf:1: peer_key must be a file in quotes: its full path, of at most 255 bytes, or the'
	 ' name of a credential'),
	(b'peer_key = 5;\n',
	 'bad.conf:1: peer_key must be a file in quotes: its full path, of at most 255 bytes, or the'
	 ' name of a credential'),
	(b"peer_key = \"/" + b"a" * 300 + b"\";\n",
	 'bad.conf:1: peer_key must be a file in quotes: its full path, of at most 255 bytes, or the'
	 ' name of a credential'),
	(b'pool_min = 5;\npool_max = 4;\n',
	 'bad.conf:2: pool_max (4) must not be below pool_min (5)'),
	(b'pool_max = 1;\n',
	 'bad.conf:1: pool_max (1) must not be below pool_min (2)'),
	(b'\npeer_ca = "/a";\n',
	 'bad.conf:2: peer_ca, peer_cert and peer_cert_key go together: set all three or none'),
	(b'peer_cert = "/a";\n',
	 'bad.conf:1: peer_ca, peer_cert and peer_cert_key go together: set all three or none'),
	(b'peer_cert_key = "/a";\n',
	 'bad.conf:1: peer_ca, peer_cert and peer_cert_key go together: set all three or none'),
	(b'peer_key = "/k";\npeer_ca = "/a";\npeer_cert = "/a";\npeer_cert_key = "/a";\n',
	 'bad.conf:1: peer_key and peer_ca exclude each other: set one of them'),
	(b'spin_us = 5;\x00\nx = 1;\n',
	 'bad.conf:1: there is a NUL byte; this is no text'),
	(b'log_level = "in\x00fo";\n',
	 'bad.conf:1: there is a NUL byte; this is no text'),
	(b'\xff\xfe\n',
	 'bad.conf:1: byte 0xff is not UTF-8; save the file as UTF-8'),
	(b'log_level = "\xff\xfe";\n',
	 'bad.conf:1: byte 0xff is not UTF-8; save the file as UTF-8'),
	(b'# \xff comment\nspin_us = 5x;\n',
	 'bad.conf:1: byte 0xff is not UTF-8; save the file as UTF-8'),
	(b'\xef\xbb\xbfspin_us = 5;\n',
	 'bad.conf:1: the file begins with a byte order mark; save it as UTF-8 without one'),
	(b'peer_key = "/\xff";\n',
	 'bad.conf:1: byte 0xff is not UTF-8; save the file as UTF-8'),
	(b'devices = 5;\n',
	 'bad.conf:1: devices must be a list of groups: devices = ( { vendor_id = 0x02c9; inline_cap'
	 ' = 236; } );'),
	(b'devices = { vendor_id = 1; };\n',
	 'bad.conf:1: devices must be a list of groups: devices = ( { vendor_id = 0x02c9; inline_cap'
	 ' = 236; } );'),
	(b'devices = ( 5 );\n',
	 'bad.conf:1: an entry of devices must look like: { vendor_id = 0x02c9; inline_cap = 236; }'),
	(b'devices = (\n{ vendor_id = 1; }\n);\n',
	 'bad.conf:2: an entry of devices must say what holds for them: inline_cap, inline_hints, in'
	 'line or use'),
	(b'devices = (\n{ use = "no"; }\n);\n',
	 'bad.conf:2: an entry of devices must say which ones: vendor_id, part_id, driver or name ("'
	 '*" for all)'),
	(b'devices = (\n{ name = "a"; use = "never"; }\n);\n',
	 'bad.conf:2: use of a device must be "yes" or "no", in quotes'),
	(b'devices = (\n{ name = "a";\n inline_hints = [ 1, 70000 ]; }\n);\n',
	 'bad.conf:3: a hint of a device is 70000, but must be from 1 to 65535'),
	(b'devices = (\n{ name = "a";\n inline_hints = [ ]; }\n);\n',
	 'bad.conf:3: inline_hints of a device must be a list of 1 to 8 sizes, such as [ 216, 101, 4'
	 '8 ]'),
	(b'devices = (\n{ name = "a";\n inline_hints = [ 1, 2, "a" ]; }\n);\n',
	 'bad.conf:3: what is between [ and ] must be all of one kind, as [ 1, 2 ] or [ "a", "b" ]'),
	(b'devices = (\n{ name = "a";\n inline_cap = -1; }\n);\n',
	 'bad.conf:3: inline_cap of a device is -1, but must be from 0 to 65535'),
	(b'devices = (\n{ vendor = 5;\n use="no"; }\n);\n',
	 'bad.conf:2: unknown key vendor of a device; there are vendor_id, part_id, driver, name, in'
	 'line_cap, inline_hints, inline, use'),
	(b'devices = (\n{ vendor_id = 0x1000000;\n use="no"; }\n);\n',
	 'bad.conf:2: vendor_id of a device is 16777216, but must be from 0 to 16777215'),
	(b'peers = 5;\n',
	 'bad.conf:1: peers must be a list of groups: peers = ( { address = "10.0.0.2"; } );'),
	(b'peers = (\n{ port = 5; }\n);\n',
	 'bad.conf:2: an entry of peers must have an address'),
	(b'peers = (\n{ address = "0.0.0.0"; }\n);\n',
	 'bad.conf:2: address of a peer must be an IP address in quotes, such as "10.0.0.2", or a li'
	 'st of them'),
	(b'peers = (\n{ address = "host.example"; }\n);\n',
	 'bad.conf:2: address of a peer must be an IP address in quotes, such as "10.0.0.2", or a li'
	 'st of them'),
	(b'peers = (\n{ address = [ ]; }\n);\n',
	 'bad.conf:2: address of a peer must be an IP address in quotes, such as "10.0.0.2", or a li'
	 'st of them'),
	(b'peers = (\n{ address = "10.0.0.1"; },\n{ address = "10.0.0.1"; }\n);\n',
	 'bad.conf:3: 10.0.0.1 is in two entries of peers'),
	(b'peers = (\n{ address = "10.0.0.1"; port = 0; }\n);\n',
	 'bad.conf:2: port of a peer must be a whole number from 1 to 65535'),
	(b'peers = (\n{ address = "10.0.0.1"; port = 65536; }\n);\n',
	 'bad.conf:2: port of a peer must be a whole number from 1 to 65535'),
	(b'peers = (\n{ address = "10.0.0.1"; key = ""; }\n);\n',
	 'bad.conf:2: key of a peer must be a file in quotes: its full path, of at most 255 bytes, o'
	 'r the name of a credential'),
	(b'peers = (\n{ address = "10.0.0.1"; name = "a\xff"; }\n);\n',
	 'bad.conf:2: byte 0xff is not UTF-8; save the file as UTF-8'),
	(b'peers = (\n{ address = "10.0.0.1"; nmae = "a"; }\n);\n',
	 'bad.conf:2: unknown key nmae of a peer; there are address, rdma_address, port, key, name'),
	(b'peers = (\n{ address = "10.0.0.1"; address = "10.0.0.2"; }\n);\n',
	 'bad.conf:2: the key before the = is set already; keep one of the two'),
	(b'peers = (\n{ address = "10.0.0.1"; }\n;\n',
	 'bad.conf:3: syntax error in, or before, ";"; a line looks like: spin_us = 50;'),
	(b'rules = (\n{ program = "a"; }\n);\n',
	 'bad.conf:2: a rule must have an action: "accelerate" or "tcp"'),
	(b'rules = (\n{ program = "a"; action = "drop"; }\n);\n',
	 'bad.conf:2: action of a rule must be "accelerate" or "tcp"'),
	(b'rules = (\n{ to = "10.0.0.1/8"; action = "tcp"; }\n);\n',
	 'bad.conf:2: to of a rule is 10.0.0.1/8, which is an address in a network, not the network:'
	 ' that is "10.0.0.0/8"'),
	(b'rules = (\n{ port = "9-8"; action = "tcp"; }\n);\n',
	 'bad.conf:2: port of a rule is 9-8, but the first must not be above the last: "8-9"'),
	(b'rules = (\n{ port = 0; action = "tcp"; }\n);\n',
	 'bad.conf:2: port of a rule must be a number from 1 to 65535, or a range in quotes, such as'
	 ' "8000-8999"'),
	(b'rules = (\n{ user = "nobody-such"; action = "tcp"; }\n);\n',
	 'bad.conf:2: there is no user nobody-such on this host: create it first, or write its numbe'
	 'r'),
	(b'rules = (\n{ action = "tcp"; },\n{ action = "tcp"; }\n);\n',
	 'bad.conf:3: this rule is never looked at: the one before it, without any condition, decide'
	 's about everything, and must be the last'),
	(b'rule = ( );\n',
	 'bad.conf:1: unknown key rule; did you mean rules?'),
	(b'@include "other.conf"\n',
	 'other.conf:2: ring_bytes is 5000, but must be a power of two'),
	(b'@include "missing.conf"\n',
	 "bad.conf:1: missing.conf can't be included: No such file or directory; give the full path "
	 'of a file'),
	(b'\n@include "dir"\n',
	 "bad.conf:2: dir can't be included: it is a directory; give the full path of a file"),
	(b'@include "broken.conf"\n',
	 'broken.conf:3: the key before the = is set already; keep one of the two'),
	(b'@include "bad.conf"\n',
	 'bad.conf:1: bad.conf is included more than 10 files deep; does it include itself?'),
	(b'@include other.conf\n',
	 'bad.conf:1: @include must be followed by a file in quotes: @include "/etc/shunt.d/own.conf'
	 '"'),
	(b'spin_us = 5;\n/* open\n',
	 'bad.conf:2: the comment that begins here is never closed; put a */ at its end'),
	(b'spin_us = 5;;\n',
	 'bad.conf:1: syntax error in, or before, "spin_us = 5;;"; a line looks like: spin_us = 50;'),
	(b'spin_us = 0b101;\n',
	 'bad.conf:1: syntax error in, or before, "spin_us = 0b101;"; a line looks like: spin_us = 5'
	 '0;'),
	(b'a.b = 5;\n',
	 'bad.conf:1: syntax error in, or before, "a.b = 5;"; a line looks like: spin_us = 50;'),
	(b'}\n',
	 'bad.conf:1: syntax error in, or before, "}"; a line looks like: spin_us = 50;'),
	(b'peers = ( { address = [ "10.0.0.1", 5 ]; } );\n',
	 'bad.conf:1: what is between [ and ] must be all of one kind, as [ 1, 2 ] or [ "a", "b" ]'),
	(b'devices = ( { name = ""; use = "no"; } );\n',
	 'bad.conf:1: name of a device must be a pattern in quotes, such as "mlx5_*", of at most 63 '
	 'characters'),
)
# Files that others include.
BESIDE = {
	"other.conf": b"spin_us = 5;\nring_bytes = 5000;\n",
	"broken.conf": b"spin_us = 5;\n\nspin_us 7\n",
}
# What is no file of settings at all.
UNREADABLE = (
	("folder", "folder: can't be read: it is a directory"),
	("missing.conf", "missing.conf: can't be read: No such file or directory"),
	("pipe", "pipe: can't be read: it is no plain file"),
	("/dev/zero", "/dev/zero: can't be read: it is larger than 1 MiB"),
	("large.conf", "large.conf: can't be read: it is larger than 1 MiB"),
	("loop.conf", "loop.conf: can't be read: Too many levels of symbolic links"),
)
# What looks odd and is right.
GOOD = (b"", b"# only a comment, \xc3\xa9 in it", b"spin_us: 5", b"spin_us = 5", b"ring_bytes_per_uid = 8589934592L;",
	b"log_level = \"info\" // with \"quotes\" and /* behind it\n", b"devices = ( { vendor_id = 0xFFFFFF; use = \"no\"; } );",
	b"rules = ( { program = \"a 99999999999 # b\"; action = \"tcp\"; } );", b"@include \"good.conf\"\nspin_us = 7;\n")


def check(shuntd, folder, name):
	done = subprocess.run([shuntd, "--check-config", name], cwd=folder, stdout=subprocess.PIPE,
			      stderr=subprocess.STDOUT, timeout=60, check=False, stdin=subprocess.DEVNULL)
	return done.returncode, done.stdout.decode(errors="backslashreplace").rstrip("\n")


def write(folder, name, content):
	with open(os.path.join(folder, name), "wb") as file:
		file.write(content)


def broken(shuntd, folder):
	for content, wanted in BROKEN:
		write(folder, "bad.conf", content)
		status, text = check(shuntd, folder, "bad.conf")
		if (status, text) != (1, wanted):
			yield f"{content[:100]}: status {status}, {text}, not {wanted}"


def unreadable(shuntd, folder):
	for name, wanted in UNREADABLE:
		status, text = check(shuntd, folder, name)
		if (status, text) != (1, wanted):
			yield f"{name}: status {status}, {text}, not {wanted}"


def good(shuntd, folder):
	for content in GOOD:
		write(folder, "bad.conf", content)
		status, text = check(shuntd, folder, "bad.conf")
		if (status, text) != (0, "bad.conf: good"):
			yield f"{content}: status {status}, {text}"


def main():
	shuntd = os.path.abspath(sys.argv[1])
	tap = Tap()
	with tempfile.TemporaryDirectory() as folder:
		for name, content in BESIDE.items():
			write(folder, name, content)
		write(folder, "good.conf", b"promote_after = 3;\n")
		write(folder, "large.conf", b"# \n" * 400000)
		os.mkdir(folder + "/dir")
		os.mkdir(folder + "/folder")
		os.mkfifo(folder + "/pipe")
		os.symlink("loop.conf", folder + "/loop.conf")
		tap.result("each_broken_file_is_told_with_place_and_remedy", broken(shuntd, folder))
		tap.result("what_is_no_file_is_refused", unreadable(shuntd, folder))
		tap.result("what_is_right_is_taken", good(shuntd, folder))
	tap.end()


main()
