/* Where control groups are mounted, on hosts of each kind and in containers; what can be seen
 * there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "agent/process/cgroups.h"
#include "base/cleanup.h"

#define V2_LINE "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_LINES                                                                              \
	"31 30 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n" \
	"32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"         \
	"33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"      \
	"34 30 0:30 / /sys/fs/cgroup/unified rw shared:1 master:2 - cgroup2 cgroup2 rw\n"     \
	"35 30 0:31 / /sys/fs/cgroup/gone rw - cgroup cgroup rw,hugetlb\n"
#define V1_OWN "9:name=systemd:/a:b\n4:memory:/process\n2:cpu,cpuacct:/\n0::/\n"

static const struct {
	const char *what, *mountinfo, *own;
	const char *path;
	const char *want; /* hierarchy:folder of each mount that shows it */
} cases[] = {
	{ "version 2", V2_LINE, "0::/init.scope\n", "/system.slice/x.service",
	  "0:/sys/fs/cgroup/system.slice/x.service " },
	{ "version 2, everything", V2_LINE, "0::/\n", "/", "0:/sys/fs/cgroup/ " },
	{ "version 1 and hybrid", V1_LINES, V1_OWN, "/x",
	  "4:/sys/fs/cgroup/memory/x 2:/sys/fs/cgroup/cpu,cpuacct/x 9:/sys/fs/cgroup/systemd/x "
	  "0:/sys/fs/cgroup/unified/x " },
	{ "controllers that are not ours to see", V1_LINES, "0::/\n", "/x",
	  "0:/sys/fs/cgroup/unified/x " },
	{ "a part is mounted: what it holds",
	  "40 23 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/1\n",
	  "/docker/1/child", "0:/sys/fs/cgroup/child " },
	{ "a part is mounted: itself",
	  "40 23 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/1\n",
	  "/docker/1", "0:/sys/fs/cgroup " },
	{ "a part is mounted: its neighbour is not shown",
	  "40 23 0:26 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/1\n",
	  "/docker/12", "" },
	{ "a namespace: what is outside is not shown", V2_LINE, "0::/\n", "/../other", "" },
	{ "dots in names are none", V2_LINE, "0::/\n", "/a..b/..c", "0:/sys/fs/cgroup/a..b/..c " },
	{ "no path", V2_LINE, "0::/\n", "relative", "" },
	{ "spaces", "40 23 0:26 / /mnt/my\\040groups rw - cgroup2 cgroup rw\n", "0::/\n", "/x",
	  "0:/mnt/my groups/x " },
	{ "other file systems",
	  "20 1 0:20 / /proc rw - proc proc rw\n21 1 8:1 / / rw - ext4 a rw\n", "0::/\n", "/x",
	  "" },
	{ "cut short", "40 23 0:26 / /sys rw - cgroup2\n40 23 0:26 / /sys\n\n40\n- cgroup2 x y\n",
	  "0::/\n", "/x", "" },
	{ "nothing", "", "", "/x", "" },
};

static void test_mounts(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cgroup_mounts m;
		char got[512] = "", folder[256];

		cgroup_mounts_parse(&m, str_cstr(cases[i].mountinfo), str_cstr(cases[i].own));
		for (uint32_t k = 0; k < m.count; k++)
			if (cgroup_folder(&m.list[k], cases[i].path, folder, sizeof(folder)))
				snprintf(got + strlen(got), sizeof(got) - strlen(got), "%u:%s ",
					 m.list[k].hierarchy, folder);
		if (strcmp(got, cases[i].want) != 0)
			fail_msg("%s: got \"%s\", want \"%s\"", cases[i].what, got, cases[i].want);
		cgroup_mounts_release(&m);
	}
}

#define NESTED                                                              \
	"30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"             \
	"31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" \
	"32 30 0:26 /docker/1 /part ro - cgroup2 cgroup2 rw\n"

static const struct {
	const char *text;
	const char *want; /* path@the mount that was named, "*" for none; NULL: too long */
} texts[] = {
	{ "/x", "/x@*" },
	{ "x", "/x@*" },
	{ "system.slice/x.service/", "/system.slice/x.service@*" },
	{ "//x/./y//", "/x/y@*" },
	{ "./x", "/x@*" },
	{ "/", "/@*" },
	{ "/../outside", "/../outside@*" },
	{ "/sys/fs/cgroup/x", "/x@/sys/fs/cgroup" },
	{ "/sys/fs/cgroup//x/", "/x@/sys/fs/cgroup" },
	{ "/sys/fs/cgroup", "/@/sys/fs/cgroup" },
	{ "/sys/fs/cgroup/memory/x/y", "/x/y@/sys/fs/cgroup/memory" },
	{ "/sys/fs/cgroup/memory", "/@/sys/fs/cgroup/memory" },
	{ "/sys/fs/cgroup/memoryless", "/memoryless@/sys/fs/cgroup" },
	{ "/sys/fs/cgroups/x", "/sys/fs/cgroups/x@*" },
	{ "sys/fs/cgroup/x", "/sys/fs/cgroup/x@*" }, /* a name, as it has no slash */
	{ "/part/child", "/docker/1/child@/part" },
	{ "/part", "/docker/1@/part" },
	{ "/0123456789012345678901234567890123456789", NULL },
};

static void test_texts(void **state)
{
	struct cgroup_mounts m;

	(void)state;
	cgroup_mounts_parse(&m, STR(NESTED), STR("4:memory:/\n0::/\n"));
	assert_int_equal(m.count, 3);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const struct cgroup_mount *in = NULL;
		char path[32], got[128];

		if (cgroup_path(&m, texts[i].text, path, sizeof(path), &in))
			snprintf(got, sizeof(got), "%s@%s", path, in ? in->point : "*");
		else
			got[0] = 0;
		if (strcmp(got, texts[i].want ? texts[i].want : "") != 0)
			fail_msg("%s: got \"%s\"", texts[i].text, got);
	}
	cgroup_mounts_release(&m);
}

static void test_room(void **state)
{
	struct cgroup_mounts m;
	char folder[20];

	(void)state;
	cgroup_mounts_parse(&m, STR(V2_LINE), STR("0::/\n"));
	assert_int_equal(m.count, 1);
	assert_true(cgroup_folder(&m.list[0], "/1234", folder, sizeof(folder)));
	assert_false(cgroup_folder(&m.list[0], "/12345", folder, sizeof(folder)));
	cgroup_mounts_release(&m);
}

/* On this machine, whatever it mounts: "/" is a group of each hierarchy that is. */
static void test_here(void **state)
{
	static const char *const all[] = { "/" }, *const outside[] = { "/", "/../elsewhere" };
	struct cgroups *c;
	struct err err;

	(void)state;
	c = cgroups_new(NULL, 0, &err);
	assert_non_null(c);
	assert_false(cgroups_in_kernel(c));
	cgroups_free(c);
	c = cgroups_new(all, 1, &err);
	if (!c) { /* a kernel without: it is said */
		assert_int_equal(err.kind, ERR_UNSUPPORTED);
		assert_non_null(strstr(err.msg, "this kernel has none"));
		return;
	}
	cgroups_free(c);
	c = cgroups_new(outside, 2, &err);
	assert_non_null(c);
	assert_false(cgroups_in_kernel(c)); /* one that cannot be shown is enough */
	cgroups_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
