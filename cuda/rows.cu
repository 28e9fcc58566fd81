/* rows.cu: operators that work row by row, and the gradients that sum over rows. All are bound
 * by memory: what is said of bytes is what must move at least, and it moves once. */
#include "warp.cuh"

/* y += x. A grid that strides over n. 12 bytes an element. */
KERNEL(256, flat_add, flat_args) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += step) a.y[i] += a.x[i];
}

/* y[t,:] = table[ids[t],:]. A block is a row. 8 D bytes a row. */
KERNEL(128, embed_forward, whale_embed) {
    size_t t = blockIdx.x;
    const float *from = a.table + (size_t)a.ids[t] * a.D;
    for (int i = threadIdx.x; i < a.D; i += 128) a.y[t * a.D + i] = from[i];
}

/* dtable[ids[t],:] += dy[t,:], rows that name the same id in the order of t: the block of the
 * first such row adds all of them, the other blocks do nothing. So no atomics and no sorting; each
 * block reads the ids, T * T * 4 bytes that stay in the second cache, beside 12 D bytes a row. */
KERNEL(128, embed_backward, whale_embed_grad) {
    SHARED(uint32_t, found); /* [4] the rows of a stretch that name the id, a bit each, by warp */
    int t = blockIdx.x, id = a.ids[t];
    for (int at = 0; at < a.T; at += 128) {
        int row = at + threadIdx.x;
        uint32_t bits = __ballot_sync(0xffffffffu, row < a.T && a.ids[row] == id);
        __syncthreads(); /* the last stretch was read */
        if (lane_id() == 0) found[warp_id()] = bits;
        __syncthreads();
        for (int w = 0; w < 4; w++)
            for (uint32_t left = found[w]; left; left &= left - 1) {
                int row_of = at + w * 32 + __ffs(left) - 1;
                if (row_of < t) return; /* the whole block: it is another's */
                for (int i = threadIdx.x; i < a.D; i += 128) {
                    float *to = a.dtable + (size_t)id * a.D + i;
                    *to += a.dy[(size_t)row_of * a.D + i];
                }
            }
    }
}

DEVICE size_t norm_row(int r, int n, int heads, int ld) { return (size_t)(r / heads) * ld + (size_t)(r % heads) * n; }

/* y = w x / rms(x). A warp is a row, which it reads twice, the second time from cache. 8 n bytes. */
KERNEL(128, rmsnorm_forward, whale_rmsnorm) {
    int r = blockIdx.x * 4 + warp_id();
    if (r >= a.rows) return;
    const float *x = a.x + norm_row(r, a.n, a.heads, a.ldx);
    float *y = a.y + norm_row(r, a.n, a.heads, a.ldy);
    float s = 0;
    for (int i = lane_id(); i < a.n; i += 32) s = fmaf(x[i], x[i], s);
    float rstd = 1.0f / sqrtf(warp_sum(s) / a.n + a.eps);
    for (int i = lane_id(); i < a.n; i += 32) y[i] = a.w[i] * (x[i] * rstd);
    if (a.rstd && lane_id() == 0) a.rstd[r] = rstd;
}

/* dx of a stretch of rows, and the stretch's share of dw. A warp takes every fourth row of the
 * stretch and adds its dy * x in shared memory [4, n]; the four are added at the end, in order.
 * Stretches depend on the number of rows only. 12 n bytes a row (16 if it accumulates), and
 * 4 n bytes a block. dy is read before dx is written over it, element by element. */
KERNEL(128, rmsnorm_backward, norm_grad_args) {
    SHARED(float, share);
    const whale_rmsnorm_grad &g = a.a;
    int n = g.n, first = blockIdx.x * a.rows_each, last = min(g.rows, first + a.rows_each);
    float *dw = share + warp_id() * n;
    for (int i = lane_id(); i < n; i += 32) dw[i] = 0;
    for (int r = first + warp_id(); r < last; r += 4) {
        const float *x = g.x + norm_row(r, n, g.heads, g.ldx), *dy = g.dy + norm_row(r, n, g.heads, g.lddy);
        float *dx = g.dx + norm_row(r, n, g.heads, g.lddx);
        float rstd = g.rstd[r], s = 0;
        for (int i = lane_id(); i < n; i += 32) {
            float hat = x[i] * rstd;
            dw[i] = fmaf(dy[i], hat, dw[i]);
            s = fmaf(dy[i] * g.w[i], hat, s);
        }
        float mean = warp_sum(s) / n;
        for (int i = lane_id(); i < n; i += 32) {
            float d = rstd * fmaf(-(x[i] * rstd), mean, dy[i] * g.w[i]);
            dx[i] = g.accumulate ? dx[i] + d : d;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 128)
        a.part[(size_t)blockIdx.x * n + i] = (share[i] + share[n + i]) + (share[2 * n + i] + share[3 * n + i]);
}

/* dw += the blocks' shares, in order. A thread is a column. 4 n bytes a block. */
KERNEL(128, rmsnorm_weight, norm_grad_args) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= a.a.n) return;
    float s = 0;
    for (int b = 0; b < a.blocks; b++) s += a.part[(size_t)b * a.a.n + i];
    a.a.dw[i] += s;
}

/* Rotates the halves of the first R numbers of each head, in place. A block is a row, a thread
 * takes pairs; the table is small and stays in cache. 8 R bytes a head. */
KERNEL(256, rope_heads, whale_rope) {
    int half = a.R / 2, pairs = a.heads * half;
    float *row = a.x + (size_t)blockIdx.x * a.ld;
    size_t angle = (size_t)a.pos[blockIdx.x] * half;
    for (int p = threadIdx.x; p < pairs; p += 256) {
        int h = p / half, i = p % half;
        float *x = row + h * a.d + i;
        float c = a.cos[angle + i], s = a.inverse ? -a.sin[angle + i] : a.sin[angle + i];
        float lo = x[0], hi = x[half];
        x[0] = fmaf(-hi, s, lo * c);
        x[half] = fmaf(lo, s, hi * c);
    }
}

DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/* y = silu(gate) up. A block is a stretch of a row, a thread an element. 12 bytes. */
KERNEL(256, swiglu_forward, whale_swiglu) {
    int i = blockIdx.y * 256 + threadIdx.x;
    if (i >= a.I) return;
    const float *g = a.gu + (size_t)blockIdx.x * 2 * a.I + i;
    a.y[(size_t)blockIdx.x * a.I + i] = g[0] * sigmoid(g[0]) * g[a.I];
}

/* dgate = dy up silu'(gate), dup = dy silu(gate). As above; a thread reads both before it writes
 * both, so dgu may be gu. 20 bytes. */
KERNEL(256, swiglu_backward, whale_swiglu_grad) {
    int i = blockIdx.y * 256 + threadIdx.x;
    if (i >= a.I) return;
    size_t row = (size_t)blockIdx.x * 2 * a.I + i;
    float x = a.gu[row], up = a.gu[row + a.I], dy = a.dy[(size_t)blockIdx.x * a.I + i], s = sigmoid(x);
    a.dgu[row] = dy * up * (s * fmaf(x, 1.0f - s, 1.0f));
    a.dgu[row + a.I] = dy * (x * s);
}

/* y = x in bfloat16, rows filled up to a multiple of 8 with 0. A block is a row, a thread takes
 * pairs of neighbours. 6 bytes an element. */
KERNEL(256, round_rows, round_args) {
    const float *x = a.x + blockIdx.x * a.ldx;
    uint32_t *y = (uint32_t *)a.y + blockIdx.x * (a.ldy / 2);
    for (int p = threadIdx.x; p < a.ldy / 2; p += 256) {
        int i = 2 * p;
        y[p] = pack_bf16(i < a.width ? x[i] : 0.0f, i + 1 < a.width ? x[i + 1] : 0.0f);
    }
}
