/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>

#include "registry.h"
#include "session.h"

struct token_key {
	uint64_t serial, token;
};

_Static_assert(offsetof(struct end, token) - offsetof(struct end, session_serial) ==
		       offsetof(struct token_key, token),
	       "the key lies in the end");

void registry_init(struct registry *registry, uint64_t key)
{
	map_init(&registry->by_token, key);
	map_init(&registry->by_cookie, key);
	map_init(&registry->by_name, key);
}

void registry_deinit(struct registry *registry)
{
	assert(map_count(&registry->by_token) == 0);
	map_deinit(&registry->by_name);
	map_deinit(&registry->by_cookie);
	map_deinit(&registry->by_token);
}

/* The three maps take @end, or none does; only one, if it has kin already. */
static int enter(struct registry *registry, struct end *end)
{
	struct end *first = registry_by_cookie(registry, end->cookie);
	int rc = map_put_bytes(&registry->by_token, &end->session_serial, sizeof(struct token_key),
			       end);

	if (rc < 0)
		return rc;
	if (first) {
		list_add_before(&first->kin, &end->kin);
		return 0;
	}
	rc = map_put(&registry->by_cookie, end->cookie, end);
	if (rc < 0)
		goto del_token;
	map_del_bytes(&registry->by_name, &end->name, sizeof(end->name)); /* a stale one */
	rc = map_put_bytes(&registry->by_name, &end->name, sizeof(end->name), end);
	if (rc < 0)
		goto del_cookie;
	return 0;

del_cookie:
	map_del(&registry->by_cookie, end->cookie);
del_token:
	map_del_bytes(&registry->by_token, &end->session_serial, sizeof(struct token_key));
	return rc;
}

struct end *registry_add(struct registry *registry, struct session *session, uint64_t token,
			 const struct tcp_facts *facts)
{
	struct end *end = calloc(1, sizeof(*end));

	if (!end)
		return NULL;
	end->session = session;
	end->session_serial = session->serial;
	end->token = token;
	end->name = facts->name;
	end->cookie = facts->cookie;
	end->dup = -1;
	list_init(&end->link);
	list_init(&end->kin);
	list_init(&end->asking);
	if (enter(registry, end) < 0) {
		free(end);
		return NULL;
	}
	list_push_back(&session->ends, &end->link);
	return end;
}

/*
 * Take @end, the first of its kin, out of the maps by socket and name, and let @heir stand there.
 * Without memory for it the socket is not found any more, until a process registers it anew.
 */
static void hand_on(struct registry *registry, struct end *end, struct end *heir)
{
	bool named = map_get_bytes(&registry->by_name, &end->name, sizeof(end->name)) == end;

	map_del(&registry->by_cookie, end->cookie);
	if (named)
		map_del_bytes(&registry->by_name, &end->name, sizeof(end->name));
	if (heir == end || map_put(&registry->by_cookie, heir->cookie, heir) < 0)
		return;
	if (named)
		map_put_bytes(&registry->by_name, &heir->name, sizeof(heir->name), heir);
}

void registry_remove(struct registry *registry, struct end *end)
{
	assert(!end_is_busy(end) && !end->timer.is_set);
	if (registry_by_cookie(registry, end->cookie) == end)
		hand_on(registry, end, end_next_kin(end));
	list_unlink(&end->kin);
	map_del_bytes(&registry->by_token, &end->session_serial, sizeof(struct token_key));
	list_unlink(&end->link);
	list_unlink(&end->asking);
	end->session->user->ends--;
	free(end);
}

struct end *registry_by_token(const struct registry *registry, const struct session *session,
			      uint64_t token)
{
	const struct token_key key = {session->serial, token};

	return map_get_bytes(&registry->by_token, &key, sizeof(key));
}

struct end *registry_by_cookie(const struct registry *registry, uint64_t cookie)
{
	return map_get(&registry->by_cookie, cookie);
}

struct end *registry_opposite(const struct registry *registry, const struct tcp_name *name)
{
	const struct tcp_name mirror = tcp_name_mirror(name);

	return map_get_bytes(&registry->by_name, &mirror, sizeof(mirror));
}
