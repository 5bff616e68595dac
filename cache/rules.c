#include "cache/rules.h"

#include "protocol/encoding/base64.h"
#include "protocol/encoding/msgpack.h"
#include "protocol/ensure.h"

/* ---- building ---- */

/* The texts' copies, behind the rules. */
struct shelf {
    uint8_t *at;
};

enum { RULE_PATTERNS = 4, BINARY_FORMS = 2, PART_FORMS = 2 };

/* Of all that a pattern needs. */
static size_t pattern_room(struct bytes text)
{
    size_t part = 2 * text.size + KEY_TERMINATOR;
    return text.size + NUMBER_ORDERED_MAX + (BINARY_FORMS + PART_FORMS) * part + text.size;
}

static size_t rule_room(const struct cache_rule *rule)
{
    return pattern_room(rule->table) + pattern_room(rule->index) +
           pattern_room(rule->partition_key) + pattern_room(rule->sort_key) + rule->attribute.size +
           rule->value.size;
}

size_t rules_size(const struct cache_policies *policies)
{
    size_t size = sizeof(struct rules) + sizeof(struct policy_terms) +
                  policies->rule_count * (sizeof(struct policy_terms) + sizeof(struct rule));
    for (size_t i = 0; i < policies->rule_count; i++)
        size += rule_room(&policies->rules[i]);
    return size;
}

static struct bytes copy(struct shelf *shelf, struct bytes text)
{
    if (!bytes_given(text))
        return BYTES_NONE;
    struct bytes out = bytes_of(shelf->at, text.size);
    if (text.size != 0)
        memcpy(shelf->at, text.data, text.size);
    shelf->at += text.size;
    return out;
}

static struct bytes part(struct shelf *shelf, enum value_type type, struct bytes contents,
                         bool is_last)
{
    uint8_t *begin = shelf->at;
    shelf->at = key_part_write(begin, type, contents, is_last);
    return bytes_of(begin, (size_t)(shelf->at - begin));
}

/* The exact text as a number and as base64, if it is any. */
static void forms(struct shelf *shelf, struct pattern *pattern)
{
    struct number number;
    struct error error;
    size_t size;
    if (number_parse(pattern->text, &number, &error) == STATUS_OK) {
        pattern->number = bytes_of(shelf->at, number_to_ordered(&number, shelf->at));
        shelf->at += pattern->number.size;
    }
    uint8_t *binary = shelf->at;
    bool is_binary = base64_decode(pattern->text, binary, &size);
    shelf->at += is_binary ? size : 0;
    for (int is_last = 0; is_last < PART_FORMS; is_last++) {
        pattern->parts[is_last] = part(shelf, VALUE_S, pattern->text, is_last);
        if (is_binary)
            pattern->binaries[is_last] = part(shelf, VALUE_B, bytes_of(binary, size), is_last);
    }
}

static struct pattern pattern_make(struct shelf *shelf, struct bytes text)
{
    struct pattern pattern = {.is_given = bytes_given(text)};
    if (!pattern.is_given)
        return pattern;
    pattern.is_prefix = text.size != 0 && text.data[text.size - 1] == '*';
    pattern.text = copy(shelf, bytes_of(text.data, text.size - pattern.is_prefix));
    if (!pattern.is_prefix)
        forms(shelf, &pattern);
    return pattern;
}

static struct rule rule_make(struct shelf *shelf, const struct cache_rule *rule, unsigned number)
{
    return (struct rule){
        .number = number,
        .table = pattern_make(shelf, rule->table),
        .index = pattern_make(shelf, rule->index),
        .partition_key = pattern_make(shelf, rule->partition_key),
        .sort_key = pattern_make(shelf, rule->sort_key),
        .attribute = copy(shelf, rule->attribute),
        .value = copy(shelf, rule->value),
    };
}

static bool patterns_equal(const struct pattern *a, const struct pattern *b)
{
    return a->is_given == b->is_given && a->is_prefix == b->is_prefix &&
           bytes_equal(a->text, b->text);
}

static bool rules_match_alike(const struct rules *a, const struct rules *b)
{
    bool is_equal = a->rule_count == b->rule_count;
    for (size_t i = 0; is_equal && i < a->rule_count; i++) {
        const struct rule *left = &a->rules[i], *right = &b->rules[i];
        is_equal = left->number == right->number && patterns_equal(&left->table, &right->table) &&
                   patterns_equal(&left->index, &right->index) &&
                   patterns_equal(&left->partition_key, &right->partition_key) &&
                   patterns_equal(&left->sort_key, &right->sort_key) &&
                   bytes_given(left->attribute) == bytes_given(right->attribute) &&
                   bytes_equal(left->attribute, right->attribute) &&
                   bytes_equal(left->value, right->value);
    }
    return is_equal;
}

static uint32_t at_most_age_max(uint64_t ms)
{
    return ms > AGE_MAX_MS ? (uint32_t)AGE_MAX_MS : (uint32_t)ms;
}

/* Its TTL, or what of it goes by before it is fetched again. */
static uint32_t due_ms(const struct cache_policy *policy, enum expiry_kind kind)
{
    uint64_t ttl_ms = policy_ttl_ms(policy, kind);
    if (!policy_keeps(policy, expiry_entry_kind(kind)) || policy->is_shadow)
        return 0;
    if (ttl_ms != 0 && policy->refresh_percent != 0)
        ttl_ms = (ttl_ms * policy->refresh_percent + 99) / 100;
    return at_most_age_max(ttl_ms == 0 ? AGE_MAX_MS : ttl_ms);
}

static uint32_t life_ms(const struct cache_policy *policy, enum expiry_kind kind)
{
    uint64_t ttl_ms = policy_ttl_ms(policy, kind);
    uint32_t grace_ms = policy->stale_while_refetch_ms > policy->stale_if_error_ms
                            ? policy->stale_while_refetch_ms
                            : policy->stale_if_error_ms;
    if (!policy_keeps(policy, expiry_entry_kind(kind)))
        return 0;
    return at_most_age_max(ttl_ms == 0 ? AGE_MAX_MS : ttl_ms + grace_ms);
}

/* The default has no cap: it is what all others leave. */
static size_t bytes_max(const struct cache_policy *policy, size_t memory)
{
    size_t most = policy->bytes_max == 0 ? SIZE_MAX : policy->bytes_max;
    size_t share = memory / 100 * policy->percent_max;
    return policy->percent_max != 0 && share < most ? share : most;
}

static struct policy_terms terms_make(const struct cache_policy *policy, size_t bytes)
{
    struct policy_terms terms = {.policy = *policy, .bytes_max = bytes};
    for (unsigned kind = 0; kind < EXPIRY_KINDS; kind++)
        terms.life_ms[kind] = life_ms(policy, (enum expiry_kind)kind);
    return terms;
}

static void set_due(struct rules *rules, unsigned number, const struct cache_policy *policy)
{
    ensure(number < CACHE_POLICIES_MAX);
    for (unsigned kind = 0; kind < EXPIRY_KINDS; kind++)
        rules->due_ms[number][kind] = due_ms(policy, (enum expiry_kind)kind);
    rules->keeps_pages = rules->keeps_pages || policy_keeps(policy, ENTRY_PAGE);
}

static unsigned generation_after(uint64_t changes)
{
    return (unsigned)(changes % RULE_GENERATIONS) << RULE_GENERATION_SHIFT;
}

struct rules *rules_build(void *block, size_t memory, const struct cache_policies *policies,
                          const unsigned *numbers, const struct rules *before)
{
    struct rules *rules = block;
    *rules = (struct rules){.rule_count = policies->rule_count};
    rules->terms = (struct policy_terms *)(void *)(rules + 1);
    rules->rules = (struct rule *)(void *)(rules->terms + 1 + rules->rule_count);
    struct shelf shelf = {(uint8_t *)(rules->rules + rules->rule_count)};
    rules->terms[0] = terms_make(&policies->fallback, SIZE_MAX);
    for (unsigned i = 0; i < CACHE_POLICIES_MAX; i++)
        set_due(rules, i, &policies->fallback);
    for (size_t i = 0; i < policies->rule_count; i++) {
        const struct cache_rule *rule = &policies->rules[i];
        rules->rules[i] = rule_make(&shelf, rule, numbers[i]);
        rules->terms_of[numbers[i]] = (uint8_t)(1 + i);
        rules->terms[1 + i] = terms_make(&rule->policy, bytes_max(&rule->policy, memory));
        set_due(rules, numbers[i], &rule->policy);
    }
    ensure((size_t)(shelf.at - (uint8_t *)block) <= rules_size(policies));
    if (before != NULL)
        rules->changes = before->changes + !rules_match_alike(rules, before);
    rules->generation = generation_after(rules->changes);
    return rules;
}

/* ---- matching ---- */

static bool begins_with(struct bytes bytes, struct bytes prefix)
{
    return bytes.size >= prefix.size && bytes_equal(bytes_of(bytes.data, prefix.size), prefix);
}

static bool text_fits(const struct pattern *pattern, struct bytes text)
{
    if (!pattern->is_given)
        return true;
    return pattern->is_prefix ? begins_with(text, pattern->text) : bytes_equal(text, pattern->text);
}

/* What a key's part must be, or begin with. Not given: it cannot fit. No text holds a zero byte,
 * so what begins with it does so as a key's part, too. */
static struct bytes wanted(const struct pattern *pattern, enum value_type type, bool is_last)
{
    if (pattern->is_prefix)
        return type == VALUE_S ? pattern->text : BYTES_NONE;
    return type == VALUE_S   ? pattern->parts[is_last]
           : type == VALUE_N ? pattern->number
                             : pattern->binaries[is_last];
}

static bool part_fits(const struct pattern *pattern, const struct key_schema *schema, bool is_sort,
                      struct bytes bytes)
{
    if (!pattern->is_given)
        return true;
    enum value_type type = is_sort ? schema->sort.type : schema->partition.type;
    struct bytes want = wanted(pattern, type, key_schema_is_last(schema, is_sort));
    if (!bytes_given(want))
        return false;
    /* An index's range goes on behind its sort key. */
    bool is_open = pattern->is_prefix || (is_sort && schema->is_followed);
    return is_open ? begins_with(bytes, want) : bytes_equal(bytes, want);
}

/* Whether what begins with `prefix` has ended at `high`, or goes on there: the first that does not
 * begin so any more has the prefix's last byte that is not FF one higher, and nothing behind. */
static bool is_within(struct bytes prefix, struct bytes high)
{
    size_t last = prefix.size;
    while (last > 0 && prefix.data[last - 1] == 0xFF)
        last--;
    return begins_with(high, prefix) ||
           (last > 0 && high.size == last &&
            bytes_equal(bytes_of(high.data, last - 1), bytes_of(prefix.data, last - 1)) &&
            high.data[last - 1] == prefix.data[last - 1] + 1);
}

static bool is_just_behind(struct bytes bytes, struct bytes high)
{
    return high.size == bytes.size + 1 && begins_with(high, bytes) && high.data[bytes.size] == 0;
}

/* Whether all of an interval of sort keys fits. */
static bool sorts_fit(const struct pattern *pattern, const struct key_schema *schema,
                      const struct key_interval *sorts)
{
    if (!pattern->is_given)
        return true;
    bool is_open = pattern->is_prefix || schema->is_followed;
    struct bytes want = wanted(pattern, schema->sort.type, key_schema_is_last(schema, true));
    if (!bytes_given(want) || !begins_with(sorts->low, want))
        return false;
    if (!bytes_given(sorts->high))
        return is_open && want.size == 0;
    return is_open ? is_within(want, sorts->high) : is_just_behind(want, sorts->high);
}

static bool attribute_fits(const struct rule *rule, struct bytes body)
{
    struct bytes value, text;
    if (!bytes_given(rule->attribute))
        return true;
    if (!bytes_given(body) || !item_find(body, rule->attribute, &value))
        return false;
    struct msgpack_cursor cursor = msgpack_cursor_of(value);
    return msgpack_read_str(&cursor, &text) && bytes_equal(text, rule->value);
}

static bool keys_fit(const struct rule *rule, const struct rule_subject *subject)
{
    const struct key_schema *schema =
        subject->index != NULL ? &subject->index->key : &subject->table->key;
    if (!rule->partition_key.is_given && !rule->sort_key.is_given)
        return true;
    /* Keys without an index are the table's own; what goes over the whole has none. */
    if ((subject->index != NULL && !rule->index.is_given) || subject->partition.size == 0 ||
        (rule->sort_key.is_given && !key_schema_has_sort(schema)))
        return false;
    return part_fits(&rule->partition_key, schema, false, subject->partition) &&
           (subject->is_page ? sorts_fit(&rule->sort_key, schema, &subject->sorts)
                             : part_fits(&rule->sort_key, schema, true, subject->sort));
}

static bool rule_fits(const struct rule *rule, const struct rule_subject *subject)
{
    if (!text_fits(&rule->table, subject->table->name))
        return false;
    if (rule->index.is_given &&
        (subject->index == NULL || !text_fits(&rule->index, subject->index->name)))
        return false;
    return keys_fit(rule, subject) && !(subject->is_page && bytes_given(rule->attribute));
}

struct rule_fit rules_fit(const struct rules *rules, const struct rule_subject *subject)
{
    struct rule_fit fit = {.changes = rules->changes};
    for (size_t i = 0; i < rules->rule_count; i++) {
        if (!rule_fits(&rules->rules[i], subject))
            continue;
        fit.rules |= UINT64_C(1) << i;
        if (!bytes_given(rules->rules[i].attribute))
            break;
    }
    return fit;
}

unsigned rules_tag(const struct rules *rules, const struct rule_fit *fit, struct bytes body)
{
    if (fit->changes != rules->changes)
        return generation_after(rules->changes - 1);
    for (uint64_t left = fit->rules; left != 0; left &= left - 1) {
        const struct rule *rule = &rules->rules[__builtin_ctzll(left)];
        if (attribute_fits(rule, body))
            return rules->generation | rule->number;
    }
    return rules->generation;
}

unsigned rules_tag_entry(const struct rules *rules, const struct rule_fit *fit,
                         const struct memory *memory, const struct entry *entry,
                         struct arena *arena)
{
    bool has_item = entry_kind(entry) == ENTRY_ITEM && !(entry_flags(entry) & SLOT_NEGATIVE);
    return rules_tag(rules, fit, has_item ? entry_body(memory, entry, arena) : BYTES_NONE);
}

bool rules_want_body(const struct rules *rules, const struct rule_fit *fit)
{
    return fit->rules != 0 && bytes_given(rules->rules[__builtin_ctzll(fit->rules)].attribute);
}

bool rules_may_keep(const struct rules *rules, const struct rule_fit *fit, enum entry_kind kind)
{
    for (uint64_t left = fit->rules; left != 0; left &= left - 1) {
        const struct rule *rule = &rules->rules[__builtin_ctzll(left)];
        bool is_kept = policy_keeps(&rules_terms(rules, rule->number)->policy, kind);
        if (is_kept || !bytes_given(rule->attribute))
            return is_kept;
    }
    return policy_keeps(&rules->terms[0].policy, kind);
}

struct rule_subject rule_subject_of(const struct request *request)
{
    bool is_page = request->operation != OPERATION_GET_ITEM;
    struct rule_subject subject = {.table = request->table, .is_page = is_page};
    if (is_page) {
        subject.index = request->index;
        subject.partition = request->range.partition;
        subject.sorts = request->range.interval;
    } else {
        subject.partition = item_key_partition(request->item_key);
        subject.sort = item_key_sort(request->item_key);
    }
    return subject;
}
