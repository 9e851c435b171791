/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "config_key.h"

/*
 * Prints the manual page shunt.conf(5) in mdoc(7), from the table of settings. It is run when Shunt
 * is built. The sections have no table that says what their keys mean, so that is said here; a test
 * compares the names with those that the readers of the sections know.
 */

struct section_key {
	const char *name, *value, *text;
};

#define SECTION_KEYS_MAX 12

/* A section: a list of groups in parentheses. */
struct section {
	const char *name, *intro;
	struct section_key keys[SECTION_KEYS_MAX]; /* ends with a name of NULL */
};

static const struct section sections[] = {
	{
		.name = "devices",
		.intro = "What is known of kinds of RDMA devices, and which to use. Each "
			 "entry says which devices it is about by at least one of the "
			 "first four keys (all that it has must match), and what holds for "
			 "them by at least one of the others. Of all entries that match a "
			 "device, the first that has a key decides it. The section takes "
			 "the place of the one that is built in, which the shipped file "
			 "shows. At most 32 entries; read at the start only.",
		.keys =
			{
				{"vendor_id", "number",
				 "The vendor of the device, an OUI of 24 bits, such as 0x02c9."},
				{"part_id", "number", "The vendor's number of the kind of device."},
				{"driver", "\"pattern\"",
				 "The kernel's driver. * and ? stand for what they do in "
				 "file names."},
				{"name", "\"pattern\"",
				 "The device's name, such as \"mlx5_*\". \"*\" is every device."},
				{"inline_cap", "bytes",
				 "Never post more than this inline, whatever is granted."},
				{"inline_hints", "[ bytes, ... ]",
				 "Up to 8 sizes to try first when the device refuses what "
				 "is asked. The limit itself is found by trial; hints "
				 "only make that shorter."},
				{"inline", "\"on\" | \"off\"",
				 "With \"off\", post nothing inline. The default is \"on\"."},
				{"use", "\"yes\" | \"no\"",
				 "With \"no\", leave the device alone. The default is \"yes\"."},
				{NULL, NULL, NULL},
			},
	},
	{
		.name = "peers",
		.intro = "The daemons of other hosts, one entry each. With a key, or "
			 "certificates, a host needs an entry only if it has several "
			 "addresses or a key of its own; without, nobody else is talked "
			 "to, and who they are is taken on trust of the network. An "
			 "address may be in one entry only. At most 128 entries; read at "
			 "the start only.",
		.keys =
			{
				{"address", "\"address\" | [ ... ]",
				 "Where the daemon is, or a list of up to 8 addresses: it "
				 "may speak for connections of all of them. Every entry "
				 "must have it."},
				{"rdma_address", "\"address\" | [ ... ]",
				 "Where its RDMA devices are, if it can't tell itself; or "
				 "a list of up to 8."},
				{"port", "number",
				 "The TCP port on which it listens, if that is not peer_port."},
				{"key", "\"file\"",
				 "A key for this peer alone, in place of peer_key. As "
				 "there, a full path, or the name of a credential."},
				{"name", "\"text\"", "What people call it; up to 63 characters."},
				{NULL, NULL, NULL},
			},
	},
	{
		.name = "rules",
		.intro = "Which connections are accelerated, and which stay on TCP. The "
			 "first entry whose every condition holds decides, for each end of "
			 "a connection by itself; TCP for one end is TCP for both. Without "
			 "an entry that matches, an end is accelerated. An entry without a "
			 "condition decides about everything, and must be the last. At "
			 "most 128 entries; a change holds at once. shuntd(8) has "
			 "examples; shunt explain says which entry decides.",
		.keys =
			{
				{"program", "\"pattern\"",
				 "What the process runs: its name, or its full path if "
				 "there is a slash; * and ? and [] as in file names."},
				{"user", "\"name\" | number",
				 "Whom it runs as. The user must exist when the file is "
				 "read; a number need not."},
				{"unit", "\"pattern\"",
				 "Its systemd unit, or a slice around that; or, from the "
				 "first / on, the path of its control group."},
				{"direction", "\"in\" | \"out\" | \"any\"",
				 "With \"in\", the process accepted the connection, with "
				 "\"out\", it made it. The default is \"any\"."},
				{"port", "number | \"number-number\"",
				 "The server's port, or a range of ports."},
				{"to", "\"address\" | \"address/bits\"",
				 "The other end's address, or its network."},
				{"action", "\"accelerate\" | \"tcp\"",
				 "What is decided. Every entry must have it."},
				{NULL, NULL, NULL},
			},
	},
};

/* Text that can not be taken for a request, with each sentence on a line of its own. */
static void print_text(const char *text)
{
	bool starts = true;

	for (const char *at = text; *at; at++) {
		/* A comment that goes on in the next line of the sample. */
		if (strncmp(at, "\n# ", 3) == 0) {
			putchar(' ');
			at += 2;
		} else if (at[0] == '.' && at[1] == ' ' && isupper((unsigned char)at[2])) {
			fputs(".\n", stdout);
			at++;
			starts = true;
			continue;
		} else if (*at == '\\') {
			fputs("\\e", stdout);
		} else if (*at == '"') {
			fputs("\\(dq", stdout);
		} else {
			if (starts && (*at == '.' || *at == '\''))
				fputs("\\&", stdout);
			putchar(*at);
		}
		starts = false;
	}
	putchar('\n');
}

static const char *applies_text(const struct key *key)
{
	switch (key->applies) {
	case KEY_APPLIES_AT_START:
		return "Read at the start only.";
	case KEY_APPLIES_TO_NEW:
		return "A change holds for programs that start later.";
	default:
		return "A change holds at once.";
	}
}

static void print_values(const struct key *key)
{
	if (key->kind == KEY_WORD) {
		fputs("One of", stdout);
		for (size_t i = 0; key->words[i]; i++)
			printf("%s \\(dq%s\\(dq", i ? "," : "", key->words[i]);
		puts(".");
	} else if (key->kind == KEY_PATH) {
		puts("A file, in quotes: its full path, of at most 255 bytes, or the name of a "
		     "credential.");
	} else if (key->kind == KEY_ADDRESS) {
		puts("An IP address, in quotes.");
	} else {
		printf("A whole number%s, from %llu to %llu; unit: %s.\n",
		       key->kind == KEY_POWER ? " that is a power of two" : "",
		       (unsigned long long)key->lo, (unsigned long long)key->hi, key->unit);
	}
}

static void print_key(const struct key *key)
{
	if (key->kind == KEY_WORD)
		printf(".It Va %s No = Qq %s\n", key->name, key->words[key->preset]);
	else if (conf_key_is_text(key))
		printf(".It Va %s No = Qq\n", key->name);
	else
		printf(".It Va %s No = %llu%s\n", key->name, (unsigned long long)key->preset,
		       key->preset > INT32_MAX ? "L" : "");
	print_text(key->what);
	print_values(key);
	print_text(key->why);
	puts(applies_text(key));
}

static void print_section(const struct section *section)
{
	printf(".Ss %s\n", section->name);
	print_text(section->intro);
	puts(".Bl -tag -width Ds");
	for (const struct section_key *key = section->keys; key->name; key++) {
		printf(".It Va %s No = ", key->name);
		print_text(key->value);
		print_text(key->text);
	}
	puts(".El");
}

static const char head[] =
	".\\\" SPDX-License-Identifier: MIT\n"
	".\\\" Made from the table of settings when Shunt is built.\n"
	".Dd December 1, 2026\n"
	".Dt SHUNT.CONF 5\n"
	".Os\n"
	".Sh NAME\n"
	".Nm shunt.conf\n"
	".Nd settings of the daemon of Shunt\n"
	".Sh DESCRIPTION\n"
	"The file is read by\n"
	".Xr shuntd 8\n"
	"when it starts, and again at SIGHUP\n"
	".Pq Ql systemctl reload shuntd ;\n"
	"a file that is wrong is refused as a whole: the daemon does not start with it, and one "
	"that\n"
	"runs keeps the settings that it has.\n"
	".Ql shuntd --check-config Ar file\n"
	"says what is wrong, in which line, and what would be right.\n"
	".Pp\n"
	"Each setting is a line\n"
	".Dl key = value;\n"
	"in the syntax of libconfig.\n"
	"What is not set has its default; so a file may be empty.\n"
	"No key may be given twice.\n"
	"Lines, or their ends, from # or // on are comments, and so is what is between /* and */.\n"
	"Texts are in double quotes.\n"
	"Numbers are whole, decimal, or hexadecimal after 0x; those above 2147483647 end in L.\n"
	"A line\n"
	".Dl @include \\(dqfile\\(dq\n"
	"is replaced by that file; if its name has no leading slash it is looked for where the "
	"daemon was\n"
	"started, so give the full path.\n"
	".Pp\n"
	"The shipped file has every key with its default, as a comment;\n"
	".Ql shuntd --print-config\n"
	"prints the same.\n"
	".Sh KEYS\n"
	"Each key is shown with its default: what it means, what it may be, why the default is "
	"what it\n"
	"is, and from when a changed value holds.\n"
	".Bl -tag -width Ds\n";

static const char middle[] = ".El\n"
			     ".Sh SECTIONS\n"
			     "A section is a list of groups, each an entry:\n"
			     ".Dl section = ( { key = value; key = value; }, { key = value; } );\n";

static const char tail[] =
	".Sh FILES\n"
	".Bl -tag -width Ds\n"
	".It Pa " SHUNT_CONF_PATH "\n"
	"The settings, unless\n"
	".Ev SHUNT_CONF\n"
	"or the option\n"
	".Fl -config\n"
	"names another file.\n"
	".El\n"
	".Sh EXAMPLES\n"
	"Larger rings, a key for other hosts, and one device that is left alone:\n"
	".Bd -literal -offset indent\n"
	"ring_bytes = 1048576;\n"
	"peer_key = \"/etc/shunt/peer.key\";\n"
	"devices = ( { name = \"mlx5_1\"; use = \"no\"; } );\n"
	".Ed\n"
	".Sh SEE ALSO\n"
	".Xr shunt 1 ,\n"
	".Xr shunt 7 ,\n"
	".Xr shuntd 8\n";

int main(void)
{
	fputs(head, stdout);
	for (size_t i = 0; conf_key_at(i); i++)
		print_key(conf_key_at(i));
	fputs(middle, stdout);
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		print_section(&sections[i]);
	fputs(tail, stdout);
	return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
}
