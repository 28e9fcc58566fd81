/* attention.cuh: what the attention kernels share. Rows of a tile are (token, query head) pairs
 * of one key/value head: row f is token f / G and head f % G of the group, G = H / K, so that
 * the heads of a group share what is read of keys and values. Keys are walked in tiles of fixed
 * absolute positions from 0, so a row's bits do not depend on the other rows of its tile. */
#ifndef WHALE_ATTENTION_CUH
#define WHALE_ATTENTION_CUH

#include "warp.cuh"

/* A fast e^x where products are bfloat16 anyway. */
template <int PARTS> DEVICE float exp_of(float x) { return PARTS == 1 ? fast_exp(x) : expf(x); }

/* Columns c..c+4 of a row p of width d, scaled; 0 beyond d, and for no row (NULL). One load of 16
 * bytes where the row allows. */
DEVICE float4 four(const float *p, int c, int d, float scale) {
    float4 x = {0, 0, 0, 0};
    if (!p || c >= d) return x;
    p += c;
    if (c + 4 <= d && (size_t)p % 16 == 0) {
        x = *(const float4 *)p;
    } else {
        x.x = p[0];
        if (c + 1 < d) x.y = p[1];
        if (c + 2 < d) x.z = p[2];
        if (c + 3 < d) x.w = p[3];
    }
    x.x *= scale, x.y *= scale, x.z *= scale, x.w *= scale;
    return x;
}

/* The same of a row of bfloat16, with one load of 8 bytes. */
DEVICE float4 four(const uint16_t *p, int c, int d, float scale) {
    float4 x = {0, 0, 0, 0};
    if (!p || c >= d) return x;
    p += c;
    if (c + 4 <= d && (size_t)p % 8 == 0) {
        uint2 y = *(const uint2 *)p;
        x.x = float_of(y.x), x.y = float_of(y.x >> 16), x.z = float_of(y.y), x.w = float_of(y.y >> 16);
    } else {
        x.x = float_of(p[0]);
        if (c + 1 < d) x.y = float_of(p[1]);
        if (c + 2 < d) x.z = float_of(p[2]);
        if (c + 3 < d) x.w = float_of(p[3]);
    }
    x.x *= scale, x.y *= scale, x.z *= scale, x.w *= scale;
    return x;
}

/* to[r][..] = row at(r), scaled; DP columns. */
template <int PARTS, int DP, class At> DEVICE void load_rows(matrix16 to, int rows, int d, float scale, At at) {
    for (int i = threadIdx.x; i < rows * (DP / 4); i += blockDim.x) {
        int r = i / (DP / 4), c = i % (DP / 4) * 4;
        float4 x = four(at(r), c, d, scale);
        put_pair<PARTS>(to, r, c / 2, x.x, x.y);
        put_pair<PARTS>(to, r, c / 2 + 1, x.z, x.w);
    }
}

/* The same, turned: to[c][r]. rows is a multiple of 8. Neighbouring threads take 4 pairs of rows
 * of 4 columns, then the next 4 columns. */
template <int PARTS, int DP, class At> DEVICE void load_turned(matrix16 to, int rows, int d, float scale, At at) {
    for (int i = threadIdx.x; i < rows / 2 * (DP / 4); i += blockDim.x) {
        int pair = i / DP * 4 + i % 4, c = i % DP / 4 * 4;
        float4 x = four(at(2 * pair), c, d, scale), y = four(at(2 * pair + 1), c, d, scale);
        put_pair<PARTS>(to, c, pair, x.x, y.x);
        put_pair<PARTS>(to, c + 1, pair, x.y, y.y);
        put_pair<PARTS>(to, c + 2, pair, x.z, y.z);
        put_pair<PARTS>(to, c + 3, pair, x.w, y.w);
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

/* Trees (whale.h): key row j is seen by the rows from itself to before until[j]; without until, by
 * all that follow in its sequence. */

/* Whether one of n keys from row `key` on is seen by a row from `query` on, if none of these comes
 * before the keys. A warp asks together; all warps of a block get the same answer. */
DEVICE bool any_seen(const int32_t *until, int key, int n, int query) {
    if (!until) return true;
    uint32_t seen = 0;
    for (int c = 0; c < n; c += 32) seen |= __ballot_sync(0xffffffffu, c + lane_id() < n && until[key + c + lane_id()] > query);
    return seen;
}

/* Hides the scores p [16, 8 NT] of keys that end before their row. Column c is key row key + c,
 * of n; row[i] are the rows of a lane. */
template <int NT> DEVICE void hide(float (&p)[NT][4], const int32_t *until, int key, int n, const int (&row)[2]) {
    if (!until) return;
#pragma unroll
    for (int m = 0; m < NT; m++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            int c = 8 * m + lane_id() % 4 * 2 + j, end = c < n ? until[key + c] : 0;
            for (int i = 0; i < 2; i++)
                if (row[i] >= end) p[m][2 * i + j] = -INF;
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
