/* The native wire: whatever comes in, one answer or one error, and no byte read beyond the end. */
#include "protocol/native/frame.h"
#include "protocol/wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The first byte chooses whether Hello has been said; the rest is the stream. */
    if (size < 1)
        return 0;
    struct wire_session session = {.frame_max = FRAME_SIZE_MIN, .version = data[0] & 1};
    struct bytes input = bytes_of(data + 1, size - 1);
    struct buffer out = {0};
    struct arena arena;
    arena_init(&arena, NULL, 0, 1 << 16);
    for (;;) {
        struct request request;
        size_t used = 0, needed = 0;
        enum wire_result result =
            wire_native.decode(&session, input, &arena, &request, &used, &needed, &out);
        if (result == WIRE_MORE && needed <= input.size)
            abort();
        if (result == WIRE_REQUEST) {
            struct buffer again = {0};
            if (!frame_write_request(&request, NULL, &again))
                abort();
            buffer_deinit(&again);
        }
        if (result == WIRE_MORE || result == WIRE_BROKEN)
            break;
        if (used == 0 || used > input.size)
            abort();
        input = bytes_of(input.data + used, input.size - used);
    }
    struct frame_reply reply;
    if (size > 1 && frame_read_reply(bytes_of(data + 1, size - 1), &reply) == STATUS_OK &&
        reply.body.data + reply.body.size > data + size)
        abort();
    buffer_deinit(&out);
    arena_deinit(&arena);
    return 0;
}
