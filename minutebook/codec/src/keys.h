/* The keys of one object of JSON, none of which is there twice: in time that grows with their bytes alone. */
#ifndef MINUTEBOOK_KEYS_H
#define MINUTEBOOK_KEYS_H

#include "text.h"

#define MOST_KEYS 128  /* of one object */
#define FEW_KEYS 8     /* each of so many is compared with those before, which takes less than a hash */
#define SLOTS 512      /* a power of two, and four times the keys */
#define MOST_PROBES 16 /* only keys that were chosen for it meet more others */

/* Where keys are by their hashes: their numbers, from 1 on; 0 where none is. The first `count` keys are in it. */
struct slots {
    int64_t count;
    uint8_t numbers[SLOTS];
};

static inline bool is_same(struct span one, struct span two) {
    return one.size == two.size && memcmp(one.at, two.at, one.size) == 0;
}

/* Each byte counts: a producer's keys may differ anywhere. */
static inline size_t slot_of(struct span key) {
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15); /* 2^64 by the golden ratio */
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

/* Give the key of that number a slot; false where it is there already, or meets too many others. */
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

/* Tell whether the last of `count` keys is new, where those before it differ. False where that takes too long. */
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
