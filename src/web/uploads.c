#include "web/uploads.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/vec.h"
#include "formats/formats.h"
#include "model/subset.h"
#include "net/compress.h"
#include "query/profiles_source.h"
#include "wire/bodies.h"

enum { DECODED_MOST = 4, BODIES_MOST = 100000, FILE_MOST = 128 << 20 };
static const uint64_t DECODED_IDLE_NS = 300ull * 1000000000;

/* One that was read; shared by the sources on it. */
struct decoded {
	char id[UPLOAD_ID_LEN + 1];
	struct profiles *profiles;
	uint64_t used_ns; /* clock_monotonic_ns() */
	uint32_t refs;    /* guarded */
};

struct uploads {
	struct uploads_options options;
	char *folder;
	pthread_mutex_t lock;
	/* guarded */
	struct upload list[UPLOADS_MOST]; /* the oldest first */
	struct blob *kept[UPLOADS_MOST];  /* without a folder */
	uint32_t count;
	struct decoded *cache[DECODED_MOST];
};

/* ---- decoding ---- */

struct parts {
	struct profiles **ptr;
	uint32_t count, cap;
};

static void parts_add(struct parts *p, struct profiles *one)
{
	VEC_ROOM(p->ptr, p->count, p->cap);
	p->ptr[p->count++] = one;
}

static bool read_bodies(struct blob *plain, struct parts *parts, struct err *err)
{
	struct bodies bodies;
	struct blob *body;
	size_t offset;

	bodies_begin(&bodies, plain, 0);
	while (bodies_next(&bodies, &body, &offset)) {
		struct profiles *one = NULL;
		bool ok = parts->count < BODIES_MOST ||
			  err_set(err, ERR_LIMIT, "more than %d bodies in one file", BODIES_MOST);

		ok = ok && format_read(body, &one, err);
		blob_unref(body);
		if (!ok)
			return false;
		parts_add(parts, one);
	}
	return true;
}

static bool has_samples(const struct profiles *p, struct err *err)
{
	for (uint32_t i = 0; i < p->profile_count; i++)
		if (!p->profiles[i].refused && p->profiles[i].samples.count)
			return true;
	return err_set(err, ERR_INVALID, "there is no sample in the file");
}

static bool read_file(const struct uploads *u, struct blob *bytes, struct profiles **out,
		      struct err *err)
{
	enum compression packed = compression_sniff(blob_view(bytes));
	struct blob *plain = packed == COMPRESSION_NONE ? blob_ref(bytes)
							: decompress(packed, blob_view(bytes),
								     u->options.decoded_most, err);
	struct parts parts = { 0 };
	struct profiles *p = NULL;
	bool ok = plain && read_bodies(plain, &parts, err);

	if (ok && parts.count == 1) {
		p = parts.ptr[0];
		parts.count = 0;
	} else if (ok) {
		p = profiles_merge((const struct profiles *const *)parts.ptr, parts.count, err);
		ok = p != NULL;
	}
	for (uint32_t i = 0; i < parts.count; i++)
		profiles_free(parts.ptr[i]);
	free(parts.ptr);
	blob_unref(plain);
	if (ok && !has_samples(p, err)) {
		profiles_free(p);
		ok = false;
	}
	if (ok)
		*out = p;
	return ok;
}

/* ---- what is decoded ---- */

/* Under the lock. */
static void decoded_unref(struct decoded *d)
{
	if (d && --d->refs == 0) {
		profiles_free(d->profiles);
		free(d);
	}
}

struct lent {
	struct uploads *u;
	struct decoded *d;
};

static void give_back(void *ctx)
{
	struct lent *l = ctx;

	pthread_mutex_lock(&l->u->lock);
	decoded_unref(l->d);
	pthread_mutex_unlock(&l->u->lock);
	free(l);
}

/* Under the lock: those that nobody asked of for a while cost memory for nothing. */
static void drop_idle(struct uploads *u, uint64_t now)
{
	for (uint32_t i = 0; i < DECODED_MOST; i++)
		if (u->cache[i] && now - u->cache[i]->used_ns > DECODED_IDLE_NS) {
			decoded_unref(u->cache[i]);
			u->cache[i] = NULL;
		}
}

/* Under the lock; takes the profiles over. In the place of the one that was used longest ago. */
static struct decoded *cache_add(struct uploads *u, const char *id, struct profiles *p)
{
	struct decoded *d = calloc(1, sizeof(*d)), **place = &u->cache[0];

	assert(d);
	*d = (struct decoded){ .profiles = p, .used_ns = clock_monotonic_ns(), .refs = 1 };
	memcpy(d->id, id, sizeof(d->id));
	for (uint32_t i = 0; i < DECODED_MOST; i++) {
		struct decoded *one = u->cache[i];

		if (!one || (*place && one->used_ns < (*place)->used_ns))
			place = &u->cache[i];
		if (!one)
			break;
	}
	decoded_unref(*place);
	*place = d;
	return d;
}

/* Under the lock. */
static struct decoded *cache_find(struct uploads *u, const char *id)
{
	for (uint32_t i = 0; i < DECODED_MOST; i++)
		if (u->cache[i] && strcmp(u->cache[i]->id, id) == 0)
			return u->cache[i];
	return NULL;
}

/* Under the lock. */
static struct source *lend(struct uploads *u, struct decoded *d)
{
	struct profiles_source_options options = { .key = STR("upload.id"),
						   .value = str_cstr(d->id),
						   .freed = give_back };
	struct lent *l = calloc(1, sizeof(*l));

	assert(l);
	*l = (struct lent){ u, d };
	options.ctx = l;
	d->refs++;
	d->used_ns = clock_monotonic_ns();
	return profiles_source_new_with(d->profiles, &options);
}

/* ---- the list ---- */

static void path_of(const struct uploads *u, const struct upload *one, struct buf *out)
{
	buf_str(out, str_cstr(u->folder));
	buf_char(out, '/');
	buf_str(out, str_cstr(one->id));
	buf_char(out, '_');
	buf_str(out, str_cstr(one->name));
	buf_char(out, '\0');
}

/* Under the lock. */
static void forget(struct uploads *u, uint32_t at)
{
	AUTO(buf_release) struct buf path = { 0 };

	if (u->folder) {
		path_of(u, &u->list[at], &path);
		unlink(path.ptr);
	}
	blob_unref(u->kept[at]);
	u->count--;
	memmove(&u->list[at], &u->list[at + 1], (u->count - at) * sizeof(u->list[0]));
	memmove(&u->kept[at], &u->kept[at + 1], (u->count - at) * sizeof(u->kept[0]));
	u->kept[u->count] = NULL;
}

/* Under the lock: what is too old, and the oldest while there is not room for one of `bytes`. */
static void keep_to_limits(struct uploads *u, uint64_t bytes, uint64_t now_ns)
{
	uint64_t sum = bytes;

	while (u->count && now_ns > u->list[0].time_ns &&
	       now_ns - u->list[0].time_ns > u->options.retention_ns)
		forget(u, 0);
	for (uint32_t i = 0; i < u->count; i++)
		sum += u->list[i].bytes;
	while (u->count && (sum > u->options.most_bytes || (bytes && u->count == UPLOADS_MOST))) {
		if (!bytes && u->count == 1)
			return;
		sum -= u->list[0].bytes;
		forget(u, 0);
	}
}

static bool is_id(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!strchr("0123456789abcdef", text.ptr[i]) || !text.ptr[i])
			return false;
	return text.len == UPLOAD_ID_LEN || text.len == UPLOAD_ID_LEN_OLD;
}

/* What a file's name may hold here, of the last part of what the person's machine said. */
static void set_name(struct upload *one, struct str name)
{
	size_t n = 0;

	for (size_t i = name.len; i > 0; i--)
		if (name.ptr[i - 1] == '/' || name.ptr[i - 1] == '\\') {
			name = str_skip(name, i);
			break;
		}
	for (size_t i = 0; i < name.len && n < UPLOAD_NAME_MOST; i++) {
		char c = name.ptr[i];
		bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c >= '0' && c <= '9') || c == '-' || c == '_' || (c == '.' && n);

		one->name[n++] = fine ? c : '_';
	}
	one->name[n] = 0;
	if (!n)
		snprintf(one->name, sizeof(one->name), "profile");
}

static void take_file(struct uploads *u, const char *file)
{
	struct upload *one = &u->list[u->count];
	struct str name = str_cstr(file);
	ptrdiff_t end = str_find(name, '_');
	struct str id = str_head(name, end < 0 ? 0 : (size_t)end);
	AUTO(buf_release) struct buf path = { 0 };
	struct stat st;

	if (u->count == UPLOADS_MOST || !is_id(id) || name.len == id.len + 1 ||
	    name.len > id.len + 1 + UPLOAD_NAME_MOST)
		return;
	memcpy(one->id, id.ptr, id.len);
	one->id[id.len] = 0;
	snprintf(one->name, sizeof(one->name), "%s", file + id.len + 1);
	path_of(u, one, &path);
	if (lstat(path.ptr, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	one->bytes = (uint64_t)st.st_size;
	one->time_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000ull + (uint64_t)st.st_mtim.tv_nsec;
	u->count++;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = ((const struct upload *)a)->time_ns, y = ((const struct upload *)b)->time_ns;

	return x < y ? -1 : x > y;
}

static void take_folder(struct uploads *u)
{
	DIR *d = opendir(u->folder);
	struct dirent *e;

	while (d && (e = readdir(d)))
		take_file(u, e->d_name);
	if (d)
		closedir(d);
	if (u->count)
		qsort(u->list, u->count, sizeof(u->list[0]), by_time);
}

struct uploads *uploads_new(const struct uploads_options *options)
{
	struct uploads *u = calloc(1, sizeof(*u));

	assert(u);
	u->options = *options;
	if (!u->options.retention_ns)
		u->options.retention_ns = 30ull * 24 * 3600 * 1000000000;
	if (!u->options.most_bytes)
		u->options.most_bytes = 256ull << 20;
	if (!u->options.decoded_most)
		u->options.decoded_most = (size_t)256 << 20;
	pthread_mutex_init(&u->lock, NULL);
	if (options->folder) {
		u->folder = strdup(options->folder);
		assert(u->folder);
		take_folder(u);
	}
	return u;
}

void uploads_free(struct uploads *u)
{
	if (!u)
		return;
	for (uint32_t i = 0; i < DECODED_MOST; i++)
		decoded_unref(u->cache[i]);
	for (uint32_t i = 0; i < u->count; i++)
		blob_unref(u->kept[i]);
	pthread_mutex_destroy(&u->lock);
	free(u->folder);
	free(u);
}

/* ---- keeping one ---- */

static bool write_all(int fd, struct str bytes)
{
	while (bytes.len) {
		ssize_t n = write(fd, bytes.ptr, bytes.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		bytes = str_skip(bytes, (size_t)n);
	}
	return true;
}

/* Whole or not at all: under another name first. */
static bool write_file(const struct uploads *u, const struct upload *one, struct str bytes,
		       struct err *err)
{
	AUTO(buf_release) struct buf path = { 0 }, draft = { 0 };
	AUTO(fd_close) int fd = -1;

	if (mkdir(u->folder, 0700) != 0 && errno != EEXIST)
		return err_set_errno(err, "the folder of uploads, %s", u->folder);
	path_of(u, one, &path);
	buf_printf(&draft, "%s/%s.new", u->folder, one->id);
	buf_char(&draft, '\0');
	unlink(draft.ptr);
	fd = open(draft.ptr, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || !write_all(fd, bytes) || rename(draft.ptr, path.ptr) != 0) {
		err_set_errno(err, "can't keep the upload in %s", u->folder);
		unlink(draft.ptr);
		return false;
	}
	return true;
}

static void name_it(struct upload *one, struct blob *bytes, struct str name, uint64_t now_ns)
{
	struct hash128 hash = hash128(blob_view(bytes));

	*one = (struct upload){ .bytes = blob_view(bytes).len, .time_ns = now_ns };
	snprintf(one->id, sizeof(one->id), "%016llx%016llx", (unsigned long long)hash.hi,
		 (unsigned long long)hash.lo);
	set_name(one, name);
}

/* Under the lock. */
static uint32_t place_of(const struct uploads *u, const char *id)
{
	uint32_t at = 0;

	while (at < u->count && strcmp(u->list[at].id, id) != 0)
		at++;
	return at;
}

/* Under the lock: the one that is there already comes anew. */
static bool enter(struct uploads *u, const struct upload *one, struct blob *bytes, struct err *err)
{
	uint32_t at = place_of(u, one->id);

	if (at < u->count)
		forget(u, at);
	keep_to_limits(u, one->bytes, one->time_ns);
	if (u->folder && !write_file(u, one, blob_view(bytes), err))
		return false;
	u->kept[u->count] = u->folder ? NULL : blob_ref(bytes);
	u->list[u->count++] = *one;
	return true;
}

bool uploads_add(struct uploads *u, struct blob *bytes, struct str name, uint64_t now_ns,
		 struct upload *out, struct err *err)
{
	struct profiles *p;
	struct upload one;
	bool ok;

	if (blob_view(bytes).len > u->options.most_bytes)
		return err_set(err, ERR_LIMIT, "the file has %zu bytes, kept are at most %llu",
			       blob_view(bytes).len, (unsigned long long)u->options.most_bytes);
	if (!read_file(u, bytes, &p, err))
		return false;
	name_it(&one, bytes, name, now_ns);
	pthread_mutex_lock(&u->lock);
	drop_idle(u, clock_monotonic_ns());
	ok = enter(u, &one, bytes, err);
	if (ok && !cache_find(u, one.id))
		cache_add(u, one.id, p);
	else
		profiles_free(p);
	pthread_mutex_unlock(&u->lock);
	if (ok)
		*out = one;
	return ok;
}

/* ---- asking of one ---- */

static struct blob *load(const struct uploads *u, const struct upload *one, struct err *err)
{
	AUTO(buf_release) struct buf path = { 0 };
	AUTO(fd_close) int fd = -1;
	struct blob *b = NULL;
	struct stat st;
	ssize_t n = 0;

	path_of(u, one, &path);
	fd = open(path.ptr, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MOST) {
		err_set(err, ERR_NOT_FOUND, "the upload %s is gone", one->id);
		return NULL;
	}
	b = blob_new((size_t)st.st_size + 1);
	while (b->len < b->cap && (n = read(fd, b->ptr + b->len, b->cap - b->len)) > 0)
		b->len += (size_t)n;
	return b;
}

/* Reads it anew, without the lock: others go on. */
static bool decode_again(struct uploads *u, const struct upload *one, struct blob *kept,
			 struct profiles **out, struct err *err)
{
	struct blob *bytes = kept ? kept : load(u, one, err);
	bool ok = bytes && read_file(u, bytes, out, err);

	blob_unref(bytes);
	return ok;
}

bool uploads_open(struct uploads *u, struct str id, struct source **out, struct err *err)
{
	char name[UPLOAD_ID_LEN + 1] = "";
	struct blob *kept = NULL;
	struct profiles *p;
	struct decoded *d;
	struct upload one;
	uint32_t at;

	if (is_id(id))
		memcpy(name, id.ptr, id.len);
	pthread_mutex_lock(&u->lock);
	drop_idle(u, clock_monotonic_ns());
	keep_to_limits(u, 0, clock_realtime_ns());
	at = place_of(u, name);
	if (at == u->count) {
		pthread_mutex_unlock(&u->lock);
		return err_set(
			err, ERR_NOT_FOUND,
			"there is no upload %.*s (any more): drop the file onto the page again",
			STR_ARG(str_head(id, 40)));
	}
	d = cache_find(u, name);
	if (d) {
		*out = lend(u, d);
		pthread_mutex_unlock(&u->lock);
		return true;
	}
	one = u->list[at];
	if (u->kept[at])
		kept = blob_ref(u->kept[at]);
	pthread_mutex_unlock(&u->lock);
	if (!decode_again(u, &one, kept, &p, err))
		return false;
	pthread_mutex_lock(&u->lock);
	d = cache_find(u, name);
	if (d)
		profiles_free(p); /* another question was faster */
	else
		d = cache_add(u, name, p);
	*out = lend(u, d);
	pthread_mutex_unlock(&u->lock);
	return true;
}

uint32_t uploads_list(struct uploads *u, uint64_t now_ns, struct upload out[UPLOADS_MOST])
{
	uint32_t count;

	pthread_mutex_lock(&u->lock);
	keep_to_limits(u, 0, now_ns);
	count = u->count;
	for (uint32_t i = 0; i < count; i++)
		out[i] = u->list[count - 1 - i];
	pthread_mutex_unlock(&u->lock);
	return count;
}
