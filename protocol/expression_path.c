#include "protocol/expression_path.h"

#include "protocol/expression_parser.h"

#include <stdlib.h>

enum { PATHS_MANY = 4 }; /* fewer are looked up one by one */

static int compare_step(const struct path_node *node, const struct path_step *step)
{
    if (bytes_given(step->name))
        return bytes_compare(node->name, step->name);
    return (node->index > step->index) - (node->index < step->index);
}

/* ---- lists ---- */

static int compare_steps(const struct path_step *a, const struct path_step *b)
{
    if (bytes_given(a->name) != bytes_given(b->name))
        return bytes_given(a->name) ? -1 : 1;
    return bytes_given(a->name) ? bytes_compare(a->name, b->name)
                                : (a->index > b->index) - (a->index < b->index);
}

static int compare_paths(const void *left, const void *right)
{
    const struct path_step *a = (*(struct expression *const *)left)->path;
    const struct path_step *b = (*(struct expression *const *)right)->path;
    for (; a != NULL && b != NULL; a = a->next, b = b->next) {
        int order = compare_steps(a, b);
        if (order != 0)
            return order;
    }
    return (a != NULL) - (b != NULL);
}

bool path_list_make(struct parser *parser, const struct path_list **out)
{
    size_t count = parser->path_count;
    struct path_list *list;
    *out = NULL;
    if (count < PATHS_MANY)
        return true;
    list = arena_alloc(parser->arena, sizeof *list);
    if (list == NULL)
        return parser_refuse_memory(parser) != NULL;
    *list = (struct path_list){.count = count,
                               .paths = arena_alloc(parser->arena, count * sizeof *list->paths),
                               .steps = arena_alloc(parser->arena, count * sizeof *list->steps),
                               .found = arena_alloc(parser->arena, count * sizeof *list->found)};
    if (list->paths == NULL || list->steps == NULL || list->found == NULL)
        return parser_refuse_memory(parser) != NULL;
    for (struct expression *path = parser->last_path; path != NULL; path = path->earlier)
        list->paths[--count] = path;
    qsort(list->paths, list->count, sizeof *list->paths, compare_paths);
    for (size_t i = 0; i < list->count; i++)
        list->paths[i]->place = i;
    *out = list;
    return true;
}

/* ---- trees ---- */

static void note_paths(struct parser *parser, const char *how, const struct path_step *one,
                       const struct path_step *two)
{
    char texts[2][48];
    path_print(one, texts[0], sizeof texts[0]);
    path_print(two, texts[1], sizeof texts[1]);
    parser_note_flaw(parser, FLAW_PATHS,
                     "Two document paths %s with each other; must remove or rewrite one of these "
                     "paths; path one: [%s], path two: [%s]",
                     how, texts[0], texts[1]);
}

/* The child of `parent` for a step, made if need be. NULL without memory, or with a flaw. */
static struct path_node *find_child(struct parser *parser, struct path_node *parent,
                                    const struct path_step *step, const struct path_step *path)
{
    const struct path_node *any = parent->first;
    if (any != NULL && bytes_given(any->name) != bytes_given(step->name)) {
        note_paths(parser, "conflict", any->path, path);
        return NULL;
    }
    struct path_node **at = &parent->first;
    while (*at != NULL && compare_step(*at, step) < 0)
        at = &(*at)->next;
    bool is_last = step->next == NULL;
    if (*at != NULL && compare_step(*at, step) == 0) {
        if (!is_last && (*at)->first != NULL)
            return *at;
        note_paths(parser, "overlap", (*at)->path, path);
        return NULL;
    }
    struct path_node *node = arena_alloc(parser->arena, sizeof *node);
    if (node == NULL)
        return parser_refuse_memory(parser);
    *node = (struct path_node){.next = *at, .name = step->name, .index = step->index, .path = path};
    *at = node;
    return node;
}

bool path_tree_add(struct parser *parser, struct path_node *root, const struct path_step *path,
                   struct path_node **leaf)
{
    struct path_node *node = root;
    *leaf = NULL;
    for (const struct path_step *step = path; step != NULL && node != NULL; step = step->next)
        node = find_child(parser, node, step, path);
    *leaf = node;
    return node != NULL || parser->has_flaw;
}

enum status projection_parse(struct bytes text, struct expression_binding *binding,
                             struct arena *arena, struct path_node **out, struct error *error)
{
    struct parser parser;
    struct path_node *root = arena_alloc(arena, sizeof *root);
    if (root == NULL)
        return error_set(error, STATUS_NO_MEMORY, "%s", "");
    *root = (struct path_node){.next = NULL};
    enum status status = parser_begin(&parser, text, "ProjectionExpression", binding, arena, error);
    if (status != STATUS_OK)
        return status;
    for (;;) {
        struct path_node *leaf;
        const struct expression *path = parser_read_path(&parser);
        if (path == NULL || !path_tree_add(&parser, root, path->path, &leaf))
            return error->status;
        if (parser.now.kind == TOKEN_END)
            break;
        if (!parser_take(&parser, TOKEN_COMMA))
            return error->status;
    }
    status = parser_end(&parser);
    if (status == STATUS_OK)
        *out = root;
    return status;
}
