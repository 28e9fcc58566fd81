/* device.c: opening a device; memory and scratch of the CPU device. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device.h"
#include "gpu.h"

enum { line = 64, most_threads = 1024 };

static const whale_ops *find_ops(const char *isa) {
#if defined(__x86_64__)
    int any = isa[0] == 0;
    __builtin_cpu_init();
    int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if ((any || !strcmp(isa, "avx512")) && avx512 && avx2) return &whale_ops_avx512;
    if ((any || !strcmp(isa, "avx2")) && avx2) return &whale_ops_avx2;
    if (!any && strcmp(isa, "portable")) return NULL;
#else
    if (isa[0] && strcmp(isa, "portable")) return NULL;
#endif
    return &whale_ops_portable;
}

/* Fills in the CPU device. */
static whale_status open_cpu(whale_device *dev, int threads, const char *isa) {
    int amx = !strncmp(isa, "amx", 3);
    const whale_ops *ops = find_ops(amx ? "avx512" : isa);
#if defined(__x86_64__)
    dev->bf16 = ops == &whale_ops_avx512 && __builtin_cpu_supports("avx512bf16");
    if (dev->bf16) dev->amx = whale_find_amx(isa);
#endif
    if (!ops || (amx && !dev->amx)) {
        snprintf(dev->error, sizeof dev->error, "this machine lacks the instruction set %.40s", isa);
        return WHALE_NO_DEVICE;
    }
    dev->ops = dev->ops8 = ops;
#if defined(__x86_64__)
    if (ops == &whale_ops_avx512 && !__builtin_cpu_supports("avx512vnni")) dev->ops8 = &whale_ops_avx2;
#endif
    dev->threads = threads;
    dev->scratch = calloc((size_t)threads + 1, sizeof *dev->scratch);
    dev->scratch_bytes = calloc((size_t)threads + 1, sizeof *dev->scratch_bytes);
    if (threads > 1) dev->pool = whale_pool_start(threads);
    return dev->scratch && dev->scratch_bytes && (threads == 1 || dev->pool) ? WHALE_OK : WHALE_NO_MEMORY;
}

whale_status whale_open(const char *kind, int threads, const char *isa, const char *kernels, whale_device **out, char *why, size_t room) {
    *out = NULL;
    if (threads < 1 || threads > most_threads) {
        snprintf(why, room, "%d threads, needs 1 to %d", threads, most_threads);
        return WHALE_BAD_SHAPE;
    }
    whale_device *dev = calloc(1, sizeof *dev);
    if (!dev) return WHALE_NO_MEMORY;
    whale_status st = strcmp(kind, "cpu") ? gpu_open(dev, kind, isa, kernels, threads) : open_cpu(dev, threads, isa);
    if (st == WHALE_OK) {
        *out = dev;
        return WHALE_OK;
    }
    snprintf(why, room, "%s", dev->error);
    whale_close(dev);
    return st;
}

void whale_close(whale_device *dev) {
    if (!dev) return;
    if (dev->gpu) gpu_close(dev);
    if (dev->pool) whale_pool_stop(dev->pool);
    for (int i = 0; dev->scratch && i <= dev->threads; i++) free(dev->scratch[i]);
    free(dev->scratch);
    free(dev->scratch_bytes);
    free(dev);
}

const char *whale_error(whale_device *dev) { return dev->error; }
const char *whale_isa(whale_device *dev) { return dev->gpu ? gpu_isa(dev) : dev->amx ? dev->amx->isa : dev->ops->isa; }

/* At least one line, whole lines, so that a vector may be read past an odd end. */
static void *lines(size_t bytes) {
    if (bytes > SIZE_MAX - 2 * line) return NULL;
    return aligned_alloc(line, bytes / line * line + line);
}

static whale_status no_memory(whale_device *dev, size_t bytes) {
    snprintf(dev->error, sizeof dev->error, "no room for %zu bytes", bytes);
    return WHALE_NO_MEMORY;
}

static whale_status grow(whale_device *dev, int i, size_t bytes) {
    if (dev->scratch[i] && dev->scratch_bytes[i] >= bytes) return WHALE_OK;
    void *p = lines(bytes);
    if (!p) return no_memory(dev, bytes);
    free(dev->scratch[i]);
    dev->scratch[i] = p;
    dev->scratch_bytes[i] = bytes;
    return WHALE_OK;
}

whale_status whale_scratch(whale_device *dev, size_t bytes) {
    whale_status st = WHALE_OK;
    for (int i = 0; i < dev->threads && st == WHALE_OK; i++) st = grow(dev, i, bytes);
    return st;
}

whale_status whale_shared(whale_device *dev, size_t bytes) { return grow(dev, dev->threads, bytes); }

/* Memory that the caller sees starts behind a line that holds the size of all. Large ranges are
 * pages of their own: zero, and without cost until they are touched. A sanitizer sees what happens
 * in the small kind only, so it gets that. */
enum { huge = 2 << 20 };
#if defined(__SANITIZE_ADDRESS__)
static const size_t mapped = SIZE_MAX;
#else
static const size_t mapped = 64 << 10;
#endif

whale_status whale_alloc(whale_device *dev, size_t bytes, void **out) {
    if (dev->gpu) return gpu_alloc(dev, bytes, 0, out);
    *out = NULL;
    if (bytes > SIZE_MAX - 4 * line) return no_memory(dev, bytes);
    size_t all = bytes + 2 * line;
    char *base;
    if (all < mapped) {
        base = lines(all);
        if (!base) return no_memory(dev, bytes);
        memset(base, 0, all);
    } else {
        base = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED) return no_memory(dev, bytes);
        if (all >= huge) madvise(base, all, MADV_HUGEPAGE); /* refused: pages are small */
    }
    *(size_t *)(void *)base = all;
    *out = base + line;
    return WHALE_OK;
}

whale_status whale_alloc_indices(whale_device *dev, size_t n, int32_t **out) {
    void *p;
    size_t bytes = n < SIZE_MAX / sizeof **out ? n * sizeof **out : SIZE_MAX;
    whale_status st = dev->gpu ? gpu_alloc(dev, bytes, 1, &p) : whale_alloc(dev, bytes, &p);
    *out = st == WHALE_OK ? p : NULL;
    return st;
}

void whale_free(whale_device *dev, void *p) {
    if (!p) return;
    if (dev->gpu) {
        gpu_free(dev, p);
        return;
    }
    char *base = (char *)p - line;
    size_t all = *(size_t *)(void *)base;
    if (all < mapped) free(base);
    else munmap(base, all);
}

whale_status whale_measure(whale_device *dev, whale_room *out) {
    *out = (whale_room){0};
    return dev->gpu ? gpu_measure(dev, out) : WHALE_OK;
}

whale_status whale_reserve(whale_device *dev, size_t bytes) { return dev->gpu ? gpu_reserve(dev, bytes) : WHALE_OK; }

whale_status whale_sync(whale_device *dev) { return dev->gpu ? gpu_sync(dev) : WHALE_OK; }

whale_status whale_record(whale_device *dev) {
    if (dev->gpu) return gpu_record(dev);
    snprintf(dev->error, sizeof dev->error, "the cpu has no graphs");
    return WHALE_NO_DEVICE;
}

whale_status whale_end(whale_device *dev, void **graph) { return dev->gpu ? gpu_end(dev, graph) : WHALE_NO_DEVICE; }
whale_status whale_replay(whale_device *dev, void *graph) { return dev->gpu ? gpu_replay(dev, graph) : WHALE_NO_DEVICE; }
void         whale_drop(whale_device *dev, void *graph) { if (dev->gpu && graph) gpu_drop(dev, graph); }

whale_status whale_upload(whale_device *dev, void *dst, const void *host_src, size_t bytes) {
    if (dev->gpu) return gpu_upload(dev, dst, host_src, bytes);
    memcpy(dst, host_src, bytes);
    return WHALE_OK;
}

whale_status whale_download(whale_device *dev, void *host_dst, const void *src, size_t bytes) {
    if (dev->gpu) return gpu_download(dev, host_dst, src, bytes);
    memcpy(host_dst, src, bytes);
    return WHALE_OK;
}

whale_status whale_copy(whale_device *dev, void *dst, const void *src, size_t bytes) {
    if (dev->gpu) return gpu_copy(dev, dst, src, bytes);
    memcpy(dst, src, bytes);
    return WHALE_OK;
}
