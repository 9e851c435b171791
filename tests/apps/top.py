# SPDX-License-Identifier: MIT
"""`shunt top` on a terminal of 80x24 and of 160x48, as python3-pyte sees it, and without a terminal.
The screens are left in the build tree as tests/apps/top-80x24.txt and top-160x48.txt.

usage: top.py BUILD_DIR
"""
import fcntl
import importlib.util
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

# Debian's packages are those of Debian's Python.
if not importlib.util.find_spec("pyte") and os.path.realpath(sys.executable) != os.path.realpath("/usr/bin/python3"):
	os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from private import Failure, Private
from tap import Tap

NARROW, WIDE = (80, 24), (160, 48)


class Terminal:
	"""The tool on a terminal of its own."""

	def __init__(self, private, size, term="linux"):
		import pyte # pylint: disable=import-outside-toplevel
		self.screen = pyte.Screen(*size)
		self.stream = pyte.ByteStream(self.screen)
		self.master, slave = pty.openpty()
		self.raw = b""
		self.resize(*size)
		self.before = termios.tcgetattr(slave)
		# What pyte can show; the other is for what it can't.
		env = dict(private.env, TERM=term)
		env.pop("COLUMNS", None)
		env.pop("LINES", None)
		self.process = subprocess.Popen([private.tool, "top", "-d", "0.3"], stdin=slave, stdout=slave,
						stderr=slave, env=env, start_new_session=True)
		self.slave = slave

	def __enter__(self):
		return self

	def __exit__(self, *exc):
		if self.process.poll() is None:
			self.process.kill()
			self.process.wait()
		os.close(self.master)
		os.close(self.slave)

	def resize(self, columns, lines):
		fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
		self.screen.resize(lines, columns)

	def press(self, keys):
		os.write(self.master, keys.encode())

	def feed(self, seconds):
		if select.select([self.master], [], [], seconds)[0]:
			data = os.read(self.master, 65536)
			self.raw += data
			self.stream.feed(data)

	def lines(self):
		return [line.rstrip() for line in self.screen.display]

	def until(self, holds, what):
		"""The lines, once @holds says yes of them."""
		end = time.monotonic() + 20
		while time.monotonic() < end:
			self.feed(0.1)
			if holds(self.lines()):
				return self.lines()
		raise Failure(f"{what}:\n" + "\n".join(self.lines()))

	def ended(self):
		"""Its exit status, and what it wrote to its end."""
		end = time.monotonic() + 10
		while self.process.poll() is None and time.monotonic() < end:
			self.feed(0.1)
		self.feed(0.2)
		return self.process.poll()


def rows(lines):
	return [line for line in lines[4:-1] if line]


def save(build, name, lines):
	with open(os.path.join(build, "tests", "apps", f"top-{name}.txt"), "w", encoding="utf-8") as out:
		out.write("\n".join(lines) + "\n")


def numbers(lines, head):
	"""What is in the column called @head, as numbers: it ends where the head does."""
	heads = lines[3]
	end = heads.index(head) + len(head)
	values = []
	for row in rows(lines):
		word = row[:end].split()[-1]
		scale = {"K": 1024, "M": 1024 ** 2, "G": 1024 ** 3}.get(word[-1])
		values.append(float(word[:-1]) * scale if scale else -1 if word == "-" else float(word))
	return values


def shows_a_screen(private, size):
	with Terminal(private, size) as terminal:
		lines = terminal.until(lambda lines: len(rows(lines)) == 4 and "TX/sv" in lines[3] and
				       max(numbers(lines, "TX/sv")) > 1e5, "no rates")
		save(private.build, f"{size[0]}x{size[1]}", lines)
		if f"daemon {private.daemon.pid}" not in lines[0] or "lanes made" not in lines[1]:
			yield f"the head: {lines[:2]}"
		wanted = ["PID", "COMMAND", "LANE", "TX/sv", "RX/s", "MSG/s", "REASON"]
		wide = ["FD", "LOCAL", "PEER", "INLINE", "SENT", "RCVD"]
		for head in wanted + (wide if size == WIDE else []):
			if head not in lines[3].split():
				yield f"no column {head}: {lines[3]}"
		if size == NARROW and "LOCAL" in lines[3]:
			yield f"more columns than fit: {lines[3]}"
		if any(len(line) > size[0] for line in lines) or "q quit" not in lines[-1]:
			yield f"the last line: {lines[-1]}"
		rates = numbers(lines, "TX/sv")
		if rates != sorted(rates, reverse=True):
			yield f"not sorted: {rates}"
		if not all("stream" in row and "ring" in row for row in rows(lines)):
			yield f"rows: {rows(lines)}"


def takes_keys(private):
	with Terminal(private, WIDE) as terminal:
		terminal.until(lambda lines: len(rows(lines)) == 4, "no rows")
		terminal.press("r")
		terminal.until(lambda lines: "TX/s^" in lines[3], "r does not reverse")
		terminal.press(">")
		terminal.until(lambda lines: "RX/s^" in lines[3], "> does not sort by the next")
		pid = private.ask("ss")["connections"][0]["pid"]
		terminal.press(f"/{pid} ring\r")
		lines = terminal.until(lambda lines: len(rows(lines)) == 1, "the filter")
		if f"with {pid} ring" not in lines[2] or any(str(pid) not in row for row in rows(lines)):
			yield f"filtered: {lines}"
		terminal.press("\x1b")
		terminal.until(lambda lines: len(rows(lines)) == 4, "Esc does not end the filter")
		terminal.press("/no such thing\r")
		terminal.until(lambda lines: not rows(lines), "a filter that nothing passes")
		terminal.press("\x1b2")
		terminal.until(lambda lines: lines[2].startswith("links") and "DEVICE" in lines[3], "no links")
		terminal.press("\t")
		terminal.until(lambda lines: lines[2].startswith("hosts") and "ADDRESS" in lines[3], "no hosts")
		terminal.press("1?")
		terminal.until(lambda lines: any("MSG/s" in row and "messages" in row for row in rows(lines)), "no help")
		terminal.press("?q")
		if terminal.ended() != 0:
			yield f"q: exit status {terminal.process.poll()}"


def follows_the_size(private):
	with Terminal(private, NARROW) as terminal:
		terminal.until(lambda lines: len(rows(lines)) == 4 and "LOCAL" not in lines[3], "no rows")
		terminal.resize(*WIDE)
		os.kill(terminal.process.pid, signal.SIGWINCH)
		terminal.until(lambda lines: "LOCAL" in lines[3], "no more columns on a larger screen")
		terminal.resize(20, 5)
		os.kill(terminal.process.pid, signal.SIGWINCH)
		terminal.until(lambda lines: len(lines) == 5 and "LOCAL" not in lines[3], "a tiny screen")
		terminal.press("q")
		if terminal.ended() != 0:
			yield f"exit status {terminal.process.poll()}"


def restores_the_terminal(private):
	for sig in (signal.SIGTERM, signal.SIGINT):
		with Terminal(private, NARROW, "xterm") as terminal:
			terminal.until(lambda lines: lines[3], "nothing is shown")
			terminal.process.send_signal(sig)
			if terminal.ended() != 0:
				yield f"{sig}: exit status {terminal.process.poll()}"
			if b"\x1b[?1049l" not in terminal.raw:
				yield f"{sig}: the old screen is not back"
			if termios.tcgetattr(terminal.slave)[:4] != terminal.before[:4]:
				yield f"{sig}: the terminal's modes are not those of before"


def prints_text(private):
	done = private.run_tool("top", "--once", "-d", "0.2", "--sort", "rx/s", "--filter", "STREAM")
	lines = done.stdout.splitlines()
	if done.returncode or len(lines) != 8 or "RX/sv" not in lines[2]:
		yield f"--once: {done}"
	done = private.run_tool("top", "--json", "-n", 2, "-d", "0.2")
	for line in done.stdout.splitlines():
		one = json.loads(line)
		if len(one["rows"]) != 4 or one["view"] != "connections" or not one["daemon"]:
			yield f"--json: {one}"
		if max(row["TX/s"] for row in one["rows"]) <= 0:
			yield f"no rates: {one}"
	if len(done.stdout.splitlines()) != 2:
		yield f"-n 2: {done}"
	for args, text in ((("-d", "0"), "0.1 to 600"), (("--view", "x"), "connections, links or hosts"),
			   (("--sort", "x"), "no column"), (("-n", "x"), "a number"), (("x",), "no arguments")):
		done = private.run_tool("top", "--once", *args)
		if done.returncode != 2 or text not in done.stderr:
			yield f"{args}: {done}"


def outlives_the_daemon(private):
	with Terminal(private, NARROW) as terminal:
		terminal.until(lambda lines: len(rows(lines)) == 4, "no rows")
		private.kill()
		terminal.until(lambda lines: "no daemon answers" in lines[0], "its end is not shown")
		if private.run_tool("top", "--once", "-d", "0.1").returncode != 3:
			yield "--once without a daemon"
		private.start()
		terminal.until(lambda lines: f"daemon {private.daemon.pid}" in lines[0], "the next one is not shown")
		terminal.press("q")
		if terminal.ended() != 0:
			yield f"exit status {terminal.process.poll()}"


def main():
	tap = Tap()
	build = os.path.abspath(sys.argv[1])
	program = os.path.join(build, "tests", "apps", "stream")
	with Private(build, promote_after=1) as private:
		streams = [subprocess.Popen(private.under([program, "--bytes", "100G", "--rate", rate, "pair"]),
					    env=private.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
					    start_new_session=True) for rate in ("20M", "2M")]
		try:
			until = time.monotonic() + 20
			while sum(end["lane"] == "ring" for end in private.ask("ss")["connections"]) != 4:
				if time.monotonic() > until:
					raise Failure(f"not on the ring: {private.ask('ss')}")
				time.sleep(0.05)
			for name, case, args in (("80x24", shows_a_screen, (NARROW,)), ("160x48", shows_a_screen, (WIDE,)),
						 ("keys", takes_keys, ()), ("size", follows_the_size, ()),
						 ("terminal", restores_the_terminal, ()), ("text", prints_text, ()),
						 ("daemon", outlives_the_daemon, ())):
				try:
					tap.result(name, list(case(private, *args)))
				except (Failure, ImportError) as failure:
					tap.result(name, [f"{failure} (python3-pyte is needed)" if
							  isinstance(failure, ImportError) else str(failure)])
		finally:
			for stream in streams:
				os.killpg(stream.pid, signal.SIGKILL)
				stream.wait()
	tap.end()


main()
