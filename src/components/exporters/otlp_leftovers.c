#include "components/exporters/otlp_leftovers.h"

#include <assert.h>
#include <stdlib.h>

enum { ENTRIES_MOST = 64 };

struct leftover_entry {
	struct leftover_entry *next;
	struct hash128 request;
	struct leftover left;
};

void leftovers_init(struct leftovers *l)
{
	*l = (struct leftovers){ 0 };
	pthread_mutex_init(&l->lock, NULL);
}

static struct leftover_entry *pop_oldest(struct leftovers *l)
{
	struct leftover_entry *e = l->first;

	l->first = e->next;
	if (!l->first)
		l->last = NULL;
	l->count--;
	return e;
}

void leftovers_release(struct leftovers *l)
{
	while (l->count)
		free(pop_oldest(l));
	pthread_mutex_destroy(&l->lock);
}

void leftovers_put(struct leftovers *l, struct hash128 request, const struct leftover *left)
{
	struct leftover_entry *e;

	pthread_mutex_lock(&l->lock);
	e = l->count == ENTRIES_MOST ? pop_oldest(l) : malloc(sizeof(*e));
	assert(e);
	*e = (struct leftover_entry){ .request = request, .left = *left };
	if (l->last)
		l->last->next = e;
	else
		l->first = e;
	l->last = e;
	l->count++;
	pthread_mutex_unlock(&l->lock);
}

static struct leftover_entry *unlink_entry(struct leftovers *l, struct hash128 request)
{
	struct leftover_entry *before = NULL;

	for (struct leftover_entry *e = l->first; e; before = e, e = e->next) {
		if (memcmp(&e->request, &request, sizeof(request)) != 0)
			continue;
		if (before)
			before->next = e->next;
		else
			l->first = e->next;
		if (l->last == e)
			l->last = before;
		l->count--;
		return e;
	}
	return NULL;
}

bool leftovers_take(struct leftovers *l, struct hash128 request, struct leftover *out)
{
	struct leftover_entry *e;

	pthread_mutex_lock(&l->lock);
	e = unlink_entry(l, request);
	pthread_mutex_unlock(&l->lock);
	if (!e)
		return false;
	*out = e->left;
	free(e);
	return true;
}
