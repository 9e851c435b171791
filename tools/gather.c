/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "gather.h"

static int ask_json(struct asker *asker, enum ctl_query kind, json_t **ret_json)
{
	AUTO_FREE char *text = NULL;
	json_t *json;
	int rc = ask_query(asker, &(struct ctl_query_msg){kind, -1, -1}, &text);

	if (rc)
		return rc;
	json = json_loads(text, 0, NULL);
	if (!json_is_object(json)) {
		json_decref(json);
		return -EPROTO;
	}
	*ret_json = json;
	return 0;
}

void gathered_deinit(struct gathered *gathered)
{
	json_decref(gathered->status);
	json_decref(gathered->stats);
	json_decref(gathered->links);
	json_decref(gathered->peers);
	json_decref(gathered->devices);
	json_decref(gathered->connections);
	*gathered = (struct gathered){0};
}

int gather(struct asker *asker, unsigned int what, struct gathered *ret_gathered)
{
	struct gathered found = {0};
	const struct {
		unsigned int bit;
		enum ctl_query kind;
		json_t **json;
	} questions[] = {
		{GATHER_STATUS, CTL_QUERY_STATUS, &found.status},
		{GATHER_STATS, CTL_QUERY_STATS, &found.stats},
		{GATHER_LINKS, CTL_QUERY_LINKS, &found.links},
		{GATHER_PEERS, CTL_QUERY_PEERS, &found.peers},
		{GATHER_DEVICES, CTL_QUERY_DEVICES, &found.devices},
		{GATHER_CONNECTIONS, CTL_QUERY_SS, &found.connections},
	};
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(questions) && rc == 0; i++) {
		if (what & questions[i].bit)
			rc = ask_json(asker, questions[i].kind, questions[i].json);
	}
	if (rc) {
		gathered_deinit(&found);
		return rc;
	}
	*ret_gathered = found;
	return 0;
}
