/* attention_back.cu: causal grouped-query attention over packed sequences, backward.
 *
 * With P = softmax(S), S = scale Q K^T and delta = row sums of dO * O:
 *     dP = dO V^T    dS = P * (dP - delta)    dV = P^T dO    dK = scale dS^T Q    dQ = scale dS K
 * P is computed again from S and the log-sum-exp of the forward. One kernel walks keys for a tile
 * of rows and makes dQ, the other walks rows for a tile of keys and makes dK and dV: seven
 * products instead of five, but each output has one owner, so there are no atomics and the bits
 * are the same every time. Tiles and layout as in attention.cuh.
 *
 * Bytes moved: dQ reads K and V once for a tile of rows, dK and dV read Q and dO once for a tile
 * of keys, from the second cache; each gradient is written once. Work: 14 d multiply-adds for
 * each visible pair of a row and a key; in trees dQ leaves out tiles of keys in which there is
 * nothing to see, dK and dV the rows after the last that sees one of their keys. Bound: tensor cores and shared memory. */
#include "attention.cuh"

/* delta[t, h] = sum of do * o over the head. A warp is a (row, head). 8 d bytes. */
KERNEL(128, attention_delta, attention_grad_args) {
    const whale_attention_grad &g = a.a;
    int at = blockIdx.x * 4 + warp_id();
    if (at >= g.T * g.H) return;
    size_t row = (size_t)(at / g.H) * g.ldo + (size_t)(at % g.H) * g.d;
    float s = 0;
    for (int i = lane_id(); i < g.d; i += 32) s = fmaf(g.do_[row + i], g.o[row + i], s);
    s = warp_sum(s);
    if (lane_id() == 0) a.delta[at] = s;
}

template <int PARTS, int DP> DEVICE void dquery(const attention_grad_args &args) {
    const whale_attention_grad &a = args.a;
    SHARED(uint32_t, shared);
    const int KEYS = BACK_KEYS(PARTS), G = a.H / a.K, kv = blockIdx.y;
    matrix16 Q = tile_at(shared, row_tile, DP), dO = tile_at(Q.at + PARTS * Q.part, row_tile, DP);
    matrix16 K = tile_at(dO.at + PARTS * dO.part, KEYS, DP), V = tile_at(K.at + PARTS * K.part, KEYS, DP);
    matrix16 KT = tile_at(V.at + PARTS * V.part, DP, KEYS);
    int tile, b = find_sequence(a.start, a.B, G, row_tile, blockIdx.x, &tile);
    if (b == a.B) return;
    int first = a.start[b], rows = (a.start[b + 1] - first) * G, f0 = tile * row_tile;
    auto row_of = [&](const float *x, int ld) {
        return [=, &a](int r) -> const float * {
            int f = f0 + r;
            return f < rows ? x + (size_t)(first + f / G) * ld + (kv * G + f % G) * a.d : NULL;
        };
    };
    load_rows<PARTS, DP>(Q, row_tile, a.d, a.scale, row_of(a.q, a.ldq));
    load_rows<PARTS, DP>(dO, row_tile, a.d, 1.0f, row_of(a.do_, a.ldo));
    int row = warp_id() * 16, mine[2];
    float lse[2], delta[2], dq[DP / 8][4] = {};
    for (int i = 0; i < 2; i++) {
        mine[i] = f0 + row + lane_id() / 4 + 8 * i;
        size_t at = mine[i] < rows ? (size_t)(first + mine[i] / G) * a.H + kv * G + mine[i] % G : 0;
        lse[i] = a.lse[at], delta[i] = args.delta[at];
    }
    int keys = min(f0 + row_tile - 1, rows - 1) / G + 1;
    for (int j0 = 0; j0 < keys; j0 += KEYS) {
        if (!any_seen(a.until, first + j0, min(KEYS, keys - j0), first + f0 / G)) continue;
        __syncthreads(); /* the last tile was read */
        auto key_of = [&](const float *x) {
            return [=, &a](int r) -> const float * {
                return j0 + r < keys ? x + (size_t)(first + j0 + r) * a.ldkv + kv * a.d : NULL;
            };
        };
        load_rows<PARTS, DP>(K, KEYS, a.d, 1.0f, key_of(a.k));
        load_rows<PARTS, DP>(V, KEYS, a.d, 1.0f, key_of(a.v));
        load_turned<PARTS, DP>(KT, KEYS, a.d, 1.0f, key_of(a.k));
        __syncthreads();
        float p[KEYS / 8][4] = {}, dp[KEYS / 8][4] = {};
        multiply<PARTS, KEYS / 8>(p, Q, row, K, 0, DP);
        multiply<PARTS, KEYS / 8>(dp, dO, row, V, 0, DP);
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int j = j0 + 8 * n + lane_id() % 4 * 2 + i % 2, f = mine[i / 2];
                bool seen = f < rows && j <= f / G && (!a.until || first + f / G < a.until[first + j]);
                p[n][i] = seen ? exp_of<PARTS>(p[n][i] - lse[i / 2]) * (dp[n][i] - delta[i / 2]) : 0.0f;
            }
        multiply_result<PARTS, KEYS / 8, DP / 8>(dq, p, KT);
    }
    for (int i = 0; i < 2; i++) {
        if (mine[i] >= rows) continue;
        float *to = a.dq + (size_t)(first + mine[i] / G) * a.ldq + (kv * G + mine[i] % G) * a.d;
#pragma unroll
        for (int n = 0; n < DP / 8; n++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                int c = 8 * n + lane_id() % 4 * 2 + j;
                if (c < a.d) to[c] = dq[n][2 * i + j] * a.scale;
            }
    }
}

template <int PARTS, int DP> DEVICE void dkey(const attention_grad_args &args) {
    const whale_attention_grad &a = args.a;
    SHARED(uint32_t, shared);
    const int OWNED = BACK_OWNED(PARTS), ROWS = BACK_ROWS(PARTS), G = a.H / a.K, kv = blockIdx.y;
    matrix16 K = tile_at(shared, OWNED, DP), V = tile_at(K.at + PARTS * K.part, OWNED, DP);
    matrix16 Q = tile_at(V.at + PARTS * V.part, ROWS, DP), dO = tile_at(Q.at + PARTS * Q.part, ROWS, DP);
    matrix16 QT = tile_at(dO.at + PARTS * dO.part, DP, ROWS), dOT = tile_at(QT.at + PARTS * QT.part, DP, ROWS);
    float *lse = (float *)(dOT.at + PARTS * dOT.part), *delta = lse + ROWS; /* of the rows of a step */
    int tile, b = find_sequence(a.start, a.B, 1, OWNED, blockIdx.x, &tile);
    if (b == a.B) return;
    int first = a.start[b], length = a.start[b + 1] - first, rows = length * G, j0 = tile * OWNED;
    auto key_of = [&](const float *x) {
        return [=, &a](int r) -> const float * {
            return j0 + r < length ? x + (size_t)(first + j0 + r) * a.ldkv + kv * a.d : NULL;
        };
    };
    load_rows<PARTS, DP>(K, OWNED, a.d, 1.0f, key_of(a.k));
    load_rows<PARTS, DP>(V, OWNED, a.d, 1.0f, key_of(a.v));
    int row = warp_id() * 16, end[2] = {rows, rows}; /* of the rows that see a lane's keys */
    if (a.until) {
        for (int i = 0; i < 2; i++) {
            int j = j0 + row + lane_id() / 4 + i * 8;
            end[i] = j < length ? (a.until[first + j] - first) * G : 0;
        }
        rows = 0; /* those after all that see a key of the tile are left out */
        for (int j = lane_id(); j < OWNED; j += 32)
            if (j0 + j < length) rows = max(rows, (a.until[first + j0 + j] - first) * G);
#pragma unroll
        for (int d = 16; d > 0; d /= 2) rows = max(rows, __shfl_xor_sync(0xffffffffu, rows, d));
    }
    float dk[DP / 8][4] = {}, dv[DP / 8][4] = {};
    for (int f0 = j0 * G / ROWS * ROWS; f0 < rows; f0 += ROWS) {
        __syncthreads(); /* the last step was read */
        auto row_of = [&](const float *x, int ld) {
            return [=, &a](int r) -> const float * {
                int f = f0 + r;
                return f < rows ? x + (size_t)(first + f / G) * ld + (kv * G + f % G) * a.d : NULL;
            };
        };
        load_rows<PARTS, DP>(Q, ROWS, a.d, a.scale, row_of(a.q, a.ldq));
        load_rows<PARTS, DP>(dO, ROWS, a.d, 1.0f, row_of(a.do_, a.ldo));
        load_turned<PARTS, DP>(QT, ROWS, a.d, a.scale, row_of(a.q, a.ldq));
        load_turned<PARTS, DP>(dOT, ROWS, a.d, 1.0f, row_of(a.do_, a.ldo));
        if ((int)threadIdx.x < ROWS) {
            int f = f0 + threadIdx.x;
            size_t at = f < rows ? (size_t)(first + f / G) * a.H + kv * G + f % G : 0;
            lse[threadIdx.x] = a.lse[at], delta[threadIdx.x] = args.delta[at];
        }
        __syncthreads();
        float p[ROWS / 8][4] = {}, ds[ROWS / 8][4] = {};
        multiply<PARTS, ROWS / 8>(p, K, row, Q, 0, DP);
        multiply<PARTS, ROWS / 8>(ds, V, row, dO, 0, DP);
#pragma unroll
        for (int n = 0; n < ROWS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int c = 8 * n + lane_id() % 4 * 2 + i % 2, f = f0 + c, j = j0 + row + lane_id() / 4 + i / 2 * 8;
                bool seen = f < end[i / 2] && j <= f / G;
                p[n][i] = seen ? exp_of<PARTS>(p[n][i] - lse[c]) : 0.0f;
                ds[n][i] = seen ? p[n][i] * (ds[n][i] - delta[c]) : 0.0f;
            }
        multiply_result<PARTS, ROWS / 8, DP / 8>(dv, p, dOT);
        multiply_result<PARTS, ROWS / 8, DP / 8>(dk, ds, QT);
    }
    for (int i = 0; i < 2; i++) {
        int j = j0 + row + lane_id() / 4 + 8 * i;
        if (j >= length) continue;
        size_t to = (size_t)(first + j) * a.ldkv + kv * a.d;
#pragma unroll
        for (int n = 0; n < DP / 8; n++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                int c = 8 * n + lane_id() % 4 * 2 + k;
                if (c < a.d) a.dk[to + c] = dk[n][2 * i + k], a.dv[to + c] = dv[n][2 * i + k];
            }
    }
}

KERNEL(128, dquery_f32_d32, attention_grad_args) { dquery<3, 32>(a); }
KERNEL(128, dquery_f32_d64, attention_grad_args) { dquery<3, 64>(a); }
KERNEL(128, dquery_f32_d128, attention_grad_args) { dquery<3, 128>(a); }
KERNEL(128, dquery_bf16_d32, attention_grad_args) { dquery<1, 32>(a); }
KERNEL(128, dquery_bf16_d64, attention_grad_args) { dquery<1, 64>(a); }
KERNEL(128, dquery_bf16_d128, attention_grad_args) { dquery<1, 128>(a); }
KERNEL(64, dkey_f32_d32, attention_grad_args) { dkey<3, 32>(a); }
KERNEL(64, dkey_f32_d64, attention_grad_args) { dkey<3, 64>(a); }
KERNEL(64, dkey_f32_d128, attention_grad_args) { dkey<3, 128>(a); }
KERNEL(128, dkey_bf16_d32, attention_grad_args) { dkey<1, 32>(a); }
KERNEL(128, dkey_bf16_d64, attention_grad_args) { dkey<1, 64>(a); }
KERNEL(128, dkey_bf16_d128, attention_grad_args) { dkey<1, 128>(a); }
