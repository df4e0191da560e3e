/* Faults at a chosen system call that writes below a folder: built by tests/faults/shim.py, put in
   front of libc by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MOST 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX], note[PATH_MAX];
static long seen, at = -1;
static int failure, lasting;
static struct { dev_t dev; ino_t ino; } dirty[MOST];
static int n_dirty;

/* Count calls below `folder`, and strike at call number `number` (-1: never): kill the process, or
   with `error` fail the call, and if `stays` all later ones. `file` gets what was not synced. */
void fault_arm(const char *folder, long number, int error, int stays, const char *file) {
    snprintf(root, sizeof root, "%s", folder);
    snprintf(note, sizeof note, "%s", file);
    seen = 0; at = number; failure = error; lasting = stays; n_dirty = 0;
}

long fault_seen(void) { return seen; }

static int below(const char *path) {
    return root[0] && path && (path[0] != '/' || !strncmp(path, root, strlen(root)));
}

static int below_fd(int fd) {
    char link[64], path[PATH_MAX];
    if (!root[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return path[0] == '/' && !strncmp(path, root, strlen(root));
}

static void touch(int fd, int synced) {
    struct stat s;
    if (fstat(fd, &s)) return;
    pthread_mutex_lock(&lock);
    int k = 0;
    while (k < n_dirty && (dirty[k].dev != s.st_dev || dirty[k].ino != s.st_ino)) k++;
    if (synced && k < n_dirty) dirty[k] = dirty[--n_dirty];
    if (!synced && k == n_dirty && n_dirty < MOST) { dirty[k].dev = s.st_dev; dirty[k].ino = s.st_ino; n_dirty++; }
    pthread_mutex_unlock(&lock);
}

static void die(void) {
    int fd = note[0] ? NEXT(open)(note, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    for (int k = 0; fd >= 0 && k < n_dirty; k++) dprintf(fd, "%lu\n", (unsigned long)dirty[k].ino);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* 0: go on, 1: fail with errno, 2: die (the caller may do half of its work first). */
static int strike(void) {
    pthread_mutex_lock(&lock);
    long n = seen++;
    pthread_mutex_unlock(&lock);
    if (at < 0 || n < at || (n > at && !lasting)) return 0;
    if (!failure) return n == at ? 2 : 0;
    errno = failure;
    return 1;
}

#define GUARD(inside, bad) do { if (inside) { int s = strike(); if (s == 1) return bad; if (s == 2) die(); } } while (0)

/* The same of calls that give room back: a full disk does not refuse them. */
#define FREES(inside) do { if (inside) { int s = strike(); if (s == 1 && errno != ENOSPC && errno != EFBIG) return -1; if (s == 2) die(); } } while (0)

ssize_t write(int fd, const void *data, size_t n) {
    int inside = below_fd(fd);
    if (inside) {
        int s = strike();
        if (s == 1) return -1;
        touch(fd, 0);
        if (s == 2) { NEXT(write)(fd, data, n / 2); die(); }
    }
    return NEXT(write)(fd, data, n);
}

static ssize_t pwrite_at(int fd, const void *data, size_t n, off_t where) {
    int inside = below_fd(fd);
    if (inside) {
        int s = strike();
        if (s == 1) return -1;
        touch(fd, 0);
        if (s == 2) { NEXT(pwrite)(fd, data, n / 2, where); die(); }
    }
    return NEXT(pwrite)(fd, data, n, where);
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t where) { return pwrite_at(fd, data, n, where); }
ssize_t pwrite64(int fd, const void *data, size_t n, off_t where) { return pwrite_at(fd, data, n, where); }

int fsync(int fd) { int i = below_fd(fd); GUARD(i, -1); int r = NEXT(fsync)(fd); if (i && !r) touch(fd, 1); return r; }
int fdatasync(int fd) { int i = below_fd(fd); GUARD(i, -1); int r = NEXT(fdatasync)(fd); if (i && !r) touch(fd, 1); return r; }
int ftruncate(int fd, off_t n) { int i = below_fd(fd); GUARD(i, -1); if (i) touch(fd, 0); return NEXT(ftruncate)(fd, n); }
int ftruncate64(int fd, off_t n) { int i = below_fd(fd); GUARD(i, -1); if (i) touch(fd, 0); return NEXT(ftruncate)(fd, n); }
int rename(const char *a, const char *b) { GUARD(below(a) || below(b), -1); return NEXT(rename)(a, b); }
int renameat(int d, const char *a, int e, const char *b) { GUARD(below(a) || below(b), -1); return NEXT(renameat)(d, a, e, b); }
int link(const char *a, const char *b) { GUARD(below(b), -1); return NEXT(link)(a, b); }
int unlink(const char *a) { FREES(below(a)); return NEXT(unlink)(a); }
int unlinkat(int d, const char *a, int f) { FREES(d == AT_FDCWD ? below(a) : below_fd(d)); return NEXT(unlinkat)(d, a, f); }
int rmdir(const char *a) { FREES(below(a)); return NEXT(rmdir)(a); }
int mkdir(const char *a, mode_t m) { GUARD(below(a), -1); return NEXT(mkdir)(a, m); }

#define OPEN(name, ...) \
    mode_t mode = 0; \
    if (flags & O_CREAT) { va_list rest; va_start(rest, flags); mode = va_arg(rest, int); va_end(rest); \
        GUARD(below(path), -1); } \
    return NEXT(name)(__VA_ARGS__, mode)
int open(const char *path, int flags, ...) { OPEN(open, path, flags); }
int open64(const char *path, int flags, ...) { OPEN(open64, path, flags); }
int openat(int d, const char *path, int flags, ...) { OPEN(openat, d, path, flags); }
int openat64(int d, const char *path, int flags, ...) { OPEN(openat64, d, path, flags); }
