/* attend_back.h: backward of causal grouped-query attention.
 *
 * A piece is one sequence under one key/value head, walked in blocks of query rows (token,
 * query head of the group). With p = e^(s - lse), D = sum(do o), ds = p (do v - D):
 *     dq[r] = scale * sum over j of ds[r][j] k[j]
 *     dv[j] = sum over r of p[r][j] do[r]        dk[j] = sum over r of ds[r][j] (scale q[r])
 * Each element is one chain, j and r ascending, whatever the blocks. */

typedef struct {
    const whale_attention_grad *a;
    const int64_t *order; /* sequences, longest first: the index is in the low half */
    whale_device *dev;
} back_job;

enum { back_rows = 56 }; /* rows of a block, or one token if its group is larger */

typedef struct {
    float *kt, *vt;  /* panels of 16 keys or values, [d, 16] each */
    float *k;        /* [length, dv] keys */
    float *dk, *dval;/* [length, dv] sums */
    float *q, *dout; /* [rows, dv] the block's scaled queries and output gradients */
    float *p, *ds;   /* [rows, ls] */
    float *o;        /* [tall, dv] */
    float *lse, *D;  /* [rows] */
    int ls, dv, rows;
} back_space;

/* Lays a piece's arrays out from base, which may be NULL; returns the floats they take. */
static size_t back_layout(back_space *w, float *base, const whale_attention_grad *a, int length) {
    int G = a->H / a->K;
    size_t used = 0, n = (size_t)length, panels = (size_t)round16(length) * a->d;
    w->dv = round16(a->d), w->ls = round16(length) + 16, w->rows = MAX(1, back_rows / G) * G;
    size_t rows = (size_t)w->rows, dv = (size_t)w->dv, ls = (size_t)w->ls;
    w->kt = take(base, &used, panels);
    w->vt = take(base, &used, panels);
    w->k = take(base, &used, n * dv);
    w->dk = take(base, &used, n * dv);
    w->dval = take(base, &used, n * dv);
    w->q = take(base, &used, rows * dv);
    w->dout = take(base, &used, rows * dv);
    w->p = take(base, &used, rows * ls);
    w->ds = take(base, &used, rows * ls);
    w->o = take(base, &used, tall1 * dv);
    w->lse = take(base, &used, rows);
    w->D = take(base, &used, rows);
    return used;
}

/* dst[r][0..dv) = src[r*ld ..] * factor, 0 beyond d */
static void copy_rows(float *dst, const float *src, size_t ld, int rows, int d, float factor) {
    const vf f = v_set1(factor);
    for (int r = 0; r < rows; r++)
        for (int x = 0; x < d; x += 16)
            v_store(dst + (size_t)r * round16(d) + x, v_mul(v_get(src + (size_t)r * ld + x, MIN(16, d - x)), f));
}

/* Loads rows [i, i+n) of the head group: queries, output gradients, lse and D. */
static void load_block(const back_space *w, const whale_attention_grad *a, int start, int h, int i, int n) {
    int G = a->H / a->K;
    for (int r = 0; r < n; r++) {
        size_t row = (size_t)start + (i + r) / G;
        int head = h * G + (i + r) % G;
        const float *o = a->o + row * a->ldo + (size_t)head * a->d, *dout = a->do_ + row * a->ldo + (size_t)head * a->d;
        copy_rows(w->q + (size_t)r * w->dv, a->q + row * a->ldq + (size_t)head * a->d, 0, 1, a->d, a->scale);
        copy_rows(w->dout + (size_t)r * w->dv, dout, 0, 1, a->d, 1.0f);
        lane_sums s = sums_zero();
        FOR_LANES(x, m, u, a->d, s.v[u] = v_fma(v_get(o + x, m), v_get(dout + x, m), s.v[u]));
        w->D[r] = sums_total(&s);
        w->lse[r] = a->lse[row * a->H + head];
    }
}

/* p and ds of rows [c, c+n) of the block against keys [0, keys); zero where a row may not look. */
static void weights_block(const back_space *w, const whale_attention_grad *a, int c, int n, int first, int keys) {
    int G = a->H / a->K;
    tile t = {.a = w->q + (size_t)c * w->dv, .ar = (size_t)w->dv, .ak = 1, .b = w->kt, .bk = 16, .bv = (size_t)a->d * 16,
              .c = w->p + (size_t)c * w->ls, .cr = (size_t)w->ls, .K = a->d, .cols = keys};
    tile_row(t, n);
    t.a = w->dout + (size_t)c * w->dv, t.b = w->vt, t.c = w->ds + (size_t)c * w->ls;
    tile_row(t, n);
    for (int r = c; r < c + n; r++) {
        float *p = w->p + (size_t)r * w->ls, *ds = w->ds + (size_t)r * w->ls;
        int limit = (first + r) / G + 1;
        const vf D = v_set1(w->D[r]);
        row_exp(p, p, limit, 1.0f, w->lse[r]);
        FOR_LANES(j, m, u, limit, v_put(ds + j, v_mul(v_get(p + j, m), v_sub(v_get(ds + j, m), D)), m));
        memset(p + limit, 0, (size_t)(keys - limit) * 4);
        memset(ds + limit, 0, (size_t)(keys - limit) * 4);
    }
}

/* dq of rows [c, c+n) of the block. */
static void dq_block(const back_space *w, const whale_attention_grad *a, int start, int h, int first, int c, int n, int keys) {
    int G = a->H / a->K;
    tile t = {.a = w->ds + (size_t)c * w->ls, .ar = (size_t)w->ls, .ak = 1, .b = w->k, .bk = (size_t)w->dv, .bv = 16,
              .c = w->o, .cr = (size_t)w->dv, .K = keys, .cols = a->d};
    tile_row(t, n);
    for (int r = 0; r < n; r++) {
        int i = first + c + r;
        float *dq = a->dq + ((size_t)start + i / G) * a->ldq + (size_t)(h * G + i % G) * a->d;
        for (int x = 0; x < a->d; x += 16)
            v_put(dq + x, v_mul(v_load(w->o + (size_t)r * w->dv + x), v_set1(a->scale)), MIN(16, a->d - x));
    }
}

/* Adds the block's n rows to dk and dv of keys [0, keys): only rows that may see a key. */
static void dkv_block(const back_space *w, const whale_attention_grad *a, int first, int n, int keys) {
    int G = a->H / a->K, height = tile_height(keys, tall);
    for (int j = 0; j < keys; j += height) {
        int m = MIN(height, keys - j), from = MAX(0, j * G - first);
        tile t = {.a = w->p + (size_t)from * w->ls + j, .ar = 1, .ak = (size_t)w->ls, .b = w->dout + (size_t)from * w->dv,
                  .bk = (size_t)w->dv, .bv = 16, .c = w->dval + (size_t)j * w->dv, .cr = (size_t)w->dv, .K = n - from,
                  .load = 1, .cols = a->d};
        tile_row(t, m);
        t.a = w->ds + (size_t)from * w->ls + j, t.b = w->q + (size_t)from * w->dv, t.c = w->dk + (size_t)j * w->dv;
        tile_row(t, m);
    }
}

static void back_piece(const void *job, int piece, int thread) {
    const back_job *j = job;
    const whale_attention_grad *a = j->a;
    int b = (int)(j->order[piece / a->K] & 0x7fffffff), h = piece % a->K, start = a->start[b], length = a->start[b + 1] - start;
    int rows = length * (a->H / a->K), G = a->H / a->K;
    size_t at = (size_t)start * a->ldkv + (size_t)h * a->d, ld = (size_t)a->ldkv;
    back_space w;
    back_layout(&w, scratch_of(j->dev, thread), a, length);
    for (int c = 0; c < length; c += 16) {
        int n = MIN(16, length - c);
        pack_across(w.kt + (size_t)c * a->d, a->k + at + (size_t)c * ld, ld, n, a->d);
        pack_across(w.vt + (size_t)c * a->d, a->v + at + (size_t)c * ld, ld, n, a->d);
    }
    copy_rows(w.k, a->k + at, ld, length, a->d, 1.0f);
    memset(w.dk, 0, (size_t)length * w.dv * 4);
    memset(w.dval, 0, (size_t)length * w.dv * 4);
    for (int i = 0; i < rows; i += w.rows) {
        int n = MIN(w.rows, rows - i), keys = (i + n - 1) / G + 1, height = tile_height(n, tall);
        load_block(&w, a, start, h, i, n);
        for (int c = 0; c < n; c += height) {
            int m = MIN(height, n - c);
            weights_block(&w, a, c, m, i, keys);
            dq_block(&w, a, start, h, i, c, m, (i + c + m - 1) / G + 1);
        }
        dkv_block(&w, a, i, n, keys);
    }
    for (int t = 0; t < length; t++)
        for (int x = 0; x < a->d; x += 16) {
            int n = MIN(16, a->d - x);
            v_put(a->dk + at + (size_t)t * ld + x, v_load(w.dk + (size_t)t * w.dv + x), n);
            v_put(a->dv + at + (size_t)t * ld + x, v_load(w.dval + (size_t)t * w.dv + x), n);
        }
}

static int by_value(const void *x, const void *y) {
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static whale_status attention_backward(whale_device *dev, const whale_attention_grad *a) {
    int longest = 0;
    double work = 0;
    whale_status st = whale_shared(dev, (size_t)a->B * sizeof(int64_t));
    if (st != WHALE_OK) return st;
    int64_t *order = (int64_t *)(void *)shared_of(dev);
    for (int b = 0; b < a->B; b++) {
        int n = a->start[b + 1] - a->start[b];
        longest = MAX(longest, n);
        work += 2.5 * n * n * a->d * a->H;
        order[b] = (int64_t)(0x7fffffff - n) << 32 | b;
    }
    qsort(order, (size_t)a->B, sizeof *order, by_value);
    back_space w;
    st = whale_scratch(dev, back_layout(&w, NULL, a, longest) * sizeof(float));
    back_job j = {a, order, dev};
    if (st == WHALE_OK && longest > 0) run_pieces(dev, back_piece, &j, a->B * a->K, work);
    return st;
}
