/* SPDX-License-Identifier: MIT */
#include "links.h"
#include "manager.h"
#include "os/log.h"
#include "server.h"

/* Built without RDMA, or without sessions between daemons. */

struct links *links_start(struct server *server)
{
	if (server->conf.remote_lanes != CONF_REMOTE_OFF)
		log_error("remote_lanes: this daemon was built without RDMA or without GnuTLS; "
			  "connections to other hosts stay on TCP");
	return NULL;
}

void links_restore(__attribute__((unused)) struct links *links, struct manager_fds *passed)
{
	manager_give_up(passed);
}

void links_look_again(__attribute__((unused)) struct links *links)
{
}

bool links_retire(__attribute__((unused)) struct links *links)
{
	return false;
}

bool links_have_lanes(__attribute__((unused)) const struct links *links)
{
	return false;
}

struct links *links_stop(struct links *links)
{
	return links;
}

json_t *links_json(__attribute__((unused)) const struct server *server, uint32_t *ret_count)
{
	*ret_count = 0;
	return json_pack("{s:s, s:[], s:[], s:[], s:[]}", "state", "not built", "links", "peers",
			 "devices", "losses");
}

json_t *links_totals_json(__attribute__((unused)) const struct links *links)
{
	return NULL;
}

bool links_lost_text(__attribute__((unused)) const struct links *links,
		     __attribute__((unused)) uint32_t serial,
		     __attribute__((unused)) char ret_text[LINKS_TEXT_BYTES])
{
	return false;
}
