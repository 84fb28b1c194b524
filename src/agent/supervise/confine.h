/*
 * confine.h - takes from a process what it must not have (docs/decisions/, the agent).
 *
 *   the sampler  keeps the six capabilities of doctor/privileges.h, has no network: its system call
 *                filter refuses every socket, and starts no program
 *   the worker   keeps no capability and, where one is named, an own user; its filter refuses to
 *                load BPF programs, to open perf events, to look into other processes, to mount, to
 *                start programs
 *
 * Neither can get anything back: no_new_privs is set and the bounding set is empty. To be called
 * while the process has one thread: there is no way back and no half way, a failure ends it.
 */
#pragma once
#include <sys/types.h>
#include "base/err.h"

bool confine_sampler(struct err *err) MUST_CHECK;

struct confine_user {
	bool set;
	uid_t uid;
	gid_t gid;
};
/* "nobody", "1000", "1000:1000". */
bool confine_user_parse(const char *text, struct confine_user *out, struct err *err) MUST_CHECK;
bool confine_worker(const struct confine_user *user, struct err *err) MUST_CHECK;
