#include "bench/load/report.h"

#include <stdlib.h>

const char *work_name(enum work work)
{
    static const char *const names[] = {"load", "read", "write", "mixed", "query"};
    return names[work];
}

void series_add(struct series *series, const struct result *result)
{
    unsigned round = series->rounds++;
    series->p50_us[round] = (double)histogram_quantile(&result->latency, 0.5) / 1e3;
    series->p99_us[round] = (double)histogram_quantile(&result->latency, 0.99) / 1e3;
    series->max_us[round] = (double)result->latency.max / 1e3;
    series->rate[round] = (double)result->operations / result->seconds;
    series->cpu_us[round] = result->server_cpu_ns / 1e3;
    uint64_t told = result->hits + result->misses;
    series->hit_share = told == 0 ? -1 : (double)result->hits / (double)told;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(const double *values, unsigned count)
{
    double sorted[ROUNDS_MAX];
    if (count == 0)
        return 0;
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare);
    return count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

double median_ratio(const double *a, const double *b, unsigned count)
{
    double ratios[ROUNDS_MAX];
    for (unsigned i = 0; i < count; i++)
        ratios[i] = b[i] > 0 ? a[i] / b[i] : 0;
    return median(ratios, count);
}

void report_table(const char *title, const struct series *series, size_t count)
{
    (void)printf("\n%s\n%-10s %12s %10s %10s %10s %12s %6s\n", title, "", "ops/s", "p50 us",
                 "p99 us", "max us", "CPU us/op", "hits");
    for (size_t i = 0; i < count; i++) {
        const struct series *s = &series[i];
        (void)printf("%-10s %12.0f %10.2f %10.2f %10.0f %12.3f", s->target,
                     median(s->rate, s->rounds), median(s->p50_us, s->rounds),
                     median(s->p99_us, s->rounds), median(s->max_us, s->rounds),
                     median(s->cpu_us, s->rounds));
        if (s->hit_share >= 0)
            (void)printf(" %5.1f%%", 100 * s->hit_share);
        (void)printf("\n");
    }
    for (size_t i = 1; i < count; i++)
        (void)printf("%s / %s: p50 %.3fx  p99 %.3fx  CPU %.3fx  rate %.3fx\n", series[0].target,
                     series[i].target,
                     median_ratio(series[0].p50_us, series[i].p50_us, series[0].rounds),
                     median_ratio(series[0].p99_us, series[i].p99_us, series[0].rounds),
                     median_ratio(series[0].cpu_us, series[i].cpu_us, series[0].rounds),
                     median_ratio(series[0].rate, series[i].rate, series[0].rounds));
    (void)fflush(stdout);
}

void report_json(FILE *out, const struct point *point, const char *transport,
                 const struct series *series, size_t count, bool is_first)
{
    (void)fprintf(out,
                  "%s  {\"work\": \"%s\", \"keys\": \"%s\", \"theta\": %g, \"transport\": \"%s\", "
                  "\"connections\": %u, \"depth\": %u, \"targets\": [",
                  is_first ? "" : ",\n", work_name(point->work),
                  point->theta > 0 ? "zipf" : "uniform", point->theta, transport,
                  point->connections, point->depth);
    for (size_t i = 0; i < count; i++) {
        const struct series *s = &series[i];
        (void)fprintf(
            out,
            "%s\n    {\"target\": \"%s\", \"rounds\": %u, \"rate\": %.1f, \"p50_us\": %.3f, "
            "\"p99_us\": %.3f, \"cpu_us\": %.4f, \"hit_share\": %.4f}",
            i == 0 ? "" : ",", s->target, s->rounds, median(s->rate, s->rounds),
            median(s->p50_us, s->rounds), median(s->p99_us, s->rounds),
            median(s->cpu_us, s->rounds), s->hit_share);
    }
    (void)fprintf(out, "]}");
}
