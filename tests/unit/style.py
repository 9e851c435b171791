# SPDX-License-Identifier: MIT
"""The measurable part of the house style: lengths of files, functions and lines, and clang-format.

usage: style.py SOURCE_ROOT
"""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from tap import Tap

FOLDERS = ("daemon", "include", "lib", "tests", "tools")
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
# Other versions of clang-format disagree in details.
FORMAT_VERSION = 14


def sources(root):
	for folder in FOLDERS:
		for where, _, names in sorted(os.walk(os.path.join(root, folder))):
			for name in sorted(names):
				if name.endswith((".c", ".h")):
					yield os.path.relpath(os.path.join(where, name), root)


def lines_of(root, path):
	with open(os.path.join(root, path), encoding="utf-8") as file:
		return file.read().splitlines()


def long_files(root):
	for path in sources(root):
		count = len(lines_of(root, path))
		if count > FILE_LINES_MAX:
			yield f"{path}: {count} lines, at most {FILE_LINES_MAX}"


def long_functions(root):
	"""A body opens with a brace in the first column, as clang-format puts it."""
	for path in sources(root):
		start = None
		for number, line in enumerate(lines_of(root, path), 1):
			if line == "{":
				start = number
			elif line.startswith("}") and start:
				if number - start - 1 > FUNCTION_LINES_MAX:
					yield f"{path}:{start}: function of {number - start - 1} lines"
				start = None


def unlicensed(root):
	for path in sources(root):
		lines = lines_of(root, path)
		if not lines or "SPDX-License-Identifier: MIT" not in lines[0]:
			yield f"{path}: its first line is not the licence"


def format_command():
	"""clang-format of the right version, or None and the reason."""
	for name in (f"clang-format-{FORMAT_VERSION}", "clang-format"):
		if not shutil.which(name):
			continue
		version = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
		found = re.search(r"version (\d+)\.", version)
		if found and int(found.group(1)) == FORMAT_VERSION:
			return name, None
	return None, f"no clang-format {FORMAT_VERSION} here"


def misformatted(root, command):
	done = subprocess.run([command, "--dry-run", "--Werror", *sources(root)], capture_output=True,
			      text=True, cwd=root)
	places = re.findall(r"^(\S+:\d+):\d+: error", done.stderr, re.M)
	yield from dict.fromkeys(places)
	if done.returncode and not places:
		yield done.stderr


def main():
	root = sys.argv[1]
	tap = Tap()
	tap.result("files_are_short", long_files(root))
	tap.result("functions_are_short", long_functions(root))
	tap.result("files_name_their_licence", unlicensed(root))
	command, reason = format_command()
	if command:
		tap.result("clang_format_agrees", misformatted(root, command))
	else:
		tap.skip("clang_format_agrees", reason)
	tap.end()


main()
