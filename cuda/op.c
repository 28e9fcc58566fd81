/* op.c: the operators of every device: every argument is checked here, then the table of the
 * instruction set does the work, or gpu.c. Indices (ids, positions, pages) are checked before
 * anything is written, so BAD_SHAPE leaves the outputs as they were. */
#include <stdarg.h>
#include <stdio.h>

#include "device.h"
#include "gpu.h"

/* The call on a device that is not the CPU. */
#define ON_GPU(call) \
    do { if (dev->gpu) return gpu_##call(dev, a); } while (0)

__attribute__((format(printf, 2, 3)))
static whale_status bad(whale_device *dev, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(dev->error, sizeof dev->error, format, args);
    va_end(args);
    return WHALE_BAD_SHAPE;
}

#define REQUIRE(cond) \
    do { if (!(cond)) return bad(dev, "needs %s", #cond); } while (0)

/* Every x[0..n) lies in [0, limit). */
static whale_status in_range(whale_device *dev, const char *name, const int32_t *x, int n, int limit) {
    if (n > 0 && !(x = on_host(dev, x, (size_t)n))) return bad(dev, "%s is not memory of indices", name);
    for (int i = 0; i < n; i++)
        if (x[i] < 0 || x[i] >= limit) return bad(dev, "%s[%d] is %d, outside [0, %d)", name, i, x[i], limit);
    return WHALE_OK;
}

#define IN_RANGE(x, n, limit) \
    do { whale_status st_ = in_range(dev, #x, a->x, n, limit); if (st_ != WHALE_OK) return st_; } while (0)

whale_status whale_fill(whale_device *dev, float *x, size_t n, float value) {
    if (dev->gpu) return gpu_fill(dev, x, n, value);
    dev->ops->fill(dev, x, n, value);
    return WHALE_OK;
}

whale_status whale_add(whale_device *dev, float *y, const float *x, size_t n) {
    if (dev->gpu) return gpu_add(dev, y, x, n);
    dev->ops->add(dev, y, x, n);
    return WHALE_OK;
}

whale_status whale_embed_forward(whale_device *dev, const whale_embed *a) {
    REQUIRE(a->T >= 0 && a->D > 0 && a->V > 0);
    IN_RANGE(ids, a->T, a->V);
    ON_GPU(embed_forward);
    dev->ops->embed_forward(dev, a);
    return WHALE_OK;
}

whale_status whale_embed_backward(whale_device *dev, const whale_embed_grad *a) {
    REQUIRE(a->T >= 0 && a->D > 0 && a->V > 0);
    IN_RANGE(ids, a->T, a->V);
    ON_GPU(embed_backward);
    dev->ops->embed_backward(dev, a);
    return WHALE_OK;
}

whale_status whale_rmsnorm_forward(whale_device *dev, const whale_rmsnorm *a) {
    REQUIRE(a->rows >= 0 && a->n > 0 && a->heads > 0 && a->rows % a->heads == 0);
    REQUIRE(a->ldx / a->heads >= a->n && a->ldy / a->heads >= a->n);
    ON_GPU(rmsnorm_forward);
    dev->ops->rmsnorm_forward(dev, a);
    return WHALE_OK;
}

whale_status whale_rmsnorm_backward(whale_device *dev, const whale_rmsnorm_grad *a) {
    REQUIRE(a->rows >= 0 && a->n > 0 && a->heads > 0 && a->rows % a->heads == 0);
    REQUIRE(a->ldx / a->heads >= a->n && a->lddy / a->heads >= a->n && a->lddx / a->heads >= a->n);
    REQUIRE(!a->accumulate || a->dx != a->dy);
    ON_GPU(rmsnorm_backward);
    return dev->ops->rmsnorm_backward(dev, a);
}

int whale_has(whale_device *dev, whale_precision precision) {
    switch (precision) {
    case WHALE_FLOAT32: return 1;
    case WHALE_BF16: return dev->bf16;
    case WHALE_BF16X3: return !dev->gpu && dev->bf16;
    case WHALE_INT8: return !dev->gpu;
    }
    return 0;
}

#define REQUIRE_PRECISION()                                                                       \
    REQUIRE(a->precision >= WHALE_FLOAT32 && a->precision <= WHALE_BF16X3);                       \
    do { if (!whale_has(dev, a->precision)) return no_bf16(dev); } while (0)

static whale_status no_bf16(whale_device *dev) {
    snprintf(dev->error, sizeof dev->error, "bfloat16 products need a processor with AVX512_BF16 (path %s)", whale_isa(dev));
    return WHALE_NO_DEVICE;
}

size_t whale_packed_floats(whale_device *dev, whale_precision precision, int N, int M) {
    if (N <= 0 || M <= 0) return 0;
    if (dev->gpu) return gpu_packed_floats(precision, N, M);
    size_t columns = precision == WHALE_INT8     ? ((size_t)M + 63) / 64 * 17
                     : precision == WHALE_BF16   ? ((size_t)M + 1) / 2
                     : precision == WHALE_BF16X3 ? ((size_t)M + 1) / 2 * 2
                                                 : (size_t)M;
    return ((size_t)N + 15) / 16 * 16 * columns;
}

whale_status whale_pack_weight(whale_device *dev, const whale_pack *a) {
    REQUIRE(a->N > 0 && a->M > 0);
    REQUIRE_PRECISION();
    ON_GPU(pack_weight);
    if (a->precision == WHALE_INT8) dev->ops8->pack_weight8(dev, a);
    else dev->ops->pack_weight(dev, a);
    return WHALE_OK;
}

whale_status whale_matmul_forward(whale_device *dev, const whale_matmul *a) {
    REQUIRE_PRECISION();
    REQUIRE(a->T >= 0 && a->N > 0 && a->M > 0 && a->ldx >= a->M && a->ldy >= a->N);
    ON_GPU(matmul_forward);
    if (a->precision != WHALE_INT8) return dev->ops->matmul_forward(dev, a);
    REQUIRE(a->packed != NULL);
    return dev->ops8->matmul_forward8(dev, a);
}

whale_status whale_matmul_backward_x(whale_device *dev, const whale_matmul_grad_x *a) {
    REQUIRE_PRECISION();
    REQUIRE(a->precision != WHALE_INT8);
    REQUIRE(a->T >= 0 && a->N > 0 && a->M > 0 && a->lddy >= a->N && a->lddx >= a->M);
    ON_GPU(matmul_backward_x);
    return dev->ops->matmul_backward_x(dev, a);
}

whale_status whale_matmul_backward_w(whale_device *dev, const whale_matmul_grad_w *a) {
    REQUIRE_PRECISION();
    REQUIRE(a->precision != WHALE_INT8);
    REQUIRE(a->T >= 0 && a->N > 0 && a->M > 0 && a->lddy >= a->N && a->ldx >= a->M);
    ON_GPU(matmul_backward_w);
    return dev->ops->matmul_backward_w(dev, a);
}

whale_status whale_rope_apply(whale_device *dev, const whale_rope *a) {
    REQUIRE(a->T >= 0 && a->heads > 0 && a->d > 0 && a->R > 0 && a->R % 2 == 0 && a->R <= a->d);
    REQUIRE(a->ld / a->heads >= a->d);
    IN_RANGE(pos, a->T, a->max_pos);
    ON_GPU(rope);
    dev->ops->rope(dev, a);
    return WHALE_OK;
}

/* The shape that packed and paged attention share. */
#define REQUIRE_HEADS()                                                                                      \
    REQUIRE(a->T >= 0 && a->B >= 0 && a->H > 0 && a->K > 0 && a->d > 0 && a->H % a->K == 0);                 \
    REQUIRE(a->T == 0 || (a->ldq / a->H >= a->d && a->ldo / a->H >= a->d && a->ldkv / a->K >= a->d))

/* start is 0 .. T, not falling. */
static whale_status check_start(whale_device *dev, const int32_t *start, int B, int T) {
    if (!(start = on_host(dev, start, (size_t)B + 1))) return bad(dev, "start is not memory of indices");
    if (start[0] != 0) return bad(dev, "start[0] is %d, not 0", start[0]);
    for (int b = 0; b < B; b++)
        if (start[b + 1] < start[b]) return bad(dev, "start[%d] is %d, less than the one before", b + 1, start[b + 1]);
    if (start[B] != T) return bad(dev, "start[%d] is %d, not T = %d", B, start[B], T);
    return WHALE_OK;
}

/* Every row ends after itself, within its sequence, and within the row that it follows. */
static whale_status check_until(whale_device *dev, const int32_t *start, const int32_t *until, int B, int T) {
    if (!until) return WHALE_OK;
    if (!(start = on_host(dev, start, (size_t)B + 1)) || !(until = on_host(dev, until, (size_t)T)))
        return bad(dev, "until is not memory of indices");
    for (int b = 0; b < B; b++)
        for (int row = start[b]; row < start[b + 1]; row++) {
            int above = row - 1;
            while (above >= start[b] && until[above] <= row) above--;
            int most = above >= start[b] ? until[above] : start[b + 1];
            if (until[row] <= row || until[row] > most) return bad(dev, "until[%d] is %d, not in (%d, %d]", row, until[row], row, most);
        }
    return WHALE_OK;
}

whale_status whale_attention_forward(whale_device *dev, const whale_attention *a) {
    REQUIRE_HEADS();
    whale_status st = check_start(dev, a->start, a->B, a->T);
    if (st == WHALE_OK) st = check_until(dev, a->start, a->until, a->B, a->T);
    if (st != WHALE_OK) return st;
    ON_GPU(attention_forward);
    return dev->ops->attention_forward(dev, a);
}

whale_status whale_attention_backward(whale_device *dev, const whale_attention_grad *a) {
    REQUIRE_HEADS();
    whale_status st = check_start(dev, a->start, a->B, a->T);
    if (st == WHALE_OK) st = check_until(dev, a->start, a->until, a->B, a->T);
    if (st != WHALE_OK) return st;
    ON_GPU(attention_backward);
    return dev->ops->attention_backward(dev, a);
}

/* The pages of positions first..pos[t] of every row exist; first is pos[t] itself for a store. */
static whale_status check_pages(whale_device *dev, const whale_paged *a, int whole) {
    REQUIRE(a->P > 0 && a->pages >= 0 && a->max_pages >= 0);
    IN_RANGE(seq, a->T, a->B);
    if (a->T == 0) return WHALE_OK;
    const int32_t *seq = on_host(dev, a->seq, (size_t)a->T), *pos = on_host(dev, a->pos, (size_t)a->T);
    const int32_t *pages = on_host(dev, a->page_table, (size_t)a->B * (size_t)a->max_pages);
    if (!pos || !pages) return bad(dev, "pos or page_table is not memory of indices");
    for (int t = 0; t < a->T; t++) {
        if (pos[t] < 0 || pos[t] / a->P >= a->max_pages)
            return bad(dev, "pos[%d] is %d, outside %d pages of %d", t, pos[t], a->max_pages, a->P);
        const int32_t *table = pages + (size_t)seq[t] * a->max_pages;
        int last = pos[t] / a->P;
        for (int i = whole ? 0 : last; i <= last; i++)
            if (table[i] < 0 || table[i] >= a->pages)
                return bad(dev, "page_table[%d,%d] is %d, outside [0, %d)", seq[t], i, table[i], a->pages);
    }
    return WHALE_OK;
}

size_t whale_page_floats(whale_device *dev, whale_precision precision, int K, int d, int P) {
    if (K <= 0 || d <= 0 || P <= 0) return 0;
    size_t n = (size_t)K * (size_t)P * (size_t)d;
    if (dev->gpu) return precision == WHALE_BF16 ? (n + 1) / 2 : n;
    return in_blocks16(dev, precision, P) ? (size_t)K * (size_t)P * (((size_t)d + 15) / 16 * 8) : n;
}

/* Copies only: rows in order, so that the last of two rows for one position stays. */
whale_status whale_paged_store(whale_device *dev, const whale_paged *a) {
    REQUIRE(a->T >= 0 && a->B >= 0 && a->K > 0 && a->d > 0 && (a->T == 0 || a->ldkv / a->K >= a->d));
    whale_status st = check_pages(dev, a, 0);
    if (st != WHALE_OK) return st;
    ON_GPU(paged_store);
    if (in_blocks16(dev, a->precision, a->P)) {
        dev->ops->paged_store16(dev, a);
        return WHALE_OK;
    }
    size_t width = (size_t)a->K * (size_t)a->d;
    for (int t = 0; t < a->T; t++) {
        size_t page = (size_t)a->page_table[(size_t)a->seq[t] * a->max_pages + a->pos[t] / a->P];
        size_t to = (page * (size_t)a->P + (size_t)(a->pos[t] % a->P)) * width, from = (size_t)t * a->ldkv;
        for (size_t i = 0; i < width; i++) a->kpages[to + i] = a->k[from + i];
        for (size_t i = 0; i < width; i++) a->vpages[to + i] = a->v[from + i];
    }
    return WHALE_OK;
}

whale_status whale_paged_attend(whale_device *dev, const whale_paged *a) {
    REQUIRE_HEADS();
    whale_status st = check_pages(dev, a, 1);
    if (st != WHALE_OK) return st;
    ON_GPU(paged_attend);
    return dev->ops->paged_attend(dev, a);
}

whale_status whale_swiglu_forward(whale_device *dev, const whale_swiglu *a) {
    REQUIRE(a->T >= 0 && a->I > 0);
    ON_GPU(swiglu_forward);
    dev->ops->swiglu_forward(dev, a);
    return WHALE_OK;
}

whale_status whale_swiglu_backward(whale_device *dev, const whale_swiglu_grad *a) {
    REQUIRE(a->T >= 0 && a->I > 0);
    ON_GPU(swiglu_backward);
    dev->ops->swiglu_backward(dev, a);
    return WHALE_OK;
}

whale_status whale_xent_loss(whale_device *dev, const whale_xent *a) {
    REQUIRE(a->T >= 0 && a->V > 0 && a->ldz >= a->V && a->tau > 0);
    IN_RANGE(target, a->T, a->V);
    ON_GPU(xent_loss);
    dev->ops->xent(dev, a);
    return WHALE_OK;
}

whale_status whale_sumsq(whale_device *dev, const float *x, size_t n, double *host_out) {
    if (dev->gpu) return gpu_sumsq(dev, x, n, host_out);
    return dev->ops->sumsq(dev, x, n, host_out);
}

whale_status whale_adamw_step(whale_device *dev, const whale_adamw *a) {
    REQUIRE(a->c1 > 0 && a->c2 > 0);
    ON_GPU(adamw);
    dev->ops->adamw(dev, a);
    return WHALE_OK;
}

whale_status whale_sample_rows(whale_device *dev, const whale_sample *a) {
    REQUIRE(a->T >= 0 && a->V > 0 && a->ldz >= a->V && a->valid > 0 && a->valid <= a->V);
    for (int t = 0; t < a->T; t++)
        if (!(a->u[t] >= 0 && a->u[t] < 1)) return bad(dev, "u[%d] is %g, outside [0, 1)", t, a->u[t]);
    ON_GPU(sample);
    return dev->ops->sample(dev, a);
}

double whale_fma_loop(whale_device *dev, int rounds) { return dev->gpu ? 0 : dev->ops->fma_loop(dev, rounds); }
