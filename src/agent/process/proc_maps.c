#include "agent/process/proc_maps.h"

#include <sys/sysmacros.h>

static bool hex(struct str *s, char end, uint64_t *out)
{
	uint64_t v = 0;
	size_t i;

	for (i = 0; i < s->len && s->ptr[i] != end; i++) {
		char c = s->ptr[i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
						   : -1;

		if (digit < 0 || v >> 60)
			return false;
		v = v << 4 | (uint64_t)digit;
	}
	if (!i || i == s->len)
		return false;
	*s = str_skip(*s, i + 1);
	*out = v;
	return true;
}

bool proc_maps_parse(struct str line, struct proc_mapping *out)
{
	uint64_t major, minor;
	struct str perms, inode;

	*out = (struct proc_mapping){ .path = STR("") };
	if (!hex(&line, '-', &out->start) || !hex(&line, ' ', &out->end) ||
	    !str_split(&line, ' ', &perms) || perms.len < 4 ||
	    !hex(&line, ' ', &out->file_offset) || !hex(&line, ':', &major) ||
	    !hex(&line, ' ', &minor) || !str_split(&line, ' ', &inode) ||
	    !str_to_u64(inode, &out->inode) || out->end < out->start)
		return false;
	out->executable = perms.ptr[2] == 'x';
	out->device = makedev((unsigned)major, (unsigned)minor);
	while (line.len && line.ptr[0] == ' ')
		line = str_skip(line, 1);
	if (str_has_suffix(line, STR(" (deleted)")))
		line.len -= STR(" (deleted)").len;
	out->path = line;
	return true;
}
