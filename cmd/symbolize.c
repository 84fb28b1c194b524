/*
 * symbolize.c - flametap symbolize: names for native code that came without, from the files that it
 * was in, their debug files and debuginfod servers, kept beside what was sent (store/symbols.h).
 *
 * A file counts by its build id, wherever it lies: as the mapping's path says, in the folders of
 * programs and libraries, in those of -files, among the debug files of /usr/lib/debug and
 * -debug-dir, at a server.
 */
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/elf/elf_file.h"
#include "agent/process/executable.h"
#include "agent/symbolize/debuginfod.h"
#include "agent/symbolize/symbolizer.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"
#include "command.h"
#include "flags.h"
#include "store/symbols.h"

enum {
	FILES_MOST = 100000, /* looked at in the folders of -files */
	FOLDER_DEPTH_MOST = 16,
	BATCH = 512, /* names of one transaction */
	LINES_MOST = 64,
	MEMORY_BYTES = 256 << 20,
};
#define WAIT_NS (120 * SECOND_NS) /* for one file of a server */

static const char *db = "flametap.db", *urls, *cache_dir;
static struct flag_list files, debug_dirs;
static bool again, no_lines;

static const struct flag flags[] = {
	FLAG("Store", "db", FLAG_STRING, &db, "STORE", "flametap.db",
	     "an SQLite file, or http://user@host:8123/db"),
	FLAG("Store", "again", FLAG_BOOL, &again, NULL, NULL,
	     "also what was named by this command before"),
	FLAG("Where the files are", "files", FLAG_LIST, &files, "PATH", NULL,
	     "a file, or a folder and all below it; may be repeated"),
	FLAG("Where the files are", "debug-dir", FLAG_LIST, &debug_dirs, "DIR", NULL,
	     "as /usr/lib/debug, which is looked at too; may be repeated"),
	FLAG("Where the files are", "debuginfod-urls", FLAG_STRING, &urls, "URLS",
	     "$DEBUGINFOD_URLS", "servers of debug files"),
	FLAG("Where the files are", "cache-dir", FLAG_STRING, &cache_dir, "DIR", "none",
	     "keeps what servers gave"),
	FLAG("Names", "no-lines", FLAG_BOOL, &no_lines, NULL, NULL,
	     "functions only: no lines, no inlined functions"),
	{ 0 },
};

static const char *const examples[] = {
	"flametap symbolize --db flametap.db",
	"flametap symbolize --db flametap.db --files ./build --debug-dir ./debug",
	"flametap symbolize --db http://user@host:8123/profiles",
	NULL,
};

static const struct command command = {
	.name = "symbolize",
	.words = "",
	.summary = "Names for native code that came without, found in its files and debug files.",
	.examples = examples,
	.flags = flags,
};

/* ---- files and their build ids ---- */

struct known_file {
	struct str build_id, path;
};

struct finder {
	struct arena arena;
	struct known_file *known; /* of -files */
	size_t known_count, known_cap, looked_at;
	struct debuginfod *servers; /* NULL: none */
	int cache_folder;           /* -1: none */
};

static int open_regular(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static struct str hex_of(struct arena *arena, struct bytes b)
{
	struct buf text;
	struct str s;

	buf_init(&text, 0);
	buf_hex(&text, b.ptr, b.len);
	s = str_dup(arena, buf_view(&text));
	buf_release(&text);
	return s;
}

/* The ids that a mapping of this file may have been sent with. */
static void ids_of(struct arena *arena, const struct elf_file *f, struct str out[3])
{
	uint8_t hash[ELF_HTLHASH_BYTES];

	elf_file_htlhash(f, hash);
	out[0] = hex_of(arena, elf_file_build_id(f));
	out[1] = str_dup(arena, elf_file_go_build_id(f));
	out[2] = hex_of(arena, (struct bytes){ hash, sizeof(hash) });
}

static bool has_id(int fd, struct str build_id)
{
	struct err err;
	struct elf_file *f = elf_file_open(fd, &err);
	struct arena arena;
	struct str ids[3];
	bool is = false;

	if (!f)
		return false;
	arena_init(&arena, 256, 0);
	ids_of(&arena, f, ids);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		is |= ids[i].len && str_equal(ids[i], build_id);
	arena_release(&arena);
	elf_file_free(f);
	return is;
}

static int open_if(const char *path, struct str build_id)
{
	int fd = open_regular(path);

	if (fd >= 0 && !has_id(fd, build_id)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void know(struct finder *f, const char *path)
{
	AUTO(fd_close) int fd = open_regular(path);
	struct err err;
	struct elf_file *elf = fd < 0 ? NULL : elf_file_open(fd, &err);
	struct str ids[3];

	if (!elf)
		return;
	ids_of(&f->arena, elf, ids);
	elf_file_free(elf);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		if (!ids[i].len)
			continue;
		VEC_ROOM(f->known, f->known_count, f->known_cap);
		f->known[f->known_count++] =
			(struct known_file){ .build_id = ids[i],
					     .path = str_dup(&f->arena, str_cstr(path)) };
	}
}

static bool know_all(struct finder *f, const char *path, struct err *err)
{
	char *roots[] = { (char *)(uintptr_t)path, NULL };
	FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	FTSENT *e;

	if (!walk || access(path, R_OK) < 0) {
		if (walk)
			fts_close(walk);
		return err_set_errno(err, "-files %s", path);
	}
	while ((e = fts_read(walk))) {
		if (e->fts_info == FTS_D && e->fts_level > FOLDER_DEPTH_MOST)
			fts_set(walk, e, FTS_SKIP);
		if (e->fts_info != FTS_F && !(e->fts_info == FTS_SL && e->fts_level == 0))
			continue;
		if (++f->looked_at > FILES_MOST) {
			fts_close(walk);
			return err_set(err, ERR_LIMIT, "-files: more than %d files", FILES_MOST);
		}
		know(f, e->fts_path);
	}
	fts_close(walk);
	return true;
}

static int find_known(const struct finder *f, struct str build_id)
{
	for (size_t i = 0; i < f->known_count; i++)
		if (str_equal(f->known[i].build_id, build_id)) {
			int fd = open_if(f->known[i].path.ptr, build_id);

			if (fd >= 0)
				return fd;
		}
	return -1;
}

static int find_in_system(struct str file, struct str build_id)
{
	static const char *const folders[] = {
		"/usr/bin",       "/usr/sbin",      "/usr/lib",
		"/usr/lib64",     "/usr/local/bin", "/usr/local/sbin",
		"/usr/local/lib", "/usr/libexec",   "/usr/lib/x86_64-linux-gnu",
		"/lib64",         "/lib",           "/usr/lib/aarch64-linux-gnu",
	};
	char path[4096];

	if (!file.len || memchr(file.ptr, 0, file.len))
		return -1;
	if (file.ptr[0] == '/') {
		snprintf(path, sizeof(path), "%.*s", STR_ARG(file));
		return open_if(path, build_id);
	}
	if (memchr(file.ptr, '/', file.len))
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%.*s", folders[i], STR_ARG(file));
		fd = open_if(path, build_id);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

/* DIR/.build-id/ab/cdef.debug */
static int find_debug(struct str build_id)
{
	char path[4096];
	int fd = -1;

	if (build_id.len < 8)
		return -1;
	for (size_t i = 0; i < build_id.len; i++)
		if (!strchr("0123456789abcdef", build_id.ptr[i]))
			return -1;
	for (unsigned i = 0; i <= debug_dirs.count && fd < 0; i++) {
		const char *dir = i < debug_dirs.count ? debug_dirs.items[i] : "/usr/lib/debug";

		snprintf(path, sizeof(path), "%s/.build-id/%.2s/%.*s.debug", dir, build_id.ptr,
			 (int)build_id.len - 2, build_id.ptr + 2);
		fd = open_if(path, build_id);
	}
	return fd;
}

static int find_at_servers(struct finder *f, struct str build_id)
{
	int fd = -1;

	if (!f->servers || debuginfod_get(f->servers, build_id, WAIT_NS, &fd) != DEBUGINFOD_HERE)
		return -1;
	if (!has_id(fd, build_id)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int find_file(struct finder *f, const struct store_nameless *n)
{
	int fd = find_known(f, n->build_id);

	if (fd < 0)
		fd = find_in_system(n->file, n->build_id);
	if (fd < 0)
		fd = find_debug(n->build_id);
	return fd >= 0 ? fd : find_at_servers(f, n->build_id);
}

static bool finder_init(struct finder *f, struct err *err)
{
	struct debuginfod_options o = debuginfod_environment();

	*f = (struct finder){ .cache_folder = -1 };
	arena_init(&f->arena, 4096, 0);
	if (urls)
		o.urls = urls;
	if (cache_dir) {
		f->cache_folder = open(cache_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (f->cache_folder < 0)
			return err_set_errno(err, "-cache-dir %s", cache_dir);
	}
	o.cache_folder = f->cache_folder;
	f->servers = debuginfod_new(&o);
	for (unsigned i = 0; i < files.count; i++)
		if (!know_all(f, files.items[i], err))
			return false;
	return true;
}

static void finder_release(struct finder *f)
{
	debuginfod_free(f->servers);
	if (f->cache_folder >= 0)
		close(f->cache_folder);
	free(f->known);
	arena_release(&f->arena);
}

/* ---- names ---- */

struct naming {
	struct store_symbols *store;
	struct finder finder;
	struct symbolizer *symbolizer;
	int fd;             /* of the file at hand */
	struct arena arena; /* of the batch */
	struct store_symbol batch[BATCH];
	size_t batch_count;
	uint64_t next_id, addresses, named, found, missing;
};

static bool open_executable(void *ctx, const struct executable *e, int *fd, struct err *err)
{
	const struct naming *n = ctx;

	(void)e;
	*fd = fcntl(n->fd, F_DUPFD_CLOEXEC, 0);
	return *fd >= 0 || err_set_errno(err, "dup");
}

/* Debug files are asked for below /usr/lib/debug: -debug-dir stands for it as well. */
static bool open_path(void *ctx, uint32_t pid, const char *path, int *fd, struct err *err)
{
	static const char place[] = "/usr/lib/debug/";
	char other[4096];

	(void)ctx;
	(void)pid;
	*fd = open_regular(path);
	for (unsigned i = 0; *fd < 0 && i < debug_dirs.count; i++)
		if (strncmp(path, place, sizeof(place) - 1) == 0) {
			snprintf(other, sizeof(other), "%s/%s", debug_dirs.items[i],
				 path + sizeof(place) - 1);
			*fd = open_regular(other);
		}
	return *fd >= 0 || err_set_errno(err, "%s", path);
}

static bool flush(struct naming *n, struct err *err)
{
	bool ok = store_symbols_put(n->store, n->batch, n->batch_count, err);

	n->batch_count = 0;
	arena_reset(&n->arena);
	return ok;
}

static bool keep(struct naming *n, const struct store_nameless *at, const struct frame_name *name,
		 struct err *err)
{
	struct source_line *lines = arena_alloc_array(&n->arena, name->line_count, sizeof(*lines));

	for (uint32_t i = 0; i < name->line_count; i++)
		lines[i] = (struct source_line){
			.function = str_dup(&n->arena, name->lines[i].function),
			.system_name = str_dup(&n->arena, name->lines[i].system_name),
			.file = str_dup(&n->arena, name->lines[i].file),
			.line = name->lines[i].line,
			.column = name->lines[i].column,
			.start_line = name->lines[i].start_line,
		};
	n->batch[n->batch_count++] = (struct store_symbol){
		.build_id = at->build_id,
		.address = at->address,
		.lines = lines,
		.line_count = name->line_count,
	};
	n->named++;
	return n->batch_count < BATCH || flush(n, err);
}

/* The file's own address: as eBPF profilers send it, or, within a mapping that says where it lay in
 * the process, as pprof has it. */
static uint64_t elf_address(const struct elf_file *f, const struct store_nameless *at)
{
	uint64_t vaddr;

	if (at->memory_start && at->address >= at->memory_start && at->address < at->memory_limit &&
	    elf_file_offset_to_vaddr(f, at->address - at->memory_start + at->file_offset, &vaddr))
		return vaddr;
	return at->address;
}

static bool name_address(struct naming *n, const struct elf_file *f, struct executable *e,
			 const struct store_nameless *at, struct err *err)
{
	struct namer namer = symbolizer_namer(n->symbolizer);
	struct trace_frame frame = { .kind = e->go ? FRAME_GO : FRAME_NATIVE,
				     .executable = e,
				     .address = elf_address(f, at) };
	struct frame_name name;

	n->addresses++;
	if (!namer.name(namer.ctx, &frame, NULL, &name) || name.fallback || !name.line_count)
		return true;
	return keep(n, at, &name, err);
}

/* All addresses of one build id. */
static bool name_file(struct naming *n, const struct store_nameless *list, size_t count,
		      struct err *err)
{
	struct executable facts = { .id = ++n->next_id,
				    .filename = list->file,
				    .build_id_gnu = list->build_id };
	struct executable *e;
	struct elf_file *f;
	bool ok = true;

	n->fd = find_file(&n->finder, list);
	f = n->fd < 0 ? NULL : elf_file_open(n->fd, err);
	if (!f) {
		printf("%.*s (build id %.*s): no file found, %zu addresses stay without a name\n",
		       STR_ARG(list->file), STR_ARG(list->build_id), count);
		n->missing++;
		n->addresses += count;
	} else {
		n->found++;
		facts.go = elf_file_is_go(f);
		e = executable_new(&facts);
		for (size_t i = 0; i < count && ok; i++)
			ok = name_address(n, f, e, &list[i], err);
		executable_unref(e);
		elf_file_free(f);
	}
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
	return ok;
}

static bool name_all(struct naming *n, struct err *err)
{
	const struct store_nameless *list;
	size_t count, end;
	bool ok = store_symbols_list(n->store, again, &list, &count, err);

	for (size_t i = 0; ok && i < count; i = end) {
		for (end = i + 1; end < count && str_equal(list[end].build_id, list[i].build_id);)
			end++;
		ok = name_file(n, list + i, end - i, err);
	}
	return ok && flush(n, err);
}

static bool symbolize(struct err *err)
{
	struct symbol_access access = { .open_executable = open_executable,
					.open_path = open_path };
	struct symbolizer_options options = { .memory_bytes = MEMORY_BYTES,
					      .lines = !no_lines,
					      .cache_dir = cache_dir,
					      .debuginfod_wait_ns = WAIT_NS };
	struct naming *n = calloc(1, sizeof(*n));
	struct namer namer;
	bool ok;

	if (!n)
		abort();
	n->fd = -1;
	access.ctx = n;
	arena_init(&n->arena, 64 << 10, 0);
	options.debuginfod_urls = urls ? urls : debuginfod_environment().urls;
	ok = finder_init(&n->finder, err) && store_symbols_open(db, &n->store, err);
	if (ok) {
		n->symbolizer = symbolizer_new(&options, &access);
		namer = symbolizer_namer(n->symbolizer);
		namer.begin(namer.ctx, 0);
		ok = name_all(n, err);
	}
	if (ok)
		printf("%llu of %llu addresses named, in %llu of %llu files\n",
		       (unsigned long long)n->named, (unsigned long long)n->addresses,
		       (unsigned long long)n->found, (unsigned long long)n->found + n->missing);
	symbolizer_free(n->symbolizer);
	store_symbols_close(n->store);
	finder_release(&n->finder);
	arena_release(&n->arena);
	free(n);
	return ok;
}

int symbolize_run(int argc, char **argv)
{
	struct words words;
	struct err err;
	int status;
	bool ok;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	free(words.items);
	ok = symbolize(&err);
	if (!ok)
		fprintf(stderr, "flametap symbolize: %s\n", err.msg);
	return ok ? EXIT_OK : EXIT_FAILED;
}
