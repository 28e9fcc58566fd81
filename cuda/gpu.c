/* gpu.c: opening, memory, graphs and launches of a device that runs the kernels of the .cu files,
 * over a backend (gpu.h). Its operators are in gpu_op.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

static const unsigned kernel_threads[kernel_count] = {
#define THREADS(file, name, threads) threads,
    WHALE_KERNELS(THREADS)
#undef THREADS
};

/* ---- opening, errors ---- */

whale_status gpu_open(whale_device *dev, const char *kind, const char *isa, const char *kernels, int threads) {
    gpu *g = calloc(1, sizeof *g);
    if (!g) return WHALE_NO_MEMORY;
    g->b.error = dev->error;
    dev->bf16 = 1;
    whale_status st = WHALE_NO_DEVICE;
    if (!strcmp(kind, "simt")) st = simt_open(&g->b, kernels, isa, threads);
    else if (!strcmp(kind, "cuda")) st = driver_open(&g->b, kernels, isa);
    else snprintf(dev->error, sizeof dev->error, "no device of the kind %.40s", kind);
    if (st != WHALE_OK) {
        free(g);
        return st;
    }
    dev->gpu = g;
    return WHALE_OK;
}

void gpu_close(whale_device *dev) {
    gpu *g = dev->gpu;
    if (g->scratch) g->b.free(&g->b, g->scratch);
    g->b.close(&g->b);
    for (size_t i = 0; i < g->count; i++) free(g->ranges[i].host);
    free(g->ranges);
    free(g);
}

const char *gpu_isa(whale_device *dev) { return dev->gpu->b.isa; }

whale_status gpu_note(whale_device *dev, whale_status st) {
    if (st == WHALE_BROKEN) dev->gpu->broken = 1;
    return st;
}

/* ---- memory ---- */

static size_t find_index(const gpu *g, const void *p) {
    size_t lo = 0, hi = g->count; /* the first that ends behind p */
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (g->ranges[mid].begin + g->ranges[mid].bytes <= (const char *)p) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

const int32_t *gpu_on_host(whale_device *dev, const int32_t *p, size_t n) {
    const gpu *g = dev->gpu;
    size_t i = find_index(g, p);
    if (i == g->count || (const char *)p < g->ranges[i].begin) return NULL;
    size_t at = (size_t)((const char *)p - g->ranges[i].begin);
    if (at + n * sizeof *p > g->ranges[i].bytes) return NULL;
    return (const int32_t *)(const void *)(g->ranges[i].host + at);
}

/* Notes a new range of indices; answers 0 if the host has no room. */
static int add_index(gpu *g, void *p, size_t bytes) {
    char *host = calloc(1, bytes + 1);
    if (g->count == g->room) {
        index_range *more = realloc(g->ranges, (2 * g->room + 16) * sizeof *more);
        if (more) g->ranges = more, g->room = 2 * g->room + 16;
    }
    if (!host || g->count == g->room) {
        free(host);
        return 0;
    }
    size_t i = find_index(g, p);
    memmove(g->ranges + i + 1, g->ranges + i, (g->count - i) * sizeof *g->ranges);
    g->ranges[i] = (index_range){p, bytes, host};
    g->count++;
    return 1;
}

whale_status gpu_alloc(whale_device *dev, size_t bytes, int indices, void **out) {
    gpu *g = dev->gpu;
    *out = NULL;
    ALIVE(dev);
    if (bytes == 0) bytes = sizeof(float); /* ranges must differ */
    TRY(gpu_note(dev, g->b.alloc(&g->b, bytes, out)));
    if (!indices || add_index(g, *out, bytes)) return WHALE_OK;
    g->b.free(&g->b, *out);
    *out = NULL;
    snprintf(dev->error, sizeof dev->error, "no room on the host for %zu bytes of indices", bytes);
    return WHALE_NO_MEMORY;
}

void gpu_free(whale_device *dev, void *p) {
    gpu *g = dev->gpu;
    size_t i = find_index(g, p);
    if (i < g->count && g->ranges[i].begin == p) {
        free(g->ranges[i].host);
        memmove(g->ranges + i, g->ranges + i + 1, (g->count - i - 1) * sizeof *g->ranges);
        g->count--;
    }
    g->b.free(&g->b, p);
}

whale_status gpu_upload(whale_device *dev, void *dst, const void *host, size_t bytes) {
    gpu *g = dev->gpu;
    ALIVE(dev);
    size_t i = find_index(g, dst);
    if (i < g->count && (char *)dst >= g->ranges[i].begin)
        memcpy(g->ranges[i].host + ((char *)dst - g->ranges[i].begin), host, bytes);
    return gpu_note(dev, g->b.upload(&g->b, dst, host, bytes));
}

whale_status gpu_download(whale_device *dev, void *host, const void *src, size_t bytes) {
    ALIVE(dev);
    return gpu_note(dev, dev->gpu->b.download(&dev->gpu->b, host, src, bytes));
}

whale_status gpu_copy(whale_device *dev, void *dst, const void *src, size_t bytes) {
    ALIVE(dev);
    return bytes ? gpu_note(dev, dev->gpu->b.copy(&dev->gpu->b, dst, src, bytes)) : WHALE_OK;
}

whale_status gpu_fill(whale_device *dev, float *x, size_t n, float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    ALIVE(dev);
    return n ? gpu_note(dev, dev->gpu->b.fill(&dev->gpu->b, x, word, n)) : WHALE_OK;
}

whale_status gpu_scratch(whale_device *dev, size_t bytes, void **out) {
    gpu *g = dev->gpu;
    if (g->scratch_bytes < bytes) {
        void *more;
        size_t want = bytes + bytes / 4;
        TRY(gpu_note(dev, g->b.alloc(&g->b, want, &more)));
        if (g->scratch) g->b.free(&g->b, g->scratch);
        g->scratch = more;
        g->scratch_bytes = want;
        g->moved++;
    }
    *out = g->scratch;
    return WHALE_OK;
}

/* ---- what only a card has ---- */

whale_status gpu_measure(whale_device *dev, whale_room *out) {
    ALIVE(dev);
    return dev->gpu->b.room ? gpu_note(dev, dev->gpu->b.room(&dev->gpu->b, out)) : WHALE_OK;
}

whale_status gpu_reserve(whale_device *dev, size_t bytes) {
    ALIVE(dev);
    return dev->gpu->b.reserve ? gpu_note(dev, dev->gpu->b.reserve(&dev->gpu->b, bytes)) : WHALE_OK;
}

whale_status gpu_sync(whale_device *dev) {
    ALIVE(dev);
    return gpu_note(dev, dev->gpu->b.sync(&dev->gpu->b));
}

typedef struct { void *graph; uint64_t moved; } recorded;

whale_status gpu_record(whale_device *dev) {
    gpu *g = dev->gpu;
    ALIVE(dev);
    if (g->b.record) return gpu_note(dev, g->b.record(&g->b));
    snprintf(dev->error, sizeof dev->error, "%s has no graphs", g->b.isa);
    return WHALE_NO_DEVICE;
}

whale_status gpu_end(whale_device *dev, void **graph) {
    gpu *g = dev->gpu;
    recorded *r = calloc(1, sizeof *r);
    *graph = NULL;
    void *made = NULL;
    whale_status st = g->broken ? WHALE_BROKEN : gpu_note(dev, g->b.end(&g->b, &made));
    if (st == WHALE_OK && r) {
        *r = (recorded){made, g->moved};
        *graph = r;
        return WHALE_OK;
    }
    if (st == WHALE_OK) g->b.drop(&g->b, made), st = WHALE_NO_MEMORY;
    free(r);
    return st;
}

whale_status gpu_replay(whale_device *dev, void *graph) {
    const recorded *r = graph;
    gpu *g = dev->gpu;
    ALIVE(dev);
    if (r->moved == g->moved) return gpu_note(dev, g->b.replay(&g->b, r->graph));
    snprintf(dev->error, sizeof dev->error, "memory of the device moved since the graph was recorded");
    return WHALE_BAD_SHAPE;
}

void gpu_drop(whale_device *dev, void *graph) {
    recorded *r = graph;
    dev->gpu->b.drop(&dev->gpu->b, r->graph);
    free(r);
}

/* ---- launches ---- */

whale_status gpu_launch_kernel(whale_device *dev, gpu_launch l) {
    gpu *g = dev->gpu;
    ALIVE(dev);
    if (l.grid[0] == 0) return WHALE_OK;
    l.grid[1] = MAX(l.grid[1], 1), l.grid[2] = 1;
    l.threads = kernel_threads[l.kernel];
    if (l.shared > g->b.most_shared) {
        snprintf(dev->error, sizeof dev->error, "needs %zu bytes of shared memory, a block has %zu", l.shared, g->b.most_shared);
        return WHALE_BAD_SHAPE;
    }
    return gpu_note(dev, g->b.launch(&g->b, &l));
}
