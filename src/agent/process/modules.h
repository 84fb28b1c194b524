/*
 * modules.h - the files whose code runs on this machine, each opened once, when first sampled.
 *
 * A mapping names its file by what is known without opening it: device and inode (/proc/PID/maps)
 * or the build id (side band). Only when a walk first gets into the file is it opened; then its
 * load bias, identity and unwind tables are known, and two names that lead to one build become one
 * executable. A file that was written over since (`cp new.so old.so` keeps the inode) is another
 * module. Tables are built a page at a time (module_build()), evicted by last use.
 *
 * Memory: counted references; a module without any is kept for a while, as shells start the same
 * programs again and again. ELF files stay mapped, not copied. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/process/executable.h"
#include "agent/process/file_stamp.h"
#include "agent/process/mappings.h"
#include "agent/seam.h"
#include "agent/unwind/store.h"
#include "base/str.h"

enum module_state {
	MODULE_NEW,     /* not opened */
	MODULE_READY,   /* opened: bias and facts are known */
	MODULE_REFUSED, /* cannot be opened, or no ELF file: as anonymous code */
};

struct module_key {
	uint64_t device, inode;
	struct str build_id; /* raw; may be empty */
	struct str path;     /* "[vdso]" is the kernel's */
};

struct module {
	uint32_t refs;
	enum module_state state;
	struct module *next; /* in its bucket */
	struct modules *owner;
	/* MODULE_READY: the first one of this build, with a reference; or itself, without. */
	struct module *same;
	uint32_t id; /* of the executable in BPF; 0 before READY and where `same` has it */
	uint64_t idle_since_ns;
	uint64_t device, inode;
	uint8_t build_id[64];
	uint32_t build_id_bytes;
	struct elf_file *file;
	int fd;                       /* of the file, to open it again for its symbols; -1: none,
				       * or that of `same`, if that is the very file */
	struct file_stamp stamp;      /* of it, when it was opened */
	struct unwind_tables *tables; /* NULL: none could be read */
	struct executable *facts;     /* one reference */
	/* Of a runtime's file: what the last process that was attached to needed; most others of
	 * this file will need the same. step 0: none yet. */
	struct unwind_runtime usual;
	bool built; /* all its rows were asked for */
	bool read;  /* pages of `file` were, since they were let go */
	char *path;
};

struct runtime_tables;

struct modules {
	struct unwind_store *store;
	struct seam *seam;
	struct mapping_sets *sets;
	struct module **buckets, **by_id;
	struct unwind_row *scratch;          /* one page's rows */
	const struct runtime_tables *tables; /* needed where there are steps */
	uint32_t steps; /* runtimes to look for: bits 1 << enum unwind_step_kind */
	/* Versions of runtimes that their tables do not have, and that were told. */
	struct {
		uint32_t step, version;
	} unknown[32];
	uint32_t unknown_count;
	uint32_t count, idle_count;
	uint64_t swept_ns, let_go_ns;
	uint64_t opened, refused, built, empty, pages_refused, evicted, build_ns;
};

void modules_init(struct modules *all, struct unwind_store *store, struct seam *seam,
		  struct mapping_sets *sets);
void modules_release(struct modules *all); /* after all mapping sets are gone */
/* A reference to the module of that key, made if it is new. */
struct module *modules_get(struct modules *all, const struct module_key *key);
void module_ref(struct module *m);   /* NULL is fine */
void module_unref(struct module *m); /* NULL is fine */
/* The module that has the executable `id`, or NULL. */
struct module *modules_by_id(const struct modules *all, uint32_t id);
/* The module of an executable; NULL: it is gone, others may have its id. */
struct module *modules_by_executable(const struct modules *all, const struct executable *e);
/* Once per round: forgets modules that nobody has mapped for some minutes, and lets go of pages of
 * files that were read for tables (elf_file_let_go). */
void modules_sweep(struct modules *all, uint64_t now_ns);

/* Opens the file if that was not tried yet, and tells BPF its bias in all mappings. False: refused.
 */
bool module_load(struct module *m, uint32_t pid, const struct mapping *mapping);
/* Builds the rows of the page of elf_vaddr, if they are absent. False: there are none to be had. */
bool module_build(struct module *m, uint64_t elf_vaddr);
/* Fills in executable and load_bias for BPF, as far as they are known. */
void module_place(const struct mapping *mapping, struct unwind_mapping *to);
/* Another descriptor of the file. */
bool module_open_again(const struct module *m, int *fd, struct err *err) MUST_CHECK;
bool module_bias(const struct mapping *mapping, uint64_t *load_bias);
