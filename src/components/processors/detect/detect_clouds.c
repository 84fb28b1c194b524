/*
 * ec2, gcp, azure: what the metadata server of the cloud says, at its link-local address.
 * AWS_EC2_METADATA_SERVICE_ENDPOINT and GCE_METADATA_HOST name another one, as for the clouds' own
 * tools; AZURE_METADATA_ENDPOINT is ours.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "components/processors/detect/detect.h"

struct field {
	const char *path, *attribute;
};

static void add_fields(struct detected *out, struct str body, const struct field *fields)
{
	for (; fields->path; fields++)
		detected_add(out, fields->attribute, detect_json(out->arena, body, fields->path));
}

/* An address from the environment without its last slash. */
static const char *address_of(struct arena *arena, const char *variable, const char *otherwise)
{
	const char *given = getenv(variable);
	struct str s = str_cstr(given && *given ? given : otherwise);

	if (s.len && s.ptr[s.len - 1] == '/')
		s.len--;
	return str_dup_cstr(arena, s);
}

/* ---- Amazon: IMDSv2, a token first ---- */

/* It goes into a header: one word. */
static bool is_word(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.ptr[i] <= ' ' || s.ptr[i] > '~')
			return false;
	return s.len > 0;
}

static bool detect_ec2(const struct detect_options *o, struct detected *out, struct err *err)
{
	static const struct field fields[] = {
		{ "accountId", "cloud.account.id" },
		{ "region", "cloud.region" },
		{ "availabilityZone", "cloud.availability_zone" },
		{ "instanceId", "host.id" },
		{ "imageId", "host.image.id" },
		{ "instanceType", "host.type" },
		{ NULL, NULL },
	};
	const char *base = address_of(out->arena, "AWS_EC2_METADATA_SERVICE_ENDPOINT",
				      "http://169.254.169.254");
	struct detect_request r = { .method = "PUT",
				    .header = "X-aws-ec2-metadata-token-ttl-seconds: 60",
				    .deadline_ns = o->deadline_ns };
	struct buf body;
	bool ok;

	buf_init(&body, 0);
	r.url = str_printf(out->arena, "%s/latest/api/token", base).ptr;
	ok = detect_http(&r, &body, err);
	if (ok && !is_word(buf_view(&body)))
		ok = err_set(err, ERR_UNAVAILABLE, "%s: gives no token", r.url);
	if (ok) {
		r.method = NULL;
		r.header = str_printf(out->arena, "X-aws-ec2-metadata-token: %.*s", (int)body.len,
				      body.ptr)
				   .ptr;
		r.url = str_printf(out->arena, "%s/latest/dynamic/instance-identity/document", base)
				.ptr;
		ok = detect_http(&r, &body, err);
	}
	if (ok) {
		detected_add(out, "cloud.provider", STR("aws"));
		detected_add(out, "cloud.platform", STR("aws_ec2"));
		add_fields(out, buf_view(&body), fields);
		r.url = str_printf(out->arena, "%s/latest/meta-data/hostname", base).ptr;
		ok = detect_http(&r, &body, err);
		if (ok)
			detected_add(out, "host.name", buf_view(&body));
	}
	buf_release(&body);
	return ok;
}

/* ---- Google ---- */

/* What stands behind the last slash: "projects/1/zones/us-central1-c". */
static struct str last_part(struct str s)
{
	for (size_t i = s.len; i; i--)
		if (s.ptr[i - 1] == '/')
			return str_skip(s, i);
	return s;
}

static bool gcp_get(const struct detect_options *o, const char *base, const char *path,
		    struct detected *out, struct buf *body, struct err *err)
{
	struct detect_request r = { .header = "Metadata-Flavor: Google",
				    .deadline_ns = o->deadline_ns };

	r.url = str_printf(out->arena, "%s/computeMetadata/v1/%s", base, path).ptr;
	return detect_http(&r, body, err);
}

static bool detect_gcp(const struct detect_options *o, struct detected *out, struct err *err)
{
	static const struct field fields[] = {
		{ "project/project-id", "cloud.account.id" },
		{ "instance/zone", "cloud.availability_zone" },
		{ "instance/id", "host.id" },
		{ "instance/name", "host.name" },
		{ "instance/machine-type", "host.type" },
		{ NULL, NULL },
	};
	const char *host = address_of(out->arena, "GCE_METADATA_HOST", "169.254.169.254");
	const char *base = str_printf(out->arena, "http://%s", host).ptr;
	struct buf body;
	bool ok = true;

	buf_init(&body, 0);
	for (const struct field *f = fields; f->path && ok; f++) {
		struct str value;

		ok = gcp_get(o, base, f->path, out, &body, err);
		value = last_part(str_trim(buf_view(&body)));
		if (!ok)
			break;
		detected_add(out, f->attribute, value);
		if (value.len > 2 && f == &fields[1]) /* a zone is its region and a letter */
			detected_add(out, "cloud.region", str_head(value, value.len - 2));
	}
	if (ok) {
		detected_add(out, "cloud.provider", STR("gcp"));
		detected_add(out, "cloud.platform", STR("gcp_compute_engine"));
	}
	buf_release(&body);
	return ok;
}

/* ---- Azure ---- */

static bool detect_azure(const struct detect_options *o, struct detected *out, struct err *err)
{
	static const struct field fields[] = {
		{ "name", "host.name" },
		{ "location", "cloud.region" },
		{ "vmId", "host.id" },
		{ "subscriptionId", "cloud.account.id" },
		{ "vmSize", "azure.vm.size" },
		{ "vmScaleSetName", "azure.vm.scaleset.name" },
		{ "resourceGroupName", "azure.resourcegroup.name" },
		{ NULL, NULL },
	};
	const char *base =
		address_of(out->arena, "AZURE_METADATA_ENDPOINT", "http://169.254.169.254");
	struct detect_request r = { .header = "Metadata: True", .deadline_ns = o->deadline_ns };
	struct buf body;
	bool ok;

	buf_init(&body, 0);
	r.url = str_printf(out->arena,
			   "%s/metadata/instance/compute?api-version=2020-09-01&format=json", base)
			.ptr;
	ok = detect_http(&r, &body, err);
	if (ok) {
		detected_add(out, "cloud.provider", STR("azure"));
		detected_add(out, "cloud.platform", STR("azure_vm"));
		add_fields(out, buf_view(&body), fields);
	}
	buf_release(&body);
	return ok;
}

static const struct detect_attribute ec2_attributes[] = {
	{ "cloud.provider", true },
	{ "cloud.platform", true },
	{ "cloud.account.id", true },
	{ "cloud.region", true },
	{ "cloud.availability_zone", true },
	{ "host.id", true },
	{ "host.image.id", true },
	{ "host.type", true },
	{ "host.name", true },
	{ NULL, false },
};
static const struct detect_attribute gcp_attributes[] = {
	{ "cloud.provider", true },
	{ "cloud.platform", true },
	{ "cloud.account.id", true },
	{ "cloud.region", true },
	{ "cloud.availability_zone", true },
	{ "host.id", true },
	{ "host.name", true },
	{ "host.type", true },
	{ NULL, false },
};
static const struct detect_attribute azure_attributes[] = {
	{ "cloud.provider", true },
	{ "cloud.platform", true },
	{ "cloud.account.id", true },
	{ "cloud.region", true },
	{ "host.id", true },
	{ "host.name", true },
	{ "azure.vm.size", true },
	{ "azure.vm.scaleset.name", true },
	{ "azure.resourcegroup.name", true },
	{ NULL, false },
};

const struct detector detector_ec2 = { "ec2", ec2_attributes, detect_ec2 };
const struct detector detector_gcp = { "gcp", gcp_attributes, detect_gcp };
const struct detector detector_azure = { "azure", azure_attributes, detect_azure };
