/* spool_batch.h - a record of the spool back into a batch. */
#pragma once
#include "pipeline/spool.h"

/* ERR_BUSY: no memory now. Else what is wrong with the body. */
struct batch *spool_entry_batch(const struct spool_entry *entry, struct budget *budget,
				struct err *err) MUST_CHECK;
