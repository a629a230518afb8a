// Devices, memory, copies, streams and events.
#include "fake.h"

enum { MARGIN = 256 };
typedef struct Event {
    Object object;
    unsigned flags;
    long recorded, done;
    Stream *stream;
    int looks;
    double time;
} Event;
typedef struct Copy { Op op; uint8_t *target; const uint8_t *source; size_t nbytes; } Copy;
typedef struct Mark { Op op; Event *event; long version; Stream *stream; } Mark;

static size_t total_bytes(void) {
    const char *text = getenv("FAKE_HIP_MEMORY");
    return text ? strtoull(text, NULL, 10) : (size_t)1 << 30;
}

static int started, last_device_count = DEVICES, hip_version = 60342134;

EXPORT void fake_version(int version) { hip_version = version; }

EXPORT void fake_devices(int count) { last_device_count = count; }

EXPORT int hipInit(unsigned flags) { CALL("hipInit") (void)flags; started = 1; RETURN }

EXPORT int hipRuntimeGetVersion(int *version) { CALL("hipRuntimeGetVersion") *version = hip_version; RETURN }
EXPORT int hipDriverGetVersion(int *version) { CALL("hipDriverGetVersion") *version = 60342134; RETURN }

EXPORT int hipGetDeviceCount(int *count) {
    CALL("hipGetDeviceCount")
    if (!started) FAIL(3, "before hipInit");
    *count = last_device_count;
    if (!*count) code = 100;
    RETURN
}

EXPORT int hipDeviceGetName(char *name, int size, int device) {
    CALL("hipDeviceGetName")
    if (device < 0 || device >= DEVICES) FAIL(INVALID_DEVICE, "device %d", device);
    snprintf(name, size, "Fake  Instinct %d", device);
    RETURN
}

EXPORT int hipGetDevicePropertiesR0600(char *record, int device) {
    CALL("hipGetDevicePropertiesR0600")
    if (device < 0 || device >= DEVICES) FAIL(INVALID_DEVICE, "device %d", device);
    memset(record, 1, 1472);
    snprintf(record, 256, "gfx of a name");
    snprintf(record + 1160, 256, "%s", arch_of(device));
    RETURN
}

EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device) {
    CALL("hipDeviceGetAttribute")
    static const int known[][2] = {{5, 1700000}, {19, 8 << 20}, {26, 1024}, {27, 1024}, {28, 1024}, {29, 2147483647},
        {30, 65536}, {31, 65536}, {56, 1024}, {59, 4096}, {60, 1600000}, {63, 8}, {74, 65536}};
    *value = 0;
    if (attribute == 87) *value = device ? 32 : 64;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i][0] == attribute) *value = known[i][1];
    if (!*value) FAIL(INVALID_VALUE, "attribute %d", attribute);
    RETURN
}

EXPORT int hipGetDevice(int *device) { CALL("hipGetDevice") *device = fake_current; RETURN }

EXPORT int hipSetDevice(int device) {
    CALL("hipSetDevice")
    if (device < 0 || device >= DEVICES) FAIL(INVALID_DEVICE, "device %d", device);
    fake_current = device;
    RETURN
}

// ---- memory

static size_t fake_used[DEVICES];

EXPORT int hipMemGetInfo(size_t *free_bytes, size_t *total) {
    CALL("hipMemGetInfo")
    *total = total_bytes();
    *free_bytes = *total - fake_used[fake_current];
    RETURN
}

EXPORT int hipMalloc(void **pointer, size_t nbytes) {
    CALL("hipMalloc")
    if (fake_sticky[fake_current]) { code = fake_sticky[fake_current]; goto out; }
    if (!nbytes) FAIL(INVALID_VALUE, "no bytes");
    if (nbytes > total_bytes() - fake_used[fake_current]) { code = OUT_OF_MEMORY; goto out; }
    uint8_t *block = aligned_alloc(256, (nbytes + 2 * MARGIN + 255) & ~(size_t)255);
    Memory *memory = make(sizeof *memory, MEMORY, fake_current);
    memory->start = block + MARGIN;
    memory->nbytes = nbytes;
    memset(block, 0xa5, MARGIN);
    memset(memory->start, 0xcd, nbytes < 1 << 20 ? nbytes : 1 << 20);  // undefined: never zeros by chance
    memset(memory->start + nbytes, 0xa5, MARGIN);
    fake_used[fake_current] += nbytes;
    *pointer = memory->start;
    RETURN
}

EXPORT int hipFree(void *pointer) {
    CALL("hipFree")
    run_everything();
    Memory *memory = memory_of(pointer, 0, fake_current);
    if (!memory || memory->start != pointer) FAIL(INVALID_VALUE, "%p is no memory of device %d", pointer, fake_current);
    for (int i = 0; i < MARGIN; i++)
        if (memory->start[i - MARGIN] != 0xa5 || memory->start[memory->nbytes + i] != 0xa5) {
            violation(here, "something was written outside of %zu bytes", memory->nbytes);
            break;
        }
    fake_used[fake_current] -= memory->nbytes;
    free(memory->start - MARGIN);
    destroy(memory);
    RETURN
}

static void run_copy(Op *op) {
    Copy *copy = (Copy *)op;
    memmove(copy->target, copy->source, copy->nbytes);
}

static int copy(const char *here, void *target, const void *source, size_t nbytes, int to, int from, Stream *handle) {
    int code = 0;
    Stream *stream = find(handle, STREAM);
    if (!stream) FAIL(INVALID_HANDLE, "no stream");
    if (stream->object.device != fake_current) FAIL(INVALID_HANDLE, "the stream is another device's");
    if (fake_sticky[fake_current]) return fake_sticky[fake_current];
    if (to >= 0 && !memory_of(target, nbytes, to)) FAIL(INVALID_VALUE, "target is not %zu bytes of device %d", nbytes, to);
    if (from >= 0 && !memory_of(source, nbytes, from)) FAIL(INVALID_VALUE, "source is not %zu bytes of %d", nbytes, from);
    if (stream->capturing) FAIL(CAPTURE_UNSUPPORTED, "while capturing");
    Copy *made = calloc(1, sizeof *made);
    made->op.run = run_copy;
    made->target = target;
    made->source = source;
    made->nbytes = nbytes;
    queue(stream, &made->op);
out:
    return code;
}

EXPORT int hipMemcpyHtoDAsync(void *target, const void *source, size_t nbytes, void *stream) {
    CALL("hipMemcpyHtoDAsync")
    code = copy(here, target, source, nbytes, fake_current, -1, stream);
    RETURN
}

EXPORT int hipMemcpyDtoHAsync(void *target, const void *source, size_t nbytes, void *stream) {
    CALL("hipMemcpyDtoHAsync")
    code = copy(here, target, source, nbytes, -1, fake_current, stream);
    RETURN
}

EXPORT int hipMemcpyPeerAsync(void *target, int to, const void *source, int from, size_t nbytes, void *stream) {
    CALL("hipMemcpyPeerAsync")
    code = copy(here, target, source, nbytes, to, from, stream);
    RETURN
}

EXPORT int hipDeviceCanAccessPeer(int *can, int device, int peer) {
    CALL("hipDeviceCanAccessPeer")
    if (device == peer) FAIL(INVALID_DEVICE, "a device is no peer of its own");
    *can = 1;
    RETURN
}

EXPORT int hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    CALL("hipDeviceEnablePeerAccess")
    static int enabled[DEVICES][DEVICES];
    if (peer == fake_current || flags) FAIL(INVALID_DEVICE, "device %d to %d", fake_current, peer);
    code = enabled[fake_current][peer] ? 704 : 0;
    enabled[fake_current][peer] = 1;
    RETURN
}

// ---- streams

EXPORT int hipStreamCreateWithFlags(void **stream, unsigned flags) {
    CALL("hipStreamCreateWithFlags")
    if (flags != 1) FAIL(INVALID_VALUE, "flags %u: the stream would wait for the default one", flags);
    Stream *made = make(sizeof *made, STREAM, fake_current);
    made->last = &made->first;
    *stream = made;
    RETURN
}

EXPORT int hipStreamDestroy(Stream *handle) {
    CALL("hipStreamDestroy")
    Stream *stream = find(handle, STREAM);
    if (!stream) FAIL(INVALID_HANDLE, "no stream");
    if (stream->first) violation(here, "there is work in it");
    run_stream(stream);
    destroy(stream);
    RETURN
}

EXPORT int hipStreamSynchronize(Stream *handle) {
    CALL("hipStreamSynchronize")
    Stream *stream = find(handle, STREAM);
    if (!stream) FAIL(INVALID_HANDLE, "no stream");
    if (stream->capturing) FAIL(CAPTURE_UNSUPPORTED, "while capturing");
    run_stream(stream);
    code = fake_sticky[stream->object.device];
    RETURN
}

static void run_mark(Op *op) {
    Mark *mark = (Mark *)op;
    static double now;
    mark->event->done = mark->version;
    mark->event->time = now += 1e-2;
}

static void run_wait(Op *op) {
    Mark *mark = (Mark *)op;
    while (mark->event->done < mark->version && run_next(mark->stream)) {}
}

static void queue_mark(Stream *stream, Event *event, void (*run)(Op *)) {
    Mark *mark = calloc(1, sizeof *mark);
    mark->op.run = run;
    mark->op.uses = &event->object;
    mark->event = event;
    mark->version = event->recorded;
    mark->stream = event->stream;
    queue(stream, &mark->op);
}

EXPORT int hipStreamWaitEvent(Stream *handle, Event *event_handle, unsigned flags) {
    CALL("hipStreamWaitEvent")
    Stream *stream = find(handle, STREAM);
    Event *event = find(event_handle, EVENT);
    if (!stream || !event || flags) FAIL(INVALID_HANDLE, "no stream, or no event");
    if (stream->capturing) FAIL(CAPTURE_UNSUPPORTED, "while capturing");
    if (!event->recorded) FAIL(INVALID_VALUE, "the event was never recorded, so this waits for nothing");
    queue_mark(stream, event, run_wait);
    RETURN
}

// ---- events

EXPORT int hipEventCreateWithFlags(void **event, unsigned flags) {
    CALL("hipEventCreateWithFlags")
    Event *made = make(sizeof *made, EVENT, fake_current);
    made->flags = flags;
    *event = made;
    RETURN
}

EXPORT int hipEventDestroy(Event *handle) {
    CALL("hipEventDestroy")
    if (!find(handle, EVENT)) FAIL(INVALID_HANDLE, "no event");
    if (in_use(&handle->object)) FAIL(INVALID_HANDLE, "queued work needs it");
    destroy(handle);
    RETURN
}

EXPORT int hipEventRecord(Event *handle, Stream *stream_handle) {
    CALL("hipEventRecord")
    Stream *stream = find(stream_handle, STREAM);
    Event *event = find(handle, EVENT);
    if (!stream || !event) FAIL(INVALID_HANDLE, "no stream, or no event");
    if (stream->object.device != event->object.device) FAIL(INVALID_HANDLE, "event and stream are of two devices");
    if (stream->object.device != fake_current) FAIL(INVALID_HANDLE, "the stream is another device's");
    if (stream->capturing) FAIL(CAPTURE_UNSUPPORTED, "while capturing");
    event->stream = stream;
    event->recorded++;
    event->looks = 0;
    queue_mark(stream, event, run_mark);
    RETURN
}

EXPORT int hipEventQuery(Event *handle) {
    CALL("hipEventQuery")
    Event *event = find(handle, EVENT);
    if (!event) FAIL(INVALID_HANDLE, "no event");
    if (!event->recorded) FAIL(INVALID_VALUE, "it was never recorded");
    if (++event->looks > 3)  // time passes
        while (event->done < event->recorded && run_next(event->stream)) {}
    code = fake_sticky[event->object.device];
    if (!code && event->done < event->recorded) code = NOT_READY;
    RETURN
}

EXPORT int hipEventSynchronize(Event *handle) {
    CALL("hipEventSynchronize")
    Event *event = find(handle, EVENT);
    if (!event) FAIL(INVALID_HANDLE, "no event");
    while (event->done < event->recorded && run_next(event->stream)) {}
    code = fake_sticky[event->object.device];
    RETURN
}

EXPORT int hipEventElapsedTime(float *milliseconds, Event *start, Event *stop) {
    CALL("hipEventElapsedTime")
    if (!find(start, EVENT) || !find(stop, EVENT)) FAIL(INVALID_HANDLE, "no event");
    if ((start->flags | stop->flags) & 2) FAIL(INVALID_HANDLE, "an event that takes no time");
    if (start->done < start->recorded || stop->done < stop->recorded) FAIL(NOT_READY, "not complete");
    *milliseconds = (float)(stop->time - start->time);
    RETURN
}
