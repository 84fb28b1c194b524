/* Lines as the runtimes write them: docker 20 to 27, containerd, CRI-O, podman, kubelet, nspawn,
 * ECS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "agent/process/container_id.h"

#define ID  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define POD "pod8dbc1f5c_1a2b_4c3d_9e8f_001122334455"

static const struct {
	const char *what, *text, *want;
} cases[] = {
	{ "no container, v2", "0::/user.slice/user-1000.slice/session-2.scope\n", "" },
	{ "no container, v1", "12:cpuset:/\n11:memory:/user.slice\n0::/\n", "" },
	{ "docker, v1, cgroupfs", "11:memory:/docker/" ID "\n1:name=systemd:/docker/" ID "\n", ID },
	{ "docker, v2, systemd", "0::/system.slice/docker-" ID ".scope\n", ID },
	{ "docker, v2, cgroupfs", "0::/docker/" ID "\n", ID },
	{ "docker in docker", "0::/docker/" ID "/docker/" ID2 "\n", ID2 },
	{ "docker, a service inside", "0::/system.slice/docker-" ID ".scope/init.scope\n", ID },
	{ "hybrid: the v2 line is empty",
	  "5:cpu,cpuacct:/docker/" ID "\n0::/system.slice/containerd.service\n", ID },
	{ "kubernetes, containerd, v1, cgroupfs",
	  "10:cpuset:/kubepods/besteffort/pod1a2b3c4d-0000-1111-2222-333344445555/" ID "\n", ID },
	{ "kubernetes, containerd, v2, systemd",
	  "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-" POD
	  ".slice/cri-containerd-" ID ".scope\n",
	  ID },
	{ "kubernetes, containerd without a scope",
	  "4:memory:/system.slice/containerd.service/kubepods-besteffort-" POD
	  ".slice:cri-containerd:" ID "\n",
	  ID },
	{ "kubernetes, docker",
	  "3:cpu:/kubepods.slice/kubepods-" POD ".slice/docker-" ID ".scope\n", ID },
	{ "kubernetes, CRI-O", "0::/kubepods.slice/kubepods-" POD ".slice/crio-" ID ".scope\n",
	  ID },
	{ "CRI-O, its payload below",
	  "0::/kubepods.slice/kubepods-" POD ".slice/crio-" ID ".scope/container\n", ID },
	{ "CRI-O's monitor", "0::/kubepods.slice/kubepods-" POD ".slice/crio-conmon-" ID ".scope\n",
	  "" },
	{ "kind: kubelet inside a container",
	  "0::/docker/" ID "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-" POD
	  ".slice/cri-containerd-" ID2 ".scope\n",
	  ID2 },
	{ "podman, root, v2", "0::/machine.slice/libpod-" ID ".scope/container\n", ID },
	{ "podman, rootless, v2",
	  "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID
	  ".scope/container\n",
	  ID },
	{ "podman, v1, cgroupfs", "9:memory:/libpod_parent/libpod-" ID "\n", ID },
	{ "podman's monitor", "0::/machine.slice/libpod-conmon-" ID ".scope\n", "" },
	{ "nerdctl", "0::/system.slice/nerdctl-" ID ".scope\n", ID },
	{ "containerd, ctr, v1", "7:devices:/default/" ID "\n", ID },
	{ "nspawn, v2, a scope", "0::/machine.slice/machine-buster.scope/payload\n", "buster" },
	{ "nspawn, v1, a service",
	  "1:name=systemd:/machine.slice/systemd-nspawn@db1.service/payload\n", "db1" },
	{ "nspawn's name needs the slice", "0::/user.slice/machine-mine.scope\n", "" },
	{ "a virtual machine is none", "0::/machine.slice/machine-qemu\\x2d1\\x2dweb.scope\n", "" },
	{ "ECS on EC2", "6:memory:/ecs/mycluster/0123456789abcdef/" ID "\n", ID },
	{ "Fargate", "6:memory:/ecs/0123456789abcdef0123456789abcdef-1234567890\n",
	  "0123456789abcdef0123456789abcdef-1234567890" },
	{ "63 digits",
	  "0::/docker/123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n", "" },
	{ "64 letters that are no hex digits",
	  "0::/docker/z123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n", "" },
	{ "upper case is none of ours",
	  "0::/docker/ABCDEF6789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n", "" },
	{ "no colon", "garbage\n", "" },
	{ "one colon", "1:garbage\n", "" },
	{ "nothing", "", "" },
	{ "no newline at the end", "0::/docker/" ID, ID },
};

static void test_lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct str got = container_id_find(str_cstr(cases[i].text));

		if (!str_is(got, cases[i].want))
			fail_msg("%s: got \"%.*s\", want \"%s\"", cases[i].what, STR_ARG(got),
				 cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
