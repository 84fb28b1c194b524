#include "wire/detect.h"

#include <stdio.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "wire/pb_reader.h"

static void say(struct verdict *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends a piece of evidence: "a; b; c". */
static void say(struct verdict *out, const char *format, ...)
{
	size_t len = strlen(out->evidence);
	va_list ap;

	if (len && len + 2 < sizeof(out->evidence)) {
		memcpy(out->evidence + len, "; ", 3);
		len += 2;
	}
	va_start(ap, format);
	vsnprintf(out->evidence + len, sizeof(out->evidence) - len, format, ap);
	va_end(ap);
}

static uint32_t seen(const struct field_tally *t)
{
	return t->len_count + t->varint_count + t->i64_count;
}

/* Without its tables in the message: v1.6 cannot be told from v1.7 by anything but where the tables
 * are. */
static bool is_v1_6_file(const struct survey *s)
{
	uint32_t tables = 0;

	for (unsigned i = 3; i < SURVEY_TOP_FIELDS; i++)
		tables += s->top[i].len_count;
	/* A later version's top-level field is no table of v1.6: its profiles have fixed64 times.
	 */
	return tables > 0 && s->profile[3].i64_count == 0;
}

static void decide_without_dictionary(const struct survey *s, struct verdict *out)
{
	if (s->container) {
		out->version = WIRE_V1_3;
		say(out, "no dictionary; a profile has fixed64 fields 2 or 3 around a nested "
			 "profile: ProfileContainer");
	} else if (s->profile[3].i64_count) {
		out->version = WIRE_NEWEST;
		say(out, "no dictionary; Profile field 3 is fixed64");
	} else if (s->profile[4].varint_count || s->profile[3].varint_count) {
		out->version = WIRE_V1_6;
		say(out, "no dictionary; Profile field 4 is a varint: the tables of v1.6 are not "
			 "in this message");
	} else if (s->profile[22].len_count || s->profile[22].varint_count) {
		out->version = WIRE_V1_5;
		say(out, "no dictionary, tables in the profile; Profile field 22");
	} else if (s->profile[18].len_count) {
		out->version = WIRE_V1_4;
		say(out, "no dictionary, tables in the profile; Profile field 18");
	} else if (s->profile[10].len_count || s->profile[4].len_count ||
		   s->profile[11].varint_count) {
		/* All profilers that are known to have sent this were of v1.4. */
		out->version = WIRE_V1_4;
		say(out, "no dictionary, tables in the profile; v1.4 and v1.5 are the same here");
	} else {
		out->version = WIRE_NEWEST;
		out->ambiguous = true;
		say(out, s->profiles ? "the profiles are empty" : "there are no profiles");
	}
}

/* True when it is v1.7, by the attribute table, else by the profiles' shape. */
static bool is_v1_7(const struct survey *s, struct verdict *out)
{
	if (s->attribute_key_text != s->attribute_key_index) {
		bool text = s->attribute_key_text > s->attribute_key_index;

		say(out, "dictionary.attribute_table has %u keys %s",
		    text ? s->attribute_key_text : s->attribute_key_index,
		    text ? "as text" : "as string index");
		return text;
	}
	if (s->profile[3].i64_count) {
		say(out, "Profile field 3 is fixed64");
		return false;
	}
	if (s->profile[3].len_count || s->repeated_sample_types || s->sample[6].len_count ||
	    s->dictionary[7].len_count == 0) {
		bool told = s->profile[3].len_count || s->repeated_sample_types ||
			    s->sample[6].len_count;

		if (told)
			say(out,
			    "Profile field 3 is LEN, field 1 repeated or Sample field 6 there");
		return told;
	}
	return false;
}

/* Can the entries of Sample field 2 be attribute indices? */
struct attribute_test {
	uint32_t attribute_count;
	uint32_t several; /* samples with more than one entry */
	bool plausible;
};

/* Distinct keys need distinct indices; runs of equal ones are what values look like. */
static void test_entry(struct attribute_test *t, uint64_t v, uint64_t *last)
{
	t->plausible = t->plausible && v >= 1 && v < t->attribute_count && v != *last;
	*last = v;
}

static bool test_sample_attributes(void *arg, struct str sample)
{
	struct attribute_test *t = arg;
	struct pb_reader r = pb_reader_of(sample);
	uint32_t entries = 0;
	uint64_t last = 0;

	while (pb_more(&r) && t->plausible) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(2, PB_LEN)) {
			struct pb_reader list = pb_message(&r);

			for (; pb_more(&list) && t->plausible; entries++)
				test_entry(t, pb_varint(&list), &last);
		} else if (tag == PB_TAG(2, PB_VARINT)) {
			test_entry(t, pb_varint(&r), &last);
			entries++;
		} else {
			pb_skip(&r, tag);
		}
	}
	t->several += entries > 1;
	return t->plausible;
}

/*
 * Samples with nothing but a stack and field 2. As values of v1.9 each has one entry, the sum; as
 * attributes of v1.10 they are samples without a value, which no sender should write.
 */
static bool is_v1_10_alone(const struct survey *s, const struct attribute_test *test,
			   struct verdict *out)
{
	if (!test->plausible) {
		say(out,
		    "in %u samples field 2 stands alone, with entries that cannot be "
		    "attribute indices: values",
		    s->samples_2_without_5);
		return false;
	}
	out->ambiguous = true;
	if (test->several) {
		say(out,
		    "in %u samples field 2 stands alone with several entries, where a value would "
		    "be one: assumed to be attribute indices",
		    test->several);
		return true;
	}
	say(out,
	    "in %u samples field 2 stands alone with one entry, which can be an attribute index: "
	    "assumed to be a value, as v1.10 needs values or timestamps besides",
	    s->samples_2_without_5);
	return false;
}

static bool test_key_value(struct pb_reader r, unsigned depth);

static bool test_any_value(struct pb_reader r, unsigned depth)
{
	bool found = false;

	while (pb_more(&r) && !found) {
		uint32_t tag = pb_tag(&r);
		struct pb_reader list;

		if (tag == PB_TAG(8, PB_VARINT))
			return true;
		if ((tag != PB_TAG(5, PB_LEN) && tag != PB_TAG(6, PB_LEN)) || depth == 0) {
			pb_skip(&r, tag);
			continue;
		}
		list = pb_message(&r);
		while (pb_more(&list) && !found) {
			uint32_t inner = pb_tag(&list);

			if (inner == PB_TAG(1, PB_LEN) && tag == PB_TAG(5, PB_LEN))
				found = test_any_value(pb_message(&list), depth - 1);
			else if (inner == PB_TAG(1, PB_LEN))
				found = test_key_value(pb_message(&list), depth - 1);
			else
				pb_skip(&list, inner);
		}
	}
	return found;
}

/* References into the string table: KeyValue field 3, AnyValue field 8. */
static bool test_key_value(struct pb_reader r, unsigned depth)
{
	bool found = false;

	while (pb_more(&r) && !found) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(3, PB_VARINT))
			return true;
		if (tag == PB_TAG(2, PB_LEN))
			found = test_any_value(pb_message(&r), depth);
		else
			pb_skip(&r, tag);
	}
	return found;
}

static bool test_attribute_references(void *arg, struct str key_value)
{
	bool *found = arg;

	*found = test_key_value(pb_reader_of(key_value), 16);
	return !*found;
}

/* Of an entry of the dictionary's attribute_table: its key, and field 3, are indices anyway. */
static bool test_table_references(void *arg, struct str entry)
{
	struct pb_reader r = pb_reader_of(entry);
	bool *found = arg;

	while (pb_more(&r) && !*found) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(2, PB_LEN))
			*found = test_any_value(pb_message(&r), 16);
		else
			pb_skip(&r, tag);
	}
	return !*found;
}

/* Sample fields 2, 3 and 4 were permuted in v1.10. True when the newer order holds. */
static bool is_v1_10(const struct survey *s, struct str body, struct verdict *out)
{
	/* A list can only be LEN where the field is a list; a varint may also be a list's only
	 * element, unpacked. */
	uint32_t newer = s->sample[4].len_count + s->samples_4_unpacked_list;
	uint32_t older = s->sample[3].len_count + s->samples_3_unpacked_list;
	struct attribute_test test = { .attribute_count = s->dictionary[6].len_count,
				       .plausible = true };
	bool references = false;

	if (newer != older) {
		out->firm = newer == 0 || older == 0;
		say(out,
		    newer > older ? "Sample field 4 is a list in %u samples"
				  : "Sample field 3 is a list in %u samples",
		    newer > older ? newer : older);
		return newer > older;
	}
	/* The surest of what follows, when nothing speaks against it: spares a look into the
	 * attributes. */
	if (s->samples_2_and_5_differ && !s->sample[3].varint_count && !s->sample[4].varint_count) {
		out->firm = true;
		say(out, "in %u samples field 2 has another number of entries than field 5",
		    s->samples_2_and_5_differ);
		return true;
	}
	survey_each_attribute(body, test_attribute_references, &references);
	if (!references)
		survey_each_table_attribute(body, test_table_references, &references);
	if (references) {
		out->references = true;
		say(out, "attributes refer to the string table");
		return true;
	}
	newer = s->sample[3].varint_count;
	older = s->sample[4].varint_count;
	if (newer != older) {
		say(out,
		    newer > older ? "Sample field 3 is a single number in %u samples"
				  : "Sample field 4 is a single number in %u samples",
		    newer > older ? newer : older);
		return newer > older;
	}
	if (s->samples_2_and_5_differ) {
		out->firm = true;
		say(out, "in %u samples field 2 has another number of entries than field 5",
		    s->samples_2_and_5_differ);
		return true;
	}
	if (s->samples_2_without_5) {
		survey_each_sample(body, test_sample_attributes, &test);
		return is_v1_10_alone(s, &test, out);
	}
	if (s->sample[2].len_count == 0) {
		out->ambiguous = s->sample[5].len_count + s->sample[5].i64_count == 0;
		if (!out->ambiguous)
			say(out, "the samples are the same in v1.8 to v1.10");
		return true;
	}
	survey_each_sample(body, test_sample_attributes, &test);
	out->ambiguous = true;
	say(out, test.plausible
			 ? "every entry of Sample field 2 can be an attribute index: assumed to be"
			 : "Sample field 2 has entries that cannot be attribute indices: values");
	return test.plausible;
}

/* A payload comes with its format: fields 10 and 11 of v1.8, 9 and 10 of later versions, which have
 * attribute indices as 11: has it what can be none? */
static bool has_v1_8_payload(const struct survey *s)
{
	return s->profile[10].len_count && s->profile[11].len_count && !s->profile[9].len_count &&
	       !s->profile_7_len_0_or_16 && s->profile_11_most >= s->dictionary[6].len_count;
}

/* v1.8: 7 comments, 8 id, 9 dropped, 10 format, 11 payload, 12 attributes. Later: 7 id, 8 dropped,
 * 9 format, 10 payload, 11 attributes. */
static uint32_t v1_8_marks(const struct survey *s)
{
	return s->profile_8_len_0_or_16 + s->profile_8_len_other + s->profile[9].varint_count +
	       seen(&s->profile[12]) + s->temporality;
}

static uint32_t v1_9_marks(const struct survey *s)
{
	return s->profile[8].varint_count + s->profile[9].len_count;
}

/* Is field 7, which is no profile id (16 bytes, or empty), a list of texts of the table? */
static bool has_comments(const struct survey *s)
{
	return s->profile[7].varint_count ||
	       (s->profile_7_len_other && s->profile_7_most < s->dictionary[5].len_count);
}

static bool has_v1_8_comments(const struct survey *s)
{
	return has_comments(s) && !s->profile_7_len_0_or_16 && v1_9_marks(s) == 0;
}

/* What only Profiles of v1.8 have, where the samples did not settle it. References into the string
 * table are fields that v1.8 has not: beside them an odd id or a payload without its format is just
 * that. */
static bool is_v1_8_by_profiles(const struct survey *s, bool references)
{
	if (v1_8_marks(s) > v1_9_marks(s))
		return true;
	return !references && (has_v1_8_comments(s) || (v1_9_marks(s) == 0 && has_v1_8_payload(s)));
}

static enum wire_version v1_8_or_v1_9(const struct survey *s, struct verdict *out)
{
	uint32_t v1_8 = v1_8_marks(s), v1_9 = v1_9_marks(s);

	if (v1_8 > v1_9) {
		say(out, "Profile fields 8, 9, 12 or the temporality are those of v1.8");
		return WIRE_V1_8;
	}
	if (v1_9 > v1_8) {
		say(out, "Profile fields 8 and 9 are those of v1.9");
		return WIRE_V1_9;
	}
	if (has_comments(s)) {
		say(out, "Profile field 7 is no profile id: comments of v1.8");
		return WIRE_V1_8;
	}
	if (has_v1_8_payload(s)) {
		say(out, "Profile fields 10 and 11 without 9 are the payload of v1.8");
		return WIRE_V1_8;
	}
	if (s->profile_7_len_0_or_16)
		say(out, "Profile field 7 is a profile id");
	else
		say(out, "nothing tells v1.8 from v1.9, they are the same here");
	return WIRE_V1_9;
}

static void decide_with_dictionary(const struct survey *s, struct str body, struct verdict *out)
{
	if (is_v1_7(s, out)) {
		out->version = WIRE_V1_7;
		return;
	}
	out->version = is_v1_10(s, body, out) ? WIRE_V1_10 : v1_8_or_v1_9(s, out);
	if (out->version == WIRE_V1_10 && !out->firm && is_v1_8_by_profiles(s, out->references)) {
		out->version = v1_8_or_v1_9(s, out);
		out->ambiguous = false;
	}
}

bool detect_experimental(struct str body, enum wire_hint hint)
{
	struct pb_reader r = pb_reader_of(body);

	while (hint == WIRE_HINT_EXPERIMENTAL && pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(2, PB_LEN))
			return false;
		pb_skip(&r, tag);
	}
	return hint == WIRE_HINT_EXPERIMENTAL;
}

void detect_decide(const struct survey *s, struct str body, enum wire_hint hint,
		   struct verdict *out)
{
	*out = (struct verdict){ .version = WIRE_NEWEST };
	if (detect_experimental(body, hint)) {
		out->version = WIRE_V1_3;
		say(out, "sent to v1experimental");
	} else if (is_v1_6_file(s)) {
		out->version = WIRE_V1_6;
		say(out, "top-level fields past 2: the tables of a v1.6 ProfilesData file");
	} else if (seen(&s->top[2]) == 0) {
		decide_without_dictionary(s, out);
	} else {
		decide_with_dictionary(s, body, out);
	}
	if (!out->evidence[0])
		say(out, "nothing in the body tells the version");
}

bool otlp_detect(struct str body, enum wire_hint hint, enum wire_version *version, bool *ambiguous,
		 char evidence[320], struct err *err)
{
	struct survey s;
	struct verdict v;

	survey_take(&s, body, detect_experimental(body, hint), UINT32_MAX);
	if (s.hopeless)
		return err_set(err, ERR_INVALID, "the body is no protobuf message");
	detect_decide(&s, body, hint, &v);
	*version = v.version;
	*ambiguous = v.ambiguous;
	memcpy(evidence, v.evidence, sizeof(v.evidence));
	return true;
}
