/* From payloads to the buffers of Arrow columns, in one pass over each text.
 *
 * A row is read if its payload is certainly a JSON object and every column's value fits. Others become null here and are
 * left to Python, which finds the reason. It keeps no state between calls. */
#include "keys.h"
#include "values.h"

#define MOST_DEPTH 32
#define MOST_USUAL 8  /* nodes whose objects' keys are cached from row to row */

/* A column of the payload. A list's values are its elements, by `list_offsets`, one more than rows. */
struct column {
    struct values values;
    int32_t *list_offsets;
    uint8_t *list_there;
    int64_t rows;
    int32_t is_list;
    int32_t is_required;
    int32_t is_element_required;
};

/* A key in the paths of columns; its children are `count` nodes from `first` on. `column` is -1 if none ends here. */
struct node {
    int32_t column;
    int32_t first;
    int32_t count;
    int32_t name_at;
    int32_t name_size;
};

/* The columns to read; `nodes[0]` is the payload itself. */
struct wanted {
    const struct node *nodes;
    bytes_t names;
    struct column *columns;
    int64_t columns_count;
};

/* The keys of an object, and the nodes that they lead to. */
struct keys {
    int64_t count;
    struct span found[MOST_KEYS];
    const struct node *children[MOST_KEYS];
};

/* `usual` caches the keys of the first nodes' objects in the last row: most rows have the same keys in the same order. */
struct reading {
    struct document document;
    const struct wanted *wanted;
    struct keys *usual;
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
    const int64_t number = node == NULL ? MOST_USUAL : node - reading->wanted->nodes;
    struct keys *keys = number < MOST_USUAL ? &reading->usual[number] : &others;
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

/* Pass a list, into `elements` or without storing it. */
static bool pass_list(struct reading *reading, struct column *column, int depth);

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

/* Pass one value of a column or of a list, and append it. Further columns may lie below `node`. */
static bool pass_into(struct reading *reading, struct values *values, const struct node *node, int depth) {
    struct document *document = &reading->document;
    if (values->count == values->most) {
        return false;
    }
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

static bool pass_list(struct reading *reading, struct column *column, int depth) {
    struct document *document = &reading->document;
    document->reader.at++;
    pass_blanks(document);
    if (pass_byte(document, ']')) {
        return true;
    }
    for (;;) {
        if (column == NULL ? !pass_any(reading, NULL, depth) : !pass_into(reading, &column->values, NULL, depth)) {
            return false;
        }
        if (column != NULL && column->is_element_required && !column->values.there[column->values.count - 1]) {
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

static inline void end_list(struct column *column, uint8_t is_there) {
    column->list_there[column->rows] = is_there;
    column->list_offsets[column->rows + 1] = (int32_t)column->values.count;
}

static bool pass_value(struct reading *reading, const struct node *node, int depth) {
    struct document *document = &reading->document;
    if (node == NULL || node->column < 0) {
        return pass_any(reading, node, depth);
    }
    struct column *column = &reading->wanted->columns[node->column];
    if (!column->is_list) {
        if (!pass_into(reading, &column->values, node, depth)) {
            return false;
        }
    } else if (next_of(document) == 'n') {
        if (!PASS(&document->reader, "null")) {
            return false;
        }
        end_list(column, 0);
    } else if (next_of(document) == '[' && depth < MOST_DEPTH && pass_list(reading, column, depth + 1)) {
        end_list(column, 1);
    } else {
        return false;
    }
    column->rows++;
    return true;
}

/* Truncate a column to its rows, without the values of a row that was refused. */
static inline void cut(struct column *column, int64_t rows) {
    column->rows = rows;
    column->values.count = column->is_list ? column->list_offsets[rows] : rows;
}

/* Append a null if the row has no value. */
static inline void fill(struct column *column, int64_t row) {
    if (column->rows > row) {
        return;
    }
    if (column->is_list) {
        end_list(column, 0);
    } else {
        put_null(&column->values);
    }
    column->rows++;
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
    for (int64_t index = 0; index < wanted->columns_count; index++) {
        struct column *column = &wanted->columns[index];
        fill(column, row);
        if (column->is_required && !(column->is_list ? column->list_there : column->values.there)[row]) {
            return false;
        }
    }
    return true;
}

/* Read `rows` payloads in `texts` between `offsets`. Sets `left` to 1 for each row that is left to Python.
 *
 * Each column has room for the rows, its bytes for all texts. Returns the number of rows left. */
EXPORTED int64_t minutebook_read_documents(bytes_t texts, const int32_t *offsets, int64_t rows,
                                           const struct wanted *wanted, uint8_t *left) {
    struct keys usual[MOST_USUAL];
    int64_t count = 0;
    for (int64_t number = 0; number < MOST_USUAL; number++) {
        usual[number].count = 0;
    }
    for (int64_t index = 0; index < wanted->columns_count; index++) {
        struct column *column = &wanted->columns[index];
        column->rows = column->values.count = 0;
        if (column->is_list) {
            column->list_offsets[0] = 0;
        }
        if (has_offsets(&column->values)) {
            column->values.offsets[0] = 0;
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        struct reading reading = {.document = {.reader = {texts + offsets[row], texts + offsets[row + 1]}},
                                  .wanted = wanted,
                                  .usual = usual};
        left[row] = !pass_payload(&reading, row);
        count += left[row];
        for (int64_t index = 0; left[row] && index < wanted->columns_count; index++) {
            cut(&wanted->columns[index], row);
            fill(&wanted->columns[index], row);
        }
    }
    return count;
}
