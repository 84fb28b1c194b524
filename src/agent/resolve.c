#include "agent/resolve.h"

#include <assert.h>
#include <stdlib.h>

#include "agent/runtimes/attach.h"
#include "base/clock.h"
#include "base/cleanup.h"

enum {
	MENDS_MOST = 512,      /* files opened and pages built for one stack */
	LIVE_READS_MOST = 512, /* of the target's memory for one stack, some 5 us each */
};
#define STACK_BYTES_USUAL (UINT64_C(1) << 20) /* of a thread of Java */

void resolver_init(struct resolver *r, struct process_table *table, struct modules *modules,
		   struct unwind_store *store)
{
	*r = (struct resolver){ .table = table, .modules = modules, .store = store };
	r->twin = twin_new();
	r->frames = malloc(RESOLVE_FRAMES_MOST * sizeof(*r->frames));
	assert(r->frames);
}

void resolver_release(struct resolver *r)
{
	twin_free(r->twin);
	free(r->frames);
}

static void put(struct resolver *r, const struct trace_frame *frame)
{
	if (r->frame_count < RESOLVE_FRAMES_MOST)
		r->frames[r->frame_count++] = *frame;
}

/* ---- frames -----------------------------------------------------------------------------------
 */

static void put_native(struct resolver *r, struct module *m, uint64_t elf_vaddr,
		       bool return_address)
{
	put(r, &(struct trace_frame){ .kind = m->facts->go ? FRAME_GO : FRAME_NATIVE,
				      .return_address = return_address,
				      .executable = m->facts,
				      .address = elf_vaddr });
}

/* An address that BPF could not place; our mappings are those of the sample's time. */
static void put_pc(struct resolver *r, const struct process *p, uint64_t pc, bool return_address)
{
	const struct mapping *m = mapping_set_find(p->set, pc - return_address);
	uint64_t bias;

	if (m && m->module && module_load(m->module, p->pid, m) && module_bias(m, &bias))
		put_native(r, m->module->same, pc - bias, return_address);
	else
		put(r, &(struct trace_frame){ .kind = FRAME_UNKNOWN,
					      .return_address = return_address,
					      .address = pc });
}

static enum frame_kind runtime_kind(uint32_t tag)
{
	switch (tag) {
	case FRAME_TAG_CPYTHON:
		return FRAME_CPYTHON;
	case FRAME_TAG_HOTSPOT:
		return FRAME_HOTSPOT;
	case FRAME_TAG_V8:
		return FRAME_V8;
	case FRAME_TAG_PHP:
		return FRAME_PHP;
	case FRAME_TAG_RUBY:
		return FRAME_RUBY;
	default:
		return FRAME_UNKNOWN;
	}
}

/* False: from the last frame on BPF walked by what was mapped there before. */
static bool put_words(struct resolver *r, const struct process *p, uint64_t time_ns,
		      const uint64_t *words, uint32_t count)
{
	const struct replaced_code *replaced;

	for (uint32_t i = 0; i + 1 < count;) {
		uint64_t header = words[i];
		uint32_t tag = header & 0xff, payload = header >> 16 & 0xff;
		bool return_address = header >> 8 & FRAME_FLAG_RETURN_ADDRESS;
		struct module *m = modules_by_id(r->modules, (uint32_t)(header >> 32));

		if (!payload || payload > count - i - 1) {
			r->bad_records++;
			return true;
		}
		replaced = tag == FRAME_TAG_NATIVE
				   ? replaced_find(p->replaced, time_ns, m, words[i + 1])
				   : NULL;
		if (replaced) {
			if (replaced->module)
				put_pc(r, p, words[i + 1] + replaced->load_bias, return_address);
			return false;
		}
		if (tag == FRAME_TAG_NATIVE && m)
			put_native(r, m, words[i + 1], return_address);
		else if (tag == FRAME_TAG_PC)
			put_pc(r, p, words[i + 1], return_address);
		else if (payload == 2 && runtime_kind(tag) != FRAME_UNKNOWN)
			put(r, &(struct trace_frame){ .kind = runtime_kind(tag),
						      .executable = m ? m->facts : NULL,
						      .address = words[i + 1],
						      .extra = words[i + 2] });
		else /* an executable that is gone: more than its address is not known */
			put(r, &(struct trace_frame){ .kind = FRAME_UNKNOWN,
						      .return_address = return_address,
						      .address = words[i + 1] });
		i += 1 + payload;
	}
	return true;
}

/* ---- the rest of a stack ------------------------------------------------------------------------
 */

/* Frames of CPython that BPF read (FRAME_TAG_AHEAD). */
struct ahead {
	const uint64_t *items; /* NULL: none */
	uint32_t count;
	uint32_t slot; /* of the runtime by which */
};

struct captured {
	uint64_t start;
	struct str bytes;
	bool missed; /* asked for memory that was not copied */
	struct ahead ahead;
	/* What is no stack is read from the process as it is now, for those steps to whom that is
	 * good enough: HotSpot's code and methods stay where they are, and names are checked. */
	struct seam *seam;
	const struct process *process;
	uint32_t pid, live_reads;
	const struct unwind_cursor *cursor; /* of the walk */
};

static bool read_live(struct captured *c, uint64_t address, void *to, uint32_t bytes)
{
	struct err err;
	size_t got;

	if (c->cursor->step != UNWIND_STEP_HOTSPOT || c->live_reads == LIVE_READS_MOST ||
	    !c->seam->ops->read_memory)
		return false;
	c->live_reads++;
	return c->seam->ops->read_memory(c->seam, c->pid, address, to, bytes, &got, &err) &&
	       got == bytes;
}

/* Code does not change: it is read from its file. */
static bool read_code(const struct captured *c, uint64_t address, void *to, uint32_t bytes)
{
	const struct mapping *m = mapping_set_find(c->process->set, address);
	struct bytes code;
	uint64_t bias;

	if (!m || !m->module || m->module->state != MODULE_READY || !module_bias(m, &bias))
		return false;
	code = elf_file_at_vaddr(m->module->same->file, address - bias);
	if (code.len < bytes)
		return false;
	memcpy(to, code.ptr, bytes);
	return true;
}

static bool read_captured(void *ctx, uint64_t address, void *to, uint32_t bytes)
{
	struct captured *c = ctx;
	uint64_t offset = address - c->start;

	if (offset <= c->bytes.len && bytes <= c->bytes.len - offset) {
		memcpy(to, c->bytes.ptr + offset, bytes);
		return true;
	}
	/* The stack itself has changed since. */
	if (offset >= STACK_BYTES_USUAL &&
	    (read_code(c, address, to, bytes) || read_live(c, address, to, bytes)))
		return true;
	c->missed = true;
	return false;
}

/* Opens the file or builds the page that the twin missed. False: it stays missing. */
static bool mend_table(const struct process *p, uint64_t pc)
{
	const struct mapping *m = mapping_set_find(p->set, pc);
	uint64_t bias;

	if (!m || !m->module)
		return false;
	if (m->module->state == MODULE_NEW) {
		module_load(m->module, p->pid, m);
		return true;
	}
	return module_bias(m, &bias) && module_build(m->module, pc - bias);
}

/* BPF had no rows for the last frame, and no stack came along: at least the next sample finds them.
 */
static void build_for_next(struct resolver *r)
{
	const struct trace_frame *f = r->frame_count ? &r->frames[r->frame_count - 1] : NULL;
	struct module *m;

	if (!f || !f->executable)
		return;
	m = modules_by_executable(r->modules, f->executable);
	if (m)
		module_build(m, f->address - f->return_address);
}

/* With interpreters within the interpreter the frames of one may lie below those of another, which
 * were not read. */
static bool has_one_interpreter(const struct resolver *r, const struct process *p,
				const struct cpython_runtime *cpython)
{
	struct seam *seam = r->table->seam;
	uint64_t list[2], bias;
	struct err err;
	size_t got;

	for (uint32_t i = 0; cpython->interpreters && i < p->set->count; i++) {
		const struct mapping *m = &p->set->list[i];

		if (!m->module || m->module->state != MODULE_READY ||
		    m->module->same->facts->runtime_step != UNWIND_STEP_CPYTHON ||
		    !module_bias(m, &bias))
			continue;
		return !seam->ops->read_memory(seam, p->pid, bias + cpython->interpreters, list,
					       sizeof(list), &got, &err) ||
		       got != sizeof(list) || list[0] == list[1];
	}
	return true;
}

/* They were read as another CPython has them: does this one have them there, too? */
static bool has_runtime(const struct resolver *r, const struct process *p, uint32_t slot)
{
	const struct unwind_runtime *all = r->store->runtimes;

	for (int i = 0; i < UNWIND_PROCESS_RUNTIMES; i++)
		if (p->runtimes[i] && slot < r->store->runtime_count &&
		    runtimes_alike(&all[p->runtimes[i]], &all[slot]))
			return has_one_interpreter(r, p, &all[slot].cpython);
	return false;
}

static enum unwind_end go_on(struct resolver *r, struct process *p, struct captured *memory,
			     const struct unwind_cursor *cursor)
{
	const struct twin_memory access = { read_captured, memory };
	enum unwind_end end = UNWIND_END_NO_TABLE;
	uint64_t last_pc = 0;
	uint32_t same = 0, lost = 1u << UNWIND_STEP_PHP | 1u << UNWIND_STEP_RUBY;

	memory->seam = r->table->seam;
	memory->process = p;
	memory->pid = p->pid;
	memory->cursor = twin_cursor(r->twin);
	twin_start(r->twin, r->store, &access, cursor, p->set);
	twin_runtimes(r->twin, r->modules->steps, p->runtimes);
	/* Which functions ran can be read in the process only while they do. */
	if (memory->ahead.items && has_runtime(r, p, memory->ahead.slot))
		twin_ahead(r->twin, memory->ahead.items, memory->ahead.count);
	else
		lost |= 1u << UNWIND_STEP_CPYTHON;
	twin_lose(r->twin, lost);
	for (uint32_t i = 0; i < MENDS_MOST; i++) {
		const struct unwind_cursor *at = twin_cursor(r->twin);
		uint64_t pc;

		end = twin_walk(r->twin);
		pc = at->pc - at->return_address;
		/* A file that had to be opened and a page that had to be built: twice at one place.
		 */
		same = pc == last_pc ? same + 1 : 0;
		last_pc = pc;
		if (same > 2)
			break;
		if (end == UNWIND_END_NO_TABLE && mend_table(p, pc))
			continue;
		if (end != UNWIND_END_NO_MAPPING ||
		    !process_reread(r->table, p, clock_monotonic_ns()))
			break;
		twin_set(r->twin, p->set);
	}
	r->resumed++;
	return end == UNWIND_END_UNREADABLE && memory->missed ? UNWIND_END_CAPTURE : end;
}

/* The stack record's parts; false: it does not fit. */
static bool take_stack(struct str stack, struct unwind_cursor *cursor, struct captured *memory)
{
	struct stack_record s;

	if (stack.len < sizeof(s))
		return false;
	memcpy(&s, stack.ptr, sizeof(s));
	if (s.bytes > stack.len - sizeof(s) || s.cursor.frame_count > UNWIND_FRAMES_MAX)
		return false;
	*cursor = s.cursor;
	*memory = (struct captured){ .start = s.cursor.sp,
				     .bytes = str_from(stack.ptr + sizeof(s), s.bytes) };
	return true;
}

/* ---- a sample
 * ------------------------------------------------------------------------------------ */

/* Checks a record's own counts. `words` gets its kernel and user words, in one array. */
static bool take_record(struct str record, struct sample_record *s, const uint64_t **words)
{
	size_t count;

	if (record.len < sizeof(*s))
		return false;
	memcpy(s, record.ptr, sizeof(*s));
	count = (size_t)s->kernel_count + s->word_count;
	if (count > (record.len - sizeof(*s)) / sizeof(uint64_t) || count > UNWIND_WORDS_MAX ||
	    s->end >= UNWIND_END_COUNT)
		return false;
	*words = (const uint64_t *)(const void *)(record.ptr +
						  sizeof(*s)); /* 8-aligned in the ring */
	return true;
}

/* What BPF read ahead is behind the words of the walk: parts the two. */
static struct ahead part_ahead(struct sample_record *s, const uint64_t *words)
{
	const uint64_t *user = words + s->kernel_count;
	struct ahead found = { 0 };

	for (uint32_t i = 0; i + 1 < s->word_count; i += 1 + (user[i] >> 16 & 0xff)) {
		if ((user[i] & 0xff) != FRAME_TAG_AHEAD)
			continue;
		found.slot = (uint32_t)user[i + 1];
		found.items = user + i + 2;
		found.count = s->word_count - i - 2;
		s->word_count = (uint16_t)i;
		break;
	}
	return found;
}

/* Has the walk found nothing but where it began, in no mapping that BPF knew? Then it does not
 * matter which ones those were. */
static bool only_a_pc(const uint64_t *words, uint32_t count)
{
	return !count || (count == 2 && (words[0] & 0xff) == FRAME_TAG_PC);
}

/*
 * The kernel is still inside of exec(): the registers are those of the program before, whose memory
 * is gone. There is no user stack then. True: so it is.
 */
static bool leave_out_old_image(struct resolver *r, struct process *p,
				const struct sample_record *s)
{
	const struct trace_frame *f = r->frame_count ? &r->frames[r->frame_count - 1] : NULL;

	if (s->flags & SAMPLE_USER_MODE || (f && f->executable))
		p->ran = true;
	if (p->ran || !p->start_ns || r->frame_count != s->kernel_count + 1u ||
	    f->kind != FRAME_UNKNOWN || mapping_set_find(p->set, f->address))
		return false;
	r->frame_count--;
	return true;
}

/* A sample of which labels were lost is shown without them. */
static struct str take_labels(struct resolver *r, const struct sample_record *s, struct str record)
{
	struct str text = STR("");

	if (s->flags & SAMPLE_LABELS_UNREADABLE)
		r->labels.lost[LABEL_LOST_UNREADABLE]++;
	if (s->flags & SAMPLE_LABELS_RING || (s->flags & SAMPLE_LABELS && !record.len))
		r->labels.lost[LABEL_LOST_RING]++;
	else if (s->flags & SAMPLE_LABELS && !labels_take(&r->labels, record, &text))
		r->bad_records++;
	return text;
}

bool resolve_sample(struct resolver *r, struct str record, struct str stack, struct str labels,
		    struct trace *trace)
{
	struct sample_record s;
	struct unwind_cursor cursor;
	struct captured memory;
	struct ahead ahead;
	const uint64_t *words, *more;
	enum unwind_end end;
	const struct process *before;
	struct process *p;
	bool compared;
	uint32_t count;

	if (!take_record(record, &s, &words)) {
		r->bad_records++;
		return false;
	}
	ahead = part_ahead(&s, words);
	sample_costs_add(&r->costs, &s, words);
	before = process_table_find(r->table, s.pid);
	compared = before && before->exec_id_known; /* else BPF had no number to see exec() by */
	p = process_table_get(r->table, &s);
	if (!p)
		return false;
	if (!process_wanted(r->table, p)) {
		r->held_dropped++;
		return false;
	}
	runtimes_attach(r->table, p, clock_monotonic_ns());
	end = (enum unwind_end)s.end;
	r->frame_count = 0;
	for (uint32_t i = 0; i < s.kernel_count; i++)
		put(r, &(struct trace_frame){ .kind = FRAME_KERNEL,
					      .return_address = i > 0,
					      .address = words[i] });
	if (s.image && s.image != p->image && !compared &&
	    !only_a_pc(words + s.kernel_count, s.word_count)) {
		end = UNWIND_END_STALE; /* walked by the mappings of what ran before exec() */
	} else if (!put_words(r, p, s.time_ns, words + s.kernel_count, s.word_count)) {
		end = UNWIND_END_STALE; /* or before dlopen() */
	} else {
		if (end == UNWIND_END_NO_TABLE && !(s.flags & SAMPLE_STACK))
			build_for_next(r);
		if (s.flags & SAMPLE_STACK && take_stack(stack, &cursor, &memory)) {
			memory.ahead = ahead;
			end = go_on(r, p, &memory, &cursor);
			more = twin_words(r->twin, &count);
			put_words(r, p, 0, more, count); /* by the mappings of now */
		}
		if (leave_out_old_image(r, p, &s))
			end = UNWIND_END_KERNEL_ONLY;
	}
	r->ended[end]++;
	if (end > UNWIND_END_KERNEL_ONLY && r->frames_of_ends)
		put(r, &(struct trace_frame){ .kind = FRAME_END, .address = end });
	*trace = (struct trace){
		.origin = TRACE_ON_CPU,
		.pid = s.pid,
		.tid = s.tid,
		.cpu = s.cpu,
		.value = 1,
		.process = process_facts(r->table, p),
		.labels = take_labels(r, &s, labels),
		.frames = r->frames,
		.frame_count = r->frame_count,
	};
	memcpy(trace->comm, s.comm, sizeof(trace->comm));
	trace->comm[sizeof(trace->comm) - 1] = 0;
	return true;
}
