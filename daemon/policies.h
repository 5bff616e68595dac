/* policies.h - the sections [policy "NAME"] of the INI file.
 *
 * policies.def is the table of what stands in one.
 * Threads: as config.h. */
#pragma once

#include "cache/cache.h"
#include "daemon/setting.h"

#include <stdio.h>

enum policy_setting {
#define POLICY_SETTING(name, type, least, most, help) POLICY_SETTING_##name,
#include "daemon/policies.def"
#undef POLICY_SETTING
    POLICY_SETTINGS
};

/* Values of `cache`. */
enum { POLICY_CACHE_ALL, POLICY_CACHE_ITEMS, POLICY_CACHE_QUERIES, POLICY_CACHE_OFF };

struct policy_section {
    char name[CACHE_POLICY_NAME_MAX + 1];
    bool is_set[POLICY_SETTINGS];
#define POLICY_SETTING(name, type, least, most, help) SETTING_FIELD_##type name;
#include "daemon/policies.def"
#undef POLICY_SETTING
};

struct policy_list {
    struct policy_section *sections; /* owned; in the order of the file */
    size_t count;
};

/* Whether a section's title is that of a policy. */
bool policy_section_is(const char *title);
/* Reads one line of such a section. The error says where, in which section, and what. */
MUST_CHECK bool policy_section_read(struct policy_list *list, const char *title, const char *name,
                                    const char *value, const char *where, char *error,
                                    size_t error_size);
/* Whether each makes sense as a whole. */
MUST_CHECK bool policy_list_check(const struct policy_list *list, const char *path, char *error,
                                  size_t error_size);
bool policy_lists_equal(const struct policy_list *a, const struct policy_list *b);
void policy_list_free(struct policy_list *list);

/* What is kept: `all` is what stands above all sections, and what is not given comes from there. */
struct cache_policy policy_section_policy(const struct policy_section *section,
                                          const struct cache_policy *all);
/* rules  list->count of them; texts are the list's */
void policy_list_rules(const struct policy_list *list, const struct cache_policy *all,
                       struct cache_rule *rules);

void policy_help(FILE *out);
