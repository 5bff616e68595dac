/* forget.c - a preload that knows what a power loss would take back.
 *
 * Every fsync, fdatasync and rename of a file below MUDAX_FORGET_DIR is noted, with the size that
 * the file had, in the file MUDAX_FORGET_JOURNAL. After a kill -9, durability.py cuts each file
 * back to what was noted last and removes files that never were. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_rename)(const char *, const char *);
static int journal = -1;
static char directory[PATH_MAX];

__attribute__((constructor)) static void prepare(void)
{
    /* dlsym gives an object pointer; POSIX promises that it holds a function's address. */
    *(void **)&real_fsync = dlsym(RTLD_NEXT, "fsync");
    *(void **)&real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    *(void **)&real_rename = dlsym(RTLD_NEXT, "rename");
    const char *path = getenv("MUDAX_FORGET_JOURNAL"), *below = getenv("MUDAX_FORGET_DIR");
    if (path == NULL || below == NULL)
        return;
    (void)snprintf(directory, sizeof directory, "%s/", below);
    journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_below(const char *path)
{
    return journal >= 0 && strncmp(path, directory, strlen(directory)) == 0;
}

static void note(const char *line, size_t size)
{
    if (write(journal, line, size) != (ssize_t)size)
        abort(); /* the test would prove nothing */
}

/* The size before the call: what is written meanwhile may not be covered. */
static void note_sync(const char *path, off_t size)
{
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "sync %lld %s\n", (long long)size, path);
    note(line, (size_t)length);
}

static int sync_and_note(int fd, int (*real)(int))
{
    char link[64], path[PATH_MAX];
    struct stat facts;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    int is_known = length > 0 && fstat(fd, &facts) == 0;
    int result = real(fd);
    if (length > 0)
        path[length] = '\0';
    if (result == 0 && is_known && S_ISREG(facts.st_mode) && is_below(path))
        note_sync(path, facts.st_size);
    return result;
}

int fsync(int fd)
{
    return sync_and_note(fd, real_fsync);
}

int fdatasync(int fd)
{
    return sync_and_note(fd, real_fdatasync);
}

int rename(const char *from, const char *to)
{
    int result = real_rename(from, to);
    if (result == 0 && is_below(to)) {
        char line[2 * PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "rename %s %s\n", from, to);
        note(line, (size_t)length);
    }
    return result;
}
