/* driver_arena.c: device memory. Few large pieces are got from the driver, what the device gives
 * out is cut from them. All work is on one stream, so a block can be given out again at once: who
 * used it before is done when the next one's work begins. */
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

/* Blocks cover their segment without a gap; two free ones never touch. */
struct arena_block {
    arena_block *before, *after;
    cu_pointer base;  /* of its segment */
    size_t at, bytes; /* in the segment */
    int used;
};

enum { arena_line = 256, arena_page = 2 << 20, arena_growth = 64 << 20 };

static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static void join(arena_block *a) {
    arena_block *b = a->after;
    if (!b || a->used || b->used || a->base != b->base) return;
    a->bytes += b->bytes;
    a->after = b->after;
    if (b->after) b->after->before = a;
    free(b);
}

/* Gets a piece of the driver; answers a CUresult. */
static int grow(driver *d, size_t bytes) {
    arena *a = &d->arena;
    arena_block *b = calloc(1, sizeof *b);
    arena_segment *more = realloc(a->segments, (a->count + 1) * sizeof *more);
    if (more) a->segments = more;
    cu_pointer p = 0;
    int result = b && more ? d->cu.alloc(&p, bytes) : cu_out_of_memory;
    if (result != cu_ok) {
        free(b);
        return result;
    }
    a->segments[a->count++] = (arena_segment){p, bytes};
    a->held += bytes;
    *b = (arena_block){.after = a->first, .base = p, .bytes = bytes};
    if (a->first) a->first->before = b;
    a->first = b;
    return cu_ok;
}

/* Gives pieces back of which nothing is in use. */
static void shrink(driver *d) {
    arena *a = &d->arena;
    for (arena_block *b = a->first, *next; b; b = next) {
        next = b->after;
        size_t i = 0;
        while (i < a->count && a->segments[i].base != b->base) i++;
        if (b->used || i == a->count || b->bytes != a->segments[i].bytes) continue;
        if (d->cu.stream_wait(d->stream) != cu_ok || d->cu.free(b->base) != cu_ok) return;
        a->held -= b->bytes;
        a->segments[i] = a->segments[--a->count];
        if (b->before) b->before->after = b->after;
        else a->first = b->after;
        if (b->after) b->after->before = b->before;
        free(b);
    }
}

/* The line of a card without room. */
static whale_status full(gpu_backend *b, size_t bytes) {
    driver *d = b->state;
    size_t left = 0, total = 0;
    CU(b, d->cu.memory(&left, &total));
    snprintf(b->error, 256, "card %d (%.60s) has no room for %.2f GB more: %.2f of %.2f GB are free, this process holds %.2f%s",
             d->card.ordinal, d->card.name, (double)bytes / 1e9, (double)left / 1e9, (double)total / 1e9, (double)d->arena.held / 1e9,
             left + d->arena.held < total / 10 * 9 ? ": another process is on the card" : "");
    return WHALE_NO_MEMORY;
}

static arena_block *best(const arena *a, size_t bytes) {
    arena_block *found = NULL;
    for (arena_block *b = a->first; b; b = b->after)
        if (!b->used && b->bytes >= bytes && (!found || b->bytes < found->bytes)) found = b;
    return found;
}

/* Cuts the end of a free block off. */
static int split(arena_block *b, size_t bytes) {
    if (b->bytes == bytes) return 1;
    arena_block *rest = calloc(1, sizeof *rest);
    if (!rest) return 0;
    *rest = (arena_block){.before = b, .after = b->after, .base = b->base, .at = b->at + bytes, .bytes = b->bytes - bytes};
    if (b->after) b->after->before = rest;
    b->after = rest;
    b->bytes = bytes;
    return 1;
}

whale_status arena_reserve(gpu_backend *b, size_t bytes) {
    driver *d = b->state;
    arena *a = &d->arena;
    a->peak = a->used;
    if (bytes <= a->held) return WHALE_OK;
    size_t need = up(bytes - a->held, arena_page);
    int result = grow(d, need);
    if (result == cu_out_of_memory) return full(b, need);
    return result == cu_ok ? WHALE_OK : driver_fail(b, "cuMemAlloc", result);
}

whale_status arena_alloc(gpu_backend *b, size_t bytes, cu_pointer *out) {
    driver *d = b->state;
    arena *a = &d->arena;
    if (bytes > SIZE_MAX / 2) return full(b, bytes);
    bytes = up(bytes, arena_line);
    arena_block *found = best(a, bytes);
    if (!found) {
        int result = grow(d, up(MAX(bytes, (size_t)arena_growth), arena_page));
        if (result == cu_out_of_memory) {
            shrink(d);
            result = grow(d, up(bytes, arena_page));
        }
        if (result == cu_out_of_memory) return full(b, bytes);
        if (result != cu_ok) return driver_fail(b, "cuMemAlloc", result);
        found = best(a, bytes);
    }
    if (!split(found, bytes)) {
        snprintf(b->error, 256, "no room on the host for the list of blocks");
        return WHALE_NO_MEMORY;
    }
    found->used = 1;
    a->used += bytes;
    a->peak = MAX(a->peak, a->used);
    *out = found->base + found->at;
    return WHALE_OK;
}

void arena_free(driver *d, cu_pointer p) {
    for (arena_block *b = d->arena.first; b; b = b->after) {
        if (!b->used || b->base + b->at != p) continue;
        b->used = 0;
        d->arena.used -= b->bytes;
        join(b);
        if (b->before) join(b->before);
        return;
    }
}

void arena_close(driver *d) {
    arena *a = &d->arena;
    for (size_t i = 0; i < a->count; i++) d->cu.free(a->segments[i].base); /* of a lost card this fails */
    for (arena_block *b = a->first, *next; b; b = next) {
        next = b->after;
        free(b);
    }
    free(a->segments);
    *a = (arena){0};
}
