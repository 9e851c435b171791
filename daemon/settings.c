/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "config_change.h"
#include "config_key.h"
#include "events.h"
#include "os/log.h"
#include "peers.h"
#include "ruling.h"
#include "server.h"
#include "settings.h"

bool settings_load(struct conf *config, const char *path)
{
	struct conf_error error;
	bool is_default;
	int rc;

	conf_init(config);
	if (!path)
		path = secure_getenv("SHUNT_CONF");
	is_default = !path;
	rc = conf_load(config, is_default ? SHUNT_CONF_PATH : path, &error);
	if (rc == 0 || (rc == -ENOENT && is_default))
		return true;
	event_log(CONFIG_REFUSED,
		  LOG_FACTS(LOG_TEXT("SHUNT_CONFIG", is_default ? SHUNT_CONF_PATH : path),
			    LOG_TEXT("SHUNT_REASON", error.text)),
		  "%s", error.text);
	return false;
}

void settings_apply_log(const struct conf *config)
{
	static const enum log_level levels[] = {LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO,
						LOG_LEVEL_DEBUG};

	log_set_level(levels[config->log_level]);
}

static void told_change(void *ctx, const struct conf_change *change)
{
	static const char *const since[] = {
		[KEY_APPLIES_NOW] = "from now on",
		[KEY_APPLIES_TO_NEW] = "for programs that start from now on",
		[KEY_APPLIES_AT_START] = "but not before the daemon is restarted",
	};
	bool *needs_restart = ctx;

	*needs_restart |= change->applies == KEY_APPLIES_AT_START;
	if (change->before[0] || change->after[0])
		log_notice("settings: %s is %s%s%s, %s; it was %s", change->name,
			   change->after[0] ? change->after : "empty", *change->unit ? " " : "",
			   change->unit, since[change->applies],
			   change->before[0] ? change->before : "empty");
	else
		log_notice("settings: the section %s has changed, %s", change->name,
			   since[change->applies]);
}

void settings_reload(struct server *server, const char *path)
{
	bool needs_restart = false;
	struct conf next;
	size_t n;

	/* Whose key is taken away is kept out also when the settings are wrong. */
	peers_keys_reread(server->peers);
	if (!settings_load(&next, path)) {
		log_error(
			"settings: the file was read again and is wrong: nothing of it is changed");
		return;
	}
	n = conf_change(&server->conf, &next, told_change, &needs_restart);
	settings_apply_log(&server->conf);
	ruling_changed(server);
	event_log(CONFIG_RELOADED, LOG_FACTS(LOG_NUMBER("SHUNT_CHANGES", n)),
		  "settings: read again, %zu changed%s", n,
		  needs_restart ? ", of these some only when the daemon is restarted" : "");
}
