#include "cache/report.h"

#include "protocol/encoding/json.h"
#include "protocol/encoding/msgpack.h"

#include <stdio.h>
#include <stdlib.h>

void counters_add(struct counters *to, const struct counters *from)
{
#define COUNTER(field, name, labels, help)                                                         \
    count(&to->field,                                                                              \
          atomic_load_explicit((atomic_uint_fast64_t *)&from->field, memory_order_relaxed));
#include "cache/counters.def"
#undef COUNTER
}

struct output {
    report_fn report;
    void *arg;
};

static void say(const struct output *output, const char *name, const char *type, const char *help,
                const char *labels, double value)
{
    struct metric metric = {.name = name, .type = type, .help = help};
    output->report(output->arg, &metric, labels, value);
}

static void sum_lanes(struct cache *cache, struct counters *sum)
{
    *sum = (struct counters){0};
    mutex_lock(&cache->lanes_lock);
    counters_add(sum, &cache->past);
    for (const struct cache_lane *lane = cache->lanes; lane != NULL; lane = lane->next)
        counters_add(sum, &lane->counters);
    mutex_unlock(&cache->lanes_lock);
}

static void report_lanes(struct cache *cache, const struct output *output)
{
    struct counters sum;
    sum_lanes(cache, &sum);
#define COUNTER(field, name, labels, help)                                                         \
    say(output, name, "counter", help, labels, (double)sum.field);
#include "cache/counters.def"
#undef COUNTER
}

static void report_reasons(const struct miss_row *row, const char *name,
                           const struct output *output)
{
    static const char *const kinds[ENTRY_KINDS] = {"item", "query"};
    char labels[TABLE_NAME_MAX + 100];
    for (unsigned kind = 0; kind < ENTRY_KINDS; kind++) {
        for (unsigned reason = 0; reason < MISS_REASONS; reason++) {
            if (row->counts[kind][reason] == 0)
                continue;
            (void)snprintf(labels, sizeof labels, "table=\"%s\",kind=\"%s\",reason=\"%s\"", name,
                           kinds[kind], miss_reason_name(reason));
            say(output, "cache_miss_reasons_total", "counter",
                "Requests that went to the store: why, or what became of the entry.", labels,
                (double)row->counts[kind][reason]);
        }
    }
}

static void report_misses(struct cache *cache, const struct output *output)
{
    struct miss_row *sums = calloc(MISS_TABLES + 1, sizeof *sums);
    if (sums == NULL)
        return;
    mutex_lock(&cache->lanes_lock);
    for (const struct cache_lane *lane = cache->closed; lane != NULL; lane = lane->next)
        misses_sum(&lane->misses, sums);
    for (const struct cache_lane *lane = cache->lanes; lane != NULL; lane = lane->next)
        misses_sum(&lane->misses, sums);
    mutex_unlock(&cache->lanes_lock);
    for (int i = 0; i < MISS_TABLES && sums[i].name[0] != '\0'; i++)
        report_reasons(&sums[i], sums[i].name, output);
    report_reasons(&sums[MISS_TABLES], "(other tables)", output);
    free(sums);
}

/* ---- policies ---- */

/* What a policy has come to, over all lanes and shards. */
struct policy_sum {
    struct tally tally;
    uint64_t entries, bytes, removed[SHARE_REASONS];
};

static void sum_tallies(struct cache *cache, unsigned policy, struct tally *sum)
{
    mutex_lock(&cache->lanes_lock);
    for (const struct cache_lane *lane = cache->closed; lane != NULL; lane = lane->next)
        tallies_sum(&lane->tallies, policy, sum);
    for (const struct cache_lane *lane = cache->lanes; lane != NULL; lane = lane->next)
        tallies_sum(&lane->tallies, policy, sum);
    mutex_unlock(&cache->lanes_lock);
}

static void sum_shares(struct cache *cache, struct policy_sum *sums, unsigned policies)
{
    for (uint32_t i = 0; i < cache->shard_count; i++) {
        struct shard *shard = &cache->shards[i];
        mutex_lock(&shard->lock);
        for (unsigned policy = 0; policy < policies && policy < shard->share_count; policy++) {
            const struct share *share = &shard->shares[policy];
            sums[policy].entries += share->entries;
            sums[policy].bytes += share->bytes;
            for (unsigned reason = 0; reason < SHARE_REASONS; reason++)
                sums[policy].removed[reason] += share->removed[reason];
        }
        mutex_unlock(&shard->lock);
    }
}

/* The default's hits are those of nobody else. */
static void find_default(struct cache *cache, struct policy_sum *sums, unsigned policies)
{
    struct counters all;
    struct tally *rest = &sums[0].tally;
    sum_lanes(cache, &all);
    rest->hits[ENTRY_ITEM - 1] = all.item_hits;
    rest->hits[ENTRY_PAGE - 1] = all.page_hits;
    rest->half_units_saved = all.half_units_saved;
    for (unsigned policy = 1; policy < policies; policy++) {
        struct tally *other = &sums[policy].tally;
        rest->half_units_saved -= other->half_units_saved;
        for (unsigned kind = 0; kind < ENTRY_KINDS; kind++)
            rest->hits[kind] -= other->hits[kind];
    }
}

static const char *const kind_names[ENTRY_KINDS] = {"item", "query"};

typedef void (*policy_report_fn)(const struct policy_sum *sum, const char *name,
                                 const struct output *output);

static void report_policy_hits(const struct policy_sum *sum, const char *name,
                               const struct output *output)
{
    char labels[CACHE_POLICY_NAME_MAX + 40];
    for (unsigned kind = 0; kind < ENTRY_KINDS; kind++) {
        (void)snprintf(labels, sizeof labels, "policy=\"%s\",kind=\"%s\"", name, kind_names[kind]);
        say(output, "cache_policy_hits_total", "counter",
            "Requests answered from the cache, by policy.", labels, (double)sum->tally.hits[kind]);
    }
}

static void report_policy_misses(const struct policy_sum *sum, const char *name,
                                 const struct output *output)
{
    char labels[CACHE_POLICY_NAME_MAX + 100];
    for (unsigned i = 0; i < ENTRY_KINDS * MISS_REASONS; i++) {
        unsigned kind = i / MISS_REASONS, reason = i % MISS_REASONS;
        if (sum->tally.misses[kind][reason] == 0)
            continue;
        (void)snprintf(labels, sizeof labels, "policy=\"%s\",kind=\"%s\",reason=\"%s\"", name,
                       kind_names[kind], miss_reason_name(reason));
        say(output, "cache_policy_miss_reasons_total", "counter",
            "Requests that went to the store, by policy: why, or what became of the entry.", labels,
            (double)sum->tally.misses[kind][reason]);
    }
}

static void report_policy_stale(const struct policy_sum *sum, const char *name,
                                const struct output *output)
{
    char labels[CACHE_POLICY_NAME_MAX + 40];
    for (int is_excuse = 0; is_excuse <= 1; is_excuse++) {
        (void)snprintf(labels, sizeof labels, "policy=\"%s\",why=\"%s\"", name,
                       is_excuse ? "error" : "refetching");
        say(output, "cache_policy_stale_total", "counter",
            "Requests answered with what was past its TTL, by policy.", labels,
            (double)(is_excuse ? sum->tally.stale_excuses : sum->tally.stale_hits));
    }
}

/* Of those that have a shadow only. */
static void report_policy_shadow(const struct policy_sum *sum, const char *name,
                                 const struct output *output)
{
    char labels[CACHE_POLICY_NAME_MAX + 40];
    for (int is_same = 0; is_same <= 1; is_same++) {
        uint64_t value = is_same ? sum->tally.shadow_same : sum->tally.shadow_unlike;
        if (sum->tally.shadow_same + sum->tally.shadow_unlike == 0)
            return;
        (void)snprintf(labels, sizeof labels, "policy=\"%s\",answer=\"%s\"", name,
                       is_same ? "same" : "differs");
        say(output, "cache_policy_shadow_total", "counter",
            "Answers of the store, beside what the cache would have shown, by policy.", labels,
            (double)value);
    }
}

static void report_policy_saved(const struct policy_sum *sum, const char *name,
                                const struct output *output)
{
    char labels[CACHE_POLICY_NAME_MAX + 20];
    (void)snprintf(labels, sizeof labels, "policy=\"%s\"", name);
    say(output, "cache_policy_half_read_units_saved_total", "counter",
        "Eventually consistent reads of 4 KiB that hits spared the store, by policy.", labels,
        (double)sum->tally.half_units_saved);
}

static void report_policy_entries(const struct policy_sum *sum, const char *name,
                                  const struct output *output)
{
    char labels[CACHE_POLICY_NAME_MAX + 20];
    (void)snprintf(labels, sizeof labels, "policy=\"%s\"", name);
    say(output, "cache_policy_entries", "gauge", "Entries in the cache, by policy.", labels,
        (double)sum->entries);
}

static void report_policy_bytes(const struct policy_sum *sum, const char *name,
                                const struct output *output)
{
    char labels[CACHE_POLICY_NAME_MAX + 20];
    (void)snprintf(labels, sizeof labels, "policy=\"%s\"", name);
    say(output, "cache_policy_entry_bytes", "gauge",
        "Memory of entries, rounding included, by policy.", labels, (double)sum->bytes);
}

static void report_policy_removed(const struct policy_sum *sum, const char *name,
                                  const struct output *output)
{
    static const char *const reasons[SHARE_REASONS] = {"evicted", "expired", "written", "purged"};
    char labels[CACHE_POLICY_NAME_MAX + 40];
    for (unsigned reason = 0; reason < SHARE_REASONS; reason++) {
        (void)snprintf(labels, sizeof labels, "policy=\"%s\",why=\"%s\"", name, reasons[reason]);
        say(output, "cache_policy_removed_total", "counter",
            "Entries evicted, expired, invalidated by a write, purged, by policy.", labels,
            (double)sum->removed[reason]);
    }
}

/* Metric by metric, as Prometheus wants it. */
static void report_policies(struct cache *cache, const struct output *output)
{
    static const policy_report_fn reports[] = {
        report_policy_hits,  report_policy_misses,  report_policy_stale, report_policy_shadow,
        report_policy_saved, report_policy_entries, report_policy_bytes, report_policy_removed,
    };
    unsigned policies = cache_policy_count(cache);
    struct policy_sum *sums = calloc(policies, sizeof *sums);
    if (sums == NULL)
        return;
    sum_shares(cache, sums, policies);
    for (unsigned policy = 0; policy < policies; policy++)
        sum_tallies(cache, policy, &sums[policy].tally);
    find_default(cache, sums, policies);
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++)
        for (unsigned policy = 0; policy < policies; policy++)
            reports[i](&sums[policy], cache->policy_names[policy], output);
    free(sums);
}

/* ---- hot keys ---- */

enum { HOT_LINES_MAX = 2 * HOT_TABLES * HOT_KEYS, HOT_TEXT_MAX = 200 };

/* As a label: escaped, and cut where it is long. */
static void escape(struct bytes text, char out[HOT_TEXT_MAX + 8])
{
    size_t size = 0, at = 0;
    while (at < text.size && size < HOT_TEXT_MAX) {
        char byte = (char)text.data[at++];
        if (byte == '"' || byte == '\\')
            out[size++] = '\\';
        out[size++] = byte;
    }
    bool is_cut = at < text.size;
    while (is_cut && size > 0 && ((unsigned char)out[size - 1] & 0x80) != 0)
        size--; /* no part of a character */
    (void)snprintf(out + size, 4, "%s", is_cut ? "..." : "");
}

static void hot_text(const struct hot_line *line, char out[HOT_TEXT_MAX + 8])
{
    struct buffer json = {0};
    struct msgpack_cursor cursor = msgpack_cursor_of(bytes_of(line->key.bytes, line->key.size));
    if (line->key.size != 0 && json_from_plain_bytes(&cursor, &json))
        escape(buffer_bytes(&json), out);
    else
        (void)snprintf(out, HOT_TEXT_MAX, "(#%08x)", line->hash);
    buffer_deinit(&json);
}

static int by_rate(const void *a, const void *b)
{
    double left = ((const struct hot_line *)a)->requests;
    double right = ((const struct hot_line *)b)->requests;
    return (left < right) - (left > right);
}

/* The most asked for of each table and kind; of several with one text the first. */
static bool is_shown(const struct hot_line *lines, size_t at, const char *text)
{
    char other[HOT_TEXT_MAX + 8];
    int before = 0;
    for (size_t i = 0; i < at && before < HOT_SHOWN; i++) {
        if (lines[i].key.kind != lines[at].key.kind || strcmp(lines[i].name, lines[at].name) != 0)
            continue;
        hot_text(&lines[i], other);
        if (strcmp(other, text) == 0)
            return false;
        before++;
    }
    return before < HOT_SHOWN;
}

static void report_line(const struct hot_line *line, const char *text, const struct output *output)
{
    char labels[TABLE_NAME_MAX + HOT_TEXT_MAX + 60];
    (void)snprintf(labels, sizeof labels, "table=\"%s\",kind=\"%s\",key=\"%s\"", line->name,
                   line->key.kind == ENTRY_ITEM ? "item" : "query", text);
    say(output, "cache_hot_key_requests_per_second", "gauge",
        "The keys that are asked for most, at least so often; a Query by its values.", labels,
        line->requests);
    say(output, "cache_hot_key_hits_per_second", "gauge",
        "How often of that the cache had the answer.", labels, line->hits);
}

static void report_hot(struct cache *cache, const struct output *output)
{
    struct hot_line *lines = calloc(HOT_LINES_MAX, sizeof *lines);
    uint64_t now_us = atomic_load_explicit(&cache->house_now_us, memory_order_relaxed);
    size_t count = 0;
    if (lines == NULL)
        return;
    mutex_lock(&cache->lanes_lock);
    for (struct cache_lane *lane = cache->lanes; lane != NULL; lane = lane->next) {
        hot_count(&lane->hot, &cache->memory);
        count = hot_merge(&lane->hot, now_us, lines, count, HOT_LINES_MAX);
    }
    mutex_unlock(&cache->lanes_lock);
    qsort(lines, count, sizeof *lines, by_rate);
    for (size_t i = 0; i < count; i++) {
        char text[HOT_TEXT_MAX + 8];
        hot_text(&lines[i], text);
        if (is_shown(lines, i, text))
            report_line(&lines[i], text, output);
    }
    free(lines);
}

struct shard_sums {
    uint64_t removed[SHARD_REASONS][ENTRY_KINDS];
    uint64_t evicted[POLICY_CLASSES];
    size_t entries, payload_bytes, nodes, index_bytes;
};

static void sum_shards(struct cache *cache, struct shard_sums *sums)
{
    for (uint32_t i = 0; i < cache->shard_count; i++) {
        struct shard *shard = &cache->shards[i];
        mutex_lock(&shard->lock);
        for (int reason = 0; reason < SHARD_REASONS; reason++)
            for (int kind = 0; kind < ENTRY_KINDS; kind++)
                sums->removed[reason][kind] += shard->removed[reason][kind];
        for (int class = 0; class < POLICY_CLASSES; class ++)
            sums->evicted[class] += shard->policy->bytes.evicted[class];
        sums->entries += index_count(&cache->index, i);
        sums->index_bytes += index_bytes(&cache->index, i);
        sums->payload_bytes += shard->payload_bytes;
        sums->nodes += shard->nodes.count;
        mutex_unlock(&shard->lock);
    }
}

static void report_shards(struct cache *cache, const struct output *output)
{
    static const char *const kinds[ENTRY_KINDS] = {"kind=\"item\"", "kind=\"query\""};
    struct shard_sums sums = {0};
    char label[64];
    sum_shards(cache, &sums);
    for (unsigned class = 0; class < POLICY_CLASSES; class ++) {
        if (sums.evicted[class] == 0)
            continue;
        unsigned octave = (unsigned)SLOT_MIN << class / 2;
        unsigned from = octave + class % 2 * octave / 2;
        (void)snprintf(label, sizeof label, "bytes_from=\"%u\"", from);
        say(output, "cache_evictions_total", "counter", "Entries evicted for lack of memory.",
            label, (double)sums.evicted[class]);
    }
    for (int kind = 0; kind < ENTRY_KINDS; kind++) {
        say(output, "cache_expirations_total", "counter",
            "Entries removed at the end of their TTL.", kinds[kind],
            (double)sums.removed[SHARD_EXPIRED][kind]);
        say(output, "cache_purged_total", "counter", "Entries removed by a purge.", kinds[kind],
            (double)sums.removed[SHARD_PURGED][kind]);
        say(output, "cache_entry_bytes", "gauge", "Memory of entries, rounding included.",
            kinds[kind], (double)memory_figure(&cache->totals.kind_bytes[kind]));
    }
    say(output, "cache_payload_bytes", "gauge", "Keys and values of entries, nothing else.", "",
        (double)sums.payload_bytes);
    say(output, "cache_negative_bytes", "gauge", "Memory of entries for absent items.", "",
        (double)memory_figure(&cache->totals.negative_bytes));
    say(output, "cache_entries", "gauge", "Entries in the cache.", "", (double)sums.entries);
    say(output, "cache_index_bytes", "gauge", "Memory of indexes, in the runs.", "",
        (double)sums.index_bytes);
    say(output, "cache_partition_nodes", "gauge", "Partitions with cached query results.", "",
        (double)sums.nodes);
}

static void report_memory(struct cache *cache, const struct output *output)
{
    struct memory *memory = &cache->memory;
    char label[64];
    for (unsigned i = 0; i < memory->class_count; i++) {
        mutex_lock(&memory->lock);
        struct memory_class class = memory->classes[i];
        mutex_unlock(&memory->lock);
        if (class.runs == 0)
            continue;
        (void)snprintf(label, sizeof label, "slot_bytes=\"%u\"", class.slot_size);
        say(output, "cache_class_bytes", "gauge", "Memory of runs, by size class.", label,
            (double)class.runs * (double)memory->run_size);
        say(output, "cache_class_live_bytes", "gauge", "Memory of slots in use, by size class.",
            label, (double)class.live * class.slot_size);
    }
    say(output, "cache_budget_bytes", "gauge", "What the cache may take.", "",
        (double)memory->budget);
    say(output, "cache_used_bytes", "gauge", "What it has taken: runs and everything else.", "",
        (double)memory_figure(&memory->used));
    say(output, "cache_overhead_bytes", "gauge",
        "The part that is not in runs: ghosts, stripes, nodes, flights.", "",
        (double)memory_figure(&memory->heap));
    say(output, "cache_deferred_bytes", "gauge", "Retired memory that readers may still see.", "",
        (double)memory_figure(&memory->deferred));
}

void cache_report(struct backend *backend, report_fn report, void *arg)
{
    struct cache *cache = (struct cache *)backend;
    struct output output = {report, arg};
    report_lanes(cache, &output);
    report_misses(cache, &output);
    report_policies(cache, &output);
    report_hot(cache, &output);
    report_shards(cache, &output);
    report_memory(cache, &output);
    say(&output, "cache_epoch_lag_seconds", "gauge",
        "How long retired memory has waited for readers.", "",
        (double)atomic_load_explicit(&cache->epoch_lag_us, memory_order_relaxed) / 1e6);
    say(&output, "cache_evacuations_total", "counter",
        "Runs of memory emptied so that another size class can have them.", "",
        (double)atomic_load_explicit(&cache->evacuations, memory_order_relaxed));
    cache->below->ops->report(cache->below, report, arg);
}
