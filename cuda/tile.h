/* tile.h: the register tile under every matrix product, and the packing that feeds it.
 *
 * A tile is R rows by NV vectors of C, held in registers while k runs over the summed index:
 *     c[r][j] = (load ? c[r][j] : 0) + a[r][0] b[0][j] + a[r][1] b[1][j] + ...
 * Each element is one chain of v_fma in ascending k, whatever R, NV and the way the sum was
 * cut into calls. So the choice of tile never shows in the bits. */

typedef struct {
    const float *a;
    size_t ar, ak;  /* a[r][k] is a[r*ar + k*ak] */
    const float *b; /* 16 columns of row k at b + k*bk; the next 16 at + bv */
    size_t bk, bv;
    float *c;       /* row r at c + r*cr; 16 columns a vector */
    size_t cr;
    int K, load;
    int cols;       /* columns of c that exist; the tile may be wider in b, not in c */
} tile;

/* Written out for each R and NV, so that acc lives in registers. */
INLINE void tile_body(const int R, const int NV, const tile *t) {
    vf acc[16][8];
    const int whole = t->cols / 16, rest = t->cols % 16;
#pragma GCC unroll 16
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++)
            acc[r][j] = !t->load ? v_zero()
                        : j < whole ? v_load(t->c + (size_t)r * t->cr + j * 16)
                                    : v_load_n(t->c + (size_t)r * t->cr + j * 16, rest);
    const float *a = t->a, *b = t->b;
    const size_t ar = t->ar, ak = t->ak, bk = t->bk, bv = t->bv;
    for (int k = t->K; k > 0; k--) {
        vf bj[8];
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) bj[j] = v_load(b + (size_t)j * bv);
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            vf x = v_set1(a[(size_t)r * ar]);
            if (NV > 1) x = v_pin(x);
#pragma GCC unroll 8
            for (int j = 0; j < NV; j++) acc[r][j] = v_fma(x, bj[j], acc[r][j]);
        }
        a += ak;
        b += bk;
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) {
            if (j < whole) v_store(t->c + (size_t)r * t->cr + j * 16, acc[r][j]);
            else v_store_n(t->c + (size_t)r * t->cr + j * 16, acc[r][j], rest);
        }
}

#define TILE(R, NV) static __attribute__((noinline)) void tile_##R##_##NV(const tile *t) { tile_body(R, NV, t); }
typedef void tile_fn(const tile *);

#if TILE_TALL == 14
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1) TILE(7, 1) TILE(8, 1)
TILE(9, 1) TILE(10, 1) TILE(11, 1) TILE(12, 1) TILE(13, 1) TILE(14, 1) TILE(15, 1) TILE(16, 1)
TILE(1, 2) TILE(2, 2) TILE(3, 2) TILE(4, 2) TILE(5, 2) TILE(6, 2) TILE(7, 2) TILE(8, 2)
TILE(9, 2) TILE(10, 2) TILE(11, 2) TILE(12, 2) TILE(13, 2) TILE(14, 2)
TILE(1, 4) TILE(2, 4) TILE(3, 4) TILE(4, 4) TILE(5, 4) TILE(6, 4) TILE(7, 4)
TILE(1, 8) TILE(2, 8) TILE(3, 8)
static tile_fn *const tiles1[17] = {0, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, tile_7_1, tile_8_1,
    tile_9_1, tile_10_1, tile_11_1, tile_12_1, tile_13_1, tile_14_1, tile_15_1, tile_16_1};
static tile_fn *const tiles2[15] = {0, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2, tile_7_2, tile_8_2,
    tile_9_2, tile_10_2, tile_11_2, tile_12_2, tile_13_2, tile_14_2};
static tile_fn *const tiles4[8] = {0, tile_1_4, tile_2_4, tile_3_4, tile_4_4, tile_5_4, tile_6_4, tile_7_4};
static tile_fn *const tiles8[4] = {0, tile_1_8, tile_2_8, tile_3_8};
enum { tall = 14, tall1 = 16 }; /* most rows of a tile two vectors and one vector wide */
INLINE tile_fn *pick_tile(int rows, int vectors, int *width) {
    if (rows <= 3 && vectors >= 8) return *width = 8, tiles8[rows];
    if (rows <= 7 && vectors >= 4) return *width = 4, tiles4[rows];
    if (rows <= 14 && vectors >= 2) return *width = 2, tiles2[rows];
    return *width = 1, tiles1[rows];
}
#elif TILE_TALL == 6
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1)
TILE(1, 2) TILE(2, 2) TILE(1, 4)
static tile_fn *const tiles1[7] = {0, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1};
static tile_fn *const tiles2[3] = {0, tile_1_2, tile_2_2};
enum { tall = 6, tall1 = 6 };
INLINE tile_fn *pick_tile(int rows, int vectors, int *width) {
    if (rows == 1 && vectors >= 4) return *width = 4, tile_1_4;
    if (rows <= 2 && vectors >= 2) return *width = 2, tiles2[rows];
    return *width = 1, tiles1[rows];
}
#else
TILE(1, 1) TILE(2, 1)
enum { tall = 2, tall1 = 2 };
INLINE tile_fn *pick_tile(int rows, int vectors, int *width) {
    (void)vectors;
    return *width = 1, rows == 1 ? tile_1_1 : tile_2_1;
}
#endif

/* Runs one row of tiles: t->cols columns of at most `tall1` rows, any number of vectors. */
static void tile_row(tile t, int rows) {
    int vectors = (t.cols + 15) / 16, cols = t.cols, width;
    while (vectors > 0) {
        tile_fn *f = pick_tile(rows, vectors, &width);
        t.cols = MIN(cols, width * 16);
        f(&t);
        t.b += (size_t)width * t.bv;
        t.c += width * 16;
        vectors -= width;
        cols -= width * 16;
    }
}

INLINE int round16(int n) { return (n + 15) / 16 * 16; }

/* Cuts n rows into the fewest tiles of at most `most` rows, all of nearly the same height. */
INLINE int tile_height(int n, int most) {
    int tiles = (n + most - 1) / most;
    return (n + tiles - 1) / tiles;
}

/* dst[k][0..16) = src[c*ld + k] for c < cols, 0 beyond: 16 columns of a transposed panel. */
static void pack_across(float *dst, const float *src, size_t ld, int cols, int K) {
    vf r[16];
    for (int k = 0; k < K; k += 16) {
        int n = MIN(16, K - k);
        if (n == 16 && cols == 16) {
            v_load_across(r, src + k, ld);
            for (int i = 0; i < 16; i++) v_store(dst + (size_t)(k + i) * 16, r[i]);
            continue;
        }
        for (int c = 0; c < 16; c++) r[c] = c < cols ? v_load_n(src + (size_t)c * ld + k, n) : v_zero();
        v_transpose(r);
        for (int i = 0; i < n; i++) v_store(dst + (size_t)(k + i) * 16, r[i]);
    }
}

/* dst[k][0..16) = src[k*ld + c] for c < cols, 0 beyond. */
static void pack_along(float *dst, const float *src, size_t ld, int cols, int K) {
    if (cols == 16)
        for (int k = 0; k < K; k++) v_store(dst + (size_t)k * 16, v_load(src + (size_t)k * ld));
    else
        for (int k = 0; k < K; k++) v_store(dst + (size_t)k * 16, v_load_n(src + (size_t)k * ld, cols));
}

/* Multiply-adds that never leave the registers: what the products are measured against. */
typedef struct { int rounds; } fma_job;
enum { fma_chains = TILE_TALL == 14 ? 12 : TILE_TALL == 6 ? 6 : 2 };

static void fma_piece(const void *job, int piece, int thread) {
    (void)piece, (void)thread;
    vf acc[12];
    const vf x = v_set1(0.5f), y = v_set1(0.25f);
    for (int i = 0; i < fma_chains; i++) acc[i] = v_set1((float)i);
    for (int k = ((const fma_job *)job)->rounds; k > 0; k--)
#pragma GCC unroll 12
        for (int i = 0; i < fma_chains; i++) acc[i] = v_pin(v_fma(acc[i], x, y));
    for (int i = 1; i < fma_chains; i++) acc[0] = v_add(acc[0], acc[i]);
    volatile float keep = v_sum(acc[0]);
    (void)keep;
}

static double fma_loop(whale_device *dev, int rounds) {
    fma_job j = {.rounds = rounds};
    run_pieces(dev, fma_piece, &j, dev->threads * 4, 1e9);
    return 2.0 * 16 * fma_chains * dev->threads * 4 * rounds;
}
