# SPDX-License-Identifier: MIT
"""What there is is documented, and what is documented is there: subcommands, options, settings,
functions and variables, in the manual pages and in the completion.

usage: docs.py SOURCE_ROOT BUILD_ROOT SHUNT SHUNTD LIBSHUNT
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from tap import Tap

OPTION = r"--[a-z][a-z-]*"


def read(*path):
	with open(os.path.join(*path), encoding="utf-8") as file:
		return file.read()


def out_of(*command, **options):
	"""What a command prints, to both of its outputs."""
	return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
			      stdin=subprocess.DEVNULL, check=False, **options).stdout


def differ(what, real, documented, where):
	yield from (f"{what} {name} is not in {where}" for name in sorted(set(real) - set(documented)))
	yield from (f"{where} has {what} {name}, which does not exist"
		    for name in sorted(set(documented) - set(real)))


def fl(text):
	"""The options that a piece of a page names."""
	return {"-" + name for name in re.findall(r"(?:Fl|\|) (-[a-z][a-z-]*)", text)}


class Docs:
	def __init__(self, root, build, shunt, shuntd, library):
		self.root, self.build, self.shunt, self.shuntd, self.library = root, build, shunt, shuntd, library
		self.subcommands = re.findall(r"^  ([a-z][a-z-]*)  +\S", out_of(shunt, "--help"), re.M)
		self.pages = {os.path.basename(path): path for path in
			      glob.glob(root + "/tools/*.1") + glob.glob(root + "/include/shunt/*.3") +
			      glob.glob(root + "/daemon/*.7") + glob.glob(root + "/daemon/*.8") +
			      glob.glob(build + "/daemon/*.5")}

	def page(self, name):
		return read(self.pages[name])

	def help_options(self, subcommand):
		text = out_of(self.shunt, subcommand, "--help")
		return set(re.findall(OPTION, text)) - {"--help"}

	# --- shunt(1) ---------------------------------------------------------------------------

	def synopsis(self):
		"""Subcommand → the options that the synopsis of shunt(1) has for it."""
		text = self.page("shunt.1").split(".Sh SYNOPSIS\n")[1].split("\n.Sh ")[0]
		found = {}
		for entry in re.split(r"^\.Nm\n", text, flags=re.M)[1:]:
			for name in re.match(r"\.Cm (.*)", entry).group(1).split(" | "):
				found.setdefault(name, set()).update(fl(entry))
		return found

	def subcommands_in_page(self):
		synopsis = self.synopsis()
		yield from differ("subcommand", self.subcommands, synopsis, "the synopsis of shunt(1)")
		described = re.findall(r"^\.It Cm ([a-z-]+)", self.page("shunt.1"), re.M)
		yield from differ("subcommand", self.subcommands,
				  {name for name in described if name in self.subcommands},
				  "the description in shunt(1)")

	def options_in_page(self):
		synopsis = self.synopsis()
		everything = set()
		for subcommand in self.subcommands:
			real = self.help_options(subcommand)
			everything |= real
			yield from differ("option", real, synopsis.get(subcommand, set()),
					  f"the synopsis of shunt {subcommand} in shunt(1)")
		mentioned = fl(self.page("shunt.1").split("\n.Sh DESCRIPTION\n")[1])
		known = everything | self.daemon_options() | {"--help", "--version"}
		yield from (f"shunt(1) names {name}, an option of nothing" for name in mentioned - known)

	def options_are_accepted(self):
		for subcommand, options in self.synopsis().items():
			for option in options:
				# An option's value, or the help: nothing is done in any case.
				text = out_of(self.shunt, subcommand, option, "--help")
				if re.search("unknown option|unrecognized", text):
					yield f"shunt {subcommand} {option}: {text.splitlines()[0]}"

	def no_hidden_options(self):
		"""What the sources let getopt take is in some help."""
		known = set().union(*(self.help_options(name) for name in self.subcommands)) | {"--help"}
		for path in glob.glob(self.root + "/tools/*.c"):
			for name in re.findall(r"\{\"([a-z-]+)\", (?:no|required|optional)_argument", read(path)):
				if "--" + name not in known:
					yield f"{path} takes --{name}, of which no help tells"

	# --- shuntd(8) --------------------------------------------------------------------------

	def daemon_options(self):
		return set(re.findall(OPTION, out_of(self.shuntd, "--help")))

	def daemon_page(self):
		described = {"-" + name for name in
			     re.findall(r"^\.It Fl (-[a-z-]+)", self.page("shuntd.8"), re.M)}
		yield from differ("option", self.daemon_options(), described, "shuntd(8)")
		taken = re.findall(r"\{\"([a-z-]+)\", (?:no|required)_argument", read(self.root, "daemon/main.c"))
		yield from differ("option", {"--" + name for name in taken}, self.daemon_options(),
				  "shuntd --help")

	# --- settings ---------------------------------------------------------------------------

	def keys(self):
		return re.findall(r"^#([a-z_]+) = [^(\n]*;$", out_of(self.shuntd, "--print-config"), re.M)

	def section_keys(self):
		"""Section → its keys, as the reader itself lists them."""
		found = {}
		with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
			sample = out_of(self.shuntd, "--print-config")
			for section in re.findall(r"^#([a-z_]+) = \(", sample, re.M):
				file.seek(0)
				file.truncate()
				file.write(section + " = ( { no_such_key = 1; } );\n")
				file.flush()
				listed = re.search(r"there are (.*)$", out_of(
					self.shuntd, "--check-config", file.name).strip())
				found[section] = listed.group(1).split(", ") if listed else []
		return found

	def settings_page(self):
		page = self.page("shunt.conf.5")
		tables, sections = page.split("\n.Sh SECTIONS\n")
		yield from differ("key", self.keys(), re.findall(r"^\.It Va (\w+)", tables, re.M), "shunt.conf(5)")
		documented = {}
		for text in sections.split("\n.Sh ")[0].split("\n.Ss ")[1:]:
			documented[text.split()[0]] = re.findall(r"^\.It Va (\w+)", text, re.M)
		real = self.section_keys()
		yield from differ("section", real, documented, "shunt.conf(5)")
		for section, keys in real.items():
			if not keys:
				yield f"the reader of {section} does not list the keys that it knows"
			yield from differ(f"key of {section}", keys, documented.get(section, []), "shunt.conf(5)")

	def settings_sample(self):
		sample = read(self.root, "etc/shunt.conf")
		yield from differ("key", self.keys(), re.findall(r"^#([a-z_]+) = [^(\n]*;$", sample, re.M),
				  "etc/shunt.conf")
		for section, keys in self.section_keys().items():
			yield from (f"key {key} of {section} is not in etc/shunt.conf" for key in keys
				    if not re.search(rf"^#.*\b{key}\b[ ,]", sample, re.M))

	# --- functions --------------------------------------------------------------------------

	def symbols(self):
		listed = out_of("nm", "-D", "--defined-only", self.library)
		return re.findall(r" T (\w+)$", listed, re.M)

	def functions_have_pages(self):
		symbols = self.symbols()
		if not symbols:
			yield f"{self.library} exports nothing"
		pages = {name: self.page(name) for name in self.pages if name.endswith(".3")}
		named = [name for page in pages.values() for name in re.findall(r"^\.Nm (\w+)", page, re.M)]
		yield from differ("function", symbols, named, "the pages of section 3")
		installed = set(re.findall(r"/(shunt_\w+)\.3'", self.installed()))
		yield from differ("page", symbols, installed, "what is installed of section 3")

	def installed(self):
		return out_of("meson", "introspect", "--installed", self.build).replace('"', "'")

	def prototypes(self):
		headers = "".join(read(path) for path in glob.glob(self.root + "/include/shunt/*.h"))
		headers = re.sub(r"/\*.*?\*/", "", headers, flags=re.S)
		real, documented = {}, {}
		for kind, name, args in re.findall(r"^(int|ssize_t) (shunt_\w+)\((.*?)\);", headers, re.M | re.S):
			real[name] = (kind, [" ".join(arg.split()) for arg in args.split(",")])
		for name in self.pages:
			if name.endswith(".3"):
				for kind, fn, args in re.findall(r"^\.Ft (\w+)\n\.Fn (\w+) (.*)$", self.page(name), re.M):
					documented[fn] = (kind, re.findall(r'"([^"]*)"', args))
		yield from (f"{name}: {real.get(name)} in the header, {documented.get(name)} in its page"
			    for name in sorted(set(real) | set(documented)) if real.get(name) != documented.get(name))
		yield from differ("function", self.symbols(), real, "the headers")

	def packaged_symbols(self):
		listed = re.findall(r"^ (\w+)@", read(self.root, "debian/libshunt0.symbols"), re.M)
		yield from differ("function", self.symbols(), listed, "debian/libshunt0.symbols")

	# --- completion -------------------------------------------------------------------------

	def complete(self, *words):
		"""What completion offers for the last of @words."""
		line = " ".join(f"'{word}'" for word in words)
		script = (f"source {self.root}/tools/shunt.bash; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
			  f"_{os.path.basename(words[0])}; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
		return set(out_of("bash", "-c", script).split())

	def completion(self):
		offered = self.complete(self.shunt, "") - {"help"}
		yield from differ("subcommand", self.subcommands, {word for word in offered if word[0] != "-"},
				  "the completion")
		for subcommand in self.subcommands:
			yield from differ("option", self.help_options(subcommand) | {"--help"},
					  self.complete(self.shunt, subcommand, "-"), f"the completion of {subcommand}")
		yield from differ("option", self.daemon_options(), self.complete(self.shuntd, "-"),
				  "the completion of shuntd")

	def completion_of_values(self):
		with tempfile.TemporaryDirectory() as folder:
			with open(folder + "/some.conf", "w", encoding="utf-8"):
				pass
			for words, wanted in (
				((self.shunt, "ss", "--lane", "r"), {"ring", "rdma"}),
				((self.shunt, "run", "--daemon", ""), {"auto", "system", "none"}),
				((self.shunt, "run", "--ver"), {"--verbose"}),
				((self.shunt, "help", "sta"), {"stats", "status"}),
				((self.shuntd, "--check-config", folder + "/so"), {folder + "/some.conf"}),
				((self.shuntd, "--runtime-dir", folder[:-1]), {folder}),
				((self.shuntd, ""), set()),
			):
				found = self.complete(*words)
				if found != wanted:
					yield f"{' '.join(words)}: {sorted(found)}, not {sorted(wanted)}"

	# --- all pages --------------------------------------------------------------------------

	def variables(self):
		"""Variables of Shunt's own that the programs read are in a page, and the reverse."""
		real = set()
		for folder in ("lib", "daemon", "tools"):
			for path in glob.glob(f"{self.root}/{folder}/**/*.c", recursive=True):
				real |= set(re.findall(r"env\(\"(SHUNT_\w+)\"", read(path)))
		documented = {name for page in self.pages for name in re.findall(r"^\.(?:It )?Ev (SHUNT_\w+)",
			      self.page(page), re.M)}
		yield from differ("variable", real, documented, "the pages")

	def references(self):
		own = "shunt|shuntd|shunt.conf|shunt_"
		there = set(self.pages) | {name + ".3" for name in self.symbols()}
		for name in self.pages:
			for page, section in re.findall(rf"^\.Xr ((?:{own})\w*) (\d)", self.page(name), re.M):
				if f"{page}.{section}" not in there:
					yield f"{name} refers to {page}({section}), which does not exist"
		for path in glob.glob(self.root + "/systemd/*"):
			for page, section in re.findall(r"man:([\w.]+)\((\d)\)", read(path)):
				if f"{page}.{section}" not in self.pages:
					yield f"{path} refers to {page}({section}), which does not exist"

	def lint(self):
		for path in self.pages.values():
			text = out_of("mandoc", "-T", "lint", "-W", "warning", path)
			yield from text.splitlines()


def main():
	docs = Docs(*sys.argv[1:6])
	tap = Tap()
	for name, check in (
		("each_subcommand_is_in_its_page", docs.subcommands_in_page),
		("each_option_is_in_its_page", docs.options_in_page),
		("each_documented_option_is_taken", docs.options_are_accepted),
		("no_option_is_hidden", docs.no_hidden_options),
		("each_option_of_the_daemon_is_in_its_page", docs.daemon_page),
		("each_key_is_in_its_page", docs.settings_page),
		("each_key_is_in_the_sample", docs.settings_sample),
		("each_function_has_a_page", docs.functions_have_pages),
		("each_function_is_documented_as_declared", docs.prototypes),
		("each_function_is_in_the_package", docs.packaged_symbols),
		("completion_knows_all", docs.completion),
		("completion_of_values", docs.completion_of_values),
		("each_variable_is_in_a_page", docs.variables),
		("pages_refer_to_pages", docs.references),
	):
		tap.result(name, check())
	if shutil.which("mandoc"):
		tap.result("pages_are_clean", docs.lint())
	else:
		tap.skip("pages_are_clean", "there is no mandoc")
	tap.end()


main()
