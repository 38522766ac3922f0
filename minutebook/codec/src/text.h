/* Scan text sixteen bytes at a time. All functions work on ranges [at, end) and read nothing outside of them. */
#ifndef MINUTEBOOK_TEXT_H
#define MINUTEBOOK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the first of some bytes is taken for the lowest: build without this library"
#endif

typedef const uint8_t *bytes_t;

/* Functions that Python calls; all others are internal. */
#define EXPORTED __attribute__((visibility("default")))

#define BLOCK 16

/* Sixteen bytes; comparisons give 0xFF for true. */
typedef uint8_t sixteen_t __attribute__((vector_size(BLOCK)));

static inline sixteen_t load_sixteen(bytes_t at) {
    sixteen_t block;
    memcpy(&block, at, sizeof block);
    return block;
}

/* Return the index of the first byte with any bit set; BLOCK if there is none. */
static inline size_t first_of(sixteen_t marks) {
    uint64_t halves[2];
    memcpy(halves, &marks, sizeof halves);
    if (halves[0] != 0) {
        return (size_t)__builtin_ctzll(halves[0]) / 8;
    }
    return halves[1] != 0 ? 8 + (size_t)__builtin_ctzll(halves[1]) / 8 : BLOCK;
}

static inline bool any_of(sixteen_t marks) {
    return first_of(marks) < BLOCK;
}

/* Mark the bytes that are not plain in a JSON string. Plain is ASCII without quote, backslash and controls. */
static inline sixteen_t unusual_bytes(sixteen_t block) {
    return (sixteen_t)(block < 0x20) | (sixteen_t)(block == '"') | (sixteen_t)(block == '\\') | (block & 0x80);
}

static inline bool is_unusual(uint8_t byte) {
    return byte < 0x20 || byte == '"' || byte == '\\' || byte >= 0x80;
}

/* Return the first byte that is not plain; `end` if there is none. */
static inline bytes_t find_unusual(bytes_t at, bytes_t end) {
    for (; end - at >= BLOCK; at += BLOCK) {
        const size_t first = first_of(unusual_bytes(load_sixteen(at)));
        if (first < BLOCK) {
            return at + first;
        }
    }
    while (at < end && !is_unusual(*at)) {
        at++;
    }
    return at;
}

static inline bool is_continuation(uint8_t byte) {
    return (byte & 0xC0) == 0x80;
}

/* Return the length of the multi-byte character at `at`; 0 if there is none.
 *
 * As in RFC 3629 and Python: no surrogates, nothing beyond U+10FFFF, no overlong forms. */
static inline size_t character_length(bytes_t at, bytes_t end) {
    const size_t left = (size_t)(end - at);
    const uint8_t lead = at[0];
    if (lead >= 0xC2 && lead <= 0xDF) {
        return left >= 2 && is_continuation(at[1]) ? 2 : 0;
    }
    if (lead >= 0xE0 && lead <= 0xEF) {
        if (left < 3 || !is_continuation(at[1]) || !is_continuation(at[2])) {
            return 0;
        }
        const bool too_long = lead == 0xE0 && at[1] < 0xA0, is_surrogate = lead == 0xED && at[1] > 0x9F;
        return too_long || is_surrogate ? 0 : 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        if (left < 4 || !is_continuation(at[1]) || !is_continuation(at[2]) || !is_continuation(at[3])) {
            return 0;
        }
        const bool too_long = lead == 0xF0 && at[1] < 0x90, too_large = lead == 0xF4 && at[1] > 0x8F;
        return too_long || too_large ? 0 : 4;
    }
    return 0;
}

static inline bool is_utf8(bytes_t at, bytes_t end) {
    while ((at = find_unusual(at, end)) < end) {
        const size_t length = *at < 0x80 ? 1 : character_length(at, end);
        if (length == 0) {
            return false;
        }
        at += length;
    }
    return true;
}

/* A position in a text; `at` moves forward, never beyond `end`. */
struct reader {
    bytes_t at;
    bytes_t end;
};

/* Pass `text` if it comes next. */
static inline bool pass(struct reader *reader, const char *text, size_t size) {
    if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, text, size) != 0) {
        return false;
    }
    reader->at += size;
    return true;
}
#define PASS(reader, text) pass(reader, "" text, sizeof(text) - 1)

/* A part of a text. */
struct span {
    bytes_t at;
    size_t size;
};

/* Pass a string's content and the closing quote; it must be UTF-8 without escapes. */
static inline bool pass_plain_string(struct reader *reader, struct span *content) {
    bytes_t at = find_unusual(reader->at, reader->end);
    while (at < reader->end && *at >= 0x80) {
        const size_t length = character_length(at, reader->end);
        if (length == 0) {
            return false;
        }
        at = find_unusual(at + length, reader->end);
    }
    if (at == reader->end || *at != '"') {
        return false;
    }
    *content = (struct span){reader->at, (size_t)(at - reader->at)};
    reader->at = at + 1;
    return true;
}

#define MOST_DIGITS 18 /* of a number that always fits 64 bits */

/* Pass a non-negative number of at most 18 digits, without leading zeros. */
static inline bool pass_number(struct reader *reader, int64_t *number, struct span *digits) {
    const bytes_t first = reader->at;
    int64_t value = 0;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        if (reader->at - first == MOST_DIGITS) {
            return false;
        }
        value = value * 10 + (*reader->at - '0');
        reader->at++;
    }
    *number = value;
    *digits = (struct span){first, (size_t)(reader->at - first)};
    return digits->size == 1 || (digits->size > 1 && *first != '0');
}

#define MOST_SEQUENCE_DIGITS 56 /* as in Kinesis; longer ones are left to Python */

/* Return the first byte that is not a digit; `end` if there is none. */
static inline bytes_t find_behind_digits(bytes_t at, bytes_t end) {
    for (; end - at >= BLOCK; at += BLOCK) {
        const size_t first = first_of((sixteen_t)(load_sixteen(at) - '0' > 9));
        if (first < BLOCK) {
            return at + first;
        }
    }
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at;
}

/* Pass a sequence number, digits without leading zeros, and the closing quote. */
static inline bool pass_sequence_number(struct reader *reader, struct span *number) {
    const bytes_t first = reader->at;
    reader->at = find_behind_digits(first, reader->end);
    *number = (struct span){first, (size_t)(reader->at - first)};
    return number->size > 0 && number->size <= MOST_SEQUENCE_DIGITS && *first != '0' && PASS(reader, "\"");
}

#endif
