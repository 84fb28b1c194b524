#include "agent/elf/file_guard.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* start is written last and cleared first: a handler that sees it may use the rest. */
struct guard_range {
	_Atomic uintptr_t start;
	_Atomic uintptr_t end;
	atomic_bool damaged;
};

static struct guard_range ranges[FILE_GUARD_RANGES_MOST];
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER; /* adding and removing */
static struct sigaction handler_before;
static uintptr_t page_bytes;

static bool guard_fill(uintptr_t address)
{
	for (size_t i = 0; i < FILE_GUARD_RANGES_MOST; i++) {
		uintptr_t start = atomic_load_explicit(&ranges[i].start, memory_order_acquire);
		uintptr_t end = atomic_load_explicit(&ranges[i].end, memory_order_relaxed);
		uintptr_t from = address & ~(page_bytes - 1);

		if (!start || address < start || address >= end)
			continue;
		if (mmap((void *)from, end - from, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return false;
		atomic_store_explicit(&ranges[i].damaged, true, memory_order_relaxed);
		return true;
	}
	return false;
}

static void on_sigbus(int signo, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)signo;
	(void)context;
	if (!guard_fill((uintptr_t)info->si_addr))
		sigaction(SIGBUS, &handler_before, NULL); /* the read is tried again and meets it */
	errno = saved;
}

/* Also again, when somebody has put another in its place since. Under ranges_lock. */
static bool handler_install(struct err *err)
{
	struct sigaction action = { .sa_sigaction = on_sigbus,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
	struct sigaction now;

	page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	if (sigaction(SIGBUS, NULL, &now) != 0)
		return err_set_errno(err, "the handler of SIGBUS");
	if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_sigbus)
		return true;
	handler_before = now;
	sigemptyset(&action.sa_mask);
	if (sigaction(SIGBUS, &action, NULL) != 0)
		return err_set_errno(err, "a handler of SIGBUS");
	return true;
}

static bool range_add(const void *start, size_t bytes, int *slot, struct err *err)
{
	if (!handler_install(err))
		return false;
	for (int i = 0; i < FILE_GUARD_RANGES_MOST; i++) {
		if (atomic_load_explicit(&ranges[i].start, memory_order_relaxed))
			continue;
		atomic_store_explicit(&ranges[i].damaged, false, memory_order_relaxed);
		atomic_store_explicit(&ranges[i].end, (uintptr_t)start + bytes,
				      memory_order_relaxed);
		atomic_store_explicit(&ranges[i].start, (uintptr_t)start, memory_order_release);
		*slot = i;
		return true;
	}
	return err_set(err, ERR_LIMIT, "more than %d files are open for reading names and rows",
		       FILE_GUARD_RANGES_MOST);
}

bool file_guard_add(const void *start, size_t bytes, int *slot, struct err *err)
{
	sigset_t set;
	bool ok;

	/* A blocked SIGBUS kills at once: threads that block all signals still read files. */
	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);

	pthread_mutex_lock(&ranges_lock);
	ok = range_add(start, bytes, slot, err);
	pthread_mutex_unlock(&ranges_lock);
	return ok;
}

void file_guard_remove(int slot)
{
	atomic_store_explicit(&ranges[slot].start, 0, memory_order_release);
}

bool file_guard_damaged(int slot)
{
	return atomic_load_explicit(&ranges[slot].damaged, memory_order_relaxed);
}
