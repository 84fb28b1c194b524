#include "pipeline/yaml_out.h"

#include <assert.h>
#include <stdlib.h>
#include <yaml.h>

#include "base/text.h"

struct yaml_out {
	yaml_emitter_t emitter;
	struct buf *out;
	unsigned open; /* maps and lists */
};

static int write_handler(void *data, unsigned char *text, size_t len)
{
	struct yaml_out *y = data;

	buf_append(y->out, text, len);
	return 1;
}

/* Events come from this file in the right order only; what may fail is memory. */
static void emit(struct yaml_out *y, yaml_event_t *event, int made)
{
	int ok = made && yaml_emitter_emit(&y->emitter, event);

	assert(ok);
}

struct yaml_out *yaml_out_new(struct buf *out)
{
	struct yaml_out *y = calloc(1, sizeof(*y));
	yaml_event_t e;
	int ok;

	assert(y);
	y->out = out;
	ok = yaml_emitter_initialize(&y->emitter);
	assert(ok);
	yaml_emitter_set_output(&y->emitter, write_handler, y);
	yaml_emitter_set_width(&y->emitter, -1);
	yaml_emitter_set_unicode(&y->emitter, 1);
	emit(y, &e, yaml_stream_start_event_initialize(&e, YAML_UTF8_ENCODING));
	emit(y, &e, yaml_document_start_event_initialize(&e, NULL, NULL, NULL, 1));
	return y;
}

static void end_document(struct yaml_out *y)
{
	yaml_event_t e;

	emit(y, &e, yaml_document_end_event_initialize(&e, 1));
	emit(y, &e, yaml_stream_end_event_initialize(&e));
}

void yaml_out_free(struct yaml_out *y)
{
	if (!y->open)
		end_document(y);
	yaml_emitter_delete(&y->emitter);
	free(y);
}

void yaml_map_begin(struct yaml_out *y)
{
	yaml_event_t e;

	y->open++;
	emit(y, &e,
	     yaml_mapping_start_event_initialize(&e, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE));
}

void yaml_map_end(struct yaml_out *y)
{
	yaml_event_t e;

	y->open--;
	emit(y, &e, yaml_mapping_end_event_initialize(&e));
}

void yaml_list_begin(struct yaml_out *y, bool flow)
{
	yaml_event_t e;

	y->open++;
	emit(y, &e,
	     yaml_sequence_start_event_initialize(&e, NULL, NULL, 1,
						  flow ? YAML_FLOW_SEQUENCE_STYLE
						       : YAML_BLOCK_SEQUENCE_STYLE));
}

void yaml_list_end(struct yaml_out *y)
{
	yaml_event_t e;

	y->open--;
	emit(y, &e, yaml_sequence_end_event_initialize(&e));
}

static void scalar(struct yaml_out *y, struct str text, yaml_scalar_style_t style)
{
	yaml_event_t e;
	struct buf clean;

	buf_init(&clean, 0);
	utf8_append_clean(&clean,
			  text); /* libyaml takes nothing else; text from flags may be anything */
	buf_char(&clean, 0);
	emit(y, &e,
	     yaml_scalar_event_initialize(&e, NULL, NULL, (const yaml_char_t *)clean.ptr,
					  (int)clean.len - 1, 1, 1, style));
	buf_release(&clean);
}

/* Text that reads as something other than a string when it stands alone. */
static bool reads_as_other(struct str text)
{
	const struct config_node n = { .kind = NODE_SCALAR, .text = text };

	return text.len == 0 || str_is(text, "~") || str_equal_nocase(text, STR("null")) ||
	       str_equal_nocase(text, STR("true")) || str_equal_nocase(text, STR("false")) ||
	       str_equal_nocase(text, STR("yes")) || str_equal_nocase(text, STR("no")) ||
	       str_equal_nocase(text, STR("on")) || str_equal_nocase(text, STR("off")) ||
	       strcmp(node_kind_name(&n), "string") != 0;
}

void yaml_bare(struct yaml_out *y, struct str text)
{
	scalar(y, text, YAML_ANY_SCALAR_STYLE);
}

void yaml_reference(struct yaml_out *y, struct str text)
{
	scalar(y, text, YAML_ANY_SCALAR_STYLE);
}

void yaml_string(struct yaml_out *y, struct str text)
{
	yaml_scalar_style_t style =
		reads_as_other(text) ? YAML_SINGLE_QUOTED_SCALAR_STYLE : YAML_ANY_SCALAR_STYLE;
	struct buf escaped;

	buf_init(&escaped, 0);
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];
		char next = i + 1 < text.len ? text.ptr[i + 1] : 0;

		if (c == '$' && (next == '{' || next == '$'))
			buf_char(&escaped, '$');
		buf_char(&escaped, c);
	}
	scalar(y, buf_view(&escaped), style);
	buf_release(&escaped);
}

void yaml_key(struct yaml_out *y, struct str key)
{
	/* Keys are not expanded, so nothing is escaped in them. */
	scalar(y, key,
	       reads_as_other(key) ? YAML_SINGLE_QUOTED_SCALAR_STYLE : YAML_ANY_SCALAR_STYLE);
}

void yaml_node(struct yaml_out *y, const struct config_node *n)
{
	if (n->reference.len) {
		yaml_reference(y, n->reference);
		return;
	}
	switch (n->kind) {
	case NODE_NULL:
		yaml_bare(y, STR("null"));
		break;
	case NODE_SCALAR:
		if (n->quoted)
			yaml_string(y, n->text);
		else
			yaml_bare(y, n->text);
		break;
	case NODE_MAP:
		yaml_map_begin(y);
		for (uint32_t i = 0; i < n->count; i++) {
			yaml_key(y, n->entries[i].key);
			yaml_node(y, n->entries[i].value);
		}
		yaml_map_end(y);
		break;
	case NODE_LIST:
		yaml_list_begin(y, n->count == 0);
		for (uint32_t i = 0; i < n->count; i++)
			yaml_node(y, n->items[i]);
		yaml_list_end(y);
		break;
	}
}
