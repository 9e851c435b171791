/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdlib.h>

#include "quota.h"

uint64_t bucket_take(struct bucket *bucket, uint64_t now_ns, uint64_t per_s, uint64_t burst)
{
	uint64_t step = 1000000000u / per_s;
	uint64_t due = bucket->due_ns > now_ns ? bucket->due_ns : now_ns;

	if (due - now_ns > step * (burst - 1))
		return due - now_ns - step * (burst - 1);
	bucket->due_ns = due + step;
	return 0;
}

void quota_init(struct quota *quota, const struct conf *conf, uint64_t key)
{
	quota->conf = conf;
	map_init(&quota->users, key);
}

void quota_deinit(struct quota *quota)
{
	assert(map_count(&quota->users) == 0);
	map_deinit(&quota->users);
}

struct quota_user *quota_user_get(struct quota *quota, uid_t uid)
{
	struct quota_user *user = map_get(&quota->users, uid);

	if (user)
		return quota_user_ref(user);
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->uid = uid;
	user->refs = 1;
	if (map_put(&quota->users, uid, user) < 0) {
		free(user);
		return NULL;
	}
	return user;
}

struct quota_user *quota_user_ref(struct quota_user *user)
{
	user->refs++;
	return user;
}

struct quota_user *quota_user_put(struct quota *quota, struct quota_user *user)
{
	if (!user || --user->refs > 0)
		return NULL;
	assert(user->sessions == 0 && user->ends == 0 && user->ring_bytes == 0 &&
	       user->pinned_bytes == 0);
	map_del(&quota->users, user->uid);
	free(user);
	return NULL;
}

bool quota_take_session(const struct quota *quota, struct quota_user *user)
{
	if (user->sessions >= quota->conf->sessions_per_uid)
		return false;
	user->sessions++;
	return true;
}

bool quota_take_end(const struct quota *quota, struct quota_user *user)
{
	if (user->ends >= quota->conf->connections_per_uid)
		return false;
	user->ends++;
	return true;
}

bool quota_take_ring(const struct quota *quota, struct quota_user *user, uint64_t bytes)
{
	if (user->ring_bytes + bytes > quota->conf->ring_bytes_per_uid)
		return false;
	user->ring_bytes += bytes;
	return true;
}

bool quota_take_pinned(const struct quota *quota, struct quota_user *user, uint64_t bytes)
{
	uint64_t max = quota->conf->pinned_bytes_per_uid;

	if (bytes > max || user->pinned_bytes > max - bytes)
		return false;
	user->pinned_bytes += bytes;
	return true;
}

uint32_t quota_take_registration(const struct quota *quota, struct quota_user *user,
				 uint64_t now_ns)
{
	uint64_t rate = quota->conf->registrations_per_s;
	uint64_t wait_ns = bucket_take(&user->registrations, now_ns, rate, rate);

	return (uint32_t)((wait_ns + 999999u) / 1000000u);
}
