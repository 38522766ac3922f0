/* From the lines of a segment to the buffers of Arrow columns, in one pass.
 *
 * It accepts lines of one shard as `minutebook/format/record.py` writes them; other valid lines are left to Python, which
 * makes the same rows (`compaction/parquet/line_tables.py`). It keeps no state between calls: rows that are in the buffers
 * already are counted by the caller. */
#include "base64.h"
#include "quotes.h"
#include "text.h"

#define LATEST_MS (INT64_MAX / 1000) /* Parquet's microseconds are 64 bits */

/* A growing column of texts or bytes; `offsets` has room for one more than the rows. */
struct column {
    int32_t *offsets;
    uint8_t *bytes;
    uint8_t *at;
};

/* The buffers of the columns, with `rows` in them, behind which others are put.
 *
 * Those of bytes have room for the blocks of all rows and BLOCK more, the others for `most_rows`. */
struct columns {
    int32_t *sequence_offsets;
    uint8_t *sequences;
    int64_t *subs;
    int32_t *key_offsets;
    uint8_t *keys;
    int64_t *arrivals;
    int32_t *text_offsets;
    uint8_t *texts;
    int32_t *blob_offsets;
    uint8_t *blobs;
    uint8_t *is_text;
    int64_t most_rows;
    int64_t rows;
};

/* Facts about the lines of a block; `ascends` is 1 if their positions ascend.
 *
 * `latest_ms` is the latest arrival before the block, and becomes that of its end. `step_back_ms` is the longest way back
 * from the latest arrival so far. */
struct shown {
    int64_t payload_bytes;
    int64_t arrival_min_ms;
    int64_t arrival_max_ms;
    int64_t blobs;
    int64_t ascends;
    int64_t latest_ms;
    int64_t step_back_ms;
};

/* Decode an escape of `put_escaped` in write_lines.c; returns its length, 0 for any other. */
static size_t unescape(bytes_t at, bytes_t end, uint8_t *into) {
    static const uint8_t SHORT[256] = {['"'] = '"',  ['\\'] = '\\', ['b'] = '\b', ['t'] = '\t',
                                       ['n'] = '\n', ['f'] = '\f',  ['r'] = '\r'};
    if (end - at >= 2 && SHORT[at[1]] != 0) {
        *into = SHORT[at[1]];
        return 2;
    }
    if (end - at < 6 || memcmp(at, "\\u00", 4) != 0 || (at[4] != '0' && at[4] != '1')) {
        return 0;
    }
    const uint8_t low = at[5];
    if (!((low >= '0' && low <= '9') || (low >= 'a' && low <= 'f'))) {
        return 0;
    }
    *into = (uint8_t)((at[4] - '0') * 16 + (low <= '9' ? low - '0' : low - 'a' + 10));
    return 6;
}

/* Copy the plain begin of a block; returns its size. */
static inline size_t copy_plain(bytes_t at, bytes_t end, uint8_t *into) {
    if (end - at >= BLOCK) {
        const sixteen_t block = load_sixteen(at);
        memcpy(into, &block, sizeof block);
        return first_of(unusual_bytes(block));
    }
    *into = *at;
    return is_unusual(*at) ? 0 : 1;
}

/* Pass a string's content and the closing quote, and append the content to the column.
 *
 * The output is never longer than the input, except for up to a block that is copied before it is checked. */
static bool pass_string(struct reader *reader, struct column *column) {
    bytes_t at = reader->at;
    uint8_t *into = column->at;
    for (;;) {
        const struct copying copied = copy_with_quotes((struct copying){at, into}, reader->end);
        at = copied.from;
        into = copied.into;
        if (at == reader->end) {
            return false;
        }
        if (!is_unusual(*at)) {
            const size_t plain = copy_plain(at, reader->end, into);
            at += plain;
            into += plain;
            continue;
        }
        if (*at == '"') {
            reader->at = at + 1;
            column->at = into;
            return true;
        }
        size_t read = 0, written = 1;
        if (*at == '\\') {
            read = unescape(at, reader->end, into);
        } else if (*at >= 0x80) {
            read = written = character_length(at, reader->end);
            memcpy(into, at, read);
        }
        if (read == 0) {
            return false;
        }
        at += read;
        into += written;
    }
}

/* Pass a payload in base64 and the closing quote; it is text if it is valid UTF-8. */
static bool pass_base64(struct reader *reader, struct column *texts, struct column *blobs, uint8_t *is_text) {
    const bytes_t quote = memchr(reader->at, '"', (size_t)(reader->end - reader->at));
    if (quote == NULL) {
        return false;
    }
    const struct span base64 = {reader->at, (size_t)(quote - reader->at)};
    const int64_t size = decoded_size(base64);
    if (size < 0 || !decode_base64(base64, blobs->at, (size_t)size)) {
        return false;
    }
    reader->at = quote + 1;
    *is_text = is_utf8(blobs->at, blobs->at + size);
    if (*is_text) {
        memcpy(texts->at, blobs->at, (size_t)size);
        texts->at += size;
    } else {
        blobs->at += size;
    }
    return true;
}

/* The columns while they grow, and the position before. */
struct table {
    const struct columns *into;
    struct column sequences;
    struct column keys;
    struct column texts;
    struct column blobs;
    struct span before;
    int64_t rows;
};

static inline int32_t length(const struct column *column) {
    return (int32_t)(column->at - column->bytes);
}

/* Return whether a position lies after the one before. Without leading zeros, a longer number is larger. */
static bool is_behind(struct span number, int64_t sub, struct span before, int64_t sub_before) {
    if (number.size != before.size) {
        return number.size > before.size;
    }
    const int order = memcmp(number.at, before.at, number.size);
    return order > 0 || (order == 0 && sub > sub_before);
}

static bool pass_payload(struct reader *reader, struct table *table, uint8_t *is_text) {
    if (PASS(reader, ",\"data\":\"")) {
        *is_text = 1;
        return pass_string(reader, &table->texts);
    }
    return PASS(reader, ",\"data_base64\":\"") && pass_base64(reader, &table->texts, &table->blobs, is_text);
}

/* Pass one line after its prefix, and append it to the columns. */
static bool pass_line(struct reader *reader, struct table *table, struct shown *shown) {
    const struct columns *into = table->into;
    const int64_t row = table->rows;
    struct span number, digits;
    int64_t sub, arrival_ms;
    if (!pass_sequence_number(reader, &number) || !PASS(reader, ",\"sub_sequence_number\":") ||
        !pass_number(reader, &sub, &digits) || !PASS(reader, ",\"partition_key\":\"") ||
        !pass_string(reader, &table->keys) || !PASS(reader, ",\"arrival_ms\":") ||
        !pass_number(reader, &arrival_ms, &digits) || arrival_ms > LATEST_MS ||
        !pass_payload(reader, table, &into->is_text[row]) || !PASS(reader, "}\n")) {
        return false;
    }
    memcpy(table->sequences.at, number.at, number.size);
    table->sequences.at += number.size;
    into->subs[row] = sub;
    into->arrivals[row] = arrival_ms;
    const bool is_first = row == into->rows;
    if (!is_first && !is_behind(number, sub, table->before, into->subs[row - 1])) {
        shown->ascends = 0;
    }
    table->before = number;
    shown->arrival_min_ms = is_first || arrival_ms < shown->arrival_min_ms ? arrival_ms : shown->arrival_min_ms;
    shown->arrival_max_ms = is_first || arrival_ms > shown->arrival_max_ms ? arrival_ms : shown->arrival_max_ms;
    shown->latest_ms = arrival_ms > shown->latest_ms ? arrival_ms : shown->latest_ms;
    const int64_t step_back_ms = shown->latest_ms - arrival_ms;
    shown->step_back_ms = step_back_ms > shown->step_back_ms ? step_back_ms : shown->step_back_ms;
    shown->blobs += !into->is_text[row];
    table->rows++;
    return true;
}

static void end_row(struct table *table) {
    const int64_t row = table->rows;
    table->sequences.offsets[row] = length(&table->sequences);
    table->keys.offsets[row] = length(&table->keys);
    table->texts.offsets[row] = length(&table->texts);
    table->blobs.offsets[row] = length(&table->blobs);
}

/* Return a column behind whose rows others are put. */
static struct column grown(int32_t *offsets, uint8_t *bytes, int64_t rows) {
    return (struct column){offsets, bytes, bytes + (rows == 0 ? 0 : offsets[rows])};
}

/* Read a block of one or more whole lines, each of which begins with `prefix`, up to its sequence number.
 *
 * Returns the number of its rows and fills `shown`; -1 unless all lines have the usual form: the rows that were in the
 * buffers before are there in any case. */
EXPORTED int64_t minutebook_read_lines(bytes_t block, size_t size, bytes_t prefix, size_t prefix_size,
                                       const struct columns *into, struct shown *shown) {
    struct reader reader = {block, block + size};
    struct table table = {.into = into,
                          .sequences = grown(into->sequence_offsets, into->sequences, into->rows),
                          .keys = grown(into->key_offsets, into->keys, into->rows),
                          .texts = grown(into->text_offsets, into->texts, into->rows),
                          .blobs = grown(into->blob_offsets, into->blobs, into->rows),
                          .rows = into->rows};
    const int64_t payload_bytes = length(&table.texts) + length(&table.blobs);
    *shown = (struct shown){.ascends = 1, .latest_ms = shown->latest_ms};
    end_row(&table);
    while (reader.at < reader.end) {
        if (table.rows == into->most_rows || !pass(&reader, (const char *)prefix, prefix_size) ||
            !pass_line(&reader, &table, shown)) {
            return -1;
        }
        end_row(&table);
    }
    shown->payload_bytes = length(&table.texts) + length(&table.blobs) - payload_bytes;
    return table.rows > into->rows ? table.rows - into->rows : -1;
}
