/* attend16_back.h: backward of causal grouped-query attention in bfloat16. The way through trees,
 * chains and blocks of query rows is that of attend_back.h, and so are the sums; the factors of the
 * five products are rounded, in pairs along what each sums over:
 *     s = q k, dp = do v     along the head width: queries in rows, keys and values in panels
 *     dq = ds k              along keys: ds in rows
 *     dv = p do, dk = ds q   along query rows: p and ds of two rows beside each other
 * p = 2^(s - lse), with s and lse in units of ln 2 and s the bits of the forward; p, D, ds before they
 * are rounded and all sums are float32. */

enum { back_rows16 = 112 }; /* rows of a block; even, so that only a chain's last row has no neighbour */

typedef struct {
    back_walk walk;      /* of its arrays dk and dval only */
    float *kt, *vt;      /* blocks of 16 keys, as blocks16.h has them, and of values likewise */
    float *kp;           /* [dv/16][cap/2][16] keys, pairs of positions */
    float *rows;         /* [16][dv] */
    float *q, *dout;     /* [back_rows16][ld] pairs; q scaled by scale / ln 2 */
    float *qp, *doutp;   /* [dv/16][back_rows16/2][16] pairs of rows; q scaled by scale */
    float *lse, *D;      /* [back_rows16] */
    float *s, *dp;       /* [tall][ls] */
    float *ds;           /* [tall][lds] pairs of positions */
    float *pp, *dsp;     /* [back_rows16/2][ls] pairs of rows */
    float *o;            /* [tall][dv] */
    int ld, ls, lds, cap;
} back16;

/* A tile's weights are written, with zeros, so far beyond its keys: a tile of keys reads them, for
 * rows that see its first key. */
enum { beyond16 = 16 };

static size_t back_layout16(back16 *w, float *base, const whale_attention_grad *a, int length) {
    size_t used = 0, dv = (size_t)round16(a->d), rows = back_rows16;
    w->walk.w.dv = (int)dv, w->cap = round16(length), w->ld = (a->d + 31) / 32 * 16;
    w->ls = ((w->cap + beyond16 + 32) / 16 | 1) * 16; /* an odd number of lines, so that rows fall on different sets */
    w->lds = ((w->ls + 31) / 32 | 1) * 16;
    size_t cap = (size_t)w->cap, ls = (size_t)w->ls;
    w->walk.w.dk = take(base, &used, cap * dv);
    w->walk.w.dval = take(base, &used, cap * dv);
    w->kt = take(base, &used, cap * dv / 2);
    w->vt = take(base, &used, cap * dv / 2);
    w->kp = take(base, &used, cap * dv / 2);
    w->rows = take(base, &used, 16 * dv);
    w->q = take(base, &used, rows * (size_t)w->ld);
    w->dout = take(base, &used, rows * (size_t)w->ld);
    w->qp = take(base, &used, rows / 2 * dv);
    w->doutp = take(base, &used, rows / 2 * dv);
    w->lse = take(base, &used, rows);
    w->D = take(base, &used, rows);
    w->s = take(base, &used, tall * ls);
    w->dp = take(base, &used, tall * ls);
    w->ds = take(base, &used, tall * (size_t)w->lds);
    w->pp = take(base, &used, rows / 2 * ls);
    w->dsp = take(base, &used, rows / 2 * ls);
    w->o = take(base, &used, tall * dv);
    return used;
}

static size_t back_floats16(const whale_attention_grad *a, int length) {
    back16 w;
    return back_layout16(&w, NULL, a, length);
}

/* 16 pairs of (lo[i], hi[i]), as pair_up, in two steps. */
INLINE vf braid(vf lo, vf hi) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (vf)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(hi, lo));
}

/* Puts keys and values of a chain on the stack; its first block may begin with those of chains above. */
static void put_keys16(back16 *w, const chain *c) {
    const whale_attention_grad *a = w->walk.a;
    size_t dv = (size_t)w->walk.w.dv, many = (size_t)c->n * dv;
    run r = {.on = c};
    w->walk.on = c, w->walk.top = c->pos + c->n;
    for (int j = c->pos / 16 * 16; j < w->walk.top; j += 16) {
        int n = MIN(16, w->walk.top - j);
        size_t at = (size_t)j / 16 * block16(a->d), ld = (size_t)a->ldkv;
        const float *src = rows_of16(&r, a->v + (size_t)w->walk.h * a->d, &ld, a->d, j, n, w->rows);
        keys16(w->vt + at, src, ld, n, a->d);
        ld = (size_t)a->ldkv;
        src = rows_of16(&r, a->k + (size_t)w->walk.h * a->d, &ld, a->d, j, n, w->rows);
        keys16(w->kt + at, src, ld, n, a->d);
        for (int x = 0; x < a->d; x += 16)
            pack_along16(w->kp + (size_t)x / 2 * w->cap + (size_t)j * 8, src + x, ld, MIN(16, a->d - x), n, 0);
    }
    memset(w->walk.w.dk + (size_t)c->pos * dv, 0, many * 4);
    memset(w->walk.w.dval + (size_t)c->pos * dv, 0, many * 4);
}

/* Where row i of the path has its query: its offset, with rows ld apart. */
INLINE size_t query_at(const back_walk *k, int start, int i, int ld) {
    int G = k->a->H / k->a->K;
    return ((size_t)start + i / G) * ld + (size_t)(k->h * G + i % G) * k->a->d;
}

/* Columns [x, x + 32) of rows 2i and 2i + 1 of the block, of which the second may not exist. */
INLINE void pair_rows(const back16 *w, float *along, float *across, int i, int x, const float *row0, const float *row1,
                      float narrow, float wide) {
    int d = w->walk.a->d, lo = MIN(16, d - x), hi = MIN(16, d - x - 16);
    const vf f = v_set1(narrow), g = v_set1(wide);
    vf a0 = v_get(row0 + x, lo), a1 = row1 ? v_get(row1 + x, lo) : v_zero(), b0 = v_zero(), b1 = v_zero();
    if (hi > 0) b0 = v_get(row0 + x + 16, hi), b1 = row1 ? v_get(row1 + x + 16, hi) : v_zero();
    along += (size_t)(2 * i) * w->ld + x / 2, across += (size_t)x / 2 * back_rows16 + (size_t)i * 16;
    v_store(along, (vf)_mm512_cvtne2ps_pbh(v_mul(b0, f), v_mul(a0, f)));
    v_store(along + w->ld, (vf)_mm512_cvtne2ps_pbh(v_mul(b1, f), v_mul(a1, f)));
    v_store(across, braid(v_mul(a0, g), v_mul(a1, g)));
    if (hi > 0) v_store(across + back_rows16 * 8, braid(v_mul(b0, g), v_mul(b1, g)));
}

/* Loads rows [i, i+n) of the path: queries, output gradients, lse and D. */
static void load_block16(const back16 *w, int start, int i, int n) {
    const whale_attention_grad *a = w->walk.a;
    int G = a->H / a->K;
    for (int r = 0; r < n; r++) {
        const float *o = a->o + query_at(&w->walk, start, i + r, a->ldo), *dout = a->do_ + query_at(&w->walk, start, i + r, a->ldo);
        lane_sums s = sums_zero();
        FOR_LANES(x, m, u, a->d, s.v[u] = v_fma(v_get(o + x, m), v_get(dout + x, m), s.v[u]));
        w->D[r] = sums_total(&s);
        w->lse[r] = a->lse[((size_t)start + (i + r) / G) * a->H + w->walk.h * G + (i + r) % G] * 1.44269504f;
    }
    for (int r = 0; r < n; r += 2) {
        const float *q = a->q + query_at(&w->walk, start, i + r, a->ldq), *dout = a->do_ + query_at(&w->walk, start, i + r, a->ldo);
        const float *q1 = NULL, *dout1 = NULL;
        if (r + 1 < n) q1 = a->q + query_at(&w->walk, start, i + r + 1, a->ldq), dout1 = a->do_ + query_at(&w->walk, start, i + r + 1, a->ldo);
        for (int x = 0; x < a->d; x += 32) {
            pair_rows(w, w->q, w->qp, r / 2, x, q, q1, a->scale * 1.44269504f, a->scale);
            pair_rows(w, w->dout, w->doutp, r / 2, x, dout, dout1, 1.0f, 1.0f);
        }
    }
}

/* A row of the tile: its scores and products with values, and how many keys it sees. */
typedef struct { const float *s, *dp; float *ds; vf lse, D; int keys; } soft_row;

/* Weights p[0..1] of the row at positions j and j + 16, and their gradients; ds is stored. */
INLINE void soften_back(const soft_row *r, int j, int whole, vf p[2], vf ds[2]) {
    for (int i = 0; i < 2; i++, j += 16) {
        p[i] = v_exp2_near(v_sub(v_load(r->s + j), r->lse));
        ds[i] = v_mul(p[i], v_sub(v_load(r->dp + j), r->D));
        if (whole) continue;
        __mmask16 m = v_mask(MAX(0, MIN(16, r->keys - j)));
        p[i] = _mm512_maskz_mov_ps(m, p[i]), ds[i] = _mm512_maskz_mov_ps(m, ds[i]);
    }
}

/* Weights of tile rows a and b at positions [j, j + 32); b may see nothing. */
INLINE void soften_pair(const soft_row *a, const soft_row *b, int j, int whole, float *pp, float *dsp) {
    vf p0[2], p1[2], ds0[2], ds1[2];
    soften_back(a, j, whole, p0, ds0);
    soften_back(b, j, whole, p1, ds1);
    v_store(a->ds + j / 2, (vf)_mm512_cvtne2ps_pbh(ds0[1], ds0[0]));
    if (b->ds) v_store(b->ds + j / 2, (vf)_mm512_cvtne2ps_pbh(ds1[1], ds1[0]));
    for (int i = 0; i < 2; i++) {
        v_store(pp + j + i * 16, braid(p0[i], p1[i]));
        v_store(dsp + j + i * 16, braid(ds0[i], ds1[i]));
    }
}

/* p and ds of rows [c, c+n) of the block, of which row 0 is row `first` of the path; they see keys. */
static void weights_block16(const back16 *w, int first, int c, int n, int keys) {
    const whale_attention_grad *a = w->walk.a;
    int G = a->H / a->K;
    tile16 t = {.a = w->q + (size_t)c * w->ld, .ar = (size_t)w->ld, .ak = 1, .b = w->kt, .bv = block16(a->d), .c = w->s,
                .cr = (size_t)w->ls, .K = (a->d + 1) / 2, .cols = round16(keys)};
    tile16_row(t, n);
    t.a = w->dout + (size_t)c * w->ld, t.b = w->vt, t.c = w->dp;
    tile16_row(t, n);
    for (int r = 0; r < n; r += 2) {
        soft_row row[2];
        for (int i = 0; i < 2; i++) {
            int at = r + MIN(i, n - 1 - r);
            row[i] = (soft_row){w->s + (size_t)at * w->ls, w->dp + (size_t)at * w->ls, w->ds + (size_t)at * w->lds,
                                v_set1(w->lse[c + at]), v_set1(w->D[c + at]), (first + c + at) / G + 1};
        }
        if (r + 1 == n) row[1].ds = NULL, row[1].keys = 0;
        float *pp = w->pp + (size_t)(c + r) / 2 * w->ls, *dsp = w->dsp + (size_t)(c + r) / 2 * w->ls;
        int j = 0, whole = MIN(row[0].keys, row[1].keys), seen = MAX(row[0].keys, row[1].keys);
        for (; j + 32 <= whole; j += 32) soften_pair(row, row + 1, j, 1, pp, dsp);
        for (; j < seen; j += 32) soften_pair(row, row + 1, j, 0, pp, dsp);
        for (; j < keys + beyond16; j += 16) {
            v_store(pp + j, v_zero()), v_store(dsp + j, v_zero());
            for (int i = 0; i < 2 && row[i].ds; i++) _mm256_storeu_ps(row[i].ds + j / 2, _mm256_setzero_ps());
        }
    }
}

/* dq of rows [c, c+n) of the block, from ds of the tile. */
static void dq_block16(const back16 *w, int start, int first, int c, int n, int keys) {
    const whale_attention_grad *a = w->walk.a;
    size_t dv = (size_t)w->walk.w.dv;
    tile16 t = {.a = w->ds, .ar = (size_t)w->lds, .ak = 1, .b = w->kp, .bv = (size_t)w->cap * 8, .c = w->o, .cr = dv,
                .K = (keys + 1) / 2, .cols = (int)dv};
    tile16_row(t, n);
    const vf scale = v_set1(a->scale);
    for (int r = 0; r < n; r++) {
        float *dq = a->dq + query_at(&w->walk, start, first + c + r, a->ldq);
        for (int x = 0; x < a->d; x += 16) v_put(dq + x, v_mul(v_load(w->o + (size_t)r * dv + x), scale), MIN(16, a->d - x));
    }
}

/* Adds the block's n rows to dk and dv of keys [0, keys): rows that may see a key, and at most one
 * more, whose weights are zero there. */
static void dkv_block16(const back16 *w, int first, int n, int keys) {
    int G = w->walk.a->H / w->walk.a->K, height = tile_height(keys, tall);
    size_t dv = (size_t)w->walk.w.dv, ls = (size_t)w->ls;
    for (int j = 0; j < keys; j += height) {
        int m = MIN(height, keys - j), from = MAX(0, j * G - first) / 2;
        tile16 t = {.a = w->pp + (size_t)from * ls + j, .ar = 1, .ak = ls, .b = w->doutp + (size_t)from * 16,
                    .bv = back_rows16 / 2 * 16, .c = w->walk.w.dval + (size_t)j * dv, .cr = dv, .K = (n + 1) / 2 - from,
                    .load = 1, .cols = (int)dv};
        tile16_row(t, m);
        t.a = w->dsp + (size_t)from * ls + j, t.b = w->qp + (size_t)from * 16, t.c = w->walk.w.dk + (size_t)j * dv;
        tile16_row(t, m);
    }
}

/* The query rows of a chain, counted as in back_chain. */
static void back_chain16(const back16 *w, const chain *c) {
    int G = w->walk.a->H / w->walk.a->K, start = c->row - c->pos, end = w->walk.top * G;
    for (int i = c->pos * G; i < end; i += back_rows16) {
        int n = MIN(back_rows16, end - i), height = (tile_height(n, tall) + 1) / 2 * 2;
        load_block16(w, start, i, n);
        for (int r = 0; r < n; r += height) {
            int m = MIN(height, n - r), keys = (i + r + m - 1) / G + 1;
            weights_block16(w, i, r, m, keys);
            dq_block16(w, start, i, r, m, keys);
        }
        dkv_block16(w, i, n, (i + n - 1) / G + 1);
    }
}

static void back_piece16(const void *job, int piece, int thread) {
    const back_job *j = job;
    const tree *t = j->trees + piece / j->a->K;
    back16 w = {.walk = {.a = j->a, .h = piece % j->a->K}};
    back_layout16(&w, scratch_of(j->dev, thread), j->a, t->depth);
    for (const chain *c = t->first; c < t->first + t->n; c++) {
        drop_keys(&w.walk, c->pos);
        put_keys16(&w, c);
        back_chain16(&w, c);
    }
    drop_keys(&w.walk, 0);
}
