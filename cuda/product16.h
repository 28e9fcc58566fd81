/* product16.h: the products of product.h with both factors in bfloat16.
 *
 * A pair of neighbouring k is one 32-bit element: [k/2][16 columns] in a packed panel, and
 * [row][k/2] or [k/2][16 rows] in a packed tile of A. dpbf16 adds both products of a pair to a
 * float32 sum, so the chain of product.h is walked two steps at a time; an odd end is filled up
 * with zero. Everything is rounded as it is packed, so A is always packed.
 *
 * In three products a factor is two parts: the bfloat16 nearest to it, and the bfloat16 nearest to
 * what that leaves. A block of k_block summed indices is walked three times: high by high, high by
 * low, low by high. Panels of such a block hold all high pairs, then all low ones.
 *
 * With AMX the panels of B are the same, and tiles of A are as amx.h wants them. */

typedef struct {
    const float *a;
    size_t ar, ak;  /* pair k of row r is a[r*ar + k*ak] */
    const float *b; /* 16 columns of pair k at b + k*16; the next 16 at + bv */
    size_t bv;
    float *c;
    size_t cr;
    int K, load, cols; /* K counts pairs */
    const float *soon; /* soon_rows rows of 2 K floats, soon_ld apart: fetched while a row of tiles is computed */
    size_t soon_ld;
    int soon_rows;
    size_t ahead;   /* floats between what is read of b and what is fetched for the tile after */
} tile16;

INLINE void tile16_body(const int R, const int NV, const tile16 *t) {
    vf acc[14][8];
    const int whole = t->cols / 16, rest = t->cols % 16;
#pragma GCC unroll 14
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++)
            acc[r][j] = !t->load ? v_zero()
                        : j < whole ? v_load(t->c + (size_t)r * t->cr + j * 16)
                                    : v_load_n(t->c + (size_t)r * t->cr + j * 16, rest);
#pragma GCC unroll 14
    for (int r = 0; r < R; r++) /* the tile after this one; harmless beyond the end */
#pragma GCC unroll 8
        for (int j = NV; j < 2 * NV; j++) __builtin_prefetch(t->c + (size_t)r * t->cr + j * 16 + 15, 1, 3);
    const float *a = t->a, *b = t->b;
    const size_t ar = t->ar, ak = t->ak, bv = t->bv, ahead = t->ahead;
    for (int k = t->K; k > 0; k--) {
        vf bj[8];
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) __builtin_prefetch(b + (size_t)j * bv + ahead, 0, 2); /* harmless beyond the end */
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) bj[j] = v_load(b + (size_t)j * bv);
#pragma GCC unroll 14
        for (int r = 0; r < R; r++) {
            vf x = v_set1(a[(size_t)r * ar]);
            if (NV > 1) x = v_pin(x);
#pragma GCC unroll 8
            for (int j = 0; j < NV; j++) acc[r][j] = _mm512_dpbf16_ps(acc[r][j], (__m512bh)x, (__m512bh)bj[j]);
        }
        a += ak;
        b += 16;
    }
#pragma GCC unroll 14
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) {
            if (j < whole) v_store(t->c + (size_t)r * t->cr + j * 16, acc[r][j]);
            else v_store_n(t->c + (size_t)r * t->cr + j * 16, acc[r][j], rest);
        }
}

#define TILE16(R, NV) static __attribute__((noinline)) void tile16_##R##_##NV(const tile16 *t) { tile16_body(R, NV, t); }
typedef void tile16_fn(const tile16 *);
TILE16(1, 1) TILE16(2, 1) TILE16(3, 1) TILE16(4, 1) TILE16(5, 1) TILE16(6, 1) TILE16(7, 1)
TILE16(8, 1) TILE16(9, 1) TILE16(10, 1) TILE16(11, 1) TILE16(12, 1) TILE16(13, 1) TILE16(14, 1)
TILE16(1, 2) TILE16(2, 2) TILE16(3, 2) TILE16(4, 2) TILE16(5, 2) TILE16(6, 2) TILE16(7, 2)
TILE16(8, 2) TILE16(9, 2) TILE16(10, 2) TILE16(11, 2) TILE16(12, 2) TILE16(13, 2) TILE16(14, 2)
TILE16(1, 4) TILE16(2, 4) TILE16(3, 4) TILE16(4, 4) TILE16(5, 4) TILE16(6, 4) TILE16(7, 4)
TILE16(1, 8) TILE16(2, 8) TILE16(3, 8)
static tile16_fn *const tiles16_1[15] = {0, tile16_1_1, tile16_2_1, tile16_3_1, tile16_4_1, tile16_5_1, tile16_6_1,
    tile16_7_1, tile16_8_1, tile16_9_1, tile16_10_1, tile16_11_1, tile16_12_1, tile16_13_1, tile16_14_1};
static tile16_fn *const tiles16_2[15] = {0, tile16_1_2, tile16_2_2, tile16_3_2, tile16_4_2, tile16_5_2, tile16_6_2,
    tile16_7_2, tile16_8_2, tile16_9_2, tile16_10_2, tile16_11_2, tile16_12_2, tile16_13_2, tile16_14_2};
static tile16_fn *const tiles16_4[8] = {0, tile16_1_4, tile16_2_4, tile16_3_4, tile16_4_4, tile16_5_4, tile16_6_4, tile16_7_4};
static tile16_fn *const tiles16_8[4] = {0, tile16_1_8, tile16_2_8, tile16_3_8};

INLINE tile16_fn *pick_tile16(int rows, int vectors, int *width) {
    if (rows <= 3 && vectors >= 8) return *width = 8, tiles16_8[rows];
    if (rows <= 7 && vectors >= 4) return *width = 4, tiles16_4[rows];
    if (vectors >= 2) return *width = 2, tiles16_2[rows];
    return *width = 1, tiles16_1[rows];
}

static void tile16_row(tile16 t, int rows) {
    int vectors = (t.cols + 15) / 16, cols = t.cols, width;
    while (vectors > 0) {
        tile16_fn *f = pick_tile16(rows, vectors, &width);
        t.cols = MIN(cols, width * 16);
        for (int share = (t.soon_rows * width + vectors - 1) / vectors; share > 0; share--, t.soon_rows--, t.soon += t.soon_ld)
            for (int i = 0; i < 2 * t.K; i += 16) __builtin_prefetch(t.soon + i, 0, 2);
        f(&t);
        t.b += (size_t)width * t.bv;
        t.c += width * 16;
        vectors -= width;
        cols -= width * 16;
    }
}

/* What the nearest bfloat16 leaves of x; nothing that is a number if x or its bfloat16 is infinite. */
INLINE vf rest_of(vf x) {
    return v_sub(x, (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)), 16));
}

/* Pairs of 32 floats that follow each other, of which n exist: their high or their low part. */
INLINE vf pairs_of(const float *p, int n, int low) {
    vf lo, hi;
    if (n >= 32) lo = v_load(p), hi = v_load(p + 16);
    else lo = v_load_n(p, MIN(n, 16)), hi = n > 16 ? v_load_n(p + 16, n - 16) : v_zero();
    if (low) lo = rest_of(lo), hi = rest_of(hi);
    return (vf)_mm512_cvtne2ps_pbh(hi, lo);
}

/* 16 pairs of (lo[i], hi[i]). */
INLINE vf pair_up(vf lo, vf hi) {
    /* of 32 16-bit parts: 0, 16, 1, 17 and so on */
    const __m512i order = _mm512_add_epi32(_mm512_set1_epi32(0x100000),
        _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), _mm512_set1_epi32(0x10001)));
    return (vf)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(hi, lo));
}

/* dst[k/2][0..16) = pairs of src[c*ld + k] for c < cols, 0 beyond. */
static void pack_across16(float *dst, const float *src, size_t ld, int cols, int K, int low) {
    vf r[16];
    for (int k = 0; k < K; k += 32) {
        int n = MIN(32, K - k), pairs = (n + 1) / 2;
        for (int c = 0; c < 16; c++) r[c] = c < cols ? pairs_of(src + (size_t)c * ld + k, n, low) : v_zero();
        v_transpose(r);
        for (int i = 0; i < pairs; i++) v_store(dst + (size_t)(k / 2 + i) * 16, r[i]);
    }
}

/* dst[k/2][0..16) = pairs of src[k*ld + c] for c < cols, 0 beyond. */
static void pack_along16(float *dst, const float *src, size_t ld, int cols, int K, int low) {
    for (int k = 0; k < K; k += 2, dst += 16) {
        const float *p = src + (size_t)k * ld;
        vf lo = v_load_n(p, cols), hi = k + 1 < K ? v_load_n(p + ld, cols) : v_zero();
        if (low) lo = rest_of(lo), hi = rest_of(hi);
        v_store(dst, pair_up(lo, hi));
    }
}

/* What pack_along16 does, for blocks of `width` columns that go `apart` floats from each other: src
 * is walked along its rows. */
static void pack_wide16(float *dst, size_t apart, const float *src, size_t ld, int cols, int width, int K, int low) {
    for (int k = 0; k < K; k += 2, dst += 16, src += 2 * ld) {
        float *at = dst;
        for (int c = 0; c < cols; c += width, at += apart) {
            const float *p = src + c;
            int n = MIN(width, cols - c);
            __builtin_prefetch(p + 16 * ld, 0, 2); /* harmless beyond the end */
            __builtin_prefetch(p + 17 * ld, 0, 2);
            vf lo = v_load_n(p, n), hi = k + 1 < K ? v_load_n(p + ld, n) : v_zero();
            if (low) lo = rest_of(lo), hi = rest_of(hi);
            v_store(at, pair_up(lo, hi));
        }
    }
}

/* Panels of B, `apart` floats from each other. */
static void pack_b16(float *dst, size_t apart, const product *p, int c0, int cols, int k0, int K) {
    size_t part = (size_t)(K + 1) / 2 * 16;
    const float *src = p->b + (size_t)k0 * p->bk + (size_t)c0 * p->bc;
    for (int low = 0; low < p->parts; low++, dst += part) {
        if (p->bc == 1) {
            pack_wide16(dst, apart, src, p->bk, cols, 16, K, low);
            continue;
        }
        for (int c = 0; c < cols; c += 16)
            pack_across16(dst + (size_t)c / 16 * apart, src + (size_t)c * p->bc, p->bc, MIN(16, cols - c), K, low);
    }
}

/* 16 rows of a weight as one packed panel of its whole width. */
static void pack_panel16(float *dst, const whale_pack *a, const float *w, int rows) {
    int parts = a->precision == WHALE_BF16X3 ? 2 : 1, step = parts == 2 ? 2 * pack_k : a->M;
    for (int k = 0; k < a->M; k += step) {
        int K = MIN(step, a->M - k);
        for (int low = 0; low < parts; low++, dst += (size_t)(K + 1) / 2 * 16)
            pack_across16(dst, w + k, (size_t)a->M, rows, K, low);
    }
}

/* Tiles of A for AMX: 16 rows by 16 pairs, one after the other along k; zero beyond rows and K. */
static void place_amx(float *buf, const product *p, int r0, int rows, int k0, int K, int low) {
    int steps = (K + 31) / 32, pairs = (K + 1) / 2;
    for (int r = 0; r < rows; r += 16, buf += steps * 256) {
        const float *src = p->a + (size_t)(r0 + r) * p->ar + (size_t)k0 * p->ak;
        int n = MIN(16, rows - r);
        if (p->ar != 1 || p->ak == 1) {
            for (int i = 0; i < steps * 16; i++) {
                int row = i % 16, k = i / 16 * 32;
                v_store(buf + i * 16, row < n ? pairs_of(src + (size_t)row * p->ar + k, K - k, low) : v_zero());
            }
            continue;
        }
        pack_along16(buf, src, p->ak, n, K, low);
        for (int i = pairs; i < steps * 16; i++) v_store(buf + i * 16, v_zero());
        for (float *at = buf; at < buf + steps * 256; at += 256) {
            vf v[16];
            for (int i = 0; i < 16; i++) v[i] = v_load(at + i * 16);
            v_transpose(v);
            for (int i = 0; i < 16; i++) v_store(at + i * 16, v[i]);
        }
    }
}

/* Whether rows of A lie one beside the other (backward w): then several tiles are packed at a
 * time, which have whole lines of the cache in common. */
INLINE int turned_a16(const product *p) { return p->ar == 1 && p->ak != 1 && !p->dev->amx; }

/* Points t at `rows` rows of A as pairs, in tiles of `height` rows where they lie one beside the other. */
static void place_a16(tile16 *t, float *buf, const product *p, int r0, int rows, int height, int k0, int K) {
    const float *src = p->a + (size_t)r0 * p->ar + (size_t)k0 * p->ak;
    t->a = buf;
    t->ar = (size_t)pack_k + 16, t->ak = 1;
    if (turned_a16(p)) {
        t->ar = 1, t->ak = 16;
        for (int low = 0; low < p->parts; low++)
            pack_wide16(buf + low * a16_turned, (size_t)p->parts * a16_turned, src, p->ak, rows, height, K, low);
        return;
    }
    for (int low = 0; low < p->parts; low++, buf += a16_part) {
        if (p->dev->amx) {
            place_amx(buf, p, r0, rows, k0, K, low);
            continue;
        }
        for (int r = 0; r < rows; r++)
            for (int k = 0; k < K; k += 32) v_store(buf + r * t->ar + k / 2, pairs_of(src + r * p->ar + k, K - k, low));
    }
}

/* A row of tiles for one block of k: the one product, or the three of the parts, which lie a_part
 * and b_part apart. */
static void passes16(const product *p, tile16 t, int rows, size_t a_part, size_t b_part) {
    static const struct { int a, b; } low[3] = {{0, 0}, {0, 1}, {1, 0}};
    const float *a = t.a, *b = t.b;
    for (int i = 0; i < 2 * p->parts - 1; i++, t.load = 1) {
        t.a = a + low[i].a * a_part, t.b = b + low[i].b * b_part;
        if (!p->dev->amx) {
            tile16_row(t, rows);
            continue;
        }
        amx_block block = {.a = t.a, .b = t.b, .bv = t.bv, .c = t.c, .cr = t.cr, .pairs = t.K, .load = t.load, .rows = rows, .cols = t.cols};
        p->dev->amx->multiply(&block);
    }
}

/* A few rows against a packed B, which comes from memory: a panel meets all tiles of rows while it
 * is near, so that multiplying goes on while the next one arrives. */
static void product_few16(const product *p, float *abuf, int c0, int cols) {
    int height = tile_height(p->rows, tall), width = 1, step = p->parts == 2 ? p->k_block : p->K;
    size_t pairs = (size_t)(p->K + 1) / 2, ar = pairs + 32, a_part = (size_t)p->rows * ar, panel = pairs * 16 * (size_t)p->parts;
    for (int low = 0; low < p->parts; low++)
        for (int r = 0; r < p->rows; r++)
            for (int k = 0; k < p->K; k += 32)
                v_store(abuf + low * a_part + (size_t)r * ar + k / 2, pairs_of(p->a + (size_t)r * p->ar + k, p->K - k, low));
    for (int c = 0; c < cols; c += width * 16)
        for (int r = 0; r < p->rows; r += height) {
            int rows = MIN(height, p->rows - r);
            tile16_fn *f = pick_tile16(height, (cols - c + 15) / 16, &width);
            tile16 t = {.ar = ar, .ak = 1, .bv = panel, .c = p->c + (size_t)r * p->cr + c0 + c, .cr = p->cr,
                        .cols = MIN(cols - c, width * 16), .ahead = (size_t)width * panel};
            for (int k = 0; k < p->K; k += step) {
                t.a = abuf + (size_t)r * ar + k / 2;
                t.b = p->packed + (size_t)(c0 + c) / 16 * panel + (size_t)k * 8 * (size_t)p->parts;
                t.K = (MIN(step, p->K - k) + 1) / 2, t.load = k > 0 || p->load;
                if (p->parts == 2) passes16(p, t, rows, a_part, (size_t)t.K * 16);
                else if (rows == height) f(&t);
                else tile16_row(t, rows);
            }
        }
}

static void product_piece16(const void *job, int piece, int thread) {
    const product *p = job;
    if (p->few) {
        int c = piece * p->col_block;
        product_few16(p, scratch_of(p->dev, thread), c, MIN(p->col_block, p->cols - c));
        return;
    }
    const whale_amx *amx = p->dev->amx;
    float *panel = scratch_of(p->dev, thread);
    float *abuf = panel + (size_t)(p->k_block + 2) * p->col_block;
    int r0 = piece % p->row_blocks * p->row_block, c0 = piece / p->row_blocks * p->col_block;
    int r1 = MIN(p->rows, r0 + p->row_block), cols = MIN(p->col_block, p->cols - c0);
    int height = amx ? amx_tall : tile_height(r1 - r0, tall), group = turned_a16(p) ? a16_tiles * height : height;
    size_t whole = (size_t)(p->K + 1) / 2 * (size_t)p->parts, a_part = turned_a16(p) ? a16_turned : a16_part;
    if (amx) amx->begin();
    for (int k = 0; k < p->K; k += p->k_block) {
        int K = MIN(p->k_block, p->K - k), pairs = (K + 1) / 2;
        tile16 t = {.b = panel, .bv = (size_t)(pairs * p->parts) * 16 + 16, .K = pairs, .load = k > 0 || p->load, .cols = cols, .cr = p->cr};
        if (p->packed) t.b = p->packed + (size_t)c0 * whole + (size_t)k * 8 * (size_t)p->parts, t.bv = whole * 16;
        else pack_b16(panel, t.bv, p, c0, cols, k, K);
        for (int r = r0; r < r1; r += height) {
            int done = (r - r0) % group;
            if (done == 0) place_a16(&t, abuf, p, r, MIN(group, r1 - r), height, k, K);
            else t.a += (size_t)p->parts * a_part;
            t.c = p->c + (size_t)r * p->cr + c0;
            if (!amx && p->ak == 1) { /* what the next place_a16 reads */
                t.soon = p->a + (size_t)(r + height) * p->ar + k, t.soon_ld = p->ar;
                t.soon_rows = MIN(height, r1 - r - height);
            }
            passes16(p, t, MIN(height, r1 - r), a_part, (size_t)pairs * 16);
        }
    }
    if (amx) amx->end();
}
