/* driver.c: the backend of a CUDA card. All work goes to one stream; what the driver answers is
 * checked at every call. A driver's context belongs to a thread, a goroutine does not: every entry
 * makes the context current unless this thread has it already. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#include "driver.h"

static uint64_t openings;            /* under Go's lock of opening */
static __thread uint64_t my_opening; /* whose context this thread has current */

static cu_pointer at(const void *p) { return (cu_pointer)(uintptr_t)p; }

/* ---- errors ---- */

/* A mistake in the call leaves the card as it was; all else is taken for a card that is lost. */
static whale_status status_of(int result) {
    if (result == cu_out_of_memory) return WHALE_NO_MEMORY;
    if (result == cu_invalid_value || result == cu_out_of_resources || result == cu_not_supported ||
        (result >= cu_capture_first && result <= cu_capture_last))
        return WHALE_BAD_SHAPE;
    return WHALE_BROKEN;
}

/* The symbol of a call such as "d->cu.free(p)"; other calls are named already. */
static const char *symbol_of(const char *call, size_t *length) {
    static const struct { const char *field, *symbol; } names[] = {
#define NAMED(field, symbol, params) {#field, #symbol},
        DRIVER_CALLS(NAMED)
#undef NAMED
    };
    const char *field = strchr(call, '.');
    field = field ? field + 1 : call;
    *length = strcspn(field, "(");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].field) == *length && !memcmp(names[i].field, field, *length)) {
            *length = strlen(names[i].symbol);
            return names[i].symbol;
        }
    return field;
}

whale_status driver_fail(gpu_backend *b, const char *call, int result) {
    const driver *d = b->state;
    const char *name = NULL, *text = NULL;
    if (d->cu.error_name(result, &name) != cu_ok || !name) name = "an error";
    if (d->cu.error_text(result, &text) != cu_ok || !text) text = "unknown";
    whale_status st = status_of(result);
    size_t length;
    const char *symbol = symbol_of(call, &length);
    snprintf(b->error, 256, "%scard %d: %.*s: %s (%d): %.100s", st == WHALE_BROKEN ? "lost " : "", d->card.ordinal,
             (int)MIN(length, (size_t)40), symbol, name, result, text);
    return st;
}

static whale_status enter(gpu_backend *b) {
    driver *d = b->state;
    if (my_opening == d->serial) return WHALE_OK;
    CU(b, d->cu.set_current(d->context));
    my_opening = d->serial;
    return WHALE_OK;
}

#define ENTER(b) \
    do { whale_status st_ = enter(b); if (st_ != WHALE_OK) return st_; } while (0)

/* Inside of a recording only work may be noted. */
#define NOT_RECORDED(b)                                                                   \
    do {                                                                                  \
        if (((driver *)(b)->state)->recording) {                                          \
            snprintf((b)->error, 256, "%s has no place in a recorded graph", __func__);   \
            return WHALE_BAD_SHAPE;                                                       \
        }                                                                                 \
    } while (0)

/* ---- memory ---- */

static whale_status driver_alloc(gpu_backend *b, size_t bytes, void **out) {
    driver *d = b->state;
    cu_pointer p = 0;
    ENTER(b);
    NOT_RECORDED(b);
    whale_status st = arena_alloc(b, bytes, &p);
    if (st != WHALE_OK) return st;
    int result = d->cu.zero(p, 0, bytes, d->stream);
    if (result != cu_ok) {
        arena_free(d, p);
        return driver_fail(b, "cuMemsetD8Async", result);
    }
    *out = (void *)(uintptr_t)p;
    return WHALE_OK;
}

static void driver_free(gpu_backend *b, void *p) {
    if (enter(b) == WHALE_OK) arena_free(b->state, at(p));
}

static whale_status driver_upload(gpu_backend *b, void *dst, const void *host, size_t bytes) {
    driver *d = b->state;
    ENTER(b);
    NOT_RECORDED(b);
    for (size_t done = 0; done < bytes;) {
        size_t n = MIN(bytes - done, (size_t)stage_bytes);
        int slot = d->slot;
        d->slot = (slot + 1) % stage_slots;
        char *stage = d->stage + (size_t)slot * stage_bytes;
        CU(b, d->cu.event_wait(d->staged[slot])); /* the copy that used the slot before */
        memcpy(stage, (const char *)host + done, n);
        CU(b, d->cu.to_card(at(dst) + done, stage, n, d->stream));
        CU(b, d->cu.event_record(d->staged[slot], d->stream));
        done += n;
    }
    return WHALE_OK;
}

static whale_status driver_download(gpu_backend *b, void *host, const void *src, size_t bytes) {
    driver *d = b->state;
    ENTER(b);
    NOT_RECORDED(b);
    CU(b, d->cu.to_host(host, at(src), bytes, d->stream));
    CU(b, d->cu.stream_wait(d->stream));
    return WHALE_OK;
}

static whale_status driver_copy(gpu_backend *b, void *dst, const void *src, size_t bytes) {
    driver *d = b->state;
    ENTER(b);
    CU(b, d->cu.on_card(at(dst), at(src), bytes, d->stream));
    return WHALE_OK;
}

static whale_status driver_fill(gpu_backend *b, void *dst, uint32_t word, size_t words) {
    driver *d = b->state;
    ENTER(b);
    CU(b, d->cu.fill(at(dst), word, words, d->stream));
    return WHALE_OK;
}

static whale_status driver_sync(gpu_backend *b) {
    driver *d = b->state;
    ENTER(b);
    NOT_RECORDED(b);
    CU(b, d->cu.stream_wait(d->stream));
    return WHALE_OK;
}

static whale_status driver_reserve(gpu_backend *b, size_t bytes) {
    ENTER(b);
    NOT_RECORDED(b);
    return arena_reserve(b, bytes);
}

static whale_status driver_room(gpu_backend *b, whale_room *out) {
    driver *d = b->state;
    ENTER(b);
    CU(b, d->cu.memory(&out->card_free, &out->card_total));
    out->held = d->arena.held;
    out->used = d->arena.used;
    out->peak = d->arena.peak;
    out->workspace = d->has_lt ? lt_workspace : 0;
    out->bandwidth = 2e3 * d->card.memory_khz * (d->card.bus_bits / 8.0); /* two words a clock */
    return WHALE_OK;
}

/* ---- launches ---- */

static whale_status driver_launch(gpu_backend *b, const gpu_launch *l) {
    driver *d = b->state;
    ENTER(b);
    if (l->shared > d->shared[l->kernel]) { /* above 48 KB a function must be told */
        CU(b, d->cu.function_set(d->kernels[l->kernel], cu_func_shared, (int)l->shared));
        d->shared[l->kernel] = l->shared;
    }
    void *params[] = {(void *)(uintptr_t)l->args}; /* one struct by value; the driver knows its size and copies it */
    CU(b, d->cu.launch(d->kernels[l->kernel], l->grid[0], l->grid[1], l->grid[2], l->threads, 1, 1, (unsigned)l->shared, d->stream,
                       params, NULL));
    return WHALE_OK;
}

static whale_status driver_product(gpu_backend *b, const gpu_product *p) {
    ENTER(b);
    return lt_product(b, p);
}

/* ---- graphs ---- */

static whale_status driver_record(gpu_backend *b) {
    driver *d = b->state;
    ENTER(b);
    NOT_RECORDED(b);
    CU(b, d->cu.capture(d->stream, cu_capture_relaxed));
    d->recording = 1;
    return WHALE_OK;
}

static whale_status driver_end(gpu_backend *b, void **graph) {
    driver *d = b->state;
    cu_graph noted = NULL;
    cu_exec exec = NULL;
    *graph = NULL;
    ENTER(b);
    d->recording = 0;
    CU(b, d->cu.capture_end(d->stream, &noted));
    int result = d->cu.instantiate(&exec, noted, 0);
    d->cu.graph_destroy(noted);
    if (result != cu_ok) return driver_fail(b, "cuGraphInstantiate", result);
    *graph = exec;
    return WHALE_OK;
}

static whale_status driver_replay(gpu_backend *b, void *graph) {
    driver *d = b->state;
    ENTER(b);
    NOT_RECORDED(b);
    CU(b, d->cu.graph_launch(graph, d->stream));
    return WHALE_OK;
}

static void driver_drop(gpu_backend *b, void *graph) {
    driver *d = b->state;
    if (enter(b) == WHALE_OK) d->cu.exec_destroy(graph);
}

/* ---- opening and closing ---- */

/* Gives all back, also of a card that is lost or was half opened: then the calls fail, and the
 * release of the context frees what it held. */
static void driver_close(gpu_backend *b) {
    driver *d = b->state;
    if (d->context) {
        d->cu.set_current(d->context);
        if (d->stream) d->cu.stream_wait(d->stream);
        lt_close(d);
        for (int i = 0; i < stage_slots; i++)
            if (d->staged[i]) d->cu.event_destroy(d->staged[i]);
        if (d->stage) d->cu.host_free(d->stage);
        for (int i = 0; i < d->module_count; i++) d->cu.unload(d->modules[i]);
        if (d->stream) d->cu.stream_destroy(d->stream);
        arena_close(d);
        d->cu.set_current(NULL);
        d->cu.release(d->device);
        my_opening = 0;
    }
    free(d);
}

/* The cubin of a file of kernels. */
static whale_status load_module(gpu_backend *b, const char *folder, const char *file, cu_module *out) {
    driver *d = b->state;
    char path[4096];
    struct stat is;
    if ((size_t)snprintf(path, sizeof path, "%s/%s.cubin", folder, file) >= sizeof path) return WHALE_NO_DEVICE;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *image = fd >= 0 && fstat(fd, &is) == 0 && is.st_size > 0 ? mmap(NULL, (size_t)is.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (fd >= 0) close(fd);
    if (image == MAP_FAILED) {
        snprintf(b->error, 256, "compiled kernels: can't read %.200s", path);
        return WHALE_NO_DEVICE;
    }
    int result = d->cu.load(out, image);
    munmap(image, (size_t)is.st_size);
    if (result == cu_ok) {
        d->modules[d->module_count++] = *out;
        return WHALE_OK;
    }
    driver_fail(b, "cuModuleLoadData", result);
    char line[180];
    snprintf(line, sizeof line, "%.179s", b->error);
    snprintf(b->error, 256, "the driver (CUDA %d.%d) does not take our kernels: %s", d->card.driver / 1000, d->card.driver % 1000 / 10, line);
    return WHALE_NO_DEVICE;
}

static const struct { const char *file, *name; } kernel_list[kernel_count] = {
#define LISTED(file, name, threads) {#file, #name},
    WHALE_KERNELS(LISTED)
#undef LISTED
};

static whale_status load_kernels(gpu_backend *b, const char *folder) {
    driver *d = b->state;
    cu_module module = NULL;
    for (int i = 0; i < kernel_count; i++) {
        d->shared[i] = 48 << 10;
        if (i == 0 || strcmp(kernel_list[i].file, kernel_list[i - 1].file)) {
            if (d->module_count == (int)(sizeof d->modules / sizeof *d->modules)) return WHALE_NO_DEVICE;
            whale_status st = load_module(b, folder, kernel_list[i].file, &module);
            if (st != WHALE_OK) return st;
        }
        CU(b, d->cu.function(&d->kernels[i], module, kernel_list[i].name));
    }
    return WHALE_OK;
}

static whale_status start(gpu_backend *b, const char *folder) {
    driver *d = b->state;
    CU(b, d->cu.device(&d->device, d->card.ordinal));
    int result = d->cu.retain(&d->context, d->device);
    if (result == cu_out_of_memory) {
        snprintf(b->error, 256, "card %d (%.100s) is full: not even a context fits; another process is on the card", d->card.ordinal, d->card.name);
        return WHALE_NO_MEMORY;
    }
    if (result != cu_ok) {
        d->context = NULL;
        return driver_fail(b, "cuDevicePrimaryCtxRetain", result);
    }
    ENTER(b);
    CU(b, d->cu.stream_create(&d->stream, cu_stream_alone));
    CU(b, d->cu.host_alloc((void **)&d->stage, (size_t)stage_slots * stage_bytes, 0));
    for (int i = 0; i < stage_slots; i++) CU(b, d->cu.event_create(&d->staged[i], cu_event_untimed));
    return load_kernels(b, folder);
}

/* Splits text at newlines in place; missing lines are empty. */
static void lines(char *text, char **out, int n) {
    for (int i = 0; i < n; i++) {
        char *end = strchr(text, '\n');
        out[i] = text;
        text = end ? end + 1 : text + strlen(text);
        if (end) *end = 0;
    }
}

whale_status driver_open(gpu_backend *b, const char *where, const char *way) {
    driver *d = calloc(1, sizeof *d);
    char *text = strdup(where), *line[4];
    if (!d || !text) {
        free(d);
        free(text);
        return WHALE_NO_MEMORY;
    }
    lines(text, line, 4);
    *b = (gpu_backend){.isa = d->isa, .error = b->error, .state = d, .close = driver_close, .alloc = driver_alloc, .free = driver_free,
                       .upload = driver_upload, .download = driver_download, .copy = driver_copy, .fill = driver_fill,
                       .launch = driver_launch, .sync = driver_sync, .record = driver_record, .end = driver_end,
                       .replay = driver_replay, .drop = driver_drop, .reserve = driver_reserve, .room = driver_room};
    d->serial = __atomic_add_fetch(&openings, 1, __ATOMIC_RELAXED);
    whale_status st = driver_probe(line[1], atoi(line[3]), &d->card, b->error);
    if (st == WHALE_OK) st = driver_load(line[1], &d->cu, b->error);
    if (st == WHALE_OK) st = start(b, line[0]);
    b->most_shared = d->card.most_shared;
    const char *by = "own products";
    if (st == WHALE_OK && line[2][0] && strcmp(way, "own") && lt_open(b, line[2]) == WHALE_OK) b->product = driver_product, by = "cuBLASLt";
    snprintf(d->isa, sizeof d->isa, "sm_%d%d, %s", d->card.major, d->card.minor, by);
    free(text);
    if (st == WHALE_OK) return WHALE_OK;
    driver_close(b);
    return st == WHALE_BAD_SHAPE ? WHALE_NO_DEVICE : st;
}
