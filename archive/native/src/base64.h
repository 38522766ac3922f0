/* Base64 of RFC 4648, section 4, in its one canonical form: padded, without line breaks, unused bits zero. */
#ifndef MINUTEBOOK_BASE64_H
#define MINUTEBOOK_BASE64_H

#include "text.h"

#define IS_DIGIT 0x40
#define SIX(character, value) [character] = IS_DIGIT | (value)

/* The six bits that a character stands for, and IS_DIGIT; 0 where it stands for none. */
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

/* Return how many bytes a text of so many characters makes, judged by its length and padding alone; -1 for none. */
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

/* Decode four characters, the padding counted in `padding`, into three bytes or fewer. */
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

/* Decode into the `decoded_size` bytes at `into`; false where the text is not canonical.
 *
 * Eight characters at a time make six bytes, written as eight: so that stops where fewer than eight are left. */
static inline bool decode_base64(struct span text, uint8_t *into, size_t size) {
    bytes_t at = text.at;
    const bytes_t end = text.at + text.size;
    uint8_t *const into_end = into + size;
    while (end - at >= 8 && into_end - into >= 8) {
        const uint64_t all = SIX_BITS[at[0]] & SIX_BITS[at[1]] & SIX_BITS[at[2]] & SIX_BITS[at[3]] & SIX_BITS[at[4]] &
                             SIX_BITS[at[5]] & SIX_BITS[at[6]] & SIX_BITS[at[7]];
        if ((all & IS_DIGIT) == 0) {
            return false;
        }
        uint64_t bits = 0;
        for (int index = 0; index < 8; index++) {
            bits = bits << 6 | (SIX_BITS[at[index]] & 63);
        }
        bits = __builtin_bswap64(bits << 16);
        memcpy(into, &bits, sizeof bits);
        at += 8;
        into += 6;
    }
    while (end - at > 4) {
        if (!decode_four(at, 0, into)) {
            return false;
        }
        at += 4;
        into += 3;
    }
    return at == end || decode_four(at, 3 - (int)(into_end - into), into);
}

#endif
