/*
 * elf_symbols.c - see elf_symbols.h.
 *
 *   DT_GNU_HASH: u32 bucket_count, first_symbol, bloom_words, bloom_shift; u64 bloom[bloom_words];
 *   u32 buckets[bucket_count]; u32 chain[] (hash, lowest bit: end of chain), one for each symbol
 *   from first_symbol on.
 *   DT_HASH: u32 bucket_count, chain_count (= symbols); u32 buckets[], chain[].
 */
#include "agent/elf/elf_symbols.h"
#include <lzma.h>
#include <stdlib.h>
#include "agent/elf/elf_internal.h"

enum {
	CHAIN_MOST = 1 << 20, /* steps along one hash chain: a hostile one is a loop */
	XZ_MEMORY_MOST = 64 << 20,
};

struct str elf_symbol_base_name(struct str name)
{
	ptrdiff_t at = str_find(name, '@');

	return at > 0 ? str_head(name, (size_t)at) : name;
}

bool elf_symtab_get(const struct elf_symtab *t, uint32_t index, struct elf_symbol *out)
{
	struct bytes part;
	Elf64_Sym s;

	if (index >= t->count ||
	    !bytes_part(t->symbols, (uint64_t)index * sizeof(s), sizeof(s), &part))
		return false;
	memcpy(&s, part.ptr, sizeof(s));
	*out = (struct elf_symbol){ .name = bytes_cstr_at(t->strings, s.st_name),
				    .value = s.st_value,
				    .size = s.st_size,
				    .type = ELF64_ST_TYPE(s.st_info),
				    .binding = ELF64_ST_BIND(s.st_info),
				    .section = s.st_shndx };
	return true;
}

static bool symtab_of_section(const struct elf_file *f, uint32_t type, struct elf_symtab *out)
{
	struct elf_section s, names;
	struct elf_symtab t = { 0 };

	*out = t;
	if (!elf_file_section_typed(f, type, &s) || s.entry_size != sizeof(Elf64_Sym) ||
	    !bytes_part(f->image, s.file_offset, s.size, &t.symbols))
		return false;
	if (!elf_file_section(f, s.link, &names) || names.type != SHT_STRTAB ||
	    !bytes_part(f->image, names.file_offset, names.size, &t.strings))
		return false;
	t.count = s.size / sizeof(Elf64_Sym) > UINT32_MAX ? UINT32_MAX
							  : (uint32_t)(s.size / sizeof(Elf64_Sym));
	*out = t;
	return true;
}

bool elf_file_symtab(const struct elf_file *f, struct elf_symtab *out)
{
	return symtab_of_section(f, SHT_SYMTAB, out);
}

/* ---- .dynsym ---- */

struct gnu_hash {
	uint32_t bucket_count, first_symbol, bloom_words, bloom_shift;
	struct bytes bloom, buckets, chain;
};

static bool gnu_hash_of(const struct elf_file *f, struct gnu_hash *h)
{
	uint64_t vaddr;
	struct bytes all;
	struct byte_reader r;

	if (!elf_file_dynamic(f, DT_GNU_HASH, &vaddr))
		return false;
	all = elf_file_at_vaddr(f, vaddr);
	r = byte_reader_of(all);
	h->bucket_count = read_u32(&r);
	h->first_symbol = read_u32(&r);
	h->bloom_words = read_u32(&r);
	h->bloom_shift = read_u32(&r);
	if (r.failed || !h->bucket_count || !h->bloom_words)
		return false;
	return bytes_part(all, 16, (uint64_t)h->bloom_words * 8, &h->bloom) &&
	       bytes_part(all, 16 + (uint64_t)h->bloom_words * 8, (uint64_t)h->bucket_count * 4,
			  &h->buckets) &&
	       bytes_part(all, 16 + (uint64_t)h->bloom_words * 8 + (uint64_t)h->bucket_count * 4,
			  all.len - 16 - (uint64_t)h->bloom_words * 8 -
				  (uint64_t)h->bucket_count * 4,
			  &h->chain);
}

static uint32_t u32_at(struct bytes b, uint64_t index, bool *ok)
{
	struct byte_reader r = byte_reader_at(b, index > UINT32_MAX ? UINT64_MAX : index * 4);
	uint32_t v = read_u32(&r);

	*ok = !r.failed;
	return v;
}

/* One past the last symbol that a bucket leads to. */
static uint32_t gnu_hash_count(const struct gnu_hash *h)
{
	uint32_t last = 0;
	bool ok;

	for (uint32_t i = 0; i < h->bucket_count; i++) {
		uint32_t first = u32_at(h->buckets, i, &ok);

		if (ok && first > last)
			last = first;
	}
	if (last < h->first_symbol)
		return h->first_symbol;
	for (uint32_t step = 0; step < CHAIN_MOST; step++, last++) {
		uint32_t hash = u32_at(h->chain, last - h->first_symbol, &ok);

		if (!ok || (hash & 1))
			return ok ? last + 1 : last;
	}
	return last;
}

static uint32_t dynsym_count(const struct elf_file *f)
{
	struct elf_section s;
	struct gnu_hash h;
	uint64_t vaddr;
	uint32_t count;
	bool ok;

	if (elf_file_section_typed(f, SHT_DYNSYM, &s))
		return s.size / sizeof(Elf64_Sym) > UINT32_MAX
			       ? 0
			       : (uint32_t)(s.size / sizeof(Elf64_Sym));
	if (elf_file_dynamic(f, DT_HASH, &vaddr)) {
		count = u32_at(elf_file_at_vaddr(f, vaddr), 1, &ok);
		return ok ? count : 0;
	}
	return gnu_hash_of(f, &h) ? gnu_hash_count(&h) : 0;
}

bool elf_file_dynsym(const struct elf_file *f, struct elf_symtab *out)
{
	struct elf_symtab t = { 0 };
	uint64_t symbols, strings;
	struct bytes whole;

	*out = t;
	if (!elf_file_dynamic(f, DT_SYMTAB, &symbols) || !elf_file_dynamic(f, DT_STRTAB, &strings))
		return symtab_of_section(f, SHT_DYNSYM, out);
	t.symbols = elf_file_at_vaddr(f, symbols);
	t.strings = elf_file_at_vaddr(f, strings);
	if (!t.symbols.len || !t.strings.len)
		return symtab_of_section(f, SHT_DYNSYM, out);
	t.count = dynsym_count(f);
	if (!bytes_part(t.symbols, 0, (uint64_t)t.count * sizeof(Elf64_Sym), &whole))
		t.count = (uint32_t)(t.symbols.len / sizeof(Elf64_Sym));
	*out = t;
	return t.count > 0;
}

static bool symbol_is(const struct elf_symtab *t, uint32_t index, struct str name,
		      struct elf_symbol *out)
{
	struct elf_symbol s;

	if (!elf_symtab_get(t, index, &s) || s.section == SHN_UNDEF ||
	    !str_equal(elf_symbol_base_name(s.name), name))
		return false;
	*out = s;
	return true;
}

static uint32_t gnu_hash_name(struct str name)
{
	uint32_t h = 5381;

	for (size_t i = 0; i < name.len; i++)
		h = h * 33 + (uint8_t)name.ptr[i];
	return h;
}

static bool bloom_says_no(const struct gnu_hash *h, uint32_t hash)
{
	struct byte_reader r = byte_reader_at(h->bloom, (uint64_t)(hash / 64 % h->bloom_words) * 8);
	uint64_t word = read_u64(&r);
	uint32_t second = h->bloom_shift < 32 ? hash >> h->bloom_shift : 0;

	return !((word >> (hash % 64)) & 1) || !((word >> (second % 64)) & 1);
}

static bool find_by_gnu_hash(const struct gnu_hash *h, const struct elf_symtab *t, struct str name,
			     struct elf_symbol *out)
{
	uint32_t hash = gnu_hash_name(name), index;
	bool ok;

	if (bloom_says_no(h, hash))
		return false;
	index = u32_at(h->buckets, hash % h->bucket_count, &ok);
	if (!ok || index < h->first_symbol)
		return false;
	for (uint32_t step = 0; step < CHAIN_MOST; step++, index++) {
		uint32_t in_chain = u32_at(h->chain, index - h->first_symbol, &ok);

		if (!ok)
			return false;
		if ((in_chain | 1) == (hash | 1) && symbol_is(t, index, name, out))
			return true;
		if (in_chain & 1)
			return false;
	}
	return false;
}

static bool find_by_scan(const struct elf_symtab *t, struct str name, struct elf_symbol *out)
{
	for (uint32_t i = 0; i < t->count; i++) {
		if (symbol_is(t, i, name, out))
			return true;
	}
	return false;
}

bool elf_file_find_exported(const struct elf_file *f, struct str name, struct elf_symbol *out)
{
	struct elf_symtab t;
	struct gnu_hash h;

	if (!elf_file_dynsym(f, &t))
		return false;
	return gnu_hash_of(f, &h) ? find_by_gnu_hash(&h, &t, name, out)
				  : find_by_scan(&t, name, out);
}

bool elf_file_find_symbol(const struct elf_file *f, struct str name, struct elf_symbol *out)
{
	struct elf_symtab t;

	if (elf_file_find_exported(f, name, out))
		return true;
	return elf_file_symtab(f, &t) && find_by_scan(&t, name, out);
}

struct bytes elf_file_symbol_data(const struct elf_file *f, const struct elf_symbol *symbol)
{
	struct bytes data = elf_file_at_vaddr(f, symbol->value);

	if (data.len > symbol->size)
		data.len = (size_t)symbol->size;
	return data;
}

/* ---- .gnu_debugdata ---- */

static bool xz_decode(struct bytes in, size_t limit_bytes, uint8_t **out, size_t *out_len,
		      struct err *err)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	size_t cap = in.len < limit_bytes / 8 ? in.len * 4 + 1024 : limit_bytes;
	uint8_t *buffer = NULL;
	lzma_ret rc = lzma_stream_decoder(&stream, XZ_MEMORY_MOST, LZMA_CONCATENATED);

	if (rc != LZMA_OK)
		return err_set(err, ERR_INTERNAL, "the xz decoder does not start: %d", rc);
	stream.next_in = in.ptr;
	stream.avail_in = in.len;
	while (rc == LZMA_OK) {
		size_t have = stream.total_out;
		uint8_t *grown;

		if (have == cap && cap < limit_bytes)
			cap = cap > limit_bytes / 2 ? limit_bytes : cap * 2;
		else if (have == cap && buffer)
			break;
		grown = realloc(buffer, cap);
		if (!grown)
			abort();
		buffer = grown;
		stream.next_out = buffer + have;
		stream.avail_out = cap - have;
		rc = lzma_code(&stream, LZMA_FINISH);
	}
	*out_len = stream.total_out;
	lzma_end(&stream);
	if (rc == LZMA_STREAM_END) {
		*out = buffer;
		return true;
	}
	free(buffer);
	if (rc == LZMA_OK || rc == LZMA_MEMLIMIT_ERROR)
		return err_set(err, ERR_LIMIT, ".gnu_debugdata inflates past %zu bytes",
			       limit_bytes);
	return err_set(err, ERR_INVALID,
		       ".gnu_debugdata is no whole xz stream (%d after %zu bytes)", rc, *out_len);
}

struct elf_file *elf_file_open_debugdata(const struct elf_file *f, size_t limit_bytes,
					 struct err *err)
{
	struct elf_file *inner;
	struct elf_section s;
	struct elf_data data;
	uint8_t *image = NULL;
	size_t image_bytes = 0;
	bool ok;

	if (!elf_file_section_named(f, ".gnu_debugdata", &s)) {
		err_set(err, ERR_NOT_FOUND, "no .gnu_debugdata");
		return NULL;
	}
	if (!elf_file_section_data(f, &s, limit_bytes, &data, err))
		return NULL;
	ok = xz_decode(data.bytes, limit_bytes, &image, &image_bytes, err);
	elf_data_release(&data);
	if (!ok)
		return NULL;
	inner = elf_file_from_memory(image, image_bytes, true, err);
	if (!inner)
		err_prefix(err, ".gnu_debugdata");
	return inner;
}
