/* target.h - a server under load: how to ask it, how to read what it says.
 *
 * Requests and replies are checked: a wrong or missing reply ends the run. */
#pragma once

#include "protocol/buffer.h"

#include <sys/types.h>

enum work {
    WORK_LOAD,  /* write every item once */
    WORK_READ,  /* read one item */
    WORK_WRITE, /* write one item */
    WORK_MIXED, /* 95 % reads, 5 % writes */
    WORK_QUERY, /* one page of a partition */
};

struct shape {
    uint64_t items;
    size_t value_size;
    uint32_t partition_items; /* for queries: items a partition */
    bool is_consistent;       /* reads past the cache */
};

struct target {
    const char *name;
    const struct target_ops *ops;
    const struct shape *shape;
    const char *path; /* Unix socket, or NULL */
    int port;
    pid_t pid;                       /* 0: not ours, its CPU time is not known */
    size_t request_size, reply_size; /* echo: of the fixed messages */
    uint64_t hits, misses;           /* replies by verdict, where the server says it */
    struct buffer made;              /* a request that is patched instead of made again */
    size_t made_key_at;
};

struct target_ops {
    /* Greets and prepares a blocking connection. May be NULL. */
    void (*greet)(struct target *target, int fd);
    /* Makes what the work needs, once. May be NULL. */
    void (*prepare)(struct target *target, enum work work);
    /* Appends one request. `id` comes back in reply_id where the protocol has ids. */
    void (*ask)(struct target *target, enum work work, uint64_t key, uint64_t id,
                struct buffer *out);
    /* Length of the whole reply at the front of `in`, 0 if it is incomplete. Sets *id, or leaves it
     * where replies come in order. Dies on an error reply. */
    size_t (*reply)(struct target *target, struct bytes in, uint64_t *id);
    /* Does this reply answer a request for `key`? */
    bool (*is_right)(struct target *target, enum work work, uint64_t key, struct bytes reply);
};

extern const struct target_ops target_mudax, target_http, target_memcached, target_redis,
    target_echo;

enum { KEY_SIZE = 24 };

/* "user:0000000000000000123", KEY_SIZE bytes and a NUL. */
void key_text(uint64_t key, char out[KEY_SIZE + 1]);

/* Value of an item: `size` printable bytes that depend on the key. */
void value_text(uint64_t key, uint8_t *out, size_t size);

/* The child that answers echo requests; arg is a struct target. */
void echo_serve(void *arg);
