# SPDX-License-Identifier: MIT
"""What one has to know about the machine and the build to judge a figure."""
import json
import os
import platform
import re
import shlex
import subprocess


def _read(path, default="?"):
	try:
		with open(path, encoding="utf-8", errors="replace") as file:
			return file.read().strip()
	except OSError:
		return default


def _cpu_model():
	found = re.search(r"^(?:model name|Model|CPU part)\s*:\s*(.+)$", _read("/proc/cpuinfo", ""), re.M)
	return found.group(1) if found else platform.machine()


def _build(build):
	path = os.path.join(build, "meson-info", "intro-buildoptions.json")
	try:
		options = {o["name"]: o["value"] for o in json.loads(_read(path, "[]"))}
	except ValueError:
		options = {}
	return (f"{options.get('buildtype', '?')}, sanitizer {options.get('b_sanitize', '?')}, "
		f"{_compiler(build)}")


def _compiler(build):
	"""The version of the compiler of the first command of the build."""
	try:
		commands = json.loads(_read(os.path.join(build, "compile_commands.json"), "[]"))
		words = shlex.split(commands[0]["command"])
		name = words[1] if words[0].endswith("ccache") else words[0]
		done = subprocess.run([name, "--version"], capture_output=True, text=True, check=True)
		return done.stdout.splitlines()[0]
	except (ValueError, LookupError, OSError, subprocess.SubprocessError):
		return "compiler unknown"


def host_facts(build, private=None):
	"""A dict, in the order in which it is to be printed."""
	facts = {
		"cpu": _cpu_model(),
		"cpus online": os.cpu_count(),
		"virtual": "yes" if "hypervisor" in _read("/proc/cpuinfo", "") else "no",
		"governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "not shown"),
		"kernel": platform.release(),
		"memory": re.sub(r"\s+", " ", _read("/proc/meminfo", "?").splitlines()[0].split(":")[1].strip()),
		"load average": " ".join(_read("/proc/loadavg").split()[:3]),
		"build": _build(build),
	}
	if private:
		status = private.run_tool("status").stdout
		for key in ("spins up to", "rings of", "promotes"):
			found = re.search(rf"^\s*{key}\s+(.+)$", status, re.M)
			facts[key] = found.group(1) if found else "?"
	return facts


def print_facts(facts):
	for key, value in facts.items():
		print(f"{key + ':':14} {value}")
	load = float(str(facts["load average"]).split()[0]) if facts["load average"] != "?" else 0
	if load > 0.5:
		print("NOTE: other programs run on this machine; figures taken now tell little.")
	print(flush=True)
