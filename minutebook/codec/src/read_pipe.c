/* Read a line of a pipe to its end: a line of a MiB arrives in a dozen pieces, which need no work but the search for the
 * line break. */
#include "text.h"

#include <errno.h>
#include <unistd.h>

/* The results besides the number of filled bytes. */
struct pipe_end {
    int64_t behind;  /* the index after the first line break among the new bytes; 0 if there is none */
    int64_t stopped; /* why reading stopped: 0 for a line break or full memory, -1 at the end of input, else read(2)'s errno */
};

/* Read into `memory` after its `filled` bytes, until a line ends or the memory is full.
 *
 * Returns the new number of filled bytes, also if `stopped` is set: for a terminal or a reset connection, read(2) reports
 * the end only once. Nothing is read after a line break: the writer waits for an answer. */
EXPORTED int64_t minutebook_read_pipe(int descriptor, uint8_t *memory, size_t filled, size_t size, struct pipe_end *end) {
    end->behind = end->stopped = 0;
    while (filled < size && end->behind == 0) {
        const ssize_t got = read(descriptor, memory + filled, size - filled);
        if (got <= 0) {
            end->stopped = got == 0 ? -1 : errno;
            break;
        }
        const uint8_t *found = memchr(memory + filled, '\n', (size_t)got);
        if (found != NULL) {
            end->behind = found - memory + 1;
        }
        filled += (size_t)got;
    }
    return (int64_t)filled;
}
