/* system: what the kernel and the files of this machine say. */
#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "components/processors/detect/detect.h"

/* The machine's name in full, as the resolver has it. */
static bool dns_name(const char *host, char *out, size_t size)
{
	struct addrinfo hints = { .ai_flags = AI_CANONNAME, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	bool ok;

	if (getaddrinfo(host, NULL, &hints, &found) != 0)
		return false;
	ok = found && found->ai_canonname && found->ai_canonname[0];
	if (ok)
		snprintf(out, size, "%s", found->ai_canonname);
	freeaddrinfo(found);
	return ok;
}

static bool host_name(const struct detect_options *o, char *out, size_t size, struct err *err)
{
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1) != 0)
		return err_set_errno(err, "cannot read the host's name");
	for (uint32_t i = 0; i < o->hostname_source_count; i++) {
		if (strcmp(o->hostname_sources[i], "os") == 0) {
			snprintf(out, size, "%s", host);
			return true;
		}
		if (dns_name(host, out, size))
			return true;
	}
	return err_set(err, ERR_UNAVAILABLE, "no hostname source knows the host's name");
}

/* The value of NAME= in /etc/os-release, without quotes. */
static bool os_release(const char *name, char *out, size_t size)
{
	FILE *f = fopen("/etc/os-release", "re");
	size_t len = strlen(name);
	char line[512];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		struct str value;

		if (strncmp(line, name, len) != 0 || line[len] != '=')
			continue;
		value = str_trim(str_cstr(line + len + 1));
		if (value.len >= 2 && value.ptr[0] == '"')
			value = str_from(value.ptr + 1, value.len - 2);
		snprintf(out, size, "%.*s", STR_ARG(value));
		found = true;
	}
	if (f)
		fclose(f);
	return found;
}

static void machine_id(struct detected *out)
{
	static const char *const files[] = { "/etc/machine-id", "/var/lib/dbus/machine-id" };
	char text[64];

	for (size_t i = 0; i < 2; i++) {
		FILE *f = fopen(files[i], "re");

		if (f && fgets(text, sizeof(text), f))
			detected_add(out, "host.id", str_trim(str_cstr(text)));
		if (f)
			fclose(f);
	}
}

/* Go's names for what uname calls its machines. */
static const char *arch_of(const char *machine)
{
	if (strcmp(machine, "x86_64") == 0)
		return "amd64";
	return strcmp(machine, "aarch64") == 0 ? "arm64" : machine;
}

static bool detect_system(const struct detect_options *o, struct detected *out, struct err *err)
{
	char text[512], version[256] = "";
	struct utsname u;

	if (!host_name(o, text, sizeof(text), err))
		return false;
	detected_add(out, "host.name", str_cstr(text));
	detected_add(out, "os.type", STR("linux"));
	machine_id(out);
	if (uname(&u) != 0)
		return true;
	detected_add(out, "host.arch", str_cstr(arch_of(u.machine)));
	snprintf(text, sizeof(text), "%s %s %s %s %s", u.sysname, u.nodename, u.release, u.version,
		 u.machine);
	detected_add(out, "os.description", str_cstr(text));
	if (os_release("NAME", text, sizeof(text)))
		detected_add(out, "os.name", str_cstr(text));
	if (os_release("VERSION_ID", version, sizeof(version)))
		detected_add(out, "os.version", str_cstr(version));
	return true;
}

static const struct detect_attribute attributes[] = {
	{ "host.name", true },       { "os.type", true },  { "host.id", false },
	{ "host.arch", false },      { "os.name", false }, { "os.version", false },
	{ "os.description", false }, { NULL, false },
};

const struct detector detector_system = { "system", attributes, detect_system };
