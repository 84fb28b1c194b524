#include "pipeline/problems.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum { TEXT_BYTES_MOST = 4096 };

void problems_init(struct problems *p)
{
	*p = (struct problems){ 0 };
	arena_init(&p->arena, 4096, 0);
}

void problems_release(struct problems *p)
{
	arena_release(&p->arena);
	*p = (struct problems){ 0 };
}

static struct problem *problem_add(struct problems *p)
{
	if (p->count == p->cap) {
		uint32_t cap = p->cap ? p->cap * 2 : 16;

		p->items = arena_grow(&p->arena, p->items, p->cap * sizeof(*p->items),
				      cap * sizeof(*p->items));
		assert(p->items);
		p->cap = cap;
	}
	return &p->items[p->count++];
}

static void append_pos(struct buf *b, const struct config_pos *pos)
{
	if (!pos || !pos->file)
		return;
	buf_str(b, str_cstr(pos->file));
	if (pos->line)
		buf_printf(b, ":%u:%u", pos->line, pos->column);
	buf_lit(b, ": ");
}

__attribute__((format(printf, 4, 0))) static void problem_note(struct problems *p, bool warning,
							       const struct config_pos *pos,
							       const char *format, va_list ap)
{
	struct problem *problem;
	struct buf text;

	p->error_count += !warning;
	if (p->count >= PROBLEMS_MOST) {
		p->suppressed++;
		return;
	}
	buf_init(&text, TEXT_BYTES_MOST);
	append_pos(&text, pos);
	buf_vprintf(&text, format, ap);
	problem = problem_add(p);
	problem->warning = warning;
	problem->pos = pos ? *pos : (struct config_pos){ 0 };
	problem->text = str_dup_cstr(&p->arena, buf_view(&text));
	buf_release(&text);
}

void problem_error(struct problems *p, const struct config_pos *pos, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	problem_note(p, false, pos, format, ap);
	va_end(ap);
}

void problem_warn(struct problems *p, const struct config_pos *pos, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	problem_note(p, true, pos, format, ap);
	va_end(ap);
}

/* By file and line; what has no place keeps its turn behind what has one. */
static int problem_compare(const void *a, const void *b)
{
	const struct problem *x = *(const struct problem *const *)a;
	const struct problem *y = *(const struct problem *const *)b;
	int order;

	if (!x->pos.line != !y->pos.line)
		return x->pos.line ? -1 : 1;
	if (x->pos.line) {
		order = strcmp(x->pos.file ? x->pos.file : "", y->pos.file ? y->pos.file : "");
		if (order)
			return order;
		if (x->pos.line != y->pos.line)
			return x->pos.line < y->pos.line ? -1 : 1;
		if (x->pos.column != y->pos.column)
			return x->pos.column < y->pos.column ? -1 : 1;
	}
	return x < y ? -1 : x > y;
}

void problems_write(const struct problems *p, bool with_warnings, struct buf *out)
{
	const struct problem *sorted[PROBLEMS_MOST];

	for (uint32_t i = 0; i < p->count; i++)
		sorted[i] = &p->items[i];
	qsort(sorted, p->count, sizeof(sorted[0]), problem_compare);
	for (uint32_t i = 0; i < p->count; i++) {
		if (sorted[i]->warning && !with_warnings)
			continue;
		if (sorted[i]->warning)
			buf_lit(out, "warning: ");
		buf_str(out, str_cstr(sorted[i]->text));
		buf_char(out, '\n');
	}
	if (p->suppressed)
		buf_printf(out, "and %u more\n", p->suppressed);
}

void problems_log_warnings(const struct problems *p)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (p->items[i].warning)
			log_write(LOG_WARN, p->items[i].text, NULL, 0);
}
