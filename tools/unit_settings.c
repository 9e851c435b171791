/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/util.h"
#include "systemctl.h"
#include "unit.h"
#include "unit_impl.h"

/* Drop-ins of one unit, and names that they go by. Chosen: nobody has so many. */
#define DROP_INS_MAX 128u
#define NAMES_MAX 16u

static const struct {
	const char *name;
	bool is_list; /* assignments add up, and an empty one forgets them */
} keys[UNIT_KEY_COUNT] = {
	[UNIT_ENVIRONMENT] = {"Environment", true},
	[UNIT_ENVIRONMENT_FILE] = {"EnvironmentFile", true},
	[UNIT_UNSET_ENVIRONMENT] = {"UnsetEnvironment", true},
	[UNIT_ROOT_DIRECTORY] = {"RootDirectory", false},
	[UNIT_ROOT_IMAGE] = {"RootImage", false},
	[UNIT_PROTECT_HOME] = {"ProtectHome", false},
	[UNIT_PRIVATE_TMP] = {"PrivateTmp", false},
	[UNIT_PRIVATE_NETWORK] = {"PrivateNetwork", false},
	[UNIT_NETWORK_NAMESPACE_PATH] = {"NetworkNamespacePath", false},
	[UNIT_RESTRICT_ADDRESS_FAMILIES] = {"RestrictAddressFamilies", true},
	[UNIT_TEMPORARY_FILE_SYSTEM] = {"TemporaryFileSystem", true},
	[UNIT_INACCESSIBLE_PATHS] = {"InaccessiblePaths", true},
	[UNIT_NO_EXEC_PATHS] = {"NoExecPaths", true},
	[UNIT_EXEC_PATHS] = {"ExecPaths", true},
	[UNIT_SYSTEM_CALL_FILTER] = {"SystemCallFilter", true},
};

const char *unit_key_name(enum unit_key key)
{
	return keys[key].name;
}

static void set(struct unit_settings *settings, enum unit_key key, const char *value)
{
	char *old = settings->values[key], *text = NULL;

	if (*value && asprintf(&text, "%s%s%s", keys[key].is_list && old ? old : "",
			       keys[key].is_list && old ? " " : "", value) < 0)
		text = NULL;
	free(old);
	settings->values[key] = text;
}

static void assign(struct unit_settings *settings, const char *name, const char *value,
		   const char *late)
{
	for (enum unit_key key = 0; key < UNIT_KEY_COUNT; key++) {
		if (strcmp(keys[key].name, name) != 0)
			continue;
		if (late && key == UNIT_ENVIRONMENT && (!*value || strstr(value, "LD_PRELOAD=")))
			snprintf(settings->late, sizeof(settings->late), "/%s", late);
		set(settings, key, value);
	}
}

/* Join lines that end in a backslash, and cut off white space: one whole line at @at; what follows
 * it, or NULL at the end. */
static char *next_line(char *at, char **ret_line)
{
	char *from = at, *to = at;

	while (*from == ' ' || *from == '\t')
		from++;
	*ret_line = to;
	for (; *from && *from != '\n'; from++) {
		if (from[0] == '\\' && from[1] == '\n') {
			*to++ = ' ';
			from++;
		} else {
			*to++ = *from;
		}
	}
	at = *from ? from + 1 : NULL;
	while (to > *ret_line && isspace((unsigned char)to[-1]))
		to--;
	*to = '\0';
	return at;
}

/* @late: the path of a file that is read behind our drop-in; else NULL. */
static void read_text(struct unit_settings *settings, char *text, const char *late)
{
	bool is_service = false;
	char *line, *equals, *end;

	while (text) {
		text = next_line(text, &line);
		if (*line == '[')
			is_service = strcmp(line, "[Service]") == 0;
		equals = strchr(line, '=');
		if (!is_service || !equals || *line == '#' || *line == ';')
			continue;
		end = equals;
		while (end > line && isspace((unsigned char)end[-1]))
			end--;
		*end = '\0';
		for (equals++; isspace((unsigned char)*equals); equals++)
			;
		assign(settings, line, equals, late);
	}
}

/* The names that drop-ins of @name may go by, the most particular first. */
static size_t names_of(const char *name, char names[NAMES_MAX][UNIT_NAME_BYTES])
{
	char template[UNIT_NAME_BYTES];
	size_t n = 0, len;

	strcpy(names[n++], name);
	if (unit_template_of(name, template))
		strcpy(names[n++], template);
	len = strcspn(name, "@");
	if (!name[len])
		len = strlen(name) - strlen(".service");
	/* a-b-c.service has those of a-b-.service and a-.service. */
	while (len > 0 && n < NAMES_MAX - 1) {
		for (len--; len > 0 && name[len] != '-'; len--)
			;
		if (len > 0)
			snprintf(names[n++], UNIT_NAME_BYTES, "%.*s-.service", (int)len, name);
	}
	strcpy(names[n++], "service");
	return n;
}

struct drop_ins {
	size_t n;
	char paths[DROP_INS_MAX][512];
};

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int by_base(const void *a, const void *b)
{
	return strcmp(base_of(a), base_of(b));
}

/* Of two with the same name the first counts. */
static void add(struct drop_ins *drop_ins, const char *dir, const char *entry)
{
	size_t len = strlen(entry);

	if (len < 6 || strcmp(entry + len - 5, ".conf") != 0 || drop_ins->n == DROP_INS_MAX ||
	    strlen(dir) + len + 2 > sizeof(drop_ins->paths[0]))
		return;
	for (size_t i = 0; i < drop_ins->n; i++) {
		if (strcmp(base_of(drop_ins->paths[i]), entry) == 0)
			return;
	}
	snprintf(drop_ins->paths[drop_ins->n++], sizeof(drop_ins->paths[0]), "%s/%s", dir, entry);
}

static void list(const struct unit_root *root, const char *dir, struct drop_ins *drop_ins)
{
	int fd = unit_open_in(root, dir, O_RDONLY | O_DIRECTORY);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!stream) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(stream)) != NULL)
		add(drop_ins, dir, entry->d_name);
	closedir(stream);
}

void unit_settings_read(const struct unit_root *root, const char *name, const char *file,
			struct unit_settings *ret_settings)
{
	static struct drop_ins drop_ins; /* large */
	char names[NAMES_MAX][UNIT_NAME_BYTES], dir[UNIT_NAME_BYTES + 64];
	size_t n = names_of(name, names);
	int error;
	char *text;

	memset(ret_settings, 0, sizeof(*ret_settings));
	drop_ins.n = 0;
	for (size_t d = 0; d < UNIT_DIRS; d++) {
		for (size_t i = 0; i < n; i++) {
			snprintf(dir, sizeof(dir), "%s/%s.d", unit_dirs[d], names[i]);
			list(root, dir, &drop_ins);
		}
	}
	qsort(drop_ins.paths, drop_ins.n, sizeof(drop_ins.paths[0]), by_base);
	text = file[0] ? unit_read_in(root, file, &error) : NULL;
	read_text(ret_settings, text, NULL);
	free(text);
	for (size_t i = 0; i < drop_ins.n; i++) {
		int order = strcmp(base_of(drop_ins.paths[i]), UNIT_DROP_IN);

		text = order ? unit_read_in(root, drop_ins.paths[i], &error) : NULL;
		read_text(ret_settings, text, order > 0 ? drop_ins.paths[i] : NULL);
		free(text);
	}
}

bool unit_settings_ask(const char *name, struct unit_settings *settings)
{
	char properties[1024] = "";
	const char *argv[] = {"systemctl", "show", "--property", properties, "--", name, NULL};
	AUTO_FREE char *text = NULL;
	char *line, *rest, *equals;

	for (enum unit_key key = UNIT_ROOT_DIRECTORY; key < UNIT_KEY_COUNT; key++)
		snprintf(properties + strlen(properties), sizeof(properties) - strlen(properties),
			 "%s,", keys[key].name);
	if (systemctl(argv, &text) != 0 || !text)
		return false;
	for (enum unit_key key = UNIT_ROOT_DIRECTORY; key < UNIT_KEY_COUNT; key++)
		set(settings, key, "");
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		equals = strchr(line, '=');
		if (!equals)
			continue;
		*equals = '\0';
		for (enum unit_key key = UNIT_ROOT_DIRECTORY; key < UNIT_KEY_COUNT; key++) {
			if (strcmp(keys[key].name, line) == 0)
				set(settings, key, equals + 1);
		}
	}
	return true;
}

void unit_settings_deinit(struct unit_settings *settings)
{
	for (enum unit_key key = 0; key < UNIT_KEY_COUNT; key++) {
		free(settings->values[key]);
		settings->values[key] = NULL;
	}
}
