/* flag_option.h - the option of the configuration that a flag sets. */
#pragma once
#include "flags.h"
#include "pipeline/options.h"

/* By its path (flags.h); NULL: there is none. */
const struct config_field *flag_option_field(const char *option);
