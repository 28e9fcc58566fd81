/* attention.cu: causal grouped-query attention over packed sequences, forward.
 *
 * A block has 64 rows (token, head) of one sequence and one key/value head, 16 to a warp. It
 * walks the keys in tiles: scores S = Q K^T, a running softmax, O += P V, all on tensor cores;
 * neither S nor P leaves the registers. Keys lie in shared memory by rows, values turned, so
 * that both are right factors.
 *
 * Bytes moved: Q and O once; K and V once for each tile of rows, from the second cache. Work:
 * 4 d multiply-adds for each visible pair of a row and a key; tiles of keys in which a tree has
 * nothing to see are left out. Bound: tensor cores and the shared
 * memory that feeds them (two words a lane for each step); loads are not overlapped. */
#include "attention.cuh"

template <int PARTS, int DP> DEVICE void attention(const whale_attention &a) {
    SHARED(uint32_t, shared);
    const int KEYS = FORWARD_KEYS(PARTS), G = a.H / a.K, kv = blockIdx.y;
    matrix16 Q = tile_at(shared, row_tile, DP), K = tile_at(Q.at + PARTS * Q.part, KEYS, DP);
    matrix16 V = tile_at(K.at + PARTS * K.part, DP, KEYS);
    int tile, b = find_sequence(a.start, a.B, G, row_tile, blockIdx.x, &tile);
    if (b == a.B) return;
    int first = a.start[b], rows = (a.start[b + 1] - first) * G, f0 = tile * row_tile;
    load_rows<PARTS, DP>(Q, row_tile, a.d, a.scale, [&](int r) -> const float * {
        int f = f0 + r;
        return f < rows ? a.q + (size_t)(first + f / G) * a.ldq + (kv * G + f % G) * a.d : NULL;
    });
    int row = warp_id() * 16, mine[2] = {f0 + row + lane_id() / 4, f0 + row + lane_id() / 4 + 8};
    int keys = min(f0 + row_tile - 1, rows - 1) / G + 1; /* those of the tile's last row */
    softmax_rows<DP> s;
    begin(s);
    for (int j0 = 0; j0 < keys; j0 += KEYS) {
        if (!any_seen(a.until, first + j0, min(KEYS, keys - j0), first + f0 / G)) continue;
        __syncthreads(); /* the last tile was read */
        auto at = [&](const float *x) {
            return [=, &a](int r) -> const float * {
                return j0 + r < keys ? x + (size_t)(first + j0 + r) * a.ldkv + kv * a.d : NULL;
            };
        };
        load_rows<PARTS, DP>(K, KEYS, a.d, 1.0f, at(a.k));
        load_turned<PARTS, DP>(V, KEYS, a.d, 1.0f, at(a.v));
        __syncthreads();
        float p[KEYS / 8][4] = {};
        multiply<PARTS, KEYS / 8>(p, Q, row, K, 0, DP);
        int seen[2] = {mine[0] < rows ? mine[0] / G + 1 - j0 : 0, mine[1] < rows ? mine[1] / G + 1 - j0 : 0};
        int at_row[2] = {first + mine[0] / G, first + mine[1] / G};
        hide(p, a.until, first + j0, keys - j0, at_row);
        take_in<PARTS, DP, KEYS / 8>(s, p, seen);
        multiply_result<PARTS, KEYS / 8, DP / 8>(s.o, p, V);
    }
    for (int i = 0; i < 2; i++) {
        if (mine[i] >= rows) continue;
        int t = first + mine[i] / G, h = kv * G + mine[i] % G;
        put_row(s, i, a.o + (size_t)t * a.ldo + h * a.d, a.d);
        if (a.lse && lane_id() % 4 == 0) a.lse[(size_t)t * a.H + h] = s.top[i] + logf(s.sum[i]);
    }
}

KERNEL(128, attention_f32_d32, whale_attention) { attention<3, 32>(a); }
KERNEL(128, attention_f32_d64, whale_attention) { attention<3, 64>(a); }
KERNEL(128, attention_f32_d128, whale_attention) { attention<3, 128>(a); }
KERNEL(128, attention_bf16_d32, whale_attention) { attention<1, 32>(a); }
KERNEL(128, attention_bf16_d64, whale_attention) { attention<1, 64>(a); }
KERNEL(128, attention_bf16_d128, whale_attention) { attention<1, 128>(a); }
