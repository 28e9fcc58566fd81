/* blocks16.h: keys and values in bfloat16 as attention reads them, and the two products on them.
 *
 * A block is 16 positions of one key/value head, in pairs as in product16.h; dv is the head width
 * in whole vectors:
 *     keys    [dv/2][16]       pair i of key c, for scores: one panel of tile16
 *     values  [dv/16][8][16]   positions 2p and 2p+1 of 16 columns, for outputs
 * Both take 8 dv floats. A page of the cache is [K][P/16] of them (whale_page_floats), so decoding
 * turns and rounds nothing; training makes blocks of its rows and goes the same way, with the same
 * bits. Blocks lie anywhere: the tiles take a list of them. */

INLINE size_t block16(int d) { return (size_t)round16(d) * 8; }

/* Scores of R rows of queries against NV blocks: c[r][j*16 + x] = sum over pairs of the head width. */
typedef struct {
    const float *a;            /* [R][ar] pairs */
    size_t ar;
    const float *const *block;
    float *c;                  /* [R][cr] */
    size_t cr;
    int K;                     /* pairs */
} score16;

INLINE void score16_body(const int R, const int NV, const score16 *t) {
    vf acc[14][8];
    const float *b[8];
#pragma GCC unroll 8
    for (int j = 0; j < NV; j++) b[j] = t->block[j];
#pragma GCC unroll 14
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) acc[r][j] = v_zero();
    const float *a = t->a;
    const size_t ar = t->ar;
    for (size_t k = 0; k < (size_t)t->K; k++) {
        vf bj[8];
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) bj[j] = v_load(b[j] + k * 16);
#pragma GCC unroll 14
        for (int r = 0; r < R; r++) {
            vf x = v_set1(a[(size_t)r * ar]);
            if (NV > 1) x = v_pin(x);
#pragma GCC unroll 8
            for (int j = 0; j < NV; j++) acc[r][j] = _mm512_dpbf16_ps(acc[r][j], (__m512bh)x, (__m512bh)bj[j]);
        }
        a++;
    }
#pragma GCC unroll 14
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) v_store(t->c + (size_t)r * t->cr + j * 16, acc[r][j]);
}

/* Outputs of R rows and NV vectors of columns: c[r] += sum over pairs [from, to) of positions. */
typedef struct {
    const float *a;            /* [R][ar] weights, pair 0 of the list */
    size_t ar;
    const float *const *block; /* of pair 0 */
    size_t at;                 /* of the first vector, in a block */
    int from, to, load;
    float *c;                  /* [R][cr] */
    size_t cr;
} weigh16;

INLINE void weigh16_body(const int R, const int NV, const weigh16 *t) {
    vf acc[14][8];
#pragma GCC unroll 14
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) acc[r][j] = t->load ? v_load(t->c + (size_t)r * t->cr + j * 16) : v_zero();
    const float *a = t->a + t->from;
    const size_t ar = t->ar;
    for (int k = t->from, n; k < t->to; k += n) {
        const float *b = t->block[k / 8] + t->at + (size_t)(k % 8) * 16;
        n = MIN(8 - k % 8, t->to - k);
        for (int i = 0; i < n; i++, b += 16, a++) {
            vf bj[8];
#pragma GCC unroll 8
            for (int j = 0; j < NV; j++) bj[j] = v_load(b + j * 128);
#pragma GCC unroll 14
            for (int r = 0; r < R; r++) {
                vf x = v_set1(a[(size_t)r * ar]);
                if (NV > 1) x = v_pin(x);
#pragma GCC unroll 8
                for (int j = 0; j < NV; j++) acc[r][j] = _mm512_dpbf16_ps(acc[r][j], (__m512bh)x, (__m512bh)bj[j]);
            }
        }
    }
#pragma GCC unroll 14
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) v_store(t->c + (size_t)r * t->cr + j * 16, acc[r][j]);
}

typedef void score16_fn(const score16 *);
typedef void weigh16_fn(const weigh16 *);
#define BOTH16(R, NV)                                                                                      \
    static __attribute__((noinline)) void score16_##R##_##NV(const score16 *t) { score16_body(R, NV, t); } \
    static __attribute__((noinline)) void weigh16_##R##_##NV(const weigh16 *t) { weigh16_body(R, NV, t); }
#define NAMES1(f) {0, f##_1_1, f##_2_1, f##_3_1, f##_4_1, f##_5_1, f##_6_1, f##_7_1, f##_8_1, f##_9_1, f##_10_1, f##_11_1, f##_12_1, f##_13_1, f##_14_1}
#define NAMES2(f) {0, f##_1_2, f##_2_2, f##_3_2, f##_4_2, f##_5_2, f##_6_2, f##_7_2, f##_8_2, f##_9_2, f##_10_2, f##_11_2, f##_12_2, f##_13_2, f##_14_2}
#define NAMES4(f) {0, f##_1_4, f##_2_4, f##_3_4, f##_4_4, f##_5_4, f##_6_4, f##_7_4}
BOTH16(1, 1) BOTH16(2, 1) BOTH16(3, 1) BOTH16(4, 1) BOTH16(5, 1) BOTH16(6, 1) BOTH16(7, 1)
BOTH16(8, 1) BOTH16(9, 1) BOTH16(10, 1) BOTH16(11, 1) BOTH16(12, 1) BOTH16(13, 1) BOTH16(14, 1)
BOTH16(1, 2) BOTH16(2, 2) BOTH16(3, 2) BOTH16(4, 2) BOTH16(5, 2) BOTH16(6, 2) BOTH16(7, 2)
BOTH16(8, 2) BOTH16(9, 2) BOTH16(10, 2) BOTH16(11, 2) BOTH16(12, 2) BOTH16(13, 2) BOTH16(14, 2)
BOTH16(1, 4) BOTH16(2, 4) BOTH16(3, 4) BOTH16(4, 4) BOTH16(5, 4) BOTH16(6, 4) BOTH16(7, 4)
static score16_fn *const scores16_1[] = NAMES1(score16), *const scores16_2[] = NAMES2(score16), *const scores16_4[] = NAMES4(score16);
static weigh16_fn *const weighs16_1[] = NAMES1(weigh16), *const weighs16_2[] = NAMES2(weigh16), *const weighs16_4[] = NAMES4(weigh16);

/* Scores of at most 14 rows against so many blocks. */
static void score_blocks(score16 t, int rows, int blocks) {
    for (int width; blocks > 0; blocks -= width, t.block += width, t.c += width * 16) {
        width = rows <= 7 && blocks >= 4 ? 4 : blocks >= 2 ? 2 : 1;
        (width == 4 ? scores16_4 : width == 2 ? scores16_2 : scores16_1)[rows](&t);
    }
}

/* Outputs of at most 14 rows of positions [from, to), from even; t.from, t.to and t.load are made
 * here. The value beside an odd last one is never looked at: it may be of another time. */
static void weigh_blocks(weigh16 t, int rows, int dv, int from, int to) {
    const float *const *block = t.block;
    float *c = t.c;
    t.from = from / 2, t.to = to / 2, t.load = from > 0;
    if (t.to > t.from)
        for (int at = 0, width; at < dv; at += width * 16) {
            int left = (dv - at) / 16;
            width = rows <= 7 && left >= 4 ? 4 : left >= 2 ? 2 : 1;
            t.at = (size_t)at * 8, t.c = c + at;
            (width == 4 ? weighs16_4 : width == 2 ? weighs16_2 : weighs16_1)[rows](&t);
        }
    if (to % 2 == 0) return;
    float last[16];
    const float *one = last;
    t.load = to > 1, t.a += to / 2, t.from = 0, t.to = 1, t.at = 0;
    for (int at = 0; at < dv; at += 16) {
        __m512i pair = (__m512i)v_load(block[to / 16] + (size_t)at * 8 + (size_t)(to / 2 % 8) * 16);
        v_store(last, (vf)_mm512_and_si512(pair, _mm512_set1_epi32(0xffff)));
        t.block = &one, t.c = c + at;
        weighs16_1[rows](&t);
    }
}

/* ---- the cache ---- */

/* Where the blocks of head h of a page begin. */
INLINE float *page16(float *pages, const whale_paged *a, int page, int h) {
    return pages + ((size_t)page * (size_t)a->K + (size_t)h) * (size_t)(a->P / 16) * block16(a->d);
}

/* A piece is a head: two positions share an element, so no two threads may write one. */
static void store16_piece(const void *job, int h, int thread) {
    (void)thread;
    const whale_paged *a = job;
    const __m512i low = _mm512_set1_epi32(0xffff);
    for (int t = 0; t < a->T; t++) {
        int page = a->page_table[(size_t)a->seq[t] * a->max_pages + a->pos[t] / a->P], slot = a->pos[t] % a->P;
        const float *k = a->k + (size_t)t * a->ldkv + (size_t)h * a->d, *v = a->v + (size_t)t * a->ldkv + (size_t)h * a->d;
        size_t at = (size_t)(slot / 16) * block16(a->d);
        float *to = page16(a->kpages, a, page, h) + at + slot % 16;
        for (int x = 0; x < a->d; x += 32) {
            float pairs[16];
            v_store(pairs, pairs_of(k + x, MIN(32, a->d - x), 0));
            for (int i = 0; i < 16 && x + 2 * i < a->d; i++) to[(size_t)(x / 2 + i) * 16] = pairs[i];
        }
        to = page16(a->vpages, a, page, h) + at + (size_t)(slot % 16 / 2) * 16;
        for (int x = 0; x < a->d; x += 16, to += 128) {
            __m512i old = (__m512i)v_load(to), one = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(v_get(v + x, MIN(16, a->d - x))));
            v_store(to, slot % 2 ? (vf)_mm512_or_si512(_mm512_and_si512(old, low), _mm512_slli_epi32(one, 16))
                                 : (vf)_mm512_or_si512(_mm512_andnot_si512(low, old), one));
        }
    }
}

static void paged_store16(whale_device *dev, const whale_paged *a) {
    run_pieces(dev, store16_piece, a, a->K, 4.0 * a->T * a->K * a->d);
}

/* dst = 16 keys or values that lie at src, ld apart; n of them exist, the rest is 0. */
static void keys16(float *dst, const float *src, size_t ld, int n, int d) { pack_across16(dst, src, ld, n, d, 0); }
static void values16(float *dst, const float *src, size_t ld, int n, int d) {
    for (int x = 0; x < d; x += 16) pack_along16(dst + (size_t)x * 8, src + x, ld, MIN(16, d - x), n, 0);
}
