#include "tests/check/check.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { URLS_MAX = 8, CLIENTS_MAX = 256 };

static const char usage[] =
    "usage: mudax-check [options] URL...\n"
    "Drives a running mudaxd with many clients and judges what they saw. Makes the tables\n"
    "MudaxCheck and MudaxCheckFill anew. URL: mudax://HOST:PORT, mudax+unix:PATH (the first one\n"
    "must be one of these two), http://HOST:PORT; clients take them in turn.\n"
    "  --clients N      at once (8)\n"
    "  --operations N   of all clients together (100000)\n"
    "  --seconds S      at most so long\n"
    "  --timeout MS     of each request, native protocol only; short ones leave outcomes unknown\n"
    "  --seed N         of the random choices\n"
    "  --without-index  no queries of a global index\n"
    "  --without-deletes\n"
    "Ends with 1 when it found a read that no order of the writes explains, with 2 when it could\n"
    "not do its work. mudaxd must tell commit numbers: the embedded store and Redis do.\n";

static uint64_t natural(const char *text)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0') {
        fprintf(stderr, "mudax-check: %s is no number\n%s", text, usage);
        exit(2);
    }
    return number;
}

static void read_options(int count, char **arguments, struct plan *plan)
{
    static const struct option options[] = {{"clients", required_argument, NULL, 'c'},
                                            {"operations", required_argument, NULL, 'o'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"timeout", required_argument, NULL, 't'},
                                            {"seed", required_argument, NULL, 'r'},
                                            {"without-index", no_argument, NULL, 'i'},
                                            {"without-deletes", no_argument, NULL, 'd'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(count, arguments, "", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            plan->clients = (unsigned)natural(optarg);
            break;
        case 'o':
            plan->operations = natural(optarg);
            break;
        case 's':
            plan->seconds = (double)natural(optarg);
            break;
        case 't':
            plan->timeout_ms = (unsigned)natural(optarg);
            break;
        case 'r':
            plan->seed = natural(optarg);
            break;
        case 'i':
            plan->has_index = false;
            break;
        case 'd':
            plan->has_deletes = false;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            fputs(usage, stderr);
            exit(2);
        }
    }
    plan->urls = (const char *const *)arguments + optind;
    plan->url_count = (size_t)(count - optind);
    if (plan->url_count == 0 || plan->url_count > URLS_MAX || plan->clients == 0 ||
        plan->clients > CLIENTS_MAX) {
        fputs(usage, stderr);
        exit(2);
    }
}

int main(int count, char **arguments)
{
    struct plan plan = {.clients = 8,
                        .operations = 100000,
                        .seed = now_ns(),
                        .has_index = true,
                        .has_deletes = true};
    struct verdicts verdicts;
    read_options(count, arguments, &plan);
    struct history *histories = calloc(plan.clients, sizeof *histories);
    if (histories == NULL || !driver_prepare(&plan))
        return 2;
    driver_run(&plan, histories, isatty(STDERR_FILENO));
    judge(histories, plan.clients, &verdicts);
    printf("%llu reads (%llu pages, %llu hits), %llu writes (%llu of unknown outcome), seed %llu: "
           "%llu findings\n",
           (unsigned long long)verdicts.reads, (unsigned long long)verdicts.pages,
           (unsigned long long)verdicts.hits, (unsigned long long)verdicts.writes,
           (unsigned long long)verdicts.unknown, (unsigned long long)plan.seed,
           (unsigned long long)verdicts.findings);
    for (unsigned i = 0; i < plan.clients; i++) {
        free(histories[i].writes);
        free(histories[i].reads);
        free(histories[i].seen);
    }
    free(histories);
    if (verdicts.reads == 0) {
        fprintf(stderr, "mudax-check: nothing could be read\n");
        return 2;
    }
    return verdicts.findings == 0 ? 0 : 1;
}
