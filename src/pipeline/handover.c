#include "pipeline/handover.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

bool handover_is_open(const struct handover *h)
{
	return h && h->open;
}

bool handover_leave(struct handover *h, const void *kind, const char *id, void *what,
		    void (*free_what)(void *what))
{
	struct handover_item *item;

	if (!handover_is_open(h) || h->count == HANDOVERS_MOST || strlen(id) >= sizeof(item->id))
		return false;
	item = &h->items[h->count++];
	*item = (struct handover_item){ .kind = kind, .what = what, .free_what = free_what };
	snprintf(item->id, sizeof(item->id), "%s", id);
	return true;
}

void *handover_take(struct handover *h, const void *kind, const char *id)
{
	for (unsigned i = 0; h && i < h->count; i++) {
		void *what = h->items[i].what;

		if (h->items[i].kind != kind || strcmp(h->items[i].id, id) != 0)
			continue;
		h->items[i] = h->items[--h->count];
		return what;
	}
	return NULL;
}

void handover_open(struct handover *h)
{
	h->open = true;
}

void handover_close(struct handover *h)
{
	h->open = false;
	while (h->count) {
		struct handover_item *item = &h->items[--h->count];

		item->free_what(item->what);
	}
}
