/* bench-trace: how often the cache misses on request traces, beside published policies.
 *
 * README.md says what is compared with what. */
#include "bench/trace/models.h"
#include "bench/trace/replay.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXIT_SKIPPED = 77,
    ENTRY_BYTES = 960,   /* equal sizes: key and value, unless that is too little in all */
    TOTAL_MIN = 4 << 20, /* of the budget: below, what is fixed would weigh too much */
    SIZED_TOTAL_MIN = 4 << 20,
    REPLAYS_MAX = 8, /* to find a budget */
    TOLERANCE = 400, /* a four-hundredth of the capacity */
    MODELS_MAX = 8,
};

enum mode { OBJECTS, BYTES, MEMORY };

struct options {
    const char *traces, *only, *tsv;
    enum cache_eviction eviction;
    bool with_models, is_by_mean;
    uint32_t entry_bytes;
    double mean_max, worst_max; /* percent and points; 0: no bound */
};

/* One point of a reference table, and what the cache made of it. */
struct outcome {
    const struct reference_point *point;
    struct replay_result result;
    size_t budget;
    double held; /* at its fullest, in the capacity's unit */
    double miss, model_miss[MODELS_MAX];
};

/* ---- one point ---- */

static uint64_t held(const struct replay_options *replay, const struct replay_result *result,
                     bool is_by_mean)
{
    if (is_by_mean)
        return (uint64_t)(replay->sizes == NULL ? result->entries_mean
                                                : result->payload_mean / replay->scale);
    return replay->sizes == NULL ? result->entries_max : result->payload_max / replay->scale;
}

/* Replays with budgets nearer and nearer to where the cache holds, at its fullest moment, as much
 * as the capacity says and no more. Leaves what came nearest from below. */
static bool find_budget(struct replay_options *replay, uint64_t capacity, bool is_by_mean,
                        struct replay_result *result)
{
    /* A little below, so that what comes out is not just above. */
    double wanted = (double)capacity * (1 - 0.5 / TOLERANCE);
    double budget = (double)capacity * replay->scale * 1.1 + (512 << 10);
    double low = CACHE_MEMORY_MIN, high = 1e18;
    uint64_t best = 0;
    size_t best_budget = 0;
    for (int i = 0; i < REPLAYS_MAX && (capacity - best) * TOLERANCE > capacity; i++) {
        struct replay_result now;
        replay->budget = budget < low ? (size_t)low : (size_t)budget;
        if (!replay_run(replay, &now))
            return false;
        uint64_t most = held(replay, &now, is_by_mean);
        if (most <= capacity && most >= best) {
            best = most;
            best_budget = replay->budget;
            *result = now;
        }
        *(most <= capacity ? &low : &high) = (double)replay->budget;
        double unit = replay->sizes == NULL ? now.entry_bytes / now.entries
                                            : now.entry_bytes / now.payload * replay->scale;
        budget = (double)replay->budget + (wanted - (double)most) * unit;
        if (budget <= low || budget >= high)
            budget = high < 1e18 ? (low + high) / 2 : low * 1.02;
    }
    replay->budget = best_budget;
    return best != 0;
}

/* Scales up what is small, so that a cache of the smallest size and more is filled by it. */
static uint32_t scale_for(uint64_t units, uint64_t least_total, uint32_t least)
{
    uint64_t scale = (least_total + units - 1) / units;
    return scale < least ? least : (uint32_t)scale;
}

static bool run_point(const struct options *options, enum mode mode, const struct trace *trace,
                      struct outcome *outcome)
{
    uint64_t capacity = outcome->point->capacity;
    struct replay_options replay = {.trace = trace, .eviction = options->eviction};
    bool is_ok;
    if (mode == MEMORY) {
        replay.sizes = trace->sizes;
        replay.scale = 1;
        replay.budget = capacity;
        is_ok = replay_run(&replay, &outcome->result);
    } else {
        replay.sizes = mode == BYTES ? trace->sizes : NULL;
        replay.scale = mode == BYTES ? scale_for(capacity, SIZED_TOTAL_MIN, 1)
                                     : scale_for(capacity, TOTAL_MIN, options->entry_bytes);
        is_ok = find_budget(&replay, capacity, options->is_by_mean, &outcome->result);
    }
    outcome->budget = replay.budget;
    outcome->held = (double)held(&replay, &outcome->result, options->is_by_mean);
    outcome->miss = (double)outcome->result.misses / (double)trace->count;
    for (size_t i = 0; options->with_models && i < model_count; i++)
        if (mode == BYTES || !models[i].is_for_bytes_only)
            outcome->model_miss[i] =
                (double)models[i].misses(trace, mode == BYTES ? trace->sizes : NULL, capacity) /
                (double)trace->count;
    return is_ok;
}

/* ---- all points ---- */

static bool is_wanted(const struct options *options, const char *trace)
{
    if (options->only == NULL)
        return true;
    size_t length = strlen(trace);
    for (const char *at = options->only; (at = strstr(at, trace)) != NULL; at++)
        if ((at == options->only || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

static void print_head(const struct reference *reference, FILE *tsv)
{
    (void)printf("%-13s %10s %6s", "trace", "capacity", "cache");
    for (size_t i = 0; i < reference->column_count; i++)
        (void)printf(" %7s", reference->columns[i]);
    (void)printf("  held/cap  evac  not-kept  B/item  tables\n");
    if (tsv == NULL)
        return;
    (void)fprintf(tsv, "trace\tcapacity\tmiss\tbudget\theld_entries\theld_bytes\tevacuations\t"
                       "not_kept\toverhead_per_item\ttables_per_item");
    for (size_t i = 0; i < model_count; i++)
        (void)fprintf(tsv, "\tmodel_%s", models[i].name);
    for (size_t i = 0; i < reference->column_count; i++)
        (void)fprintf(tsv, "\tref_%s", reference->columns[i]);
    (void)fprintf(tsv, "\n");
}

/* Index, ghosts and all that is not entries, by entry. */
static double tables(const struct replay_result *result)
{
    return result->entries == 0 ? 0 : (result->overhead + result->index) / result->entries;
}

/* Memory of an entry beyond key and value, at the end. */
static double overhead(const struct replay_result *result)
{
    return result->entries == 0 ? 0 : (result->used - result->payload) / result->entries;
}

static void print_point(const struct reference *reference, const struct outcome *outcome, FILE *tsv)
{
    const struct reference_point *point = outcome->point;
    const struct replay_result *result = &outcome->result;
    (void)printf("%-13s %10llu %6.2f", point->trace, (unsigned long long)point->capacity,
                 100 * outcome->miss);
    for (size_t i = 0; i < reference->column_count; i++)
        (void)printf(" %7.2f", 100 * point->miss[i]);
    (void)printf("  %8.4f %7.0f %8.0f %7.1f %7.1f\n", outcome->held / (double)point->capacity,
                 result->evacuations, result->not_kept, overhead(result), tables(result));
    (void)fflush(stdout);
    if (tsv == NULL)
        return;
    (void)fprintf(tsv, "%s\t%llu\t%.6f\t%zu\t%llu\t%llu\t%.0f\t%.0f\t%.1f\t%.1f", point->trace,
                  (unsigned long long)point->capacity, outcome->miss, outcome->budget,
                  (unsigned long long)result->entries_max, (unsigned long long)result->payload_max,
                  result->evacuations, result->not_kept, overhead(result), tables(result));
    for (size_t i = 0; i < model_count; i++)
        if (outcome->model_miss[i] != 0)
            (void)fprintf(tsv, "\t%.6f", outcome->model_miss[i]);
        else
            (void)fprintf(tsv, "\t");
    for (size_t i = 0; i < reference->column_count; i++)
        (void)fprintf(tsv, "\t%.6f", point->miss[i]);
    (void)fprintf(tsv, "\n");
    (void)fflush(tsv);
}

/* Sums over all points: of the cache, of each reference column, of each model. */
struct sums {
    size_t count;
    double miss, reference[REFERENCE_COLUMNS_MAX];
    double worst; /* points above the yardstick */
    char worst_at[TRACE_NAME_MAX + 32];
    double model_worst[MODELS_MAX]; /* distance from its own reference */
};

static void add_to_sums(struct sums *sums, const struct reference *reference, size_t yardstick,
                        const struct outcome *outcome)
{
    const struct reference_point *point = outcome->point;
    double above = outcome->miss - point->miss[yardstick];
    if (sums->count == 0 || above > sums->worst) {
        sums->worst = above;
        (void)snprintf(sums->worst_at, sizeof sums->worst_at, "%s %llu", point->trace,
                       (unsigned long long)point->capacity);
    }
    sums->count++;
    sums->miss += outcome->miss;
    for (size_t i = 0; i < reference->column_count; i++)
        sums->reference[i] += point->miss[i];
    for (size_t i = 0; i < model_count; i++) {
        size_t column = reference_column(reference, models[i].name);
        bool is_run = column != SIZE_MAX && outcome->model_miss[i] != 0;
        double distance = !is_run ? 0 : outcome->model_miss[i] - point->miss[column];
        distance = distance < 0 ? -distance : distance;
        if (distance > sums->model_worst[i])
            sums->model_worst[i] = distance;
    }
}

/* True if the bounds hold. */
static bool print_sums(const struct options *options, const struct reference *reference,
                       size_t yardstick, const struct sums *sums)
{
    double count = (double)sums->count, mean = 100 * sums->miss / count;
    (void)printf("%-13s %10zu %6.2f", "mean", sums->count, mean);
    for (size_t i = 0; i < reference->column_count; i++)
        (void)printf(" %7.2f", 100 * sums->reference[i] / count);
    (void)printf("\nworst distance from %s: %+.2f points, at %s\n", reference->columns[yardstick],
                 100 * sums->worst, sums->worst_at);
    for (size_t i = 0; options->with_models && i < model_count; i++)
        (void)printf("model of %s: at most %.3f points from its reference\n", models[i].name,
                     100 * sums->model_worst[i]);
    bool is_ok = (options->mean_max == 0 || mean <= options->mean_max) &&
                 (options->worst_max == 0 || 100 * sums->worst <= options->worst_max);
    if (!is_ok)
        (void)printf("a bound does not hold: mean %.2f, distance %.2f\n", options->mean_max,
                     options->worst_max);
    return is_ok;
}

static bool load(const struct options *options, struct trace *trace, const char *name)
{
    char path[512];
    if (strcmp(trace->name, name) == 0)
        return true;
    trace_free(trace);
    (void)snprintf(path, sizeof path, "%s/%s.txt.xz", options->traces, name);
    return trace_load(trace, path);
}

static int run(const struct options *options, enum mode mode)
{
    struct reference reference;
    struct trace trace = {0};
    char path[512];
    (void)snprintf(path, sizeof path, "%s/reference-%s.tsv", options->traces,
                   mode == OBJECTS ? "objects" : "bytes");
    if (!reference_load(&reference, path)) {
        (void)fprintf(stderr, "bench-trace: skipped, no %s (give the folder by --traces)\n", path);
        return EXIT_SKIPPED;
    }
    FILE *tsv = options->tsv == NULL ? NULL : fopen(options->tsv, "w");
    size_t yardstick = reference_column(&reference, mode == OBJECTS ? "s3fifo" : "gdsf");
    struct sums sums = {0};
    bool is_ok = yardstick != SIZE_MAX && (options->tsv == NULL || tsv != NULL);
    print_head(&reference, tsv);
    for (size_t i = 0; is_ok && i < reference.count; i++) {
        struct outcome outcome = {.point = &reference.points[i]};
        if (!is_wanted(options, outcome.point->trace) ||
            (mode == MEMORY && outcome.point->capacity < CACHE_MEMORY_MIN))
            continue;
        is_ok = load(options, &trace, outcome.point->trace) &&
                run_point(options, mode, &trace, &outcome);
        if (is_ok) {
            print_point(&reference, &outcome, tsv);
            add_to_sums(&sums, &reference, yardstick, &outcome);
        }
    }
    is_ok = is_ok && sums.count != 0 && print_sums(options, &reference, yardstick, &sums);
    if (tsv != NULL)
        is_ok = fclose(tsv) == 0 && is_ok;
    trace_free(&trace);
    reference_free(&reference);
    return is_ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void usage(FILE *out)
{
    (void)fprintf(out,
                  "usage: bench-trace [OPTION]... objects|bytes|memory\n"
                  "  --traces DIR       request traces and reference tables (../shared/traces)\n"
                  "  --only NAME,...    these traces only\n"
                  "  --eviction NAME    cas3 (default) or s3fifo\n"
                  "  --models           replay plain models of published policies, too\n"
                  "  --by-mean          the capacity is what is held on average since it was full, "
                  "not at most\n"
                  "  --entry-bytes N    objects: key and value of each (960)\n"
                  "  --tsv FILE         the report for machines\n"
                  "  --mean-max P       fail if the mean miss ratio is above P %%\n"
                  "  --worst-max P      fail if a point is more than P points above s3fifo's\n"
                  "                     (bytes: gdsf's) reference\n");
}

static bool read_option(struct options *options, int option)
{
    switch (option) {
    case 't':
        options->traces = optarg;
        return true;
    case 'o':
        options->only = optarg;
        return true;
    case 'e':
        options->eviction =
            strcmp(optarg, "s3fifo") == 0 ? CACHE_EVICTION_S3FIFO : CACHE_EVICTION_CAS3;
        return strcmp(optarg, "s3fifo") == 0 || strcmp(optarg, "cas3") == 0;
    case 'a':
        options->is_by_mean = true;
        return true;
    case 'm':
        options->with_models = true;
        return true;
    case 'b':
        options->entry_bytes = (uint32_t)strtoul(optarg, NULL, 10);
        return options->entry_bytes != 0;
    case 'f':
        options->tsv = optarg;
        return true;
    case 'M':
        options->mean_max = strtod(optarg, NULL);
        return true;
    case 'W':
        options->worst_max = strtod(optarg, NULL);
        return true;
    default:
        return false;
    }
}

int main(int argument_count, char **arguments)
{
    static const struct option names[] = {
        {"traces", required_argument, NULL, 't'},    {"only", required_argument, NULL, 'o'},
        {"eviction", required_argument, NULL, 'e'},  {"models", no_argument, NULL, 'm'},
        {"by-mean", no_argument, NULL, 'a'},         {"entry-bytes", required_argument, NULL, 'b'},
        {"tsv", required_argument, NULL, 'f'},       {"mean-max", required_argument, NULL, 'M'},
        {"worst-max", required_argument, NULL, 'W'}, {0}};
    struct options options = {.traces = "../shared/traces", .entry_bytes = ENTRY_BYTES};
    bool is_ok = true;
    for (int option;
         is_ok && (option = getopt_long(argument_count, arguments, "", names, NULL)) != -1;)
        is_ok = read_option(&options, option);
    const char *mode = optind + 1 == argument_count ? arguments[optind] : "";
    if (is_ok && strcmp(mode, "objects") == 0)
        return run(&options, OBJECTS);
    if (is_ok && strcmp(mode, "bytes") == 0)
        return run(&options, BYTES);
    if (is_ok && strcmp(mode, "memory") == 0)
        return run(&options, MEMORY);
    usage(stderr);
    return EXIT_FAILURE;
}
