#include "protocol/expression_form.h"

#include "protocol/ensure.h"

enum { FORM_END, FORM_NAME, FORM_INDEX };

/* Goes over everything twice: to measure (`at` is NULL), and to write. */
struct form {
    uint8_t *at;
    size_t size;
};

static void put(struct form *form, const void *data, size_t size)
{
    form->size += size;
    if (form->at == NULL || size == 0)
        return;
    memcpy(form->at, data, size);
    form->at += size;
}

static void put_number(struct form *form, size_t number)
{
    uint32_t narrow = (uint32_t)number;
    put(form, &narrow, sizeof narrow);
}

static void put_tag(struct form *form, unsigned tag)
{
    uint8_t byte = (uint8_t)tag;
    put(form, &byte, 1);
}

static void put_step(struct form *form, struct bytes name, uint32_t index)
{
    put_tag(form, bytes_given(name) ? FORM_NAME : FORM_INDEX);
    put_number(form, bytes_given(name) ? name.size : index);
    put(form, name.data, name.size);
}

static void put_expression(struct form *form, const struct expression *node)
{
    put_tag(form, node->kind);
    put_number(form, node->count);
    if (node->kind == EXPRESSION_VALUE) {
        put_number(form, node->value->canonical.size);
        put(form, node->value->canonical.data, node->value->canonical.size);
    }
    if (node->kind == EXPRESSION_PATH) {
        for (const struct path_step *step = node->path; step != NULL; step = step->next)
            put_step(form, step->name, step->index);
        put_tag(form, FORM_END);
    }
    for (const struct expression *operand = node->first; operand != NULL; operand = operand->next)
        put_expression(form, operand);
}

static void put_paths(struct form *form, const struct path_node *parent)
{
    for (const struct path_node *node = parent->first; node != NULL; node = node->next) {
        put_step(form, node->name, node->index);
        put_paths(form, node);
    }
    put_tag(form, FORM_END);
}

static void put_all(struct form *form, const struct expression *filter,
                    const struct path_node *projection, bool is_count)
{
    put_tag(form, (unsigned)is_count << 2 | (unsigned)(filter != NULL) << 1 |
                      (unsigned)(projection != NULL));
    if (filter != NULL)
        put_expression(form, filter);
    if (projection != NULL)
        put_paths(form, projection);
}

struct bytes expression_form(const struct expression *filter, const struct path_node *projection,
                             bool is_count, struct arena *arena)
{
    struct form measured = {NULL, 0};
    put_all(&measured, filter, projection, is_count);
    uint8_t *bytes = arena_alloc(arena, measured.size);
    if (bytes == NULL)
        return BYTES_NONE;
    struct form written = {bytes, 0};
    put_all(&written, filter, projection, is_count);
    ensure(written.size == measured.size);
    return bytes_of(bytes, written.size);
}
