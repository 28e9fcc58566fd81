/* simt.c: the backend that runs the kernels on the CPU. It opens the shared library that Go had
 * g++ make of the .cu files (simt.go) and gives it the blocks of each launch, spread over the
 * worker pool. Results are the same bits at any number of threads: blocks do not meet. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "simt/job.h"

typedef struct {
    void *library;
    simt_blocks_fn *blocks;
    void (*kernels[kernel_count])(const void *);
    simt_order order;
    int checked;
    whale_pool *pool;
    simt_range *ranges; /* live buffers by address */
    size_t count, room;
    uint32_t launches;
} simt;

static const char *const kernel_names[kernel_count] = {
#define NAME(file, name, threads) #name,
    WHALE_KERNELS(NAME)
#undef NAME
};

static void simt_close(gpu_backend *b) {
    simt *s = b->state;
    if (s->pool) whale_pool_stop(s->pool);
    /* The library stays open: threads that ran blocks keep its thread-local memory. */
    free(s->ranges);
    free(s);
}

/* ---- memory: each buffer between two guard zones of bytes 0xff, floats that are not numbers ---- */

static size_t find_range(const simt *s, const void *p) {
    size_t lo = 0, hi = s->count; /* the first that does not begin before p */
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if ((const void *)s->ranges[mid].begin < p) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static whale_status simt_alloc(gpu_backend *b, size_t bytes, void **out) {
    simt *s = b->state;
    *out = NULL;
    size_t all = (bytes + 255) / 256 * 256 + 2 * simt_guard;
    char *base = bytes < (size_t)1 << 46 ? aligned_alloc(256, all) : NULL;
    simt_shadow *shadow = base && s->checked ? calloc(bytes / 4 + 1, sizeof *shadow) : NULL;
    if (s->count == s->room && base) {
        size_t room = 2 * s->room + 64;
        simt_range *more = realloc(s->ranges, room * sizeof *more);
        if (more) s->ranges = more, s->room = room;
    }
    if (!base || (s->checked && !shadow) || s->count == s->room) {
        free(base);
        free(shadow);
        snprintf(b->error, 256, "no room for %zu bytes", bytes);
        return WHALE_NO_MEMORY;
    }
    memset(base, 0xff, all);
    memset(base + simt_guard, 0, bytes);
    char *begin = base + simt_guard;
    size_t at = find_range(s, begin);
    memmove(s->ranges + at + 1, s->ranges + at, (s->count - at) * sizeof *s->ranges);
    s->ranges[at] = (simt_range){begin, begin + bytes, shadow};
    s->count++;
    *out = begin;
    return WHALE_OK;
}

static int whole(const simt_range *r) {
    const char *end = r->begin + (size_t)(r->end - r->begin + 255) / 256 * 256 + simt_guard;
    for (const char *p = r->begin - simt_guard; p < r->begin; p++)
        if (*p != (char)0xff) return 0;
    for (const char *p = r->end; p < end; p++)
        if (*p != (char)0xff) return 0;
    return 1;
}

/* A kernel that wrote beside a buffer is found here at the latest. */
static whale_status simt_sync(gpu_backend *b) {
    simt *s = b->state;
    for (size_t i = 0; i < s->count; i++)
        if (!whole(&s->ranges[i])) {
            snprintf(b->error, 256, "something was written beside a buffer of %zu bytes", (size_t)(s->ranges[i].end - s->ranges[i].begin));
            return WHALE_BROKEN;
        }
    return WHALE_OK;
}

static void simt_free(gpu_backend *b, void *p) {
    simt *s = b->state;
    size_t at = find_range(s, p);
    if (at == s->count || s->ranges[at].begin != p) return;
    free(s->ranges[at].shadow);
    free(s->ranges[at].begin - simt_guard);
    memmove(s->ranges + at, s->ranges + at + 1, (s->count - at - 1) * sizeof *s->ranges);
    s->count--;
}

static whale_status simt_upload(gpu_backend *b, void *dst, const void *host, size_t bytes) {
    (void)b;
    memcpy(dst, host, bytes);
    return WHALE_OK;
}

static whale_status simt_download(gpu_backend *b, void *host, const void *src, size_t bytes) {
    whale_status st = simt_sync(b);
    memcpy(host, src, bytes);
    return st;
}

static whale_status simt_fill(gpu_backend *b, void *dst, uint32_t word, size_t words) {
    (void)b;
    for (size_t i = 0; i < words; i++) ((uint32_t *)dst)[i] = word;
    return WHALE_OK;
}

/* ---- launches ---- */

enum { launch_pieces = 32, most_pool = 64 };
typedef struct { const simt *s; simt_job job; uint64_t blocks, each; int failed[launch_pieces]; char error[launch_pieces][256]; } launch_job;

static void launch_piece(const void *job, int piece, int thread) {
    (void)thread;
    launch_job *l = (launch_job *)job; /* each piece writes its own line only */
    uint64_t first = (uint64_t)piece * l->each, last = MIN(first + l->each, l->blocks);
    if (first < last) l->failed[piece] = l->s->blocks(&l->job, first, last, l->error[piece]);
}

static whale_status simt_launch(gpu_backend *b, const gpu_launch *l) {
    simt *s = b->state;
    if (!s->kernels[l->kernel]) {
        snprintf(b->error, 256, "the library of kernels lacks %s", kernel_names[l->kernel]);
        return WHALE_NO_DEVICE;
    }
    launch_job j = {.s = s, .blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2],
                    .job = {.name = kernel_names[l->kernel], .kernel = s->kernels[l->kernel], .args = l->args,
                            .grid = {l->grid[0], l->grid[1], l->grid[2]}, .threads = l->threads, .shared = l->shared,
                            .order = s->order, .launch = ++s->launches}};
    if (s->checked) j.job.ranges = s->ranges, j.job.range_count = s->count;
    j.each = (j.blocks + launch_pieces - 1) / launch_pieces;
    whale_pool_run(s->pool, launch_piece, &j, launch_pieces);
    for (int i = 0; i < launch_pieces; i++)
        if (j.failed[i]) {
            memcpy(b->error, j.error[i], 256);
            return WHALE_BROKEN;
        }
    return WHALE_OK;
}

/* ---- products by a plain loop, where a card has cuBLASLt ---- */

static float number(const gpu_product *p, const void *base, size_t at) {
    if (!p->bf16) return ((const float *)base)[at];
    uint32_t bits = (uint32_t)((const uint16_t *)base)[at] << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static whale_status simt_product(gpu_backend *b, const gpu_product *p) {
    (void)b;
    for (int r = 0; r < p->rows; r++)
        for (int c = 0; c < p->cols; c++) {
            float *to = p->c + (size_t)r * p->ldc + c, sum = 0;
            for (int k = 0; k < p->K; k++)
                sum += number(p, p->a, p->a_along ? (size_t)k * p->lda + r : (size_t)r * p->lda + k) *
                       number(p, p->b, p->b_along ? (size_t)k * p->ldb + c : (size_t)c * p->ldb + k);
            *to = p->accumulate ? *to + sum : sum;
        }
    return WHALE_OK;
}

/* ---- opening ---- */

static whale_status refuse(gpu_backend *b, const char *text, const char *more) {
    snprintf(b->error, 256, "%s%.180s", text, more ? more : "");
    simt_close(b);
    return WHALE_NO_DEVICE;
}

whale_status simt_open(gpu_backend *b, const char *kernels, const char *order, int threads) {
    simt *s = calloc(1, sizeof *s);
    if (!s) return WHALE_NO_MEMORY;
    *b = (gpu_backend){.isa = "simt", .error = b->error, .most_shared = 227 << 10, .state = s, .close = simt_close,
                       .alloc = simt_alloc, .free = simt_free, .upload = simt_upload, .download = simt_download,
                       .copy = simt_upload, .fill = simt_fill, .launch = simt_launch, .sync = simt_sync};
    if (!strcmp(order, "reverse")) s->order = simt_reverse, b->isa = "simt reverse";
    else if (!strcmp(order, "shuffle")) s->order = simt_shuffle, b->isa = "simt shuffle";
    else if (!strcmp(order, "checked")) s->checked = 1, b->isa = "simt checked";
    else if (!strcmp(order, "library")) b->product = simt_product, b->isa = "simt library";
    else if (order[0] && strcmp(order, "forward")) return refuse(b, "no such order: ", order);
    s->library = dlopen(kernels, RTLD_NOW | RTLD_LOCAL);
    if (!s->library) return refuse(b, "kernels: ", dlerror());
    *(void **)&s->blocks = dlsym(s->library, "simt_blocks");
    if (!s->blocks) return refuse(b, "kernels: no simt_blocks in ", kernels);
    for (int i = 0; i < kernel_count; i++) *(void **)&s->kernels[i] = dlsym(s->library, kernel_names[i]);
    threads = s->checked ? 1 : MIN(threads, most_pool);
    if (threads > 1 && !(s->pool = whale_pool_start(threads))) return refuse(b, "no threads", NULL);
    return WHALE_OK;
}
