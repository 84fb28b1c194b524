/* What is read of real files (libc, this very program, small ones made here), and of files that
 * lie. */
#include "agent/elf/elf_file.h"
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "agent/elf/elf_symbols.h"
#include "base/cleanup.h"

static struct elf_file *open_path(const char *path)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct err err = { 0 };
	struct elf_file *f;

	assert_true(fd >= 0);
	f = elf_file_open(fd, &err);
	if (!f)
		fail_msg("%s: %s", path, err.msg);
	return f;
}

static char libc_path[160];

static int note_libc(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	(void)ctx;
	if (strstr(info->dlpi_name, "libc.so.6"))
		/* Under qemu-user other programs find the files of the guest below a folder. */
		snprintf(libc_path, sizeof(libc_path), "%s%s", getenv("QEMU_LD_PREFIX") ?: "",
			 info->dlpi_name);
	return 0;
}

/* First word of a command's output. */
static void ask(const char *command, char *out, size_t cap)
{
	FILE *p = popen(command, "r");

	assert_non_null(p);
	out[0] = 0;
	if (!fgets(out, (int)cap, p))
		out[0] = 0;
	pclose(p);
	out[strcspn(out, "\n")] = 0;
}

static void hex(struct bytes b, char *out)
{
	for (size_t i = 0; i < b.len; i++)
		snprintf(out + 2 * i, 3, "%02x", b.ptr[i]);
}

static void test_libc(void **state)
{
	struct elf_file *f = open_path(libc_path);
	char command[700], want[256], got[256] = "";
	struct elf_symbol malloc_symbol, none;
	uint64_t offset, vaddr, low, end;
	uint8_t hash[ELF_HTLHASH_BYTES];
	struct elf_section text;
	struct str needed;

	(void)state;
	assert_int_equal(elf_file_type(f), ET_DYN);
	assert_true(str_is(elf_file_soname(f), "libc.so.6"));
	assert_true(elf_file_needed(f, 0, &needed));
	assert_true(str_has_prefix(needed, STR("ld-linux")));
	assert_true(elf_file_needs(f, STR("ld-linux")));
	assert_false(elf_file_needs(f, STR("libpython3.")));
	assert_false(elf_file_is_go(f));
	assert_false(elf_file_damaged(f));

	snprintf(command, sizeof(command), "readelf -n %s | sed -n 's/.*Build ID: //p'", libc_path);
	ask(command, want, sizeof(want));
	hex(elf_file_build_id(f), got);
	assert_string_equal(got, want);

	snprintf(command, sizeof(command),
		 "(head -c 4096 %s; tail -c 4096 %s; printf '%%016x' $(stat -Lc %%s %s) | "
		 "sed 's/../\\\\x&/g' | xargs -0 printf '%%b') | sha256sum | cut -c 1-32",
		 libc_path, libc_path, libc_path);
	ask(command, want, sizeof(want));
	elf_file_htlhash(f, hash);
	hex((struct bytes){ hash, sizeof(hash) }, got);
	got[32] = 0;
	assert_string_equal(got, want);

	assert_true(elf_file_find_symbol(f, STR("malloc"), &malloc_symbol));
	assert_int_equal(malloc_symbol.type, STT_FUNC);
	assert_false(elf_file_find_symbol(f, STR("no_such_function_at_all"), &none));
	assert_true(elf_file_text_span(f, &low, &end));
	assert_true(malloc_symbol.value >= low && malloc_symbol.value < end);
	assert_true(elf_file_vaddr_to_offset(f, malloc_symbol.value, &offset));
	assert_true(elf_file_offset_to_vaddr(f, offset, &vaddr));
	assert_int_equal(vaddr, malloc_symbol.value);
	assert_true(elf_file_section_named(f, ".text", &text));
	assert_ptr_equal(elf_file_at_vaddr(f, text.vaddr).ptr,
			 elf_file_bytes(f).ptr + text.file_offset);
	elf_file_free(f);
}

/* The mapping that /proc shows and the address the linker gave malloc agree with the file. */
static void test_load_bias(void **state)
{
	struct elf_file *f = open_path(libc_path);
	struct elf_symbol symbol;
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, offset, inode;
	uint64_t bias = 0;
	bool found = false;
	char perms[8], path[512], line[700];

	(void)state;
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %7s %lx %*s %lu %511s", &start, &end, perms, &offset,
			   &inode, path) != 6 ||
		    !strstr(path, "libc.so.6") || perms[2] != 'x')
			continue;
		assert_true(elf_file_load_bias(f, start, offset, true, &bias));
		found = true;
	}
	fclose(maps);
	assert_true(found);
	assert_true(elf_file_find_symbol(f, STR("getppid"), &symbol));
	assert_int_equal(memcmp(elf_file_at_vaddr(f, symbol.value).ptr,
				(const void *)(uintptr_t)(symbol.value + bias), 8),
			 0);
	elf_file_free(f);
}

/* Each name that nm lists is found, through the GNU hash, with the same value. */
static void test_every_dynamic_symbol(void **state)
{
	struct elf_file *f = open_path(libc_path);
	char command[700], line[512], name[256], kind;
	unsigned long value;
	uint32_t found = 0;
	FILE *nm;

	(void)state;
	snprintf(command, sizeof(command), "nm -D --defined-only %s", libc_path);
	nm = popen(command, "r");
	assert_non_null(nm);
	while (fgets(line, sizeof(line), nm)) {
		struct elf_symbol s;

		if (sscanf(line, "%lx %c %255s", &value, &kind, name) != 3 || kind == 'A' ||
		    strstr(name, "@@") == NULL)
			continue;
		if (!elf_file_find_symbol(f, elf_symbol_base_name(str_cstr(name)), &s))
			fail_msg("%s is not found", name);
		found++;
	}
	pclose(nm);
	if (!found) {
		print_message("no nm here: skipped\n");
		skip();
	}
	assert_true(found > 1000);
	elf_file_free(f);
}

/* The kernel's image in our memory: no file behind it, found by its dynamic section. */
static void test_vdso(void **state)
{
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct err err = { 0 };
	struct elf_symbol symbol;
	struct elf_file *f;

	(void)state;
	if (!image) {
		print_message("no vDSO here: skipped\n");
		skip();
	}
	f = elf_file_from_memory(image, 4096, false,
				 &err); /* its first page: all that is looked at */
	assert_non_null(f);
	assert_true(str_has_prefix(elf_file_soname(f), STR("linux-vdso")));
	assert_true(elf_file_find_symbol(f, STR("__vdso_clock_gettime"), &symbol) ||
		    elf_file_find_symbol(f, STR("__kernel_clock_gettime"), &symbol));
	assert_true(symbol.size > 0);
	assert_true(elf_file_build_id(f).len > 0);
	elf_file_free(f);
}

static int run(const char *command)
{
	return system(command);
}

static char work[64];

static void in_work(char out[128], const char *name)
{
	snprintf(out, 128, "%s/%s", work, name);
}

/* A program with packed debug sections and a .gnu_debugdata, made by the tools of distributions. */
static void test_packed_sections(void **state)
{
	char command[1024], path[128];
	struct elf_file *f, *inner;
	struct elf_section section;
	struct elf_symbol symbol;
	struct elf_debuglink link;
	struct elf_data data;
	struct err err = { 0 };
	uint64_t grown;

	(void)state;
	snprintf(command, sizeof(command),
		 "cd %s && printf 'static __attribute__((noinline)) int hidden_one(int a) { return "
		 "a * 3; }\n"
		 "int main(int c, char **v) { (void)v; return hidden_one(c) == 1; }\n' > p.c && "
		 "gcc -O1 -g -gz=zlib -o p p.c && nm p --format=posix | awk '$2 ~ /[Tt]/ {print "
		 "$1}' > keep && "
		 "objcopy --only-keep-debug p p.debug && "
		 "objcopy -S --keep-symbols=keep p.debug mini 2> /dev/null && xz -f mini && "
		 "cp p s && strip s && objcopy --add-section .gnu_debugdata=mini.xz "
		 "--add-gnu-debuglink=p.debug s",
		 work);
	if (run(command) != 0) {
		print_message("no gcc, objcopy or xz here: skipped\n");
		skip();
	}
	in_work(path, "p");
	f = open_path(path);
	assert_true(elf_file_section_named(f, ".debug_info", &section));
	assert_true(elf_section_compressed(f, &section, &grown));
	assert_true(elf_file_section_data(f, &section, 1 << 20, &data, &err));
	assert_int_equal(data.bytes.len, grown);
	elf_data_release(&data);
	assert_false(elf_file_section_data(f, &section, 10, &data, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
	elf_file_free(f);

	in_work(path, "s");
	f = open_path(path);
	assert_false(elf_file_find_symbol(f, STR("hidden_one"), &symbol));
	inner = elf_file_open_debugdata(f, 1 << 20, &err);
	assert_non_null(inner);
	assert_true(elf_file_find_symbol(inner, STR("hidden_one"), &symbol));
	assert_null(elf_file_open_debugdata(f, 100, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
	assert_true(elf_file_debuglink(f, &link));
	assert_true(str_is(link.name, "p.debug"));
	elf_file_free(f);
	elf_file_free(inner);
	in_work(path, "p.debug");
	f = open_path(path);
	assert_int_equal(elf_file_crc(f), link.crc);
	assert_true(elf_file_section_named(f, ".text", &section));
	assert_false(elf_file_section_data(f, &section, 1 << 20, &data, &err));
	assert_int_equal(err.kind, ERR_NOT_FOUND);
	elf_file_free(f);
}

/* A program is cut short, and then overwritten, while we have it open. */
static void test_file_changes_under_us(void **state)
{
	char command[400], path[128];
	struct elf_symbol symbol;
	struct elf_file *f;
	uint64_t sum = 0;
	struct bytes b;
	int fd;

	(void)state;
	in_work(path, "changing");
	snprintf(command, sizeof(command), "cp -L %s %s", libc_path, path);
	assert_int_equal(run(command), 0);
	f = open_path(path);
	assert_int_equal(truncate(path, 5000), 0);
	assert_false(elf_file_damaged(f));
	b = elf_file_bytes(f);
	for (size_t i = 0; i < b.len; i += 512)
		sum += b.ptr[i];
	assert_true(sum > 0);
	assert_true(elf_file_damaged(f));
	assert_false(elf_file_find_symbol(f, STR("malloc"), &symbol));

	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	for (int i = 0; i < 5000; i += 8)
		assert_int_equal(pwrite(fd, "\xff\xff\xff\xff\x41\x41\x41\x41", 8, i), 8);
	close(fd);
	assert_false(elf_file_find_symbol(f, STR("malloc"), &symbol));
	elf_file_build_id(f);
	elf_file_is_go(f);
	elf_file_free(f);
}

/* How much of the mapping is in our page tables, in kB. */
static long resident_kb(const void *start)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[512], key[40];
	bool here = false;
	long kb = -1;

	assert_non_null(f);
	snprintf(key, sizeof(key), "%lx-", (unsigned long)(uintptr_t)start);
	while (kb < 0 && fgets(line, sizeof(line), f)) {
		here = here || strncmp(line, key, strlen(key)) == 0;
		if (here)
			(void)sscanf(line, "Rss: %ld kB", &kb);
	}
	fclose(f);
	assert_true(kb >= 0);
	return kb;
}

static void test_let_go(void **state)
{
	struct elf_file *f = open_path(libc_path);
	struct bytes b = elf_file_bytes(f);
	uint32_t crc = elf_file_crc(f);

	(void)state;
	assert_true(resident_kb(b.ptr) >= (long)(b.len / 1024));
	elf_file_let_go(f);
	assert_int_equal(resident_kb(b.ptr), 0);
	assert_int_equal(elf_file_crc(f), crc);
	elf_file_free(f);
	elf_file_let_go(NULL);
}

static void test_refused(void **state)
{
	static const struct {
		const char *what;
		size_t offset;
		uint8_t value;
		enum err_kind kind;
	} rows[] = {
		{ "magic", 1, 'X', ERR_INVALID },
		{ "32 bits", EI_CLASS, ELFCLASS32, ERR_UNSUPPORTED },
		{ "big-endian", EI_DATA, ELFDATA2MSB, ERR_UNSUPPORTED },
		{ "machine", offsetof(Elf64_Ehdr, e_machine), EM_386, ERR_UNSUPPORTED },
	};
	Elf64_Ehdr good = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			    .e_type = ET_DYN,
			    .e_machine = EM_X86_64 };
	struct err err = { 0 };
	struct elf_file *f = elf_file_from_memory(&good, sizeof(good), false, &err);

	(void)state;
	assert_non_null(f);
	elf_file_free(f);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		Elf64_Ehdr bad = good;

		((uint8_t *)&bad)[rows[i].offset] = rows[i].value;
		f = elf_file_from_memory(&bad, sizeof(bad), false, &err);
		if (f || err.kind != rows[i].kind)
			fail_msg("%s: kind %s", rows[i].what, err_kind_name(err.kind));
	}
	for (size_t n = 0; n < sizeof(good); n++)
		assert_null(elf_file_from_memory(&good, n, false, &err));
}

/* Tables that point past the end, or wrap around it, count as absent. */
static void test_offsets_that_lie(void **state)
{
	static const uint64_t wild[] = { 1, 64, 100000, UINT64_MAX, UINT64_MAX - 63, 1ULL << 63 };
	Elf64_Ehdr h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			 .e_type = ET_DYN,
			 .e_machine = EM_X86_64,
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_phnum = 3,
			 .e_shnum = 7,
			 .e_shstrndx = 6 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wild); i++) {
		struct elf_section s;
		struct elf_symbol symbol;
		struct err err = { 0 };
		struct elf_file *f;

		h.e_phoff = h.e_shoff = wild[i];
		f = elf_file_from_memory(&h, sizeof(h), false, &err);
		assert_non_null(f);
		assert_int_equal(elf_file_section_count(f), 0);
		assert_int_equal(elf_file_segment_count(f), 0);
		assert_false(elf_file_section_named(f, ".text", &s));
		assert_false(elf_file_find_symbol(f, STR("x"), &symbol));
		assert_int_equal(elf_file_build_id(f).len, 0);
		elf_file_free(f);
	}
}

static int setup(void **state)
{
	(void)state;
	dl_iterate_phdr(note_libc, NULL);
	assert_true(libc_path[0]);
	snprintf(work, sizeof(work), "/tmp/elf_file_test.XXXXXX");
	return mkdtemp(work) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", work);
	return run(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libc),
		cmocka_unit_test(test_load_bias),
		cmocka_unit_test(test_every_dynamic_symbol),
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_packed_sections),
		cmocka_unit_test(test_file_changes_under_us),
		cmocka_unit_test(test_let_go),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_offsets_that_lie),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
