/* trace.h - a request trace, and what is published about it.
 *
 * A trace is text, one request a line: `id`, `id size` or `id size ttl time`, perhaps compressed
 * with xz. Ids are dense from 0, the size of an id is the same throughout.
 * Threads: any, once loaded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRACE_NAME_MAX = 64 };

struct trace {
    char name[TRACE_NAME_MAX];
    uint32_t *ids;
    size_t count;
    uint32_t *sizes; /* by id */
    size_t id_count;
};

/* path  of a .txt or .txt.xz; the name is what stands between folder and first dot
 * False, with a message on stderr, if it cannot be read. */
bool trace_load(struct trace *trace, const char *path);
void trace_free(struct trace *trace);

enum { REFERENCE_COLUMNS_MAX = 16, REFERENCE_COLUMN_NAME_MAX = 16 };

struct reference_point {
    char trace[TRACE_NAME_MAX];
    uint64_t capacity;
    double miss[REFERENCE_COLUMNS_MAX];
};

/* A table of miss ratios: trace, capacity, a column a policy. */
struct reference {
    char columns[REFERENCE_COLUMNS_MAX][REFERENCE_COLUMN_NAME_MAX];
    size_t column_count;
    struct reference_point *points;
    size_t count;
};

bool reference_load(struct reference *reference, const char *path);
void reference_free(struct reference *reference);
/* The policy's place in `miss`, or SIZE_MAX. */
size_t reference_column(const struct reference *reference, const char *policy);
