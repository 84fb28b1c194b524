/* pyro_messages.c - the fields of the query API's messages, and requests read by them. */
#include "base/cleanup.h"
#include "web/pyro.h"
#include "wire/pb_reader.h"

enum role {
	IS_NOTHING,
	IS_TYPE,
	IS_SELECTOR,
	IS_NAME,
	IS_MATCHER,
	IS_LABEL,
	IS_SPAN,
	IS_TRACE,
	IS_PROFILE_ID,
	IS_START,
	IS_END,
	IS_MAX_NODES,
	IS_LIMIT,
	IS_STEP,
	IS_FORMAT,
	IS_AVERAGE,
	IS_LEFT,
	IS_RIGHT,
	IS_STACK_TRACES,
};

#define F(number_, name_, type_, ...)                                                \
	{                                                                            \
		.name = name_, .number = number_, .type = PROTO_##type_, __VA_ARGS__ \
	}
#define R(number_, name_, type_, ...) F(number_, name_, type_, .repeated = true, ##__VA_ARGS__)
#define M(number_, name_, message_, ...) \
	F(number_, name_, MESSAGE, .message = &message_, ##__VA_ARGS__)
#define RM(number_, name_, message_, ...) \
	M(number_, name_, message_, .repeated = true, ##__VA_ARGS__)
#define MESSAGE(variable, ...)                                                 \
	static const struct proto_field variable##_fields[] = { __VA_ARGS__ }; \
	static const struct proto_message variable = { variable##_fields,      \
						       ARRAY_LEN(variable##_fields) }

/* ---- requests ---- */

static const char *const formats[] = { "PROFILE_FORMAT_UNSPECIFIED", "PROFILE_FORMAT_FLAMEGRAPH",
				       "PROFILE_FORMAT_TREE",        "PROFILE_FORMAT_DOT",
				       "PROFILE_FORMAT_PPROF",       NULL };
static const char *const aggregations[] = { "TIME_SERIES_AGGREGATION_TYPE_SUM",
					    "TIME_SERIES_AGGREGATION_TYPE_AVERAGE", NULL };
static const char *const exemplar_types[] = { "EXEMPLAR_TYPE_UNSPECIFIED", "EXEMPLAR_TYPE_NONE",
					      "EXEMPLAR_TYPE_INDIVIDUAL", "EXEMPLAR_TYPE_SPAN",
					      NULL };

#define TYPE_AND_SELECTOR                                                              \
	F(1, "profile_typeID", STRING, .role = IS_TYPE, .json_name = "profileTypeID"), \
		F(2, "label_selector", STRING, .role = IS_SELECTOR)
#define FORMAT(number_) F(number_, "format", ENUM, .role = IS_FORMAT, .enum_names = formats)

MESSAGE(location, F(1, "name", STRING));
MESSAGE(go_pgo, F(1, "keep_locations", INT32), F(2, "aggregate_callees", BOOL));
MESSAGE(stack_trace_selector, RM(1, "call_site", location), M(2, "go_pgo", go_pgo));

MESSAGE(profile_types_request, F(1, "start", INT64, .role = IS_START),
	F(2, "end", INT64, .role = IS_END));
MESSAGE(label_names_request, R(1, "matchers", STRING, .role = IS_MATCHER),
	F(2, "start", INT64, .role = IS_START), F(3, "end", INT64, .role = IS_END));
MESSAGE(label_values_request, F(1, "name", STRING, .role = IS_NAME),
	R(2, "matchers", STRING, .role = IS_MATCHER), F(3, "start", INT64, .role = IS_START),
	F(4, "end", INT64, .role = IS_END));
MESSAGE(series_request, R(1, "matchers", STRING, .role = IS_MATCHER),
	R(2, "label_names", STRING, .role = IS_LABEL), F(3, "start", INT64, .role = IS_START),
	F(4, "end", INT64, .role = IS_END));
MESSAGE(merge_stacktraces_request, TYPE_AND_SELECTOR, F(3, "start", INT64, .role = IS_START),
	F(4, "end", INT64, .role = IS_END), F(5, "max_nodes", INT64, .role = IS_MAX_NODES),
	FORMAT(6), M(7, "stack_trace_selector", stack_trace_selector, .role = IS_STACK_TRACES),
	R(8, "profile_id_selector", STRING, .role = IS_PROFILE_ID),
	R(10, "trace_id_selector", STRING, .role = IS_TRACE),
	R(11, "span_selector", STRING, .role = IS_SPAN));
MESSAGE(merge_span_profile_request, TYPE_AND_SELECTOR,
	R(3, "span_selector", STRING, .role = IS_SPAN), F(4, "start", INT64, .role = IS_START),
	F(5, "end", INT64, .role = IS_END), F(6, "max_nodes", INT64, .role = IS_MAX_NODES),
	FORMAT(7));
MESSAGE(merge_profile_request, TYPE_AND_SELECTOR, F(3, "start", INT64, .role = IS_START),
	F(4, "end", INT64, .role = IS_END), F(5, "max_nodes", INT64, .role = IS_MAX_NODES),
	M(6, "stack_trace_selector", stack_trace_selector, .role = IS_STACK_TRACES),
	R(7, "profile_id_selector", STRING, .role = IS_PROFILE_ID),
	R(8, "trace_id_selector", STRING, .role = IS_TRACE));
MESSAGE(select_series_request, TYPE_AND_SELECTOR, F(3, "start", INT64, .role = IS_START),
	F(4, "end", INT64, .role = IS_END), R(5, "group_by", STRING, .role = IS_LABEL),
	F(6, "step", DOUBLE, .role = IS_STEP),
	F(7, "aggregation", ENUM, .role = IS_AVERAGE, .enum_names = aggregations),
	M(8, "stack_trace_selector", stack_trace_selector, .role = IS_STACK_TRACES),
	F(9, "limit", INT64, .role = IS_LIMIT),
	F(10, "exemplar_type", ENUM, .enum_names = exemplar_types));
MESSAGE(diff_request, M(1, "left", merge_stacktraces_request, .role = IS_LEFT),
	M(2, "right", merge_stacktraces_request, .role = IS_RIGHT));
static const struct proto_message stats_request = { NULL, 0 };

/* ---- answers ---- */

MESSAGE(profile_type, F(1, "ID", STRING, .json_name = "ID"), F(2, "name", STRING),
	F(4, "sample_type", STRING), F(5, "sample_unit", STRING), F(6, "period_type", STRING),
	F(7, "period_unit", STRING));
MESSAGE(profile_types_answer, RM(1, "profile_types", profile_type));
MESSAGE(names_answer, R(1, "names", STRING));
MESSAGE(label_pair, F(1, "name", STRING), F(2, "value", STRING));
MESSAGE(labels, RM(1, "labels", label_pair));
MESSAGE(series_answer, RM(1, "labels_set", labels));
MESSAGE(point, F(1, "value", DOUBLE), F(2, "timestamp", INT64));
MESSAGE(point_series, RM(1, "labels", label_pair), RM(2, "points", point));
MESSAGE(select_series_answer, RM(1, "series", point_series));
MESSAGE(level, R(1, "values", INT64));
MESSAGE(flamegraph, R(1, "names", STRING), RM(2, "levels", level), F(3, "total", INT64),
	F(4, "max_self", INT64));
MESSAGE(flamegraph_diff, R(1, "names", STRING), RM(2, "levels", level), F(3, "total", INT64),
	F(4, "max_self", INT64), F(5, "leftTicks", INT64), F(6, "rightTicks", INT64));
MESSAGE(diff_answer, M(1, "flamegraph", flamegraph_diff));
MESSAGE(stats_answer, F(1, "data_ingested", BOOL), F(2, "oldest_profile_time", INT64),
	F(3, "newest_profile_time", INT64));

/* pprof's profile.proto */
MESSAGE(value_type, F(1, "type", INT64), F(2, "unit", INT64));
MESSAGE(pprof_label, F(1, "key", INT64), F(2, "str", INT64), F(3, "num", INT64),
	F(4, "num_unit", INT64));
MESSAGE(pprof_sample, R(1, "location_id", INT64), R(2, "value", INT64),
	RM(3, "label", pprof_label));
MESSAGE(pprof_mapping, F(1, "id", INT64), F(2, "memory_start", INT64), F(3, "memory_limit", INT64),
	F(4, "file_offset", INT64), F(5, "filename", INT64), F(6, "build_id", INT64),
	F(7, "has_functions", BOOL), F(8, "has_filenames", BOOL), F(9, "has_line_numbers", BOOL),
	F(10, "has_inline_frames", BOOL));
MESSAGE(pprof_line, F(1, "function_id", INT64), F(2, "line", INT64), F(3, "column", INT64));
MESSAGE(pprof_location, F(1, "id", INT64), F(2, "mapping_id", INT64), F(3, "address", INT64),
	RM(4, "line", pprof_line), F(5, "is_folded", BOOL));
MESSAGE(pprof_function, F(1, "id", INT64), F(2, "name", INT64), F(3, "system_name", INT64),
	F(4, "filename", INT64), F(5, "start_line", INT64));
MESSAGE(pprof, RM(1, "sample_type", value_type), RM(2, "sample", pprof_sample),
	RM(3, "mapping", pprof_mapping), RM(4, "location", pprof_location),
	RM(5, "function", pprof_function), R(6, "string_table", STRING), F(7, "drop_frames", INT64),
	F(8, "keep_frames", INT64), F(9, "time_nanos", INT64), F(10, "duration_nanos", INT64),
	M(11, "period_type", value_type), F(12, "period", INT64), R(13, "comment", INT64),
	F(14, "default_sample_type", INT64));
MESSAGE(merge_stacktraces_answer, M(1, "flamegraph", flamegraph), F(2, "tree", BYTES),
	F(3, "dot", STRING), M(5, "pprof", pprof));
MESSAGE(merge_span_profile_answer, M(1, "flamegraph", flamegraph), F(2, "tree", BYTES));

#define METHOD(name, request, answer, fn)                                                   \
	{                                                                                   \
		"/querier.v1.QuerierService/" name, &(request), &(answer), pyro_answer_##fn \
	}

const struct connect_method pyro_methods[PYRO_METHODS] = {
	[PYRO_PROFILE_TYPES] =
		METHOD("ProfileTypes", profile_types_request, profile_types_answer, profile_types),
	[PYRO_LABEL_NAMES] = METHOD("LabelNames", label_names_request, names_answer, label_names),
	[PYRO_LABEL_VALUES] =
		METHOD("LabelValues", label_values_request, names_answer, label_values),
	[PYRO_SERIES] = METHOD("Series", series_request, series_answer, series),
	[PYRO_SELECT_SERIES] =
		METHOD("SelectSeries", select_series_request, select_series_answer, select_series),
	[PYRO_MERGE_STACKTRACES] = METHOD("SelectMergeStacktraces", merge_stacktraces_request,
					  merge_stacktraces_answer, merge_stacktraces),
	[PYRO_MERGE_SPAN_PROFILE] = METHOD("SelectMergeSpanProfile", merge_span_profile_request,
					   merge_span_profile_answer, merge_span_profile),
	[PYRO_MERGE_PROFILE] =
		METHOD("SelectMergeProfile", merge_profile_request, pprof, merge_profile),
	[PYRO_DIFF] = METHOD("Diff", diff_request, diff_answer, diff),
	[PYRO_PROFILE_STATS] =
		METHOD("GetProfileStats", stats_request, stats_answer, profile_stats),
};

/* ---- a request ---- */

static bool add(struct pyro_list *list, struct str item, const char *name, struct err *err)
{
	if (list->count == PYRO_LIST_MOST)
		return err_set(err, ERR_LIMIT, "%s has more than %d entries", name, PYRO_LIST_MOST);
	list->items[list->count++] = item;
	return true;
}

static bool take_bytes(struct pyro_request *q, const struct proto_field *f, struct str v,
		       struct err *err)
{
	switch ((enum role)f->role) {
	case IS_TYPE:
		q->profile_type = v;
		return true;
	case IS_SELECTOR:
		q->selector = v;
		return true;
	case IS_NAME:
		q->name = v;
		return true;
	case IS_LEFT:
		q->left = v;
		return true;
	case IS_RIGHT:
		q->right = v;
		return true;
	case IS_STACK_TRACES:
		q->stack_traces = v;
		return true;
	case IS_MATCHER:
		return add(&q->matchers, v, f->name, err);
	case IS_LABEL:
		return add(&q->labels, v, f->name, err);
	case IS_SPAN:
		return add(&q->spans, v, f->name, err);
	case IS_TRACE:
		return add(&q->traces, v, f->name, err);
	case IS_PROFILE_ID:
		return add(&q->profile_ids, v, f->name, err);
	default:
		return true;
	}
}

static bool take_number(struct pyro_request *q, const struct proto_field *f, int64_t v,
			struct err *err)
{
	switch ((enum role)f->role) {
	case IS_START:
		q->start = v;
		break;
	case IS_END:
		q->end = v;
		break;
	case IS_MAX_NODES:
		q->max_nodes = v;
		break;
	case IS_LIMIT:
		q->limit = v;
		break;
	case IS_FORMAT:
		if (v < PYRO_UNSPECIFIED || v > PYRO_PPROF)
			return err_set(err, ERR_INVALID, "format %lld is unknown", (long long)v);
		q->format = (enum pyro_format)v;
		break;
	case IS_AVERAGE:
		q->average = v == 1;
		break;
	default:
		break;
	}
	return true;
}

bool pyro_request_read(const struct proto_message *m, struct str message, struct pyro_request *out,
		       struct err *err)
{
	struct pb_reader r = pb_reader_of(message);

	*out = (struct pyro_request){ 0 };
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);
		const struct proto_field *f = proto_field_find(m, tag >> 3);
		uint32_t type = tag & 7;

		if (f && type == PB_LEN && f->type >= PROTO_STRING && f->type != PROTO_ENUM) {
			if (!take_bytes(out, f, pb_bytes(&r), err))
				return false;
		} else if (f && type == PB_VARINT && f->type != PROTO_DOUBLE) {
			if (!take_number(out, f, (int64_t)pb_varint(&r), err))
				return false;
		} else if (f && type == PB_I64 && f->role == IS_STEP) {
			out->step = pb_double(&r);
		} else {
			pb_skip(&r, tag);
		}
	}
	return !r.fault || pb_report(&r, message.ptr, err);
}
