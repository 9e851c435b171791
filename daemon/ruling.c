/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coupling.h"
#include "os/proc.h"
#include "pair.h"
#include "remote_ops.h"
#include "ruling.h"
#include "server.h"
#include "session.h"

void ruling_learn(struct session *session, int exe_fd)
{
	char path[PATH_MAX];
	int rc;

	ruling_forget(session);
	rc = proc_exe(session->pid, path, sizeof(path));
	if (rc < 0 && exe_fd >= 0)
		rc = proc_fd_path(exe_fd, path, sizeof(path));
	if (rc == 0)
		session->program = strdup(path);
	if (proc_cgroup(session->pid, path, sizeof(path)) == 0)
		session->unit = strdup(path);
}

void ruling_forget(struct session *session)
{
	free(session->program);
	free(session->unit);
	session->program = session->unit = NULL;
}

void ruling_set_facts(struct end *end, const struct tcp_facts *facts)
{
	end->is_out = facts->syn_bias == 1;
}

static struct peer_address address_of(const struct tcp_end *from)
{
	struct peer_address address;

	memset(&address, 0, sizeof(address));
	address.family = from->family == AF_INET ? 4 : 6;
	memcpy(address.addr, from->addr, sizeof(address.addr));
	return address;
}

static const struct rule *decide(const struct end *end)
{
	const struct session *session = end->session;
	const struct rule_subject subject = {
		.program = session->program,
		.unit = session->unit,
		.uid = session->uid,
		.is_out = end->is_out,
		.port = end->is_out ? end->name.peer.port : end->name.local.port,
		.to = address_of(&end->name.peer),
	};

	return rules_find(&session->server->conf.rules, &subject);
}

bool ruling_keeps(struct end *end)
{
	const struct rule_list *list = &end->session->server->conf.rules;
	const struct rule *rule = list->n ? decide(end) : NULL;

	end->rule = 0;
	if (!rule || rule->action == RULE_ACCELERATE) {
		end->rule_noted = 0;
		return false;
	}
	end->rule = (uint8_t)rule_number(list, rule);
	if (end->rule_noted == end->rule && end->rule_line == (uint32_t)rule->line)
		return true;
	end->rule_noted = end->rule;
	end->rule_line = (uint32_t)rule->line;
	end_note_rule(end);
	return true;
}

bool ruling_holds(const struct end *end)
{
	return end->rule && !end_is_busy(end);
}

static void take_off_lane(struct end *end)
{
	if (end->remote)
		end->session->server->remote->ask_demote(end, REASON_KEPT_BY_RULE);
	else
		coupling_ask_demote(end, REASON_KEPT_BY_RULE);
}

static void apply(struct end *end)
{
	/* One that has nothing and was not kept is asked about when it wants a lane. */
	if ((!end_is_busy(end) && !end->rule) || !ruling_keeps(end) || !end_is_busy(end))
		return;
	if (end->dup >= 0)
		pair_refuse(end, REASON_KEPT_BY_RULE);
	else
		take_off_lane(end);
}

void ruling_adopted(struct end *end, const struct tcp_facts *facts)
{
	ruling_set_facts(end, facts);
	if (!ruling_keeps(end))
		return;
	end->session->server->demote_serial++;
	take_off_lane(end);
}

void ruling_changed(struct server *server)
{
	struct list *s, *e;

	server->demote_serial++;
	list_for_each (s, &server->sessions) {
		struct session *session = list_entry(s, struct session, link);

		list_for_each (e, &session->ends)
			apply(list_entry(e, struct end, link));
	}
}

const char *ruling_text(unsigned int number, unsigned int line, char text[RULING_TEXT_BYTES])
{
	snprintf(text, RULING_TEXT_BYTES, "kept on TCP by rule %u of the settings, in line %u",
		 number, line);
	return text;
}
