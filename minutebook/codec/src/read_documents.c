/* From payloads to the buffers of Arrow columns, in one pass over each text.
 *
 * A row is read if its payload is certainly a JSON object and every column's value fits. Others become null here and are
 * left to Python, which finds the reason. It keeps no state between calls. */
#include "keys.h"
#include "values.h"

#define MOST_DEPTH 32
#define MOST_USUAL 16 /* objects whose keys are cached from row to row */

enum form { SCALAR, LIST, STRUCT };

/* A column of the payload, the elements of a list, or a field of a struct. Its entries are rows, or those of what holds
 * it. A list's elements are the column of the node `node`, by `list_offsets`, one more than entries. A struct's fields
 * are the columns of the children of `node`, and have as many entries. */
struct column {
    struct values values; /* of a scalar */
    int32_t *list_offsets;
    uint8_t *there; /* of lists and structs: a byte per entry, 0 for null */
    int64_t count;  /* their entries */
    int64_t most;
    int64_t before; /* entries before the row that is read */
    int32_t form;
    int32_t node;
    int32_t is_required;
    int32_t is_in_list;
};

/* A value of a row that is JSON, but not of its column's kind: the column is null, and Python reads the value alone. */
struct misfit {
    int32_t column;
    int32_t row;
    int32_t begin; /* in all texts */
    int32_t size;
};

/* A key in the paths of columns; its children are `count` nodes from `first` on. `column` is -1 if none ends here.
 * `usual` is where the keys of its objects are cached, -1 for nowhere. */
struct node {
    int32_t column;
    int32_t first;
    int32_t count;
    int32_t name_at;
    int32_t name_size;
    int32_t usual;
};

/* The columns to read: those of the payload are the first `top_count`. `nodes[0]` is the payload itself. */
struct wanted {
    const struct node *nodes;
    bytes_t names;
    struct column *columns;
    int64_t columns_count;
    int64_t top_count;
    struct misfit *misfits;
    int64_t most_misfits;
};

/* The keys of an object, and the nodes that they lead to. */
struct keys {
    int64_t count;
    struct span found[MOST_KEYS];
    const struct node *children[MOST_KEYS];
};

/* `usual` caches the keys of objects in the last row: most rows have the same keys in the same order. */
struct reading {
    struct document document;
    const struct wanted *wanted;
    struct keys *usual;
    bytes_t texts;
    int64_t row;
    int64_t misfits;
};

static bool pass_value(struct reading *reading, const struct node *node, int depth);

static inline const struct node *child_of(const struct wanted *wanted, const struct node *node, struct span key) {
    for (int32_t index = 0; node != NULL && index < node->count; index++) {
        const struct node *child = &wanted->nodes[node->first + index];
        if ((size_t)child->name_size == key.size && memcmp(wanted->names + child->name_at, key.at, key.size) == 0) {
            return child;
        }
    }
    return NULL;
}

/* Find the node of a key, number `at` of its object; false if the key is repeated.
 *
 * While an object has the keys of the last one in the same order, they are distinct, and their nodes are cached. */
static inline bool follow(const struct wanted *wanted, const struct node *node, struct keys *keys, struct slots *slots,
                          int64_t at, struct span key, const struct node **child) {
    if (at < keys->count && is_same(keys->found[at], key)) {
        *child = keys->children[at];
        keys->found[at] = key; /* the older copy leaves the processor's cache sooner */
        return true;
    }
    if (at == MOST_KEYS) {
        return false;
    }
    keys->count = at; /* the keys before it are distinct */
    keys->found[at] = key;
    if (!is_new_key(slots, keys->found, at + 1)) {
        return false;
    }
    *child = child_of(wanted, node, key);
    keys->children[at] = *child;
    keys->count = at + 1;
    return true;
}

static bool pass_object(struct reading *reading, const struct node *node, int depth) {
    struct document *document = &reading->document;
    struct keys others; /* 3.5 KiB with the slots, at most MOST_DEPTH times */
    struct slots slots;
    struct keys *keys = node != NULL && node->usual >= 0 ? &reading->usual[node->usual] : &others;
    others.count = slots.count = 0;
    document->reader.at++;
    pass_blanks(document);
    if (pass_byte(document, '}')) {
        return true;
    }
    for (int64_t at = 0;; at++) {
        struct span key;
        const struct node *child;
        bool is_escaped;
        if (!pass_quoted(document, &key, &is_escaped) || is_escaped ||
            !follow(reading->wanted, node, keys, &slots, at, key, &child)) {
            return false;
        }
        pass_blanks(document);
        if (!pass_byte(document, ':')) {
            return false;
        }
        pass_blanks(document);
        if (!pass_value(reading, child, depth)) {
            return false;
        }
        pass_blanks(document);
        if (pass_byte(document, '}')) {
            return true;
        }
        if (!pass_byte(document, ',')) {
            return false;
        }
        pass_blanks(document);
    }
}

/* Pass a list, into the column of `element` or, if that is NULL, without storing it. */
static bool pass_list(struct reading *reading, const struct node *element, int depth);

/* Pass any value; values of an object's keys are stored as `node` says. */
static bool pass_any(struct reading *reading, const struct node *node, int depth) {
    struct document *document = &reading->document;
    struct span text;
    struct number number;
    bool is_escaped;
    switch (next_of(document)) {
    case '{':
        return depth < MOST_DEPTH && pass_object(reading, node, depth + 1);
    case '[':
        return depth < MOST_DEPTH && pass_list(reading, NULL, depth + 1);
    case '"':
        return pass_quoted(document, &text, &is_escaped);
    case 't':
        return PASS(&document->reader, "true");
    case 'f':
        return PASS(&document->reader, "false");
    case 'n':
        return PASS(&document->reader, "null");
    default:
        return pass_json_number(document, &number);
    }
}

/* Pass one scalar or JSON value, and append it. Further columns may lie below `node`. */
static bool pass_into(struct reading *reading, struct values *values, const struct node *node, int depth) {
    struct document *document = &reading->document;
    if (next_of(document) == 'n') {
        put_null(values);
        return PASS(&document->reader, "null");
    }
    if (values->kind != JSON) {
        return pass_scalar(document, values);
    }
    const bytes_t first = document->reader.at;
    const int64_t odd = document->odd;
    if (!pass_any(reading, node, depth) || document->odd != odd) {
        return false;
    }
    const size_t size = (size_t)(document->reader.at - first);
    memcpy(place_of_text(values), first, size);
    return put_text(values, size);
}

/* Pass a value that does not fit, whatever it is, and leave it to Python; false where the whole row must be left.
 * An object that is no value of its column may hold those of others, below `node`. */
static bool pass_misfit(struct reading *reading, const struct node *node, bytes_t first, int64_t entry, int depth) {
    struct document *document = &reading->document;
    struct column *column = &reading->wanted->columns[node->column];
    if (column->values.kind == JSON || column->is_in_list) {
        return false;
    }
    column->values.count = entry;
    document->reader.at = first;
    put_null(&column->values);
    if (!pass_any(reading, node, depth) || reading->misfits == reading->wanted->most_misfits) {
        return false;
    }
    reading->wanted->misfits[reading->misfits++] =
        (struct misfit){node->column, (int32_t)reading->row, (int32_t)(first - reading->texts),
                        (int32_t)(document->reader.at - first)};
    return true;
}

static inline int64_t entries_of(const struct column *column) {
    return column->form == SCALAR ? column->values.count : column->count;
}

static inline bool is_full(const struct column *column) {
    return entries_of(column) == (column->form == SCALAR ? column->values.most : column->most);
}

static inline bool is_there(const struct column *column, int64_t entry) {
    return (column->form == SCALAR ? column->values.there : column->there)[entry] != 0;
}

static inline struct column *column_of(const struct wanted *wanted, const struct node *node) {
    return &wanted->columns[node->column];
}

static inline void end_list(const struct wanted *wanted, struct column *column, uint8_t is_present) {
    column->there[column->count++] = is_present;
    column->list_offsets[column->count] = (int32_t)entries_of(column_of(wanted, &wanted->nodes[column->node]));
}

static void fill_fields(const struct wanted *wanted, const struct column *column);

/* Append a null if a column has fewer than `count` entries: it lacks one at most. */
static void fill(const struct wanted *wanted, struct column *column, int64_t count) {
    if (entries_of(column) >= count) {
        return;
    }
    if (column->form == SCALAR) {
        put_null(&column->values);
    } else if (column->form == LIST) {
        end_list(wanted, column, 0);
    } else {
        column->there[column->count++] = 0;
        fill_fields(wanted, column);
    }
}

/* Give the fields of a struct as many entries as it has. */
static void fill_fields(const struct wanted *wanted, const struct column *column) {
    const struct node *node = &wanted->nodes[column->node];
    for (int32_t index = 0; index < node->count; index++) {
        fill(wanted, column_of(wanted, &wanted->nodes[node->first + index]), column->count);
    }
}

static bool pass_list(struct reading *reading, const struct node *element, int depth) {
    struct document *document = &reading->document;
    const struct column *column = element == NULL ? NULL : column_of(reading->wanted, element);
    document->reader.at++;
    pass_blanks(document);
    if (pass_byte(document, ']')) {
        return true;
    }
    for (;;) {
        if (!pass_value(reading, element, depth)) {
            return false;
        }
        if (column != NULL && column->is_required && !is_there(column, entries_of(column) - 1)) {
            return false;
        }
        pass_blanks(document);
        if (pass_byte(document, ']')) {
            return true;
        }
        if (!pass_byte(document, ',')) {
            return false;
        }
        pass_blanks(document);
    }
}

/* Pass an object as a struct: fields that are not there are null. */
static bool pass_struct(struct reading *reading, struct column *column, const struct node *node, int depth) {
    const struct wanted *wanted = reading->wanted;
    const int64_t entry = column->count++;
    column->there[entry] = 1;
    if (!pass_object(reading, node, depth)) {
        return false;
    }
    fill_fields(wanted, column);
    for (int32_t index = 0; index < node->count; index++) {
        const struct column *field = column_of(wanted, &wanted->nodes[node->first + index]);
        if (field->is_required && !is_there(field, entry)) {
            return false;
        }
    }
    return true;
}

static bool pass_value(struct reading *reading, const struct node *node, int depth) {
    struct document *document = &reading->document;
    const struct wanted *wanted = reading->wanted;
    if (node == NULL || node->column < 0) {
        return pass_any(reading, node, depth);
    }
    struct column *column = column_of(wanted, node);
    if (is_full(column)) {
        return false;
    }
    if (column->form == SCALAR) {
        const bytes_t first = document->reader.at;
        const int64_t entry = column->values.count;
        return pass_into(reading, &column->values, node, depth) ||
               pass_misfit(reading, node, first, entry, depth);
    }
    if (next_of(document) == 'n') {
        fill(wanted, column, column->count + 1);
        return PASS(&document->reader, "null");
    }
    if (depth == MOST_DEPTH || next_of(document) != (column->form == LIST ? '[' : '{')) {
        return false;
    }
    if (column->form == STRUCT) {
        return pass_struct(reading, column, node, depth + 1);
    }
    if (!pass_list(reading, &wanted->nodes[column->node], depth + 1)) {
        return false;
    }
    end_list(wanted, column, 1);
    return true;
}

static bool pass_payload(struct reading *reading, int64_t row) {
    const struct wanted *wanted = reading->wanted;
    struct document *document = &reading->document;
    pass_blanks(document);
    if (next_of(document) != '{' || !pass_object(reading, &wanted->nodes[0], 1)) {
        return false;
    }
    pass_blanks(document);
    if (document->reader.at != document->reader.end) {
        return false;
    }
    for (int64_t index = 0; index < wanted->top_count; index++) {
        struct column *column = &wanted->columns[index];
        fill(wanted, column, row + 1);
        if (column->is_required && !is_there(column, row)) {
            return false;
        }
    }
    return true;
}

/* Truncate a column to its first entries. */
static inline void cut(struct column *column, int64_t count) {
    if (column->form == SCALAR) {
        column->values.count = count;
    } else {
        column->count = count;
    }
}

/* Read `rows` payloads in `texts` between `offsets`. Sets `left` to 1 for each row that is left to Python.
 *
 * Each column has room for the rows, its bytes for all texts. Sets `misfits` to their number, none of rows that are
 * left. Returns the number of rows left. */
EXPORTED int64_t minutebook_read_documents(bytes_t texts, const int32_t *offsets, int64_t rows,
                                           const struct wanted *wanted, uint8_t *left, int64_t *misfits) {
    struct keys usual[MOST_USUAL];
    int64_t count = 0;
    for (int64_t number = 0; number < MOST_USUAL; number++) {
        usual[number].count = 0;
    }
    for (int64_t index = 0; index < wanted->columns_count; index++) {
        struct column *column = &wanted->columns[index];
        column->count = column->values.count = 0;
        if (column->form == LIST) {
            column->list_offsets[0] = 0;
        }
        if (column->form == SCALAR && has_offsets(&column->values)) {
            column->values.offsets[0] = 0;
        }
    }
    *misfits = 0;
    for (int64_t row = 0; row < rows; row++) {
        struct reading reading = {.document = {.reader = {texts + offsets[row], texts + offsets[row + 1]}},
                                  .wanted = wanted,
                                  .usual = usual,
                                  .texts = texts,
                                  .row = row,
                                  .misfits = *misfits};
        for (int64_t index = 0; index < wanted->columns_count; index++) {
            wanted->columns[index].before = entries_of(&wanted->columns[index]);
        }
        left[row] = !pass_payload(&reading, row);
        count += left[row];
        *misfits = left[row] ? *misfits : reading.misfits;
        if (left[row]) {
            for (int64_t index = 0; index < wanted->columns_count; index++) {
                cut(&wanted->columns[index], wanted->columns[index].before);
            }
            for (int64_t index = 0; index < wanted->top_count; index++) {
                fill(wanted, &wanted->columns[index], row + 1);
            }
        }
    }
    return count;
}
