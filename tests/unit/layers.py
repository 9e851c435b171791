# SPDX-License-Identifier: MIT
"""The layers of the code, checked: who may include whom, that every header stands alone, and that
the pure core calls nothing but memory functions.

usage: layers.py SOURCE_ROOT CORE_ARCHIVE BASE_ARCHIVE
"""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from tap import Tap

# Layer → what it may include, by the first part of the name. A name without a folder is a file
# beside the one that includes it.
LAYERS = {
	"lib/base": {"base"},
	"lib/os": {"os", "base"},
	"lib/core": {"core", "base"},
	"lib/fabric": {"fabric", "core", "base", "os"},
	"lib/client": {"client", "core", "base", "os", "shunt"},
	"lib/preload": {"preload", "client", "core", "base", "os", "shunt"},
	"daemon": {"daemon", "fabric", "core", "base", "os"},
	"include/shunt": {"shunt"},
}

# Folders of internal headers; the public ones may be named as programs outside do.
INTERNAL = {"base", "os", "core", "fabric", "client", "preload", "daemon"}

# All that a pure layer may take from libc; none of these reaches the kernel but for memory.
PURE_HEADERS = {
	"assert.h", "endian.h", "errno.h", "inttypes.h", "limits.h", "stdalign.h", "stdatomic.h",
	"stdbool.h", "stddef.h", "stdint.h", "stdlib.h", "string.h",
}
PURE_LAYERS = ("lib/base", "lib/core")

# What the compiler and a pure function may call.
CORE_SYMBOLS = {
	"abort", "memchr", "memcmp", "memcpy", "memmove", "memset", "__assert_fail",
	"__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_",
}

# From what a sanitizer or a fortified build adds.
TOOL_SYMBOL = re.compile(r"^(__asan_|__ubsan_|__tsan_|__sanitizer_|__sanitizer|__gcov_|__mem\w+_chk$)")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def sources(root, folder, endings=(".c", ".h", ".def")):
	for where, _, names in sorted(os.walk(os.path.join(root, folder))):
		for name in sorted(names):
			if name.endswith(endings):
				yield os.path.relpath(os.path.join(where, name), root)


def includes(root, path):
	with open(os.path.join(root, path), encoding="utf-8") as file:
		return INCLUDE.findall(file.read())


def bad_includes(root, layer):
	"""What the files of @layer include and may not."""
	for path in sources(root, layer):
		for kind, name in includes(root, path):
			part = name.split("/")[0] if "/" in name else None
			ours = kind == '"' or part == "shunt"
			if ours and part and part not in LAYERS[layer]:
				yield f"{path} includes {name}, which is not below {layer}"
			if kind == "<" and layer in PURE_LAYERS and name not in PURE_HEADERS:
				yield f"{path} includes <{name}>, which a pure layer may not"
			if kind == "<" and part in INTERNAL:
				yield f"{path} includes <{name}>: our own headers go in quotes"


def compile_alone(root, compiler, path, flags):
	"""Problems of a file that has nothing but this header in it."""
	text = f'#include "{path}"\n'
	command = [compiler, "-x", "c", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags, "-"]
	done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=root)
	if done.returncode:
		yield f"{path} does not compile alone with {compiler}:\n{done.stderr}"


def headers_alone(tap, root, compiler):
	internal = ["-std=gnu11", "-D_GNU_SOURCE", "-Wno-unused-function", "-Iinclude", "-Ilib", "-I."]
	public = ["-std=c99", "-pedantic", "-Iinclude"]
	problems = []
	count = 0
	for layer in LAYERS:
		for path in sources(root, layer, (".h",)):
			flags = public if layer == "include/shunt" else internal + ["-iquote", os.path.dirname(path)]
			problems += compile_alone(root, compiler, path, flags)
			count += 1
	tap.diag(f"{count} headers with {compiler}")
	tap.result(f"headers_compile_alone_{compiler}", problems or ([] if count else ["no headers"]))


def symbols(archive, *options):
	done = subprocess.run(["nm", "--format=posix", *options, archive], capture_output=True, text=True,
			      check=True)
	# Lines of one word name the archive's members.
	return {line.split()[0] for line in done.stdout.splitlines() if len(line.split()) > 1}


def bad_symbols(core, base):
	own = symbols(core, "--defined-only") | symbols(base, "--defined-only")
	for name in sorted(symbols(core, "--undefined-only") - own - CORE_SYMBOLS):
		if not TOOL_SYMBOL.match(name):
			yield f"the core calls {name}"
	if not own:
		yield "no symbols at all: is this the right archive?"


def main():
	root, core, base = sys.argv[1:4]
	tap = Tap()
	for layer in LAYERS:
		name = "includes_of_" + layer.replace("/", "_")
		if not any(sources(root, layer)):
			tap.diag(f"{layer} has no files yet")
			continue
		tap.result(name, bad_includes(root, layer))
	for compiler in ("gcc", "clang"):
		if shutil.which(compiler):
			headers_alone(tap, root, compiler)
		else:
			tap.skip(f"headers_compile_alone_{compiler}", f"no {compiler} here")
	if shutil.which("nm"):
		tap.result("core_is_pure", bad_symbols(core, base))
	else:
		tap.skip("core_is_pure", "no nm here (binutils)")
	tap.end()


main()
