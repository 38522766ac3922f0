/* A line of a pipe, read to its end: a line of a MiB comes in a dozen pieces, and between two of them nothing is to be
 * done but to look for the line's end. */
#include "text.h"

#include <errno.h>
#include <unistd.h>

/* The two results beside how much is filled. */
struct pipe_end {
    int64_t behind;  /* the index behind the first line break among the new bytes; 0 when there is none */
    int64_t stopped; /* why no more was read: 0 for a break or full memory, -1 at the end of input, else read(2)'s errno */
};

/* Read what is there behind the `filled` bytes of `memory`, and go on until a line has ended or the memory is full.
 *
 * Returns how many bytes are filled then. What stopped it is told beside the bytes in front of it: of a terminal, or of
 * a connection that was reset, it comes once. Nothing is read behind a break that came: the writer waits for an answer. */
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
