#include "wire/decode.h"

/* A list of attributes that grows while its message (or, merged, several of them) is read. */
struct attribute_list {
	struct key_value *ptr;
	uint32_t count, cap;
};

static void attribute_list_add(struct decoder *d, struct pb_reader *r, struct owner owner,
			       struct attribute_list *list)
{
	struct pb_reader nested = pb_message(r);

	if (list->count == list->cap) {
		uint32_t cap = list->cap ? 2 * list->cap : 8;
		struct key_value *bigger =
			arena_grow(&d->p->arena, list->ptr, list->cap * sizeof(*bigger),
				   cap * sizeof(*bigger));

		if (!bigger) {
			pb_fail(r, PB_LIMIT, nested.p);
			return;
		}
		list->ptr = bigger;
		list->cap = cap;
	}
	key_value_decode(d, &nested, owner, 0, &list->ptr[list->count]);
	decoder_join(d, r, &nested, "KeyValue");
	if (!r->fault)
		list->count++;
}

/* Keeps a whole field, tag and all. */
static void keep_raw(struct decoder *d, struct pb_reader *r, uint32_t tag, const uint8_t *at,
		     struct owner owner, enum extra_key key)
{
	pb_skip(r, tag);
	if (!r->fault)
		decoder_extra(d, r, owner, key,
			      &(struct any_value){ .kind = ANY_BYTES,
						   .string = str_from(at, (size_t)(r->p - at)) });
}

static void resource_decode(struct decoder *d, struct pb_reader *r, uint32_t index,
			    struct attribute_list *list)
{
	struct owner owner = { MESSAGE_RESOURCE, index };

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_LEN):
			attribute_list_add(d, r, owner, list);
			break;
		case PB_TAG(2, PB_VARINT):
			d->p->resources[index].dropped_attributes_count = (uint32_t)pb_varint(r);
			break;
		case PB_TAG(3, PB_LEN):
			keep_raw(d, r, tag, at, owner, EXTRA_ENTITY_REFS);
			break;
		default:
			decoder_unknown(d, r, tag, at, owner);
		}
	}
}

static void scope_decode(struct decoder *d, struct pb_reader *r, uint32_t index,
			 struct attribute_list *list)
{
	struct owner owner = { MESSAGE_SCOPE, index };
	struct scope_profiles *out = &d->p->scopes[index];

	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_LEN):
			out->name = pb_bytes(r);
			break;
		case PB_TAG(2, PB_LEN):
			out->version = pb_bytes(r);
			break;
		case PB_TAG(3, PB_LEN):
			attribute_list_add(d, r, owner, list);
			break;
		case PB_TAG(4, PB_VARINT):
			out->dropped_attributes_count = (uint32_t)pb_varint(r);
			break;
		default:
			decoder_unknown(d, r, tag, at, owner);
		}
	}
}

static void scope_profiles_decode(struct decoder *d, struct pb_reader *r)
{
	struct profiles *p = d->p;
	struct attribute_list attributes = { 0 };
	struct pb_reader nested;
	uint32_t index = p->scope_count;

	if (!ROOM(d, r, p->scopes, p->scope_count, scopes, 1))
		return;
	p->scopes[p->scope_count++] = (struct scope_profiles){ .profiles.first = p->profile_count };
	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_LEN):
			nested = pb_message(r);
			scope_decode(d, &nested, index, &attributes);
			decoder_join(d, r, &nested, "InstrumentationScope");
			break;
		case PB_TAG(2, PB_LEN):
			nested = pb_message(r);
			if (d->legacy)
				legacy_profile_decode(d, &nested);
			else
				profile_decode(d, &nested);
			decoder_join(d, r, &nested, "Profile");
			break;
		case PB_TAG(3, PB_LEN):
			p->scopes[index].schema_url = pb_bytes(r);
			break;
		default:
			decoder_unknown(d, r, tag, at,
					(struct owner){ MESSAGE_SCOPE_PROFILES, index });
		}
	}
	p->scopes[index].attributes = (struct key_values){ attributes.ptr, attributes.count };
	p->scopes[index].profiles.count = p->profile_count - p->scopes[index].profiles.first;
}

void resource_profiles_decode(struct decoder *d, struct pb_reader *r)
{
	struct profiles *p = d->p;
	struct attribute_list attributes = { 0 };
	struct pb_reader nested;
	uint32_t index = p->resource_count;

	if (!ROOM(d, r, p->resources, p->resource_count, resources, 1))
		return;
	p->resources[p->resource_count++] =
		(struct resource_profiles){ .scopes.first = p->scope_count };
	while (pb_more(r)) {
		const uint8_t *at = r->p;
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_LEN):
			nested = pb_message(r);
			resource_decode(d, &nested, index, &attributes);
			decoder_join(d, r, &nested, "Resource");
			break;
		case PB_TAG(2, PB_LEN):
			nested = pb_message(r);
			scope_profiles_decode(d, &nested);
			decoder_join(d, r, &nested, "ScopeProfiles");
			break;
		case PB_TAG(3, PB_LEN):
			p->resources[index].schema_url = pb_bytes(r);
			break;
		default:
			decoder_unknown(d, r, tag, at,
					(struct owner){ MESSAGE_RESOURCE_PROFILES, index });
		}
	}
	p->resources[index].attributes = (struct key_values){ attributes.ptr, attributes.count };
	p->resources[index].scopes.count = p->scope_count - p->resources[index].scopes.first;
}
