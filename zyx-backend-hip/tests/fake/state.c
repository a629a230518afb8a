// Objects, devices, streams of queued work, violations, counts and injected failures.
#include "fake.h"
#include <stdarg.h>

pthread_mutex_t fake_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
int fake_sticky[DEVICES];
__thread int fake_current = 0;

static Object *objects;
static char violations[1 << 16];
static struct { char name[48]; long count; } counts[128];
static struct { char name[48]; int code; long after; } injected[16];

void violation(const char *function, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t used = strlen(violations);
    snprintf(violations + used, sizeof violations - used, "%s: %s\n", function, text);
}

int enter(const char *function) {
    for (int i = 0; i < 128; i++) {
        if (counts[i].name[0] && strcmp(counts[i].name, function)) continue;
        snprintf(counts[i].name, sizeof counts[i].name, "%s", function);
        counts[i].count++;
        break;
    }
    for (int i = 0; i < 16; i++)
        if (!strcmp(injected[i].name, function) && injected[i].after-- <= 0) {
            injected[i].name[0] = 0;
            return injected[i].code;
        }
    return 0;
}

void *make(size_t size, Kind kind, int device) {
    Object *object = calloc(1, size);
    object->kind = kind;
    object->device = device;
    object->next = objects;
    objects = object;
    return object;
}

void *find(void *handle, Kind kind) {
    for (Object *object = objects; object; object = object->next)
        if (object == handle) return object->kind == kind ? object : NULL;
    return NULL;
}

void destroy(void *handle) {
    for (Object **place = &objects; *place; place = &(*place)->next)
        if (*place == handle) {
            *place = (*place)->next;
            free(handle);
            return;
        }
}

void queue(Stream *stream, Op *op) {
    op->device = stream->object.device;
    Op ***last = stream->capturing ? &stream->captured_last : &stream->last;
    **last = op;
    *last = &op->next;
}

int run_next(Stream *stream) {
    Op *op = stream->first;
    if (!op) return 0;
    if (stream->running) {
        violation("the device", "streams wait for each other in a circle");
        return 0;
    }
    stream->running = 1;
    if (!fake_sticky[op->device] || op->uses == NULL || op->uses->kind == EVENT) op->run(op);
    stream->running = 0;
    stream->first = op->next;
    if (!stream->first) stream->last = &stream->first;
    if (op->drop) op->drop(op);
    free(op);
    return 1;
}

void run_stream(Stream *stream) {
    while (run_next(stream)) {}
}

void run_everything(void) {
    for (Object *object = objects; object; object = object->next)
        if (object->kind == STREAM) run_stream((Stream *)object);
}

int in_use(Object *wanted) {
    for (Object *object = objects; object; object = object->next)
        if (object->kind == STREAM)
            for (Op *op = ((Stream *)object)->first; op; op = op->next)
                if (op->uses == wanted) return 1;
    return 0;
}

Memory *memory_of(const void *address, size_t nbytes, int device) {
    const uint8_t *at = address;
    for (Object *object = objects; object; object = object->next) {
        Memory *memory = (Memory *)object;
        if (object->kind == MEMORY && at >= memory->start && at + nbytes <= memory->start + memory->nbytes)
            return device < 0 || object->device == device ? memory : NULL;
    }
    return NULL;
}

const char *arch_of(int device) {
    static const char *archs[DEVICES] = {"gfx90a:sramecc+:xnack-", "gfx1100"};
    return archs[device];
}

// ---- for tests

EXPORT const char *fake_violations(void) { return violations; }
EXPORT void fake_forget_violations(void) { violations[0] = 0; }

EXPORT long fake_count(const char *function) {
    for (int i = 0; i < 128; i++)
        if (!strcmp(counts[i].name, function)) return counts[i].count;
    return 0;
}

EXPORT void fake_fail(const char *function, int code, long after) {
    for (int i = 0; i < 16; i++)
        if (!injected[i].name[0]) {
            snprintf(injected[i].name, sizeof injected[i].name, "%s", function);
            injected[i].code = code;
            injected[i].after = after;
            return;
        }
}

EXPORT void fake_no_failures(void) {
    memset(injected, 0, sizeof injected);
    memset(fake_sticky, 0, sizeof fake_sticky);
}

EXPORT void fake_break(int device, int code) { fake_sticky[device] = code; }

EXPORT int fake_alive(int kind) {
    int count = 0;
    for (Object *object = objects; object; object = object->next) count += (int)object->kind == kind;
    return count;
}
