/* product.cu: C = A B^T, the one matrix product behind all three of whale.h, on tensor cores.
 *
 * A block makes 64 x 64 of C with 4 warps of 32 x 32. It walks K in steps of 32: both factors
 * come through shared memory, where they lie as pairs of bfloat16 along K whichever way they
 * lay in memory (ar, ak and bc, bk say how: 1 is the direction in which neighbours are read).
 * Every element is summed in ascending K whatever the number of rows, so the bits of a row do
 * not depend on the others.
 *
 * Bytes moved: A is read cols/64 times, B rows/64 times (mostly from the second cache), C is
 * written once. Bound: the tensor cores for large shapes, shared memory bandwidth in practice,
 * since loads are not overlapped with products. This is the product of machines without a BLAS
 * and of simt; on a card cuBLASLt takes its place. */
#include "warp.cuh"

/* 64 rows of a factor from `first`, k0..k0+32, into a tile; what lies outside is 0. */
template <int PARTS> DEVICE void load_factor(matrix16 to, const float *from, size_t stride, size_t along, int first, int rows, int k0, int K) {
    for (int i = threadIdx.x; i < product_tile * product_step / 2; i += 128) {
        /* neighbouring threads read neighbouring numbers */
        int row = along == 1 ? i / (product_step / 2) : i % product_tile, pair = along == 1 ? i % (product_step / 2) : i / product_tile;
        int k = k0 + 2 * pair;
        const float *p = from + (size_t)(first + row) * stride + (size_t)k * along;
        bool in = first + row < rows;
        float lo = in && k < K ? p[0] : 0.0f, hi = in && k + 1 < K ? p[along] : 0.0f;
        put_pair<PARTS>(to, row, pair, lo, hi);
    }
}

DEVICE void store(const product_args &a, int r, int c, float x) {
    if (r >= a.rows || c >= a.cols) return;
    float *to = a.c + (size_t)r * a.cr + c;
    *to = a.accumulate ? *to + x : x;
}

template <int PARTS> DEVICE void product(const product_args &a) {
    SHARED(uint32_t, shared);
    matrix16 A = tile_at(shared, product_tile, product_step), B = tile_at(shared + PARTS * A.part, product_tile, product_step);
    int r0 = blockIdx.y * product_tile, c0 = blockIdx.x * product_tile;
    int row = warp_id() / 2 * 32, col = warp_id() % 2 * 32;
    float sum[2][4][4] = {};
    for (int k = 0; k < a.K; k += product_step) {
        __syncthreads(); /* the last step was read */
        load_factor<PARTS>(A, a.a, a.ar, a.ak, r0, a.rows, k, a.K);
        load_factor<PARTS>(B, a.b, a.bc, a.bk, c0, a.cols, k, a.K);
        __syncthreads();
#pragma unroll
        for (int m = 0; m < 2; m++) multiply<PARTS, 4>(sum[m], A, row + 16 * m, B, col, product_step);
    }
    int r = r0 + row + lane_id() / 4, c = c0 + col + lane_id() % 4 * 2;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) store(a, r + 16 * m + i / 2 * 8, c + 8 * n + i % 2, sum[m][n][i]);
}

KERNEL(128, product_f32, product_args) { product<3>(a); }
KERNEL(128, product_bf16, product_args) { product<1>(a); }
