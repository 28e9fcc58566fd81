/* check.cpp: the checked build. The kernels are compiled with g++'s instrumentation for its
 * thread sanitizer, but what it calls is this file instead of that library: every access to
 * shared and device memory is held against the accesses of other threads since the last barrier.
 *
 *     shared memory   two threads of a block touch a word, one of them writes it, and no
 *                     __syncthreads lies between (or __syncwarp, within a warp)
 *     device memory   the same, and two blocks of one launch touch a word that one of them writes
 *     guard zones     an access just outside of a buffer
 *
 * Words are of 4 bytes; of many readers it remembers that they were many. A shuffle orders
 * nothing, as CUDA has it. Atomic operations go together with each other, not with the rest. */
#include <stdio.h>
#include <stdlib.h>

#include "run.h"

enum { several = 0xffff, atomic_thread = 0xfffe };
typedef enum { reads, writes, updates } access_kind;

static simt_access now(access_kind kind) {
    simt_engine *e = simt_mine;
    unsigned t = e->view.thread.x;
    return {e->job->launch, e->number, e->epoch, e->warps[t / 32].epoch, (uint16_t)(kind == updates ? atomic_thread : t), (uint16_t)(t / 32)};
}

/* Whether nothing orders the earlier access before the present one. Shared memory is another one
 * in each block, so there only accesses of one stretch between barriers can meet. */
static bool unordered(const simt_access &was, const simt_access &is, bool shared) {
    if (!shared && was.launch != is.launch) return false;
    if (!shared && was.block != is.block) return true;
    if (was.epoch != is.epoch || was.thread == is.thread) return false;
    return was.warp != is.warp || was.warp_epoch >= is.warp_epoch;
}

/* The accesses that are to be remembered as one with the present reading. */
static void join(const simt_access &was, simt_access &is, bool shared) {
    if (!shared && was.launch == is.launch && was.block != is.block) {
        is.block = 0; /* no block has this number: unordered with all */
    } else if (was.epoch == is.epoch && was.thread != is.thread && (shared || was.launch == is.launch)) {
        if (was.warp != is.warp) is.warp = several; /* equals no warp: unordered with all */
        is.thread = several;
    }
}

static void conflict(const char *memory, size_t offset, access_kind kind, const simt_access &was, bool wrote) {
    char text[200];
    snprintf(text, sizeof text, "%s byte %zu is %s here and was %s by thread %d of block %u with no barrier between", memory, offset,
             kind == reads ? "read" : "written", wrote ? "written" : "read", was.thread >= atomic_thread ? -1 : (int)was.thread, was.block - 1);
    simt_mine->fail(text);
}

static void touch(simt_shadow *s, const char *memory, size_t offset, access_kind kind) {
    simt_access is = now(kind);
    bool shared = memory[0] == 's', both_atomic = kind == updates && s->write.thread == atomic_thread;
    if (!both_atomic && unordered(s->write, is, shared)) conflict(memory, offset, kind, s->write, true);
    if (kind == reads) {
        join(s->read, is, shared);
        s->read = is;
        return;
    }
    if (unordered(s->read, is, shared)) conflict(memory, offset, kind, s->read, false);
    s->write = is;
}

/* The buffer whose guard zones or inside hold p. */
static const simt_range *find(const char *p) {
    simt_engine *e = simt_mine;
    const simt_range *r = e->range;
    const simt_job *j = e->job;
    if (r >= j->ranges && r < j->ranges + j->range_count && p >= r->begin - simt_guard && p < r->end + simt_guard) return r;
    size_t lo = 0, hi = j->range_count; /* the first that ends behind p */
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (j->ranges[mid].end + simt_guard <= p) lo = mid + 1;
        else hi = mid;
    }
    if (lo == j->range_count || p < j->ranges[lo].begin - simt_guard) return NULL;
    return e->range = &j->ranges[lo];
}

static void check(const void *address, size_t size, access_kind kind) {
    simt_engine *e = simt_mine;
    if (!e || !e->job || e->failed) return;
    const char *p = (const char *)address, *shared = (const char *)e->view.shared;
    if (p >= shared && p < shared + simt_most_shared) {
        size_t offset = (size_t)(p - shared);
        if (offset + size > e->job->shared) {
            e->fail("shared memory is used beyond what the launch gave");
            return;
        }
        if (!e->shadow) e->shadow = (simt_shadow *)calloc(simt_most_shared / 4, sizeof *e->shadow);
        for (size_t i = offset / 4; e->shadow && i <= (offset + size - 1) / 4; i++) touch(&e->shadow[i], "shared", i * 4, kind);
        return;
    }
    const simt_range *r = find(p);
    if (!r) return;
    if (p < r->begin || p + size > r->end) {
        char text[120];
        snprintf(text, sizeof text, "access at byte %td of a buffer of %td", p - r->begin, r->end - r->begin);
        e->fail(text);
        return;
    }
    size_t offset = (size_t)(p - r->begin);
    for (size_t i = offset / 4; i <= (offset + size - 1) / 4; i++) touch(&r->shadow[i], "device memory", i * 4, kind);
}

/* ---- what the instrumentation calls ---- */

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
#define SIZED(n)                                                                 \
    void __tsan_read##n(void *p) { check(p, n, reads); }                         \
    void __tsan_write##n(void *p) { check(p, n, writes); }                       \
    void __tsan_unaligned_read##n(void *p) { check(p, n, reads); }               \
    void __tsan_unaligned_write##n(void *p) { check(p, n, writes); }
SIZED(1) SIZED(2) SIZED(4) SIZED(8) SIZED(16)
void __tsan_read_range(void *p, unsigned long n) { if (n) check(p, n, reads); }
void __tsan_write_range(void *p, unsigned long n) { if (n) check(p, n, writes); }
uint32_t __tsan_atomic32_fetch_add(volatile uint32_t *p, uint32_t x, int) {
    check((const void *)p, 4, updates);
    return __atomic_fetch_add(p, x, __ATOMIC_RELAXED);
}
uint64_t __tsan_atomic64_fetch_add(volatile uint64_t *p, uint64_t x, int) {
    check((const void *)p, 8, updates);
    return __atomic_fetch_add(p, x, __ATOMIC_RELAXED);
}
}
