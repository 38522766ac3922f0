/* Convert JSON values to those of a column, if they fit exactly: nothing is rounded or guessed. */
#ifndef MINUTEBOOK_VALUES_H
#define MINUTEBOOK_VALUES_H

#include "json.h"

enum kind { TEXT, TRUTH, WHOLE, DOUBLE, DECIMAL, DATE, ZONED_TIME, LOCAL_TIME, JSON };

#define DAY_US INT64_C(86400000000)
#define FIRST_DAY (-719162) /* 0001-01-01, in days since 1970 */
#define LAST_DAY 2932896    /* 9999-12-31 */
#define MOST_EXACT (UINT64_C(1) << 53)

/* Growing values of one kind. `there` has a byte per value, 0 for null. Texts and JSON lie in `bytes` by `offsets`, one
 * more than values; others in `numbers`, `width` bytes each. A WHOLE number lies in [low, high], is divided by `divisor`
 * towards the lower one, and multiplied by `factor`. WHOLE and DOUBLE numbers may be texts if `takes_text`. There is
 * room for `most` values. */
struct values {
    int32_t kind;
    int32_t width;
    int32_t precision;
    int32_t scale;
    int64_t low;
    int64_t high;
    int64_t factor;
    int64_t divisor;
    int64_t takes_text;
    uint8_t *there;
    uint8_t *numbers;
    int32_t *offsets;
    uint8_t *bytes;
    int64_t count;
    int64_t most;
};

static inline bool has_offsets(const struct values *values) {
    return values->kind == TEXT || values->kind == JSON;
}

static inline void put_null(struct values *values) {
    values->there[values->count] = 0;
    if (has_offsets(values)) {
        values->offsets[values->count + 1] = values->offsets[values->count];
    } else {
        memset(values->numbers + values->count * values->width, 0, (size_t)values->width);
    }
    values->count++;
}

/* Mark the next value as not null, and return its place. Callers know `width`: copies of constant size are faster. */
static inline uint8_t *place_of_number(struct values *values) {
    values->there[values->count] = 1;
    return values->numbers + values->count++ * values->width;
}

static inline bool put_long(struct values *values, int64_t number) {
    const int32_t narrow = (int32_t)number;
    if (values->width == sizeof narrow) {
        memcpy(place_of_number(values), &narrow, sizeof narrow);
    } else {
        memcpy(place_of_number(values), &number, sizeof number);
    }
    return true;
}

static inline uint8_t *place_of_text(struct values *values) {
    return values->bytes + values->offsets[values->count];
}

static inline bool put_text(struct values *values, size_t size) {
    values->offsets[values->count + 1] = values->offsets[values->count] + (int32_t)size;
    values->there[values->count++] = 1;
    return true;
}

static inline bool put_whole(struct values *values, const struct number *number) {
    if (!number->is_whole || number->is_long || number->digits > INT64_MAX) {
        return false;
    }
    if (number->is_negative && number->digits == 0) {
        return false;
    }
    const int64_t found = number->is_negative ? -(int64_t)number->digits : (int64_t)number->digits;
    if (found < values->low || found > values->high) {
        return false;
    }
    const int64_t lower = found / values->divisor - (found % values->divisor < 0);
    return put_long(values, lower * values->factor);
}

/* The nearest double: both factors are exact, so it is rounded once (Clinger, 1990). */
static inline bool put_double(struct values *values, const struct number *number) {
    static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const int64_t power = number->exponent - number->behind;
    if (number->is_long || number->digits > MOST_EXACT || power < -22 || power > 22) {
        return false;
    }
    if (number->is_whole && number->is_negative && number->digits == 0) {
        return false;
    }
    double found = (double)number->digits;
    found = power < 0 ? found / POWERS[-power] : found * POWERS[power];
    found = number->is_negative ? -found : found;
    memcpy(place_of_number(values), &found, sizeof found);
    return true;
}

static inline bool put_decimal(struct values *values, const struct number *number) {
    if (number->is_long || number->exponent != 0 || number->behind > values->scale) {
        return false;
    }
    __extension__ typedef __int128 wide_t;
    const int64_t more = values->scale - number->behind;
    if (significant(number->digits) + more > values->precision) {
        return false;
    }
    wide_t found = (wide_t)number->digits; /* 38 digits at most: `precision` */
    for (int64_t step = 0; number->digits != 0 && step < more; step++) {
        found *= 10;
    }
    found = number->is_negative ? -found : found;
    memcpy(place_of_number(values), &found, sizeof found);
    return true;
}

/* Parse the text of a decimal: digits, and optionally a point and digits. */
static inline bool read_decimal(struct span text, struct number *number) {
    struct document document = {.reader = {text.at, text.at + text.size}};
    *number = (struct number){.is_whole = true};
    number->is_negative = pass_byte(&document, '-');
    const int64_t before = pass_digits(&document, number, 0);
    if (before == 0) {
        return false;
    }
    if (pass_byte(&document, '.')) {
        number->behind = pass_digits(&document, number, before);
        if (number->behind == 0) {
            return false;
        }
    }
    return document.reader.at == document.reader.end;
}

/* Parse the text of a JSON number. */
static inline bool read_number(struct span text, struct number *number) {
    struct document document = {.reader = {text.at, text.at + text.size}};
    return pass_json_number(&document, number) && document.reader.at == document.reader.end;
}

/* Parse digits; -1 if one is not a digit. */
static inline int64_t read_digits(bytes_t at, size_t count) {
    int64_t found = 0;
    for (size_t index = 0; index < count; index++) {
        if (at[index] < '0' || at[index] > '9') {
            return -1;
        }
        found = found * 10 + (at[index] - '0');
    }
    return found;
}

/* Parse YYYY-MM-DD as days since 1970. */
static inline bool read_date(bytes_t at, int64_t *days) {
    static const int8_t LENGTHS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const int64_t year = read_digits(at, 4), month = read_digits(at + 5, 2), day = read_digits(at + 8, 2);
    if (at[4] != '-' || at[7] != '-' || year < 1 || month < 1 || month > 12 || day < 1) {
        return false;
    }
    const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (day > LENGTHS[month - 1] + (month == 2 && is_leap)) {
        return false;
    }
    /* With years that begin in March, the leap day is the last day. */
    const int64_t since = year - (month <= 2), months = (month + 9) % 12;
    *days = since * 365 + since / 4 - since / 100 + since / 400 + (153 * months + 2) / 5 + day - 1 - 719468;
    return true;
}

/* Parse HH:MM after a sign or a separator, as seconds. */
static inline bool read_minutes(bytes_t at, int64_t *seconds) {
    const int64_t hours = read_digits(at, 2), minutes = read_digits(at + 3, 2);
    *seconds = hours * 3600 + minutes * 60;
    return hours >= 0 && hours < 24 && at[2] == ':' && minutes >= 0 && minutes < 60;
}

/* Parse YYYY-MM-DDTHH:MM:SS, up to nine digits after a point, and a zone if the kind has one, as microseconds. */
static inline bool read_time(struct span text, bool is_zoned, int64_t *time_us) {
    int64_t days, minutes, offset = 0;
    if (text.size < 19 || !read_date(text.at, &days) || (text.at[10] != 'T' && text.at[10] != ' ') ||
        !read_minutes(text.at + 11, &minutes) || text.at[16] != ':') {
        return false;
    }
    const int64_t seconds = read_digits(text.at + 17, 2);
    if (seconds < 0 || seconds > 59) {
        return false;
    }
    bytes_t at = text.at + 19;
    const bytes_t end = text.at + text.size;
    int64_t fraction = 0;
    if (at < end && *at == '.') {
        const bytes_t first = ++at;
        int64_t unit = 1000000;
        for (; at < end && *at >= '0' && *at <= '9' && at - first < 9; at++) {
            unit /= 10; /* 0 after six digits: the others are cut */
            fraction += unit * (*at - '0');
        }
        if (at == first) {
            return false;
        }
    }
    if (is_zoned && end - at == 6 && (*at == '+' || *at == '-')) {
        if (!read_minutes(at + 1, &offset)) {
            return false;
        }
        offset = *at == '-' ? -offset : offset;
    } else if (is_zoned ? end - at != 1 || *at != 'Z' : at != end) {
        return false;
    }
    *time_us = days * DAY_US + (minutes + seconds - offset) * 1000000 + fraction;
    return *time_us >= FIRST_DAY * DAY_US && *time_us < (LAST_DAY + 1) * DAY_US;
}

/* Pass a string or a number, and append it converted to the kind. */
static inline bool pass_quoted_value(struct document *document, struct values *values) {
    struct span text;
    bool is_escaped;
    struct number number;
    int64_t found;
    if (!pass_quoted(document, &text, &is_escaped)) {
        return false;
    }
    if (values->kind == TEXT) {
        if (is_escaped) {
            return put_text(values, unescape_text(text, place_of_text(values)));
        }
        memcpy(place_of_text(values), text.at, text.size);
        return put_text(values, text.size);
    }
    if (is_escaped) {
        return false;
    }
    switch (values->kind) {
    case WHOLE:
        return values->takes_text && read_decimal(text, &number) && number.behind == 0 && put_whole(values, &number);
    case DOUBLE:
        return values->takes_text && read_number(text, &number) && put_double(values, &number);
    case DECIMAL:
        return read_decimal(text, &number) && put_decimal(values, &number);
    case DATE:
        return text.size == 10 && read_date(text.at, &found) && put_long(values, found);
    case ZONED_TIME:
    case LOCAL_TIME:
        return read_time(text, values->kind == ZONED_TIME, &found) && put_long(values, found);
    default:
        return false;
    }
}

static inline bool pass_number_value(struct document *document, struct values *values) {
    struct number number;
    if (!pass_json_number(document, &number)) {
        return false;
    }
    switch (values->kind) {
    case WHOLE:
        return put_whole(values, &number);
    case DOUBLE:
        return put_double(values, &number);
    case DECIMAL:
        return put_decimal(values, &number);
    default:
        return false;
    }
}

/* Pass a scalar that is not null, and append it to the values if it is of their kind. */
static inline bool pass_scalar(struct document *document, struct values *values) {
    if (next_of(document) == '"') {
        return pass_quoted_value(document, values);
    }
    if (values->kind != TRUTH) {
        return pass_number_value(document, values);
    }
    const uint8_t found = next_of(document) == 't';
    if (!(found ? PASS(&document->reader, "true") : PASS(&document->reader, "false"))) {
        return false;
    }
    *place_of_number(values) = found;
    return true;
}

#endif
