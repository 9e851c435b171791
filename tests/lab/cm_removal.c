/* SPDX-License-Identifier: MIT */
/*
 * How a process lets go of a device that is being removed, so that `rdma link del` returns: besides
 * the context that it opened, librdmacm has one of its own.
 *
 *	cm-removal DEVICE ADDRESS HOW
 *
 * Opens DEVICE, listens on ADDRESS, which is the device's, prints "ready", waits for the removal,
 * gives all of it back, and then makes librdmacm drop its context. HOW is
 *
 *	resync	rdma_get_devices() compares librdmacm's list of devices with the present one; it
 *		does nothing if there is no device any more (rdma-core 44)
 *	null	the descriptors of that context become /dev/null
 *
 * Prints "gave up DEVICE" and stays until its standard input ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define PORT 7472

static int fail(const char *what)
{
	fprintf(stderr, "cm-removal: %s: %s\n", what, strerror(errno));
	return 1;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i] && !context; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	return context;
}

static int listen_on(struct rdma_cm_id *id, const char *address)
{
	struct sockaddr_in bound = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	if (inet_pton(AF_INET, address, &bound.sin_addr) != 1) {
		errno = EINVAL;
		return -1;
	}
	if (rdma_bind_addr(id, (struct sockaddr *)&bound) != 0)
		return -1;
	return rdma_listen(id, 1);
}

static int wait_removal(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	int removed = 0;

	while (!removed) {
		if (rdma_get_cm_event(channel, &event) != 0)
			return -1;
		removed = event->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
		rdma_ack_cm_event(event);
	}
	return 0;
}

static void resync(void)
{
	struct ibv_context **devices = rdma_get_devices(NULL);

	if (devices)
		rdma_free_devices(devices);
}

static int point_at_null(const struct ibv_context *context)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup3(null, context->cmd_fd, O_CLOEXEC) < 0 ||
	    dup3(null, context->async_fd, O_CLOEXEC) < 0)
		return -1;
	return close(null);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel;
	struct ibv_context *ours, *cms;
	struct rdma_cm_id *id;
	char byte;

	if (argc != 4) {
		fputs("usage: cm-removal DEVICE ADDRESS resync|null\n", stderr);
		return 2;
	}
	ours = open_device(argv[1]);
	if (!ours)
		return fail(argv[1]);
	channel = rdma_create_event_channel();
	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0)
		return fail("an id of librdmacm");
	if (listen_on(id, argv[2]) != 0)
		return fail(argv[2]);
	cms = id->verbs;
	puts("ready");
	fflush(stdout);
	if (wait_removal(channel) != 0)
		return fail("waiting for the removal");
	if (rdma_destroy_id(id) != 0 || ibv_close_device(ours) != 0)
		return fail("giving back");
	if (strcmp(argv[3], "resync") == 0)
		resync();
	else if (point_at_null(cms) != 0)
		return fail("/dev/null");
	printf("gave up %s\n", argv[1]);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
