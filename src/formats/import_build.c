#include "formats/import_build.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "formats/formats.h"

void import_begin(struct import *im, struct blob *bytes)
{
	static const struct import_hints nothing;

	import_begin_with(im, bytes, &nothing);
}

void import_begin_with(struct import *im, struct blob *bytes, const struct import_hints *hints)
{
	struct builder_options options = { .limit_bytes = IMPORT_MEMORY_MOST,
					   .copy_strings = true,
					   .body = bytes };

	*im = (struct import){ .b = builder_new(&options) };
	builder_begin_resource(im->b)->attributes =
		builder_key_values(im->b, hints->resource, hints->resource_count);
	im->scope = builder_begin_scope(im->b);
}

/* Beside what a reader has said there. */
static void say_rounded(struct import *im)
{
	struct key_values said = im->scope->attributes;
	struct key_value list[IMPORT_SCOPE_ATTRIBUTES];
	uint32_t count = 0;

	if (!im->rounded)
		return;
	while (count < said.count && count + 1 < IMPORT_SCOPE_ATTRIBUTES) {
		list[count] = said.ptr[count];
		count++;
	}
	list[count++] = (struct key_value){
		.key = STR(IMPORT_ROUNDED),
		.value = { .kind = ANY_INT, .integer = (int64_t)im->rounded },
	};
	im->scope->attributes = builder_key_values(im->b, list, count);
}

bool import_end(struct import *im, bool ok, struct profiles **out, struct err *err)
{
	struct builder *b = im->b;

	if (ok)
		say_rounded(im);
	free(im->stack);
	im->b = NULL;
	if (!ok) {
		builder_free(b);
		return false;
	}
	*out = builder_finish(b, err);
	return *out != NULL;
}

struct attribute_index import_text(struct import *im, const char *key, struct str value)
{
	struct attribute a = { .key = builder_string(im->b, str_cstr(key)),
			       .value = { .kind = ANY_STRING, .string = value } };

	return builder_attribute(im->b, &a);
}

struct attribute_index import_int(struct import *im, const char *key, int64_t value)
{
	struct attribute a = { .key = builder_string(im->b, str_cstr(key)),
			       .value = { .kind = ANY_INT, .integer = value } };

	return builder_attribute(im->b, &a);
}

struct location_index import_location(struct import *im, const struct import_frame *f)
{
	struct mapping m = { .filename = builder_string(im->b, f->binary) };
	struct function function = { .name = builder_string(im->b, f->function),
				     .system_name = builder_string(im->b, f->system_name),
				     .filename = builder_string(im->b, f->file),
				     .start_line = f->start_line };
	struct line lines[IMPORT_INLINED_MOST + 1];
	uint32_t count = 0;
	struct location l = { .address = f->address };
	struct attribute_index type;

	if (f->binary.len)
		l.mapping = builder_mapping(im->b, &m, NULL, 0);
	for (; count < f->inlined_count && count < IMPORT_INLINED_MOST; count++) {
		struct function inlined = { .name = builder_string(im->b, f->inlined[count]) };

		lines[count] = (struct line){ .function = builder_function(im->b, &inlined) };
	}
	if (f->function.len || count)
		lines[count++] = (struct line){ .line = f->line,
						.column = f->column,
						.function = builder_function(im->b, &function) };
	if (f->type.len)
		type = import_text(im, "profile.frame.type", f->type);
	return builder_location(im->b, &l, lines, count, &type, f->type.len ? 1 : 0);
}

struct profile *import_profile(struct import *im, struct str type, struct str unit,
			       struct str period_type, struct str period_unit, int64_t period)
{
	struct profile *p = builder_begin_profile(im->b);

	im->cut = 0;
	p->sample_type =
		(struct value_type){ builder_string(im->b, type), builder_string(im->b, unit) };
	p->period_type = (struct value_type){ builder_string(im->b, period_type),
					      builder_string(im->b, period_unit) };
	p->period = period;
	return p;
}

int64_t import_whole(struct import *im, double value)
{
	double whole = round(value + im->cut);

	if (!(value > -9.2e18 && value < 9.2e18))
		return value > 0 ? INT64_MAX : 0;
	if (value == round(value)) /* another one's fraction is not its business */
		return (int64_t)value;
	im->cut += value - whole;
	im->rounded++;
	return (int64_t)whole;
}

void import_stack_clear(struct import *im)
{
	im->stack_count = 0;
}

bool import_stack_push(struct import *im, struct location_index l, struct err *err)
{
	if (im->stack_count == IMPORT_STACK_MOST)
		return err_set(err, ERR_LIMIT, "a stack of more than %d frames", IMPORT_STACK_MOST);
	VEC_ROOM(im->stack, im->stack_count, im->stack_cap);
	im->stack[im->stack_count++] = l;
	return true;
}

void import_stack_drop(struct import *im, uint32_t count)
{
	if (!count)
		return;
	im->stack_count -= count;
	memmove(im->stack, im->stack + count, im->stack_count * sizeof(*im->stack));
}

void import_stack_reverse(struct import *im)
{
	for (uint32_t i = 0; i < im->stack_count / 2; i++) {
		struct location_index t = im->stack[i];

		im->stack[i] = im->stack[im->stack_count - 1 - i];
		im->stack[im->stack_count - 1 - i] = t;
	}
}

struct stack_index import_stack(struct import *im)
{
	return im->stack_count ? builder_stack(im->b, im->stack, im->stack_count)
			       : (struct stack_index){ 0 };
}

int64_t import_rounded(double v)
{
	if (!(v > -9.2e18 && v < 9.2e18))
		return v > 0 ? INT64_MAX : 0;
	return llround(v);
}
