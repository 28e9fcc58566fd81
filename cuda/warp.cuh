/* warp.cuh: what all kernels stand on: how a kernel is declared, what the threads of a warp and
 * of a block do together, bfloat16, and the tensor-core step. Under SIMT (simt/shim.h) the same
 * names run on the CPU. No header of the CUDA toolkit is needed.
 *
 * bfloat16 is kept as uint16_t, pairs as uint32_t with the first number in the low half.
 *
 * Precision of products, PARTS: 1 rounds a float to one bfloat16. 3 writes it as the sum of
 * three, which hold all 24 bits, and adds the six products of parts that are not below the last
 * bit: float32 arithmetic on the tensor cores. What is not finite becomes not a number. */
#ifndef WHALE_WARP_CUH
#define WHALE_WARP_CUH

#include "kernels.h"

#ifdef SIMT
#include "simt/shim.h"
#else
#define KERNEL(threads, name, type) extern "C" __global__ void __launch_bounds__(threads) name(const type a)
extern __shared__ __align__(128) unsigned char shared_bytes[];
#define SHARED(type, name) type *name = (type *)shared_bytes
#define DEVICE static __device__ __forceinline__
#define INF __int_as_float(0x7f800000)
#define fast_exp __expf
#endif

DEVICE int lane_id() { return threadIdx.x % 32; }
DEVICE int warp_id() { return threadIdx.x / 32; }

/* ---- sums and maxima; every lane gets the result; one fixed tree ---- */

DEVICE float warp_sum(float x) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

DEVICE float warp_max(float x) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

/* Over the four lanes that hold one row of a tensor-core result. */
DEVICE float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

DEVICE float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

/* ---- bfloat16 ---- */

DEVICE float float_of(uint32_t half) { return __uint_as_float(half << 16); }

/* to nearest even; both halves of the result */
DEVICE uint32_t pack_bf16(float lo, float hi) {
#ifdef SIMT
    return simt_bf16(lo) | simt_bf16(hi) << 16;
#else
    uint32_t d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
#endif
}

/* parts[i] of the pair (lo, hi), largest first */
template <int PARTS> DEVICE void split(uint32_t (&parts)[PARTS], float lo, float hi) {
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        parts[i] = pack_bf16(lo, hi);
        lo -= float_of(parts[i] & 0xffff);
        hi -= __uint_as_float(parts[i] & 0xffff0000u);
    }
}

/* ---- the tensor-core step ----
 * c [16, 8] += a [16, 16] b [16, 8] by a warp; b is given by columns. With g = lane / 4 and
 * t = lane % 4 a lane holds
 *     a[0]: a[g][2t, 2t+1]    a[1]: a[g+8][2t, 2t+1]    a[2], a[3]: the same, 8 columns on
 *     b[0]: b[2t, 2t+1][g]    b[1]: b[2t+8, 2t+9][g]
 *     c[0], c[1]: c[g][2t, 2t+1]    c[2], c[3]: c[g+8][2t, 2t+1] */
DEVICE void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef SIMT
    simt_mma(c, a, b);
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* A matrix of bfloat16 pairs in shared memory, one for each part: row r begins at r * ld pairs.
 * With ld % 32 == 4, 12, 20 or 28 the 32 lanes of a fragment meet 32 banks. */
struct matrix16 {
    uint32_t *at;
    int ld;   /* pairs */
    int part; /* pairs from one part to the next */
};

DEVICE matrix16 tile_at(uint32_t *at, int rows, int width) {
    matrix16 m;
    m.at = at;
    m.ld = TILE_LD(width);
    m.part = rows * TILE_LD(width);
    return m;
}

template <int PARTS> DEVICE void put_pair(matrix16 m, int row, int pair, float lo, float hi) {
    uint32_t parts[PARTS];
    split<PARTS>(parts, lo, hi);
#pragma unroll
    for (int i = 0; i < PARTS; i++) m.at[i * m.part + row * m.ld + pair] = parts[i];
}

/* Rows row..row+16, pairs pair..pair+8 */
DEVICE void load_a(uint32_t (&a)[4], matrix16 m, int part, int row, int pair) {
    const uint32_t *p = m.at + part * m.part + (row + lane_id() / 4) * m.ld + pair + lane_id() % 4;
    a[0] = p[0];
    a[1] = p[8 * m.ld];
    a[2] = p[4];
    a[3] = p[8 * m.ld + 4];
}

/* Columns row..row+8 of b lie as rows of m. */
DEVICE void load_b(uint32_t (&b)[2], matrix16 m, int part, int row, int pair) {
    const uint32_t *p = m.at + part * m.part + (row + lane_id() / 4) * m.ld + pair + lane_id() % 4;
    b[0] = p[0];
    b[1] = p[4];
}

/* c += a b for all parts that count; small products first */
template <int PARTS> DEVICE void mma_parts(float (&c)[4], const uint32_t (&a)[PARTS][4], const uint32_t (&b)[PARTS][2]) {
#pragma unroll
    for (int s = PARTS - 1; s >= 0; s--)
#pragma unroll
        for (int i = 0; i <= s; i++) mma_m16n8k16(c, a[i], b[s - i]);
}

/* c[n] (columns 8n..) += A[row..row+16] B[col + 8n..]^T over K, a multiple of 16 */
template <int PARTS, int NT> DEVICE void multiply(float (&c)[NT][4], matrix16 A, int row, matrix16 B, int col, int K) {
    for (int k = 0; k < K / 2; k += 8) {
        uint32_t a[PARTS][4];
#pragma unroll
        for (int i = 0; i < PARTS; i++) load_a(a[i], A, i, row, k);
#pragma unroll
        for (int n = 0; n < NT; n++) {
            uint32_t b[PARTS][2];
#pragma unroll
            for (int i = 0; i < PARTS; i++) load_b(b[i], B, i, col + 8 * n, k);
            mma_parts<PARTS>(c[n], a, b);
        }
    }
}

/* c[n] += P B[8n..]^T, where P [16, 8 KT] is itself a result of tensor-core steps: a lane's part
 * of two neighbouring results is its part of a left factor. */
template <int PARTS, int KT, int NT> DEVICE void multiply_result(float (&c)[NT][4], const float (&p)[KT][4], matrix16 B) {
#pragma unroll
    for (int k = 0; k < KT; k += 2) {
        uint32_t a[PARTS][4];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            uint32_t parts[PARTS];
            split<PARTS>(parts, p[k + r / 2][r % 2 * 2], p[k + r / 2][r % 2 * 2 + 1]);
#pragma unroll
            for (int i = 0; i < PARTS; i++) a[i][r] = parts[i];
        }
#pragma unroll
        for (int n = 0; n < NT; n++) {
            uint32_t b[PARTS][2];
#pragma unroll
            for (int i = 0; i < PARTS; i++) load_b(b[i], B, i, 8 * n, k * 4);
            mma_parts<PARTS>(c[n], a, b);
        }
    }
}

#endif
