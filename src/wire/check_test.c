#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "base/cleanup.h"
#include "wire/check.h"
#include "wire/json_transcode.h"
#include "wire_fixtures.h"

#define TRACE "000102030405060708090a0b0c0d0e0f"
#define SPAN  "0001020304050607"

/* Messages without a finding; a row breaks one rule of one of them. */
static const char newest[] =
	"{\"resourceProfiles\":[{\"resource\":{\"attributes\":["
	"{\"key\":\"service.name\",\"value\":{\"stringValue\":\"shop\"}},"
	"{\"keyStrindex\":9,\"value\":{\"stringValueStrindex\":10}}]},"
	"\"scopeProfiles\":[{\"scope\":{\"name\":\"s\",\"attributes\":[{\"key\":\"k\",\"value\":{"
	"\"intValue\":\"1\"}}]},"
	"\"profiles\":[{\"sampleType\":{\"typeStrindex\":1,\"unitStrindex\":2},\"samples\":["
	"{\"stackIndex\":1,\"attributeIndices\":[1],\"linkIndex\":1,\"timestampsUnixNano\":["
	"\"1000\",\"1099\"]},"
	"{\"stackIndex\":2,\"attributeIndices\":[1],\"timestampsUnixNano\":[\"1002\"]}],"
	"\"timeUnixNano\":\"1000\",\"durationNano\":\"100\",\"periodType\":{\"typeStrindex\":3,"
	"\"unitStrindex\":4},"
	"\"period\":\"5\",\"profileId\":\"" TRACE "\",\"originalPayloadFormat\":\"pprof\","
	"\"originalPayload\":\"AAE=\",\"attributeIndices\":[2]}]}]}],"
	"\"dictionary\":{\"mappingTable\":[{},{\"memoryStart\":\"4096\",\"memoryLimit\":\"8192\","
	"\"filenameStrindex\":5,\"attributeIndices\":[2]}],"
	"\"locationTable\":[{},{\"mappingIndex\":1,\"address\":\"5000\",\"lines\":"
	"[{\"functionIndex\":1,\"line\":\"3\",\"column\":\"1\"}],\"attributeIndices\":[1]},"
	"{\"mappingIndex\":1,\"address\":\"6000\"}],"
	"\"functionTable\":[{},{\"nameStrindex\":6,\"filenameStrindex\":7,\"startLine\":\"1\"}],"
	"\"linkTable\":[{},{\"traceId\":\"" TRACE "\",\"spanId\":\"" SPAN "\"}],"
	"\"stringTable\":[\"\",\"samples\",\"count\",\"cpu\",\"nanoseconds\",\"libc.so\",\"main\","
	"\"main.c\",\"k1\","
	"\"host\",\"h1\",\"k2\",\"ms\"],"
	"\"attributeTable\":[{},{\"keyStrindex\":8,\"value\":{\"stringValue\":\"v\"}},"
	"{\"keyStrindex\":11,\"value\":{\"intValue\":\"1\"},\"unitStrindex\":12}],"
	"\"stackTable\":[{},{\"locationIndices\":[1,2]},{\"locationIndices\":[2]}]}}";

static const char small[] =
	"{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"sampleType\":{"
	"\"typeStrindex\":1}}]}]}],"
	"\"dictionary\":{\"mappingTable\":[{}],\"locationTable\":[{}],\"functionTable\":[{}],"
	"\"linkTable\":[{}],"
	"\"stringTable\":[\"\",\"cpu\"],\"attributeTable\":[{}],\"stackTable\":[{}]}}";

static const char v1_7[] =
	"{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"sampleType\":[{"
	"\"typeStrindex\":1}],\"sample\":["
	"{\"locationsStartIndex\":0,\"locationsLength\":2,\"value\":[\"1\"],\"attributeIndices\":["
	"0],\"linkIndex\":0,"
	"\"timestampsUnixNano\":[\"1000\"]},{\"locationsStartIndex\":1,\"locationsLength\":2,"
	"\"value\":[\"1\"]}],"
	"\"locationIndices\":[0,1,0],\"timeNanos\":\"1000\",\"durationNanos\":\"100\","
	"\"defaultSampleTypeIndex\":0,"
	"\"commentStrindices\":[1]}]}]}],"
	"\"dictionary\":{\"mappingTable\":[{\"memoryStart\":\"1\",\"memoryLimit\":\"2\","
	"\"hasFunctions\":true}],"
	"\"locationTable\":[{\"mappingIndex\":0,\"address\":\"1\",\"line\":[{\"functionIndex\":0,"
	"\"line\":\"1\"}]},"
	"{\"address\":\"2\",\"isFolded\":true}],"
	"\"functionTable\":[{\"nameStrindex\":1}],\"linkTable\":[{\"traceId\":\"" TRACE
	"\",\"spanId\":\"" SPAN "\"}],"
	"\"stringTable\":[\"\",\"cpu\"],\"attributeTable\":[{\"key\":\"a\",\"value\":{\"intValue\":"
	"\"1\"}}],"
	"\"attributeUnits\":[{\"attributeKeyStrindex\":1,\"unitStrindex\":1}]}}";

static const char v1_4[] =
	"{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"sampleType\":[{"
	"\"typeStrindex\":1}],\"sample\":["
	"{\"locationsLength\":1,\"value\":[\"1\"]}],\"locationTable\":[{\"address\":\"1\"}],"
	"\"locationIndices\":[0],"
	"\"functionTable\":[{\"nameStrindex\":1}],\"stringTable\":[\"\",\"cpu\"],\"timeNanos\":"
	"\"1000\","
	"\"defaultSampleTypeStrindex\":1,\"attributes\":[{\"key\":\"a\",\"value\":{}}]}]}]}]}";

static const char v1_3[] =
	"{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"profileId\":\"" TRACE "\","
	"\"startTimeUnixNano\":\"1000\",\"endTimeUnixNano\":\"1100\",\"profile\":{\"sampleType\":[{"
	"\"type\":\"1\"}],"
	"\"sample\":[{\"locationsLength\":\"1\",\"value\":[\"1\"],\"attributes\":[\"0\"],\"label\":"
	"[{\"key\":\"1\"}]}],"
	"\"mapping\":[{\"filename\":\"1\"}],\"location\":[{\"mappingIndex\":\"0\",\"typeIndex\":1}]"
	","
	"\"function\":[{\"name\":\"1\"}],\"stringTable\":[\"\",\"cpu\"],\"locationIndices\":[\"0\"]"
	","
	"\"attributeTable\":[{\"key\":\"a\",\"value\":{}}]}}]}]}]}";

#define P              "resource_profiles[0].scope_profiles[0].profiles[0]"
#define SAMPLE(fields) "\"samples\":[{" fields "},"
#define S              "\"samples\":["
#define A              "\"resource\":{\"attributes\":["
#define RA             "resource_profiles[0].resource.attributes[0]"

static const struct {
	const char *base, *find, *replace; /* the first occurrence */
	enum check_severity severity;
	const char *rule, *path, *message; /* message: part of it */
} rows[] = {
	/* what has to be there */
	{ small, "{\"scopeProfiles\":[{\"profiles\":[{\"sampleType\":{\"typeStrindex\":1}}]}]}", "",
	  CHECK_ERROR, "resource-profiles-empty", "resource_profiles", "no entry" },
	{ small, "[{\"scope", "[{},{\"scope", CHECK_ERROR, "scope-profiles-empty",
	  "resource_profiles[0]", "" },
	{ small, "[{\"profiles", "[{},{\"profiles", CHECK_ERROR, "profiles-empty",
	  "resource_profiles[0].scope_profiles[0]", "" },
	{ small, "{\"sampleType\":{\"typeStrindex\":1}}",
	  "{\"sampleType\":{\"typeStrindex\":1}},{}", CHECK_WARNING, "sample-type-missing",
	  "resource_profiles[0].scope_profiles[0].profiles[1]", "" },
	/* tables */
	{ small, "\"mappingTable\":[{}],", "", CHECK_ERROR, "table-empty",
	  "dictionary.mapping_table", "" },
	{ small, "\"locationTable\":[{}],", "", CHECK_ERROR, "table-empty",
	  "dictionary.location_table", "" },
	{ small, "\"functionTable\":[{}],", "", CHECK_ERROR, "table-empty",
	  "dictionary.function_table", "" },
	{ small, "\"linkTable\":[{}],", "", CHECK_ERROR, "table-empty", "dictionary.link_table",
	  "" },
	{ small, "\"attributeTable\":[{}],", "", CHECK_ERROR, "table-empty",
	  "dictionary.attribute_table", "" },
	{ small, ",\"stackTable\":[{}]", "", CHECK_ERROR, "table-empty", "dictionary.stack_table",
	  "" },
	{ small, "\"mappingTable\":[{}", "\"mappingTable\":[{\"fileOffset\":1}", CHECK_ERROR,
	  "zero-entry", "dictionary.mapping_table[0]", "" },
	{ small, "\"locationTable\":[{}", "\"locationTable\":[{\"address\":1}", CHECK_ERROR,
	  "zero-entry", "dictionary.location_table[0]", "" },
	{ small, "\"locationTable\":[{}", "\"locationTable\":[{\"lines\":[{}]}", CHECK_ERROR,
	  "zero-entry", "dictionary.location_table[0]", "" },
	{ small, "\"functionTable\":[{}", "\"functionTable\":[{\"startLine\":1}", CHECK_ERROR,
	  "zero-entry", "dictionary.function_table[0]", "" },
	{ small, "\"linkTable\":[{}", "\"linkTable\":[{\"spanId\":\"" SPAN "\"}", CHECK_ERROR,
	  "zero-entry", "dictionary.link_table[0]", "" },
	{ small, "\"attributeTable\":[{}", "\"attributeTable\":[{\"value\":{\"stringValue\":\"\"}}",
	  CHECK_ERROR, "zero-entry", "dictionary.attribute_table[0]", "" },
	{ small, "\"attributeTable\":[{}", "\"attributeTable\":[{\"value\":{\"intValue\":0}}",
	  CHECK_ERROR, "zero-entry", "dictionary.attribute_table[0]", "" },
	{ small, "\"attributeTable\":[{}", "\"attributeTable\":[{\"value\":{\"arrayValue\":{}}}",
	  CHECK_ERROR, "zero-entry", "dictionary.attribute_table[0]", "" },
	{ small, "\"attributeTable\":[{}", "\"attributeTable\":[{\"unitStrindex\":1}", CHECK_ERROR,
	  "zero-entry", "dictionary.attribute_table[0]", "" },
	{ small, "\"stackTable\":[{}", "\"stackTable\":[{\"locationIndices\":[0]}", CHECK_ERROR,
	  "zero-entry", "dictionary.stack_table[0]", "" },
	{ small, "[\"\",\"cpu\"]", "[\"a\",\"cpu\"]", CHECK_ERROR, "zero-entry",
	  "dictionary.string_table[0]", "" },
	{ newest, "\"ms\"]", "\"ms\",\"k2\"]", CHECK_WARNING, "duplicate-entry",
	  "dictionary.string_table[13]", "string_table[11]" },
	{ small, "\"cpu\"]", "\"cpu\",\"x\"]", CHECK_WARNING, "orphan-entry",
	  "dictionary.string_table[2]", "" },
	{ small, "\"mappingTable\":[{}", "\"mappingTable\":[{},{\"fileOffset\":1}", CHECK_WARNING,
	  "orphan-entry", "dictionary.mapping_table[1]", "" },
	{ small, "\"stackTable\":[{}", "\"stackTable\":[{},{\"locationIndices\":[0]}",
	  CHECK_WARNING, "orphan-entry", "dictionary.stack_table[1]", "" },
	{ small, "\"attributeTable\":[{}", "\"attributeTable\":[{},{\"keyStrindex\":1}",
	  CHECK_WARNING, "orphan-entry", "dictionary.attribute_table[1]", "" },
	/* references */
	{ newest, S, SAMPLE("\"stackIndex\":3,\"timestampsUnixNano\":[1000]"), CHECK_ERROR,
	  "stack-index-range", P ".samples[0].stack_index", "is 3, stack_table has 3 entries" },
	{ newest, S, SAMPLE("\"stackIndex\":-1,\"timestampsUnixNano\":[1000]"), CHECK_ERROR,
	  "stack-index-range", P ".samples[0].stack_index", "is -1, stack_table has 3 entries" },
	{ newest, S, SAMPLE("\"linkIndex\":2,\"timestampsUnixNano\":[1000]"), CHECK_ERROR,
	  "link-index-range", P ".samples[0].link_index", "is 2, link_table has 2 entries" },
	{ newest, S, SAMPLE("\"attributeIndices\":[0,9],\"timestampsUnixNano\":[1000]"),
	  CHECK_ERROR, "attribute-index-range", P ".samples[0].attribute_indices[1]",
	  "is 9, attribute_table has 3 entries" },
	{ newest, "[2]}]}]}]", "[2,5]}]}]}]", CHECK_ERROR, "attribute-index-range",
	  P ".attribute_indices[1]", "" },
	{ newest, "\"locationIndices\":[1,2]", "\"locationIndices\":[1,2,3]", CHECK_ERROR,
	  "location-index-range", "dictionary.stack_table[1].location_indices[2]",
	  "is 3, location_table has 3 entries" },
	{ newest, "{\"mappingIndex\":1,\"address\":\"6000\"}",
	  "{\"mappingIndex\":2,\"address\":\"6000\"}", CHECK_ERROR, "mapping-index-range",
	  "dictionary.location_table[2].mapping_index", "is 2, mapping_table has 2 entries" },
	{ newest, "\"lines\":[", "\"lines\":[{\"functionIndex\":2},", CHECK_ERROR,
	  "function-index-range", "dictionary.location_table[1].lines[0].function_index",
	  "is 2, function_table has 2 entries" },
	{ newest, "\"nameStrindex\":6,", "\"nameStrindex\":6,\"systemNameStrindex\":13,",
	  CHECK_ERROR, "string-index-range", "dictionary.function_table[1].system_name_strindex",
	  "is 13, string_table has 13" },
	{ small, "\"typeStrindex\":1", "\"typeStrindex\":1,\"unitStrindex\":2", CHECK_ERROR,
	  "string-index-range", P ".sample_type.unit_strindex",
	  "is 2, string_table has 2 entries" },
	{ small, "\"typeStrindex\":1}", "\"typeStrindex\":1},\"periodType\":{\"typeStrindex\":7}",
	  CHECK_ERROR, "string-index-range", P ".period_type.type_strindex", "" },
	{ newest, "\"unitStrindex\":12}", "\"unitStrindex\":12},{\"keyStrindex\":99}", CHECK_ERROR,
	  "string-index-range", "dictionary.attribute_table[3].key_strindex", "is 99" },
	{ newest, A, A "{\"keyStrindex\":13},", CHECK_ERROR, "string-index-range",
	  RA ".key_strindex", "" },
	{ newest, A,
	  A
	  "{\"key\":\"x\",\"value\":{\"arrayValue\":{\"values\":[{\"stringValueStrindex\":77}]}}},",
	  CHECK_ERROR, "string-index-range",
	  RA ".value.array_value.values[0].string_value_strindex", "is 77" },
	/* attributes */
	{ newest, S, SAMPLE("\"attributeIndices\":[1,2,1],\"timestampsUnixNano\":[1000]"),
	  CHECK_ERROR, "attribute-key-duplicate", P ".samples[0].attribute_indices", "" },
	{ newest, "[2]}]}]}]", "[2,2]}]}]}]", CHECK_ERROR, "attribute-key-duplicate",
	  P ".attribute_indices", "" },
	{ newest, "\"filenameStrindex\":5,\"attributeIndices\":[2]",
	  "\"filenameStrindex\":5,\"attributeIndices\":[2,2]", CHECK_ERROR,
	  "attribute-key-duplicate", "dictionary.mapping_table[1].attribute_indices", "" },
	{ newest, "}],\"attributeIndices\":[1]},", "}],\"attributeIndices\":[1,1]},", CHECK_ERROR,
	  "attribute-key-duplicate", "dictionary.location_table[1].attribute_indices", "" },
	{ newest, A, A "{\"key\":\"host\",\"value\":{}},", CHECK_ERROR, "attribute-key-duplicate",
	  "resource_profiles[0].resource.attributes[2]", "\"host\" of attributes[0]" },
	{ newest, "\"name\":\"s\",\"attributes\":[",
	  "\"name\":\"s\",\"attributes\":[{\"key\":\"k\"},", CHECK_ERROR, "attribute-key-duplicate",
	  "resource_profiles[0].scope_profiles[0].scope.attributes[1]", "" },
	{ newest, A, A "{\"value\":{\"boolValue\":true}},", CHECK_ERROR, "key-empty", RA, "" },
	{ newest, "\"keyStrindex\":9", "\"key\":\"host\",\"keyStrindex\":9", CHECK_WARNING,
	  "key-twice", "resource_profiles[0].resource.attributes[1]",
	  "\"host\" and key_strindex 9 \"host\"" },
	{ newest, "\"keyStrindex\":9", "\"key\":\"other\",\"keyStrindex\":9", CHECK_ERROR,
	  "key-twice", "resource_profiles[0].resource.attributes[1]", "" },
	{ newest, "{\"stringValue\":\"shop\"}", "{\"stringValue\":\"shop\",\"intValue\":1}",
	  CHECK_WARNING, "value-several", RA ".value", "2 members" },
	{ newest, "\"value\":{\"stringValue\":\"v\"}", "\"value\":{\"stringValueStrindex\":1}",
	  CHECK_ERROR, "reference-place",
	  "dictionary.attribute_table[1].value.string_value_strindex", "" },
	{ newest, "\"value\":{\"stringValue\":\"v\"}",
	  "\"value\":{\"kvlistValue\":{\"values\":[{\"keyStrindex\":1}]}}", CHECK_ERROR,
	  "reference-place",
	  "dictionary.attribute_table[1].value.kvlist_value.values[0].key_strindex", "" },
	/* samples */
	{ newest, S, SAMPLE(""), CHECK_ERROR, "sample-empty", P ".samples[0]", "" },
	{ newest, "[\"1002\"]", "[\"1002\",\"1100\"]", CHECK_ERROR, "timestamp-window",
	  P ".samples[1].timestamps_unix_nano[1]", "is 1100, outside of [1000, 1100)" },
	{ newest, "[\"1002\"]", "[\"999\"]", CHECK_ERROR, "timestamp-window",
	  P ".samples[1].timestamps_unix_nano[0]", "" },
	{ newest, "\"timestampsUnixNano\":[\"1002\"]", "\"values\":[1]", CHECK_WARNING,
	  "sample-shape", P ".samples[1]", "has values only" },
	{ small, "}}]}]}]", "},\"samples\":[{\"values\":[1,2]}]}]}]}]", CHECK_ERROR,
	  "sample-values", P ".samples[0]", "2 values" },
	{ small, "}}]}]}]",
	  "},\"durationNano\":1,\"samples\":[{\"values\":[1,2],\"timestampsUnixNano\":[0]}]}]}]}]",
	  CHECK_ERROR, "sample-lengths", P ".samples[0]", "2 values and 1" },
	{ newest, S,
	  SAMPLE("\"stackIndex\":2,\"attributeIndices\":[1],\"timestampsUnixNano\":[1000]"),
	  CHECK_WARNING, "sample-identity", P ".samples[2]", "samples[0]" },
	/* profiles */
	{ newest, "\"periodType\":{\"typeStrindex\":3,\"unitStrindex\":4}",
	  "\"periodType\":{\"unitStrindex\":3}", CHECK_WARNING, "period-type", P, "period 5" },
	{ newest, "\"originalPayloadFormat\":\"pprof\",", "", CHECK_ERROR, "payload-format", P,
	  "without original_payload_format" },
	{ newest, "\"originalPayloadFormat\":\"pprof\",", "\"originalPayloadFormat\":\"zzz\",",
	  CHECK_WARNING, "payload-format", P, "\"zzz\", known are jfr" },
	{ newest, "\"originalPayload\":\"AAE=\",", "", CHECK_ERROR, "payload-format", P,
	  "has original_payload_format" },
	{ newest, "\"profileId\":\"" TRACE "\"", "\"profileId\":\"abcd\"", CHECK_ERROR,
	  "profile-id-length", P ".profile_id", "has 2 bytes, not 16" },
	/* entries */
	{ newest, "\"memoryLimit\":\"8192\"", "\"memoryLimit\":\"4096\"", CHECK_ERROR,
	  "memory-range", "dictionary.mapping_table[1]", "0x1000" },
	{ newest, "\"line\":\"3\"", "\"line\":\"-3\"", CHECK_ERROR, "line-negative",
	  "dictionary.location_table[1].lines[0].line", "is -3" },
	{ newest, "\"column\":\"1\"", "\"column\":-1", CHECK_ERROR, "line-negative",
	  "dictionary.location_table[1].lines[0].column", "" },
	{ newest, "\"startLine\":\"1\"", "\"startLine\":-1", CHECK_ERROR, "line-negative",
	  "dictionary.function_table[1].start_line", "" },
	{ newest, "\"lines\":[", "\"lines\":[{\"functionIndex\":2},", CHECK_ERROR,
	  "function-index-range", "dictionary.location_table[1].lines[0].function_index", "" },
	{ newest, "\"traceId\":\"" TRACE "\"", "\"traceId\":\"abcd\"", CHECK_ERROR,
	  "link-id-length", "dictionary.link_table[1].trace_id", "has 2 bytes, not 16" },
	{ newest, "\"traceId\":\"" TRACE "\",", "", CHECK_ERROR, "link-id-length",
	  "dictionary.link_table[1].trace_id", "has 0 bytes" },
	{ newest, ",\"spanId\":\"" SPAN "\"", "", CHECK_ERROR, "link-id-length",
	  "dictionary.link_table[1].span_id", "has 0 bytes, not 8" },
	{ newest, SPAN "\"}", "0000000000000000\"}", CHECK_WARNING, "link-id-zero",
	  "dictionary.link_table[1].span_id", "" },
	{ newest, "\"main.c\"", "\"main.\xff\"", CHECK_ERROR, "utf8", "dictionary.string_table[7]",
	  "" },
	{ newest, "\"shop\"", "\"\xc3\"", CHECK_ERROR, "utf8", RA ".value.string_value", "" },
	{ newest, "\"name\":\"s\"", "\"name\":\"\x80\"", CHECK_ERROR, "utf8",
	  "resource_profiles[0].scope_profiles[0].scope.name", "" },
	{ newest, A, "\"foo\":1," A, CHECK_WARNING, "unknown-key", "", "foo in ResourceProfiles" },
	/* v1.7: its own names and rules */
	{ v1_7, "\"locationsStartIndex\":1", "\"locationsStartIndex\":2", CHECK_ERROR,
	  "location-run", P ".sample[1]",
	  "locations_start_index 2 and locations_length 2, location_indices has 3" },
	{ v1_7, "\"locationsLength\":2", "\"locationsLength\":-1", CHECK_ERROR, "location-run",
	  P ".sample[0]", "-1" },
	{ v1_7, "\"locationIndices\":[0,1,0]", "\"locationIndices\":[0,1,0,2]", CHECK_ERROR,
	  "location-index-range", P ".location_indices[3]", "is 2, location_table has 2 entries" },
	{ v1_7, "\"value\":[\"1\"]}]", "\"value\":[\"1\",\"2\"]}]", CHECK_ERROR,
	  "sample-value-count", P ".sample[1]", "2 entries in value, sample_type has 1" },
	{ v1_7, "\"linkIndex\":0", "\"linkIndex\":1", CHECK_ERROR, "link-index-range",
	  P ".sample[0].link_index", "is 1, link_table has 1" },
	{ v1_7, "\"attributeIndices\":[0]", "\"attributeIndices\":[1]", CHECK_ERROR,
	  "attribute-index-range", P ".sample[0].attribute_indices[0]", "" },
	{ v1_7, "\"attributeIndices\":[0]", "\"attributeIndices\":[0,0]", CHECK_ERROR,
	  "attribute-key-duplicate", P ".sample[0].attribute_indices", "" },
	{ v1_7, "\"defaultSampleTypeIndex\":0", "\"defaultSampleTypeIndex\":1", CHECK_ERROR,
	  "sample-type-index-range", P ".default_sample_type_index", "is 1, sample_type has 1" },
	{ v1_7, "\"commentStrindices\":[1]", "\"commentStrindices\":[1,2]", CHECK_ERROR,
	  "string-index-range", P ".comment_strindices[1]", "" },
	{ v1_7, "\"unitStrindex\":1", "\"unitStrindex\":5", CHECK_ERROR, "string-index-range",
	  "dictionary.attribute_units[0].unit_strindex", "" },
	{ v1_7, "\"mappingIndex\":0", "\"mappingIndex\":1", CHECK_ERROR, "mapping-index-range",
	  "dictionary.location_table[0].mapping_index", "" },
	{ v1_7, "\"functionIndex\":0", "\"functionIndex\":-1", CHECK_ERROR, "function-index-range",
	  "dictionary.location_table[0].line[0].function_index", "" },
	{ v1_7, "\"timeNanos\":\"1000\"", "\"timeNanos\":\"-1000\"", CHECK_ERROR, "time-negative",
	  P ".time_nanos", "" },
	{ v1_7, "[\"1000\"]", "[\"1100\"]", CHECK_WARNING, "timestamp-window",
	  P ".sample[0].timestamps_unix_nano[0]", "" },
	{ v1_7, "[{\"typeStrindex\":1}]", "[{\"typeStrindex\":1,\"aggregationTemporality\":3}]",
	  CHECK_ERROR, "temporality-range", P ".sample_type[0].aggregation_temporality", "" },
	{ v1_7, "[\"\",", "[\"x\",", CHECK_ERROR, "zero-entry", "dictionary.string_table[0]", "" },
	{ v1_7, "\"key\":\"a\",", "", CHECK_ERROR, "key-empty", "dictionary.attribute_table[0]",
	  "" },
	{ v1_7, "\"functionTable\":[{\"nameStrindex\":1}",
	  "\"functionTable\":[{\"nameStrindex\":1},{\"startLine\":1}", CHECK_WARNING,
	  "function-empty", "dictionary.function_table[1]", "" },
	{ v1_7, "\"locationsStartIndex\":1,\"locationsLength\":2",
	  "\"locationsStartIndex\":0,\"locationsLength\":2,"
	  "\"linkIndex\":0,\"attributeIndices\":[0]",
	  CHECK_WARNING, "sample-identity", P ".sample[1]", "sample[0]" },
	/* v1.4 and v1.3: tables in the profile */
	{ v1_4, "\"locationIndices\":[0]", "\"locationIndices\":[1]", CHECK_ERROR,
	  "location-index-range", P ".location_indices[0]", "is 1, location_table has 1" },
	{ v1_4, "\"defaultSampleTypeStrindex\":1", "\"defaultSampleTypeStrindex\":2", CHECK_ERROR,
	  "string-index-range", P ".default_sample_type_strindex", "is 2, string_table has 2" },
	{ v1_4, "\"key\":\"a\",", "", CHECK_ERROR, "key-empty", P ".attributes[0]", "" },
	{ v1_4, "\"address\":\"1\"", "\"mappingIndex\":0", CHECK_ERROR, "mapping-index-range",
	  P ".location_table[0].mapping_index", "is 0, mapping_table has 0 entries" },
	{ v1_3, "\"filename\":\"1\"", "\"filename\":\"2\"", CHECK_ERROR, "string-index-range",
	  P ".profile.mapping[0].filename", "is 2, string_table has 2" },
	{ v1_3, "\"attributes\":[\"0\"]", "\"attributes\":[\"1\"]", CHECK_ERROR,
	  "attribute-index-range", P ".profile.sample[0].attributes[0]",
	  "is 1, attribute_table has 1" },
	{ v1_3, "\"label\":[{\"key\":\"1\"}]", "\"label\":[{\"key\":\"9\"}]", CHECK_ERROR,
	  "string-index-range", P ".profile.sample[0].label[0].key", "" },
	{ v1_3, "[{\"profileId\"", "[{},{\"profileId\"", CHECK_ERROR, "profile-missing", P, "" },
	{ v1_3, "\"locationsLength\":\"1\"", "\"locationsLength\":\"2\"", CHECK_ERROR,
	  "location-run", P ".profile.sample[0]", "" },
};

static struct blob *replaced(const char *base, const char *find, const char *replace)
{
	const char *at = strstr(base, find);
	struct blob *b;
	struct buf out;
	size_t len;
	char *heap;

	if (!at)
		fail_msg("%s is not in the message", find);
	buf_init(&out, 0);
	buf_append(&out, base, (size_t)(at - base));
	buf_str(&out, str_cstr(replace));
	buf_str(&out, str_cstr(at + strlen(find)));
	heap = buf_take(&out, &len);
	b = blob_adopt(heap, len);
	return b;
}

static void test_good_messages(void **state)
{
	static const struct {
		const char *json;
		enum wire_version version;
	} good[] = {
		{ newest, WIRE_V1_10 }, { small, WIRE_V1_10 }, { v1_7, WIRE_V1_7 },
		{ v1_4, WIRE_V1_5 },    { v1_3, WIRE_V1_3 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct blob *body = blob_copy(str_cstr(good[i].json));
		struct check_result r;
		struct err err;

		if (!otlp_check(body, WIRE_AUTO, 0, &r, &err))
			fail_msg("%zu: %s", i, err.msg);
		if (r.count)
			fail_msg("%zu: %.*s at %.*s %.*s", i, STR_ARG(str_cstr(r.findings[0].rule)),
				 STR_ARG(r.findings[0].path), STR_ARG(r.findings[0].message));
		assert_int_equal(r.version, good[i].version);
		check_result_release(&r);
		blob_unref(body);
	}
}

static void test_each_rule_alone(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct blob *body = replaced(rows[i].base, rows[i].find, rows[i].replace);
		const struct check_finding *f;
		struct check_result r;
		struct err err;
		bool found = false;

		if (!otlp_check(body, WIRE_AUTO, 0, &r, &err))
			fail_msg("row %zu (%s %s): %s", i, rows[i].rule, rows[i].path, err.msg);
		for (uint32_t k = 0; k < r.count; k++) {
			f = &r.findings[k];
			if (strcmp(f->rule, rows[i].rule) == 0 && str_is(f->path, rows[i].path) &&
			    f->severity == rows[i].severity &&
			    str_search(f->message, str_cstr(rows[i].message)) >= 0)
				found = true;
			else if (strcmp(f->rule, "orphan-entry") != 0 || r.count == 1)
				fail_msg("row %zu (%s %s): %s %.*s %.*s", i, rows[i].rule,
					 rows[i].path, f->rule, STR_ARG(f->path),
					 STR_ARG(f->message));
		}
		if (!found)
			fail_msg("row %zu: %s at %s is not found", i, rows[i].rule, rows[i].path);
		assert_int_equal(r.errors + r.warnings, r.count);
		check_result_release(&r);
		blob_unref(body);
	}
}

/* What JSON cannot say: raw bytes behind a good body. */
static const struct {
	const char *bytes;
	size_t len;
	const char *rule, *path, *message;
} raw[] = {
	{ "\x50\x01", 2, "unknown-field", "",
	  "field 10 (varint) is not in ExportProfilesServiceRequest of v1.10" },
	{ "\x0a\x02\x20\x01", 4, "scope-profiles-empty", "resource_profiles[1]", "" },
	{ "\x0a\x02\x08\x01", 4, "unknown-field", "resource_profiles[1].resource",
	  "is varint here" },
	{ "\x0a\x05\x0a", 3, "broken", "resource_profiles[1]", "at byte" },
	{ "\x0a\x02\x12\x7f", 4, "broken", "resource_profiles[1].scope_profiles[0]",
	  "is cut short: 127 bytes" },
	{ "\x0a\x05\x12\x03\x12\x7f\x52", 7, "broken",
	  "resource_profiles[1].scope_profiles[0].profiles[0].original_payload", "at byte" },
	{ "\x12\x09\x12\x07\x10\x01", 6, "broken", "dictionary.location_table[1]",
	  "is cut short: 7 bytes" },
	{ "\x0f", 1, "broken", "", "at byte" },
	{ "\x12\x03\x0a\x01\x80", 5, "broken", "dictionary.mapping_table[1]", "at byte" },
};

static void test_raw_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(raw); i++) {
		struct json_transcoded json;
		struct check_result r;
		struct blob *body;
		struct err err;
		bool found = false;

		assert_true(json_transcode(str_cstr(small), WIRE_NEWEST, 100, &json, &err));
		buf_append(&json.protobuf, raw[i].bytes, raw[i].len);
		body = blob_copy(buf_view(&json.protobuf));
		assert_true(otlp_check(body, WIRE_NEWEST, 0, &r, &err));
		for (uint32_t k = 0; k < r.count; k++)
			found |= strcmp(r.findings[k].rule, raw[i].rule) == 0 &&
				 str_is(r.findings[k].path, raw[i].path) &&
				 str_search(r.findings[k].message, str_cstr(raw[i].message)) >= 0;
		if (!found)
			fail_msg("row %zu: %u findings, first %s %.*s %.*s", i, r.count,
				 r.count ? r.findings[0].rule : "",
				 STR_ARG(r.count ? r.findings[0].path : STR("")),
				 STR_ARG(r.count ? r.findings[0].message : STR("")));
		check_result_release(&r);
		blob_unref(body);
		buf_release(&json.protobuf);
	}
}

static void test_missing_dictionary(void **state)
{
	/* resource_profiles { scope_profiles { profiles {} } } */
	struct blob *body = blob_copy(STR("\x0a\x04\x12\x02\x12\x00"));
	struct check_result r;
	struct err err;

	(void)state;
	assert_true(otlp_check(body, WIRE_NEWEST, 0, &r, &err));
	assert_int_equal(r.count, 2);
	assert_string_equal(r.findings[0].rule, "dictionary-missing");
	assert_true(str_is(r.findings[0].path, "dictionary"));
	check_result_release(&r);
	blob_unref(body);
}

static void test_string_table_missing(void **state)
{
	struct blob *body = replaced(small, "\"stringTable\":[\"\",\"cpu\"],", "");
	struct check_result r;
	struct err err;

	(void)state;
	assert_true(otlp_check(body, WIRE_AUTO, 0, &r, &err));
	assert_int_equal(r.errors, 2); /* the table, and who refers to it */
	assert_string_equal(r.findings[0].rule, "table-empty");
	assert_true(str_is(r.findings[0].path, "dictionary.string_table"));
	check_result_release(&r);
	blob_unref(body);
}

/* AnyValue in AnyValue, `depth` of them, written from the inside by its own encoder: array_value {
 * values { ... } }. */
static void test_nesting(void **state)
{
	(void)state;
	for (int depth = 62; depth <= 66; depth += 4) {
		struct json_transcoded json;
		struct check_result r;
		struct blob *body;
		struct err err;
		struct buf text;

		buf_init(&text, 0);
		buf_lit(&text, "{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"key\":"
			       "\"k\",\"value\":");
		for (int i = 0; i < depth; i++)
			buf_lit(&text, "{\"arrayValue\":{\"values\":[");
		buf_lit(&text, "{}");
		for (int i = 0; i < depth; i++)
			buf_lit(&text, "]}}");
		buf_lit(&text, "}]}}]}");
		assert_true(json_transcode(buf_view(&text), WIRE_NEWEST, 500, &json, &err));
		body = blob_copy(buf_view(&json.protobuf));
		assert_true(otlp_check(body, WIRE_NEWEST, 0, &r, &err));
		if (depth > 64)
			assert_string_equal(r.findings[1].rule, "nesting");
		else
			for (uint32_t i = 0; i < r.count; i++)
				assert_string_not_equal(r.findings[i].rule, "nesting");
		check_result_release(&r);
		blob_unref(body);
		buf_release(&json.protobuf);
		buf_release(&text);
	}
}

static void test_findings_limit(void **state)
{
	struct blob *body = replaced(newest, "[\"1002\"]", "[1,2,3,4,5,6,7,8,9,10]");
	struct check_result r;
	struct err err;

	(void)state;
	assert_true(otlp_check(body, WIRE_AUTO, 4, &r, &err));
	assert_int_equal(r.count, 4);
	assert_int_equal(r.errors, 10);
	assert_int_equal(r.suppressed, 6);
	check_result_release(&r);
	blob_unref(body);
}

/* Real bodies of conforming senders; the two synthetic ones have one location twice. */
static void test_fixtures(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wire_fixtures); i++) {
		struct blob *body = fixture_read(wire_fixtures[i], ".pb");
		struct check_result r;
		struct err err;

		assert_true(otlp_check(body, WIRE_AUTO, 0, &r, &err));
		for (uint32_t k = 0; k < r.count; k++)
			if (strcmp(r.findings[k].rule, "duplicate-entry") != 0 &&
			    strcmp(r.findings[k].rule, "timestamp-window") != 0)
				fail_msg("%s: %s %.*s %.*s", wire_fixtures[i], r.findings[k].rule,
					 STR_ARG(r.findings[k].path),
					 STR_ARG(r.findings[k].message));
		assert_int_equal(r.errors, 0);
		check_result_release(&r);
		blob_unref(body);
	}
}

static void test_cut_and_mutated_bodies(void **state)
{
	struct blob *whole = fixture_read("v1.11.0-synthetic-offcpu-links", ".pb");
	uint64_t seed = 7;
	uint32_t with_findings = 0;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct str bytes = blob_view(whole);
		enum wire_version version = (enum wire_version)(WIRE_V1_3 + round % 8);
		struct blob *body;
		struct check_result r;
		struct err err;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		if (round % 2)
			bytes = str_head(bytes, (seed >> 20) % bytes.len);
		body = blob_copy(bytes);
		for (int change = 0; change < 4 && body->len; change++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			body->ptr[(seed >> 33) % body->len] = (char)(seed >> 25);
		}
		assert_true(otlp_check(body, version, 50, &r, &err));
		with_findings += r.count > 0;
		check_result_release(&r);
		blob_unref(body);
	}
	assert_true(with_findings > 1900);
	blob_unref(whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_messages),
		cmocka_unit_test(test_each_rule_alone),
		cmocka_unit_test(test_raw_bytes),
		cmocka_unit_test(test_missing_dictionary),
		cmocka_unit_test(test_string_table_missing),
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_findings_limit),
		cmocka_unit_test(test_fixtures),
		cmocka_unit_test(test_cut_and_mutated_bodies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
