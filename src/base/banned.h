/* banned.h - calls with a safer sister; using one is a compile error. Included before every file by
 * the build. */
#pragma once
#include <stdio.h>
#include <string.h>
#include <time.h>
#undef strcpy
#undef strcat
#undef strtok
#undef sprintf
#undef vsprintf
#undef gmtime
#undef localtime
#pragma GCC poison strcpy strcat strtok sprintf vsprintf gmtime localtime
