#include "bench/load/process.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("mudax-bench: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputs("\n", stderr);
    va_end(arguments);
    exit(1);
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec time;
    if (clock_gettime(clock, &time) != 0)
        return 0;
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

uint64_t now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t process_cpu_ns(pid_t pid)
{
    clockid_t clock;
    return clock_getcpuclockid(pid, &clock) == 0 ? read_clock(clock) : 0;
}

/* The child's first steps: it goes when the benchmark goes. */
static void become_child(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

pid_t process_start(char *const *arguments, bool is_loud)
{
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid != 0)
        return pid;
    become_child();
    if (!is_loud) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)dup2(null, STDOUT_FILENO);
        (void)dup2(null, STDERR_FILENO);
    }
    (void)execvp(arguments[0], arguments);
    _exit(127);
}

pid_t process_fork(void (*serve)(void *arg), void *arg)
{
    pid_t pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid != 0)
        return pid;
    become_child();
    serve(arg);
    _exit(0);
}

void process_stop(pid_t pid)
{
    if (pid <= 0)
        return;
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, NULL, 0);
}

void process_pin(pid_t pid, int cpu)
{
    if (cpu == CPU_ANY)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task", pid == 0 ? getpid() : pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        die("%s: %s", path, strerror(errno));
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        if (task->d_name[0] != '.')
            (void)sched_setaffinity((pid_t)atoi(task->d_name), sizeof set, &set);
    (void)closedir(tasks);
}

static int connect_once(const char *path, int port)
{
    if (path != NULL) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
            return fd;
        (void)close(fd);
        return -1;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

int connect_to(const char *path, int port)
{
    for (int attempt = 0; attempt < 1000; attempt++) {
        int fd = connect_once(path, port);
        if (fd >= 0)
            return fd;
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    die("cannot connect to %s (port %d) within 10 s", path != NULL ? path : "127.0.0.1", port);
}

int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        die("no free port: %s", strerror(errno));
    (void)close(fd);
    return ntohs(address.sin_port);
}
