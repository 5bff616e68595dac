/* message.h - requests and replies of mudax.h, to and from frames. Pure functions. */
#pragma once

#include "clients/c/include/mudax.h"
#include "protocol/native/frame.h"

/* Appends one frame.
 * timeout_ms  what the daemon is told, 1 or more
 * Errors: MUDAX_INVALID_REQUEST, MUDAX_NO_MEMORY; `out` then ends where it did. */
MUST_CHECK int message_write(const struct mudax_request *request, uint64_t id, uint32_t timeout_ms,
                             struct buffer *out, struct mudax_error *error);

/* Refuses a frame of `size` that the daemon would refuse. frame_max 0: not known.
 * Errors: MUDAX_TOO_LARGE. */
MUST_CHECK int message_check_size(size_t size, uint64_t frame_max, struct mudax_error *error);

/* True for a reply that the caller sees: a good one, or an error that has more to say. */
bool message_has_reply(const struct frame_reply *frame);

/* Makes it; copies its bytes and decodes them at once, so that no accessor can fail later.
 * Errors: MUDAX_PROTOCOL_ERROR, MUDAX_NO_MEMORY; `error` then holds these instead of the reply's.
 */
MUST_CHECK int message_read(const struct frame_reply *frame, enum mudax_operation operation,
                            size_t part_count, struct mudax_reply **out, struct mudax_error *error);

/* "GetItem", ... */
const char *message_operation_name(enum mudax_operation operation);

/* The time that the daemon is told when `left_ms` are left: a little less, so that it is the one
 * that says what took too long. */
uint32_t message_daemon_timeout_ms(int left_ms);
