/* driver_product.c: matrix products by cuBLASLt, float32 sums. A BLAS counts columns first, so it is
 * asked for C^T = B A^T: its first factor is our B, its second our A. What it chose for a shape is
 * kept, so that the question is asked once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { most_plans = 4096, most_alignment = 256 };

/* What tells calls apart; no padding. */
typedef struct { int rows, cols, K, accumulate, bf16, a_along, b_along, align_a, align_b, align_c; size_t lda, ldb, ldc; } lt_key;

struct lt_plan {
    lt_key key;
    lt_desc desc;
    lt_layout a, b, c; /* of cuBLASLt's factors */
    lt_algo algo;
    size_t workspace;
};

static whale_status fail(gpu_backend *b, const char *call, int status) {
    snprintf(b->error, 256, "cuBLASLt: %.80s answers status %d", call, status);
    return status == 3 ? WHALE_NO_MEMORY : status == 15 || status == 7 ? WHALE_NO_DEVICE : WHALE_BROKEN;
}

#define LT(b, call) \
    do { int lt_ = (call); if (lt_ != 0) return fail(b, #call, lt_); } while (0)

static void drop(const lt_calls *lt, lt_plan *p) {
    if (!p) return;
    if (p->desc) lt->desc_free(p->desc);
    if (p->a) lt->layout_free(p->a);
    if (p->b) lt->layout_free(p->b);
    if (p->c) lt->layout_free(p->c);
    free(p);
}

whale_status lt_open(gpu_backend *b, const char *path) {
    driver *d = b->state;
    whale_status st = lt_load(path, &d->lt.calls, b->error);
    if (st != WHALE_OK) return st;
    LT(b, d->lt.calls.create(&d->lt.handle));
    d->has_lt = 1;
    return WHALE_OK;
}

static void forget(lt_state *s) {
    for (size_t i = 0; i < s->room; i++) drop(&s->calls, s->plans[i]);
    free(s->plans);
    s->plans = NULL;
    s->room = s->count = 0;
}

void lt_close(driver *d) {
    if (!d->has_lt) return;
    forget(&d->lt);
    d->lt.calls.destroy(d->lt.handle);
}

/* ---- plans ---- */

static int alignment(const void *p) {
    uintptr_t x = (uintptr_t)p | most_alignment;
    return (int)(x & -x);
}

static size_t hash(const lt_key *k) {
    const unsigned char *bytes = (const unsigned char *)k;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *k; i++) h = (h ^ bytes[i]) * 1099511628211u;
    return (size_t)(h ^ h >> 29);
}

/* Where the plan of a key is or belongs. */
static lt_plan **place(lt_state *s, const lt_key *k) {
    size_t i = hash(k) & (s->room - 1);
    while (s->plans[i] && memcmp(&s->plans[i]->key, k, sizeof *k)) i = (i + 1) & (s->room - 1);
    return &s->plans[i];
}

static whale_status ask(gpu_backend *b, const lt_key *k, lt_plan *p, lt_preference want) {
    lt_state *s = &((driver *)b->state)->lt;
    const lt_calls *lt = &s->calls;
    int type = k->bf16 ? lt_bfloat16 : lt_float32, first = k->b_along ? lt_as_is : lt_transposed, count = 0;
    int second = k->a_along ? lt_transposed : lt_as_is;
    uint64_t rows = (uint64_t)k->rows, cols = (uint64_t)k->cols, K = (uint64_t)k->K, most = lt_workspace;
    LT(b, lt->desc(&p->desc, lt_sum_float32, lt_float32));
    LT(b, lt->desc_set(p->desc, lt_trans_a, &first, sizeof first));
    LT(b, lt->desc_set(p->desc, lt_trans_b, &second, sizeof second));
    LT(b, lt->layout(&p->a, type, k->b_along ? cols : K, k->b_along ? K : cols, (int64_t)k->ldb));
    LT(b, lt->layout(&p->b, type, k->a_along ? rows : K, k->a_along ? K : rows, (int64_t)k->lda));
    LT(b, lt->layout(&p->c, lt_float32, cols, rows, (int64_t)k->ldc));
    uint32_t align_a = (uint32_t)k->align_b, align_b = (uint32_t)k->align_a, align_c = (uint32_t)k->align_c;
    LT(b, lt->preference_set(want, lt_most_workspace, &most, sizeof most));
    LT(b, lt->preference_set(want, lt_align_a, &align_a, sizeof align_a));
    LT(b, lt->preference_set(want, lt_align_b, &align_b, sizeof align_b));
    LT(b, lt->preference_set(want, lt_align_c, &align_c, sizeof align_c));
    LT(b, lt->preference_set(want, lt_align_d, &align_c, sizeof align_c));
    lt_heuristic found = {0};
    LT(b, lt->heuristic(s->handle, p->desc, p->a, p->b, p->c, p->c, want, 1, &found, &count));
    if (count < 1 || found.state != 0) return fail(b, "heuristic: no way to multiply this shape", 15);
    p->algo = found.algo;
    p->workspace = found.workspace;
    return WHALE_OK;
}

static whale_status new_plan(gpu_backend *b, const lt_key *k, lt_plan **out) {
    lt_state *s = &((driver *)b->state)->lt;
    lt_plan *p = calloc(1, sizeof *p);
    if (!p) return WHALE_NO_MEMORY;
    p->key = *k;
    lt_preference want = NULL;
    int status = s->calls.preference(&want);
    whale_status st = status == 0 ? ask(b, k, p, want) : fail(b, "cublasLtMatmulPreferenceCreate", status);
    if (want) s->calls.preference_free(want);
    if (st == WHALE_OK) *out = p;
    else drop(&s->calls, p);
    return st;
}

static whale_status plan_of(gpu_backend *b, const lt_key *k, lt_plan **out) {
    lt_state *s = &((driver *)b->state)->lt;
    if (s->count >= most_plans) forget(s);
    if (!s->plans) {
        s->plans = calloc(2 * most_plans, sizeof *s->plans);
        if (!s->plans) return WHALE_NO_MEMORY;
        s->room = 2 * most_plans;
    }
    lt_plan **at = place(s, k);
    if (!*at) {
        whale_status st = new_plan(b, k, at);
        if (st != WHALE_OK) return st;
        s->count++;
    }
    *out = *at;
    return WHALE_OK;
}

whale_status lt_product(gpu_backend *b, const gpu_product *p) {
    driver *d = b->state;
    if (p->K == 0) { /* nothing to add: C is 0; gpu.c keeps C where it accumulates */
        CU(b, d->cu.fill_rows((cu_pointer)(uintptr_t)p->c, p->ldc * sizeof(float), 0, (size_t)p->cols, (size_t)p->rows, d->stream));
        return WHALE_OK;
    }
    lt_key k;
    memset(&k, 0, sizeof k);
    k = (lt_key){p->rows, p->cols, p->K, p->accumulate, p->bf16, p->a_along, p->b_along, alignment(p->a), alignment(p->b), alignment(p->c),
                 p->lda, p->ldb, p->ldc};
    lt_plan *plan = NULL;
    whale_status st = plan_of(b, &k, &plan);
    if (st != WHALE_OK) return st;
    if (plan->workspace && !d->lt.workspace && (st = arena_alloc(b, lt_workspace, &d->lt.workspace)) != WHALE_OK) return st;
    static const float one = 1, none = 0;
    LT(b, d->lt.calls.matmul(d->lt.handle, plan->desc, &one, p->b, plan->a, p->a, plan->b, p->accumulate ? &one : &none, p->c, plan->c,
                             p->c, plan->c, &plan->algo, (void *)(uintptr_t)d->lt.workspace, plan->workspace ? lt_workspace : 0,
                             d->stream));
    return WHALE_OK;
}
