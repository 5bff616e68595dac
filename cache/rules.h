/* rules.h - which policy an item or page belongs to, and what that says.
 *
 * Compiled from struct cache_policies; immutable, published by pointer. Policies have numbers, the
 * default 0, which their names keep as long as the cache lives. An entry remembers in its tag the
 * number, and by which generation of rules it was found; when the rules have changed since, it is
 * matched again as it is asked for. So a hit matches nothing.
 * Threads: built by one, then constant. */
#pragma once

#include "cache/cache.h"
#include "cache/expiry.h"

/* A text with, perhaps, a * behind it. */
struct pattern {
    bool is_given, is_prefix;
    struct bytes text;
    /* As a key's part, when it is the last one and when it is not; not given: it cannot be one. */
    struct bytes number, parts[2], binaries[2];
};

/* What a policy says. */
struct policy_terms {
    struct cache_policy policy;
    size_t bytes_max;               /* of its entries; SIZE_MAX: any */
    uint32_t life_ms[EXPIRY_KINDS]; /* the age at which an entry goes */
};

struct rule {
    unsigned number; /* of its policy */
    struct pattern table, index, partition_key, sort_key;
    struct bytes attribute, value;
};

enum {
    RULE_GENERATIONS = 8, /* told apart; what was not asked for in so many changes is dropped */
    RULE_GENERATION_SHIFT = 6,
};
_Static_assert(1 << RULE_GENERATION_SHIFT == CACHE_POLICIES_MAX, "a tag has both");
_Static_assert(RULE_GENERATIONS << RULE_GENERATION_SHIFT == ENTRY_TAGS, "an entry has room for it");

struct rules {
    /* By number: the age at which an entry is no plain hit any more; 0: at once. */
    uint32_t due_ms[CACHE_POLICIES_MAX][EXPIRY_KINDS];
    uint64_t changes;    /* of what they match, so far */
    unsigned generation; /* the changes' last bits, shifted into their place in a tag */
    bool keeps_pages;    /* some policy does */
    uint8_t
        terms_of[CACHE_POLICIES_MAX]; /* by number: which; those without a rule: the default's */
    struct policy_terms *terms;       /* the default's, then each rule's */
    size_t rule_count;
    struct rule *rules;
};

static inline const struct policy_terms *rules_terms(const struct rules *rules, unsigned policy)
{
    return &rules->terms[rules->terms_of[policy]];
}

/* Bytes of a block for rules_build(). */
size_t rules_size(const struct cache_policies *policies);
/* block    rules_size() bytes, aligned as by malloc
 * memory   of the cache, bytes
 * numbers  of each rule's policy
 * before   the rules so far, or NULL; when others match since, the generation is the next */
struct rules *rules_build(void *block, size_t memory, const struct cache_policies *policies,
                          const unsigned *numbers, const struct rules *before);

/* What is to be matched: an item, or a page of a range. Borrowed. */
struct rule_subject {
    const struct table *table;
    const struct secondary_index *index; /* of a page, or NULL */
    struct bytes partition;              /* key bytes; of a page of a Scan empty */
    struct key_interval sorts;           /* of a page */
    struct bytes sort;                   /* of an item; of one without a sort key empty */
    bool is_page;
};

/* What a read asks for, without a body. */
struct rule_subject rule_subject_of(const struct request *request);

/* What can be said before the body is known, and kept until it is. */
struct rule_fit {
    uint64_t rules;   /* bit set: those that fit up to their attribute; the last may have none */
    uint64_t changes; /* of the rules; a request may wait while generations come round again */
};
struct rule_fit rules_fit(const struct rules *rules, const struct rule_subject *subject);
/* The tag of an entry; of other rules than those of `fit` one that has to be matched again.
 * body  not given: only rules without an attribute count */
unsigned rules_tag(const struct rules *rules, const struct rule_fit *fit, struct bytes body);
/* The same of an entry that is there, with its body; `arena`: if it has to be copied. */
unsigned rules_tag_entry(const struct rules *rules, const struct rule_fit *fit,
                         const struct memory *memory, const struct entry *entry,
                         struct arena *arena);
/* True if an attribute of the body decides. */
bool rules_want_body(const struct rules *rules, const struct rule_fit *fit);
/* False if no body could make it something that is kept. */
bool rules_may_keep(const struct rules *rules, const struct rule_fit *fit, enum entry_kind kind);

static inline unsigned tag_policy(unsigned tag)
{
    return tag & (CACHE_POLICIES_MAX - 1);
}

/* Whether its items or pages are kept at all. */
static inline bool policy_keeps(const struct cache_policy *policy, enum entry_kind kind)
{
    return policy->is_enabled &&
           (kind == ENTRY_PAGE ? policy->query_ttl_ms != 0 : !policy->is_without_items);
}

/* 0: no end. */
static inline uint32_t policy_ttl_ms(const struct cache_policy *policy, enum expiry_kind kind)
{
    if (kind == EXPIRY_PAGES)
        return policy->query_ttl_ms;
    if (kind == EXPIRY_ITEMS)
        return policy->item_ttl_ms;
    return policy->item_ttl_ms != 0 && policy->item_ttl_ms < policy->negative_ttl_max_ms
               ? policy->item_ttl_ms
               : policy->negative_ttl_max_ms;
}

/* The entry's policy, or CACHE_POLICIES_MAX or more if it must be matched again. */
static inline unsigned rules_number(const struct rules *rules, const struct entry *entry)
{
    return entry_tag(entry) ^ rules->generation;
}
/* The same whatever the generation. */
static inline unsigned entry_policy(const struct entry *entry)
{
    return tag_policy(entry_tag(entry));
}
