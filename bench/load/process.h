/* process.h - servers that a run starts, pins and times. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CPU_ANY = -1 };

/* Starts a program (searched in PATH) whose output goes to /dev/null, or to the terminal if
 * `is_loud`. arguments  NULL-terminated, [0] is the program. Ends the benchmark when it cannot. */
pid_t process_start(char *const *arguments, bool is_loud);
/* Runs `serve` in a child. */
pid_t process_fork(void (*serve)(void *arg), void *arg);
void process_stop(pid_t pid);
/* All threads of a process (0: this one) to one CPU. */
void process_pin(pid_t pid, int cpu);
/* CPU time of a process so far, ns. */
uint64_t process_cpu_ns(pid_t pid);
uint64_t now_ns(void);

/* Connects, trying for up to 10 s; the socket blocks. `path` for a Unix socket, else 127.0.0.1. */
int connect_to(const char *path, int port);
/* A TCP port of loopback that nobody uses. */
int free_port(void);

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
