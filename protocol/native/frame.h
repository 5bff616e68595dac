/* frame.h - the frames of the native protocol, both sides.
 *
 * A frame is a 4-byte big-endian length of what follows, then one MessagePack value: a request
 * [operation, id, parameters] or a reply [id, status, meta, body]. SPEC.md has the meaning and the
 * bytes. Reading never copies: views point into the frame.
 * Threads: pure functions. */
#pragma once

#include "protocol/buffer.h"
#include "protocol/reply.h"

enum {
    FRAME_HEADER = 4,
    FRAME_SIZE_MIN = 64 * 1024,              /* smallest limit that can be configured */
    FRAME_SIZE_DEFAULT = 16 * 1024 * 1024,   /* requests; DynamoDB takes as much */
    FRAME_SIZE_MAX = 64 * 1024 * 1024,       /* greatest limit that can be configured */
    FRAME_REPLY_SIZE_MAX = 64 * 1024 * 1024, /* what a client takes */
    NATIVE_VERSION = 1,
};

/* Keys of a request's parameter map. Numbers never change. */
enum frame_parameter {
    PARAMETER_TABLE = 0,          /* str */
    PARAMETER_KEY = 1,            /* map */
    PARAMETER_ITEM = 2,           /* map */
    PARAMETER_CONSISTENT = 3,     /* bool */
    PARAMETER_KEY_CONDITION = 4,  /* str */
    PARAMETER_NAMES = 5,          /* map str -> str */
    PARAMETER_VALUES = 6,         /* map str -> value */
    PARAMETER_FORWARD = 7,        /* bool, true if not given */
    PARAMETER_LIMIT = 8,          /* uint, 1 or more */
    PARAMETER_START_KEY = 9,      /* map */
    PARAMETER_VERDICT = 10,       /* bool: say how the cache answered */
    PARAMETER_TIMEOUT_MS = 11,    /* uint: give up after so long */
    PARAMETER_DEFINITION = 12,    /* map */
    PARAMETER_START_TABLE = 13,   /* str */
    PARAMETER_COMMIT = 14,        /* bool: say the commit number */
    PARAMETER_VERSION = 15,       /* uint, Hello */
    PARAMETER_FEATURES = 16,      /* uint, Hello */
    PARAMETER_CLIENT = 17,        /* str, Hello: who it is, for the log */
    PARAMETER_CONDITION = 18,     /* str */
    PARAMETER_RETURN_VALUES = 19, /* uint, enum return_values */
    PARAMETER_FILTER = 20,        /* str */
    PARAMETER_PROJECTION = 21,    /* str */
    PARAMETER_SELECT = 22,        /* uint, enum select */
    PARAMETER_UPDATE = 23,        /* str */
    PARAMETER_INDEX = 24,         /* str */
    PARAMETER_SEGMENT = 25,       /* uint */
    PARAMETER_SEGMENTS = 26,      /* uint, 1 or more */
    PARAMETER_PARTS = 27,         /* array of [operation, parameters] */
    PARAMETER_TOKEN = 28,         /* str */
    PARAMETER_FAILED = 29,        /* bool: give back the item that fails a condition */
    PARAMETER_CAPACITY = 30,      /* uint: enum capacity_detail */
    PARAMETER_METRICS = 31,       /* bool: say how large the item collections are */
};

/* Keys of a reply's meta map. */
enum frame_meta {
    META_VERDICT = 0, /* uint, enum verdict */
    META_AGE_MS = 1,  /* uint, with HIT and STALE */
    META_COMMIT = 2,  /* uint */
    META_DETAILS = 3, /* of an error: struct reply says of which */
    META_CAPACITY = 4,
    META_COMMITS = 5,
    META_METRICS = 6, /* struct reply: metrics */
};

/* Keys of the body of a reply to Hello. */
enum frame_hello {
    HELLO_VERSION = 0,   /* uint */
    HELLO_FEATURES = 1,  /* uint */
    HELLO_SERVER = 2,    /* str */
    HELLO_FRAME_MAX = 3, /* uint: largest request frame taken, header included */
};

/* What a Hello says besides what struct request holds. */
struct frame_greeting {
    uint64_t version;
    uint64_t features;
    struct bytes peer;
    uint64_t frame_max; /* in the reply only */
};

/* A reply, taken apart. */
struct frame_reply {
    uint64_t id;
    enum status status;
    enum verdict verdict;
    uint32_t age_ms;
    uint64_t commit;
    struct bytes body;     /* one MessagePack value; the text of an error is its contents */
    struct bytes details;  /* of an error, one MessagePack value; not given: none */
    struct bytes capacity; /* likewise; what was consumed */
    struct bytes metrics;  /* likewise; how large item collections are */
    struct bytes commits;  /* likewise; array of the parts' commit numbers */
};

/* Length of the frame that `header` begins, header included. */
static inline size_t frame_size(const uint8_t header[FRAME_HEADER])
{
    return FRAME_HEADER + (((size_t)header[0] << 24) | ((size_t)header[1] << 16) |
                           ((size_t)header[2] << 8) | header[3]);
}

/* Reads what follows the header of a request.
 * arena     for the parts of batches and transactions
 * request   zeroed here; views into `frame`; its id is set as soon as it is known
 * greeting  set for OPERATION_HELLO only
 * Errors: STATUS_MALFORMED, STATUS_UNKNOWN_OPERATION, STATUS_VALIDATION (a parameter missing, given
 * twice, or of no use to the operation); text says which. */
MUST_CHECK enum status frame_read_request(struct bytes frame, struct arena *arena,
                                          struct request *request, struct frame_greeting *greeting,
                                          struct error *error);

/* Reads what follows the header of a reply. Errors: STATUS_MALFORMED. */
MUST_CHECK enum status frame_read_reply(struct bytes frame, struct frame_reply *out);
MUST_CHECK enum status frame_read_greeting(struct bytes body, struct frame_greeting *out);

/* Append whole frames, header included. False without memory; `out` then ends where it did. */
MUST_CHECK bool frame_write_request(const struct request *request,
                                    const struct frame_greeting *greeting, struct buffer *out);
MUST_CHECK bool frame_write_reply(const struct request *request, const struct reply *reply,
                                  struct buffer *out);
MUST_CHECK bool frame_write_greeting(uint64_t id, const struct frame_greeting *greeting,
                                     struct buffer *out);
