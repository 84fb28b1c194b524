/* go_pgo.h - profiles for profile-guided optimisation by Go's compiler. Threads: no state. */
#pragma once
#include "formats/formats.h"

enum { GO_PGO_KEEP = 5 }; /* frames; the compiler looks at the last call, inlined ones need more */

struct go_pgo_options {
	uint32_t keep;          /* locations from the leaf on; 0 = all */
	bool aggregate_callees; /* the leaf is its function, at whatever line */
};

/* One sample a stack of `p` as these options leave it, a profile a profile type, without
 * attributes, links and timestamps. The caller frees; NULL with err. */
struct profiles *go_pgo_make(const struct profiles *p, const struct go_pgo_options *o,
			     struct err *err) MUST_CHECK;
