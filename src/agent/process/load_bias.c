#include "agent/process/load_bias.h"

#include "agent/process/proc_maps.h"

static bool is_file(struct str path, struct str name)
{
	return name.len && path.len > name.len && str_has_suffix(path, name) &&
	       path.ptr[path.len - name.len - 1] == '/';
}

static bool segment_at(const struct executable *e, const struct proc_mapping *m, uint64_t *bias)
{
	for (uint32_t i = 0; i < e->segment_count; i++) {
		const struct executable_segment *s = &e->segments[i];
		uint64_t into = m->file_offset - s->file_offset;

		if (m->file_offset < s->file_offset || into >= s->vaddr_limit - s->vaddr_start)
			continue;
		*bias = m->start - s->vaddr_start - into;
		return true;
	}
	return false;
}

bool load_bias_find(struct str maps, const struct executable *e, uint64_t *bias)
{
	struct proc_mapping m;
	struct str line;

	while (maps.len && str_split(&maps, '\n', &line))
		if (proc_maps_parse(line, &m) && m.executable && is_file(m.path, e->filename) &&
		    segment_at(e, &m, bias))
			return true;
	return false;
}
