/* Base64 of RFC 4648, section 4, in canonical form: padded, without line breaks, unused bits zero. */
#ifndef MINUTEBOOK_BASE64_H
#define MINUTEBOOK_BASE64_H

#include "text.h"

#define IS_DIGIT 0x40
#define SIX(character, value) [character] = IS_DIGIT | (value)

/* The six bits of a character, with IS_DIGIT; 0 for other characters. */
static const uint8_t SIX_BITS[256] = {
    SIX('A', 0),  SIX('B', 1),  SIX('C', 2),  SIX('D', 3),  SIX('E', 4),  SIX('F', 5),  SIX('G', 6),  SIX('H', 7),
    SIX('I', 8),  SIX('J', 9),  SIX('K', 10), SIX('L', 11), SIX('M', 12), SIX('N', 13), SIX('O', 14), SIX('P', 15),
    SIX('Q', 16), SIX('R', 17), SIX('S', 18), SIX('T', 19), SIX('U', 20), SIX('V', 21), SIX('W', 22), SIX('X', 23),
    SIX('Y', 24), SIX('Z', 25), SIX('a', 26), SIX('b', 27), SIX('c', 28), SIX('d', 29), SIX('e', 30), SIX('f', 31),
    SIX('g', 32), SIX('h', 33), SIX('i', 34), SIX('j', 35), SIX('k', 36), SIX('l', 37), SIX('m', 38), SIX('n', 39),
    SIX('o', 40), SIX('p', 41), SIX('q', 42), SIX('r', 43), SIX('s', 44), SIX('t', 45), SIX('u', 46), SIX('v', 47),
    SIX('w', 48), SIX('x', 49), SIX('y', 50), SIX('z', 51), SIX('0', 52), SIX('1', 53), SIX('2', 54), SIX('3', 55),
    SIX('4', 56), SIX('5', 57), SIX('6', 58), SIX('7', 59), SIX('8', 60), SIX('9', 61), SIX('+', 62), SIX('/', 63),
};

/* Return the decoded size by length and padding alone; -1 for an invalid length. */
static inline int64_t decoded_size(struct span text) {
    if (text.size % 4 != 0) {
        return -1;
    }
    if (text.size == 0) {
        return 0;
    }
    const bytes_t end = text.at + text.size;
    const int64_t padding = end[-1] != '=' ? 0 : end[-2] != '=' ? 1 : 2;
    return (int64_t)(text.size / 4 * 3) - padding;
}

/* Decode four characters, `padding` of them padding, into up to three bytes. */
static inline bool decode_four(bytes_t at, int padding, uint8_t *into) {
    const uint8_t one = SIX_BITS[at[0]], two = SIX_BITS[at[1]];
    const uint8_t three = padding > 1 ? IS_DIGIT : SIX_BITS[at[2]], four = padding > 0 ? IS_DIGIT : SIX_BITS[at[3]];
    if ((one & two & three & four & IS_DIGIT) == 0) {
        return false;
    }
    const uint32_t bits = (uint32_t)(one & 63) << 18 | (uint32_t)(two & 63) << 12 | (uint32_t)(three & 63) << 6 | (four & 63);
    into[0] = (uint8_t)(bits >> 16);
    if (padding < 2) {
        into[1] = (uint8_t)(bits >> 8);
    }
    if (padding < 1) {
        into[2] = (uint8_t)bits;
    }
    return padding == 0 || (bits & (padding == 1 ? 0xFF : 0xFFFF)) == 0;
}

/* Return the six bits of each of sixteen characters; marks invalid ones in `strange`. */
static inline sixteen_t six_bits_of(sixteen_t text, sixteen_t *strange) {
    const sixteen_t is_upper = (sixteen_t)(text - 'A' < 26), is_lower = (sixteen_t)(text - 'a' < 26);
    const sixteen_t is_digit = (sixteen_t)(text - '0' < 10);
    const sixteen_t is_plus = (sixteen_t)(text == '+'), is_slash = (sixteen_t)(text == '/');
    *strange |= ~(is_upper | is_lower | is_digit | is_plus | is_slash);
    return ((text - 'A') & is_upper) | ((text - ('a' - 26)) & is_lower) | ((text + (52 - '0')) & is_digit) |
           (is_plus & 62) | (is_slash & 63);
}

typedef uint16_t pairs_t __attribute__((vector_size(BLOCK)));
typedef uint32_t fours_t __attribute__((vector_size(BLOCK)));
typedef uint64_t eights_t __attribute__((vector_size(BLOCK)));

/* Join the six bits of eight characters, twice: 48 bits each, the first character's highest. */
static inline eights_t joined(sixteen_t six) {
    const pairs_t pairs = (pairs_t)six, twelve = (pairs & 63) << 6 | pairs >> 8;
    const fours_t fours = (fours_t)twelve, twenty_four = (fours & 0xFFF) << 12 | fours >> 16;
    const eights_t eights = (eights_t)twenty_four;
    return (eights & 0xFFFFFF) << 24 | eights >> 32;
}

static inline void put_six_bytes(uint8_t *into, uint64_t bits) {
    const uint64_t word = __builtin_bswap64(bits << 16);
    memcpy(into, &word, sizeof word);
}

/* Decode into the `decoded_size` bytes at `into`; false if the text is not canonical.
 *
 * Sixteen characters make twelve bytes, but fourteen are written: the loop stops where fewer are left. */
static inline bool decode_base64(struct span text, uint8_t *into, size_t size) {
    bytes_t at = text.at;
    const bytes_t end = text.at + text.size;
    uint8_t *const into_end = into + size;
    sixteen_t strange = {0};
    for (; end - at >= BLOCK && into_end - into >= 14; at += BLOCK, into += 12) {
        const eights_t bits = joined(six_bits_of(load_sixteen(at), &strange));
        put_six_bytes(into, bits[0]);
        put_six_bytes(into + 6, bits[1]);
    }
    if (any_of(strange)) {
        return false;
    }
    for (; end - at > 4; at += 4, into += 3) {
        if (!decode_four(at, 0, into)) {
            return false;
        }
    }
    return at == end || decode_four(at, 3 - (int)(into_end - into), into);
}

#endif
