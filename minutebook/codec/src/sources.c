/* Which sources this was compiled from: `minutebook/codec/library.py` refuses a library of others. */
#include "text.h"

#ifndef MINUTEBOOK_SOURCES
#define MINUTEBOOK_SOURCES ""
#endif

EXPORTED const char minutebook_sources[65] = MINUTEBOOK_SOURCES;
