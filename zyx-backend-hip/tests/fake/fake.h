// A libamdhip64, libhiprtc and libhipblaslt that run on the CPU, for tests.
//
// Queued work runs as late as it can: when something waits for it, and then no more of it than is waited for. So a missing
// dependency shows as a wrong result. Every call is checked: handles, the current device, ranges, and what is still in use.
// What a program must not do is noted as a violation, with the name of the function.
#ifndef FAKE_H
#define FAKE_H
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, NO_BINARY = 209,
       INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, CAPTURE_UNSUPPORTED = 900 };
enum { DEVICES = 2, MAX_ARGS = 512 };  // 4 KiB of arguments

typedef enum { STREAM = 0x51, EVENT, MODULE, FUNCTION, GRAPH, EXEC, PROGRAM, MEMORY, BLAS, DESC, LAYOUT, PREFERENCE } Kind;

typedef struct Object {  // what every handle points to; the list has those that are alive
    Kind kind;
    int device;
    struct Object *next;
} Object;

typedef struct Op {
    struct Op *next;
    void (*run)(struct Op *);
    void (*drop)(struct Op *);
    int device;
    Object *uses;  // a module, event or graph that must outlive it
} Op;

typedef struct Stream {
    Object object;
    Op *first, **last;
    int running;
    Op *captured, **captured_last;  // while capturing
    int capturing;
} Stream;

typedef struct Memory {
    Object object;
    uint8_t *start;
    size_t nbytes;
} Memory;

extern pthread_mutex_t fake_lock;
extern int fake_sticky[DEVICES];
extern __thread int fake_current;

int enter(const char *function);                    // counts the call; the code it is to fail with, or 0
void violation(const char *function, const char *format, ...);
void *make(size_t size, Kind kind, int device);     // a handle
void *find(void *handle, Kind kind);                // the object, or NULL if it is not alive
void destroy(void *handle);
void queue(Stream *stream, Op *op);                 // or into a graph, while capturing
void run_stream(Stream *stream);
int run_next(Stream *stream);
void run_everything(void);
int in_use(Object *object);                         // whether queued work needs it
Memory *memory_of(const void *address, size_t nbytes, int device);
const char *arch_of(int device);

#define CALL(name)                                                  \
    pthread_mutex_lock(&fake_lock);                                 \
    const char *here = name;                                        \
    int code = enter(here);                                         \
    if (code) goto out;
#define RETURN                                                      \
    out:                                                            \
    (void)here;                                                     \
    pthread_mutex_unlock(&fake_lock);                               \
    return code;
#define FAIL(number, ...)                                           \
    do { violation(here, __VA_ARGS__); code = (number); goto out; } while (0)
#endif
