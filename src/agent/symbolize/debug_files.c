#include "agent/symbolize/debug_files.h"
#include <limits.h>
#include <unistd.h>
#include "base/cleanup.h"

#define DEBUG_ROOT "/usr/lib/debug"

void debug_file_build_id_path(struct bytes build_id, char *out, size_t cap)
{
	int n = snprintf(out, cap, DEBUG_ROOT "/.build-id/%02x/",
			 build_id.len ? build_id.ptr[0] : 0);

	for (size_t i = 1; i < build_id.len && (size_t)n + 9 < cap; i++)
		n += snprintf(out + n, cap - (size_t)n, "%02x", build_id.ptr[i]);
	snprintf(out + n, cap - (size_t)n, ".debug");
}

static struct elf_file *open_elf(const struct symbol_access *access, uint32_t pid, const char *path)
{
	AUTO(fd_close) int fd = -1;
	struct err err;

	if (!access->open_path || !access->open_path(access->ctx, pid, path, &fd, &err))
		return NULL;
	return elf_file_open(fd, &err);
}

static bool same_build_id(struct bytes a, struct bytes b)
{
	return a.len && a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

/* Is it the debug file of `f`, and not `f` itself? */
static bool belongs(const struct elf_file *f, const struct elf_file *debug, const uint32_t *crc)
{
	struct bytes id = elf_file_build_id(f);
	struct elf_section s;

	if (!elf_file_section_typed(debug, SHT_SYMTAB, &s) &&
	    !elf_file_section_named(debug, ".debug_info", &s))
		return false;
	if (id.len)
		return same_build_id(id, elf_file_build_id(debug));
	return crc && elf_file_crc(debug) == *crc;
}

struct elf_file *debug_file_of(int fd, const struct elf_file *f)
{
	struct err err;
	struct elf_file *debug = elf_file_open(fd, &err);

	if (debug && belongs(f, debug, NULL))
		return debug;
	elf_file_free(debug);
	return NULL;
}

static struct elf_file *try_path(const struct symbol_access *access, uint32_t pid,
				 const struct elf_file *f, const char *path, const uint32_t *crc)
{
	const uint32_t roots[] = { pid, 0 };

	for (int i = pid ? 0 : 1; i < 2; i++) {
		struct elf_file *debug = open_elf(access, roots[i], path);

		if (debug && belongs(f, debug, crc))
			return debug;
		elf_file_free(debug);
	}
	return NULL;
}

struct elf_file *debug_file_find(const struct symbol_access *access, uint32_t pid,
				 const struct elf_file *f, struct str directory)
{
	static const char *const forms[] = { "%.*s/%.*s", "%.*s/.debug/%.*s",
					     DEBUG_ROOT "%.*s/%.*s" };
	struct bytes id = elf_file_build_id(f);
	struct elf_debuglink link;
	struct elf_file *debug;
	char path[PATH_MAX];

	if (id.len > 1) {
		debug_file_build_id_path(id, path, sizeof(path));
		debug = try_path(access, pid, f, path, NULL);
		if (debug)
			return debug;
	}
	if (!directory.len || !elf_file_debuglink(f, &link))
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		int n = snprintf(path, sizeof(path), forms[i], STR_ARG(directory),
				 STR_ARG(link.name));
#pragma GCC diagnostic pop

		if (n < 0 || (size_t)n >= sizeof(path))
			continue;
		debug = try_path(access, pid, f, path, &link.crc);
		if (debug)
			return debug;
	}
	return NULL;
}

struct elf_file *debug_file_find_alt(const struct symbol_access *access, uint32_t pid,
				     const struct elf_file *f, struct str directory)
{
	const uint32_t roots[] = { pid, 0 };
	char path[PATH_MAX];
	struct bytes id;
	struct str name;
	int n;

	if (!elf_file_debugaltlink(f, &name, &id))
		return NULL;
	for (int way = 0; way < 2; way++) {
		if (way == 1)
			debug_file_build_id_path(id, path, sizeof(path));
		else if (name.ptr[0] == '/')
			snprintf(path, sizeof(path), "%.*s", STR_ARG(name));
		else {
			n = snprintf(path, sizeof(path), "%.*s/%.*s", STR_ARG(directory),
				     STR_ARG(name));
			if (!directory.len || n < 0 || (size_t)n >= sizeof(path))
				continue;
		}
		for (int i = pid ? 0 : 1; i < 2; i++) {
			struct elf_file *alt = open_elf(access, roots[i], path);

			if (alt && same_build_id(id, elf_file_build_id(alt)))
				return alt;
			elf_file_free(alt);
		}
	}
	return NULL;
}
