/*
 * cfi_read.h - call frame information as it lies in a file: CIEs, FDEs and the way to them by
 * address. Source: DWARF 5, 6.4; LSB 5.0 Core, 10.6 (Exception Frames: .eh_frame and
 * .eh_frame_hdr).
 *
 * Everything read is somebody else's: what cannot be understood is skipped, and counted by reason.
 * Nothing is copied but the order of the FDEs, and that only where no .eh_frame_hdr gives it.
 *
 * Memory: sections are borrowed and must outlive what is made of them. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/elf/byte_reader.h"
#include "agent/unwind/counts.h"

struct cfi_section {
	struct bytes bytes;
	uint64_t vaddr; /* of the first byte; .debug_frame has none: 0 */
	bool debug_frame;
	uint64_t text_vaddr, data_vaddr; /* what DW_EH_PE_textrel and _datarel count from */
};

struct cfi_cie {
	uint64_t offset; /* in the section */
	uint64_t code_alignment;
	int64_t data_alignment;
	uint32_t ra_column;
	uint8_t pointer_encoding; /* DW_EH_PE_* of the FDEs' addresses */
	bool sized_augmentation;  /* 'z': FDEs have augmentation data with a length */
	bool signal_frame;        /* 'S' */
	struct bytes program;
};

struct cfi_fde {
	uint64_t begin, end; /* elf_vaddr: [begin, end), not empty */
	uint64_t cie_offset;
	struct bytes program;
};

bool cfi_cie_read(const struct cfi_section *s, uint64_t offset, struct cfi_cie *out);
/* One pointer, DW_EH_PE_* encoded; a reader of the section's bytes tells where it stands. */
uint64_t cfi_read_pointer(const struct cfi_section *s, struct byte_reader *r, uint8_t encoding);
/*
 * The FDE at `offset`. *cie is the CIE last used, kept over calls: it is read again only when the
 * FDE has another one (start with an offset of CFI_NO_CIE). False, and counted, when the bytes
 * there are no FDE that can be used.
 */
#define CFI_NO_CIE UINT64_MAX
bool cfi_fde_read(const struct cfi_section *s, uint64_t offset, struct cfi_cie *cie,
		  struct cfi_fde *out, struct unwind_counts *counts);

/*
 * All FDEs of a section by address. From .eh_frame_hdr in place, if it has the usual encoding and
 * is sorted; else from one walk over the section (8 bytes per FDE).
 */
struct cfi_index {
	const struct cfi_section *section;
	struct bytes header;   /* the search table of .eh_frame_hdr: pairs of int32_t */
	uint64_t header_vaddr; /* what they are relative to */
	struct cfi_index_entry *own;
	uint64_t base; /* own entries' addresses are relative to it */
	uint32_t count;
};

struct cfi_index_entry {
	uint32_t begin; /* - base */
	uint32_t offset;
};

enum { CFI_FDES_MOST = 1 << 23 }; /* 64 MiB of index; chromium has 1.1 million */

/* `header` is .eh_frame_hdr's bytes, or empty. False: no FDE at all. */
bool cfi_index_init(struct cfi_index *x, const struct cfi_section *s, struct bytes header,
		    uint64_t header_vaddr, struct unwind_counts *counts);
void cfi_index_release(struct cfi_index *x);
uint64_t cfi_index_begin(const struct cfi_index *x, uint32_t i);
uint64_t cfi_index_offset(const struct cfi_index *x, uint32_t i);
/* The last FDE that begins at or before elf_vaddr, else 0: the first. */
uint32_t cfi_index_find(const struct cfi_index *x, uint64_t elf_vaddr);

/* Where .eh_frame lies, said by .eh_frame_hdr: for files without section headers. */
bool cfi_header_eh_frame(struct bytes header, uint64_t header_vaddr, uint64_t *eh_frame_vaddr);
