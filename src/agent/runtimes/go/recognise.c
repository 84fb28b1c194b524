#include "agent/runtimes/go/go.h"

#include <string.h>

#include "agent/unwind/pclntab.h"

enum {
	MINOR_LEAST = 13,
	MINOR_LIST = 24,  /* labels are a slice from here on */
	INFO_HEADER = 32, /* magic, size of a pointer, flags, and where those lead to */
	INFO_ALIGN = 16,
	INFO_SPAN = 1 << 16, /* looked at in a segment, without section headers */
	INFO_INLINE = 2,     /* flag: the version follows the header */
	VERSION_BYTES_MOST = 128,
	TLS_CODE_BYTES = 32,    /* of runtime.morestack */
	LABEL_CODE_BYTES = 512, /* of runtime.setProfLabel */
};

/* ---- the version ---- */

bool go_version_minor(struct str version, uint32_t *minor)
{
	ptrdiff_t at = str_search(version, STR("go1."));
	struct str digits;
	uint64_t n;
	size_t count = 0;

	if (at < 0)
		return false;
	digits = str_skip(version, (size_t)at + 4);
	while (count < digits.len && count < 3 && digits.ptr[count] >= '0' &&
	       digits.ptr[count] <= '9')
		count++;
	if (!count || !str_to_u64(str_head(digits, count), &n))
		return false;
	*minor = (uint32_t)n;
	return true;
}

/*
 * Build information: "\xff Go buildinf:", u8 size of a pointer, u8 flags, and
 *   flags & 2 (1.18 and later)   at 32: uvarint length, version
 *   else                         at 16: address of a string { address, length }
 */
static struct str version_at(const struct elf_file *f, struct bytes info)
{
	struct byte_reader r = byte_reader_at(info, INFO_HEADER);
	struct bytes head, text;
	uint64_t at, bytes;

	if (info.len < INFO_HEADER)
		return STR("");
	if (info.ptr[15] & INFO_INLINE) {
		bytes = read_uleb128(&r);
		if (r.failed || bytes > VERSION_BYTES_MOST ||
		    !bytes_part(info, (uint64_t)(info.len - byte_reader_left(&r)), bytes, &text))
			return STR("");
		return str_from(text.ptr, text.len);
	}
	memcpy(&at, info.ptr + 16, sizeof(at));
	head = elf_file_at_vaddr(f, at);
	if (info.ptr[14] != 8 || info.ptr[15] & 1 || head.len < 16)
		return STR("");
	memcpy(&at, head.ptr, sizeof(at));
	memcpy(&bytes, head.ptr + 8, sizeof(bytes));
	if (bytes > VERSION_BYTES_MOST || !bytes_part(elf_file_at_vaddr(f, at), 0, bytes, &text))
		return STR("");
	return str_from(text.ptr, text.len);
}

struct str go_version_of(const struct elf_file *f)
{
	static const char magic[] = "\xff Go buildinf:";
	struct elf_section section;
	struct elf_segment segment;
	struct bytes data;

	if (elf_file_section_named(f, ".go.buildinfo", &section)) {
		data = elf_file_at_vaddr(f, section.vaddr);
		if (data.len >= INFO_HEADER && memcmp(data.ptr, magic, sizeof(magic) - 1) == 0)
			return version_at(f, data);
	}
	for (uint32_t i = 0; i < elf_file_segment_count(f); i++) {
		if (!elf_file_segment(f, i, &segment) || segment.type != PT_LOAD ||
		    !(segment.flags & PF_W))
			continue;
		data = elf_file_at_vaddr(f, segment.vaddr);
		for (size_t at = 0; at < INFO_SPAN && at + INFO_HEADER <= data.len;
		     at += INFO_ALIGN)
			if (memcmp(data.ptr + at, magic, sizeof(magic) - 1) == 0)
				return version_at(f,
						  (struct bytes){ data.ptr + at, data.len - at });
	}
	return STR("");
}

/* ---- what the version says ---- */

bool go_offsets_of(uint32_t minor, struct go_runtime *out)
{
	/* Offsets of g.labels and m.curg, from this version on (linux/amd64; DWARF of each). */
	static const struct {
		uint32_t minor;
		uint16_t g_labels, m_curg;
	} rows[] = {
		{ 13, 344, 192 }, { 17, 360, 192 }, { 21, 344, 192 },
		{ 23, 352, 192 }, { 25, 344, 184 }, { 26, 352, 184 },
	};

	if (minor < MINOR_LEAST)
		return false;
	*out = (struct go_runtime){ .g_m = 48,
				    .form = minor < MINOR_LIST ? GO_LABELS_MAP : GO_LABELS_LIST };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && rows[i].minor <= minor; i++) {
		out->g_labels = rows[i].g_labels;
		out->m_curg = rows[i].m_curg;
	}
	return true;
}

/* ---- what the code says ---- */

/*
 * runtime.morestack begins by taking g, one of
 *   64 48 8b rr 25 disp32                      mov %fs:disp32, %reg
 *   48 c7 cr imm32; 64 48 8b ..                mov $imm32, %reg; mov %fs:(%reg), ...      PIE
 *   48 8b rr disp32; 64 48 8b ..               mov disp32(%rip), %reg; mov %fs:(%reg)     c-shared
 */
bool go_tls_decode(struct bytes code, uint64_t vaddr, struct go_tls *out)
{
	const uint8_t *p = code.ptr;
	int32_t value;

	for (size_t i = 0; i + 9 <= code.len && i + 9 <= TLS_CODE_BYTES; i++) {
		if (p[i] != 0x64 || p[i + 1] != 0x48 || p[i + 2] != 0x8b)
			continue;
		if ((p[i + 3] & 0xc7) == 0x04 && p[i + 4] == 0x25) {
			memcpy(&value, p + i + 5, sizeof(value));
			*out = (struct go_tls){ .offset = value };
			return true;
		}
		if (i < 7 || p[i - 7] != 0x48)
			return false;
		memcpy(&value, p + i - 4, sizeof(value));
		if (p[i - 6] == 0xc7 && (p[i - 5] & 0xf8) == 0xc0)
			*out = (struct go_tls){ .offset = value };
		else if (p[i - 6] == 0x8b && (p[i - 5] & 0xc7) == 0x05)
			*out = (struct go_tls){ .in_memory = true,
						.vaddr = vaddr + i + (uint64_t)(int64_t)value };
		else
			return false;
		return true;
	}
	return false;
}

struct code {
	struct bytes bytes;
	uint64_t vaddr;
};

static struct code code_of(const struct elf_file *f, const struct pclntab_function *fn, size_t most)
{
	struct bytes b = elf_file_at_vaddr(f, fn->begin);
	uint64_t length = fn->end - fn->begin;

	if (b.len > length)
		b.len = length;
	if (b.len > most)
		b.len = most;
	return (struct code){ b, fn->begin };
}

static bool find_code(const struct elf_file *f, struct code *stack, struct code *labels)
{
	struct pclntab_function fn;
	struct pclntab t;

	*stack = *labels = (struct code){ 0 };
	if (!pclntab_open(f, &t))
		return false;
	for (uint32_t i = 0; i < t.function_count; i++) {
		struct str name;

		if (!pclntab_function(&t, i, &fn))
			continue;
		name = pclntab_name(&t, &fn);
		if (str_equal(name, STR("runtime.morestack")) ||
		    str_equal(name, STR("runtime.morestack.abi0")))
			*stack = code_of(f, &fn, TLS_CODE_BYTES);
		else if (str_equal(name, STR("runtime/pprof.runtime_setProfLabel")))
			*labels = code_of(f, &fn, LABEL_CODE_BYTES);
		if (stack->bytes.len && labels->bytes.len)
			return true;
	}
	return false;
}

/* Is this offset in one of the instructions? */
static bool uses_offset(struct bytes code, uint32_t offset)
{
	for (size_t i = 0; i + sizeof(offset) <= code.len; i++)
		if (memcmp(code.ptr + i, &offset, sizeof(offset)) == 0)
			return true;
	return false;
}

bool go_recognise(const struct elf_file *f, struct str path, const struct runtime_tables *tables,
		  struct runtime_binary *out)
{
	struct code stack, labels;
	struct go_facts facts = { 0 };
	struct go_tls tls;

	(void)path;
	(void)tables;
	if (elf_file_machine(f) != EM_X86_64 || !elf_file_is_go(f) ||
	    !go_version_minor(go_version_of(f), &facts.minor) ||
	    !go_offsets_of(facts.minor, &facts.offsets) || !find_code(f, &stack, &labels) ||
	    !uses_offset(labels.bytes, facts.offsets.g_labels) ||
	    !go_tls_decode(stack.bytes, stack.vaddr, &tls))
		return false;
	facts.tls_in_memory = tls.in_memory;
	facts.tls_vaddr = tls.vaddr;
	facts.offsets.tls_offset = tls.offset;
	memcpy(out->facts, &facts, sizeof(facts));
	out->facts_bytes = sizeof(facts);
	return true;
}
