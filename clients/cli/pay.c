#include "clients/cli/pay.h"

#include "clients/cli/figures.h"
#include "clients/cli/heat.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POLICIES_MAX = 64 };

/* What a policy has come to, as Stats tells it. */
struct account {
    char name[LABEL_MAX];
    double hits, misses, half_units, bytes;
};

struct accounts {
    struct account of[POLICIES_MAX];
    size_t count;
    double unit_price, hour_price; /* of a read unit; of an hour of the whole cache */
};

/* What follows for an hour at the present rate. */
struct verdict {
    double requests, hit_share, units; /* a second; 0..1; an hour */
    double saved, cost;                /* an hour */
    double pays_from;                  /* requests a second; below 0: at no rate */
    const char *text;
};

/* ---- reading ---- */

static struct account *account_of(struct accounts *accounts, const char *name)
{
    for (size_t i = 0; i < accounts->count; i++)
        if (strcmp(accounts->of[i].name, name) == 0)
            return &accounts->of[i];
    if (accounts->count == POLICIES_MAX)
        return NULL;
    struct account *account = &accounts->of[accounts->count++];
    memcpy(account->name, name, strlen(name) + 1);
    return account;
}

/* A ConsistentRead must ask the store, cache or not. */
static bool could_hit(const char *labels, size_t size)
{
    char reason[LABEL_MAX];
    figure_label(labels, size, "reason", reason);
    return strcmp(reason, "consistent_read") != 0;
}

static void read_figure(struct accounts *accounts, const char *name, size_t size, double number)
{
    static const char *const names[] = {
        "cache_policy_hits_total{", "cache_policy_miss_reasons_total{",
        "cache_policy_half_read_units_saved_total{", "cache_policy_entry_bytes{"};
    char policy[LABEL_MAX];
    size_t rest, which = 0;
    const char *labels = NULL;
    while (which < 4 && (labels = figure_labels(name, size, names[which], &rest)) == NULL)
        which++;
    if (labels == NULL)
        return;
    figure_label(labels, rest, "policy", policy);
    struct account *account = account_of(accounts, policy);
    if (account == NULL || (which == 1 && !could_hit(labels, rest)))
        return;
    double *const counts[] = {&account->hits, &account->misses, &account->half_units,
                              &account->bytes};
    *counts[which] += number;
}

static int read_accounts(struct mudax *db, struct accounts *out)
{
    static const struct mudax_request stats = {.operation = MUDAX_STATS};
    struct mudax_reply *reply;
    struct mudax_error error;
    *out = (struct accounts){.count = 0};
    if (mudax_call(db, &stats, &reply, &error) != MUDAX_OK)
        return report_error(&error, "Stats");
    const struct mudax_value *figures = mudax_reply_description(reply);
    for (size_t i = 0; i < mudax_count(figures); i++) {
        size_t size;
        const char *name = mudax_name_at(figures, i, &size);
        if (name != NULL)
            read_figure(out, name, size, figure_number(mudax_at(figures, i)));
    }
    out->unit_price = figure_number(mudax_get(figures, "price_million_read_units")) / 1e6;
    out->hour_price = figure_number(mudax_get(figures, "price_cache_hour"));
    mudax_reply_free(reply);
    return 0;
}

/* ---- reckoning ---- */

static double grown(double before, double after)
{
    return after > before ? after - before : 0; /* counted anew: a daemon that began */
}

static double all_bytes(const struct accounts *accounts)
{
    double sum = 0;
    for (size_t i = 0; i < accounts->count; i++)
        sum += accounts->of[i].bytes;
    return sum;
}

/* What happened between the two looks. */
static struct account change(struct accounts *before, const struct account *after)
{
    const struct account *was = account_of(before, after->name);
    struct account delta = *after;
    if (was == NULL)
        return delta;
    delta.hits = grown(was->hits, after->hits);
    delta.misses = grown(was->misses, after->misses);
    delta.half_units = grown(was->half_units, after->half_units);
    return delta;
}

/* share  of the cache's cost */
static struct verdict reckon(const struct account *delta, const struct accounts *accounts,
                             double share, double seconds)
{
    double requests = delta->hits + delta->misses;
    struct verdict out = {.requests = requests / seconds,
                          .hit_share = requests > 0 ? delta->hits / requests : 0,
                          .units = delta->half_units / 2 / seconds * 3600,
                          .cost = accounts->hour_price * share,
                          .pays_from = -1};
    out.saved = out.units * accounts->unit_price;
    double each = requests > 0 ? delta->half_units / 2 * accounts->unit_price / requests : 0;
    if (each > 0)
        out.pays_from = out.cost / 3600 / each;
    out.text = requests == 0              ? "idle"
               : delta->hits == 0         ? "better off without: no hits"
               : out.saved > out.cost     ? "pays"
               : accounts->unit_price > 0 ? "better off without"
                                          : "saves nothing at this price";
    return out;
}

/* ---- telling ---- */

static struct mudax_value *number(const char *format, double value)
{
    char text[64];
    (void)snprintf(text, sizeof text, value < 1e15 ? format : "%.0f", value);
    return mudax_number(text);
}

static struct mudax_value *tell(const char *name, const struct verdict *verdict)
{
    struct mudax_value *told = mudax_map();
    (void)mudax_put(told, "Policy", mudax_string(name));
    (void)mudax_put(told, "RequestsPerSecond", number("%.1f", verdict->requests));
    (void)mudax_put(told, "HitShare", number("%.4f", verdict->hit_share));
    (void)mudax_put(told, "ReadUnitsSavedPerHour", number("%.1f", verdict->units));
    (void)mudax_put(told, "SavedPerHour", number("%.6f", verdict->saved));
    (void)mudax_put(told, "CostPerHour", number("%.6f", verdict->cost));
    if (verdict->pays_from >= 0)
        (void)mudax_put(told, "PaysFromRequestsPerSecond", number("%.1f", verdict->pays_from));
    (void)mudax_put(told, "Verdict", mudax_string(verdict->text));
    return told;
}

static void print(const char *name, const struct verdict *verdict)
{
    char from[32] = "-";
    if (verdict->pays_from >= 0)
        (void)snprintf(from, sizeof from, "%.1f", verdict->pays_from);
    (void)printf("%-20s %11.1f %6.1f%% %14.0f %11.4f %11.4f %11s  %s\n", name, verdict->requests,
                 100 * verdict->hit_share, verdict->units, verdict->saved, verdict->cost, from,
                 verdict->text);
}

static int report(struct accounts *before, const struct accounts *after, double seconds,
                  bool is_json)
{
    struct mudax_value *list = is_json ? mudax_list() : NULL;
    struct account sum = {.name = "(all)"};
    double bytes = all_bytes(after);
    if (!is_json)
        (void)printf("%-20s %11s %7s %14s %11s %11s %11s  %s\n", "POLICY", "REQUESTS/S", "HITS",
                     "READ UNITS/H", "SAVED/H", "COST/H", "PAYS FROM/S", "");
    for (size_t i = 0; i <= after->count; i++) {
        bool is_sum = i == after->count;
        struct account delta = is_sum ? sum : change(before, &after->of[i]);
        double share = is_sum ? 1 : bytes > 0 ? delta.bytes / bytes : 0;
        struct verdict verdict = reckon(&delta, after, share, seconds);
        sum.hits += delta.hits;
        sum.misses += delta.misses;
        sum.half_units += delta.half_units;
        if (is_json)
            (void)mudax_append(list, tell(delta.name, &verdict));
        else
            print(delta.name, &verdict);
    }
    if (!is_json)
        (void)printf("At %.4g a million read units and %.4g an hour of the cache; of its cost each "
                     "bears as much as\nit has of the memory in use.\n",
                     after->unit_price * 1e6, after->hour_price);
    if (!is_json)
        return 0;
    struct mudax_value *told = mudax_map();
    (void)mudax_put(told, "Policies", list);
    return heat_print_json(told);
}

int pay(struct mudax *db, uint32_t seconds, bool is_json)
{
    struct timespec pause = {.tv_sec = seconds != 0 ? seconds : PAY_SECONDS};
    struct accounts *looks = calloc(2, sizeof *looks);
    if (looks == NULL)
        return report_no_memory();
    uint64_t begun_us = now_us();
    int exit_code = read_accounts(db, &looks[0]);
    if (exit_code == 0) {
        (void)nanosleep(&pause, NULL);
        exit_code = read_accounts(db, &looks[1]);
    }
    if (exit_code == 0)
        exit_code = report(&looks[0], &looks[1], (double)(now_us() - begun_us) / 1e6, is_json);
    free(looks);
    return exit_code;
}
