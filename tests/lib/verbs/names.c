/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "double.h"

/*
 * Names of enumerations, rates, and what else needs no device.
 */

#define NAME_OF(names, value)                                                                      \
	((size_t)(value) < ARRAY_SIZE(names) && (names)[value] ? (names)[value] : "unknown")

DBL_API const char *ibv_node_type_str(enum ibv_node_type node_type)
{
	static const char *const names[] = {"unknown", "InfiniBand channel adapter",
					    "InfiniBand switch", "InfiniBand router", "iWARP NIC"};

	return NAME_OF(names, node_type);
}

DBL_API const char *ibv_port_state_str(enum ibv_port_state port_state)
{
	static const char *const names[] = {"no state change", "down",	 "init",
					    "armed",	       "active", "active defer"};

	return NAME_OF(names, port_state);
}

DBL_API const char *ibv_event_type_str(enum ibv_event_type event)
{
	static const char *const names[] = {
		[IBV_EVENT_CQ_ERR] = "CQ error",
		[IBV_EVENT_QP_FATAL] = "local work queue catastrophic error",
		[IBV_EVENT_QP_REQ_ERR] = "invalid request local work queue error",
		[IBV_EVENT_QP_ACCESS_ERR] = "local access violation work queue error",
		[IBV_EVENT_COMM_EST] = "communication established",
		[IBV_EVENT_DEVICE_FATAL] = "local catastrophic error",
		[IBV_EVENT_PORT_ACTIVE] = "port active",
		[IBV_EVENT_PORT_ERR] = "port error",
		[IBV_EVENT_LID_CHANGE] = "LID change",
		[IBV_EVENT_GID_CHANGE] = "GID table change",
	};

	return NAME_OF(names, event);
}

DBL_API const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "success",
		[IBV_WC_LOC_LEN_ERR] = "local length error",
		[IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
		[IBV_WC_LOC_PROT_ERR] = "local protection error",
		[IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
		[IBV_WC_BAD_RESP_ERR] = "bad response error",
		[IBV_WC_LOC_ACCESS_ERR] = "local access error",
		[IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
		[IBV_WC_REM_ACCESS_ERR] = "remote access error",
		[IBV_WC_REM_OP_ERR] = "remote operation error",
		[IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
		[IBV_WC_FATAL_ERR] = "fatal error",
		[IBV_WC_GENERAL_ERR] = "general error",
	};

	return NAME_OF(names, status);
}

/* Multiples of 2.5 Gb/s. */
static const struct {
	enum ibv_rate rate;
	int mult, mbps;
} rates[] = {
	{IBV_RATE_2_5_GBPS, 1, 2500},	 {IBV_RATE_5_GBPS, 2, 5000},
	{IBV_RATE_10_GBPS, 4, 10000},	 {IBV_RATE_20_GBPS, 8, 20000},
	{IBV_RATE_30_GBPS, 12, 30000},	 {IBV_RATE_40_GBPS, 16, 40000},
	{IBV_RATE_60_GBPS, 24, 60000},	 {IBV_RATE_80_GBPS, 32, 80000},
	{IBV_RATE_120_GBPS, 48, 120000}, {IBV_RATE_25_GBPS, 10, 25781},
	{IBV_RATE_100_GBPS, 40, 103125}, {IBV_RATE_200_GBPS, 80, 206250},
};

DBL_API int ibv_rate_to_mult(enum ibv_rate rate)
{
	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		if (rates[i].rate == rate)
			return rates[i].mult;
	}
	return -1;
}

DBL_API enum ibv_rate mult_to_ibv_rate(int mult)
{
	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		if (rates[i].mult == mult)
			return rates[i].rate;
	}
	return IBV_RATE_MAX;
}

DBL_API int ibv_rate_to_mbps(enum ibv_rate rate)
{
	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		if (rates[i].rate == rate)
			return rates[i].mbps;
	}
	return -1;
}

DBL_API enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		if (rates[i].mbps == mbps)
			return rates[i].rate;
	}
	return IBV_RATE_MAX;
}

/* In no header that programs get, but in the library. */
DBL_API const char *ibv_get_sysfs_path(void);
DBL_API int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
DBL_API int ibv_dontfork_range(void *base, size_t size);
DBL_API int ibv_dofork_range(void *base, size_t size);

DBL_API const char *ibv_get_sysfs_path(void)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/sys", dbl_dir() ? dbl_dir() : "");
	return path;
}

DBL_API int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	ssize_t length;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	length = read(fd, buf, size);
	close(fd);
	if (length > 0) {
		if (buf[length - 1] == '\n')
			buf[--length] = '\0';
		else if ((size_t)length < size)
			buf[length] = '\0';
		else
			return -1;
	}
	return (int)length;
}

/* Nothing is needed: the double pins no page. */
DBL_API int ibv_fork_init(void)
{
	return 0;
}

DBL_API enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

DBL_API int ibv_dontfork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}

DBL_API int ibv_dofork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}
