/* cleanup.h - release on every path: AUTO(fd_close) int fd = open(...); */
#pragma once
#include <stdlib.h>
#include <unistd.h>

#define AUTO(fn) __attribute__((cleanup(fn)))

static inline void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
static inline void ptr_free(void *pp)
{
	free(*(void **)pp);
}
#define ARRAY_LEN(a)                    (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
