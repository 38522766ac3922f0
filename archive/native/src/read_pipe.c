/* A line of a pipe, read to its end: a line of a MiB comes in two dozen pieces, and between two of them nothing is to
 * be done but to look for the line's end. */
#include "text.h"

#include <errno.h>
#include <unistd.h>

/* Read what is there behind the `filled` bytes of `memory`, and go on until a line has ended or the memory is full.
 *
 * Returns how many bytes are filled then: no more than before at the end of input. `behind` is the index behind the
 * first line break among the new ones, 0 when there is none. Nothing is read behind a break that came: the writer waits
 * for an answer. Less than 0: read(2)'s error, negated; only when nothing was read, for it comes again. */
EXPORTED int64_t minutebook_read_pipe(int descriptor, uint8_t *memory, size_t filled, size_t size, int64_t *behind) {
    const size_t before = filled;
    *behind = 0;
    while (filled < size && *behind == 0) {
        const ssize_t got = read(descriptor, memory + filled, size - filled);
        if (got < 0 && filled == before) {
            return -errno;
        }
        if (got <= 0) {
            break;
        }
        const uint8_t *found = memchr(memory + filled, '\n', (size_t)got);
        if (found != NULL) {
            *behind = found - memory + 1;
        }
        filled += (size_t)got;
    }
    return (int64_t)filled;
}
