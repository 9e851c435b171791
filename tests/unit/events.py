# SPDX-License-Identifier: MIT
"""The kinds of line in the journal: their ids, which are given for ever, and the shipped catalog.

usage: events.py SHUNTD CATALOG SOURCE_ROOT
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from tap import Tap

# Whoever filters by one of these must find it in every later version: lines are added, never changed.
IDS = {
	"daemon-ready": "be08517ec1e34ce7a5146296e87dcbc3",
	"daemon-stopping": "4dff8eb2e7d648cda241f4d914fa77ce",
	"config-reloaded": "5a96076cf0ac499a9f410eea75afc569",
	"config-refused": "a78a5b14d6714f08a957407faa155266",
	"kernel-unfit": "00166515395a4b5ba5ede456c9ada81c",
	"device-ready": "9c00416c4a2942859f0678568d0543df",
	"device-unused": "9fd102d7c5d142e2b27724682652acf7",
	"device-gone": "1777fde78274406f8556d7554368b49d",
	"port-changed": "b4c4c12604fa4e3489e25ec82f6618f4",
	"peer-up": "ff3b85ab65344bf3a566db1cb1c11989",
	"peer-down": "65bab53a18224082b51b83480f39174f",
	"peer-refused": "08d4aebc1a944e20a34cb8f1a9ad67a9",
	"link-up": "30566ac3b4c2449898d0bf8087508321",
	"link-down": "cb9f198272334c6f85bc8d7b6e8703d1",
	"client-cut-off": "3164ea1964044074a24aeba2ec466eb3",
	"client-refused": "963fc29a46ed42ee9ff2908b704b5a9e",
	"connection-promoted": "d674cfc73dd84a759ddcdd796a1dc09e",
	"connection-demoted": "4ae3d8a356b84ef28bea9d006b592166",
	"lane-lost": "13005bfa389c4e2ebd7610f518706585",
	"connection-reset": "8b237cf30f90439abde97b89c495b957",
}


def printed(shuntd, option):
	return subprocess.run([shuntd, option], capture_output=True, text=True, timeout=60, check=True).stdout


def ids(shuntd):
	found = re.findall(r"^(\S+)\n    MESSAGE_ID=(\S+)$", printed(shuntd, "--print-events"), re.M)
	if len(found) != len(dict(found)) or len(found) != len({number for _, number in found}):
		yield f"a name or an id is there twice: {found}"
	for name, number in found:
		if not re.fullmatch("[0-9a-f]{32}", number):
			yield f"{name} has no 128-bit id: {number}"
		if IDS.get(name) != number:
			yield f"{name} is {number}, not {IDS.get(name)}: ids never change; a new kind needs a line here"
	yield from (f"{name} is gone" for name in IDS if name not in dict(found))


def catalog(shuntd, path):
	with open(path, encoding="utf-8") as file:
		text = file.read()
	if text != printed(shuntd, "--print-catalog"):
		yield f"{path} is not what shuntd --print-catalog prints"
	if re.findall(r"^-- (\S+)$", text, re.M) != list(IDS.values()):
		yield "the catalog has other ids than the table, or in another order"
	for entry in text.split("\n-- ")[1:]:
		head = entry.split("\n\n")[0]
		for header in ("Subject: ", "Defined-By: shunt", "Documentation: man:shuntd(8)"):
			if "\n" + header not in head:
				yield f"no {header} in {entry}"


def understood(path):
	"""What journalctl makes of the catalog."""
	with tempfile.TemporaryDirectory() as root:
		folder = os.path.join(root, "usr/lib/systemd/catalog")
		os.makedirs(folder)
		os.makedirs(os.path.join(root, "var/lib/systemd/catalog"))
		shutil.copy(path, folder)
		for words in (["--update-catalog"], ["--list-catalog"]):
			done = subprocess.run(["journalctl", "--root", root, *words], capture_output=True, text=True,
					      timeout=60, check=False)
			if done.returncode or done.stderr:
				yield f"journalctl {words}: {done.returncode}: {done.stderr}"
		yield from (f"no {number} in: {done.stdout}" for number in IDS.values() if number not in done.stdout)
		if "shunt: An RDMA link is lost" not in done.stdout:
			yield f"no subject: {done.stdout}"


def fields(shuntd, root):
	"""Every kind is logged somewhere, with the fields that the table has, and no others."""
	text = printed(shuntd, "--print-events")
	table = dict(re.findall(r"^(\S+)\n    MESSAGE_ID=.*\n.*, fields (.*)$", text, re.M))
	with open(os.path.join(root, "daemon", "events.c"), encoding="utf-8") as file:
		kinds = dict(re.findall(r"ROW\((\w+), \"(\S+)\"", file.read()))
	logged = {name: set() for name in table}
	for file_name in os.listdir(os.path.join(root, "daemon")):
		if not file_name.endswith(".c"):
			continue
		with open(os.path.join(root, "daemon", file_name), encoding="utf-8") as file:
			for limited, call in re.findall(r"\bevent_log(_within)?\((.*?)\);", file.read(), re.S):
				# The limited form has the limit and the time first.
				name = kinds[call.split(",")[2 if limited else 0].strip()]
				logged[name] |= set(re.findall(r"LOG_(?:TEXT|NUMBER)\(\s*\"(\w+)\"", call))
	for name, has in logged.items():
		if has != set(table[name].split()):
			yield f"{name} is logged with {sorted(has)}, the table has {table[name]}"


def main():
	shuntd, path, root = sys.argv[1:4]
	tap = Tap()
	tap.result("ids_are_unique_and_never_change", ids(shuntd))
	tap.result("the_catalog_is_shipped", catalog(shuntd, path))
	if shutil.which("journalctl"):
		tap.result("journalctl_understands_the_catalog", understood(path))
	else:
		tap.skip("journalctl_understands_the_catalog", "no journalctl here (systemd)")
	tap.result("each_kind_is_logged_with_its_fields", fields(shuntd, root))
	tap.end()


main()
