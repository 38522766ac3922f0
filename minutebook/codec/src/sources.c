/* The digest of the sources: `minutebook/codec/library.py` rejects a library compiled from others. */
#include "text.h"

#ifndef MINUTEBOOK_SOURCES
#define MINUTEBOOK_SOURCES ""
#endif

EXPORTED const char minutebook_sources[65] = MINUTEBOOK_SOURCES;
