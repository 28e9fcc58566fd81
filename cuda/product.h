/* product.h: matrix products, forward and both backwards, on the tiles of tile.h.
 *
 * All three are one product C = A B with different strides:
 *     forward     y  [T, N] = x  [T, M]   wᵀ [M, N]     w is packed across
 *     few rows    yᵀ [N, T] = w  [N, M]   xᵀ [M, T]     x is packed across, w read in place
 *     backward x  dx [T, M] = dy [T, N]   w  [N, M]     w is packed along
 *     backward w  dw [N, M] = dyᵀ [N, T]  x  [T, M]     x is packed along
 * A forward product may find w packed already.
 * A piece of the job is a block of rows and columns of C and walks the whole sum, so the
 * number of threads can't show in the bits. */

typedef struct {
    int rows, cols, K, load, bf16;
    int parts;       /* in bf16: 1, or 2 where a factor is a high and a low part */
    int few;         /* in bf16: so few rows that B's way from memory counts */
    const float *a;
    size_t ar, ak;   /* a[r][k] = a[r*ar + k*ak] */
    const float *b;
    size_t bk, bc;   /* b[k][c] = b[k*bk + c*bc]; one of the two is 1 */
    const float *packed; /* NULL, or B in panels of 16 columns, the whole sum in each */
    float *c;
    size_t cr, cc;   /* c[r][c] = c[r*cr + c*cc]; one of the two is 1 */
    int row_block, col_block, k_block, row_blocks;
    whale_device *dev;
} product;

enum {
    pack_cols = 384,  /* columns packed at a time, by a piece: a tile of A is copied for each such block */
    pack_k = 256,     /* summed indices packed at a time: with pack_cols, some of the second cache */
    a_floats = 16 * (pack_k + 16), /* a packed tile of A: [k][16], or rows a little apart */
    a16_part = 32 * pack_k,        /* the same in pairs of bfloat16, of one part: the 32 rows of AMX, or fewer */
    a16_turned = 16 * pack_k + 16, /* a tile whose rows lie one beside the other in A: [pair][16]; a line
                                    * more, so that tiles don't fall on the same lines of the first cache */
    a16_tiles = 8,                 /* such tiles packed at a time */
    c_floats = 16 * 16             /* a tile of C on its side */
};

/* Floats of scratch: the packed panel and the two tiles. */
static size_t product_scratch(const product *p) {
    if (p->few) return (size_t)(p->parts * p->rows) * ((size_t)(p->K + 1) / 2 + 32) + 16;
    if (p->bf16) return (size_t)(p->k_block + 2) * p->col_block + (size_t)p->parts * a16_tiles * a16_turned;
    return (size_t)p->k_block * p->col_block + a_floats + c_floats;
}

static void pack_b(float *dst, const product *p, int c0, int cols, int k0, int K) {
    for (int c = 0; c < cols; c += 16) {
        const float *src = p->b + (size_t)k0 * p->bk + (size_t)(c0 + c) * p->bc;
        int n = MIN(16, cols - c);
        if (p->bc == 1) pack_along(dst + (size_t)c * K, src, p->bk, n, K);
        else pack_across(dst + (size_t)c * K, src, p->bc, n, K);
    }
}

/* Points t at rows of A that can be read fast: in place, unless they lie one beside the other
 * (backward w) or so far apart that they fall on the same lines of the first cache. */
static void place_a(tile *t, float *buf, const product *p, int r0, int rows, int k0, int K) {
    const float *src = p->a + (size_t)r0 * p->ar + (size_t)k0 * p->ak;
    if (p->ar == 1 && p->ak != 1) {
        for (int k = 0; k < K; k++) v_store(buf + (size_t)k * 16, v_load_n(src + (size_t)k * p->ak, rows));
        t->a = buf, t->ar = 1, t->ak = 16;
    } else if (p->ar % 512 == 0 && K >= 64 && p->ak == 1) {
        size_t stride = (size_t)K + 16;
        for (int r = 0; r < rows; r++) memcpy(buf + r * stride, src + (size_t)r * p->ar, (size_t)K * 4);
        t->a = buf, t->ar = stride, t->ak = 1;
    } else {
        t->a = src, t->ar = p->ar, t->ak = p->ak;
    }
}

/* Tiles of one vector whose columns lie apart in C: computed in buf, then turned. */
static void tile_turned(const product *p, tile t, float *buf, int r0, int rows, int c0, int cols) {
    vf v[16];
    t.c = buf, t.cr = 16;
    for (int c = 0; c < cols; c += 16, t.b += t.bv) {
        float *at = p->c + r0 + (size_t)(c0 + c) * p->cc;
        int n = MIN(16, cols - c);
        if (t.load) {
            for (int i = 0; i < 16; i++) v[i] = i < n ? v_load_n(at + (size_t)i * p->cc, rows) : v_zero();
            v_transpose(v);
            for (int r = 0; r < rows; r++) v_store(buf + r * 16, v[r]);
        }
        t.cols = 16;
        tile_row(t, rows);
        for (int r = 0; r < 16; r++) v[r] = r < rows ? v_load(buf + r * 16) : v_zero();
        v_transpose(v);
        for (int i = 0; i < n; i++) v_store_n(at + (size_t)i * p->cc, v[i], rows);
    }
}

#ifdef HAS_BF16 /* product16.h */
static whale_piece product_piece16;
static void pack_panel16(float *dst, const whale_pack *a, const float *w, int rows);
#endif

static void product_piece(const void *job, int piece, int thread) {
    const product *p = job;
    float *panel = scratch_of(p->dev, thread);
    float *abuf = panel + (size_t)p->k_block * p->col_block;
    float *cbuf = abuf + a_floats;
    int r0 = piece % p->row_blocks * p->row_block, c0 = piece / p->row_blocks * p->col_block;
    int r1 = MIN(p->rows, r0 + p->row_block), cols = MIN(p->col_block, p->cols - c0);
    int height = tile_height(r1 - r0, p->cc == 1 && cols > 16 ? tall : tall1);
    for (int k = 0; k < p->K; k += p->k_block) {
        int K = MIN(p->k_block, p->K - k);
        tile t = {.b = panel, .bk = 16, .bv = (size_t)K * 16, .K = K, .load = k > 0 || p->load, .cols = cols};
        if (p->packed) t.b = p->packed + (size_t)c0 * p->K + (size_t)k * 16, t.bv = (size_t)p->K * 16;
        else pack_b(panel, p, c0, cols, k, K);
        for (int r = r0; r < r1; r += height) {
            int rows = MIN(height, r1 - r);
            place_a(&t, abuf, p, r, rows, k, K);
            if (p->cc == 1) {
                t.c = p->c + (size_t)r * p->cr + c0, t.cr = p->cr;
                tile_row(t, rows);
            } else {
                tile_turned(p, t, cbuf, r, rows, c0, cols);
            }
        }
    }
}

INLINE int round_up(int n, int to) { return (n + to - 1) / to * to; }

/* Cuts C into pieces: large enough to pay for packing, enough of them to balance the threads. */
static whale_status product_run(whale_device *dev, product *p) {
    double work = (double)p->rows * p->cols * p->K;
    if (p->rows == 0 || p->cols == 0) return WHALE_OK;
    p->dev = dev;
    whale_piece *f = product_piece;
#ifdef HAS_BF16
    if (p->bf16) f = product_piece16;
#endif
    p->k_block = MIN(p->K, p->bf16 ? 2 * pack_k : pack_k);
    p->col_block = MIN(pack_cols, (p->cols + 15) / 16 * 16);
    p->row_block = MIN(p->rows, p->bf16 && dev->amx ? 10 * amx_tall : 24 * tall);
    if (p->bf16 && !dev->amx) p->row_block = round_up(tile_height(p->rows, 48 * tall), tall);
    p->few = p->bf16 && !dev->amx && p->packed && p->rows <= 2 * tall && p->ak == 1 && p->cc == 1;
    int want = dev->threads > 1 && work > worth_waking ? 4 * dev->threads : 1;
    for (;;) {
        int cb = (p->cols + p->col_block - 1) / p->col_block;
        p->row_blocks = (p->rows + p->row_block - 1) / p->row_block;
        int n = cb * p->row_blocks;
        if (n >= want || (p->row_block <= 4 * tall && p->col_block <= 32)) {
            whale_status st = whale_scratch(dev, product_scratch(p) * sizeof(float));
            if (st == WHALE_OK) run_pieces(dev, f, p, n, work);
            return st;
        }
        if (p->row_block > 6 * tall || p->col_block <= 32) p->row_block = tile_height(p->row_block, p->row_block / 2 + 1);
        else p->col_block = (p->col_block / 2 + 15) / 16 * 16;
    }
}

/* Whether to pack x rather than w, and turn the product on its side: then w is read in place but
 * T is filled up to whole vectors, at some cost for turning. Packing w costs about as much as 6
 * rows (measured; both give the same bits). */
INLINE int better_turned(int T, int N) { return N >= 16 && round16(T) * 9 < (T + 6) * 8; }

/* Products of whole and of split bfloat16 take the same way. */
INLINE int in_bf16(whale_precision p) { return p == WHALE_BF16 || p == WHALE_BF16X3; }
INLINE int parts_of(whale_precision p) { return p == WHALE_BF16X3 ? 2 : 1; }

static whale_status matmul_forward(whale_device *dev, const whale_matmul *a) {
    product p = {.rows = a->T, .cols = a->N, .K = a->M, .load = a->accumulate,
                 .a = a->x, .ar = (size_t)a->ldx, .ak = 1, .b = a->w, .bk = 1, .bc = (size_t)a->M,
                 .c = a->y, .cr = (size_t)a->ldy, .cc = 1, .packed = a->packed, .bf16 = in_bf16(a->precision), .parts = parts_of(a->precision)};
    if (!p.packed && !p.bf16 && better_turned(a->T, a->N))
        p = (product){.rows = a->N, .cols = a->T, .K = a->M, .load = a->accumulate,
                      .a = a->w, .ar = (size_t)a->M, .ak = 1, .b = a->x, .bk = 1, .bc = (size_t)a->ldx,
                      .c = a->y, .cr = 1, .cc = (size_t)a->ldy};
    return product_run(dev, &p);
}

static whale_status matmul_backward_x(whale_device *dev, const whale_matmul_grad_x *a) {
    product p = {.rows = a->T, .cols = a->M, .K = a->N, .load = a->accumulate,
                 .a = a->dy, .ar = (size_t)a->lddy, .ak = 1, .b = a->w, .bk = (size_t)a->M, .bc = 1,
                 .c = a->dx, .cr = (size_t)a->lddx, .cc = 1, .bf16 = in_bf16(a->precision), .parts = parts_of(a->precision)};
    return product_run(dev, &p);
}

static whale_status matmul_backward_w(whale_device *dev, const whale_matmul_grad_w *a) {
    product p = {.rows = a->N, .cols = a->M, .K = a->T, .load = 1,
                 .a = a->dy, .ar = 1, .ak = (size_t)a->lddy, .b = a->x, .bk = (size_t)a->ldx, .bc = 1,
                 .c = a->dw, .cr = (size_t)a->M, .cc = 1, .bf16 = in_bf16(a->precision), .parts = parts_of(a->precision)};
    return product_run(dev, &p);
}

/* A piece is a panel: 16 rows of w, on their side. */
static void pack_weight_piece(const void *job, int piece, int thread) {
    (void)thread;
    const whale_pack *a = job;
    int n = piece * 16, rows = MIN(16, a->N - n);
    const float *w = a->w + (size_t)n * a->M;
#ifdef HAS_BF16
    if (in_bf16(a->precision)) {
        pack_panel16(a->packed + (size_t)n * ((a->M + 1) / 2) * parts_of(a->precision), a, w, rows);
        return;
    }
#endif
    pack_across(a->packed + (size_t)n * a->M, w, (size_t)a->M, rows, a->M);
}

static void pack_weight(whale_device *dev, const whale_pack *a) {
    run_pieces(dev, pack_weight_piece, a, (a->N + 15) / 16, (double)a->N * a->M);
}
