/* kernels.h: what the host (gpu.c) and the kernels (*.cu) agree on: the list of kernels, the
 * sizes of their tiles, and the arguments of those that do not take a struct of whale.h.
 * Compiled by gcc, by NVRTC and, for simt, by g++. Shapes: see whale.h.
 *
 * Every kernel takes one struct by value. Every thread block has `threads` threads, a
 * multiple of 32, and one piece of shared memory whose size the host gives. */
#ifndef WHALE_KERNELS_H
#define WHALE_KERNELS_H

#include "whale.h"

/* file, kernel, threads of a block */
#define WHALE_KERNELS(KERNEL)                     \
    KERNEL(rows, flat_add, 256)                   \
    KERNEL(rows, embed_forward, 128)              \
    KERNEL(rows, embed_backward, 128)             \
    KERNEL(rows, rmsnorm_forward, 128)            \
    KERNEL(rows, rmsnorm_backward, 128)           \
    KERNEL(rows, rmsnorm_weight, 128)             \
    KERNEL(rows, rope_heads, 256)                 \
    KERNEL(rows, swiglu_forward, 256)             \
    KERNEL(rows, swiglu_backward, 256)            \
    KERNEL(rows, round_rows, 256)                 \
    KERNEL(product, product_f32, 128)             \
    KERNEL(product, product_bf16, 128)            \
    KERNEL(attention, attention_f32_d32, 128)     \
    KERNEL(attention, attention_f32_d64, 128)     \
    KERNEL(attention, attention_f32_d128, 128)    \
    KERNEL(attention, attention_bf16_d32, 128)    \
    KERNEL(attention, attention_bf16_d64, 128)    \
    KERNEL(attention, attention_bf16_d128, 128)   \
    KERNEL(attention_back, attention_delta, 128)  \
    KERNEL(attention_back, dquery_f32_d32, 128)   \
    KERNEL(attention_back, dquery_f32_d64, 128)   \
    KERNEL(attention_back, dquery_f32_d128, 128)  \
    KERNEL(attention_back, dquery_bf16_d32, 128)  \
    KERNEL(attention_back, dquery_bf16_d64, 128)  \
    KERNEL(attention_back, dquery_bf16_d128, 128) \
    KERNEL(attention_back, dkey_f32_d32, 64)      \
    KERNEL(attention_back, dkey_f32_d64, 64)      \
    KERNEL(attention_back, dkey_f32_d128, 64)     \
    KERNEL(attention_back, dkey_bf16_d32, 128)    \
    KERNEL(attention_back, dkey_bf16_d64, 128)    \
    KERNEL(attention_back, dkey_bf16_d128, 128)   \
    KERNEL(paged, paged_store, 128)               \
    KERNEL(paged, paged_f32_d32, 128)             \
    KERNEL(paged, paged_f32_d64, 128)             \
    KERNEL(paged, paged_f32_d128, 128)            \
    KERNEL(paged, paged_bf16_d32, 128)            \
    KERNEL(paged, paged_bf16_d64, 128)            \
    KERNEL(paged, paged_bf16_d128, 128)           \
    KERNEL(paged, decode_f32_d32, 128)            \
    KERNEL(paged, decode_f32_d64, 128)            \
    KERNEL(paged, decode_f32_d128, 128)           \
    KERNEL(paged, decode_bf16_d32, 128)           \
    KERNEL(paged, decode_bf16_d64, 128)           \
    KERNEL(paged, decode_bf16_d128, 128)          \
    KERNEL(head, cross_entropy, 256)              \
    KERNEL(head, sample_rows, 256)                \
    KERNEL(optimizer, squares_part, 256)          \
    KERNEL(optimizer, squares_total, 256)         \
    KERNEL(optimizer, adamw_step, 256)

#define WHALE_KERNEL_ID(file, name, threads) kernel_##name,
typedef enum { WHALE_KERNELS(WHALE_KERNEL_ID) kernel_count } gpu_kernel;
#undef WHALE_KERNEL_ID

enum {
    product_tile = 64,  /* rows and columns of C that a block makes */
    product_step = 32,  /* of K */
    row_tile = 64,      /* (token, head) rows of an attention block */
    norm_blocks = 512,  /* most blocks of a norm's backward; each leaves one partial dw */
    squares_blocks = 1024,
    draw_bytes = 3328,  /* shared memory of a row that is sampled */
    decode_heads = 4    /* query heads that a decode block takes together */
};

/* Tiles of the attention kernels; PARTS is 1 for bfloat16 and 3 for float32, DP the head width
 * filled up to 32, 64 or 128. */
#define FORWARD_KEYS(PARTS) ((PARTS) == 1 ? 64 : 32) /* keys of a step of the forward */
#define BACK_KEYS(PARTS) ((PARTS) == 1 ? 64 : 16)    /* keys of a step of dquery */
#define BACK_OWNED(PARTS) ((PARTS) == 1 ? 64 : 32)   /* keys of a block of dkey, 16 to a warp */
#define BACK_ROWS(PARTS) ((PARTS) == 1 ? 32 : 16)    /* rows of a step of dkey */

/* Distance between rows of a tile of bfloat16 pairs in shared memory: 4 more than they take, so
 * that a fragment meets 32 banks. Bytes of a tile in all its parts. */
#define TILE_LD(width) ((width) / 2 + 4)
#define TILE_BYTES(PARTS, rows, width) ((size_t)(PARTS) * (rows) * TILE_LD(width) * 4)

/* y[0..n) += x[0..n) */
typedef struct { size_t n; float *y; const float *x; } flat_args;

/* y [rows, ldy] in bfloat16 = x [rows, width], rows ldx apart; columns width.. are 0, ldy is
 * ROUND8(width) */
#define ROUND8(n) (((n) + 7) / 8 * 8)
typedef struct { int width, ldy; size_t ldx; const float *x; uint16_t *y; } round_args;

/* a norm's backward; part [blocks, n] takes the shares of dw, rows_each norm rows to a block */
typedef struct { whale_rmsnorm_grad a; int rows_each, blocks; float *part; } norm_grad_args;

/* c[r*cr + c] = (accumulate ? c : 0) + sum over k of a[r*ar + k*ak] b[c*bc + k*bk] */
typedef struct {
    int rows, cols, K, accumulate;
    size_t ar, ak, bc, bk, cr;
    const float *a, *b;
    float *c;
} product_args;

/* delta [T, H] = row sums of do * o */
typedef struct { whale_attention_grad a; float *delta; } attention_grad_args;

/* rows of a paged call [first, T) */
typedef struct { whale_paged a; int first; } paged_args;

/* one row to sample, and what came of it */
typedef struct { double u; float tau, top_p; int32_t top_k, id; float logp, behaviour; } sample_row;
typedef struct { int V, ldz, valid; const float *z; sample_row *row; } sample_args;

typedef struct { size_t n, each; int blocks; const float *x; double *part; } squares_args;

/* lr, decay and the bias corrections as the kernel uses them; see learn.h */
typedef struct {
    size_t n;
    float b1, b2, r1, r2, step, root, eps, decay, clip;
    float *p, *m, *v;
    const float *g;
} adamw_args;

#endif
