/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "check_judge.h"

#define MODE_OTHERS_WRITE 022u

void judge_config(struct check_report *report, const struct config_facts *facts)
{
	if (facts->result == 0) {
		check_say(report, CHECK_PASS, facts->path, "good");
	} else if (facts->result == -ENOENT && facts->is_default) {
		check_say(report, CHECK_PASS, facts->path,
			  "is not there: the defaults hold (shuntd --print-config shows them)");
	} else if (facts->result < 0) {
		check_say(report, CHECK_FAIL, facts->path, "can't be read: %s",
			  strerror(-facts->result));
		check_remedy(report,
			     facts->result == -ENOENT
				     ? "shuntd --print-config > %s, or unset SHUNT_CONF"
				     : "chmod 644 %s, and its folders 755",
			     facts->path);
	} else {
		check_say(report, CHECK_FAIL, facts->path, "%s", facts->error);
		check_remedy(report,
			     "mend that line; shuntd --check-config %s; systemctl reload shuntd",
			     facts->path);
	}
}

/* A place that is not as it must be: say so. False: there is just nobody. */
static bool judge_dir(struct check_report *report, const struct place_facts *place, uid_t uid)
{
	const char *path = place->dir.path;

	if (place->dir_error == -ENOTDIR) {
		check_say(report, CHECK_FAIL, path,
			  "is a symbolic link or no directory: nobody "
			  "answers there");
		check_remedy(report, "rm %s; systemctl restart shuntd", path);
		return true;
	}
	if (place->dir_error != -EPERM)
		return false;
	if (place->has_dir && place->dir_mode & MODE_OTHERS_WRITE) {
		check_say(report, CHECK_FAIL, path,
			  "others may write in it (mode %04o): programs don't trust who answers "
			  "there",
			  (unsigned int)place->dir_mode & 07777);
		check_remedy(report, "chmod go-w %s", path);
	} else if (place->has_dir && place->dir_uid != uid) {
		check_say(report, CHECK_FAIL, path,
			  "belongs to user %u: programs of user %u don't trust who answers there",
			  (unsigned int)place->dir_uid, (unsigned int)uid);
		check_remedy(report, "run this as user %u, or chown %u %s",
			     (unsigned int)place->dir_uid, (unsigned int)uid, path);
	} else {
		check_say(report, CHECK_FAIL, path,
			  "others may look into it: programs don't trust who answers there");
		check_remedy(report, "chmod 700 %s", path);
	}
	return true;
}

static bool judge_place(struct check_report *report, const struct place_facts *place, uid_t uid)
{
	const char *path = place->dir.path;

	if (judge_dir(report, place, uid))
		return true;
	switch (place->answer) {
	case -EACCES:
		check_say(report, CHECK_FAIL, path,
			  "no access to the socket: user %u, mode %04o, and you are user %u",
			  (unsigned int)place->sock_uid, (unsigned int)place->sock_mode & 07777,
			  (unsigned int)uid);
		check_remedy(report,
			     "for a daemon that serves all users: chmod 755 %s; chmod 666 "
			     "%s/" ASK_SOCKET_NAME " (SocketMode=0666 in shuntd.socket)",
			     path, path);
		return true;
	case ASK_REFUSED:
		check_say(report, CHECK_FAIL, path, "the daemon turns us away: %s",
			  reason_text(place->reason));
		check_remedy(report, "users = \"all\" in shunt.conf lets everybody in; else run "
				     "your own: shunt run COMMAND; programs and daemon have to be "
				     "of one version");
		return true;
	case -ECONNREFUSED:
		check_say(report, CHECK_FAIL, path,
			  "there is a socket, but nobody behind it: the daemon has died");
		check_remedy(report, "systemctl restart shuntd; journalctl -u shuntd says why");
		return true;
	case -ETIMEDOUT:
	case -EAGAIN:
		check_say(report, CHECK_FAIL, path, "the daemon does not answer in time");
		check_remedy(report, "systemctl restart shuntd: it is stopped or hangs");
		return true;
	case -EPROTO:
	case -ECONNRESET:
		check_say(report, CHECK_FAIL, path, "what answers is no shuntd of our protocol");
		check_remedy(report, "systemctl restart shuntd, so that tool and daemon are of one "
				     "version");
		return true;
	default:
		return false;
	}
}

void judge_daemon(struct check_report *report, const struct daemon_facts *facts)
{
	bool said = false;

	if (facts->n_places == 0) {
		check_say(report, CHECK_FAIL, "",
			  "SHUNT_RUNTIME_DIR is no absolute path of at most %zu bytes",
			  RUNDIR_PATH_MAX - 1);
		check_remedy(report, "unset SHUNT_RUNTIME_DIR");
		return;
	}
	for (size_t i = 0; i < facts->n_places; i++) {
		const struct place_facts *place = &facts->places[i];

		if (place->answer == 0 && place->dir_error == 0) {
			check_say(report, CHECK_PASS, place->dir.path,
				  "shuntd, process %d of user %u, serves %s", facts->pid,
				  (unsigned int)facts->daemon_uid,
				  facts->serves_all ? "all users" : "its own user");
			return;
		}
		said = judge_place(report, place, facts->uid) || said;
	}
	if (said)
		return;
	check_say(report, CHECK_FAIL, facts->places[0].dir.path,
		  "no daemon runs here%s: every connection stays on TCP",
		  facts->n_places > 1 ? ", nor in the directories of a user's own" : "");
	check_remedy(report,
		     "systemctl enable --now shuntd.socket shuntd.service; without systemd: "
		     "shunt run COMMAND starts one of your own");
}

void judge_versions(struct check_report *report, const struct library_facts *facts)
{
	if (facts->error) {
		check_say(report, CHECK_FAIL, facts->path, "can't be read: %s",
			  strerror(-facts->error));
		check_remedy(report, "install the package libshunt-preload (from source: meson "
				     "install -C build)");
	} else if (!facts->is_for_others) {
		check_say(report, CHECK_WARN, facts->path,
			  "other users can't read it: their programs would start without it");
		check_remedy(report, "chmod 755 %s, and the folders above it", facts->path);
	} else if (strcmp(facts->version, facts->tool) != 0) {
		check_say(report, CHECK_FAIL, facts->path, "is of version %s, the tool of %s",
			  facts->version[0] ? facts->version : "unknown", facts->tool);
		check_remedy(report, "install tool, daemon and library of one version");
	} else {
		check_say(report, CHECK_PASS, facts->path, "version %s", facts->version);
	}
	if (!facts->daemon[0])
		return;
	if (strcmp(facts->daemon, facts->tool) == 0) {
		check_say(report, CHECK_PASS, "shuntd", "version %s, as the tool", facts->daemon);
		return;
	}
	check_say(report, CHECK_WARN, "shuntd", "runs as version %s, the tool is of %s",
		  facts->daemon, facts->tool);
	check_remedy(report, "systemctl restart shuntd: connections go on meanwhile");
}

void judge_key(struct check_report *report, const struct key_facts *facts)
{
	char subject[96];

	snprintf(subject, sizeof(subject), "%s", facts->setting);
	if (facts->is_credential) {
		check_say(report, CHECK_PASS, subject,
			  "is the credential %s, which only the unit's daemon can look up",
			  facts->path);
	} else if (facts->error) {
		check_say(report, CHECK_FAIL, subject, "%s can't be looked at: %s", facts->path,
			  strerror(-facts->error));
		check_remedy(report,
			     facts->error == -EACCES
				     ? "run this as root or as the daemon's user"
				     : "bring the file there, or mend %s in shunt.conf",
			     facts->setting);
	} else if (!facts->is_regular) {
		check_say(report, CHECK_FAIL, subject, "%s is not a regular file", facts->path);
		check_remedy(report, "mend %s in shunt.conf", facts->setting);
	} else if (facts->mode & 077) {
		check_say(report, CHECK_FAIL, subject,
			  "%s may be read or written by others (mode %04o): the daemon refuses it",
			  facts->path, (unsigned int)facts->mode & 07777);
		check_remedy(report, "chmod 0600 %s", facts->path);
	} else if ((facts->uid != 0 && facts->uid != facts->daemon_uid) ||
		   (facts->uid == 0 && facts->daemon_uid != 0)) {
		check_say(report, CHECK_FAIL, subject,
			  "%s belongs to user %u: the daemon, user %u, can't read it", facts->path,
			  (unsigned int)facts->uid, (unsigned int)facts->daemon_uid);
		check_remedy(report,
			     "chown %u %s; or LoadCredential=shunt-peer-key:%s in the unit, and no "
			     "%s",
			     (unsigned int)facts->daemon_uid, facts->path, facts->path,
			     facts->setting);
	} else if (facts->wrong[0]) {
		check_say(report, CHECK_FAIL, subject, "%s", facts->wrong);
		check_remedy(report,
			     "openssl rand -hex 32 > %s on one host, then the same file on "
			     "the others",
			     facts->path);
	} else {
		check_say(report, CHECK_PASS, subject, "%s is readable by the daemon alone",
			  facts->path);
	}
}

static void judge_connection(struct check_report *report, const struct peer_facts *facts,
			     const char *subject)
{
	switch (facts->error) {
	case -ECONNREFUSED:
		check_say(report, CHECK_FAIL, subject,
			  "refused: the host is there, but no daemon listens (or a firewall "
			  "rejects)");
		check_remedy(
			report,
			"there: systemctl start shuntd, peer_port = %u and a peer_key or peers "
			"in shunt.conf; nft list ruleset shows a firewall",
			facts->port);
		return;
	case -ETIMEDOUT:
		check_say(report, CHECK_FAIL, subject,
			  "no answer: a firewall drops it, or the host is down");
		check_remedy(report,
			     "there: nft add rule inet filter input tcp dport %u accept; "
			     "firewall-cmd --permanent --add-port=%u/tcp; ping %s shows whether it "
			     "lives",
			     facts->port, facts->port, facts->address);
		return;
	case -EACCES:
	case -EPERM:
		check_say(report, CHECK_FAIL, subject, "forbidden on this host: %s",
			  strerror(-facts->error));
		check_remedy(report,
			     "nft add rule inet filter output tcp dport %u accept; ip route get %s "
			     "shows a prohibiting route",
			     facts->port, facts->address);
		return;
	default:
		check_say(report, CHECK_FAIL, subject, "can't be reached: %s",
			  strerror(-facts->error));
		check_remedy(report,
			     "ip route get %s; a firewall may answer so as well: nft list ruleset, "
			     "here and there",
			     facts->address);
	}
}

void judge_peer(struct check_report *report, const struct peer_facts *facts)
{
	char subject[96];

	snprintf(subject, sizeof(subject), strchr(facts->address, ':') ? "[%s]:%u" : "%s:%u",
		 facts->address, facts->port);
	switch (facts->outcome) {
	case PEER_OUT_NO_CONNECTION:
		judge_connection(report, facts, subject);
		return;
	case PEER_OUT_DAEMON:
		check_say(report, CHECK_PASS, subject, "%s answers and has %s", facts->software,
			  facts->by_certificate ? "a certificate of the same authority"
						: "the same key");
		return;
	case PEER_OUT_STRANGER:
		check_say(report, CHECK_WARN, subject,
			  "%s answers; neither shows who it is: any program on that address would "
			  "do",
			  facts->software);
		check_remedy(report, "give both daemons a peer_key");
		return;
	case PEER_OUT_VERSION:
		check_say(report, CHECK_FAIL, subject,
			  "a daemon answers that speaks another version: %s", facts->detail);
		check_remedy(report, "install the version that is here (%s) there, or that here",
			     facts->own);
		return;
	case PEER_OUT_REJECTED:
		check_say(report, CHECK_FAIL, subject,
			  "it speaks TLS, but the two don't accept each other: %s", facts->detail);
		check_remedy(report, "put the same peer_key (or certificates of one authority) on "
				     "both hosts; sha256sum of the files must agree");
		return;
	case PEER_OUT_NO_TLS:
		check_say(report, CHECK_FAIL, subject, "what answers is no shuntd: %s",
			  facts->detail);
		check_remedy(report,
			     "there: ss -ltnp sport = :%u shows who it is; set peer_port in "
			     "shunt.conf on both hosts",
			     facts->port);
		return;
	case PEER_OUT_HUNG_UP:
		check_say(report, CHECK_FAIL, subject,
			  "it hangs up at once: a daemon that does not know this host, or no "
			  "shuntd");
		check_remedy(report, "there: enter this host's address in peers of shunt.conf, or "
				     "give both a peer_key; journalctl -u shuntd names the reason");
		return;
	case PEER_OUT_SILENT:
		check_say(report, CHECK_FAIL, subject,
			  "it takes the connection but says nothing: a daemon that hangs, or no "
			  "shuntd");
		check_remedy(report, "there: systemctl restart shuntd; ss -ltnp sport = :%u",
			     facts->port);
		return;
	case PEER_OUT_NOT_TRIED:
		check_say(report, CHECK_WARN, subject, "it can be reached; %s", facts->detail);
		check_remedy(report, "run this as root or as the daemon's user, so that the key "
				     "can be tried as well");
		return;
	}
}
