/* extensions.h - the extensions of this folder, for components/all.c. */
#pragma once
#include "pipeline/component.h"

extern const struct component_ops file_storage_extension;
