#include "bench/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more in an array that doubles. */
static bool grow(void **array, size_t *room, size_t count, size_t element_size)
{
    if (count < *room)
        return true;
    size_t wanted = *room == 0 ? 4096 : *room * 2;
    while (wanted <= count)
        wanted *= 2;
    void *larger = realloc(*array, wanted * element_size);
    if (larger == NULL)
        return false;
    memset((uint8_t *)larger + *room * element_size, 0, (wanted - *room) * element_size);
    *array = larger;
    *room = wanted;
    return true;
}

static bool read_requests(struct trace *trace, FILE *file)
{
    char line[128];
    size_t ids_room = 0, sizes_room = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        char *end;
        unsigned long id = strtoul(line, &end, 10);
        unsigned long size = *end == ' ' ? strtoul(end, NULL, 10) : 1;
        if (end == line || id >= UINT32_MAX || size == 0 || size >= UINT32_MAX ||
            !grow((void **)&trace->ids, &ids_room, trace->count, sizeof *trace->ids) ||
            !grow((void **)&trace->sizes, &sizes_room, id, sizeof *trace->sizes))
            return false;
        trace->ids[trace->count++] = (uint32_t)id;
        if (trace->sizes[id] == 0)
            trace->sizes[id] = (uint32_t)size;
        if (id >= trace->id_count)
            trace->id_count = id + 1;
    }
    return trace->count != 0;
}

static void name_of(const char *path, char *name)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    size_t size = strcspn(base, ".");
    size = size < TRACE_NAME_MAX ? size : TRACE_NAME_MAX - 1;
    memcpy(name, base, size);
    name[size] = '\0';
}

bool trace_load(struct trace *trace, const char *path)
{
    *trace = (struct trace){0};
    name_of(path, trace->name);
    size_t length = strlen(path);
    bool is_packed = length > 3 && strcmp(path + length - 3, ".xz") == 0;
    FILE *file;
    if (is_packed) {
        char command[1024];
        int size = snprintf(command, sizeof command, "xz -dc '%s'", path);
        bool is_plain = strchr(path, '\'') == NULL && (size_t)size < sizeof command;
        file = is_plain ? popen(command, "r") : NULL; // NOLINT(cert-env33-c) - a path of ours
    } else {
        file = fopen(path, "r");
    }
    bool is_ok = file != NULL && read_requests(trace, file);
    if (file != NULL)
        is_ok = (is_packed ? pclose(file) : fclose(file)) == 0 && is_ok;
    if (is_ok)
        return true;
    (void)fprintf(stderr, "bench-trace: cannot read %s\n", path);
    trace_free(trace);
    return false;
}

void trace_free(struct trace *trace)
{
    free(trace->ids);
    free(trace->sizes);
    *trace = (struct trace){0};
}

/* trace <TAB> capacity <TAB> a number a column */
static bool read_point(struct reference *reference, char *line, size_t *room)
{
    if (!grow((void **)&reference->points, room, reference->count, sizeof *reference->points))
        return false;
    struct reference_point *point = &reference->points[reference->count];
    char *rest = line;
    const char *trace = strsep(&rest, "\t"), *capacity = strsep(&rest, "\t");
    if (capacity == NULL)
        return false;
    (void)snprintf(point->trace, sizeof point->trace, "%s", trace);
    point->capacity = strtoull(capacity, NULL, 10);
    for (size_t i = 0; i < reference->column_count; i++) {
        const char *number = strsep(&rest, "\t");
        if (number == NULL)
            return false;
        point->miss[i] = strtod(number, NULL);
    }
    reference->count += point->capacity != 0; /* not the line of means */
    return true;
}

static bool read_columns(struct reference *reference, char *line)
{
    char *rest = line;
    (void)strsep(&rest, "\t");
    (void)strsep(&rest, "\t");
    for (const char *name; (name = strsep(&rest, "\t\n")) != NULL && *name != '\0';) {
        if (reference->column_count == REFERENCE_COLUMNS_MAX)
            return false;
        (void)snprintf(reference->columns[reference->column_count++], REFERENCE_COLUMN_NAME_MAX,
                       "%s", name);
    }
    return reference->column_count != 0;
}

bool reference_load(struct reference *reference, const char *path)
{
    *reference = (struct reference){0};
    char line[1024];
    size_t room = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    bool is_ok = fgets(line, sizeof line, file) != NULL && read_columns(reference, line);
    while (is_ok && fgets(line, sizeof line, file) != NULL)
        is_ok = read_point(reference, line, &room);
    (void)fclose(file);
    if (!is_ok)
        reference_free(reference);
    return is_ok;
}

void reference_free(struct reference *reference)
{
    free(reference->points);
    *reference = (struct reference){0};
}

size_t reference_column(const struct reference *reference, const char *policy)
{
    for (size_t i = 0; i < reference->column_count; i++)
        if (strcmp(reference->columns[i], policy) == 0)
            return i;
    return SIZE_MAX;
}
