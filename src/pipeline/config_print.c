#include <stdlib.h>

#include "pipeline/config_service.h"
#include "pipeline/yaml_out.h"

static void print_component(const struct config_component *c, struct yaml_out *out)
{
	struct problems quiet;
	struct arena scratch;
	void *state;

	problems_init(&quiet);
	arena_init(&scratch, 4096, 0);
	state = config_component_state(c, &scratch, &quiet); /* it went well at load time */
	yaml_key(out, str_cstr(c->id));
	yaml_map_begin(out);
	if (state)
		options_print(c->ops->fields, state, c->node, out);
	yaml_map_end(out);
	if (state && c->ops->release)
		c->ops->release(state);
	free(state);
	arena_release(&scratch);
	problems_release(&quiet);
}

static void print_kind(const struct config *c, enum component_kind kind, struct yaml_out *out)
{
	bool any = false;

	for (uint32_t i = 0; i < c->component_count; i++) {
		if (c->components[i].kind != kind)
			continue;
		if (!any) {
			yaml_key(out, str_cstr(config_section_name(kind)));
			yaml_map_begin(out);
		}
		any = true;
		print_component(&c->components[i], out);
	}
	if (any)
		yaml_map_end(out);
}

static void print_references(const char *key, const struct config_component *const *list,
			     uint32_t count, struct yaml_out *out)
{
	if (count == 0)
		return;
	yaml_key(out, str_cstr(key));
	yaml_list_begin(out, false);
	for (uint32_t i = 0; i < count; i++)
		yaml_string(out, str_cstr(list[i]->id));
	yaml_list_end(out);
}

static void print_pipelines(const struct config *c, struct yaml_out *out)
{
	yaml_key(out, STR("pipelines"));
	yaml_map_begin(out);
	for (uint32_t i = 0; i < c->pipeline_count; i++) {
		const struct config_pipeline *p = &c->pipelines[i];

		yaml_key(out, str_cstr(p->id));
		yaml_map_begin(out);
		print_references("receivers", p->receivers, p->receiver_count, out);
		print_references("processors", p->processors, p->processor_count, out);
		print_references("exporters", p->exporters, p->exporter_count, out);
		yaml_map_end(out);
	}
	yaml_map_end(out);
}

static void print_service(const struct config *c, struct yaml_out *out)
{
	const struct config_node *service = node_get(c->root, "service");

	yaml_key(out, STR("service"));
	yaml_map_begin(out);
	print_references("extensions", c->extensions, c->extension_count, out);
	print_pipelines(c, out);
	yaml_key(out, STR("telemetry"));
	yaml_map_begin(out);
	options_print(telemetry_fields, &c->telemetry, node_get(service, "telemetry"), out);
	yaml_map_end(out);
	yaml_key(out, STR("flametap"));
	yaml_map_begin(out);
	options_print(engine_fields, &c->engine, node_get(service, "flametap"), out);
	yaml_map_end(out);
	yaml_map_end(out);
}

void config_print(const struct config *c, struct buf *out)
{
	struct yaml_out *yaml = yaml_out_new(out);

	yaml_map_begin(yaml);
	print_kind(c, COMPONENT_RECEIVER, yaml);
	print_kind(c, COMPONENT_PROCESSOR, yaml);
	print_kind(c, COMPONENT_EXPORTER, yaml);
	print_kind(c, COMPONENT_EXTENSION, yaml);
	print_service(c, yaml);
	yaml_map_end(yaml);
	yaml_out_free(yaml);
}
