/* attention.cuh: what the attention kernels share. Rows of a tile are (token, query head) pairs
 * of one key/value head: row f is token f / G and head f % G of the group, G = H / K, so that
 * the heads of a group share what is read of keys and values. Keys are walked in tiles of fixed
 * absolute positions from 0, so a row's bits do not depend on the other rows of its tile. */
#ifndef WHALE_ATTENTION_CUH
#define WHALE_ATTENTION_CUH

#include "warp.cuh"

/* A fast e^x where products are bfloat16 anyway. */
template <int PARTS> DEVICE float exp_of(float x) { return PARTS == 1 ? fast_exp(x) : expf(x); }

/* to[r][..] = row r of `from`, scaled; DP columns, 0 beyond d; rows for which at() answers NULL are 0. */
template <int PARTS, int DP, class At> DEVICE void load_rows(matrix16 to, int rows, int d, float scale, At at) {
    for (int i = threadIdx.x; i < rows * (DP / 2); i += blockDim.x) {
        int r = i / (DP / 2), pair = i % (DP / 2), c = 2 * pair;
        const float *p = at(r);
        float lo = p && c < d ? p[c] * scale : 0.0f, hi = p && c + 1 < d ? p[c + 1] * scale : 0.0f;
        put_pair<PARTS>(to, r, pair, lo, hi);
    }
}

/* The same, turned: to[c][r]. rows is even. */
template <int PARTS, int DP, class At> DEVICE void load_turned(matrix16 to, int rows, int d, float scale, At at) {
    for (int i = threadIdx.x; i < rows / 2 * DP; i += blockDim.x) {
        int pair = i / DP, c = i % DP;
        const float *p = at(2 * pair), *q = at(2 * pair + 1);
        float lo = p && c < d ? p[c] * scale : 0.0f, hi = q && c < d ? q[c] * scale : 0.0f;
        put_pair<PARTS>(to, c, pair, lo, hi);
    }
}

/* The running softmax of 16 rows of a warp; a lane holds rows g and g + 8 (i = 0, 1). */
template <int DP> struct softmax_rows {
    float top[2], sum[2], o[DP / 8][4];
};

template <int DP> DEVICE void begin(softmax_rows<DP> &s) {
    for (int i = 0; i < 2; i++) s.top[i] = -INF, s.sum[i] = 0;
#pragma unroll
    for (int n = 0; n < DP / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) s.o[n][i] = 0;
}

/* Takes in a tile of scores p [16, 8 NT], of which row i may see the columns below seen[i]; p
 * becomes the weights. What a row may not see changes none of its bits. */
template <int PARTS, int DP, int NT> DEVICE void take_in(softmax_rows<DP> &s, float (&p)[NT][4], const int (&seen)[2]) {
    int col = lane_id() % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float top = s.top[i];
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                float &x = p[n][2 * i + j];
                if (8 * n + col + j >= seen[i]) x = -INF;
                top = fmaxf(top, x);
            }
        top = quad_max(top);
        float base = top == -INF ? 0.0f : top; /* a row that sees nothing yet */
        float shrink = exp_of<PARTS>(s.top[i] - base), sum = 0;
        s.top[i] = top;
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                float &x = p[n][2 * i + j];
                x = exp_of<PARTS>(x - base);
                sum += x;
            }
        s.sum[i] = s.sum[i] * shrink + quad_sum(sum);
#pragma unroll
        for (int n = 0; n < DP / 8; n++) s.o[n][2 * i] *= shrink, s.o[n][2 * i + 1] *= shrink;
    }
}

/* Writes o / sum of row i to `to` [d]. */
template <int DP> DEVICE void put_row(const softmax_rows<DP> &s, int i, float *to, int d) {
    float inv = 1.0f / s.sum[i];
#pragma unroll
    for (int n = 0; n < DP / 8; n++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int c = 8 * n + lane_id() % 4 * 2 + j;
            if (c < d) to[c] = s.o[n][2 * i + j] * inv;
        }
}

/* The sequence of block tile x, when every sequence is cut into tiles of `size` rows; B if there
 * is none. *tile is its tile within the sequence. */
DEVICE int find_sequence(const int32_t *start, int B, int G, int size, int x, int *tile) {
    int b = 0;
    for (; b < B; b++) {
        int tiles = ((start[b + 1] - start[b]) * G + size - 1) / size;
        if (x < tiles) break;
        x -= tiles;
    }
    *tile = x;
    return b;
}

#endif
