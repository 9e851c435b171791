/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>

#include "fabric/conf_section.h"

int section_complain(struct section_error *error, const config_setting_t *where, const char *format,
		     ...)
{
	va_list args;

	error->line = (int)config_setting_source_line(where);
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return SECTION_BAD;
}

static int read_entry(const struct section_reader *section, const config_setting_t *setting,
		      void *ctx, struct section_error *error)
{
	int rc = 0;

	if (config_setting_type(setting) != CONFIG_TYPE_GROUP)
		return section_complain(error, setting, "an entry of %s must look like: %s",
					section->name, section->sample);
	for (int i = 0; rc == 0 && i < config_setting_length(setting); i++)
		rc = section->key(ctx, config_setting_get_elem(setting, (unsigned int)i), error);
	return rc ? rc : section->entry(ctx, setting, error);
}

int section_read(const struct section_reader *section, const config_setting_t *setting, void *ctx,
		 struct section_error *ret_error)
{
	int rc = 0;

	if (config_setting_type(setting) != CONFIG_TYPE_LIST)
		return section_complain(ret_error, setting,
					"%s must be a list of groups: %s = ( %s );", section->name,
					section->name, section->sample);
	if ((unsigned int)config_setting_length(setting) > section->max)
		return section_complain(ret_error, setting,
					"%s has %d entries, but at most %u are read", section->name,
					config_setting_length(setting), section->max);
	for (int i = 0; rc == 0 && i < config_setting_length(setting); i++)
		rc = read_entry(section, config_setting_get_elem(setting, (unsigned int)i), ctx,
				ret_error);
	/* Who has made the error knows the line of what is in the file, but not of all else. */
	if (rc && ret_error->line == 0)
		ret_error->line = (int)config_setting_source_line(setting);
	return rc;
}
