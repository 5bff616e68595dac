/* mudax-bench: load on a mudaxd, with a raw echo and other servers beside it in the same run. */
#include "bench/load/process.h"
#include "bench/load/report.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIST_MAX = 8, ARGUMENTS_MAX = 48 };

struct list {
    unsigned numbers[LIST_MAX];
    unsigned count;
};

struct settings {
    const char *daemon, *daemon_options, *peers, *json, *transport, *store, *work_text;
    const char *path; /* of a running daemon's Unix socket */
    int port;         /* of a running daemon */
    enum work work;
    struct list connections, depths;
    bool has_uniform, has_zipf;
    double theta, seconds;
    unsigned rounds;
    int server_cpu, client_cpu;
    struct shape shape;
};

static const char usage[] =
    "usage: mudax-bench --daemon PATH [options], or --port N | --socket PATH of a running daemon\n"
    "\n"
    "  --daemon PATH           start this mudaxd for the run (its CPU time is then measured)\n"
    "  --daemon-options TEXT   further options for it\n"
    "  --store URL             its store (memory:)\n"
    "  --work WORK             read (default), write, mixed (95/5), query, load\n"
    "  --items N               items in the table (1000000)\n"
    "  --value-size BYTES      of each item (100)\n"
    "  --partition-items N     items a partition, for queries (100)\n"
    "  --keys uniform,zipf     which key comes next (uniform); --theta X (0.99)\n"
    "  --connections A,B,..    (1)      --depth A,B,..  requests in flight on each (1)\n"
    "  --transport tcp|unix|http   (tcp); http: DynamoDB's API\n"
    "  --pin same|split|none   client and servers on one CPU, on two, or as the system likes "
    "(same)\n"
    "  --seconds S             a point and round (1)        --rounds N  (5)\n"
    "  --peers echo,memcached,redis   servers measured beside it (echo,memcached)\n"
    "  --consistent            read past the cache\n"
    "  --json FILE             the figures once more, for programs\n";

static void parse_list(const char *text, struct list *out)
{
    char *end;
    out->count = 0;
    do {
        unsigned long number = strtoul(text, &end, 10);
        if (end == text || number == 0 || number > 1024 || out->count == LIST_MAX)
            die("expected up to %d numbers from 1 to 1024, got %s", LIST_MAX, text);
        out->numbers[out->count++] = (unsigned)number;
        text = end + 1;
    } while (*end == ',');
}

static uint64_t parse_number(const char *text, uint64_t least, uint64_t most)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || number < least || number > most)
        die("expected a number from %llu to %llu, got %s", (unsigned long long)least,
            (unsigned long long)most, text);
    return number;
}

static enum work parse_work(const char *text)
{
    for (int work = WORK_LOAD; work <= WORK_QUERY; work++)
        if (strcmp(work_name((enum work)work), text) == 0)
            return (enum work)work;
    die("there is no work %s", text);
}

static void parse_pin(const char *text, struct settings *settings)
{
    settings->server_cpu = settings->client_cpu = CPU_ANY;
    if (strcmp(text, "same") == 0)
        settings->server_cpu = settings->client_cpu = 0;
    else if (strcmp(text, "split") == 0)
        settings->server_cpu = 1, settings->client_cpu = 0;
    else if (strcmp(text, "none") != 0)
        die("there is no pin mode %s", text);
}

static const struct option long_options[] = {{"daemon", required_argument, NULL, 'd'},
                                             {"daemon-options", required_argument, NULL, 'o'},
                                             {"store", required_argument, NULL, 's'},
                                             {"work", required_argument, NULL, 'w'},
                                             {"items", required_argument, NULL, 'n'},
                                             {"value-size", required_argument, NULL, 'v'},
                                             {"partition-items", required_argument, NULL, 'i'},
                                             {"keys", required_argument, NULL, 'k'},
                                             {"theta", required_argument, NULL, 't'},
                                             {"connections", required_argument, NULL, 'c'},
                                             {"depth", required_argument, NULL, 'D'},
                                             {"transport", required_argument, NULL, 'T'},
                                             {"pin", required_argument, NULL, 'p'},
                                             {"seconds", required_argument, NULL, 'S'},
                                             {"rounds", required_argument, NULL, 'r'},
                                             {"peers", required_argument, NULL, 'P'},
                                             {"json", required_argument, NULL, 'j'},
                                             {"port", required_argument, NULL, 'N'},
                                             {"socket", required_argument, NULL, 'u'},
                                             {"consistent", no_argument, NULL, 'C'},
                                             {"help", no_argument, NULL, 'h'},
                                             {0}};

static void take_option(struct settings *settings, int option)
{
    switch (option) {
    case 'd':
        settings->daemon = optarg;
        break;
    case 'o':
        settings->daemon_options = optarg;
        break;
    case 's':
        settings->store = optarg;
        break;
    case 'w':
        settings->work = parse_work(optarg);
        break;
    case 'n':
        settings->shape.items = parse_number(optarg, 1, 1000000000);
        break;
    case 'v':
        settings->shape.value_size = parse_number(optarg, 1, 400000);
        break;
    case 'i':
        settings->shape.partition_items = (uint32_t)parse_number(optarg, 1, 1000000);
        break;
    case 'k':
        settings->has_uniform = strstr(optarg, "uniform") != NULL;
        settings->has_zipf = strstr(optarg, "zipf") != NULL;
        break;
    case 't':
        settings->theta = strtod(optarg, NULL);
        break;
    case 'c':
        parse_list(optarg, &settings->connections);
        break;
    case 'D':
        parse_list(optarg, &settings->depths);
        break;
    case 'T':
        settings->transport = optarg;
        break;
    case 'p':
        parse_pin(optarg, settings);
        break;
    case 'S':
        settings->seconds = strtod(optarg, NULL);
        break;
    case 'r':
        settings->rounds = (unsigned)parse_number(optarg, 1, ROUNDS_MAX);
        break;
    case 'P':
        settings->peers = optarg;
        break;
    case 'j':
        settings->json = optarg;
        break;
    case 'N':
        settings->port = (int)parse_number(optarg, 1, 65535);
        break;
    case 'u':
        settings->path = optarg;
        break;
    case 'C':
        settings->shape.is_consistent = true;
        break;
    case 'h':
        (void)fputs(usage, stdout);
        exit(0);
    default:
        (void)fputs(usage, stderr);
        exit(2);
    }
}

/* ---- servers ---- */

/* Splits a text at blanks onto the end of an argument list; the text is kept. */
static void add_words(char **arguments, size_t *count, const char *text)
{
    char *copy = strdup(text), *rest = copy;
    for (char *word; copy != NULL && (word = strsep(&rest, " ")) != NULL;)
        if (word[0] != '\0' && *count < ARGUMENTS_MAX - 1)
            arguments[(*count)++] = strcmp(word, "''") == 0 ? "" : word;
}

static pid_t start_server(const char *format_words, const char *more)
{
    char *arguments[ARGUMENTS_MAX] = {0};
    size_t count = 0;
    add_words(arguments, &count, format_words);
    if (more != NULL)
        add_words(arguments, &count, more);
    return process_start(arguments, getenv("MUDAX_BENCH_LOUD") != NULL);
}

static bool is_unix(const struct settings *settings)
{
    return strcmp(settings->transport, "unix") == 0;
}

/* Where a server of ours listens. */
static void place(const struct settings *settings, struct target *target)
{
    if (!is_unix(settings)) {
        target->port = free_port();
        return;
    }
    char path[96];
    (void)snprintf(path, sizeof path, "/tmp/mudax-bench-%s-%d.sock", target->name, getpid());
    (void)unlink(path);
    target->path = strdup(path);
}

static void start_mudax(const struct settings *settings, struct target *target)
{
    bool is_http = strcmp(settings->transport, "http") == 0;
    *target = (struct target){.name = "mudax",
                              .ops = is_http ? &target_http : &target_mudax,
                              .shape = &settings->shape,
                              .port = settings->port,
                              .path = settings->path};
    if (settings->daemon == NULL)
        return;
    place(settings, target);
    char words[1024], listen[128];
    if (target->path != NULL)
        (void)snprintf(listen, sizeof listen, "mudax+unix:%s", target->path);
    else
        (void)snprintf(listen, sizeof listen, "%s://127.0.0.1:%d", is_http ? "http" : "mudax",
                       target->port);
    (void)snprintf(words, sizeof words,
                   "%s --listen %s --store %s --workers 1 --cache-memory 2G --item-ttl 0 "
                   "--log-level warn",
                   settings->daemon, listen, settings->store);
    target->pid = start_server(words, settings->daemon_options);
}

static void start_memcached(const struct settings *settings, struct target *target)
{
    *target =
        (struct target){.name = "memcached", .ops = &target_memcached, .shape = &settings->shape};
    place(settings, target);
    char words[256];
    if (target->path != NULL)
        (void)snprintf(words, sizeof words, "memcached -u root -m 4096 -t 1 -s %s", target->path);
    else
        (void)snprintf(words, sizeof words,
                       "memcached -u root -m 4096 -t 1 -U 0 -l 127.0.0.1 -p %d", target->port);
    target->pid = start_server(words, NULL);
}

static void start_redis(const struct settings *settings, struct target *target)
{
    *target = (struct target){.name = "redis", .ops = &target_redis, .shape = &settings->shape};
    place(settings, target);
    char words[256];
    if (target->path != NULL)
        (void)snprintf(words, sizeof words,
                       "redis-server --port 0 --unixsocket %s --save '' --appendonly no",
                       target->path);
    else
        (void)snprintf(words, sizeof words,
                       "redis-server --bind 127.0.0.1 --port %d --save '' --appendonly no",
                       target->port);
    target->pid = start_server(words, NULL);
}

static void start_echo(const struct settings *settings, struct target *target,
                       struct target *measured)
{
    *target = (struct target){.name = "echo", .ops = &target_echo, .shape = &settings->shape};
    place(settings, target);
    enum work work = settings->work == WORK_MIXED ? WORK_READ : settings->work;
    measure_sizes(measured, work, &target->request_size, &target->reply_size);
    target->pid = process_fork(echo_serve, target);
}

static bool has_peer(const struct settings *settings, const char *name)
{
    return strstr(settings->peers, name) != NULL;
}

static void load(const struct settings *settings, struct target *target, struct result *result)
{
    struct point point = {.work = WORK_LOAD,
                          .connections = 4,
                          .depth = 64,
                          .operations = settings->shape.items,
                          .is_sequential = true,
                          .shows_progress = isatty(STDERR_FILENO)};
    if (target->ops->prepare != NULL)
        target->ops->prepare(target, WORK_LOAD);
    if (target->ops == &target_echo)
        return;
    drive(target, &point, 1, result);
    (void)printf("%-10s loaded %llu items of %zu bytes in %.1f s\n", target->name,
                 (unsigned long long)result->operations, settings->shape.value_size,
                 result->seconds);
    (void)fflush(stdout);
}

/* ---- the run ---- */

struct run {
    const struct settings *settings;
    struct target targets[TARGETS_MAX];
    size_t target_count;
    struct result *result;
    FILE *json;
    bool has_written;
};

static void run_point(struct run *run, const struct point *point)
{
    struct series series[TARGETS_MAX] = {0};
    struct point warm = *point;
    warm.seconds = warm.seconds / 4;
    for (unsigned round = 0; round < run->settings->rounds; round++) {
        for (size_t i = 0; i < run->target_count; i++) {
            if (round == 0)
                drive(&run->targets[i], &warm, 77, run->result);
            drive(&run->targets[i], point, 1000 + round, run->result);
            series[i].target = run->targets[i].name;
            series_add(&series[i], run->result);
        }
    }
    char title[160];
    (void)snprintf(title, sizeof title, "%s, %s keys, %s, %u connection%s, depth %u, %zu bytes",
                   work_name(point->work), point->theta > 0 ? "zipf" : "uniform",
                   run->settings->transport, point->connections, point->connections == 1 ? "" : "s",
                   point->depth, run->settings->shape.value_size);
    report_table(title, series, run->target_count);
    if (run->json != NULL)
        report_json(run->json, point, run->settings->transport, series, run->target_count,
                    !run->has_written);
    run->has_written = true;
}

static void run_points(struct run *run)
{
    const struct settings *settings = run->settings;
    for (unsigned c = 0; c < settings->connections.count; c++) {
        for (unsigned d = 0; d < settings->depths.count; d++) {
            struct point point = {.work = settings->work,
                                  .connections = settings->connections.numbers[c],
                                  .depth = settings->depths.numbers[d],
                                  .seconds = settings->seconds};
            if (settings->has_uniform)
                run_point(run, &point);
            point.theta = settings->theta;
            if (settings->has_zipf)
                run_point(run, &point);
        }
    }
}

static void start_targets(struct run *run)
{
    const struct settings *settings = run->settings;
    start_mudax(settings, &run->targets[run->target_count++]);
    bool has_others = settings->work != WORK_QUERY;
    if (has_others && has_peer(settings, "memcached"))
        start_memcached(settings, &run->targets[run->target_count++]);
    if (has_others && has_peer(settings, "redis"))
        start_redis(settings, &run->targets[run->target_count++]);
    for (size_t i = 0; i < run->target_count; i++)
        load(settings, &run->targets[i], run->result);
    if (has_peer(settings, "echo"))
        start_echo(settings, &run->targets[run->target_count++], &run->targets[0]);
    process_pin(0, settings->client_cpu);
    for (size_t i = 0; i < run->target_count; i++)
        if (run->targets[i].pid != 0)
            process_pin(run->targets[i].pid, settings->server_cpu);
}

int main(int argument_count, char **arguments)
{
    struct settings settings = {
        .store = "memory:",
        .peers = "echo,memcached",
        .transport = "tcp",
        .work = WORK_READ,
        .theta = 0.99,
        .seconds = 1,
        .rounds = 5,
        .connections = {{1}, 1},
        .depths = {{1}, 1},
        .has_uniform = true,
        .shape = {.items = 1000000, .value_size = 100, .partition_items = 100}};
    for (int option;
         (option = getopt_long(argument_count, arguments, "", long_options, NULL)) != -1;)
        take_option(&settings, option);
    if (settings.daemon == NULL && settings.port == 0 && settings.path == NULL)
        die("one of --daemon, --port, --socket is needed; see --help");
    if (settings.work != WORK_QUERY)
        settings.shape.partition_items = 1;
    (void)signal(SIGPIPE, SIG_IGN);
    struct run run = {.settings = &settings, .result = calloc(1, sizeof *run.result)};
    if (run.result == NULL)
        die("out of memory");
    if (settings.json != NULL && (run.json = fopen(settings.json, "we")) == NULL)
        die("cannot write %s", settings.json);
    if (run.json != NULL)
        (void)fputs("[\n", run.json);
    start_targets(&run);
    run_points(&run);
    if (run.json != NULL && (fputs("\n]\n", run.json) < 0 || fclose(run.json) != 0))
        die("cannot write %s", settings.json);
    for (size_t i = 0; i < run.target_count; i++) {
        process_stop(run.targets[i].pid);
        if (run.targets[i].path != NULL && run.targets[i].pid != 0)
            (void)unlink(run.targets[i].path);
    }
    free(run.result);
    return 0;
}
