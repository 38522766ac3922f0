/* Looking at text, eight bytes at a time. Plain functions over ranges [at, end): nothing is read outside of one. */
#ifndef MINUTEBOOK_TEXT_H
#define MINUTEBOOK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the first of eight bytes is taken for the lowest: build without this library"
#endif

#define EVERY_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))
#define HIGH_BITS EVERY_BYTE(0x80)

typedef const uint8_t *bytes_t;

static inline uint64_t load_eight(bytes_t at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* The high bit of each byte that is zero. A byte behind the first such one may be marked wrongly, the first never. */
static inline uint64_t zero_bytes(uint64_t word) {
    return (word - EVERY_BYTE(1)) & ~word & HIGH_BITS;
}

/* The high bit of each byte that JSON writes escaped: a quote, a backslash, a control character. As above. */
static inline uint64_t escaped_bytes(uint64_t word) {
    const uint64_t controls = (word - EVERY_BYTE(0x20)) & ~word & HIGH_BITS;
    return controls | zero_bytes(word ^ EVERY_BYTE('"')) | zero_bytes(word ^ EVERY_BYTE('\\'));
}

static inline bool is_escaped(uint8_t byte) {
    return byte < 0x20 || byte == '"' || byte == '\\';
}

/* Which of eight bytes, the lowest first, is the first that is marked. */
static inline size_t first_marked(uint64_t marks) {
    return (size_t)__builtin_ctzll(marks) / 8;
}

/* Return the first byte that JSON writes escaped; `end` when there is none. */
static inline bytes_t find_escaped(bytes_t at, bytes_t end) {
    for (; end - at >= 8; at += 8) {
        const uint64_t marks = escaped_bytes(load_eight(at));
        if (marks != 0) {
            return at + first_marked(marks);
        }
    }
    while (at < end && !is_escaped(*at)) {
        at++;
    }
    return at;
}

static inline bool is_continuation(uint8_t byte) {
    return (byte & 0xC0) == 0x80;
}

/* Return the length of the character of several bytes that begins at `at`; 0 where none does.
 *
 * As RFC 3629 has it, and Python: no surrogates, nothing beyond U+10FFFF, nothing longer than it must be. */
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
    while (at < end) {
        if (end - at >= 8 && (load_eight(at) & HIGH_BITS) == 0) {
            at += 8;
        } else if (*at < 0x80) {
            at++;
        } else {
            const size_t length = character_length(at, end);
            if (length == 0) {
                return false;
            }
            at += length;
        }
    }
    return true;
}

/* A place in a text that is read from its front: `at` moves, and never beyond `end`. */
struct reader {
    bytes_t at;
    bytes_t end;
};

/* Pass `text` where it comes next. */
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

/* Pass a string's content and the quote behind it; it must hold nothing that is escaped, and be UTF-8. */
static inline bool pass_plain_string(struct reader *reader, struct span *content) {
    const bytes_t behind = find_escaped(reader->at, reader->end);
    if (behind == reader->end || *behind != '"' || !is_utf8(reader->at, behind)) {
        return false;
    }
    *content = (struct span){reader->at, (size_t)(behind - reader->at)};
    reader->at = behind + 1;
    return true;
}

#define MOST_DIGITS 18 /* of a number that 64 bits hold, whatever the digits are */

/* Pass a number that is not negative, of at most 18 digits, without leading zeros. */
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

#define MOST_SEQUENCE_DIGITS 56 /* as Kinesis writes them; longer ones are left to others */

/* Pass a sequence number and the quote behind it: digits, without leading zeros. */
static inline bool pass_sequence_number(struct reader *reader, struct span *number) {
    const bytes_t first = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        reader->at++;
    }
    *number = (struct span){first, (size_t)(reader->at - first)};
    return number->size > 0 && number->size <= MOST_SEQUENCE_DIGITS && *first != '0' && PASS(reader, "\"");
}

#endif
