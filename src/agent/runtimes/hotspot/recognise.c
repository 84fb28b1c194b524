#include <string.h>

#include "agent/runtimes/hotspot/hotspot.h"
#include "agent/runtimes/hotspot/layout.h"

_Static_assert(sizeof(struct hotspot_layout) <= RUNTIME_FACTS_MOST, "a layout is a file's facts");

bool hotspot_recognise(const struct elf_file *f, struct str path,
		       const struct runtime_tables *tables, struct runtime_binary *out)
{
	struct hotspot_layout layout;
	struct err err;

	(void)tables; /* it says all of it itself */
	(void)path;   /* any name will do: the machine may be linked into its launcher */
	if (!vm_structs_there(f) || !hotspot_layout_read(f, &layout, &err))
		return false;
	memcpy(out->facts, &layout, sizeof(layout));
	out->facts_bytes = sizeof(layout);
	return true;
}
