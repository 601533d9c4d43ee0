/* A bad disk, for LD_PRELOAD: faults in calls on files below one directory.
 *
 * DISK_SHIM_PREFIX names the directory, DISK_SHIM_CONTROL a file with one line, read at each call:
 *
 *     enospc N ...  writes fail with ENOSPC after N of them      (eio N: with EIO)
 *     short N ...   after N writes, a write takes half of its bytes
 *     sync MS ...   fsync and fdatasync take so many milliseconds (read MS: reads, write MS)
 *
 * Any other line means a good disk. Writes are counted anew when the line changes; a wait ends
 * when it changes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define LINE 128

static char last[LINE];
static atomic_long writes;

/* Whether a fault concerns the file: its kind and number are set then. */
static int concerns(int descriptor, char *kind, long *number)
{
    const char *prefix = getenv("DISK_SHIM_PREFIX"), *control = getenv("DISK_SHIM_CONTROL");
    char link[64], path[4096], line[LINE];
    long file, size;
    if (prefix == NULL || control == NULL)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = '\0';
    if (strncmp(path, prefix, strlen(prefix)) != 0)
        return 0;
    file = syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC);
    size = file < 0 ? 0 : syscall(SYS_read, file, line, LINE - 1);
    if (file >= 0)
        syscall(SYS_close, file);
    line[size > 0 ? size : 0] = '\0';
    if (strcmp(line, last) != 0) {
        strcpy(last, line);
        writes = 0;
    }
    return sscanf(line, "%15s %ld", kind, number) == 2;
}

/* Wait if the operation is late; return how many of its bytes a call may take, -1 for an error. */
static ssize_t fault(const char *operation, int descriptor, size_t size)
{
    char kind[16];
    long number, waited;
    int saved = errno, is_write = strcmp(operation, "write") == 0;
    struct timespec tick = {0, 10 * 1000 * 1000};
    ssize_t allowed = (ssize_t)size;
    for (waited = 0; concerns(descriptor, kind, &number); waited += 10) {
        if (strcmp(kind, operation) == 0 && waited < number) {
            nanosleep(&tick, NULL);
            continue;
        }
        if (is_write && strcmp(kind, "short") == 0 && size > 1)
            allowed = atomic_fetch_add(&writes, 1) < number ? allowed : allowed / 2;
        else if (is_write && (strcmp(kind, "enospc") == 0 || strcmp(kind, "eio") == 0))
            if (atomic_fetch_add(&writes, 1) >= number) {
                errno = kind[1] == 'n' ? ENOSPC : EIO;
                return -1;
            }
        break;
    }
    errno = saved;
    return allowed;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define CALL(operation, name, data, place, ...)                   \
    ssize_t name(int descriptor, data bytes, size_t size place)   \
    {                                                             \
        REAL(name);                                               \
        ssize_t allowed = fault(operation, descriptor, size);     \
        return allowed < 0 ? -1 : real(descriptor, bytes, (size_t)allowed __VA_ARGS__); \
    }
#define SYNC(name)                    \
    int name(int descriptor)          \
    {                                 \
        REAL(name);                   \
        fault("sync", descriptor, 0); \
        return real(descriptor);      \
    }
#define COMMA_OFF_T , off_t at
#define COMMA_OFF64_T , off64_t at

CALL("write", write, const void *, )
CALL("write", pwrite, const void *, COMMA_OFF_T, , at)
CALL("write", pwrite64, const void *, COMMA_OFF64_T, , at)
CALL("read", read, void *, )
CALL("read", pread, void *, COMMA_OFF_T, , at)
CALL("read", pread64, void *, COMMA_OFF64_T, , at)
SYNC(fsync)
SYNC(fdatasync)
