/* Copy the content of a JSON string with many escaped quotes, such as a payload that is JSON itself.
 *
 * It processes sixteen bytes at a time without branches: with a branch per quote, the processor mispredicts almost each.
 * It needs SSSE3 (x86-64 since 2006); elsewhere this copies nothing, and the caller's loop copies all. */
#ifndef MINUTEBOOK_QUOTES_H
#define MINUTEBOOK_QUOTES_H

#include "text.h"

/* The positions of a copy; `from` is never within an escape. */
struct copying {
    bytes_t from;
    uint8_t *into;
};

#if defined(__x86_64__) && !defined(MINUTEBOOK_PORTABLE)
#include <tmmintrin.h>

#define HALF 8

/* The indices of the bytes that stay of eight, by a bit mask of those that go. */
static uint8_t staying[256][HALF];

__attribute__((constructor)) static void fill_staying(void) {
    for (int going = 0; going < 256; going++) {
        int count = 0;
        for (uint8_t index = 0; index < HALF; index++) {
            if ((going >> index & 1) == 0) {
                staying[going][count++] = index;
            }
        }
    }
}

static inline __m128i indices_without(unsigned going) {
    return _mm_loadl_epi64((const __m128i *)staying[going]);
}

/* Copy text up to the first byte that is neither plain nor part of an escaped quote, or up to the last few bytes.
 *
 * May write up to BLOCK bytes after the copied text. */
__attribute__((target("ssse3,popcnt"))) static struct copying copy_by_blocks(struct copying copy, bytes_t end) {
    while (end - copy.from >= BLOCK) {
        const __m128i block = _mm_loadu_si128((const __m128i *)copy.from);
        const __m128i is_slash = _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'));
        const __m128i is_quote = _mm_cmpeq_epi8(block, _mm_set1_epi8('"'));
        /* Bytes are signed here: those beyond ASCII are negative. */
        const __m128i is_other = _mm_cmplt_epi8(block, _mm_set1_epi8(0x20));
        if (_mm_movemask_epi8(_mm_or_si128(is_slash, _mm_or_si128(is_quote, is_other))) == 0) {
            _mm_storeu_si128((__m128i *)copy.into, block);
            copy.from += BLOCK;
            copy.into += BLOCK;
            continue;
        }
        const unsigned slashes = (unsigned)_mm_movemask_epi8(is_slash), quotes = (unsigned)_mm_movemask_epi8(is_quote);
        const unsigned others = (unsigned)_mm_movemask_epi8(is_other);
        /* Escaped bytes other than quotes, and quotes that are not escaped. */
        const unsigned stops = (others | ((slashes << 1) ^ quotes)) & 0xFFFF;
        unsigned size = stops == 0 ? BLOCK : (unsigned)__builtin_ctz(stops);
        size -= size > 0 && (slashes >> (size - 1) & 1); /* do not separate a backslash from the escaped byte */
        const unsigned going = slashes & ((1U << size) - 1);
        const unsigned low = going & 0xFF, high = going >> HALF;
        const __m128i shifted = _mm_add_epi8(indices_without(high), _mm_set1_epi8(HALF));
        _mm_storel_epi64((__m128i *)copy.into, _mm_shuffle_epi8(block, indices_without(low)));
        _mm_storel_epi64((__m128i *)(copy.into + HALF - __builtin_popcount(low)), _mm_shuffle_epi8(block, shifted));
        copy.from += size;
        copy.into += size - (unsigned)__builtin_popcount(going);
        if (stops != 0) {
            break;
        }
    }
    return copy;
}

static inline struct copying copy_with_quotes(struct copying copy, bytes_t end) {
    return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("popcnt") ? copy_by_blocks(copy, end) : copy;
}

#else

static inline struct copying copy_with_quotes(struct copying copy, bytes_t end) {
    (void)end;
    return copy;
}

#endif
#endif
