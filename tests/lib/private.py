# SPDX-License-Identifier: MIT
"""A private daemon and the `shunt` command for scripts: a runtime directory of their own, so that
nothing outside is touched and several can run side by side."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time


class Failure(Exception):
	"""Something that should work did not; the text says what."""


class Private:
	"""A build tree's daemon in a directory of its own. Use it with `with`.

	@user: an id that daemon and command run as, without capabilities; @limits: words for prlimit;
	@relay: settings of tests/lib/relay, which is the daemon then, and gives lanes between hosts."""

	def __init__(self, build, user=None, limits=(), relay=None, **settings):
		self.build = os.path.abspath(build)
		self.tool = os.path.join(self.build, "tools", "shunt")
		self.settings = settings
		self.user = user
		self.relay = relay
		# What the daemon's environment has beside that of the programs.
		self.daemon_env = {}
		# The build tree of the daemon alone, if that is another one: with a sanitizer, for programs
		# that can't take one.
		self.daemon_build = self.build
		# Of manager.py: starts the daemon; None: nobody does.
		self.manager = None
		# Only who has rights may raise a limit.
		self.prefix = ["prlimit", *limits] if limits else []
		if user is not None:
			self.prefix += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
					"--inh-caps=-all", "--bounding-set=-all"]
		self.daemon = None
		self.dir = None
		self.log = None
		self.env = None

	def __enter__(self):
		self.dir = tempfile.mkdtemp(prefix="shunt-test-")
		self.env = dict(os.environ, SHUNT_RUNTIME_DIR=self.dir,
				SHUNT_CONF=os.path.join(self.dir, "shunt.conf"))
		self.log = open(os.path.join(self.dir, "log"), "a+", encoding="utf-8")
		self.configure(**self.settings)
		if self.user is not None:
			os.chown(self.dir, self.user, self.user)
		self.start()
		return self

	def __exit__(self, *exc):
		self.stop()
		self.log.close()
		shutil.rmtree(self.dir, ignore_errors=True)

	def configure(self, **settings):
		"""Settings of the next start: those of shunt.conf."""
		with open(self.env["SHUNT_CONF"], "w", encoding="utf-8") as conf:
			for key, value in settings.items():
				conf.write(f"{key} = {json.dumps(value)};\n")

	def start(self):
		path, env = ("daemon", "shuntd"), dict(self.env, **self.daemon_env)
		if self.relay is not None:
			path = ("tests", "lib", "relay", "relayd")
			env = dict(env, **{f"RELAY_{key.upper()}": str(value) for key, value in self.relay.items()})
		words, passed, options = [], {}, {}
		if self.manager:
			words, passed, options = self.manager.start_with()
			passed["NOTIFY_SOCKET"] = self.manager.path
		self.daemon = subprocess.Popen([*self.prefix, *words, os.path.join(self.daemon_build, *path)],
					       env=dict(env, **passed), stdout=self.log, stderr=self.log,
					       stdin=subprocess.DEVNULL, **options)
		until = time.monotonic() + 10
		while self.run_tool("status").returncode:
			if self.daemon.poll() is not None or time.monotonic() > until:
				raise Failure("the daemon did not come up:\n" + self.log_text())
			time.sleep(0.005)

	def _end(self, sig):
		if self.daemon and self.daemon.poll() is None:
			self.daemon.send_signal(sig)
			self.daemon.wait(10)

	def kill(self):
		self._end(signal.SIGKILL)

	def stop(self):
		self._end(signal.SIGTERM)

	def log_text(self):
		self.log.flush()
		with open(self.log.name, encoding="utf-8", errors="replace") as log:
			return log.read()

	def run_tool(self, *args):
		"""One call of the tool; a CompletedProcess with text."""
		return subprocess.run([*self.prefix, self.tool, *map(str, args)], env=self.env,
				      capture_output=True, text=True, timeout=60, check=False)

	def ask(self, *args):
		"""What the tool says with --json."""
		done = self.run_tool(*args, "--json")
		if done.returncode:
			raise Failure(f"shunt {' '.join(map(str, args))}: {done.stderr.strip()}")
		return json.loads(done.stdout)

	def preload(self):
		"""The library that `shunt run` preloads, or None if it was not built."""
		path = os.path.join(self.build, "lib", "preload", "libshunt-preload.so")
		return path if os.path.exists(path) else None

	def under(self, command):
		"""@command as it is run under Shunt, with this daemon."""
		return [*self.prefix, self.tool, "run", "--daemon", "none", *command]
