/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/util.h"
#include "devices.h"
#include "devices_impl.h"
#include "figures.h"
#include "fabric/probe_json.h"

static const char *pool_error_text(const struct qp_pool *pool)
{
	if (pool->error == 0)
		return "";
	return pool->error == QP_REFUSED ? "the device refuses what the probe found"
					 : strerror(-pool->error);
}

static json_t *pool_json(const struct qp_pool *pool)
{
	const struct qp_pool_counts *counts = &pool->counts;
	const struct list *node;
	uint32_t waiting = 0;

	list_for_each (node, &pool->waiters)
		waiting++;
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s}",
			 "ready", figure(pool->n_ready), "coming", figure(pool->n_coming), "out",
			 figure(pool->n_out), "target", figure(pool->size.target), "min",
			 figure(pool->size.min), "max", figure(pool->size.max), "waiting",
			 figure(waiting), "created", figure(counts->created), "destroyed",
			 figure(counts->destroyed), "taken", figure(counts->taken), "waited",
			 figure(counts->waited), "failed", figure(counts->failed), "error",
			 pool_error_text(pool));
}

static json_t *port_json(const struct host_port *port)
{
	const struct host_facts *facts = &port->facts;
	char text[GID_TEXT_BYTES] = "";
	json_t *json;

	if (facts->has_gid)
		gid_text(&facts->gid, text);
	json = json_pack("{s:o, s:s, s:s, s:o, s:s, s:s, s:s}", "port", figure(facts->port.number),
			 "state", port_state_name(facts->port.state), "transport",
			 fabric_transport_name(facts->port.transport), "mtu",
			 figure(facts->port.mtu_bytes), "netdev", facts->netdev, "gid", text,
			 "gid_type", facts->has_gid ? gid_type_name(facts->gid.type) : "");
	if (json && facts->has_gid)
		json_object_set_new(json, "gid_index", figure(facts->gid.index));
	if (json && facts->cm_port)
		json_object_set_new(json, "cm_port", figure(facts->cm_port));
	if (json && facts->cm_error)
		json_object_set_new(json, "cm_error", json_string(strerror(-facts->cm_error)));
	if (json && port->has_pool)
		json_object_set_new(json, "pool", pool_json(&port->pool));
	return json;
}

static void add_resources(json_t *json, const struct host_device *dev)
{
	const struct pool_budget *budget = &dev->budget;

	json_object_set_new(json, "qps",
			    json_pack("{s:o, s:o, s:o}", "in_use",
				      figure((uint64_t)budget->in_use + budget->coming), "max",
				      figure(pool_budget_max(budget)), "refusals",
				      figure(dev->refusals)));
	json_object_set_new(json, "memory",
			    json_pack("{s:o, s:o, s:o, s:o}", "pinned", figure(dev->mrs.pinned),
				      "max", figure(dev->mrs.max), "regions",
				      figure(dev->mrs.count), "ready_halves",
				      figure(dev->store.n_ready)));
}

static json_t *device_json(const struct host_device *dev)
{
	json_t *json = json_pack("{s:s, s:s, s:s}", "device", dev->name, "state",
				 host_stage_name(dev->stage), "why", dev->why);
	/* What is being opened or closed belongs to the control thread. */
	const struct device_info *info =
		!dev->is_opening && !dev->is_closing && dev->device ? &dev->device->info : NULL;
	json_t *ports = json_array();

	if (!json || !ports) {
		json_decref(json);
		json_decref(ports);
		return NULL;
	}
	if (info)
		json_object_update_missing_new(json, probe_device_json(info));
	for (uint32_t i = 0; i < dev->n_ports; i++)
		json_array_append_new(ports, port_json(&dev->ports[i]));
	json_object_set_new(json, "ports", ports);
	if (info && dev->has_report)
		json_object_set_new(json, "probe", probe_report_json(info, &dev->report));
	if (dev->has_pools)
		add_resources(json, dev);
	return json;
}

static json_t *note_json(const struct preflight_line *line)
{
	return json_pack("{s:s, s:s, s:s, s:s%, s:s}", "what", preflight_name(line->what), "device",
			 line->device, "text", line->text, "found", line->text,
			 (size_t)line->found_len, "remedy", preflight_remedy(line));
}

json_t *devices_json(const struct devices *devices, uint32_t *ret_count)
{
	json_t *array = json_array(), *notes = json_array();
	const struct list *node;
	uint32_t count = 0;

	if (devices) {
		list_for_each (node, &devices->all) {
			json_array_append_new(array,
					      device_json(list_entry((struct list *)(uintptr_t)node,
								     struct host_device, link)));
			count++;
		}
		for (size_t i = 0; i < devices->preflight.n; i++)
			json_array_append_new(notes, note_json(&devices->preflight.lines[i]));
	}
	*ret_count = count;
	return json_pack("{s:s, s:b, s:o, s:o}", "rdma", devices ? "on" : "off", "scanned",
			 devices && devices->has_scanned, "notes", notes, "devices", array);
}
