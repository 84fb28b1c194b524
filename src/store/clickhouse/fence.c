#include "store/clickhouse/fence.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum {
	KNOWN_S = 60,   /* how long a table surely knows a block again */
	SESSION_S = 60, /* the least that servers allow by default for one that nobody uses */
	LOST_MOST = 3,  /* sessions */
	LOCKED_MOST = 6,
	LOCKED_PAUSE_MS = 5, /* then twice as long, each time */
};

void ch_fence_init(struct ch_fence *f)
{
	*f = (struct ch_fence){ .first = true, .file = -1 };
	buf_init(&f->rows, 0);
	if (getrandom(&f->prefix, sizeof(f->prefix), 0) != sizeof(f->prefix))
		f->prefix = clock_realtime_ns();
}

void ch_fence_release(struct ch_fence *f)
{
	buf_release(&f->rows);
	if (f->file >= 0)
		close(f->file);
	*f = (struct ch_fence){ .file = -1 };
}

/* ---- the session's name, for the next process ---- */

static bool is_name(const char *name)
{
	return strncmp(name, "flametap-", 9) == 0 &&
	       !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")];
}

void ch_fence_keep(struct ch_fence *f, const char *path)
{
	char name[CH_SESSION_NAME] = "";

	if (f->file >= 0)
		return;
	f->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->file >= 0 && pread(f->file, name, sizeof(name) - 1, 0) > 0 && is_name(name))
		memcpy(f->before, name, sizeof(name));
}

/* All of it in one write, and on the disk before the session is used. */
static void write_name(struct ch_fence *f)
{
	snprintf(f->name, sizeof(f->name), "flametap-%016llx-%u", (unsigned long long)f->prefix,
		 f->session);
	if (f->file < 0)
		return;
	if (pwrite(f->file, f->name, sizeof(f->name), 0) == (ssize_t)sizeof(f->name) &&
	    fdatasync(f->file) == 0)
		return;
	LOG(LOG_WARN, "The name of the session with ClickHouse cannot be kept: an insert that is "
		      "delayed on its way, and repeated after a crash, may be there twice");
	close(f->file);
	f->file = -1;
}

static void pause_ms(unsigned ms)
{
	struct timespec t = { .tv_nsec = ms * (long)MILLI_NS };

	nanosleep(&t, NULL);
}

/* ---- sessions ---- */

static void put_session(const char *name, struct buf *b)
{
	buf_printf(b, "&session_id=%s&session_timeout=%d", name, SESSION_S);
}

/* Does `sql` in the session, which must exist unless this is how it begins. */
static bool in_session(const char *name, struct ch_server *server, struct str sql, bool begins,
		       struct err *err)
{
	struct buf settings;
	bool ok;

	buf_init(&settings, 0);
	put_session(name, &settings);
	if (!begins)
		buf_lit(&settings, "&session_check=1");
	buf_char(&settings, '\0');
	ok = ch_query(server, sql, settings.ptr, NULL, err);
	buf_release(&settings);
	return ok;
}

static void have_session(struct ch_fence *f, struct ch_server *server)
{
	uint64_t now = clock_monotonic_ns();
	struct err err;

	if (f->lost >= LOST_MOST)
		return;
	/* The server forgets one that is not used: better a new one well before that. */
	if (f->in_session && now - f->used_ns < SESSION_S / 2 * SECOND_NS)
		return;
	f->session++;
	f->used_ns = now;
	write_name(f);
	f->in_session = in_session(f->name, server, STR("SELECT 1"), true, &err);
	if (!f->in_session)
		f->lost++;
}

static void end_session(struct ch_fence *f, bool lost)
{
	f->in_session = false;
	f->lost = lost ? f->lost + 1 : 0;
	if (f->lost == LOST_MOST && !f->again)
		LOG(LOG_WARN,
		    "ClickHouse keeps no HTTP sessions, or there is a balancer before "
		    "several servers: an insert that is delayed on its way, and repeated, "
		    "may be there twice");
}

/* No insert is in it when this is done, and none comes. ERR_BUSY: one is; ERR_NOT_FOUND: it is not
 * there any more, and takes none either. */
static bool close_session(const char *name, struct ch_server *server, struct err *err)
{
	unsigned tries = 0;
	bool ok;

	do {
		ok = in_session(name, server, STR("SET readonly = 1"), false, err);
		if (!ok && err->kind == ERR_BUSY)
			pause_ms(LOCKED_PAUSE_MS << tries);
	} while (!ok && err->kind == ERR_BUSY && ++tries < LOCKED_MOST);
	return ok;
}

/* ---- inserts ---- */

static bool insert(struct ch_fence *f, struct ch_server *server, const char *sql,
		   const char *settings, struct str rows, struct err *err)
{
	struct buf all;
	bool ok;

	buf_init(&all, 0);
	buf_str(&all, str_cstr(settings));
	if (f->in_session) {
		put_session(f->name, &all);
		buf_lit(&all, "&session_check=1");
	}
	buf_char(&all, '\0');
	ok = ch_insert(server, str_cstr(sql), all.ptr, rows, err);
	/* The server answers a moment before it unlocks the session. */
	for (unsigned i = 0; !ok && f->in_session && err->kind == ERR_BUSY && i < LOCKED_MOST;
	     i++) {
		pause_ms(LOCKED_PAUSE_MS << i);
		ok = ch_insert(server, str_cstr(sql), all.ptr, rows, err);
	}
	buf_release(&all);
	return ok;
}

bool ch_fence_insert(struct ch_fence *f, struct ch_server *server, const char *sql,
		     const char *settings, struct str rows, struct err *err)
{
	bool ok;

	have_session(f, server);
	ok = insert(f, server, sql, settings, rows, err);
	if (ok && f->in_session) {
		f->used_ns = clock_monotonic_ns();
		f->lost = 0;
	}
	if (ok)
		return true;
	f->open = true;
	f->opened_ns = clock_monotonic_ns();
	f->sql = sql;
	buf_reset(&f->rows);
	if (f->again)
		buf_str(&f->rows, rows);
	return false;
}

/* The server has refused these rows, and would again: sending them again cannot close the fence. */
static bool is_final(enum err_kind kind)
{
	return kind != ERR_UNAVAILABLE && kind != ERR_TIMEOUT && kind != ERR_BUSY &&
	       kind != ERR_CANCELLED;
}

static void closed(struct ch_fence *f)
{
	f->open = false;
	buf_reset(&f->rows);
	buf_trim(&f->rows, 1 << 20);
}

/* What the process before this one left on its way. */
static bool close_before(struct ch_fence *f, struct ch_server *server, const char *cluster,
			 struct err *err)
{
	if (*f->before && !close_session(f->before, server, err) && err->kind != ERR_NOT_FOUND)
		return false;
	*f->before = 0;
	if (!ch_others_settled(server, cluster, err))
		return false;
	f->first = false;
	return true;
}

static bool close_ours(struct ch_fence *f, struct ch_server *server, struct err *err)
{
	bool ok = close_session(f->name, server, err);

	if (!ok && err->kind != ERR_NOT_FOUND)
		return false;
	end_session(f, !ok);
	return true;
}

bool ch_fence_close(struct ch_fence *f, struct ch_server *server, const char *cluster,
		    const char *settings, struct err *err)
{
	bool known = f->again && f->rows.len &&
		     clock_monotonic_ns() - f->opened_ns < KNOWN_S * SECOND_NS;
	bool ended;

	if (f->first && !close_before(f, server, cluster, err))
		return false;
	if (!f->open)
		return true;
	if (known && ch_insert(server, str_cstr(f->sql), settings, buf_view(&f->rows), err)) {
		f->in_session = false; /* the first copy may lie in it */
		closed(f);
		return true;
	}
	if (known && !is_final(err->kind))
		return false;
	ended = f->in_session && !(cluster && *cluster); /* what shards do is in none of ours */
	if (f->in_session && !close_ours(f, server, err))
		return false;
	if (!ended && !ch_settled(server, cluster, err))
		return false;
	closed(f);
	return true;
}
