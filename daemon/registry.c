/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>

#include "base/util.h"
#include "registry.h"
#include "session.h"

struct token_key {
	uint64_t serial, token;
};

int registry_init(struct registry *registry, uint64_t key)
{
	int rc = table_init(&registry->by_token, key);

	if (rc)
		return rc;
	rc = table_init(&registry->by_cookie, key);
	if (rc)
		goto deinit_token;
	rc = table_init(&registry->by_name, key);
	if (rc)
		goto deinit_cookie;
	return 0;

deinit_cookie:
	table_deinit(&registry->by_cookie);
deinit_token:
	table_deinit(&registry->by_token);
	return rc;
}

void registry_deinit(struct registry *registry)
{
	table_deinit(&registry->by_name);
	table_deinit(&registry->by_cookie);
	table_deinit(&registry->by_token);
}

static uint64_t token_hash(const struct registry *registry, const struct session *session,
			   uint64_t token)
{
	const struct token_key key = {session->serial, token};

	return table_hash(&registry->by_token, &key, sizeof(key));
}

static uint64_t cookie_hash(const struct registry *registry, uint64_t cookie)
{
	return table_hash(&registry->by_cookie, &cookie, sizeof(cookie));
}

static uint64_t name_hash(const struct registry *registry, const struct tcp_name *name)
{
	return table_hash(&registry->by_name, name, sizeof(*name));
}

static struct end *find_name(const struct registry *registry, const struct tcp_name *name)
{
	struct table_node *node = table_find(&registry->by_name, name_hash(registry, name));

	for (; node; node = table_find_next(node)) {
		struct end *end = container_of(node, struct end, by_name);

		if (memcmp(&end->name, name, sizeof(*name)) == 0)
			return end;
	}
	return NULL;
}

struct end *registry_add(struct registry *registry, struct session *session, uint64_t token,
			 const struct tcp_facts *facts)
{
	struct end *end = calloc(1, sizeof(*end)), *stale;

	if (!end)
		return NULL;
	end->session = session;
	end->token = token;
	end->name = facts->name;
	end->cookie = facts->cookie;
	end->dup = -1;
	list_init(&end->link);
	list_push_back(&session->ends, &end->link);
	stale = find_name(registry, &end->name);
	if (stale)
		table_remove(&registry->by_name, &stale->by_name);
	table_insert(&registry->by_name, &end->by_name, name_hash(registry, &end->name));
	table_insert(&registry->by_cookie, &end->by_cookie, cookie_hash(registry, end->cookie));
	table_insert(&registry->by_token, &end->by_token, token_hash(registry, session, token));
	return end;
}

void registry_remove(struct registry *registry, struct end *end)
{
	assert(end->dup < 0 && !end->coupling && !end->timer.is_set);
	table_remove(&registry->by_name, &end->by_name);
	table_remove(&registry->by_cookie, &end->by_cookie);
	table_remove(&registry->by_token, &end->by_token);
	list_unlink(&end->link);
	end->session->user->ends--;
	free(end);
}

struct end *registry_by_token(const struct registry *registry, const struct session *session,
			      uint64_t token)
{
	struct table_node *node =
		table_find(&registry->by_token, token_hash(registry, session, token));

	for (; node; node = table_find_next(node)) {
		struct end *end = container_of(node, struct end, by_token);

		if (end->session == session && end->token == token)
			return end;
	}
	return NULL;
}

struct end *registry_by_cookie(const struct registry *registry, uint64_t cookie)
{
	struct table_node *node = table_find(&registry->by_cookie, cookie_hash(registry, cookie));

	for (; node; node = table_find_next(node)) {
		struct end *end = container_of(node, struct end, by_cookie);

		if (end->cookie == cookie)
			return end;
	}
	return NULL;
}

struct end *registry_opposite(const struct registry *registry, const struct tcp_name *name)
{
	struct tcp_name mirror = tcp_name_mirror(name);

	return find_name(registry, &mirror);
}
