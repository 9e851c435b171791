/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/*
 * State folders of the verbs double, for tests in C (../verbs_host.py is the same for Python). Each
 * is a host with devices; see double.h for what programs make of it. Everything here may be called
 * while programs run, and takes effect at once. Failures abort the test.
 */
struct verbs_host;

/* A host in a fresh folder, without devices, on a network of its own. */
struct verbs_host *verbs_host_new(void);

/* Another host, on the network of @other. */
struct verbs_host *verbs_host_join(const struct verbs_host *other);

/* Remove the folder. NULL is fine. A network goes with its first host: free that last. */
void verbs_host_free(struct verbs_host *host);

/* Its folder: $VERBS_DOUBLE_DIR of programs on it. */
const char *verbs_host_dir(const struct verbs_host *host);

/* Put this process, and what it starts from now on, on the host: sets VERBS_DOUBLE_DIR. */
void verbs_host_enter(const struct verbs_host *host);

/*
 * Plug in a device with one active port: personality by name, IPv4 or IPv6 address @ip. It gets the
 * GIDs that its kind of network gives it: IB one, and a LID; RoCE a link-local and the address's,
 * as v1 and v2 each; iWARP one. netdev and ifindex are made up (see verbs_host_netdev()).
 */
void verbs_host_add(struct verbs_host *host, const char *name, const char *personality,
		    const char *ip);

/* Unplug it. As for `rdma link del`, see verbs_host_is_held(). */
void verbs_host_remove(struct verbs_host *host, const char *name);

/* Override a figure of its personality (state.h): inline, max_qp, memlock, open… NULL: undo. */
void verbs_host_set(struct verbs_host *host, const char *name, const char *key, const char *value);

/* Its port goes "down", "active" or "init". */
void verbs_host_port(struct verbs_host *host, const char *name, const char *state);

/* Another address, with its GIDs; NULL: none any more. */
void verbs_host_address(struct verbs_host *host, const char *name, const char *ip);

/* The netdev that its GIDs belong to. */
void verbs_host_netdev(struct verbs_host *host, const char *name, const char *netdev,
		       unsigned ifindex);

/* What is injected from now on: lines as in fault.h, "" for nothing. Replaces what was left. */
void verbs_host_faults(struct verbs_host *host, const char *lines);

/* What has not been taken yet, as lines; of static storage. */
const char *verbs_host_faults_left(const struct verbs_host *host);

/*
 * Whether any process holds the device @name open, be it plugged in still or not. Where the kernel
 * would make `rdma link del` wait, this is true.
 */
bool verbs_host_is_held(const struct verbs_host *host, const char *name);

/* Wait until nobody holds it: true, or false after @timeout_ms. */
bool verbs_host_wait_free(const struct verbs_host *host, const char *name, unsigned timeout_ms);
