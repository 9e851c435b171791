/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>
#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "check_report.h"
#include "core/reason.h"
#include "os/rundir.h"

/*
 * What the points of `shunt check` mean: facts in, lines of a report out. Pure, so that tests can
 * feed any damage; check_*.c beside it gathers the facts.
 *
 * Errors in the facts are -errno, 0 for none.
 */

/* --- the kernel and limits (check_judge_host.c) ----------------------------------------------- */

/* Something that the kernel must have. */
struct kernel_need {
	const char *what;  /* for people */
	const char *since; /* Linux version that brought it */
	int error;	   /* of trying it */
};

struct kernel_facts {
	char release[65];
	const struct kernel_need *needs;
	size_t n_needs;
	int rule;	 /* tcp_rule_selfcheck() */
	int daemon_rule; /* as the daemon says: 1 holds, 0 does not, -1 it says nothing */
};

void judge_kernel(struct check_report *report, const struct kernel_facts *facts);

/* A process's limits, the hard ones: the daemon raises its soft ones to them. */
struct limit_facts {
	const char *whose;	  /* for people */
	bool is_service;	  /* the daemon's own, or what a shell gives */
	uint64_t memlock, nofile; /* UINT64_MAX: none */
	bool may_lock;		  /* CAP_IPC_LOCK: memlock does not count */
	bool has_rdma;		  /* the host has RDMA devices */
	uint64_t pinned_bytes;	  /* pinned_bytes_per_device */
	uint64_t sessions;	  /* max_sessions */
};

/* Locked memory below which a real device will hardly give two queue pairs. Chosen. */
#define CHECK_MEMLOCK_BYTES (1u << 20)

void judge_memlock(struct check_report *report, const struct limit_facts *facts);
void judge_nofile(struct check_report *report, const struct limit_facts *facts);

/* --- RDMA (check_judge_rdma.c) ---------------------------------------------------------------- */

/* Who uses device nodes: the daemon if it runs, else who asks. */
struct identity {
	const char *who; /* for people */
	uid_t uid;
	gid_t groups[64];
	size_t n_groups;
	bool overrides; /* CAP_DAC_OVERRIDE: modes do not count */
};

struct node_facts {
	char path[96];
	int error; /* of stat(2) */
	uid_t uid;
	gid_t gid;
	mode_t mode;
	char group[32]; /* name, or number */
};

/* Whether @identity may read and write the node. */
void judge_node(struct check_report *report, const struct node_facts *facts,
		const struct identity *identity);

struct port_facts {
	char device[64];
	uint32_t port;
	bool is_active, is_roce, is_iwarp;
	const char *state;	  /* for people */
	uint32_t mtu_bytes;	  /* active path MTU; 0: unknown */
	char netdev[IF_NAMESIZE]; /* empty: none */
	uint32_t netdev_mtu;	  /* 0: unknown */
	bool is_netdev_up;
	bool has_gid, is_roce_v2, is_link_local, is_ip;
	char gid[64];	/* the best one, as text */
	bool is_needed; /* named by the user, or no other port of the host is active */
};

void judge_port(struct check_report *report, const struct port_facts *facts);

/* The largest path MTU that fits @netdev_mtu; 0: none. */
uint32_t roce_mtu(uint32_t netdev_mtu);

/* --- the daemon (check_judge_daemon.c) -------------------------------------------------------- */

struct config_facts {
	char path[PATH_MAX];
	bool is_default; /* it may be missing */
	int result;	 /* conf_load() */
	char error[512];
};

void judge_config(struct check_report *report, const struct config_facts *facts);

/* One place where a daemon may be. */
struct place_facts {
	struct rundir dir;
	int dir_error; /* rundir_open() */
	bool has_dir;  /* the owner and mode below are known */
	uid_t dir_uid;
	mode_t dir_mode;
	int sock_error; /* of stat(2) on the socket */
	uid_t sock_uid;
	mode_t sock_mode;
	int answer; /* ask_connect(): 0, ASK_REFUSED or -errno */
	enum reason reason;
};

struct daemon_facts {
	struct place_facts places[RUNDIR_CANDIDATES_MAX];
	size_t n_places; /* 0: SHUNT_RUNTIME_DIR is unusable */
	uid_t uid;	 /* who asks */
	/* Of the first that answers: */
	bool answers;
	int pid;
	uid_t daemon_uid;
	bool serves_all;
	char version[32]; /* empty: not told */
};

void judge_daemon(struct check_report *report, const struct daemon_facts *facts);

struct library_facts {
	char path[PATH_MAX];
	int error;	    /* of reading it */
	bool is_for_others; /* others may read it, and its folders */
	char version[32];   /* empty: it says none */
	const char *tool;   /* the tool's own */
	const char *daemon; /* the daemon's; empty: none answers */
};

void judge_versions(struct check_report *report, const struct library_facts *facts);

struct key_facts {
	const char *setting; /* "peer_key" */
	char path[PATH_MAX]; /* as in the settings */
	bool is_credential;  /* a name that only the unit's daemon can look up */
	int error;	     /* of stat(2) */
	bool is_regular;
	uid_t uid;
	mode_t mode;
	uid_t daemon_uid;   /* whose it may be, beside root's */
	const char *daemon; /* that user's name */
	int read_error;	    /* of reading the content; 0: it is good, or not looked at */
	char wrong[320];    /* what is wrong with the content */
};

void judge_key(struct check_report *report, const struct key_facts *facts);

enum peer_outcome {
	PEER_OUT_DAEMON,	/* a daemon that has shown the key, or certificate */
	PEER_OUT_STRANGER,	/* a daemon, but neither side has to show anything */
	PEER_OUT_VERSION,	/* one of another version */
	PEER_OUT_REJECTED,	/* it speaks TLS 1.3, and is not satisfied with us, or we with it */
	PEER_OUT_NO_TLS,	/* it speaks something else */
	PEER_OUT_HUNG_UP,	/* it ends the connection at once */
	PEER_OUT_SILENT,	/* it takes the connection and says nothing */
	PEER_OUT_NOT_TRIED,	/* connected; no key here to go on with */
	PEER_OUT_NO_CONNECTION, /* see error */
};

struct peer_facts {
	char address[64];
	uint16_t port;
	enum peer_outcome outcome;
	int error;	     /* of connecting: -ECONNREFUSED, -ETIMEDOUT… */
	char detail[192];    /* of TLS; may be empty */
	char software[32];   /* of a daemon */
	const char *own;     /* our version */
	bool by_certificate; /* that is how the two know each other, not by a key */
};

void judge_peer(struct check_report *report, const struct peer_facts *facts);

/* --- a program (check_judge_target.c) --------------------------------------------------------- */

struct target_facts {
	int pid;
	bool exists;
	char comm[32];
	int maps_error; /* of reading its memory map: the rest is not known then */
	bool has_library;
	char library[PATH_MAX], library_version[32];
	bool asked_for_library; /* its environment names it in LD_PRELOAD */
	bool is_static;		/* no dynamic linker */
	bool is_secure;		/* AT_SECURE: set-uid, set-gid or with file capabilities */
	bool has_filter;	/* seccomp */
	bool is_promoted;	/* it has, or had, a connection on a lane */
	bool other_net, other_mnt, other_user,
		other_pid;	/* namespace than the daemon's (or ours) */
	bool sees_socket;	/* the daemon's socket is there for it */
	char runtime_dir[128];	/* its SHUNT_RUNTIME_DIR; empty: none */
	const char *daemon_dir; /* where the daemon is; NULL: none answers */
	bool is_own_daemon;	/* that daemon serves its own user only … */
	uid_t daemon_uid, uid;	/* … and these are the two */
	const char *version;	/* the tool's */
};

void judge_target(struct check_report *report, const struct target_facts *facts);
