/* Which sources this was compiled from: `archive/native/library.py` refuses a library of others. */
#include "text.h"

#ifndef MINUTEBOOK_SOURCES
#define MINUTEBOOK_SOURCES ""
#endif

EXPORTED const char minutebook_sources[65] = MINUTEBOOK_SOURCES;
