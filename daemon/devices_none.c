/* SPDX-License-Identifier: MIT */
/* In place of devices.c where the RDMA libraries were not there at build time. */
#include "devices.h"
#include "os/log.h"

struct devices *devices_start(struct loop *loop, const struct conf *conf)
{
	(void)loop;
	if (conf->rdma == CONF_RDMA_OFF)
		log_info("RDMA is switched off in the settings");
	else
		log_info("built without RDMA, connections to other hosts stay on TCP; to have it, "
			 "build with libibverbs-dev, librdmacm-dev, libnl-3-dev and "
			 "libnl-route-3-dev");
	return NULL;
}

struct devices *devices_stop(struct devices *devices)
{
	(void)devices;
	return NULL;
}

void devices_count(__attribute__((unused)) const struct devices *devices, uint32_t *ret_all,
		   uint32_t *ret_ready)
{
	*ret_all = *ret_ready = 0;
}

bool devices_are_settled(__attribute__((unused)) const struct devices *devices)
{
	return true;
}

bool devices_are_alive(__attribute__((unused)) struct devices *devices)
{
	return true;
}

size_t devices_rdma(const struct devices *devices, struct peer_rdma *ret_rdma, size_t max)
{
	(void)devices;
	(void)ret_rdma;
	(void)max;
	return 0;
}

json_t *devices_json(const struct devices *devices, uint32_t *ret_count)
{
	(void)devices;
	*ret_count = 0;
	return json_pack("{s:s, s:[], s:[]}", "rdma", "not built", "notes", "devices");
}
