/* product8.h: forward products with packed weights in 8 bits, for generation.
 *
 * Weights and rows are cut into blocks of 64 summed indices. A block is whole numbers in
 * [-127, 127] and one scale, its largest magnitude / 127:
 *     y[t][n] += (sum over the block of qx qw) * (scale of w * scale of x), block by block
 * The sums are whole numbers, exact in any order; a block adds to y with one multiplication and
 * one addition, each rounded. So all instruction sets give the same bits.
 *
 * A panel is 16 rows of w. Per block it holds [16 quads][16 rows][4] bytes and 16 scales. A
 * quad is four neighbouring indices: what one lane of a dot product takes. */

enum {
    block8 = 64,                      /* indices of a block */
    block8_floats = 16 * (block8 / 4 + 1), /* a block of a panel: quads, then scales */
#ifdef HAS_VNNI
    rows8 = 14,                       /* most rows of a tile */
#else
    rows8 = 4,
#endif
    group8 = 16,                      /* panels of a piece, at most */
    call8 = 256                       /* rows that a piece takes through its panels */
};

#ifdef HAS_VNNI
/* The unsigned factor of the instruction is the weight + 128, and sums start at -128 sum(qx). */
enum { bias8 = 128 };
typedef __m512i vq;
INLINE vq q_set1(int32_t x) { return _mm512_set1_epi32(x); }
INLINE vq q_load(const void *p) { return _mm512_loadu_si512(p); }
/* Written out: gcc copies the sum of the intrinsic from register to register. */
INLINE vq q_dot(vq sum, vq w, vq x) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
    return sum;
}
INLINE vq q_pin(vq a) { __asm__("" : "+v"(a)); return a; } /* as v_pin */
INLINE vf q_float(vq a) { return _mm512_cvtepi32_ps(a); }
#elif defined(__AVX2__)
enum { bias8 = 0 };
typedef struct { __m256i a, b; } vq;
INLINE vq q_set1(int32_t x) { return (vq){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
INLINE vq q_load(const void *p) {
    return (vq){_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)p + 1)};
}
/* |x| times w with the sign of x: pairs of 127 * 127 fit 16 bits. */
INLINE __m256i q_dot_half(__m256i sum, __m256i w, __m256i x, __m256i size) {
    __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(w, x));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
INLINE vq q_dot(vq sum, vq w, vq x) {
    __m256i size = _mm256_abs_epi8(x.a); /* both halves of x are the same quads */
    return (vq){q_dot_half(sum.a, w.a, x.a, size), q_dot_half(sum.b, w.b, x.a, size)};
}
INLINE vq q_pin(vq a) { return a; }
INLINE vf q_float(vq x) { return (vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
#else
enum { bias8 = 0 };
typedef int32_t vq __attribute__((vector_size(64)));
INLINE vq q_set1(int32_t x) { return (vq){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
INLINE vq q_load(const void *p) { vq x; memcpy(&x, p, sizeof x); return x; }
INLINE vq q_dot(vq sum, vq w, vq x) {
    for (int shift = 0; shift < 32; shift += 8) sum += ((w << (24 - shift)) >> 24) * ((x << (24 - shift)) >> 24);
    return sum;
}
INLINE vq q_pin(vq a) { return a; }
INLINE vf q_float(vq a) { return __builtin_convertvector(a, vf); }
#endif

/* q[0..64) and the scale of the first n of x; the rest is zero. What is not finite makes the
 * scale so. Returns the sum of q. */
static int quantize(int8_t *q, float *scale, const float *x, int n) {
    float v[block8];
    int32_t top = 0, sum = 0;
    for (int i = 0; i < block8; i++) v[i] = i < n ? x[i] : 0;
    for (int i = 0; i < block8; i++) {
        int32_t b;
        memcpy(&b, &v[i], 4);
        b &= 0x7fffffff;
        top = MAX(top, b); /* the order of magnitudes is that of their bits, not a number above all */
    }
    float most;
    memcpy(&most, &top, 4);
    int none = most < 1e-30f; /* 127 / most might not be finite */
    float inv = none ? 0.0f : 127.0f / most;
    *scale = none ? 0.0f : most / 127.0f;
    if (!(most <= 3e38f)) inv = 0, memset(v, 0, sizeof v);
    for (int i = 0; i < block8; i++) {
        float t = v[i] * inv + 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
        int32_t b;
        memcpy(&b, &t, 4);
        b -= 0x4b400000;
        q[i] = (int8_t)b;
        sum += b;
    }
    return sum;
}

INLINE int blocks8(int M) { return (M + block8 - 1) / block8; }

/* A piece is a panel. */
static void pack_weight8_piece(const void *job, int piece, int thread) {
    (void)thread;
    const whale_pack *a = job;
    int n0 = piece * 16, rows = MIN(16, a->N - n0), blocks = blocks8(a->M);
    for (int b = 0; b < blocks; b++) {
        float *at = a->packed + ((size_t)piece * blocks + b) * block8_floats, *scale = at + block8 / 4 * 16;
        uint8_t *to = (uint8_t *)at;
        for (int r = 0; r < 16; r++) {
            int8_t q[block8] = {0};
            scale[r] = 0;
            if (r < rows) quantize(q, scale + r, a->w + (size_t)(n0 + r) * a->M + (size_t)b * block8, MIN(block8, a->M - b * block8));
            for (int i = 0; i < block8; i++) to[i / 4 * 64 + r * 4 + i % 4] = (uint8_t)(q[i] + bias8);
        }
    }
}

static void pack_weight8(whale_device *dev, const whale_pack *a) {
    run_pieces(dev, pack_weight8_piece, a, (a->N + 15) / 16, 4.0 * a->N * a->M);
}

typedef struct {
    const whale_matmul *a;
    int32_t *q;       /* rows of x in tiles of `height` rows: [tiles, blocks, 16 quads, height] */
    float *scale;     /* [tiles, blocks, height] */
    int32_t *start;   /* [tiles, blocks, height] what the sum of a block starts at */
    int height, blocks, panels, group;
} product8;

static void quantize_piece(const void *job, int piece, int thread) {
    (void)thread;
    const product8 *p = job;
    int rows = rows_of(p->a->M), t = piece * rows, end = MIN(p->a->T, t + rows);
    for (; t < end; t++)
        for (int b = 0; b < p->blocks; b++) {
            int8_t q[block8];
            size_t tile = (size_t)(t / p->height) * p->blocks + b, row = (size_t)(t % p->height), at = tile * p->height + row;
            int n = MIN(block8, p->a->M - b * block8);
            p->start[at] = -bias8 * quantize(q, p->scale + at, p->a->x + (size_t)t * p->a->ldx + b * block8, n);
            int32_t *to = p->q + tile * 16 * p->height + row;
            for (int k = 0; k < block8 / 4; k++) memcpy(to + (size_t)k * p->height, q + 4 * k, 4);
        }
}

/* NV panels against the R rows of a tile. Few rows take many panels at a time: memory delivers
 * several streams faster than one. */
INLINE void tile8_body(const int R, const int NV, const product8 *p, int panel, int tile) {
    const int blocks = p->blocks, n0 = panel * 16, cols = p->a->N - n0;
    const size_t height = (size_t)p->height, at = (size_t)tile * blocks * height;
    const size_t next = (size_t)blocks * block8_floats, ldy = (size_t)p->a->ldy;
    const int32_t *q = p->q + at * 16, *start = p->start + at;
    const float *scales = p->scale + at;
    const float *w = p->a->packed + (size_t)panel * next;
    float *y = p->a->y + (size_t)tile * height * ldy + n0;
    vf out[rows8][8];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++)
            out[r][j] = p->a->accumulate ? v_load_n(y + r * ldy + j * 16, MIN(16, cols - j * 16)) : v_zero();
    for (int b = 0; b < blocks; b++, w += block8_floats, start += height, scales += height) {
        vq sum[rows8][8];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++)
#pragma GCC unroll 8
            for (int j = 0; j < NV; j++)
                sum[r][j] = q_set1(start[r]);
        for (int k = 0; k < block8 / 4; k++, q += height) {
            vq wk[8];
#pragma GCC unroll 8
            for (int j = 0; j < NV; j++) {
                const float *at = w + j * next + (size_t)k * 16;
                __builtin_prefetch(at + NV * next, 0, 2); /* for the panels after; harmless beyond the end */
                wk[j] = q_load(at);
            }
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) {
                vq v = q_set1(q[r]);
                if (NV > 1) v = q_pin(v);
#pragma GCC unroll 8
                for (int j = 0; j < NV; j++) sum[r][j] = q_dot(sum[r][j], wk[j], v);
            }
        }
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) {
            const vf scale = v_load(w + j * next + block8 / 4 * 16);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) {
                vf by = v_mul(scale, v_set1(scales[r]));
                out[r][j] = v_add(out[r][j], v_mul(q_float(sum[r][j]), by));
            }
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) v_put(y + r * ldy + j * 16, out[r][j], MIN(16, cols - j * 16));
}

#define TILE8(R, NV) \
    static __attribute__((noinline)) void tile8_##R##_##NV(const product8 *p, int panel, int tile) { tile8_body(R, NV, p, panel, tile); }
typedef void tile8_fn(const product8 *, int panel, int tile);
#ifdef HAS_VNNI
TILE8(1, 1) TILE8(2, 1) TILE8(3, 1) TILE8(4, 1) TILE8(5, 1) TILE8(6, 1) TILE8(7, 1)
TILE8(8, 1) TILE8(9, 1) TILE8(10, 1) TILE8(11, 1) TILE8(12, 1) TILE8(13, 1) TILE8(14, 1)
TILE8(5, 2) TILE8(6, 2) TILE8(7, 2) TILE8(8, 2) TILE8(9, 2) TILE8(10, 2)
TILE8(11, 2) TILE8(12, 2) TILE8(13, 2) TILE8(14, 2)
TILE8(1, 8) TILE8(2, 4) TILE8(3, 4) TILE8(4, 4)
static tile8_fn *const tiles8_1[rows8 + 1] = {0, tile8_1_1, tile8_2_1, tile8_3_1, tile8_4_1, tile8_5_1, tile8_6_1, tile8_7_1,
    tile8_8_1, tile8_9_1, tile8_10_1, tile8_11_1, tile8_12_1, tile8_13_1, tile8_14_1};
static tile8_fn *const tiles8_wide[rows8 + 1] = {0, tile8_1_8, tile8_2_4, tile8_3_4, tile8_4_4, tile8_5_2, tile8_6_2, tile8_7_2,
    tile8_8_2, tile8_9_2, tile8_10_2, tile8_11_2, tile8_12_2, tile8_13_2, tile8_14_2};
INLINE int wide8(int rows) { return rows == 1 ? 8 : rows <= 4 ? 4 : 2; }
#else
TILE8(1, 1) TILE8(2, 1) TILE8(3, 1) TILE8(4, 1)
static tile8_fn *const tiles8_1[rows8 + 1] = {0, tile8_1_1, tile8_2_1, tile8_3_1, tile8_4_1};
static tile8_fn *const *const tiles8_wide = tiles8_1;
INLINE int wide8(int rows) { (void)rows; return 1; }
#endif

/* A piece is some panels and some tiles of rows. A panel meets all tiles while it is near. */
static void product8_piece(const void *job, int piece, int thread) {
    (void)thread;
    const product8 *p = job;
    int groups = (p->panels + p->group - 1) / p->group, tiles = MAX(1, call8 / p->height);
    int from = piece % groups * p->group, to = MIN(p->panels, from + p->group);
    int first = piece / groups * tiles, end = MIN(first + tiles, (p->a->T + p->height - 1) / p->height);
    int wide = wide8(p->height);
    for (int panel = from, width; panel < to; panel += width) {
        width = to - panel >= wide ? wide : 1;
        for (int i = first; i < end; i++) {
            int rows = MIN(p->height, p->a->T - i * p->height);
            if (width > 1 && wide8(rows) == width) tiles8_wide[rows](p, panel, i);
            else for (int j = 0; j < width; j++) tiles8_1[rows](p, panel + j, i);
        }
    }
}

static whale_status matmul_forward8(whale_device *dev, const whale_matmul *a) {
    if (a->T == 0) return WHALE_OK;
    product8 p = {.a = a, .height = tile_height(a->T, rows8), .blocks = blocks8(a->M), .panels = (a->N + 15) / 16, .group = group8};
    int tiles = (a->T + p.height - 1) / p.height, near = MAX(1, call8 / p.height);
    size_t all = (size_t)tiles * (size_t)p.height * (size_t)p.blocks;
    whale_status st = whale_shared(dev, all * (block8 + 8));
    if (st != WHALE_OK) return st;
    p.q = (int32_t *)(void *)shared_of(dev);
    p.scale = (float *)(void *)(p.q + all * block8 / 4);
    p.start = (int32_t *)(void *)(p.scale + all);
    double work = (double)a->T * a->N * a->M;
    if (dev->threads > 1) p.group = MAX(1, MIN(group8, p.panels / (4 * dev->threads)));
    run_pieces(dev, quantize_piece, &p, blocks_of((size_t)a->T, rows_of(a->M)), 2.0 * a->T * a->M);
    run_pieces(dev, product8_piece, &p, (p.panels + p.group - 1) / p.group * ((tiles + near - 1) / near), work / 2);
    return WHALE_OK;
}
