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

/* The three maps take @end, or none does. */
static int enter(struct registry *registry, struct end *end)
{
	int rc = map_put_bytes(&registry->by_token, &end->session_serial, sizeof(struct token_key),
			       end);

	if (rc < 0)
		return rc;
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
	if (enter(registry, end) < 0) {
		free(end);
		return NULL;
	}
	list_push_back(&session->ends, &end->link);
	return end;
}

void registry_remove(struct registry *registry, struct end *end)
{
	assert(end->dup < 0 && !end->coupling && !end->timer.is_set);
	if (map_get_bytes(&registry->by_name, &end->name, sizeof(end->name)) == end)
		map_del_bytes(&registry->by_name, &end->name, sizeof(end->name));
	map_del(&registry->by_cookie, end->cookie);
	map_del_bytes(&registry->by_token, &end->session_serial, sizeof(struct token_key));
	list_unlink(&end->link);
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
