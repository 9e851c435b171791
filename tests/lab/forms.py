# SPDX-License-Identifier: MIT
"""In the guest: in which form messages of each size go at a limit of inline data, by the daemons' own
counters, and whether bytes arrive as they were sent."""
from hosts import Hosts
from ways import Shunt

# Limits that real devices have, and none. siw has up to 80.
LIMITS = {"rxe": [0, 32, 48, 80, 96, 101, 216, 236], "siw": [0, 32, 48, 80]}
# What a daemon asks for, and what siw has.
AS_IT_IS = {"rxe": 256, "siw": 80}
# Bytes of a control message, in front of those that go with it.
CDC_BYTES = 32
FORMS = ("eager", "write_inline", "by_reference")
# Each way. Messages of up to so many bytes, so that all forms occur at any limit.
CHECK_BYTES = 4 << 20
CHECK_MOST = 600
# Long enough for a message; talk.c tries some first anyway.
SHORT_MS = 1


def expected(limit, size):
	"""The form of a message of @size bytes that is alone."""
	if CDC_BYTES + size <= limit:
		return "eager"
	return "write_inline" if size <= limit else "by_reference"


def sizes(limit):
	"""On both sides of where the form changes."""
	return sorted({size for size in (1, 64, limit - CDC_BYTES, limit - CDC_BYTES + 1, limit, limit + 1, 1024)
		       if size > 0})


def sent(side):
	"""What a daemon's links have sent: messages by form, work requests, posts."""
	links = side.ask("links")["links"]
	counts = {form: sum(link["messages"][form] for link in links) for form in FORMS}
	counts.update({what: sum(link["sent"][what] for link in links) for what in ("wrs", "posts")})
	# Messages without bytes: what a window needs, and what asks whether the peer lives.
	counts["others"] = sum(link["window_updates"]["alone"] + sum(link["control"].values()) for link in links)
	return counts


def measured(way, size, ms=SHORT_MS):
	"""What one side, which only answers, sends in ping-pong: as sent(), with "asked", how many
	messages that were."""
	side = way.hosts[1]
	before = sent(side)
	asked = way.ask("lat", size, ms)["messages"]
	after = sent(side)
	return {"asked": asked, **{key: after[key] - before[key] for key in after}}


def open_all(kind, limits, **settings):
	"""By limit (None: what the device has), a lane between hosts whose devices are held to it; all of
	them over the same two devices, at a time."""
	ways, hosts = {}, None
	for limit in limits:
		hosts = Hosts(kind, cap=limit, beside=hosts, **settings).__enter__()
		ways[limit] = Shunt(hosts, "as it is" if limit is None else f"limit {limit}")
	for way in ways.values():
		way.open()
	return ways


def close_all(ways):
	"""The first one's hosts are the last to go: the layout is theirs."""
	for way in reversed(ways.values()):
		way.close()
		way.hosts.__exit__()


def limits_of(way):
	return {link["inline_bytes"] for side in way.hosts.sides for link in side.ask("links")["links"]}


def is_on_lane(way):
	way.ask("lat", 64, SHORT_MS)
	return all(side.lanes() for side in way.hosts.sides)


def split_problems(way, limit):
	"""Whether each size goes in its form, and in no other, with the work requests of that form."""
	for size in sizes(limit):
		# On a busy machine a link may have been given up, while others were looked at.
		way.hosts.wait("on a lane", lambda: is_on_lane(way))
		counts = measured(way, size)
		form = expected(limit, size)
		forms = {name: counts[name] for name in FORMS if counts[name]}
		if forms != {form: counts["asked"]}:
			yield f"{size} bytes: {counts['asked']} messages went as {forms}, not {form}"
		wrs = counts["asked"] * (1 if form == "eager" else 2) + counts["others"]
		if counts["wrs"] != wrs or counts["posts"] > counts["asked"] + counts["others"]:
			yield f"{size} bytes: {counts}, where {wrs} work requests do, in a post for each message"


def check_problems(way):
	"""Both ends compare what comes, and end where they disagree."""
	equal = way.ask("check", CHECK_BYTES, CHECK_MOST)["equal"]
	if equal != 2 * CHECK_BYTES:
		yield f"{equal} bytes were equal"


def prove(tap, way, limit):
	name = f"{way.hosts.kind}, inline limit {limit}"
	found = limits_of(way)
	tap.result(f"{name}: the link has it", [] if found == {limit} else [f"it has {found}"])
	tap.result(f"{name}: messages of {sizes(limit)} bytes go in their forms", split_problems(way, limit))
	tap.result(f"{name}: {2 * CHECK_BYTES >> 20} MiB compare equal", check_problems(way))
