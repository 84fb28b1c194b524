#include "agent/sample/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

enum { THREADS_LOOKED_AT = 4096 };

static ssize_t exe_link(uint32_t pid, char *path, size_t cap)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/%u/exe", pid);
	return readlink(link, path, cap);
}

/*
 * By what number /proc shows memory, files and root of process `pid`: its own, or, where its first
 * thread has ended before the others (pthread_exit() in main: a zombie that has none of them), that
 * of one which lives.
 */
static uint32_t shown_by(uint32_t pid)
{
	char folder[64], path[1];
	struct dirent *entry;
	uint32_t looked_at = 0;
	uint64_t tid;
	DIR *dir;

	if (!pid || exe_link(pid, path, sizeof(path)) > 0 || errno != ENOENT)
		return pid;
	snprintf(folder, sizeof(folder), "/proc/%u/task", pid);
	dir = opendir(folder);
	while (dir && looked_at < THREADS_LOOKED_AT && (entry = readdir(dir))) {
		if (!str_to_u64(str_cstr(entry->d_name), &tid) || tid == pid)
			continue;
		looked_at++;
		if (exe_link((uint32_t)tid, path, sizeof(path)) > 0) {
			pid = (uint32_t)tid;
			break;
		}
	}
	if (dir)
		closedir(dir);
	return pid;
}

bool target_open_proc(uint32_t pid, enum seam_proc_file file, int *fd, struct err *err)
{
	static const char *const names[SEAM_PROC_FILES] = {
		[SEAM_PROC_MAPS] = "maps",       [SEAM_PROC_STAT] = "stat",
		[SEAM_PROC_STATUS] = "status",   [SEAM_PROC_COMM] = "comm",
		[SEAM_PROC_CGROUP] = "cgroup",   [SEAM_PROC_ENVIRON] = "environ",
		[SEAM_PROC_CMDLINE] = "cmdline",
	};
	char path[64];

	if ((unsigned)file >= SEAM_PROC_FILES)
		return err_set(err, ERR_INVALID, "file %u of a process, there are %u",
			       (unsigned)file, SEAM_PROC_FILES);
	if (file == SEAM_PROC_MAPS || file == SEAM_PROC_ENVIRON || file == SEAM_PROC_CMDLINE)
		pid = shown_by(pid);
	snprintf(path, sizeof(path), "/proc/%u/%s", pid, names[file]);
	*fd = open(path, O_RDONLY | O_CLOEXEC);
	return *fd >= 0 || err_set_errno(err, "%s", path);
}

bool target_exe_path(uint32_t pid, char *path, size_t cap, struct err *err)
{
	ssize_t n = exe_link(shown_by(pid), path, cap - 1);

	if (n < 0)
		return err_set_errno(err, "/proc/%u/exe", pid);
	path[n] = 0;
	return true;
}

bool target_list(uint32_t *pids, uint32_t cap, uint32_t *count, struct err *err)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	uint32_t n = 0;
	uint64_t pid;

	if (!dir)
		return err_set_errno(err, "/proc");
	while ((entry = readdir(dir))) {
		if (!str_to_u64(str_cstr(entry->d_name), &pid))
			continue;
		if (n < cap)
			pids[n] = (uint32_t)pid;
		n++;
	}
	closedir(dir);
	*count = n;
	return true;
}

/* From an O_PATH descriptor to one that reads, if it is a regular file and the one that is meant.
 */
static bool open_regular(int path_fd, const struct seam_file *file, int *fd, struct err *err)
{
	char self[64];
	struct stat st;

	if (fstat(path_fd, &st))
		return err_set_errno(err, "fstat of a mapped file");
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_UNSUPPORTED, "not a regular file (mode %o)",
			       (unsigned)st.st_mode);
	if (file && file->inode && (st.st_ino != file->inode || st.st_dev != file->device))
		return err_set(err, ERR_NOT_FOUND, "the path leads to inode %llu, mapped is %llu",
			       (unsigned long long)st.st_ino, (unsigned long long)file->inode);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	*fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return *fd >= 0 || err_set_errno(err, "opening a mapped file for reading");
}

static bool open_map_file(uint32_t pid, const struct seam_file *file, int *fd, struct err *err)
{
	char link[96];
	AUTO(fd_close) int path_fd = -1;

	snprintf(link, sizeof(link), "/proc/%u/map_files/%llx-%llx", pid,
		 (unsigned long long)file->start, (unsigned long long)file->end);
	path_fd = open(link, O_PATH | O_CLOEXEC);
	if (path_fd < 0)
		return err_set_errno(err, "%s", link);
	/* The link leads to the file itself: device numbers of overlays may differ from the maps'.
	 */
	return open_regular(path_fd, NULL, fd, err);
}

static bool open_below(uint32_t pid, const char *path, const struct seam_file *file, int *fd,
		       struct err *err)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	char root[64] = "/";
	AUTO(fd_close) int root_fd = -1;
	AUTO(fd_close) int path_fd = -1;

	if (pid)
		snprintf(root, sizeof(root), "/proc/%u/root", pid);
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return err_set_errno(err, "%s", root);
	path_fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	if (path_fd < 0)
		return err_set_errno(err, "%s in %s", path, root);
	return open_regular(path_fd, file, fd, err) || err_prefix(err, "%s", path);
}

bool target_open_mapped(uint32_t pid, const struct seam_file *file, int *fd, struct err *err)
{
	pid = shown_by(pid);
	if (pid && file->end > file->start && open_map_file(pid, file, fd, err))
		return true;
	if (!file->path || file->path[0] != '/')
		return file->end > file->start
			       ? false
			       : err_set(err, ERR_NOT_FOUND, "a mapping without a path");
	return open_below(pid, file->path, file, fd, err);
}

bool target_open_in_root(uint32_t pid, const char *path, int *fd, struct err *err)
{
	return open_below(shown_by(pid), path, NULL, fd, err);
}

bool target_read_memory(uint32_t pid, uint64_t address, void *to, size_t bytes, size_t *got,
			struct err *err)
{
	struct iovec local = { to, bytes }, remote = { (void *)(uintptr_t)address, bytes };
	ssize_t n = process_vm_readv((pid_t)pid, &local, 1, &remote, 1, 0);

	if (n < 0 && errno == ESRCH)
		n = process_vm_readv((pid_t)shown_by(pid), &local, 1, &remote, 1, 0);
	if (n < 0)
		return err_set_errno(err, "memory of process %u at 0x%llx", pid,
				     (unsigned long long)address);
	*got = (size_t)n;
	return true;
}

bool target_open_kallsyms(int *fd, struct err *err)
{
	*fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	return *fd >= 0 || err_set_errno(err, "/proc/kallsyms");
}
