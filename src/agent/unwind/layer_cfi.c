#include "agent/unwind/layers.h"

#include "agent/unwind/patterns.h"

/* Where the rows of one FDE go: clipped to what this layer has to fill. */
struct cfi_rows {
	struct unwind_tables *t;
	struct row_out *out;
	uint64_t from, to;
	uint32_t ra_column;
	bool signal_frame;
};

static void take_row(void *ctx, uint64_t elf_vaddr, const struct cfi_state *state)
{
	const struct cfi_rows *c = ctx;
	struct unwind_rule rule = { .kind = UNWIND_NONE };

	if (elf_vaddr >= c->to)
		return;
	if (state)
		rule = cfi_rule_of(c->t->machine, c->ra_column, state, c->signal_frame,
				   &c->t->counts);
	row_out_put(c->out, elf_vaddr < c->from ? c->from : elf_vaddr, &rule);
}

/* layer->initial for the CIE last read. */
static bool initial_ready(struct unwind_tables *t, struct layer *layer)
{
	if (layer->initial_of == layer->cie.offset)
		return true;
	if (!cfi_initial_state(&layer->cie, &layer->section, &t->registers, &layer->initial,
			       &t->counts))
		return false;
	layer->initial_of = layer->cie.offset;
	return true;
}

/* The restorer is returned to, never called: it is looked up by the byte before it. */
static bool is_signal_frame(const struct unwind_tables *t, const struct layer *layer,
			    const struct cfi_fde *fde)
{
	if (layer->cie.signal_frame)
		return true;
	return fde->end - fde->begin <= 16 &&
	       patterns_is_sigreturn(t->machine, elf_file_at_vaddr(t->file, fde->begin));
}

static void fill_fde(struct unwind_tables *t, struct layer *layer, struct row_out *o,
		     const struct cfi_fde *fde, uint64_t from, uint64_t to)
{
	struct cfi_rows rows = {
		.t = t, .out = o, .from = from, .to = to, .ra_column = layer->cie.ra_column
	};
	const struct cfi_sink sink = { take_row, &rows };

	rows.signal_frame = is_signal_frame(t, layer, fde);
	if (!initial_ready(t, layer)) {
		take_row(&rows, from, NULL);
		return;
	}
	cfi_program_run(fde, &layer->cie, &layer->section, &t->registers, &layer->initial, &sink,
			&t->counts);
}

static bool spend(struct unwind_tables *t, const struct cfi_fde *fde)
{
	t->work_left -= 16 + (int64_t)fde->program.len;
	if (t->work_left >= 0)
		return true;
	t->counts.lost[UNWIND_LOSS_WORK]++;
	return false;
}

/* Two FDEs should not overlap; where they do, the later one begins. */
static uint64_t end_of(const struct cfi_index *x, uint32_t i, const struct cfi_fde *fde,
		       uint64_t to)
{
	uint64_t end = fde->end < to ? fde->end : to;

	if (i + 1 < x->count) {
		uint64_t next = cfi_index_begin(x, i + 1);

		if (next > fde->begin && next < end)
			end = next;
	}
	return end;
}

void layer_fill_cfi(struct unwind_tables *t, uint32_t layer_index, struct row_out *o, uint64_t from,
		    uint64_t to)
{
	struct layer *layer = &t->layers[layer_index];
	const struct cfi_index *x = &layer->index;
	uint64_t at = from;
	struct cfi_fde fde;

	for (uint32_t i = cfi_index_find(x, from); i < x->count && at < to; i++) {
		uint64_t end;

		if (cfi_index_begin(x, i) >= to)
			break;
		if (!cfi_fde_read(&layer->section, cfi_index_offset(x, i), &layer->cie, &fde,
				  &t->counts))
			continue;
		end = end_of(x, i, &fde, to);
		if (end <= at || fde.begin >= to)
			continue;
		if (!spend(t, &fde))
			break;
		if (fde.begin > at) {
			layer_fill(t, layer_index + 1, o, at, fde.begin);
			at = fde.begin;
		}
		fill_fde(t, layer, o, &fde, at, end);
		at = end;
	}
	if (at < to)
		layer_fill(t, layer_index + 1, o, at, to);
}
