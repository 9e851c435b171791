/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <string.h>

#include "os/thread.h"

int thread_start(const char *name, void *(*main)(void *arg), void *arg, pthread_t *ret_thread)
{
	char short_name[THREAD_NAME_BYTES];
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = -pthread_create(ret_thread, NULL, main, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc < 0)
		return rc;
	strncpy(short_name, name, sizeof(short_name) - 1);
	short_name[sizeof(short_name) - 1] = '\0';
	pthread_setname_np(*ret_thread, short_name);
	return 0;
}
