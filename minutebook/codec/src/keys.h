/* Check that the keys of a JSON object are distinct, in time linear in their bytes. */
#ifndef MINUTEBOOK_KEYS_H
#define MINUTEBOOK_KEYS_H

#include "text.h"

#define MOST_KEYS 128  /* of one object */
#define FEW_KEYS 8     /* up to so many, comparing each pair is faster than hashing */
#define SLOTS 512      /* a power of two, and four times the keys */
#define MOST_PROBES 16 /* only keys that were chosen to collide need more */

/* A hash table of the first `count` keys: their numbers, from 1 on; 0 for a free slot. */
struct slots {
    int64_t count;
    uint8_t numbers[SLOTS];
};

static inline bool is_same(struct span one, struct span two) {
    return one.size == two.size && memcmp(one.at, two.at, one.size) == 0;
}

/* Hashes every byte: keys may differ anywhere. */
static inline size_t slot_of(struct span key) {
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15); /* 2^64 / golden ratio */
    uint64_t hash = key.size, word;
    size_t at = 0;
    for (; key.size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, key.at + at, sizeof word);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 32;
    }
    for (word = 0; at < key.size; at++) {
        word = word << 8 | key.at[at];
    }
    hash = (hash ^ word) * factor;
    return (size_t)(hash >> 32) % SLOTS;
}

/* Insert the key of that number; false if it exists already, or after too many collisions. */
static inline bool take_slot(struct slots *slots, const struct span *keys, int64_t number) {
    size_t slot = slot_of(keys[number]);
    for (int probe = 0; probe < MOST_PROBES; probe++) {
        const uint8_t there = slots->numbers[slot];
        if (there == 0) {
            slots->numbers[slot] = (uint8_t)(number + 1);
            return true;
        }
        if (is_same(keys[there - 1], keys[number])) {
            return false;
        }
        slot = (slot + 1) % SLOTS;
    }
    return false;
}

/* Return whether the last of `count` keys differs from those before, which are distinct. False if that takes too long. */
static inline bool is_new_key(struct slots *slots, const struct span *keys, int64_t count) {
    const int64_t last = count - 1;
    if (count <= FEW_KEYS) {
        for (int64_t index = 0; index < last; index++) {
            if (is_same(keys[index], keys[last])) {
                return false;
            }
        }
        return true;
    }
    if (slots->count == 0) {
        memset(slots->numbers, 0, sizeof slots->numbers);
    }
    for (; slots->count < count; slots->count++) {
        if (!take_slot(slots, keys, slots->count)) {
            return false;
        }
    }
    return true;
}

#endif
