/* fuzz.h - what each target defines: libFuzzer calls it with one input, and takes 0 for an answer.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
