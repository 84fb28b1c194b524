#include "agent/sample/online.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"

enum { LIST_BYTES = 4096 };

void online_cpus_open(struct online_cpus *o, const char *path)
{
	*o = (struct online_cpus){ .fd = open(path, O_RDONLY | O_CLOEXEC) };
}

void online_cpus_close(struct online_cpus *o)
{
	fd_close(&o->fd);
	o->fd = -1;
}

bool online_cpus_changed(struct online_cpus *o, uint64_t now_ns)
{
	char list[LIST_BYTES];
	uint64_t hash;
	ssize_t n;

	if (o->looked_ns && now_ns - o->looked_ns < SECOND_NS)
		return false;
	o->looked_ns = now_ns;
	n = o->fd < 0 ? -1 : pread(o->fd, list, sizeof(list), 0);
	if (n <= 0)
		return true;
	hash = hash64(str_from(list, (size_t)n));
	if (o->known && hash == o->hash)
		return false;
	o->known = true;
	o->hash = hash;
	return true;
}

void online_cpus_forget(struct online_cpus *o)
{
	o->known = false;
}
