/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "os/rundir.h"
#include "unit_preload.h"

/*
 * What a service's sandbox may keep from the library: itself (it must be seen, and executable) and
 * the daemon's socket (it must be seen, and sockets of its kind allowed). A file system that is
 * read only is no hindrance: to call a socket is not to write. Nor is MemoryDenyWriteExecute=: the
 * library has no memory that is both. What takes away protection is for the administrator to say:
 * it is named here, with the line to add, and never written.
 */

/* Calls that the library makes beside those of any program with sockets. */
static const char *const calls[] = {"memfd_create", "eventfd2", "epoll_create1", "epoll_ctl",
				    "futex",	    "sendmsg",	"recvmsg"};

static bool is_under(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	while (len && dir[len - 1] == '/')
		len--;
	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static bool is_on(const char *value)
{
	static const char *const words[] = {"yes", "true", "on", "1", "y", "t"};

	for (size_t i = 0; value && i < ARRAY_SIZE(words); i++) {
		if (strcasecmp(value, words[i]) == 0)
			return true;
	}
	return false;
}

/* Whether a list of paths, which may have marks before and options behind them, covers @path. */
static bool covers(const char *list, const char *path)
{
	char word[PATH_MAX];
	const char *dir;

	while (list && (list = unit_word(list, word, sizeof(word))) != NULL) {
		word[strcspn(word, ":")] = '\0';
		dir = word + strspn(word, "+-");
		if (*dir == '/' && is_under(path, dir))
			return true;
	}
	return false;
}

/* Whether a list of words has @wanted. */
static bool names(const char *list, const char *wanted)
{
	char word[256];

	while (list && (list = unit_word(list, word, sizeof(word))) != NULL) {
		if (strcmp(word + (word[0] == '~'), wanted) == 0)
			return true;
	}
	return false;
}

static void bind_in(char binds[UNIT_BINDS_BYTES], const char *path)
{
	size_t used = strlen(binds);

	snprintf(binds + used, UNIT_BINDS_BYTES - used, "%s-%s", used ? " " : "", path);
}

static void judge_families(const struct unit_settings *settings, struct unit_plan *plan)
{
	const char *families = settings->values[UNIT_RESTRICT_ADDRESS_FAMILIES];

	if (!families || (families[0] == '~') == names(families, "AF_UNIX"))
		unit_note(
			plan,
			"RestrictAddressFamilies= lets it make no unix sockets, so it can't call "
			"the daemon and stays on TCP: add RestrictAddressFamilies=%s in a drop-in "
			"of your own (systemctl edit)",
			families[0] == '~' ? " without ~AF_UNIX" : "AF_UNIX");
}

static void judge_calls(const struct unit_settings *settings, struct unit_plan *plan)
{
	const char *filter = settings->values[UNIT_SYSTEM_CALL_FILTER];

	if (!filter || filter[0] == '~' || names(filter, "@system-service"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (names(filter, calls[i]))
			continue;
		unit_note(
			plan,
			"SystemCallFilter= does not let it call %s, and what is forbidden may kill "
			"it: add SystemCallFilter=@system-service in a drop-in of your own "
			"(systemctl edit)",
			calls[i]);
		return;
	}
}

static void judge_network(const struct unit_settings *settings, struct unit_plan *plan)
{
	if (is_on(settings->values[UNIT_PRIVATE_NETWORK]) ||
	    settings->values[UNIT_NETWORK_NAMESPACE_PATH])
		unit_note(plan, "it has a network of its own (PrivateNetwork= or "
				"NetworkNamespacePath=), where the daemon does not serve it: its "
				"connections stay on TCP");
}

/* Places in which the library must not be, or must be shown again. */
static void judge_library(const struct unit_settings *settings, const char *library,
			  struct unit_plan *plan)
{
	static const char *const homes[] = {"/home", "/root", "/run/user"};
	const char *home = settings->values[UNIT_PROTECT_HOME];
	bool hidden = false;

	for (size_t i = 0; i < ARRAY_SIZE(homes); i++)
		hidden |= is_under(library, homes[i]);
	if (hidden && (is_on(home) || (home && strcmp(home, "tmpfs") == 0)))
		unit_note(plan, "ProtectHome= hides %s from it: install Shunt outside of homes",
			  library);
	if (is_on(settings->values[UNIT_PRIVATE_TMP]) &&
	    (is_under(library, "/tmp") || is_under(library, "/var/tmp")))
		unit_note(plan, "PrivateTmp= hides %s from it: install Shunt outside of /tmp",
			  library);
	if (covers(settings->values[UNIT_INACCESSIBLE_PATHS], library))
		unit_note(plan, "InaccessiblePaths= hides %s from it: take that out of the list",
			  library);
	if (covers(settings->values[UNIT_NO_EXEC_PATHS], library) &&
	    !covers(settings->values[UNIT_EXEC_PATHS], library))
		unit_note(plan,
			  "NoExecPaths= lets it not run %s: add ExecPaths=%s in a drop-in of your "
			  "own (systemctl edit)",
			  library, library);
}

void unit_sandbox_judge(const struct unit_settings *settings, const char *library,
			struct unit_plan *plan, char ret_binds[UNIT_BINDS_BYTES])
{
	const char *root = settings->values[UNIT_ROOT_DIRECTORY];
	bool is_rooted = (root && strcmp(root, "/") != 0) || settings->values[UNIT_ROOT_IMAGE];
	const char *empty = settings->values[UNIT_TEMPORARY_FILE_SYSTEM];

	ret_binds[0] = '\0';
	if (is_rooted || covers(empty, RUNDIR_SYSTEM_PATH))
		bind_in(ret_binds, RUNDIR_SYSTEM_PATH);
	if (is_rooted || covers(empty, library))
		bind_in(ret_binds, library);
	if (is_rooted)
		unit_note(plan, "it has a root of its own (RootDirectory= or RootImage=): its C "
				"library must be as new as this host's");
	if (covers(settings->values[UNIT_INACCESSIBLE_PATHS], RUNDIR_SYSTEM_PATH))
		unit_note(
			plan,
			"InaccessiblePaths= hides " RUNDIR_SYSTEM_PATH
			" from it, so it can't call the daemon and stays on TCP: take that out of "
			"the list");
	judge_library(settings, library, plan);
	if (settings->values[UNIT_RESTRICT_ADDRESS_FAMILIES])
		judge_families(settings, plan);
	judge_calls(settings, plan);
	judge_network(settings, plan);
}
