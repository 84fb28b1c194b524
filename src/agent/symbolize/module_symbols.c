#include "agent/symbolize/module_symbols.h"
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>
#include "agent/process/executable.h"
#include "agent/symbolize/debug_files.h"
#include "agent/symbolize/debuginfod.h"
#include "agent/symbolize/demangle.h"
#include "agent/symbolize/dwarf.h"
#include "agent/symbolize/go_pclntab.h"
#include "agent/symbolize/name_cache.h"
#include "agent/symbolize/symbol_table.h"
#include "agent/unwind/patterns.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"

struct module_symbols {
	struct executable *executable; /* a reference */
	struct elf_file *file, *debug, *mini, *alt;
	struct symbol_table *symbols;
	struct dwarf *dwarf, *alt_dwarf;
	struct go_pclntab go;
	struct name_cache *cache; /* of this build, on disk */
	bool cache_tried, opened, refused, has_go, symbols_tried, lines_tried;
	bool debug_wanted; /* nowhere here, but a server may have it */
	size_t mini_bytes;
	char directory[256]; /* of the file, as far as it can be seen; "" */
};

struct module_symbols *module_symbols_new(const struct executable *e)
{
	struct module_symbols *m = calloc(1, sizeof(*m));

	if (!m)
		abort();
	m->executable = executable_ref((struct executable *)(uintptr_t)e);
	return m;
}

static void close_files(struct module_symbols *m)
{
	module_symbols_trim(m);
	elf_file_free(m->debug);
	elf_file_free(m->alt);
	elf_file_free(m->file);
	m->debug = m->alt = m->file = NULL;
	m->has_go = false;
}

void module_symbols_free(struct module_symbols *m)
{
	if (!m)
		return;
	close_files(m);
	executable_unref(m->executable);
	free(m);
}

void module_symbols_trim(struct module_symbols *m)
{
	name_cache_free(m->cache);
	m->cache = NULL;
	m->cache_tried = false;
	dwarf_free(m->dwarf);
	dwarf_free(m->alt_dwarf);
	symbol_table_free(m->symbols);
	elf_file_free(m->mini);
	m->dwarf = m->alt_dwarf = NULL;
	m->symbols = NULL;
	m->mini = NULL;
	m->mini_bytes = 0;
	m->symbols_tried = m->lines_tried = false;
}

void module_symbols_let_go(const struct module_symbols *m)
{
	elf_file_let_go(m->file);
	elf_file_let_go(m->debug);
	elf_file_let_go(m->alt);
	dwarf_let_go(m->dwarf);
	dwarf_let_go(m->alt_dwarf);
}

size_t module_symbols_bytes(const struct module_symbols *m)
{
	return (m->symbols ? symbol_table_bytes(m->symbols) : 0) +
	       (m->dwarf ? dwarf_bytes(m->dwarf) : 0) +
	       (m->alt_dwarf ? dwarf_bytes(m->alt_dwarf) : 0) +
	       (m->cache ? name_cache_bytes(m->cache) : 0) + m->mini_bytes;
}

uint64_t module_symbols_id(const struct module_symbols *m)
{
	return m->executable->id;
}

/* ---- opening ---- */

/* Where the file lies, as the kernel says of the descriptor: for .gnu_debuglink. */
static void note_directory(struct module_symbols *m, int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t n;
	char *slash;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return;
	path[n] = 0;
	slash = strrchr(path, '/');
	if (path[0] != '/' || !slash || (size_t)(slash - path) >= sizeof(m->directory))
		return;
	*slash = 0;
	memcpy(m->directory, path, (size_t)(slash - path) + 1);
}

/* Has neither lines nor a table of all its functions. */
static bool is_bare(const struct elf_file *f)
{
	struct elf_section s;

	return !elf_file_section_named(f, ".debug_info", &s) &&
	       !elf_file_section_typed(f, SHT_SYMTAB, &s);
}

static void open_debug_files(struct module_symbols *m, const struct module_context *c)
{
	struct elf_section s;
	struct str directory = str_cstr(m->directory);

	/* A file with its own .debug_info has its own .symtab, too. */
	if (!elf_file_section_named(m->file, ".debug_info", &s) ||
	    !elf_file_section_typed(m->file, SHT_SYMTAB, &s))
		m->debug = debug_file_find(c->access, c->pid, m->file, directory);
	m->debug_wanted = c->debuginfod && !m->debug && !m->has_go && is_bare(m->file);
	c->stats->debug_files += m->debug != NULL;
	m->alt = debug_file_find_alt(c->access, c->pid, m->debug ? m->debug : m->file, directory);
}

static void open_files(struct module_symbols *m, const struct module_context *c)
{
	AUTO(fd_close) int fd = -1;
	struct err err;

	m->opened = true;
	m->refused = true;
	if (!c->access->open_executable ||
	    !c->access->open_executable(c->access->ctx, m->executable, &fd, &err)) {
		c->stats->files_refused++;
		return;
	}
	m->file = elf_file_open(fd, &err);
	if (!m->file) {
		c->stats->files_refused++;
		return;
	}
	m->refused = false;
	c->stats->files_opened++;
	note_directory(m, fd);
	m->has_go = m->executable->go && go_pclntab_open(m->file, &m->go, &err);
	open_debug_files(m, c);
}

static size_t part_of_memory(const struct module_context *c)
{
	return c->options->memory_bytes / 2;
}

static void add_source(const struct elf_file *f,
		       bool (*get)(const struct elf_file *, struct elf_symtab *),
		       struct elf_symtab *tables, const struct elf_file **files, uint32_t *n)
{
	if (f && *n < SYMBOL_SOURCES_MOST && get(f, &tables[*n])) {
		files[*n] = f;
		(*n)++;
	}
}

static void make_symbols(struct module_symbols *m, const struct module_context *c)
{
	struct elf_symtab tables[SYMBOL_SOURCES_MOST];
	const struct elf_file *files[SYMBOL_SOURCES_MOST];
	uint32_t n = 0;
	struct err err = { 0 };

	m->symbols_tried = true;
	add_source(m->debug, elf_file_symtab, tables, files, &n);
	add_source(m->file, elf_file_symtab, tables, files, &n);
	if (!n) {
		m->mini = elf_file_open_debugdata(m->file, part_of_memory(c), &err);
		m->mini_bytes = m->mini ? elf_file_bytes(m->mini).len : 0;
		c->stats->tables_refused += err.kind == ERR_LIMIT;
		add_source(m->mini, elf_file_symtab, tables, files, &n);
		add_source(m->file, elf_file_dynsym, tables, files, &n);
	}
	m->symbols = symbol_table_new(tables, files, n, part_of_memory(c), &err);
	c->stats->tables_refused += !m->symbols && err.kind == ERR_LIMIT;
	module_symbols_let_go(m); /* a table is read whole, its names one by one */
}

static void open_lines(struct module_symbols *m, const struct module_context *c)
{
	const struct elf_file *with[] = { m->debug, m->file };
	struct err err = { 0 };

	m->lines_tried = true;
	if (!c->options->lines)
		return;
	if (m->alt)
		m->alt_dwarf =
			dwarf_open(m->alt, NULL, c->cache_folder, part_of_memory(c) / 2, &err);
	for (int i = 0; i < 2 && !m->dwarf; i++) {
		if (!with[i])
			continue;
		m->dwarf =
			dwarf_open(with[i], m->alt_dwarf, c->cache_folder, part_of_memory(c), &err);
		c->stats->tables_refused += !m->dwarf && err.kind == ERR_LIMIT;
	}
}

/* ---- names ---- */

/* The readable name, and the linked one where it differs. */
static void put_name(const struct module_context *c, struct str linked, struct name_line *line)
{
	buf_reset(c->scratch);
	if (demangle(linked, c->scratch)) {
		line->function = str_dup(c->arena, buf_view(c->scratch));
		line->system_name = linked;
	} else {
		line->function = linked;
	}
}

static struct str put_path(const struct module_context *c, const struct dwarf_path *path)
{
	buf_reset(c->scratch);
	dwarf_path_append(c->scratch, path);
	return str_dup(c->arena, buf_view(c->scratch));
}

static uint32_t name_by_go(const struct module_symbols *m, uint64_t elf_vaddr,
			   struct name_line *lines, uint32_t cap)
{
	struct go_frame frames[GO_FRAMES_MOST];
	uint32_t n = go_pclntab_frames(&m->go, elf_vaddr, frames,
				       cap < GO_FRAMES_MOST ? cap : GO_FRAMES_MOST);

	for (uint32_t i = 0; i < n; i++)
		lines[i] = (struct name_line){ .function = frames[i].function,
					       .file = frames[i].file,
					       .line = frames[i].line,
					       .start_line = frames[i].start_line };
	return n;
}

static bool symbol_of(struct module_symbols *m, const struct module_context *c, uint64_t elf_vaddr,
		      struct symbol_hit *hit)
{
	if (!m->symbols_tried)
		make_symbols(m, c);
	return m->symbols && symbol_table_find(m->symbols, elf_vaddr, hit);
}

static bool name_by_symbol(struct module_symbols *m, const struct module_context *c,
			   uint64_t elf_vaddr, struct name_line *line)
{
	struct symbol_hit hit;
	struct str import;

	if (symbol_of(m, c, elf_vaddr, &hit)) {
		put_name(c, hit.name, line);
		return true;
	}
	if (!elf_file_plt_target(m->file, elf_vaddr, &import))
		return false;
	put_name(c, import, line);
	line->system_name = line->system_name.len ? line->system_name : import;
	line->function = str_printf(c->arena, "%.*s@plt", STR_ARG(line->function));
	return true;
}

/* The function itself: DWARF may know no linkage name, or no name at all, where the symbol table
 * does; and the symbol table knows the clones (.cold, .isra.0). */
static void complete_function(struct module_symbols *m, const struct module_context *c,
			      uint64_t elf_vaddr, struct name_line *line)
{
	struct symbol_hit hit;

	if (line->system_name.len || !symbol_of(m, c, elf_vaddr, &hit))
		return;
	buf_reset(c->scratch);
	if (!line->function.len || demangle(hit.name, c->scratch))
		put_name(c, hit.name, line);
	else if (!str_equal(hit.name, line->function))
		line->system_name = hit.name;
}

static uint32_t name_by_lines(struct module_symbols *m, const struct module_context *c,
			      uint64_t elf_vaddr, const struct dwarf_frame *frames, uint32_t count,
			      struct name_line *lines)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct dwarf_frame *f = &frames[i];

		lines[i] = (struct name_line){ .line = f->line,
					       .column = f->column,
					       .start_line = f->start_line };
		lines[i].file = put_path(c, &f->path);
		if (f->linkage_name.len)
			put_name(c, f->linkage_name, &lines[i]);
		else
			lines[i].function = f->name;
	}
	complete_function(m, c, elf_vaddr, &lines[count - 1]);
	for (uint32_t i = 0; i < count; i++) {
		if (!lines[i].function.len)
			lines[i].function = STR("[inlined]");
	}
	return count;
}

static enum module_answer name_native(struct module_symbols *m, const struct module_context *c,
				      uint64_t elf_vaddr, struct name_line *lines, uint32_t cap,
				      uint32_t *count)
{
	struct dwarf_frame frames[DWARF_FRAMES_MOST];
	/* Go's own code has its lines in the table; its DWARF, packed mostly, is for cgo. */
	bool in_go = m->has_go && go_pclntab_covers(&m->go, elf_vaddr);
	enum dwarf_answer answer = DWARF_NONE;
	uint32_t n = 0;

	if (!m->lines_tried && !in_go)
		open_lines(m, c);
	if (m->dwarf && !in_go)
		answer = dwarf_find(m->dwarf, elf_vaddr, c->budget, frames,
				    cap < DWARF_FRAMES_MOST ? cap : DWARF_FRAMES_MOST, &n);
	if (answer == DWARF_FOUND) {
		*count = name_by_lines(m, c, elf_vaddr, frames, n, lines);
		return MODULE_NAMED;
	}
	*lines = (struct name_line){ 0 };
	if (!name_by_symbol(m, c, elf_vaddr, lines))
		return answer == DWARF_LATER ? MODULE_LATER : MODULE_UNNAMED;
	*count = 1;
	return answer == DWARF_LATER ? MODULE_PARTLY : MODULE_NAMED;
}

/* Lines that an earlier run found, without a look at the file. */
static uint32_t name_by_cache(struct module_symbols *m, const struct module_context *c,
			      uint64_t elf_vaddr, struct name_line *lines, uint32_t cap)
{
	bool refused = false;
	uint32_t n;

	if (!m->cache_tried && c->cache_folder >= 0 && c->options->lines)
		m->cache = name_cache_open(c->cache_folder, m->executable->build_id_gnu,
					   c->options->memory_bytes / 8, &refused);
	m->cache_tried = true;
	c->stats->cache_refused += refused;
	n = m->cache ? name_cache_find(m->cache, elf_vaddr, lines, cap) : 0;
	c->stats->cache_hits += n > 0;
	return n;
}

/* Truncated or overwritten while we had it: nothing read from it is to be trusted. */
static bool is_damaged(const struct module_symbols *m)
{
	return elf_file_damaged(m->file) || (m->debug && elf_file_damaged(m->debug)) ||
	       (m->alt && elf_file_damaged(m->alt));
}

/* What was made without the debug file is made again with it. */
static void fetch_debug_file(struct module_symbols *m, const struct module_context *c)
{
	AUTO(fd_close) int fd = -1;
	uint64_t begun = clock_monotonic_ns(), took;
	enum debuginfod_answer answer = debuginfod_get(c->debuginfod, m->executable->build_id_gnu,
						       *c->debuginfod_wait_ns, &fd);

	took = clock_monotonic_ns() - begun;
	*c->debuginfod_wait_ns -= took < *c->debuginfod_wait_ns ? took : *c->debuginfod_wait_ns;
	m->debug_wanted = answer == DEBUGINFOD_LATER;
	if (answer != DEBUGINFOD_HERE)
		return;
	m->debug = debug_file_of(fd, m->file);
	if (!m->debug)
		return;
	c->stats->debug_files++;
	module_symbols_trim(m);
	m->alt = m->alt ? m->alt
			: debug_file_find_alt(c->access, c->pid, m->debug, str_cstr(m->directory));
}

/*
 * Where signal handlers return to: libcs leave its symbol out of .dynsym, and each stack of a
 * handler goes through it. Its frame's pc is the first instruction, less one where it was returned
 * to. Named as glibc, musl (x86-64) and the arm64 vDSO name it.
 */
static bool name_sigreturn(const struct module_symbols *m, uint64_t elf_vaddr,
			   struct name_line *line)
{
	uint16_t machine = elf_file_machine(m->file);

	for (uint64_t at = elf_vaddr; at <= elf_vaddr + 1; at++) {
		if (!patterns_is_sigreturn(machine, elf_file_at_vaddr(m->file, at)))
			continue;
		*line = (struct name_line){ .function = machine == EM_AARCH64
								? STR("__kernel_rt_sigreturn")
								: STR("__restore_rt") };
		return true;
	}
	return false;
}

enum module_answer module_symbols_name(struct module_symbols *m, const struct module_context *c,
				       uint64_t elf_vaddr, struct name_line *lines, uint32_t cap,
				       uint32_t *count)
{
	enum module_answer answer;

	*count = name_by_cache(m, c, elf_vaddr, lines, cap);
	if (*count)
		return MODULE_NAMED;
	if (!m->opened) {
		if (work_budget_spent(c->budget))
			return MODULE_LATER;
		open_files(m, c);
	}
	if (m->refused)
		return MODULE_UNNAMED;
	if (m->has_go)
		*count = name_by_go(m, elf_vaddr, lines, cap);
	if (m->debug_wanted)
		fetch_debug_file(m, c);
	answer = *count ? MODULE_NAMED : name_native(m, c, elf_vaddr, lines, cap, count);
	if (m->debug_wanted && !m->refused && answer != MODULE_LATER)
		answer = MODULE_PARTLY;
	if (!*count && !m->refused && cap && name_sigreturn(m, elf_vaddr, lines)) {
		*count = 1;
		answer = answer == MODULE_UNNAMED ? MODULE_NAMED : answer;
	}
	if (is_damaged(m)) {
		*count = 0;
		c->stats->files_refused++;
		close_files(m);
		m->refused = true;
		return MODULE_UNNAMED;
	}
	if (answer == MODULE_NAMED && m->cache && m->dwarf)
		name_cache_add(m->cache, elf_vaddr, lines, *count);
	return answer;
}
