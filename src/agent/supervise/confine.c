#include "agent/supervise/confine.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/doctor/privileges.h"
#include "agent/sample/variant.h"
#include "base/cleanup.h"
#include "base/str.h"

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#error "no system call filter for this architecture"
#endif

/* ---- system call filters ---- */

/* What neither process ever does. */
static const int refused_to_both[] = {
	SYS_execve,
	SYS_execveat,
	SYS_ptrace,
	SYS_process_vm_writev,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_setns,
	SYS_unshare,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_sethostname,
	SYS_setdomainname,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_adjtimex,
	SYS_clock_adjtime,
	SYS_add_key,
	SYS_request_key,
	SYS_keyctl,
	SYS_acct,
	SYS_quotactl,
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	SYS_userfaultfd,
	SYS_personality,
	SYS_vhangup,
};
/* All ways to a network; its own socket is there already. */
static const int refused_to_sampler[] = {
	SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4,
};
static const int refused_to_worker[] = {
	SYS_perf_event_open,
	SYS_process_vm_readv,
	SYS_open_by_handle_at,
	SYS_name_to_handle_at,
	SYS_kcmp,
	SYS_pidfd_getfd,
};

enum { FILTER_MOST = 256 };

struct filter {
	struct sock_filter at[FILTER_MOST];
	unsigned short count;
};

static void put(struct filter *f, struct sock_filter instruction)
{
	if (f->count < FILTER_MOST)
		f->at[f->count++] = instruction;
}

#define LOAD(field)                                             \
	((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, \
				      offsetof(struct seccomp_data, field)))
#define RETURN(what)      ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (what)))
#define JUMP_UNLESS(k, n) ((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), 0, (n)))
#define REFUSED           (SECCOMP_RET_ERRNO | EPERM)

/* Another architecture's calls have other numbers: none is let through. */
static void begin_filter(struct filter *f)
{
	put(f, LOAD(arch));
	put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0));
	put(f, RETURN(REFUSED));
	put(f, LOAD(nr));
#if defined(__x86_64__)
	/* x32 calls are those with bit 30. */
	put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));
	put(f, RETURN(REFUSED));
#endif
}

static void refuse(struct filter *f, const int *calls, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		put(f, JUMP_UNLESS((unsigned)calls[i], 1));
		put(f, RETURN(REFUSED));
	}
}

/* Of bpf() the worker may use the elements of maps that it was given, and nothing else. */
static void allow_map_elements_only(struct filter *f)
{
	static const unsigned commands[] = { BPF_MAP_LOOKUP_ELEM,  BPF_MAP_UPDATE_ELEM,
					     BPF_MAP_DELETE_ELEM,  BPF_MAP_GET_NEXT_KEY,
					     BPF_MAP_LOOKUP_BATCH, BPF_MAP_UPDATE_BATCH,
					     BPF_MAP_DELETE_BATCH };
	const unsigned char lines = 2 * ARRAY_LEN(commands) + 2;

	put(f, JUMP_UNLESS(SYS_bpf, lines));
	put(f, LOAD(args[0])); /* the low half: commands are small numbers */
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		put(f, JUMP_UNLESS(commands[i], 1));
		put(f, RETURN(SECCOMP_RET_ALLOW));
	}
	put(f, RETURN(REFUSED));
}

static bool install(struct filter *f, struct err *err)
{
	struct sock_fprog program = { .filter = f->at };

	put(f, RETURN(SECCOMP_RET_ALLOW));
	program.len = f->count;
	if (f->count >= FILTER_MOST)
		return err_set(err, ERR_INTERNAL, "the system call filter has more than %d lines",
			       FILTER_MOST);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		return err_set_errno(err, "the system call filter");
	return true;
}

/* ---- capabilities ---- */

static bool keep_capabilities(uint64_t keep, struct err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ .effective = (uint32_t)keep, .permitted = (uint32_t)keep },
		{ .effective = (uint32_t)(keep >> 32), .permitted = (uint32_t)(keep >> 32) },
	};

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	/* Without CAP_SETPCAP the bounding set stays; no_new_privs makes it void. */
	for (int i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++)
		prctl(PR_CAPBSET_DROP, i);
	if (syscall(SYS_capset, &header, data) != 0)
		return err_set_errno(err, "the capabilities");
	return true;
}

static bool forbid_new_privileges(struct err *err)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 || err_set_errno(err, "no_new_privs");
}

/* Neither process keeps CAP_SYS_RESOURCE to do it later. BPF maps and the side band's pages share
 * the limit. Where it may not be raised, making the maps fails and says why. */
static void raise_locked_memory(void)
{
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	if (maps_are_locked_memory())
		setrlimit(RLIMIT_MEMLOCK, &unlimited);
}

bool confine_sampler(struct err *err)
{
	struct filter f = { .count = 0 };
	uint64_t effective, permitted;

	if (!capabilities_read(&effective, &permitted))
		return err_set_errno(err, "the capabilities");
	raise_locked_memory();
	begin_filter(&f);
	refuse(&f, refused_to_both, ARRAY_LEN(refused_to_both));
	refuse(&f, refused_to_sampler, ARRAY_LEN(refused_to_sampler));
	return forbid_new_privileges(err) &&
	       keep_capabilities(capabilities_of_sampler(permitted, perf_needs_admin()), err) &&
	       install(&f, err);
}

static bool become(const struct confine_user *user, struct err *err)
{
	if (!user->set)
		return true;
	if (setgroups(0, NULL) != 0 || setresgid(user->gid, user->gid, user->gid) != 0 ||
	    setresuid(user->uid, user->uid, user->uid) != 0)
		return err_set_errno(err, "the worker's user %u:%u", user->uid, user->gid);
	return true;
}

bool confine_worker(const struct confine_user *user, struct err *err)
{
	struct filter f = { .count = 0 };

	raise_locked_memory();
	begin_filter(&f);
	allow_map_elements_only(&f);
	put(&f, LOAD(nr));
	refuse(&f, refused_to_both, ARRAY_LEN(refused_to_both));
	refuse(&f, refused_to_worker, ARRAY_LEN(refused_to_worker));
	return become(user, err) && forbid_new_privileges(err) && keep_capabilities(0, err) &&
	       install(&f, err);
}

bool confine_user_parse(const char *text, struct confine_user *out, struct err *err)
{
	struct str rest = str_cstr(text), name;
	const struct passwd *known = getpwnam(text);
	uint64_t uid, gid;

	*out = (struct confine_user){ .set = true };
	if (known) {
		out->uid = known->pw_uid;
		out->gid = known->pw_gid;
		return true;
	}
	if (!str_split(&rest, ':', &name) || !str_to_u64(name, &uid) || uid > UINT32_MAX - 1)
		return err_set(err, ERR_NOT_FOUND, "there is no user \"%s\"", text);
	gid = uid;
	if (rest.ptr && rest.len && (!str_to_u64(rest, &gid) || gid > UINT32_MAX - 1))
		return err_set(err, ERR_INVALID, "\"%s\" is no UID:GID", text);
	out->uid = (uid_t)uid;
	out->gid = (gid_t)gid;
	return true;
}
