#include "daemon/policies.h"

#include "protocol/ensure.h"

#include <stdlib.h>
#include <string.h>

static const struct setting settings[POLICY_SETTINGS] = {
#define POLICY_SETTING(name, type, least, most, help)                                              \
    {#name, NULL, help, least, most, offsetof(struct policy_section, name), SETTING_##type, true},
#include "daemon/policies.def"
#undef POLICY_SETTING
};

static const char title_begin[] = "policy";

bool policy_section_is(const char *title)
{
    size_t size = sizeof title_begin - 1;
    return strncmp(title, title_begin, size) == 0 && (title[size] == ' ' || title[size] == '\0');
}

/* The name in `policy "NAME"`. False if it is none. */
static bool read_name(const char *title, char out[CACHE_POLICY_NAME_MAX + 1])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const char *at = title + sizeof title_begin - 1;
    at += strspn(at, " ");
    if (*at++ != '"')
        return false;
    size_t size = strspn(at, letters);
    if (size == 0 || size > CACHE_POLICY_NAME_MAX || strcmp(at + size, "\"") != 0)
        return false;
    memcpy(out, at, size);
    out[size] = '\0';
    return strcmp(out, "default") != 0;
}

/* The section of a name, which begins with its first line. NULL if there are too many. */
static struct policy_section *section_of(struct policy_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->sections[i].name, name) == 0)
            return &list->sections[i];
    if (list->count + 1 >= CACHE_POLICIES_MAX)
        return NULL;
    list->sections = realloc(list->sections, (list->count + 1) * sizeof *list->sections);
    ensure(list->sections != NULL);
    struct policy_section *section = &list->sections[list->count++];
    memset(section, 0, sizeof *section);
    memcpy(section->name, name, strlen(name) + 1);
    return section;
}

static const struct setting *find(const char *name)
{
    for (size_t i = 0; i < POLICY_SETTINGS; i++)
        if (setting_is_named(name, settings[i].name))
            return &settings[i];
    return NULL;
}

bool policy_section_read(struct policy_list *list, const char *title, const char *name,
                         const char *value, const char *where, char *error, size_t error_size)
{
    char text[CACHE_POLICY_NAME_MAX + 1], place[600];
    if (!read_name(title, text)) {
        (void)snprintf(error, error_size,
                       "%s: section [%s]: expected [policy \"NAME\"], up to %d letters, digits and "
                       "_.-, not \"default\": its settings stand above all sections",
                       where, title, (int)CACHE_POLICY_NAME_MAX);
        return false;
    }
    (void)snprintf(place, sizeof place, "%s: policy \"%s\"", where, text);
    struct policy_section *section = section_of(list, text);
    const struct setting *row = find(name);
    const char *what = section == NULL                   ? "there can be no more policies than 63"
                       : row == NULL                     ? "there is no such setting"
                       : section->is_set[row - settings] ? "is given twice"
                                                         : NULL;
    if (what != NULL) {
        (void)snprintf(error, error_size, "%s: %s: %s", place, name, what);
        return false;
    }
    section->is_set[row - settings] = true;
    return setting_read(section, row, value, place, error, error_size);
}

bool policy_list_check(const struct policy_list *list, const char *path, char *error,
                       size_t error_size)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct policy_section *section = &list->sections[i];
        const char *what = section->type_attribute != NULL && section->type == NULL
                               ? "type_attribute: without type it says nothing"
                           : section->type != NULL && section->index != NULL
                               ? "type: items have one, pages of an index have not"
                               : NULL;
        if (what == NULL)
            continue;
        (void)snprintf(error, error_size, "%s: policy \"%s\": %s", path, section->name, what);
        return false;
    }
    return true;
}

static bool sections_equal(const struct policy_section *a, const struct policy_section *b)
{
    bool is_equal = strcmp(a->name, b->name) == 0;
    for (size_t i = 0; is_equal && i < POLICY_SETTINGS; i++)
        is_equal = a->is_set[i] == b->is_set[i] && setting_equals(a, b, &settings[i]);
    return is_equal;
}

bool policy_lists_equal(const struct policy_list *a, const struct policy_list *b)
{
    bool is_equal = a->count == b->count;
    for (size_t i = 0; is_equal && i < a->count; i++)
        is_equal = sections_equal(&a->sections[i], &b->sections[i]);
    return is_equal;
}

void policy_list_free(struct policy_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        for (size_t row = 0; row < POLICY_SETTINGS; row++)
            setting_free(&list->sections[i], &settings[row]);
    free(list->sections);
    *list = (struct policy_list){0};
}

/* ---- for the cache ---- */

struct cache_policy policy_section_policy(const struct policy_section *section,
                                          const struct cache_policy *all)
{
    struct cache_policy policy = *all;
    if (section->is_set[POLICY_SETTING_item_ttl])
        policy.item_ttl_ms = (uint32_t)section->item_ttl;
    if (section->is_set[POLICY_SETTING_query_ttl])
        policy.query_ttl_ms = (uint32_t)section->query_ttl;
    if (section->is_set[POLICY_SETTING_negative_ttl])
        policy.negative_ttl_max_ms = (uint32_t)section->negative_ttl;
    if (section->is_set[POLICY_SETTING_stale_while_refetch])
        policy.stale_while_refetch_ms = (uint32_t)section->stale_while_refetch;
    if (section->is_set[POLICY_SETTING_stale_if_error])
        policy.stale_if_error_ms = (uint32_t)section->stale_if_error;
    if (section->is_set[POLICY_SETTING_refresh_ahead])
        policy.refresh_percent = (uint32_t)section->refresh_ahead;
    policy.is_shadow = section->shadow;
    policy.bytes_max = section->max_bytes;
    policy.percent_max = (uint32_t)section->max_share;
    policy.is_enabled = policy.is_enabled && section->cache != POLICY_CACHE_OFF;
    policy.is_without_items = section->cache == POLICY_CACHE_QUERIES;
    if (section->cache == POLICY_CACHE_ITEMS)
        policy.query_ttl_ms = 0;
    return policy;
}

static struct bytes text_of(const char *text)
{
    return text == NULL ? BYTES_NONE : bytes_text(text);
}

void policy_list_rules(const struct policy_list *list, const struct cache_policy *all,
                       struct cache_rule *rules)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct policy_section *section = &list->sections[i];
        const char *attribute = section->type_attribute == NULL ? "Type" : section->type_attribute;
        rules[i] = (struct cache_rule){
            .name = bytes_text(section->name),
            .table = text_of(section->table),
            .index = text_of(section->index),
            .partition_key = text_of(section->partition_key),
            .sort_key = text_of(section->sort_key),
            .attribute = section->type == NULL ? BYTES_NONE : bytes_text(attribute),
            .value = text_of(section->type),
            .policy = policy_section_policy(section, all),
        };
    }
}

void policy_help(FILE *out)
{
    (void)fprintf(
        out, "\nSections [policy \"NAME\"] of the INI file are for what fits all that they "
             "say; the first counts.\nA last one that says only what is kept takes what fits no "
             "other. Texts may end in *. SIGHUP\ncan change them.\n\n");
    for (size_t i = 0; i < POLICY_SETTINGS; i++)
        (void)fprintf(out, "  %-26s  %s\n", settings[i].name, settings[i].help);
}
