#include "clients/c/src/failure.h"

#include <stdarg.h>
#include <stdio.h>

/* The codes of mudax.h below 100 are the numbers of status.def. */
#define SAME(code, status) _Static_assert((int)(code) == (int)(status), "same number")
SAME(MUDAX_VALIDATION, STATUS_VALIDATION);
SAME(MUDAX_RESOURCE_NOT_FOUND, STATUS_RESOURCE_NOT_FOUND);
SAME(MUDAX_RESOURCE_IN_USE, STATUS_RESOURCE_IN_USE);
SAME(MUDAX_CONDITIONAL_CHECK_FAILED, STATUS_CONDITIONAL_CHECK_FAILED);
SAME(MUDAX_THROTTLED, STATUS_THROTTLED);
SAME(MUDAX_INTERNAL, STATUS_INTERNAL);
SAME(MUDAX_UNAVAILABLE, STATUS_UNAVAILABLE);
SAME(MUDAX_STORE_TIMEOUT, STATUS_TIMEOUT);
SAME(MUDAX_OUTCOME_UNKNOWN, STATUS_OUTCOME_UNKNOWN);
SAME(MUDAX_MALFORMED, STATUS_MALFORMED);
SAME(MUDAX_TOO_LARGE, STATUS_TOO_LARGE);
SAME(MUDAX_UNKNOWN_OPERATION, STATUS_UNKNOWN_OPERATION);
SAME(MUDAX_UNSUPPORTED, STATUS_UNSUPPORTED);
SAME(MUDAX_DAEMON_NO_MEMORY, STATUS_NO_MEMORY);
SAME(MUDAX_SHUTTING_DOWN, STATUS_SHUTTING_DOWN);
SAME(MUDAX_LIMIT_EXCEEDED, STATUS_LIMIT_EXCEEDED);
SAME(MUDAX_TRANSACTION_CANCELED, STATUS_TRANSACTION_CANCELED);
SAME(MUDAX_IDEMPOTENT_MISMATCH, STATUS_IDEMPOTENT_MISMATCH);

static const char *code_name(enum mudax_code code)
{
    switch (code) {
    case MUDAX_CONNECT_ERROR:
        return "MudaxConnectError";
    case MUDAX_TIMEOUT:
        return "MudaxTimeout";
    case MUDAX_CONNECTION_LOST:
        return "MudaxConnectionLost";
    case MUDAX_PROTOCOL_ERROR:
        return "MudaxProtocolError";
    case MUDAX_NO_MEMORY:
        return "MudaxNoMemory";
    case MUDAX_INVALID_REQUEST:
        return "MudaxInvalidRequest";
    case MUDAX_PIPE_FULL:
        return "MudaxPipeFull";
    case MUDAX_CLOSED:
        return "MudaxClosed";
    default:
        return status_name((enum status)code);
    }
}

int failure_set(struct mudax_error *error, enum mudax_code code, const char *format, ...)
{
    if (error == NULL)
        return (int)code;
    va_list arguments;
    va_start(arguments, format);
    error->code = (int)code;
    error->name = code_name(code);
    error->is_retryable = false;
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): found wrongly behind the return above
    (void)vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return (int)code;
}

int failure_no_memory(struct mudax_error *error)
{
    return failure_set(error, MUDAX_NO_MEMORY, "This process has no memory left");
}

int failure_from_reply(struct mudax_error *error, const struct frame_reply *reply,
                       enum effect effect)
{
    size_t size = reply->body.size < sizeof error->text ? reply->body.size : sizeof error->text;
    (void)failure_set(error, (enum mudax_code)reply->status, "%.*s", (int)size,
                      (const char *)reply->body.data);
    if (error != NULL)
        error->is_retryable = retry_is_safe(effect, ATTEMPT_ANSWERED, reply->status);
    return (int)reply->status;
}
