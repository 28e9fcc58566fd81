/* driver.c of the fake: libcuda. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

typedef struct { fake_op *ops; size_t count, room; } op_list;

struct cu_function_ { const char *name; void (*kernel)(const void *); unsigned bytes; int shared; };
struct cu_stream_ { op_list waiting; op_list *recording; };
struct cu_event_ { cu_stream stream; size_t done; }; /* how many of the stream's ops it waits for */
struct cu_graph_ { op_list list; };
struct cu_exec_ { op_list list; };
struct cu_context_ { int users; };

static struct cu_context_ the_context;
static __thread cu_context current;
static int initialized, lost;
static size_t held;
static long allocs_seen, launches_seen;
typedef struct { void *p; size_t bytes; } fake_piece;
static fake_piece pieces[4096];

enum { fake_total = 1 << 30, most_ops = 256 };

long fake_number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

void fake_note(const char *line, long number) {
    const char *path = getenv("FAKE_LOG");
    int fd = path && *path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0644) : -1;
    if (fd < 0) return;
    dprintf(fd, "%s %ld\n", line, number);
    close(fd);
}

/* What all processes on this card hold, this one included. */
static size_t everyone(long change) {
    static long alone, *sum;
    if (!sum) {
        const char *path = getenv("FAKE_CARD");
        int fd = path && *path ? open(path, O_RDWR | O_CREAT, 0644) : -1;
        void *shared = fd >= 0 && ftruncate(fd, sizeof *sum) == 0 ? mmap(NULL, sizeof *sum, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
        if (fd >= 0) close(fd);
        sum = shared == MAP_FAILED ? &alone : shared;
    }
    return (size_t)__atomic_add_fetch(sum, change, __ATOMIC_RELAXED);
}

#define READY()                                        \
    do {                                               \
        if (!initialized) return fake_not_initialized; \
        if (lost) return lost;                         \
        if (!current) return fake_no_context;          \
    } while (0)

/* ---- work ---- */

static int add(op_list *l, const fake_op *op) {
    if (l->count == l->room) {
        fake_op *more = realloc(l->ops, (2 * l->room + 16) * sizeof *more);
        if (!more) return cu_out_of_memory;
        l->ops = more;
        l->room = 2 * l->room + 16;
    }
    l->ops[l->count++] = *op;
    return cu_ok;
}

static float number(const fake_product *p, const void *base, size_t i) {
    if (!p->bf16) return ((const float *)base)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)base)[i] << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static void multiply(const fake_product *p) {
    for (int j = 0; j < p->cols; j++)
        for (int i = 0; i < p->rows; i++) {
            float sum = 0, *to = p->c + (size_t)j * p->ldc + i;
            for (int k = 0; k < p->K; k++)
                sum += number(p, p->a, p->trans_a ? (size_t)i * p->lda + k : (size_t)k * p->lda + i) *
                       number(p, p->b, p->trans_b ? (size_t)k * p->ldb + j : (size_t)j * p->ldb + k);
            *to = p->add ? *to + sum : sum;
        }
}

/* Whether a kernel is the one that FAKE_LAUNCH or FAKE_INTERRUPT wait for. */
static int counted(const char *name) {
    const char *begin = getenv("FAKE_KERNEL");
    return !begin || strncmp(name, begin, strlen(begin)) == 0;
}

static int run_kernel(fake_op *op) {
    static simt_blocks_fn *blocks;
    char error[256] = "";
    if (!blocks) *(void **)&blocks = dlsym(dlopen(getenv("FAKE_KERNELS"), RTLD_NOW | RTLD_LOCAL), "simt_blocks");
    if (counted(op->job.name)) {
        if (++launches_seen == fake_number("FAKE_LAUNCH", 0)) {
            fake_note("lost at launch", launches_seen);
            return fake_lost;
        }
        if (launches_seen == fake_number("FAKE_INTERRUPT", 0)) {
            fake_note("interrupt at launch", launches_seen);
            kill(getpid(), SIGINT);
        }
    }
    op->job.args = op->args;
    if (blocks(&op->job, 0, (uint64_t)op->job.grid[0] * op->job.grid[1] * op->job.grid[2], error) == 0) return cu_ok;
    fprintf(stderr, "fake card: %s\n", error);
    return fake_lost;
}

static int run(fake_op *op) {
    switch (op->kind) {
    case op_copy: memmove(op->to, op->from, op->bytes); return cu_ok;
    case op_fill:
        for (size_t r = 0; r < op->rows; r++)
            for (size_t i = 0; i < op->bytes; i++) op->to[r * op->pitch + i] = (char)(op->word >> 8 * (i % 4));
        return cu_ok;
    case op_kernel: return run_kernel(op);
    case op_product: multiply(&op->product); return cu_ok;
    }
    return cu_invalid_value;
}

/* Does what waits; a failure is told by every later call. */
static int drain(cu_stream s) {
    for (size_t i = 0; i < s->waiting.count && !lost; i++) lost = run(&s->waiting.ops[i]);
    s->waiting.count = 0;
    return lost;
}

int fake_ask(cu_stream s, const fake_op *op) {
    READY();
    if (s->recording) return add(s->recording, op);
    int result = add(&s->waiting, op);
    return result == cu_ok && s->waiting.count >= most_ops ? drain(s) : result;
}

/* ---- the driver ---- */

EXPORT int cuInit(unsigned flags) {
    initialized = 1;
    return (int)flags;
}

EXPORT int cuDriverGetVersion(int *version) {
    *version = (int)fake_number("FAKE_VERSION", 12040);
    return cu_ok;
}

EXPORT int cuGetErrorName(int error, const char **text) {
    *text = error == fake_lost ? "CUDA_ERROR_LAUNCH_FAILED" : error == cu_out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
    return cu_ok;
}

EXPORT int cuGetErrorString(int error, const char **text) {
    *text = error == fake_lost ? "unspecified launch failure" : error == cu_out_of_memory ? "out of memory" : "what the number says";
    return cu_ok;
}

EXPORT int cuDeviceGetCount(int *count) {
    *count = (int)fake_number("FAKE_CARDS", 1);
    return initialized ? cu_ok : fake_not_initialized;
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return cu_ok;
}

EXPORT int cuDeviceGetName(char *name, int room, int device) {
    snprintf(name, (size_t)room, "Fake card %d", device);
    return cu_ok;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    int sm = (int)fake_number("FAKE_SM", 90);
    switch (attribute) {
    case cu_major: *value = sm / 10; break;
    case cu_minor: *value = sm % 10; break;
    case cu_multiprocessors: *value = 2; break;
    case cu_memory_khz: *value = 1000; break;
    case cu_bus_bits: *value = 64; break;
    case cu_most_shared: *value = 227 << 10; break;
    default: return cu_invalid_value;
    }
    return cu_ok;
}

EXPORT int cuDevicePrimaryCtxRetain(cu_context *context, int device) {
    (void)device;
    if (fake_number("FAKE_TOTAL", fake_total) <= fake_number("FAKE_OTHERS", 0) + (long)everyone(0)) return cu_out_of_memory;
    if (the_context.users++ == 0) allocs_seen = launches_seen = 0, lost = 0;
    *context = &the_context;
    return cu_ok;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    if (the_context.users == 0) return fake_no_context;
    if (--the_context.users) return cu_ok;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        free(pieces[i].p);
        pieces[i] = (fake_piece){0};
    }
    fake_note("release with bytes left", (long)held);
    everyone(-(long)held);
    held = 0;
    lost = 0;
    return cu_ok;
}

EXPORT int cuCtxSetCurrent(cu_context context) {
    current = context;
    return lost;
}

/* ---- memory ---- */

EXPORT int cuMemGetInfo_v2(size_t *left, size_t *total) {
    READY();
    *total = (size_t)fake_number("FAKE_TOTAL", fake_total);
    *left = *total - MIN(*total, everyone(0) + (size_t)fake_number("FAKE_OTHERS", 0));
    return cu_ok;
}

EXPORT int cuMemAlloc_v2(cu_pointer *out, size_t bytes) {
    size_t left, total, i = 0;
    int result = cuMemGetInfo_v2(&left, &total);
    if (result != cu_ok) return result;
    allocs_seen++;
    while (i < sizeof pieces / sizeof *pieces && pieces[i].p) i++;
    void *p = bytes <= left && allocs_seen != fake_number("FAKE_ALLOC", 0) && i < sizeof pieces / sizeof *pieces ? aligned_alloc(512, (bytes + 511) / 512 * 512) : NULL;
    fake_note(p ? "alloc" : "no alloc", (long)bytes);
    if (!p) return cu_out_of_memory;
    memset(p, 0xff, bytes);
    pieces[i] = (fake_piece){p, bytes};
    held += bytes;
    everyone((long)bytes);
    *out = (cu_pointer)(uintptr_t)p;
    return cu_ok;
}

EXPORT int cuMemFree_v2(cu_pointer p) {
    READY();
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        if (pieces[i].p != (void *)(uintptr_t)p) continue;
        fake_note("free", (long)pieces[i].bytes);
        held -= pieces[i].bytes;
        everyone(-(long)pieces[i].bytes);
        free(pieces[i].p);
        pieces[i] = (fake_piece){0};
        return cu_ok;
    }
    return cu_invalid_value;
}

EXPORT int cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
    READY();
    *p = calloc(1, bytes);
    return *p && flags == 0 ? cu_ok : cu_out_of_memory;
}

EXPORT int cuMemFreeHost(void *p) {
    free(p);
    return lost;
}

static int copy(cu_stream s, void *to, const void *from, size_t bytes) {
    return fake_ask(s, &(fake_op){.kind = op_copy, .to = to, .from = from, .bytes = bytes});
}

EXPORT int cuMemcpyHtoDAsync_v2(cu_pointer to, const void *from, size_t bytes, cu_stream s) { return copy(s, (void *)(uintptr_t)to, from, bytes); }
EXPORT int cuMemcpyDtoHAsync_v2(void *to, cu_pointer from, size_t bytes, cu_stream s) { return copy(s, to, (void *)(uintptr_t)from, bytes); }
EXPORT int cuMemcpyDtoDAsync_v2(cu_pointer to, cu_pointer from, size_t bytes, cu_stream s) {
    return copy(s, (void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
}

EXPORT int cuMemsetD2D32Async(cu_pointer p, size_t pitch, unsigned word, size_t w, size_t h, cu_stream s) {
    return fake_ask(s, &(fake_op){.kind = op_fill, .to = (char *)(uintptr_t)p, .bytes = 4 * w, .pitch = pitch, .rows = h, .word = word});
}

EXPORT int cuMemsetD32Async(cu_pointer p, unsigned word, size_t words, cu_stream s) { return cuMemsetD2D32Async(p, 0, word, words, 1, s); }

EXPORT int cuMemsetD8Async(cu_pointer p, unsigned char byte, size_t bytes, cu_stream s) {
    return fake_ask(s, &(fake_op){.kind = op_fill, .to = (char *)(uintptr_t)p, .bytes = bytes, .rows = 1, .word = byte * 0x01010101u});
}

/* ---- modules, launches ---- */

EXPORT int cuModuleLoadData(cu_module *module, const void *image) {
    READY();
    if (memcmp(image, "FAKE", 4) && memcmp(image, "\x7f" "ELF", 4)) return fake_no_image;
    *module = dlopen(getenv("FAKE_KERNELS"), RTLD_NOW | RTLD_LOCAL);
    return *module ? cu_ok : fake_no_image;
}

EXPORT int cuModuleUnload(cu_module module) {
    (void)module; /* stays open: threads that ran kernels keep memory of it */
    return lost;
}

EXPORT int cuModuleGetFunction(cu_function *f, cu_module module, const char *name) {
    static struct cu_function_ functions[kernel_count];
    char size[128];
    READY();
    snprintf(size, sizeof size, "%s_bytes", name);
    const unsigned *bytes = dlsym(module, size);
    void *kernel = dlsym(module, name);
    if (!bytes || !kernel) return fake_not_found;
    for (int i = 0; i < kernel_count; i++) {
        if (functions[i].name && strcmp(functions[i].name, name)) continue;
        if (!functions[i].name) functions[i].name = strdup(name);
        *(void **)&functions[i].kernel = kernel;
        functions[i].bytes = *bytes;
        functions[i].shared = 48 << 10;
        *f = &functions[i];
        return cu_ok;
    }
    return fake_not_found;
}

EXPORT int cuFuncSetAttribute(cu_function f, int attribute, int value) {
    READY();
    if (attribute != cu_func_shared || value > 227 << 10) return cu_invalid_value;
    f->shared = value;
    return cu_ok;
}

EXPORT int cuLaunchKernel(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                          cu_stream s, void **params, void **extra) {
    READY();
    fake_op op = {.kind = op_kernel, .job = {.name = f->name, .kernel = f->kernel, .grid = {gx, gy, gz}, .threads = bx, .shared = shared}};
    if (!gx || !gy || !gz || bx > 1024 || by != 1 || bz != 1 || (int)shared > f->shared || extra || f->bytes > sizeof op.args || gy > 65535)
        return cu_invalid_value;
    memcpy(op.args, params[0], f->bytes);
    return fake_ask(s, &op);
}

/* ---- streams, events, graphs ---- */

EXPORT int cuStreamCreate(cu_stream *s, unsigned flags) {
    READY();
    *s = calloc(1, sizeof **s);
    return flags == cu_stream_alone ? cu_ok : cu_invalid_value;
}

EXPORT int cuStreamDestroy_v2(cu_stream s) {
    free(s->waiting.ops);
    free(s);
    return lost;
}

EXPORT int cuStreamSynchronize(cu_stream s) {
    READY();
    return s->recording ? fake_in_capture : drain(s);
}

EXPORT int cuEventCreate(cu_event *e, unsigned flags) {
    READY();
    *e = calloc(1, sizeof **e);
    return flags == cu_event_untimed ? cu_ok : cu_invalid_value;
}

EXPORT int cuEventDestroy_v2(cu_event e) {
    free(e);
    return lost;
}

EXPORT int cuEventRecord(cu_event e, cu_stream s) {
    READY();
    e->stream = s;
    return cu_ok;
}

EXPORT int cuEventSynchronize(cu_event e) {
    READY();
    return e->stream ? drain(e->stream) : cu_ok;
}

EXPORT int cuStreamBeginCapture_v2(cu_stream s, int mode) {
    READY();
    if (s->recording || mode != cu_capture_relaxed) return fake_in_capture;
    s->recording = calloc(1, sizeof *s->recording);
    return cu_ok;
}

EXPORT int cuStreamEndCapture(cu_stream s, cu_graph *graph) {
    READY();
    if (!s->recording) return fake_in_capture;
    *graph = calloc(1, sizeof **graph);
    (*graph)->list = *s->recording;
    free(s->recording);
    s->recording = NULL;
    return cu_ok;
}

EXPORT int cuGraphInstantiateWithFlags(cu_exec *exec, cu_graph graph, unsigned long long flags) {
    READY();
    *exec = calloc(1, sizeof **exec);
    for (size_t i = 0; i < graph->list.count; i++) add(&(*exec)->list, &graph->list.ops[i]);
    fake_note("graph of", (long)graph->list.count);
    return flags == 0 ? cu_ok : cu_invalid_value;
}

EXPORT int cuGraphLaunch(cu_exec exec, cu_stream s) {
    READY();
    fake_note("graph launch", (long)exec->list.count);
    for (size_t i = 0; i < exec->list.count; i++) {
        int result = fake_ask(s, &exec->list.ops[i]);
        if (result != cu_ok) return result;
    }
    return cu_ok;
}

EXPORT int cuGraphDestroy(cu_graph graph) {
    free(graph->list.ops);
    free(graph);
    return cu_ok;
}

EXPORT int cuGraphExecDestroy(cu_exec exec) {
    fake_note("graph drop", 1);
    free(exec->list.ops);
    free(exec);
    return cu_ok;
}
