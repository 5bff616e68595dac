#include "protocol/native/frame.h"
#include "protocol/wire.h"

/* Appends an error reply for the request that `request` identifies as far as it was read. */
static enum wire_result refuse(const struct request *request, const struct error *error,
                               enum wire_result result, struct buffer *out)
{
    struct reply reply;
    reply_init(&reply);
    reply.status = error->status;
    reply.error = *error;
    return frame_write_reply(request, &reply, out) ? result : WIRE_BROKEN;
}

static enum wire_result greet(struct wire_session *session, const struct request *request,
                              const struct frame_greeting *theirs, struct buffer *out)
{
    struct error error;
    if (theirs->version < NATIVE_VERSION) {
        (void)error_set(&error, STATUS_UNSUPPORTED, "This daemon speaks version %d of the protocol",
                        NATIVE_VERSION);
        return refuse(request, &error, WIRE_BROKEN, out);
    }
    session->version = NATIVE_VERSION;
    session->features = 0;
    struct frame_greeting ours = {.version = session->version,
                                  .features = session->features,
                                  .peer = BYTES_LITERAL("mudax " MUDAX_VERSION),
                                  .frame_max = session->frame_max};
    return frame_write_greeting(request->id, &ours, out) ? WIRE_ANSWERED : WIRE_BROKEN;
}

static enum wire_result decode(struct wire_session *session, struct bytes input,
                               struct arena *arena, struct request *request, size_t *used,
                               size_t *needed, struct buffer *out)
{
    if (input.size < FRAME_HEADER) {
        *needed = FRAME_HEADER;
        return WIRE_MORE;
    }
    size_t size = frame_size(input.data);
    struct error error;
    if (UNLIKELY(size > session->frame_max)) {
        *request = (struct request){0};
        (void)error_set(&error, STATUS_TOO_LARGE,
                        "A frame of %zu bytes exceeds this daemon's limit of %zu (max-frame)", size,
                        session->frame_max);
        return refuse(request, &error, WIRE_BROKEN, out);
    }
    if (input.size < size) {
        *needed = size;
        return WIRE_MORE;
    }
    *used = size;
    struct frame_greeting greeting;
    struct bytes frame = bytes_of(input.data + FRAME_HEADER, size - FRAME_HEADER);
    enum status status = frame_read_request(frame, arena, request, &greeting, &error);
    if (UNLIKELY(status != STATUS_OK)) {
        /* A frame that can be read but asks for something impossible harms nobody else's. */
        bool is_broken = status == STATUS_MALFORMED || session->version == 0;
        return refuse(request, &error, is_broken ? WIRE_BROKEN : WIRE_ANSWERED, out);
    }
    if (UNLIKELY(request->operation == OPERATION_HELLO))
        return greet(session, request, &greeting, out);
    if (UNLIKELY(session->version == 0)) {
        (void)error_set(&error, STATUS_MALFORMED, "The first frame of a connection must be Hello");
        return refuse(request, &error, WIRE_BROKEN, out);
    }
    return WIRE_REQUEST;
}

static bool encode(const struct wire_session *session, const struct request *request,
                   const struct reply *reply, struct buffer *out)
{
    (void)session;
    return frame_write_reply(request, reply, out);
}

const struct wire_ops wire_native = {
    .scheme = "mudax",
    .decode = decode,
    .encode = encode,
};
