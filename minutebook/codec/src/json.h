/* Parse JSON of RFC 8259. Rare or ambiguous input is refused and left to Python. */
#ifndef MINUTEBOOK_JSON_H
#define MINUTEBOOK_JSON_H

#include "text.h"

#define MOST_WHOLE_DIGITS 19 /* of a number whose value is used: they always fit 64 bits */

/* A text being parsed. `odd` counts what an encoder would write differently: blanks, escapes, some numbers. */
struct document {
    struct reader reader;
    int64_t odd;
};

/* Return the next byte; 0, which begins no token, at the end. */
static inline uint8_t next_of(const struct document *document) {
    return document->reader.at < document->reader.end ? *document->reader.at : 0;
}

static inline bool pass_byte(struct document *document, uint8_t wanted) {
    if (next_of(document) != wanted) {
        return false;
    }
    document->reader.at++;
    return true;
}

static inline void pass_blanks(struct document *document) {
    for (uint8_t byte = next_of(document); byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
         byte = next_of(document)) {
        document->reader.at++;
        document->odd++;
    }
}

static inline int digit_of_hex(uint8_t byte) {
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Parse `\uXXXX`, six bytes; -1 if it is not one. */
static inline int32_t read_unit(bytes_t at) {
    int32_t unit = 0;
    for (int index = 2; index < 6; index++) {
        const int digit = digit_of_hex(at[index]);
        if (digit < 0) {
            return -1;
        }
        unit = unit * 16 + digit;
    }
    return at[0] == '\\' && at[1] == 'u' ? unit : -1;
}

/* Decode an escape or a surrogate pair of them; returns its length, 0 for an invalid one or half a pair. */
static inline size_t read_escape(bytes_t at, bytes_t end, uint32_t *character) {
    static const uint8_t SHORT[256] = {['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
                                       ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t'};
    if (end - at >= 2 && SHORT[at[1]] != 0) {
        *character = SHORT[at[1]];
        return 2;
    }
    const int32_t unit = end - at < 6 ? -1 : read_unit(at);
    if (unit < 0 || (unit >= 0xDC00 && unit <= 0xDFFF)) {
        return 0;
    }
    *character = (uint32_t)unit;
    if (unit < 0xD800 || unit > 0xDBFF) {
        return 6;
    }
    const int32_t low = end - at < 12 ? -1 : read_unit(at + 6);
    if (low < 0xDC00 || low > 0xDFFF) {
        return 0;
    }
    *character = 0x10000 + ((uint32_t)(unit - 0xD800) << 10) + (uint32_t)(low - 0xDC00);
    return 12;
}

/* Pass a string; `content` is the text between its quotes. */
static inline bool pass_quoted(struct document *document, struct span *content, bool *is_escaped) {
    if (!pass_byte(document, '"')) {
        return false;
    }
    const bytes_t first = document->reader.at, end = document->reader.end;
    *is_escaped = false;
    bytes_t at = find_unusual(first, end);
    while (at < end && *at != '"') {
        uint32_t character;
        const size_t length = *at == '\\' ? read_escape(at, end, &character)
                              : *at >= 0x80 ? character_length(at, end)
                                            : 0;
        if (length == 0) {
            return false;
        }
        *is_escaped |= *at == '\\';
        at = find_unusual(at + length, end);
    }
    if (at == end) {
        return false;
    }
    *content = (struct span){first, (size_t)(at - first)};
    document->reader.at = at + 1;
    document->odd += *is_escaped;
    return true;
}

/* Write a character as UTF-8; returns the position after it. */
static inline uint8_t *put_character(uint32_t character, uint8_t *into) {
    static const uint8_t LEADS[] = {0, 0xC0, 0xE0, 0xF0};
    const int more = (character > 0x7F) + (character > 0x7FF) + (character > 0xFFFF);
    *into++ = (uint8_t)(LEADS[more] | character >> 6 * more);
    for (int left = more - 1; left >= 0; left--) {
        *into++ = (uint8_t)(0x80 | (character >> 6 * left & 0x3F));
    }
    return into;
}

/* Unescape a content that `pass_quoted` returned; returns its size, which never grows. */
static inline size_t unescape_text(struct span content, uint8_t *into) {
    const uint8_t *const begin = into;
    const bytes_t end = content.at + content.size;
    for (bytes_t at = content.at; at < end;) {
        const bytes_t escape = memchr(at, '\\', (size_t)(end - at));
        const size_t plain = (size_t)((escape == NULL ? end : escape) - at);
        memcpy(into, at, plain);
        into += plain;
        at += plain;
        if (escape != NULL) {
            uint32_t character = 0;
            at += read_escape(at, end, &character);
            into = put_character(character, into);
        }
    }
    return (size_t)(into - begin);
}

/* A number with all its `digits`, `behind` of them after the point. `is_long`: too many digits for its value. */
struct number {
    uint64_t digits;
    int64_t behind;
    int64_t exponent;
    bool is_negative;
    bool is_whole;
    bool is_long;
};

/* Pass digits and append them to the number; returns their count. */
static inline int64_t pass_digits(struct document *document, struct number *number, int64_t before) {
    const bytes_t first = document->reader.at;
    bytes_t at = first;
    for (; at < document->reader.end && *at >= '0' && *at <= '9'; at++) {
        number->digits = number->digits * 10 + (uint64_t)(*at - '0'); /* may overflow: `is_long` is set then */
    }
    document->reader.at = at;
    number->is_long |= before + (at - first) > MOST_WHOLE_DIGITS;
    return at - first;
}

static inline bool pass_exponent(struct document *document, struct number *number) {
    struct number exponent = {.digits = 0};
    document->reader.at++;
    const bool is_negative = pass_byte(document, '-');
    if (!is_negative) {
        (void)pass_byte(document, '+');
    }
    if (pass_digits(document, &exponent, 0) == 0) {
        return false;
    }
    if (exponent.is_long || exponent.digits > 9999) {
        number->is_long = true;
        return true;
    }
    number->exponent = is_negative ? -(int64_t)exponent.digits : (int64_t)exponent.digits;
    return true;
}

/* Count the digits of a number without leading zeros; 1 for zero. */
static inline int64_t significant(uint64_t digits) {
    int64_t count = 1;
    for (; digits >= 10; digits /= 10) {
        count++;
    }
    return count;
}

static inline bool pass_json_number(struct document *document, struct number *number) {
    *number = (struct number){.is_whole = true};
    number->is_negative = pass_byte(document, '-');
    const uint8_t lead = next_of(document);
    const int64_t before = pass_digits(document, number, 0);
    if (before == 0 || (lead == '0' && before > 1)) {
        return false;
    }
    if (pass_byte(document, '.')) {
        number->is_whole = false;
        number->behind = pass_digits(document, number, before);
        if (number->behind == 0) {
            return false;
        }
    }
    bool has_exponent = false;
    if ((next_of(document) | 0x20) == 'e') {
        has_exponent = true;
        number->is_whole = false;
        if (!pass_exponent(document, number)) {
            return false;
        }
    }
    /* Python's Decimal writes very small numbers with an exponent, and integers have no negative zero. */
    document->odd += has_exponent || number->is_long || (number->is_whole && number->is_negative && number->digits == 0) ||
                     (number->behind > 6 && significant(number->digits) - number->behind <= -6);
    return true;
}

#endif
