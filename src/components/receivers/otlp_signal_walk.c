/*
 * otlp_signal_walk.c - requests of other signals, read just far enough to count their items and to
 * say whether they are whole: every message in them is walked, no value is looked at.
 *
 * Sources: opentelemetry-proto v1.9 trace.proto, metrics.proto, logs.proto, common.proto.
 */
#include "components/receivers/otlp.h"

#include "base/cleanup.h"
#include "wire/json_reader.h"
#include "wire/pb_reader.h"

enum { DEPTH_MOST = 100 }; /* Google's protobuf reads no deeper */

enum message {
	NO_MESSAGE,
	TRACES,
	RESOURCE_SPANS,
	SCOPE_SPANS,
	SPAN,
	EVENT,
	SPAN_LINK,
	METRICS,
	RESOURCE_METRICS,
	SCOPE_METRICS,
	METRIC,
	NUMBERS, /* Gauge, Sum */
	HISTOGRAM,
	EXPONENTIAL_HISTOGRAM,
	SUMMARY,
	NUMBER_POINT,
	HISTOGRAM_POINT,
	EXPONENTIAL_POINT,
	SUMMARY_POINT,
	EXEMPLAR,
	LOGS,
	RESOURCE_LOGS,
	SCOPE_LOGS,
	LOG_RECORD,
	RESOURCE,
	SCOPE,
	KEY_VALUE,
	ANY_VALUE,
	ARRAY_VALUE,
	KEY_VALUES,
	LEAF, /* has no messages in it */
	MESSAGES,
};

/* The fields of each message that are messages themselves. */
static const struct {
	bool item;
	struct {
		uint8_t number, message;
	} fields[7];
} messages[MESSAGES] = {
	[TRACES] = { .fields = { { 1, RESOURCE_SPANS } } },
	[RESOURCE_SPANS] = { .fields = { { 1, RESOURCE }, { 2, SCOPE_SPANS } } },
	[SCOPE_SPANS] = { .fields = { { 1, SCOPE }, { 2, SPAN } } },
	[SPAN] = { true, { { 9, KEY_VALUE }, { 11, EVENT }, { 13, SPAN_LINK }, { 15, LEAF } } },
	[EVENT] = { .fields = { { 3, KEY_VALUE } } },
	[SPAN_LINK] = { .fields = { { 4, KEY_VALUE } } },
	[METRICS] = { .fields = { { 1, RESOURCE_METRICS } } },
	[RESOURCE_METRICS] = { .fields = { { 1, RESOURCE }, { 2, SCOPE_METRICS } } },
	[SCOPE_METRICS] = { .fields = { { 1, SCOPE }, { 2, METRIC } } },
	[METRIC] = { .fields = { { 5, NUMBERS },
				 { 7, NUMBERS },
				 { 9, HISTOGRAM },
				 { 10, EXPONENTIAL_HISTOGRAM },
				 { 11, SUMMARY },
				 { 12, KEY_VALUE } } },
	[NUMBERS] = { .fields = { { 1, NUMBER_POINT } } },
	[HISTOGRAM] = { .fields = { { 1, HISTOGRAM_POINT } } },
	[EXPONENTIAL_HISTOGRAM] = { .fields = { { 1, EXPONENTIAL_POINT } } },
	[SUMMARY] = { .fields = { { 1, SUMMARY_POINT } } },
	[NUMBER_POINT] = { true, { { 5, EXEMPLAR }, { 7, KEY_VALUE } } },
	[HISTOGRAM_POINT] = { true, { { 8, EXEMPLAR }, { 9, KEY_VALUE } } },
	[EXPONENTIAL_POINT] = { true,
				{ { 1, KEY_VALUE }, { 8, LEAF }, { 9, LEAF }, { 11, EXEMPLAR } } },
	[SUMMARY_POINT] = { true, { { 6, LEAF }, { 7, KEY_VALUE } } },
	[EXEMPLAR] = { .fields = { { 7, KEY_VALUE } } },
	[LOGS] = { .fields = { { 1, RESOURCE_LOGS } } },
	[RESOURCE_LOGS] = { .fields = { { 1, RESOURCE }, { 2, SCOPE_LOGS } } },
	[SCOPE_LOGS] = { .fields = { { 1, SCOPE }, { 2, LOG_RECORD } } },
	[LOG_RECORD] = { true, { { 5, ANY_VALUE }, { 6, KEY_VALUE } } },
	[RESOURCE] = { .fields = { { 1, KEY_VALUE } } },
	[SCOPE] = { .fields = { { 3, KEY_VALUE } } },
	[KEY_VALUE] = { .fields = { { 2, ANY_VALUE } } },
	[ANY_VALUE] = { .fields = { { 5, ARRAY_VALUE }, { 6, KEY_VALUES } } },
	[ARRAY_VALUE] = { .fields = { { 1, ANY_VALUE } } },
	[KEY_VALUES] = { .fields = { { 1, KEY_VALUE } } },
};

static const uint8_t requests[OTLP_SIGNAL_COUNT] = { TRACES, METRICS, LOGS };

static uint8_t message_of(uint8_t message, uint32_t tag)
{
	if ((tag & 7) != PB_LEN)
		return NO_MESSAGE;
	for (size_t i = 0; i < ARRAY_LEN(messages[message].fields); i++)
		if (messages[message].fields[i].number == tag >> 3)
			return messages[message].fields[i].message;
	return NO_MESSAGE;
}

static uint64_t walk(struct pb_reader *r, uint8_t message, uint32_t depth)
{
	uint64_t count = messages[message].item;

	if (depth == DEPTH_MOST) {
		pb_fail(r, PB_DEEP, r->p);
		return 0;
	}
	while (pb_more(r)) {
		uint32_t tag = pb_tag(r);
		uint8_t inner = message_of(message, tag);

		if (inner) {
			struct pb_reader m = pb_message(r);

			count += walk(&m, inner, depth + 1);
			pb_join(r, &m);
		} else {
			pb_skip(r, tag);
		}
	}
	return count;
}

bool otlp_signal_count_protobuf(const struct otlp_signal *s, struct str body, uint64_t *count,
				struct err *err)
{
	struct pb_reader r = pb_reader_of(body);
	uint64_t found = walk(&r, requests[s - otlp_signals], 0);

	if (r.fault)
		return pb_report(&r, body.ptr, err);
	*count = found;
	return true;
}

static uint64_t count_object(struct json_reader *j, const char *const *keys);

/* The elements of an array, or what each holds below further keys. */
static uint64_t count_elements(struct json_reader *j, const char *const *keys)
{
	uint64_t count = 0;
	struct str key;

	if (!json_begin_array(j))
		return 0;
	while (json_next_element(j)) {
		if (keys[0]) {
			count += count_object(j, keys);
			continue;
		}
		count++;
		if (json_begin_object(j))
			while (json_next_key(j, &key))
				json_skip(j);
	}
	return count;
}

/* keys[0] "*" stands for any key: a metric's gauge, sum, histogram, ... */
static uint64_t count_object(struct json_reader *j, const char *const *keys)
{
	bool any = keys[0][0] == '*';
	uint64_t count = 0;
	struct str key;

	if (!json_begin_object(j))
		return 0;
	while (json_next_key(j, &key)) {
		if (any && json_peek(j) == JSON_OBJECT)
			count += count_object(j, keys + 1);
		else if (!any && json_key_is(key, keys[0]))
			count += count_elements(j, keys + 1);
		else
			json_skip(j);
	}
	return count;
}

bool otlp_signal_count_json(const struct otlp_signal *s, struct str body, uint64_t *count,
			    struct err *err)
{
	struct json_reader j;
	uint64_t found;
	bool ok;

	json_reader_init(&j, body, 0);
	found = count_object(&j, s->json_path);
	ok = json_finish(&j, err);
	json_reader_release(&j);
	if (ok)
		*count = found;
	return ok;
}
