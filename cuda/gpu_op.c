/* gpu_op.c: the operators of whale.h on a device that runs the kernels of the .cu files. Arguments
 * were checked by op.c; here each call becomes launches. Grids and shared memory follow from
 * kernels.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

static unsigned blocks_of(size_t n, size_t size) { return (unsigned)((n + size - 1) / size); }

/* RUN(dev, kernel, args, .grid = {x, y}, .shared = bytes) */
#define RUN(dev, name, arguments, ...) \
    gpu_launch_kernel(dev, (gpu_launch){.kernel = kernel_##name, .args = &(arguments), .size = sizeof(arguments), __VA_ARGS__})

/* Blocks of a grid that strides over n. */
static unsigned striding(size_t n, size_t size) { return (unsigned)MIN((n + size - 1) / size, (size_t)2048); }

/* ---- rows ---- */

whale_status gpu_add(whale_device *dev, float *y, const float *x, size_t n) {
    flat_args a = {n, y, x};
    return RUN(dev, flat_add, a, .grid = {striding(n, 256)});
}

whale_status gpu_embed_forward(whale_device *dev, const whale_embed *a) {
    return RUN(dev, embed_forward, *a, .grid = {(unsigned)a->T});
}

whale_status gpu_embed_backward(whale_device *dev, const whale_embed_grad *a) {
    return RUN(dev, embed_backward, *a, .grid = {(unsigned)a->T}, .shared = 16);
}

whale_status gpu_rmsnorm_forward(whale_device *dev, const whale_rmsnorm *a) {
    return RUN(dev, rmsnorm_forward, *a, .grid = {blocks_of((size_t)a->rows, 4)});
}

whale_status gpu_rmsnorm_backward(whale_device *dev, const whale_rmsnorm_grad *a) {
    if (a->rows == 0) return WHALE_OK;
    void *part;
    norm_grad_args n = {*a, MAX(4, (a->rows + norm_blocks - 1) / norm_blocks), 0, NULL};
    n.blocks = (int)blocks_of((size_t)a->rows, (size_t)n.rows_each);
    TRY(gpu_scratch(dev, (size_t)n.blocks * (size_t)a->n * sizeof(float), &part));
    n.part = part;
    TRY(RUN(dev, rmsnorm_backward, n, .grid = {(unsigned)n.blocks}, .shared = 16 * (size_t)a->n));
    return RUN(dev, rmsnorm_weight, n, .grid = {blocks_of((size_t)a->n, 128)});
}

whale_status gpu_rope(whale_device *dev, const whale_rope *a) { return RUN(dev, rope_heads, *a, .grid = {(unsigned)a->T}); }

whale_status gpu_swiglu_forward(whale_device *dev, const whale_swiglu *a) {
    return RUN(dev, swiglu_forward, *a, .grid = {(unsigned)a->T, blocks_of((size_t)a->I, 256)});
}

whale_status gpu_swiglu_backward(whale_device *dev, const whale_swiglu_grad *a) {
    return RUN(dev, swiglu_backward, *a, .grid = {(unsigned)a->T, blocks_of((size_t)a->I, 256)});
}

/* ---- products ---- */

/* A packed weight is [N, ROUND8(M)] in bfloat16; in float32 the weight itself is read. */
size_t gpu_packed_floats(whale_precision precision, int N, int M) {
    return precision == WHALE_BF16 ? (size_t)N * ROUND8((size_t)M) / 2 : 0;
}

static whale_status round_to(whale_device *dev, const float *x, size_t ldx, int rows, int width, void *y) {
    round_args a = {width, ROUND8(width), ldx, x, y};
    return RUN(dev, round_rows, a, .grid = {(unsigned)rows});
}

whale_status gpu_pack_weight(whale_device *dev, const whale_pack *a) {
    if (a->precision == WHALE_FLOAT32) return WHALE_OK;
    return round_to(dev, a->w, (size_t)a->M, a->N, a->M, a->packed);
}

/* A factor of a product: [rows, width] as it lies in memory. */
typedef struct { const float *x; size_t ld; int rows, width; const void *packed; } factor;

static size_t rounded_bytes(const factor *f) { return f->packed ? 0 : (size_t)f->rows * ROUND8((size_t)f->width) * 2; }

/* C through the backend's library. In bfloat16 both factors are rounded first, into scratch,
 * unless that was done once (packed). */
static whale_status library_product(whale_device *dev, gpu_product p, factor a, factor b) {
    gpu *g = dev->gpu;
    ALIVE(dev);
    p.a = a.x, p.lda = a.ld, p.b = b.x, p.ldb = b.ld;
    if (p.bf16) {
        void *space;
        size_t first = (rounded_bytes(&a) + 255) / 256 * 256;
        TRY(gpu_scratch(dev, first + rounded_bytes(&b) + 256, &space));
        p.a = a.packed ? a.packed : space;
        p.b = b.packed ? b.packed : (char *)space + first;
        p.lda = ROUND8((size_t)a.width), p.ldb = ROUND8((size_t)b.width);
        if (!a.packed) TRY(round_to(dev, a.x, a.ld, a.rows, a.width, (void *)p.a));
        if (!b.packed) TRY(round_to(dev, b.x, b.ld, b.rows, b.width, (void *)p.b));
    }
    return gpu_note(dev, g->b.product(&g->b, &p));
}

/* C [rows, cols] = A B^T with a sum over K. A is [rows, K], or [K, rows] if a_along; likewise B. */
static whale_status product(whale_device *dev, gpu_product p, factor a, factor b) {
    if (p.rows == 0 || p.cols == 0 || (p.K == 0 && p.accumulate)) return WHALE_OK;
    whale_status st = dev->gpu->b.product ? library_product(dev, p, a, b) : WHALE_NO_DEVICE;
    if (st != WHALE_NO_DEVICE) return st;
    product_args k = {p.rows, p.cols, p.K, p.accumulate, p.a_along ? 1 : a.ld, p.a_along ? a.ld : 1,
                      p.b_along ? 1 : b.ld, p.b_along ? b.ld : 1, p.ldc, a.x, b.x, p.c};
    unsigned x = blocks_of((size_t)p.cols, product_tile), y = blocks_of((size_t)p.rows, product_tile);
    int parts = p.bf16 ? 1 : 3;
    gpu_launch l = {.kernel = p.bf16 ? kernel_product_bf16 : kernel_product_f32, .grid = {x, y}, .args = &k, .size = sizeof k,
                    .shared = 2 * TILE_BYTES(parts, product_tile, product_step)};
    return gpu_launch_kernel(dev, l);
}

whale_status gpu_matmul_forward(whale_device *dev, const whale_matmul *a) {
    int bf16 = a->precision == WHALE_BF16;
    gpu_product p = {.rows = a->T, .cols = a->N, .K = a->M, .accumulate = a->accumulate, .bf16 = bf16, .ldc = (size_t)a->ldy, .c = a->y};
    return product(dev, p, (factor){a->x, (size_t)a->ldx, a->T, a->M, NULL},
                   (factor){a->w, (size_t)a->M, a->N, a->M, bf16 ? a->packed : NULL});
}

whale_status gpu_matmul_backward_x(whale_device *dev, const whale_matmul_grad_x *a) {
    int bf16 = a->precision == WHALE_BF16;
    gpu_product p = {.rows = a->T, .cols = a->M, .K = a->N, .accumulate = a->accumulate, .bf16 = bf16, .b_along = 1,
                     .ldc = (size_t)a->lddx, .c = a->dx};
    return product(dev, p, (factor){a->dy, (size_t)a->lddy, a->T, a->N, NULL},
                   (factor){a->w, (size_t)a->M, a->N, a->M, bf16 ? a->packed : NULL});
}

whale_status gpu_matmul_backward_w(whale_device *dev, const whale_matmul_grad_w *a) {
    gpu_product p = {.rows = a->N, .cols = a->M, .K = a->T, .accumulate = 1, .bf16 = a->precision == WHALE_BF16, .a_along = 1,
                     .b_along = 1, .ldc = (size_t)a->M, .c = a->dw};
    return product(dev, p, (factor){a->dy, (size_t)a->lddy, a->T, a->N, NULL}, (factor){a->x, (size_t)a->ldx, a->T, a->M, NULL});
}

/* ---- attention ---- */

/* Head width filled up to one that there are kernels for. */
static int padded(int d) { return d <= 32 ? 32 : d <= 64 ? 64 : 128; }

static whale_status check_width(whale_device *dev, int d) {
    if (d <= 128) return WHALE_OK;
    snprintf(dev->error, sizeof dev->error, "heads of width %d: there are kernels for up to 128", d);
    return WHALE_BAD_SHAPE;
}

/* The kernel of a width among six that follow each other: float32, then bf16. */
static gpu_kernel of_width(gpu_kernel f32_d32, whale_precision precision, int d) {
    return f32_d32 + (precision == WHALE_BF16 ? 3 : 0) + (padded(d) == 32 ? 0 : padded(d) == 64 ? 1 : 2);
}

static size_t forward_shared(int parts, int dp) {
    int keys = FORWARD_KEYS(parts);
    return TILE_BYTES(parts, row_tile, dp) + TILE_BYTES(parts, keys, dp) + TILE_BYTES(parts, dp, keys);
}

static int parts_of(whale_precision precision) { return precision == WHALE_BF16 ? 1 : 3; }

/* Enough tiles for every sequence: the surplus finds no sequence and ends. */
static unsigned tiles_of(size_t rows, int B, size_t size) { return blocks_of(rows, size) + (unsigned)B; }

whale_status gpu_attention_forward(whale_device *dev, const whale_attention *a) {
    TRY(check_width(dev, a->d));
    if (a->T == 0) return WHALE_OK;
    unsigned tiles = tiles_of((size_t)a->T * (size_t)(a->H / a->K), a->B, row_tile);
    return gpu_launch_kernel(dev, (gpu_launch){.kernel = of_width(kernel_attention_f32_d32, a->precision, a->d), .grid = {tiles, (unsigned)a->K},
                                    .shared = forward_shared(parts_of(a->precision), padded(a->d)), .args = a, .size = sizeof *a});
}

whale_status gpu_attention_backward(whale_device *dev, const whale_attention_grad *a) {
    TRY(check_width(dev, a->d));
    if (a->T == 0) return WHALE_OK;
    int parts = parts_of(a->precision), dp = padded(a->d), keys = BACK_KEYS(parts), owned = BACK_OWNED(parts), rows = BACK_ROWS(parts);
    void *delta;
    TRY(gpu_scratch(dev, (size_t)a->T * (size_t)a->H * sizeof(float), &delta));
    attention_grad_args g = {*a, delta};
    TRY(RUN(dev, attention_delta, g, .grid = {blocks_of((size_t)a->T * (size_t)a->H, 4)}));
    gpu_launch q = {.kernel = of_width(kernel_dquery_f32_d32, a->precision, a->d), .args = &g, .size = sizeof g,
                    .grid = {tiles_of((size_t)a->T * (size_t)(a->H / a->K), a->B, row_tile), (unsigned)a->K},
                    .shared = 2 * TILE_BYTES(parts, row_tile, dp) + 2 * TILE_BYTES(parts, keys, dp) + TILE_BYTES(parts, dp, keys)};
    TRY(gpu_launch_kernel(dev, q));
    gpu_launch k = {.kernel = of_width(kernel_dkey_f32_d32, a->precision, a->d), .args = &g, .size = sizeof g,
                    .grid = {tiles_of((size_t)a->T, a->B, (size_t)owned), (unsigned)a->K},
                    .shared = 2 * TILE_BYTES(parts, owned, dp) + 2 * TILE_BYTES(parts, rows, dp) + 2 * TILE_BYTES(parts, dp, rows) +
                              2 * (size_t)rows * sizeof(float)};
    return gpu_launch_kernel(dev, k);
}

static whale_status check_pairs(whale_device *dev, const whale_paged *a) {
    if (a->precision != WHALE_BF16 || a->K * a->d % 2 == 0) return WHALE_OK;
    snprintf(dev->error, sizeof dev->error, "a cache in bfloat16 holds pairs: K*d is %d", a->K * a->d);
    return WHALE_BAD_SHAPE;
}

whale_status gpu_paged_store(whale_device *dev, const whale_paged *a) {
    TRY(check_pairs(dev, a));
    return RUN(dev, paged_store, *a, .grid = {(unsigned)a->T}, .shared = 16);
}

/* Rows [0, first) each decode another sequence; from there on some follow each other. */
whale_status gpu_paged_attend(whale_device *dev, const whale_paged *a) {
    TRY(check_width(dev, a->d));
    TRY(check_pairs(dev, a));
    if (a->T == 0) return WHALE_OK;
    const int32_t *seq = gpu_on_host(dev, a->seq, (size_t)a->T);
    int first = 0, G = a->H / a->K, groups = (G + decode_heads - 1) / decode_heads, dp = padded(a->d);
    while (first < a->T && (first + 1 == a->T || seq[first + 1] != seq[first])) first++;
    gpu_kernel decode = of_width(kernel_decode_f32_d32, a->precision, a->d);
    TRY(gpu_launch_kernel(dev, (gpu_launch){.kernel = decode, .grid = {(unsigned)first, (unsigned)(a->K * groups)}, .args = a, .size = sizeof *a,
                                 .shared = 16 * decode_heads * ((size_t)dp + 2) * sizeof(float)}));
    paged_args p = {*a, first};
    return gpu_launch_kernel(dev, (gpu_launch){.kernel = of_width(kernel_paged_f32_d32, a->precision, a->d), .args = &p, .size = sizeof p,
                                    .grid = {blocks_of((size_t)(a->T - first) * (size_t)G, row_tile), (unsigned)a->K},
                                    .shared = forward_shared(parts_of(a->precision), dp)});
}

/* ---- loss, optimizer, sampling ---- */

whale_status gpu_xent_loss(whale_device *dev, const whale_xent *a) {
    return RUN(dev, cross_entropy, *a, .grid = {(unsigned)a->T}, .shared = 64);
}

whale_status gpu_sumsq(whale_device *dev, const float *x, size_t n, double *host_out) {
    *host_out = 0;
    if (n == 0) return WHALE_OK;
    void *part;
    size_t each = MAX((size_t)4096, (n + squares_blocks - 1) / squares_blocks);
    squares_args a = {n, each, (int)blocks_of(n, each), x, NULL};
    TRY(gpu_scratch(dev, (size_t)a.blocks * sizeof(double), &part));
    a.part = part;
    TRY(RUN(dev, squares_part, a, .grid = {(unsigned)a.blocks}, .shared = 256 * sizeof(double)));
    TRY(RUN(dev, squares_total, a, .grid = {1}, .shared = 256 * sizeof(double)));
    return gpu_download(dev, host_out, part, sizeof(double));
}

whale_status gpu_adamw(whale_device *dev, const whale_adamw *a) {
    adamw_args k = {.n = a->n, .b1 = a->b1, .b2 = a->b2, .r1 = (float)(1.0 - (double)a->b1), .r2 = (float)(1.0 - (double)a->b2),
                    .step = (float)((double)a->lr / a->c1), .root = (float)(1.0 / sqrt(a->c2)), .eps = a->eps,
                    .decay = (float)((double)a->lr * (double)a->decay), .clip = a->clip, .p = a->p, .m = a->m, .v = a->v, .g = a->g};
    return RUN(dev, adamw_step, k, .grid = {striding(a->n, 256)});
}

whale_status gpu_sample(whale_device *dev, const whale_sample *a) {
    if (a->T == 0) return WHALE_OK;
    size_t bytes = (size_t)a->T * sizeof(sample_row);
    void *space;
    sample_row *rows = malloc(bytes);
    if (!rows) {
        snprintf(dev->error, sizeof dev->error, "no room on the host for %d rows to sample", a->T);
        return WHALE_NO_MEMORY;
    }
    for (int t = 0; t < a->T; t++) rows[t] = (sample_row){.u = a->u[t], .tau = a->tau[t], .top_p = a->top_p[t], .top_k = a->top_k[t]};
    whale_status st = gpu_scratch(dev, bytes, &space);
    sample_args k = {a->V, a->ldz, a->valid, a->z, space};
    if (st == WHALE_OK) st = gpu_upload(dev, space, rows, bytes);
    if (st == WHALE_OK) st = RUN(dev, sample_rows, k, .grid = {(unsigned)a->T}, .shared = draw_bytes);
    if (st == WHALE_OK) st = gpu_download(dev, rows, space, bytes);
    for (int t = 0; st == WHALE_OK && t < a->T; t++) {
        a->host_id[t] = rows[t].id;
        if (a->host_logp) a->host_logp[t] = rows[t].logp;
        if (a->host_behaviour) a->host_behaviour[t] = rows[t].behaviour;
    }
    free(rows);
    return st;
}
