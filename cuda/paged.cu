/* paged.cu: attention over a paged cache (generation).
 *
 * Two ways to attend, chosen by the host: a piece of a prompt, rows of one sequence that follow
 * each other, shares what is read of the cache and goes through tensor cores like attention.cu;
 * rows that each decode another sequence share nothing but their group's heads. */
#include "attention.cuh"

/* What a cache holds: floats, or bfloat16 in one of that precision (PARTS 1). */
template <int PARTS> struct cached { typedef float number; };
template <> struct cached<1> { typedef uint16_t number; };

/* The place of position j of a sequence: row of the cache [pages * P]. */
DEVICE size_t cache_row(const whale_paged &a, int seq, int j) {
    return (size_t)a.page_table[(size_t)seq * a.max_pages + j / a.P] * a.P + j % a.P;
}

/* Writes keys and values of a row to its place. A block is a row; if several rows of the call
 * name one place, the last stays: a row that finds a later one steps back. 16 K d bytes a row, 12 if
 * the cache is bfloat16, and T * 12 bytes that stay in cache. */
KERNEL(128, paged_store, whale_paged) {
    SHARED(uint32_t, later); /* [4] by warp */
    int t = blockIdx.x, width = a.K * a.d;
    bool found = false;
    for (int s = t + 1 + threadIdx.x; s < a.T; s += 128) found |= a.seq[s] == a.seq[t] && a.pos[s] == a.pos[t];
    uint32_t bits = __ballot_sync(0xffffffffu, found);
    if (lane_id() == 0) later[warp_id()] = bits;
    __syncthreads();
    if (later[0] | later[1] | later[2] | later[3]) return;
    size_t to = cache_row(a, a.seq[t], a.pos[t]) * width, from = (size_t)t * a.ldkv;
    if (a.precision == WHALE_BF16) {
        for (int i = 2 * threadIdx.x; i < width; i += 256) {
            ((uint32_t *)a.kpages)[(to + i) / 2] = pack_bf16(a.k[from + i], a.k[from + i + 1]);
            ((uint32_t *)a.vpages)[(to + i) / 2] = pack_bf16(a.v[from + i], a.v[from + i + 1]);
        }
        return;
    }
    for (int i = threadIdx.x; i < width; i += 128) {
        a.kpages[to + i] = a.k[from + i];
        a.vpages[to + i] = a.v[from + i];
    }
}

/* 64 rows (row of the call, head): those from row `first` on that follow each other in one
 * sequence are attended together, then the next such run, until the tile is done. Bytes and
 * bound as in attention.cu, with keys and values of 2 bytes if the cache is bfloat16. */
template <int PARTS, int DP> DEVICE void paged(const paged_args &args) {
    typedef typename cached<PARTS>::number number;
    const whale_paged &a = args.a;
    SHARED(uint32_t, shared);
    const int KEYS = FORWARD_KEYS(PARTS), G = a.H / a.K, kv = blockIdx.y, width = a.K * a.d;
    matrix16 Q = tile_at(shared, row_tile, DP), K = tile_at(Q.at + PARTS * Q.part, KEYS, DP);
    matrix16 V = tile_at(K.at + PARTS * K.part, DP, KEYS);
    int rows = (a.T - args.first) * G, f0 = blockIdx.x * row_tile, end = min(f0 + row_tile, rows);
    auto token = [&](int f) { return args.first + f / G; };
    load_rows<PARTS, DP>(Q, row_tile, a.d, a.scale, [&](int r) -> const float * {
        int f = f0 + r;
        return f < rows ? a.q + (size_t)token(f) * a.ldq + (kv * G + f % G) * a.d : NULL;
    });
    int row = warp_id() * 16, mine[2] = {f0 + row + lane_id() / 4, f0 + row + lane_id() / 4 + 8};
    for (int from = f0, to; from < end; from = to) {
        int seq = a.seq[token(from)], keys = 0;
        for (to = from; to < end && a.seq[token(to)] == seq; to++) keys = max(keys, a.pos[token(to)] + 1);
        softmax_rows<DP> s;
        begin(s);
        for (int j0 = 0; j0 < keys; j0 += KEYS) {
            __syncthreads(); /* the last tile was read */
            auto at = [&](const float *pages) {
                return [=, &a](int r) -> const number * {
                    return j0 + r < keys ? (const number *)pages + cache_row(a, seq, j0 + r) * width + kv * a.d : NULL;
                };
            };
            load_rows<PARTS, DP>(K, KEYS, a.d, 1.0f, at(a.kpages));
            load_turned<PARTS, DP>(V, KEYS, a.d, 1.0f, at(a.vpages));
            __syncthreads();
            float p[KEYS / 8][4] = {};
            multiply<PARTS, KEYS / 8>(p, Q, row, K, 0, DP);
            int seen[2];
            for (int i = 0; i < 2; i++) seen[i] = mine[i] >= from && mine[i] < to ? a.pos[token(mine[i])] + 1 - j0 : 0;
            take_in<PARTS, DP, KEYS / 8>(s, p, seen);
            multiply_result<PARTS, KEYS / 8, DP / 8>(s.o, p, V);
        }
        for (int i = 0; i < 2; i++)
            if (mine[i] >= from && mine[i] < to)
                put_row(s, i, a.o + (size_t)token(mine[i]) * a.ldo + (kv * G + mine[i] % G) * a.d, a.d);
    }
}

/* A block is one row and up to decode_heads query heads of one key/value head. A warp is four
 * eights; each eight of lanes walks every 16th key with a running softmax of its own, a lane
 * holding DP/8 numbers of a row in pieces of 4, so that an eight reads 128 bytes at once. The
 * 16 results are brought together through shared memory, in a fixed order. Sums are float32
 * whatever the cache holds.
 *
 * Bytes moved: 8 d a key and row, 4 d if the cache is bfloat16, once for each group of decode_heads; work 4 d multiply-adds a
 * key and head. Bound: memory bandwidth, as long as there are some hundred blocks. */
template <int PARTS, int DP> DEVICE void decode(const whale_paged &a) {
    typedef typename cached<PARTS>::number number;
    SHARED(float, shared); /* [16 eights][heads][2 + DP] */
    const int N = DP / 8, G = a.H / a.K, groups = (G + decode_heads - 1) / decode_heads;
    int t = blockIdx.x, kv = blockIdx.y / groups, g0 = blockIdx.y % groups * decode_heads, heads = min(decode_heads, G - g0);
    int eight = threadIdx.x / 8, lane = threadIdx.x % 8, seq = a.seq[t], keys = a.pos[t] + 1;
    float q[decode_heads][N], o[decode_heads][N], top[decode_heads], sum[decode_heads];
    const float *query = a.q + (size_t)t * a.ldq + (size_t)(kv * G + g0) * a.d;
#pragma unroll
    for (int h = 0; h < decode_heads; h++) {
        top[h] = -INF, sum[h] = 0;
#pragma unroll
        for (int i = 0; i < N; i++) {
            int c = i / 4 * 32 + lane * 4 + i % 4;
            q[h][i] = h < heads && c < a.d ? query[h * a.d + c] * a.scale : 0.0f;
            o[h][i] = 0;
        }
    }
    for (int j0 = 0; j0 < keys; j0 += 16) { /* all lanes of a warp take part in every turn */
        int j = j0 + eight;
        bool in = j < keys;
        size_t at = in ? cache_row(a, seq, j) * a.K * a.d + (size_t)kv * a.d : 0;
        float k[N], v[N];
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            int c = i * 8 + lane * 4;
            float4 x = four(in ? (const number *)a.kpages + at : NULL, c, a.d, 1.0f), y = four(in ? (const number *)a.vpages + at : NULL, c, a.d, 1.0f);
            k[i] = x.x, k[i + 1] = x.y, k[i + 2] = x.z, k[i + 3] = x.w;
            v[i] = y.x, v[i + 1] = y.y, v[i + 2] = y.z, v[i + 3] = y.w;
        }
#pragma unroll
        for (int h = 0; h < decode_heads; h++) {
            float s = 0;
#pragma unroll
            for (int i = 0; i < N; i++) s = fmaf(q[h][i], k[i], s);
            s += __shfl_xor_sync(0xffffffffu, s, 1);
            s += __shfl_xor_sync(0xffffffffu, s, 2);
            s += __shfl_xor_sync(0xffffffffu, s, 4);
            if (!in) continue;
            float higher = fmaxf(top[h], s), shrink = expf(top[h] - higher), p = expf(s - higher);
            top[h] = higher;
            sum[h] = fmaf(sum[h], shrink, p);
#pragma unroll
            for (int i = 0; i < N; i++) o[h][i] = fmaf(o[h][i], shrink, p * v[i]);
        }
    }
#pragma unroll
    for (int h = 0; h < decode_heads; h++) {
        float *mine = shared + (eight * decode_heads + h) * (DP + 2);
        if (lane == 0) mine[0] = top[h], mine[1] = sum[h];
#pragma unroll
        for (int i = 0; i < N; i++) mine[2 + i / 4 * 32 + lane * 4 + i % 4] = o[h][i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < heads * a.d; i += 128) {
        int h = i / a.d, c = i % a.d;
        float most = -INF, total = 0, out = 0;
        for (int e = 0; e < 16; e++) most = fmaxf(most, shared[(e * decode_heads + h) * (DP + 2)]);
        for (int e = 0; e < 16; e++) {
            const float *of = shared + (e * decode_heads + h) * (DP + 2);
            float share = expf(of[0] - most); /* 0 for an eight that met no key */
            total = fmaf(of[1], share, total);
            out = fmaf(of[2 + c], share, out);
        }
        a.o[(size_t)t * a.ldo + (size_t)(kv * G + g0 + h) * a.d + c] = out / total;
    }
}

KERNEL(128, paged_f32_d32, paged_args) { paged<3, 32>(a); }
KERNEL(128, paged_f32_d64, paged_args) { paged<3, 64>(a); }
KERNEL(128, paged_f32_d128, paged_args) { paged<3, 128>(a); }
KERNEL(128, paged_bf16_d32, paged_args) { paged<1, 32>(a); }
KERNEL(128, paged_bf16_d64, paged_args) { paged<1, 64>(a); }
KERNEL(128, paged_bf16_d128, paged_args) { paged<1, 128>(a); }
KERNEL(128, decode_f32_d32, whale_paged) { decode<3, 32>(a); }
KERNEL(128, decode_f32_d64, whale_paged) { decode<3, 64>(a); }
KERNEL(128, decode_f32_d128, whale_paged) { decode<3, 128>(a); }
KERNEL(128, decode_bf16_d32, whale_paged) { decode<1, 32>(a); }
KERNEL(128, decode_bf16_d64, whale_paged) { decode<1, 64>(a); }
KERNEL(128, decode_bf16_d128, whale_paged) { decode<1, 128>(a); }
