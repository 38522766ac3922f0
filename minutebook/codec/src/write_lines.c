/* From the daemon's records to the lines of a segment, in one pass.
 *
 * Gives the same bytes as `minutebook/format/record.py`; records that do not have the daemon's usual form are refused and
 * left to it. It keeps no state between calls. */
#include "base64.h"
#include "text.h"

/* Facts about the records. `first_at` and `last_at` are the indexes of their sequence numbers in the input. */
struct stretch {
    int64_t records;
    int64_t payload_bytes;
    int64_t arrival_min_ms;
    int64_t arrival_max_ms;
    int64_t first_at;
    int64_t first_sub;
    int64_t last_at;
    int64_t last_sub;
    int64_t sequence_digits;
};

struct record {
    struct span data;
    struct span partition_key;
    struct span sequence_number;
    struct span sub;
    struct span arrival;
    int64_t sub_value;
    int64_t arrival_value;
};

/* The end of the output; callers check that it has room. */
struct writer {
    uint8_t *at;
    uint8_t *end;
};

static inline size_t room(const struct writer *writer) {
    return (size_t)(writer->end - writer->at);
}

static inline void put(struct writer *writer, const void *text, size_t size) {
    memcpy(writer->at, text, size);
    writer->at += size;
}
#define PUT(writer, text) put(writer, "" text, sizeof(text) - 1)

static bool pass_arrival(struct reader *reader, struct record *record) {
    return PASS(reader, ",\"approximateArrivalTimestamp\":") &&
           pass_number(reader, &record->arrival_value, &record->arrival);
}

static bool pass_sub(struct reader *reader, struct record *record) {
    return PASS(reader, ",\"subSequenceNumber\":") && pass_number(reader, &record->sub_value, &record->sub);
}

/* Pass one record in the form of JsonFriendlyRecord.java, with its last two fields in either order. */
static bool pass_record(struct reader *reader, struct record *record) {
    if (!PASS(reader, "{\"action\":\"record\",\"data\":\"")) {
        return false;
    }
    const bytes_t quote = memchr(reader->at, '"', (size_t)(reader->end - reader->at));
    if (quote == NULL) {
        return false;
    }
    record->data = (struct span){reader->at, (size_t)(quote - reader->at)};
    reader->at = quote + 1;
    if (!PASS(reader, ",\"partitionKey\":\"") || !pass_plain_string(reader, &record->partition_key) ||
        !PASS(reader, ",\"sequenceNumber\":\"") || !pass_sequence_number(reader, &record->sequence_number)) {
        return false;
    }
    const bool is_sub_first = reader->end - reader->at > 2 && reader->at[2] == 's';
    const bool is_read = is_sub_first ? pass_sub(reader, record) && pass_arrival(reader, record)
                                      : pass_arrival(reader, record) && pass_sub(reader, record);
    return is_read && PASS(reader, "}");
}

#define NAMES_SIZE 96 /* more than all field names of a line, with their punctuation */

/* Write a byte that JSON escapes, as msgspec does: at most six bytes. */
static void put_escaped(struct writer *writer, uint8_t byte) {
    static const char HEX[] = "0123456789abcdef";
    static const char SHORT[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    const char letter = byte >= 0x20 ? (char)byte : byte < sizeof SHORT ? SHORT[byte] : 0;
    if (letter != 0) {
        const char pair[] = {'\\', letter};
        put(writer, pair, sizeof pair);
    } else {
        const char six[] = {'\\', 'u', '0', '0', HEX[byte >> 4], HEX[byte & 15]};
        put(writer, six, sizeof six);
    }
}

#define LONGEST_ESCAPE 6

enum written { WRITTEN, NOT_TEXT, NO_ROOM };

/* Write the next character, which is not plain: escaped, or of several bytes. Returns its length; 0 if invalid. */
static size_t put_unusual(struct writer *writer, bytes_t at, bytes_t end) {
    if (*at < 0x80) {
        put_escaped(writer, *at);
        return 1;
    }
    const size_t length = character_length(at, end);
    put(writer, at, length);
    return length;
}

/* Write bytes as the content of a JSON string, checking them block by block while they are copied.
 *
 * May read, and ignore, up to BLOCK bytes after `end`. */
static enum written put_json_text(struct writer *writer, bytes_t at, bytes_t end) {
    while (at < end) {
        if (room(writer) < BLOCK + LONGEST_ESCAPE) {
            return NO_ROOM;
        }
        const sixteen_t block = load_sixteen(at);
        const size_t left = (size_t)(end - at), plain = first_of(unusual_bytes(block));
        memcpy(writer->at, &block, sizeof block);
        if (plain >= left) {
            writer->at += left;
            return WRITTEN;
        }
        writer->at += plain;
        at += plain;
        if (plain < BLOCK) {
            const size_t length = put_unusual(writer, at, end);
            if (length == 0) {
                return NOT_TEXT;
            }
            at += length;
        }
    }
    return WRITTEN;
}

/* Write the payload's field. The payload is first decoded into the end of the buffer, which the output must not reach. */
static int64_t put_payload(struct writer *writer, struct span base64) {
    const int64_t size = decoded_size(base64);
    if (size < 0 || room(writer) < (size_t)size + base64.size + NAMES_SIZE + BLOCK) {
        return -1;
    }
    uint8_t *const end = writer->end - BLOCK, *const payload = end - size;
    if (!decode_base64(base64, payload, (size_t)size)) {
        return -1;
    }
    struct writer text = {writer->at, payload};
    PUT(&text, ",\"data\":\"");
    const enum written written = put_json_text(&text, payload, end);
    if (written == WRITTEN) {
        writer->at = text.at;
        return size;
    }
    if (written == NO_ROOM) {
        return -1;
    }
    PUT(writer, ",\"data_base64\":\"");
    put(writer, base64.at, base64.size);
    return size;
}

/* Write one line; returns the payload's size, -1 without room or for base64 that is not canonical. */
static int64_t put_line(struct writer *writer, struct span prefix, const struct record *record) {
    if (room(writer) < prefix.size + record->sequence_number.size + record->sub.size + record->partition_key.size +
                           record->arrival.size + NAMES_SIZE) {
        return -1;
    }
    put(writer, prefix.at, prefix.size);
    put(writer, record->sequence_number.at, record->sequence_number.size);
    PUT(writer, "\",\"sub_sequence_number\":");
    put(writer, record->sub.at, record->sub.size);
    PUT(writer, ",\"partition_key\":\"");
    put(writer, record->partition_key.at, record->partition_key.size);
    PUT(writer, "\",\"arrival_ms\":");
    put(writer, record->arrival.at, record->arrival.size);
    const int64_t payload_bytes = put_payload(writer, record->data);
    if (payload_bytes < 0 || room(writer) < 3) {
        return -1;
    }
    PUT(writer, "\"}\n");
    return payload_bytes;
}

/* Return whether a record lies after the one before; false for sequence numbers of different lengths. */
static bool is_behind(const struct record *record, const struct record *before) {
    if (record->sequence_number.size != before->sequence_number.size) {
        return false;
    }
    const int order = memcmp(record->sequence_number.at, before->sequence_number.at, record->sequence_number.size);
    return order > 0 || (order == 0 && record->sub_value > before->sub_value);
}

static void count(struct stretch *seen, const struct record *record, bytes_t input, int64_t payload_bytes) {
    const int64_t at = record->sequence_number.at - input;
    if (seen->records == 0) {
        seen->first_at = at;
        seen->first_sub = record->sub_value;
        seen->sequence_digits = (int64_t)record->sequence_number.size;
        seen->arrival_min_ms = seen->arrival_max_ms = record->arrival_value;
    }
    if (record->arrival_value < seen->arrival_min_ms) {
        seen->arrival_min_ms = record->arrival_value;
    }
    if (record->arrival_value > seen->arrival_max_ms) {
        seen->arrival_max_ms = record->arrival_value;
    }
    seen->last_at = at;
    seen->last_sub = record->sub_value;
    seen->records++;
    seen->payload_bytes += payload_bytes;
}

/* Write the lines of one or more records, which commas separate.
 *
 * `prefix` is the begin of each line, up to its sequence number. Returns the number of bytes written, and fills `seen`; -1
 * unless all records have the daemon's usual form, ascending positions, and room. */
EXPORTED int64_t minutebook_write_lines(bytes_t input, size_t size, bytes_t prefix, size_t prefix_size,
                                        uint8_t *output, size_t capacity, struct stretch *seen) {
    struct reader reader = {input, input + size};
    struct writer writer = {output, output + capacity};
    struct record record = {0}, before = {0};
    *seen = (struct stretch){0};
    do {
        if (!pass_record(&reader, &record) || (seen->records > 0 && !is_behind(&record, &before))) {
            return -1;
        }
        const int64_t payload_bytes = put_line(&writer, (struct span){prefix, prefix_size}, &record);
        if (payload_bytes < 0) {
            return -1;
        }
        count(seen, &record, input, payload_bytes);
        before = record;
    } while (PASS(&reader, ","));
    return reader.at == reader.end ? writer.at - output : -1;
}
