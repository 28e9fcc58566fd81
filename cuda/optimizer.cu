/* optimizer.cu: the gradient's norm and AdamW. */
#include "warp.cuh"

/* Sum over the block in double, fixed tree; the first thread gets it. */
DEVICE double block_sum(double x, double *shared) {
    shared[threadIdx.x] = x;
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if ((int)threadIdx.x < d) shared[threadIdx.x] += shared[threadIdx.x + d];
        __syncthreads();
    }
    return shared[0];
}

/* part[b] = sum of squares of the b-th stretch, in double: the square of a float is exact there,
 * so only the order of additions could matter, and it is fixed. 4 bytes an element. */
KERNEL(256, squares_part, squares_args) {
    SHARED(double, shared);
    size_t first = (size_t)blockIdx.x * a.each, last = first + a.each < a.n ? first + a.each : a.n;
    double s = 0;
    for (size_t i = first + threadIdx.x; i < last; i += 256) s += (double)a.x[i] * (double)a.x[i];
    s = block_sum(s, shared);
    if (threadIdx.x == 0) a.part[blockIdx.x] = s;
}

/* part[0] = sum of the parts. One block. */
KERNEL(256, squares_total, squares_args) {
    SHARED(double, shared);
    double s = 0;
    for (int i = threadIdx.x; i < a.blocks; i += 256) s += a.part[i];
    s = block_sum(s, shared);
    if (threadIdx.x == 0) a.part[0] = s;
}

/* One step on float32 master weights and moments. A grid that strides over n. 28 bytes an
 * element. Decay and step are added before they are taken from p: lr * decay is far below the
 * spacing of floats around 1. */
KERNEL(256, adamw_step, adamw_args) {
    size_t stride = (size_t)gridDim.x * 256;
    for (size_t i = (size_t)blockIdx.x * 256 + threadIdx.x; i < a.n; i += stride) {
        float g = a.g[i] * a.clip, p = a.p[i];
        float m = fmaf(a.r1, g, a.b1 * a.m[i]), v = fmaf(a.r2, g * g, a.b2 * a.v[i]);
        a.m[i] = m;
        a.v[i] = v;
        a.p[i] = p - fmaf(a.decay, p, a.step * m / fmaf(sqrtf(v), a.root, a.eps));
    }
}
