/* SPDX-License-Identifier: MIT */
/* In place of peers.c where GnuTLS or the RDMA libraries were not there at build time. */
#include "os/log.h"
#include "peers.h"
#include "server.h"

struct peers *peers_start(struct server *server)
{
	const struct conf *conf = &server->conf;

	if (conf->peer_sessions == CONF_PEERS_ON || conf->peers.n > 0 || conf->peer_key[0] ||
	    conf->peer_ca[0])
		log_warning(
			"built without RDMA or GnuTLS: other hosts' daemons are not talked to; "
			"to have it, build with libgnutls28-dev, libibverbs-dev, librdmacm-dev, "
			"libnl-3-dev and libnl-route-3-dev");
	return NULL;
}

struct peers *peers_stop(struct peers *peers)
{
	(void)peers;
	return NULL;
}

void peers_keys_reread(struct peers *peers)
{
	(void)peers;
}

void peers_offer(struct peers *peers, struct end *end)
{
	(void)peers;
	(void)end;
}

void peers_withdraw(struct end *end)
{
	(void)end;
}

enum reason peers_wait_reason(const struct end *end)
{
	(void)end;
	return REASON_PEER_UNKNOWN;
}

uint32_t peers_count(__attribute__((unused)) const struct peers *peers)
{
	return 0;
}

json_t *peers_json(const struct peers *peers, uint32_t *ret_count)
{
	(void)peers;
	*ret_count = 0;
	return json_pack("{s:s, s:[], s:[]}", "state", "not built", "peers", "unreachable");
}
