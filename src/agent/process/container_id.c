#include "agent/process/container_id.h"

static bool is_hex(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.ptr[i];

		if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
			return false;
	}
	return s.len > 0;
}

static bool is_digits(struct str s)
{
	uint64_t ignored;

	return s.len && s.len < 20 && s.ptr[0] != '-' && str_to_u64(s, &ignored);
}

/* 64 hex digits; AWS Fargate: 32 hex digits, '-', a number. */
static bool is_id(struct str s)
{
	if (s.len == 64)
		return is_hex(s);
	return s.len > 33 && s.ptr[32] == '-' && is_hex(str_head(s, 32)) &&
	       is_digits(str_skip(s, 33));
}

static bool drop_prefix(struct str *s, struct str prefix)
{
	if (!str_has_prefix(*s, prefix))
		return false;
	*s = str_skip(*s, prefix.len);
	return true;
}

static bool drop_suffix(struct str *s, struct str suffix)
{
	if (!str_has_suffix(*s, suffix))
		return false;
	s->len -= suffix.len;
	return true;
}

/* systemd-nspawn: machine-NAME.scope (below machine.slice), systemd-nspawn@NAME.service. */
static struct str machine_name(struct str component)
{
	if (drop_prefix(&component, STR("systemd-nspawn@")) &&
	    drop_suffix(&component, STR(".service")))
		return component;
	if (drop_suffix(&component, STR(".scope")) && drop_prefix(&component, STR("machine-"))) {
		/* libvirt's virtual machines: machine-qemu\x2d1\x2dname.scope */
		if (str_has_prefix(component, STR("qemu")) || str_has_prefix(component, STR("lxc")))
			return STR("");
		return component;
	}
	return STR("");
}

/* The id in one component of a path, or "". */
static struct str id_of(struct str component)
{
	static const struct {
		const char *text;
	} dressings[] = { { "docker-" }, { "cri-containerd-" }, { "containerd-" }, { "crio-" },
			  { "libpod-" }, { "nerdctl-" },        { "podman-" } };
	ptrdiff_t colon;

	drop_suffix(&component, STR(".scope"));
	/* containerd without a systemd scope: SLICE:cri-containerd:ID */
	while ((colon = str_find(component, ':')) >= 0)
		component = str_skip(component, (size_t)colon + 1);
	for (size_t i = 0; i < sizeof(dressings) / sizeof(*dressings); i++)
		if (drop_prefix(&component, str_cstr(dressings[i].text)))
			break;
	return is_id(component) ? component : STR("");
}

/* The innermost container of a path: one in another is the one that counts. */
static struct str id_in_path(struct str path)
{
	struct str component, found = STR("");
	bool in_machine_slice = false;

	while (path.len && str_split(&path, '/', &component)) {
		struct str id = id_of(component);

		if (!id.len &&
		    (in_machine_slice || str_has_prefix(component, STR("systemd-nspawn@"))))
			id = machine_name(component);
		if (id.len)
			found = id;
		/* A name can look like anything, an id cannot: names only right below the slice. */
		in_machine_slice = str_is(component, "machine.slice");
		if (str_search(component, STR("conmon")) >= 0)
			return STR("");
	}
	return found;
}

struct str container_id_find(struct str cgroup_text)
{
	struct str line, path, id;

	while (cgroup_text.len && str_split(&cgroup_text, '\n', &line)) {
		ptrdiff_t first = str_find(line, ':');
		ptrdiff_t second =
			first < 0 ? -1 : str_find(str_skip(line, (size_t)first + 1), ':');

		if (second < 0)
			continue;
		path = str_skip(line, (size_t)(first + second) + 2);
		id = id_in_path(path);
		if (id.len)
			return id;
	}
	return STR("");
}
