/*
 * container_id.h - the container of a process, out of /proc/PID/cgroup.
 *
 * A line is "hierarchy:controllers:path". Runtimes put the container's id into a component of the
 * path, bare (docker, containerd with cgroupfs) or dressed by systemd (docker-ID.scope,
 * cri-containerd-ID.scope, crio-ID.scope, libpod-ID.scope); systemd-nspawn puts the machine's name
 * there. Helpers that run beside a container (conmon) are not in it. Memory: the result points into
 * the text. Threads: any.
 */
#pragma once
#include "base/str.h"

/* "" = none. */
struct str container_id_find(struct str cgroup_text);
