# SPDX-License-Identifier: MIT
"""A host that means harm among two honest ones (town.py): whatever it claims, forges or floods is
refused, counted and logged in few lines, and a connection of the two others goes on over its lane.

usage: remote_hostile.py BUILD_DIR [CASE]...
"""
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import hostile
from hostile import CDC, STATE, lane_at, match, nonce_ask, offer, refuse
from hostile_scene import LINES_MAX, PORT, STRANGER, Scene, make, make_with_one_key, write_key
from private import Failure
from tap import Tap
from town import ADDRESSES, RDMA, Innocents, Talk, Town


# --- over the session ---------------------------------------------------------------------------

def innocent_name(scene):
	"""(local, remote) of the innocents' connection, as host 1 sees it."""
	entry = scene.innocents.talk.entry(1)
	return [(text.rsplit(":", 1)[0], int(text.rsplit(":", 1)[1])) for text in (entry["local"], entry["peer"])]


def claims_about_connections_of_others(scene):
	local, remote = innocent_name(scene)
	before = scene.refused("claims")
	scene.say(b"".join(offer(1 + i, local, remote) for i in range(50)))
	scene.logged("claims a connection of")
	scene.town.wait("50 claims refused", lambda: scene.refused("claims") >= before + 50)
	# Ids of others' offers and lanes can be guessed: they are in a row.
	guesses = b""
	for number in range(1, 300):
		guesses += match(5000 + number, number) + refuse(number)
	guesses += b"".join(lane_at(kind, number, local, remote, epoch, offset) for number in (1, 2, 3)
			    for kind in (hostile.LOST, hostile.REPLAYED) for epoch in (1, 2, 3)
			    for offset in (0, 1, 1 << 40, (1 << 64) - 1))
	scene.say(guesses)
	yield from ()


def lost_without_number(scene):
	"""Of lanes that there never were, and of its own, which runs, with offsets that can't be."""
	with scene.talk() as talk:
		entry = talk.entry(1)
		own = [(t.rsplit(":", 1)[0], int(t.rsplit(":", 1)[1])) for t in (entry["peer"], entry["local"])]
		words = b"".join(lane_at(hostile.LOST, 1 + i, *own, 1 + i % 7, i * 1000003) for i in range(1000))
		scene.say(words, repeat=20)
		scene.town.wait("read", lambda: scene.total("messages_received") > 20000)
		talk.both("chat 4")


def messages_that_are_none(scene):
	frames = [b"\xff" * 64, bytes(64), hostile.frame(99, b""), hostile.frame(hostile.PING, b""),
		  hostile.frame(hostile.OFFER, bytes(82)), b"\x00\x00\x00\x00\x00\x0b\x00\x00",
		  b"\x7f\xff\xff\xff\x00\x01\x00\x00" + bytes(4000), hostile.hello(b"other uuid      ")]
	for data in frames:
		before = scene.refused("protocol")
		scene.say(data)
		scene.town.wait("cut off", lambda before=before: scene.refused("protocol") > before)
	scene.logged("cut off: its message is garbage")
	yield from ()


def a_flood_of_everything(scene):
	"""Offers, hellos, questions for passwords, all of them well-formed."""
	scene.have_session()
	own = hostile.hello(bytes.fromhex(scene.uuid(2).replace("-", "")), [(RDMA[2], 1)] * 32)
	words = b"".join(offer(1000 + i, (ADDRESSES[2], 1024 + i), (ADDRESSES[0], 80)) for i in range(4000))
	scene.say(words, repeat=5)
	scene.say(own * 100, repeat=2)
	scene.say(b"".join(nonce_ask(1 + i) for i in range(5000)), repeat=3)
	scene.logged("offers wait")
	scene.town.wait("it is heard out", lambda: scene.total("messages_received") >= 20000, timeout=60)
	yield from scene.innocents.problems()
	# Its addresses were nonsense.
	scene.say(hostile.frame(hostile.BYE, b"\0\1"))


def comes_and_goes(scene):
	"""Without end: that is news for a while only."""
	with scene.talk() as talk:
		for _ in range(40):
			scene.town.wait("a session", scene.session_is_up)
			scene.orders.say(ADDRESSES[0], hostile.frame(hostile.BYE, b"\0\1"))
			if not scene.orders.wait():
				yield "the hostile daemon says nothing"
			scene.town.wait("it is gone", lambda: not scene.session_is_up() or scene.orders.wait(0.2))
		talk.both("chat 4")
	if not re.search("withheld", scene.new_log()) and len(scene.new_log().splitlines()) > LINES_MAX:
		yield "nothing was withheld"


# --- over the link ------------------------------------------------------------------------------

# What goes over the lane, messages or bulk; the type of what is forged, the reason that is found, and
# the changes. The last ones cost the link, the first ones the lane.
SEQUENCE, TOKEN, EPOCH, PROD, CONS, MOVED, CREDITS = 4, 12, 1, 16, 20, 24, 28
FORGERIES = (
	("lane", CDC, "wrong_sequence", [(SEQUENCE, 4, 7, True)]),
	("lane", CDC, "wrong_producer_offset", [(PROD, 4, 1, True)]),
	("lane", CDC, "wrong_producer_offset", [(PROD, 4, -50, True)]),
	("bulk", CDC, "beyond_the_window", [(PROD, 4, 1 << 25, True), (MOVED, 4, 1 << 25, True)]),
	("lane", CDC, "wrong_consumer_offset", [(CONS, 4, 100000, True)]),
	("lane", CDC, "wrong_consumer_offset", [(CONS, 4, -100000, True)]),
	("link", 0, "bad_type", [(0, 1, 99, False)]),
	("link", 0, "bad_type", [(0, 1, 0, False)]),
	("link", CDC, "bad_length", [(2, 2, 60000, False)]),
	("link", CDC, "bad_flags", [(30, 2, 0xffff, False)]),
	("link", CDC, "forged_credits", [(CREDITS, 2, 60000, False)]),
)


def messages_on_a_link_that_break_the_rules(scene):
	for what, kind, reason, patches in FORGERIES:
		with scene.talk() as talk:
			scene.begin_log = len(scene.new_log())
			scene.orders.send(kind, *patches)
			for i, words in enumerate(("write 300000", "read 300000") if what == "bulk" else ["chat 4"] * 2):
				talk.tell(i, words)
			if not scene.orders.wait():
				yield f"{reason}: the hostile daemon sends nothing"
			scene.town.wait(f"{reason} logged", lambda r=reason: r in scene.new_log()[scene.begin_log:], 10)
			yield from scene.innocents.problems()


def words_that_are_none(scene):
	"""STATE messages go when something is announced: at the beginning of a lane."""
	for at, count, value in ((32, 1, 99), (32, 1, 0), (33, 8, (1 << 64) - 1), (2, 2, 5)):
		mark = len(scene.new_log())
		scene.orders.send(STATE, (at, count, value, False))
		scene.port += 1
		talk = Talk(scene.town, 2, 0, scene.port)
		try:
			for _ in range(20):
				for i in range(2):
					talk.tell(i, "chat 4")
				if "ok" != talk.answer(0, 2) or scene.orders.wait(0.1):
					break
			if not scene.orders.wait():
				yield f"word {value}: the hostile daemon sends nothing"
			scene.town.wait(f"word {value} logged",
					lambda: re.search("broke the protocol|is lost", scene.new_log()[mark:]), 10)
		finally:
			talk.__exit__()
		yield from scene.innocents.problems()


def ends_before_bytes(scene):
	"""tx_end below what was told, and a message with a sequence of old, again and again."""
	for kind, patches, repeat in ((STATE, [(33, 8, 1, False)], 0), (CDC, [], 5)):
		with scene.talk() as talk:
			mark = len(scene.new_log())
			scene.orders.send(kind, *patches, repeat=repeat)
			for i in range(2):
				talk.tell(i, "chat 4")
			if kind == STATE:
				scene.town.daemons[2].run_tool("demote", "--all")
				talk.tell(0, "chat 4")
			if scene.orders.wait(5):
				scene.town.wait("logged", lambda: re.search("broke the protocol|is lost|reset",
									    scene.new_log()[mark:]), 10)
		yield from scene.innocents.problems()


def credits_that_are_ignored(scene):
	"""More messages than there are receives."""
	with scene.talk() as talk:
		scene.orders.send(CDC, (TOKEN, 4, 5, True), repeat=3000)
		for i in range(2):
			talk.tell(i, "chat 4")
		if not scene.orders.wait():
			yield "the hostile daemon sends nothing"
		scene.logged("the link over mlx0 is lost")


def writes_beside_the_ring(scene):
	"""The device refuses them, and breaks the link that they came over, no other."""
	for order in ({"address": 1 << 30}, {"rkey": 1}):
		with scene.talk() as talk:
			mark = len(scene.new_log())
			scene.orders.write(**order)
			talk.tell(0, "write 400000")
			talk.tell(1, "read 400000")
			if not scene.orders.wait():
				yield f"{order}: the hostile daemon writes nothing"
			scene.town.wait("a link lost", lambda m=mark: "is lost" in scene.new_log()[m:], 10)
			if not talk.answer(1).endswith("ok"):
				yield f"{order}: its own bytes were not mended"
		yield from scene.innocents.problems()


# --- dials --------------------------------------------------------------------------------------

def call(scene, host, count, data):
	"""Dials host 0 over RDMA from @host: what came of each."""
	rdma = scene.town.daemons[0].ask("peers")["rdma"][0]
	program = scene.town.on(host, os.path.join(scene.town.build, "tests", "double", "caller"), RDMA[host],
				rdma["address"], rdma["port"], count, data.hex())
	out, errors = program.communicate(timeout=60)
	lines = out.split("\n")[:-1]
	if program.returncode or len(lines) != count:
		raise Failure(f"the caller ended with {program.returncode}: {out[-500:]}{errors}")
	return lines


MALFORMED, NO_NONCE = "rejected 2", "rejected 3"


def request(nonce, credits=16):
	return b"Shlk" + bytes((0, 1, 0, 1)) + nonce + credits.to_bytes(4, "big") + bytes(28)


def dials_that_nobody_expects(scene):
	for host in (2, 3):
		for data, answers in ((b"", (MALFORMED,)), (b"x" * 56, (MALFORMED,)), (bytes(10), (MALFORMED,)),
				      (request(bytes(16)), (NO_NONCE,)), (request(b"guessed password"), (NO_NONCE,)),
				      (request(bytes(16), 1 << 20), (MALFORMED,)),
				      (b"Shlk" + bytes((0, 9)) + bytes(50), ("rejected 1",))):
			said = call(scene, host, 1, data)
			if said[0] not in answers:
				yield f"host {host}, {data[:24]!r}: {said}, not {answers}"


def a_password_that_was_used(scene):
	"""Also one that was given, and is dialled with from an address that it was not given to."""
	# Who has the lower UUID dials.
	while scene.uuid(2) > scene.uuid(0):
		scene.town.daemons[2].stop()
		scene.town.daemons[2].start()
	with scene.talk():
		pass
	used = scene.orders.last_private()
	if len(used) < 56:
		yield f"the hostile daemon has dialled with {used}"
	for host in (2, 3):
		said = call(scene, host, 1, used[:56])
		if said != [NO_NONCE]:
			yield f"host {host}: {said}"


def a_flood_of_dials(scene):
	pool = scene.town.daemons[0].ask("devices")["devices"][0]["ports"][0]["pool"]
	for host in (2, 3):
		said = call(scene, host, 500, request(bytes(16)))
		if any("rejected" not in line and line != "nothing" for line in said) or NO_NONCE not in said:
			yield f"host {host}: {sorted(set(said))}"
	now = scene.town.daemons[0].ask("devices")["devices"][0]["ports"][0]["pool"]
	if now["ready"] < pool["ready"]:
		yield f"queue pairs were taken: {pool} became {now}"


def drop_link(scene):
	"""By the hostile daemon's own fault; it dials again then."""
	scene.orders.send(0, (0, 1, 99, False))
	if not scene.orders.wait():
		raise Failure("the hostile daemon sends nothing")


def a_password_for_another_address(scene):
	"""One that is good, dialled with from host 3; and dials whose private data are wrong."""
	while scene.uuid(2) > scene.uuid(0):
		scene.town.daemons[2].stop()
		scene.town.daemons[2].start()
	with scene.talk() as talk:
		drop_link(scene)
		scene.orders.connect(is_kept_back=True)
		for i in range(2):
			talk.tell(i, "chat 4")
		if not scene.orders.wait():
			yield "it does not dial again"
		# Of many claims within a minute few are logged; all are counted.
		claims = scene.refused("claims")
		said = call(scene, 3, 1, scene.orders.last_private()[:56])
		if said != [NO_NONCE]:
			yield f"from another address: {said}"
		if scene.refused("claims") <= claims:
			yield "a password that was used from another address is not counted"
		said = call(scene, 2, 1, scene.orders.last_private()[:56])
		if said != [NO_NONCE]:
			yield f"from its own, but it was used: {said}"
	# Magic, version, kind, password.
	for at in (0, 4, 7, 8):
		with scene.talk() as talk:
			drop_link(scene)
			scene.orders.connect((at, 1, 77, True))
			for i in range(2):
				talk.tell(i, "chat 4")
			if not scene.orders.wait():
				yield "it does not dial again"


# --- strangers ----------------------------------------------------------------------------------

def strangers_who_take_their_time(scene):
	"""Half-open handshakes: so many, and so long, and others get through."""
	crowd = scene.refused("crowd")
	strangers = [scene.town.on(3, sys.executable, "-c", STRANGER, ADDRESSES[0], 100, what, 4)
		     for what in ("", "160301", "1603010200010001fc0303")]
	with scene.talk() as talk:
		talk.both("chat 20")
	for stranger in strangers:
		out, errors = stranger.communicate(timeout=30)
		if out.strip() != "100":
			yield f"of 100 calls {out.strip()} were ended within 4 s: {errors}"
	if scene.refused("crowd") < crowd + 200:
		yield f"turned away: {scene.refused('crowd') - crowd}"


def strangers_without_a_key(scene):
	before = scene.refused("tls")
	for what in ("47455420 2f20485454502f312e310d0a0d0a".replace(" ", ""), "1603010005010000010303", "00" * 300,
		     "ff" * 300):
		stranger = scene.town.on(3, sys.executable, "-c", STRANGER, ADDRESSES[0], 5, what, 4)
		out, errors = stranger.communicate(timeout=30)
		if out.strip() != "5":
			yield f"{what[:20]}: {out} of 5 ended: {errors}"
	if scene.refused("tls") < before + 20:
		yield f"{scene.refused('tls') - before} handshakes failed"


# --- names --------------------------------------------------------------------------------------

def the_name_of_another(scene):
	"""Goes by the UUID of host 1, whose session is up, is lost, or is one by the same key."""
	uuid = bytes.fromhex(scene.uuid(1).replace("-", ""))
	for _ in range(2):
		scene.have_session()
		scene.say(hostile.frame(hostile.BYE, b"\0\1"))
		scene.orders.frame(ADDRESSES[0], hostile.HELLO, (14, 8, int.from_bytes(uuid[:8], "big"), False),
				   (22, 8, int.from_bytes(uuid[8:], "big"), False))
		talk = Talk(scene.town, 2, 0, PORT + 500)
		try:
			for _ in range(3):
				talk.both("chat 4")
				time.sleep(0.2)
			if not scene.orders.wait():
				yield "the hostile daemon says its own name"
			scene.town.daemons[2].kill()
			# Longer than lanes go on without a session.
			time.sleep(1)
			yield from scene.innocents.problems()
			scene.town.daemons[2].start()
		finally:
			talk.__exit__()


# --- keys ---------------------------------------------------------------------------------------

def look_again(daemon):
	daemon.daemon.send_signal(signal.SIGHUP)


def a_key_that_is_revoked(scene):
	"""Its connections go on over TCP, and are promoted again when the key is back."""
	path = os.path.join(scene.town.hosts[0].dir, "key-hostile")
	with scene.talk() as talk:
		for how in ("gone", "another"):
			if how == "gone":
				os.unlink(path)
			else:
				write_key(path, "c3")
			look_again(scene.town.daemons[0])
			scene.town.wait("a session ended", lambda: not scene.session_is_up())
			scene.town.wait("on TCP", lambda: talk.both("chat 10") or
					talk.entry(1)["lane"] == "tcp" and talk.entry(0)["lane"] == "tcp")
			scene.town.wait("the link ended", lambda: not any(
				link["peer"] == ADDRESSES[2] for link in scene.town.daemons[0].ask("links")["links"]))
			talk.both("chat 50")
			if scene.session_is_up():
				yield f"{how}: there is a session still"
			yield from scene.innocents.problems()
			write_key(path, "b2")
			look_again(scene.town.daemons[0])
			talk.promote()


CASES = [
	claims_about_connections_of_others,
	lost_without_number,
	messages_that_are_none,
	a_flood_of_everything,
	comes_and_goes,
	messages_on_a_link_that_break_the_rules,
	words_that_are_none,
	ends_before_bytes,
	credits_that_are_ignored,
	writes_beside_the_ring,
	dials_that_nobody_expects,
	a_password_that_was_used,
	a_password_for_another_address,
	a_flood_of_dials,
	strangers_who_take_their_time,
	strangers_without_a_key,
	the_name_of_another,
	a_key_that_is_revoked,
]
# The same when one key is for all, and nobody is listed.
CASES_OF_ONE_KEY = [claims_about_connections_of_others, the_name_of_another]


def run(case, scene):
	try:
		scene.begin()
		yield from case(scene) or ()
		yield from scene.end()
	except Failure as failure:
		yield str(failure)


def main():
	build = os.path.abspath(sys.argv[1])
	tap = Tap()
	for keys, cases in (("two keys", CASES), ("one key", CASES_OF_ONE_KEY)):
		cases = [case for case in cases if not sys.argv[2:] or case.__name__ in sys.argv[2:]]
		if not cases:
			continue
		with Town(build, make if keys == "two keys" else make_with_one_key) as town, \
		     Innocents(town, PORT) as innocents:
			scene = Scene(town, innocents)
			with scene.talk():
				pass
			for case in cases:
				since = time.monotonic()
				problems = list(run(case, scene))
				tap.result(f"{case.__name__}, {keys}", problems)
				print(f"# {time.monotonic() - since:.1f} s", flush=True)
	tap.end()


if __name__ == "__main__":
	main()
