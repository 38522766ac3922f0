/* Copying the content of a JSON string, of which many characters are escaped quotes: a payload that is JSON itself.
 *
 * Sixteen bytes at a time, and the same steps whatever they hold: where each quote is looked at by itself, the
 * processor guesses wrong at almost each. It takes one that shuffles bytes (SSSE3: x86-64 since 2006); elsewhere
 * nothing is copied here, and the caller's loop does all of it. */
#ifndef MINUTEBOOK_QUOTES_H
#define MINUTEBOOK_QUOTES_H

#include "text.h"

/* How far a copy came: both are moved on, and behind no half of an escape. */
struct copying {
    bytes_t from;
    uint8_t *into;
};

#if defined(__x86_64__) && !defined(MINUTEBOOK_PORTABLE)
#include <tmmintrin.h>

#define HALF 8

/* Which of eight bytes stay, by the bits of those that go: their indices side by side. */
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

/* Copy text up to the first byte that neither stands for itself nor is an escaped quote, or to the last few bytes.
 *
 * Up to BLOCK bytes behind what is written are written, too. */
__attribute__((target("ssse3,popcnt"))) static struct copying copy_by_blocks(struct copying copy, bytes_t end) {
    while (end - copy.from >= BLOCK) {
        const __m128i block = _mm_loadu_si128((const __m128i *)copy.from);
        const __m128i is_slash = _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'));
        const __m128i is_quote = _mm_cmpeq_epi8(block, _mm_set1_epi8('"'));
        /* Bytes are signed here: what is no ASCII is less than nothing. */
        const __m128i is_other = _mm_cmplt_epi8(block, _mm_set1_epi8(0x20));
        if (_mm_movemask_epi8(_mm_or_si128(is_slash, _mm_or_si128(is_quote, is_other))) == 0) {
            _mm_storeu_si128((__m128i *)copy.into, block);
            copy.from += BLOCK;
            copy.into += BLOCK;
            continue;
        }
        const unsigned slashes = (unsigned)_mm_movemask_epi8(is_slash), quotes = (unsigned)_mm_movemask_epi8(is_quote);
        const unsigned others = (unsigned)_mm_movemask_epi8(is_other);
        /* An escaped byte that is no quote, or a quote that is not escaped. */
        const unsigned stops = (others | ((slashes << 1) ^ quotes)) & 0xFFFF;
        unsigned size = stops == 0 ? BLOCK : (unsigned)__builtin_ctz(stops);
        size -= size > 0 && (slashes >> (size - 1) & 1); /* the backslash stays with what it escapes */
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
