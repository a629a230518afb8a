// libhiprtc: compiles for the CPU, with the command in FAKE_HIP_CXX; code objects lie in FAKE_HIP_FOLDER, by what they are of.
#include "fake.h"
#include <sys/stat.h>
#include <unistd.h>

typedef struct Program {
    Object object;
    char *source, *code, log[8192];
    size_t code_bytes;
    int compiled;
} Program;

static uint64_t hash(const char *text) {
    uint64_t value = 1469598103934665603u;
    for (; *text; text++) value = (value ^ (uint8_t)*text) * 1099511628211u;
    return value;
}

static char *read_file(const char *path, size_t *nbytes) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *nbytes = ftell(file);
    rewind(file);
    char *text = calloc(1, *nbytes + 1);
    if (fread(text, 1, *nbytes, file) != *nbytes) *nbytes = 0;
    fclose(file);
    return text;
}

EXPORT int hiprtcVersion(int *major, int *minor) { CALL("hiprtcVersion") *major = 6; *minor = 3; RETURN }

EXPORT int hiprtcCreateProgram(void **program, const char *source, const char *name, int headers, char **texts, char **names) {
    CALL("hiprtcCreateProgram")
    if (!source || headers || texts || names || !name) FAIL(3, "arguments");
    Program *made = make(sizeof *made, PROGRAM, 0);
    made->source = strdup(source);
    *program = made;
    RETURN
}

EXPORT int hiprtcDestroyProgram(Program **handle) {
    CALL("hiprtcDestroyProgram")
    Program *program = find(*handle, PROGRAM);
    if (!program) FAIL(4, "no program");
    free(program->source);
    free(program->code);
    destroy(program);
    *handle = NULL;
    RETURN
}

EXPORT int hiprtcCompileProgram(Program *handle, int count, const char **options) {
    CALL("hiprtcCompileProgram")
    Program *program = find(handle, PROGRAM);
    if (!program) FAIL(4, "no program");
    const char *arch = NULL;
    for (int i = 0; i < count; i++)
        if (!strncmp(options[i], "--offload-arch=", 15)) arch = options[i] + 15;
    if (!arch) FAIL(5, "no architecture");
    const char *folder = getenv("FAKE_HIP_FOLDER"), *compiler = getenv("FAKE_HIP_CXX");
    char base[512], path[600], command[4096];
    snprintf(base, sizeof base, "%s/%016lx", folder, (unsigned long)hash(program->source));
    snprintf(path, sizeof path, "%s.hip.%d", base, (int)getpid());
    FILE *file = fopen(path, "w");
    fputs(program->source, file);
    fclose(file);
    snprintf(command, sizeof command, "%s.hip", base);
    rename(path, command);  // whole, for a process beside this one
    snprintf(path, sizeof path, "%s.so", base);
    if (access(path, R_OK)) {
        pthread_mutex_unlock(&fake_lock);
        snprintf(command, sizeof command, "%s %s %s.%d > %s.log 2>&1 && mv %s.%d %s.so", compiler, base, base, (int)getpid(), base,
                 base, (int)getpid(), base);
        int status = system(command);
        pthread_mutex_lock(&fake_lock);
        if (status) {
            size_t nbytes;
            snprintf(path, sizeof path, "%s.log", base);
            char *text = read_file(path, &nbytes);
            snprintf(program->log, sizeof program->log, "%s", text ? text : "");
            free(text);
            code = 6;
            goto out;
        }
    }
    const char *bounds = strstr(program->source, "amdgpu_flat_work_group_size(");
    int threads = bounds ? atoi(strchr(bounds, '(') + 1) : 0;
    int barriers = strstr(program->source, "    zyx_barrier();") || strstr(program->source, " = zyx_swap(");
    program->code = calloc(1, 1024);
    program->code_bytes = 1 + snprintf(program->code, 1024, "FAKE %s %d %d %s", arch, threads, barriers, path);
    program->compiled = 1;
    RETURN
}

EXPORT int hiprtcGetProgramLogSize(Program *program, size_t *nbytes) {
    CALL("hiprtcGetProgramLogSize")
    if (!find(program, PROGRAM)) FAIL(4, "no program");
    *nbytes = strlen(program->log) + 1;
    RETURN
}

EXPORT int hiprtcGetProgramLog(Program *program, char *log) {
    CALL("hiprtcGetProgramLog")
    if (!find(program, PROGRAM)) FAIL(4, "no program");
    strcpy(log, program->log);
    RETURN
}

EXPORT int hiprtcGetCodeSize(Program *program, size_t *nbytes) {
    CALL("hiprtcGetCodeSize")
    if (!find(program, PROGRAM) || !program->compiled) FAIL(4, "nothing compiled");
    *nbytes = program->code_bytes;
    RETURN
}

EXPORT int hiprtcGetCode(Program *program, char *target) {
    CALL("hiprtcGetCode")
    if (!find(program, PROGRAM) || !program->compiled) FAIL(4, "nothing compiled");
    memcpy(target, program->code, program->code_bytes);
    RETURN
}
