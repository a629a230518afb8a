// Code objects, launches and graphs.
#undef _FORTIFY_SOURCE  // whose longjmp takes another stack for a mistake
#include "fake.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <ucontext.h>

enum { STACK_BYTES = 256 << 10, MAX_THREADS = 1024 };

typedef struct Module { Object object; void *library; int threads, barriers; } Module;
typedef struct Function { Object object; Module *module; const unsigned *sizes; void (*call)(void **); } Function;
typedef struct Launch {
    Op op;
    Function *function;
    unsigned groups[3], threads[3];
    uint64_t values[MAX_ARGS];
} Launch;
typedef struct Graph { Object object; Op *first; } Graph;
typedef struct Play { Op op; Graph *graph; } Play;

EXPORT int hipModuleLoadData(void **module, const char *image) {
    CALL("hipModuleLoadData")
    char arch[64], path[600];
    int threads, barriers;
    if (sscanf(image, "FAKE %63s %d %d %599s", arch, &threads, &barriers, path) != 4) { code = INVALID_IMAGE; goto out; }
    if (strcmp(arch, arch_of(fake_current))) { code = NO_BINARY; goto out; }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) FAIL(INVALID_IMAGE, "%s", dlerror());
    Module *made = make(sizeof *made, MODULE, fake_current);
    made->library = library;
    made->threads = threads;
    made->barriers = barriers;
    *module = made;
    RETURN
}

EXPORT int hipModuleUnload(Module *handle) {
    CALL("hipModuleUnload")
    Module *module = find(handle, MODULE);
    if (!module) FAIL(INVALID_HANDLE, "no module");
    if (in_use(&module->object)) FAIL(INVALID_HANDLE, "queued work needs it");
    dlclose(module->library);
    destroy(module);
    RETURN
}

EXPORT int hipModuleGetFunction(void **function, Module *handle, const char *name) {
    CALL("hipModuleGetFunction")
    Module *module = find(handle, MODULE);
    if (!module) FAIL(INVALID_HANDLE, "no module");
    if (strcmp(name, "zyx_kernel")) { code = NOT_FOUND; goto out; }
    Function *made = make(sizeof *made, FUNCTION, module->object.device);
    made->module = module;
    made->sizes = ((const unsigned *(*)(void))dlsym(module->library, "fake_describe"))();
    made->call = (void (*)(void **))dlsym(module->library, "fake_call");
    *function = made;
    RETURN
}

EXPORT int hipFuncGetAttribute(int *value, int attribute, Function *function) {
    CALL("hipFuncGetAttribute")
    if (!find(function, FUNCTION)) FAIL(INVALID_HANDLE, "no function");
    *value = attribute == 0 ? function->module->threads : 0;
    RETURN
}

// ---- the threads of a group, meeting at barriers

// A context starts each thread on its stack; from then on jumps switch, which need no system call as contexts do.
static ucontext_t contexts[MAX_THREADS];
static jmp_buf scheduler, places[MAX_THREADS];
static char *stacks;
enum { BARRIER = 1, PERMUTE = 2 };  // where threads meet
static int met_at[MAX_THREADS], started[MAX_THREADS], ended[MAX_THREADS], current_thread;
static int given[2][MAX_THREADS], times[MAX_THREADS];  // to the others of a wave, this time and the last; how often
static Launch *current_launch;
static unsigned (*current_index)[3];

static void call_kernel(void) {
    Launch *launch = current_launch;
    void *pointers[MAX_ARGS];
    for (unsigned i = 0; i < launch->function->sizes[0]; i++) pointers[i] = &launch->values[i];
    launch->function->call(pointers);
}

static void thread_main(void) {
    call_kernel();
    ended[current_thread] = 1;
    _longjmp(scheduler, 1);
}

static void resume(int thread) {
    if (_setjmp(scheduler)) return;
    if (started[thread]) _longjmp(places[thread], 1);
    started[thread] = 1;
    setcontext(&contexts[thread]);
}

static void set_thread(unsigned number, const unsigned *shape) {
    (*current_index)[0] = number % shape[0];
    (*current_index)[1] = number / shape[0] % shape[1];
    (*current_index)[2] = number / (shape[0] * shape[1]);
}

static void meet(int where) {
    int thread = current_thread;
    met_at[thread] = where;
    if (!_setjmp(places[thread])) _longjmp(scheduler, 1);
    set_thread(thread, current_launch->threads);
}

static void barrier(void) { meet(BARRIER); }

static int wave(void) { return current_launch->op.device ? 32 : 64; }

static unsigned lane(void) { return current_thread % wave(); }

static int permute(int from, int value) {
    const unsigned *shape = current_launch->threads;
    int thread = current_thread, other = thread - (int)lane() + from, now = times[thread]++ & 1;
    given[now][thread] = value;
    meet(PERMUTE);
    if (from < 0 || from >= wave() || other >= (int)(shape[0] * shape[1] * shape[2])) {
        violation("a kernel", "thread %d takes the value of lane %d, which is not there", thread, from);
        return 0;
    }
    return given[now][other];
}

static void run_group(Launch *launch, int count, int group) {
    if (!stacks) stacks = malloc((size_t)STACK_BYTES * MAX_THREADS);
    for (int i = 0; i < count; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks + (size_t)STACK_BYTES * i;
        contexts[i].uc_stack.ss_size = STACK_BYTES;
        contexts[i].uc_link = NULL;
        makecontext(&contexts[i], thread_main, 0);
        started[i] = ended[i] = times[i] = 0;
    }
    for (int left = count, round = group; left; round++) {
        int met = 0, where = 0;
        left = 0;
        for (int i = 0; i < count; i++) {
            int thread = round & 1 ? count - 1 - i : i;  // the order must not matter
            if (ended[thread]) continue;
            met_at[thread] = 0;
            current_thread = thread;
            set_thread(thread, launch->threads);
            resume(thread);
            met += met_at[thread] != 0;
            where |= met_at[thread];
        }
        if (met && met != count) violation("a kernel", "%d of %d threads of a group meet at a barrier", met, count);
        if (where == (BARRIER | PERMUTE)) violation("a kernel", "threads of a group meet at different places");
        left = met;
    }
}

static void run_launch(Op *op) {
    Launch *launch = (Launch *)op;
    Module *module = launch->function->module;
    const unsigned *sizes = launch->function->sizes, *groups = launch->groups, *shape = launch->threads;
    for (unsigned i = 0; i < sizes[0]; i++)
        if (sizes[i + 1] & 256 && !memory_of((void *)launch->values[i], 0, op->device)) {
            violation("a kernel", "argument %u is no memory of its device", i);
            fake_sticky[op->device] = ILLEGAL_ADDRESS;
            return;
        }
    unsigned(*group)[3] = dlsym(module->library, "fake_group");
    current_index = dlsym(module->library, "fake_thread");
    *(void (**)(void))dlsym(module->library, "fake_barrier") = barrier;
    *(unsigned (**)(void))dlsym(module->library, "fake_lane") = lane;
    *(int (**)(int, int))dlsym(module->library, "fake_permute") = permute;
    current_launch = launch;
    unsigned count = shape[0] * shape[1] * shape[2];
    unsigned long total = (unsigned long)groups[0] * groups[1] * groups[2];
    for (unsigned long i = 0; i < total; i++) {
        unsigned long number = launch->groups[0] & 1 ? total - 1 - i : i;  // in any order
        (*group)[0] = number % groups[0];
        (*group)[1] = number / groups[0] % groups[1];
        (*group)[2] = number / groups[0] / groups[1];
        if (module->barriers)
            run_group(launch, count, (int)i);
        else
            for (unsigned thread = 0; thread < count; thread++) {
                set_thread(thread, shape);
                call_kernel();
            }
    }
}

EXPORT int hipModuleLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned tx, unsigned ty, unsigned tz,
                                 unsigned shared, Stream *handle, void **arguments, void **extra) {
    CALL("hipModuleLaunchKernel")
    Stream *stream = find(handle, STREAM);
    if (!stream || !find(function, FUNCTION) || !find(function->module, MODULE))
        FAIL(INVALID_HANDLE, "no stream, no function, or its module was unloaded");
    if (stream->object.device != fake_current || function->object.device != fake_current)
        FAIL(INVALID_HANDLE, "function, stream and current device are not one");
    if (fake_sticky[fake_current]) { code = fake_sticky[fake_current]; goto out; }
    unsigned long threads = (unsigned long)tx * ty * tz;
    if (!gx || !gy || !gz || !threads || threads > 1024 || shared || extra || (uint64_t)gx * tx >= 1ul << 32)
        FAIL(INVALID_VALUE, "groups %u %u %u of %u %u %u", gx, gy, gz, tx, ty, tz);
    if ((int)threads != function->module->threads) FAIL(INVALID_VALUE, "%lu threads, compiled for others", threads);
    const unsigned *sizes = function->sizes;
    if (sizes[0] > MAX_ARGS) FAIL(INVALID_VALUE, "%u arguments", sizes[0]);
    Launch *launch = calloc(1, sizeof *launch);
    launch->op.run = run_launch;
    launch->op.uses = &function->module->object;
    launch->function = function;
    memcpy(launch->groups, (unsigned[]){gx, gy, gz}, 12);
    memcpy(launch->threads, (unsigned[]){tx, ty, tz}, 12);
    for (unsigned i = 0; i < sizes[0]; i++) {
        memcpy(&launch->values[i], arguments[i], sizes[i + 1] & 255);
        if (sizes[i + 1] & 256 && !memory_of((void *)launch->values[i], 1, fake_current))
            violation(here, "argument %u is no memory of device %d", i, fake_current);
    }
    queue(stream, &launch->op);
    RETURN
}

// ---- graphs

EXPORT int hipStreamBeginCapture(Stream *handle, int mode) {
    CALL("hipStreamBeginCapture")
    Stream *stream = find(handle, STREAM);
    if (!stream || stream->capturing || mode != 1) FAIL(INVALID_HANDLE, "no stream, or capturing already");
    stream->capturing = 1;
    stream->captured = NULL;
    stream->captured_last = &stream->captured;
    RETURN
}

EXPORT int hipStreamEndCapture(Stream *handle, void **graph) {
    CALL("hipStreamEndCapture")
    Stream *stream = find(handle, STREAM);
    if (!stream || !stream->capturing) FAIL(INVALID_HANDLE, "not capturing");
    stream->capturing = 0;
    Graph *made = make(sizeof *made, GRAPH, stream->object.device);
    made->first = stream->captured;
    *graph = made;
    RETURN
}

EXPORT int hipGraphDestroy(Graph *handle) {
    CALL("hipGraphDestroy")
    if (!find(handle, GRAPH)) FAIL(INVALID_HANDLE, "no graph");
    destroy(handle);  // its operations went to what was made of it
    RETURN
}

EXPORT int hipGraphInstantiate(void **made, Graph *handle, void *node, char *log, size_t nbytes) {
    CALL("hipGraphInstantiate")
    Graph *graph = find(handle, GRAPH);
    if (!graph || node || log || nbytes) FAIL(INVALID_HANDLE, "no graph");
    Graph *exec = make(sizeof *exec, EXEC, graph->object.device);
    exec->first = graph->first;
    *made = exec;
    RETURN
}

static void run_graph(Op *op) {
    for (Op *step = ((Play *)op)->graph->first; step; step = step->next)
        if (!fake_sticky[op->device]) step->run(step);
}

EXPORT int hipGraphLaunch(Graph *handle, Stream *stream_handle) {
    CALL("hipGraphLaunch")
    Graph *graph = find(handle, EXEC);
    Stream *stream = find(stream_handle, STREAM);
    if (!graph || !stream || stream->capturing) FAIL(INVALID_HANDLE, "no graph, or no stream");
    if (graph->object.device != stream->object.device || stream->object.device != fake_current)
        FAIL(INVALID_HANDLE, "graph, stream and current device are not one");
    if (fake_sticky[fake_current]) { code = fake_sticky[fake_current]; goto out; }
    for (Op *step = graph->first; step; step = step->next)
        if (step->uses && !find(step->uses, MODULE)) violation(here, "a code object of it was unloaded");
    Play *play = calloc(1, sizeof *play);
    play->op.run = run_graph;
    play->op.uses = &graph->object;
    play->graph = graph;
    queue(stream, &play->op);
    RETURN
}

EXPORT int hipGraphExecDestroy(Graph *handle) {
    CALL("hipGraphExecDestroy")
    if (!find(handle, EXEC)) FAIL(INVALID_HANDLE, "no graph");
    if (in_use(&handle->object)) FAIL(INVALID_HANDLE, "it is queued");
    for (Op *step = handle->first, *next; step; step = next) {
        next = step->next;
        free(step);
    }
    destroy(handle);
    RETURN
}
