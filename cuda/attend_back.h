/* attend_back.h: backward of causal grouped-query attention.
 *
 * A piece is one sequence, or tree of them, under one key/value head, walked in blocks of query
 * rows (token, query head of the group). A tree is walked chain by chain (chains.h) with what
 * belongs to the keys of the current path in a stack: a chain first drops what lies from its first
 * position on, whose sums are then complete, and puts its own keys there. With p = e^(s - lse), D = sum(do o), ds = p (do v - D):
 *     dq[r] = scale * sum over j of ds[r][j] k[j]
 *     dv[j] = sum over r of p[r][j] do[r]        dk[j] = sum over r of ds[r][j] (scale q[r])
 * Each element is one sum, j and r ascending, whatever the blocks. */

/* Chains [first, first + n) are those of one sequence or tree; depth is its longest path. */
typedef struct { const chain *first; int n, rows, depth; } tree;

typedef struct {
    const whale_attention_grad *a;
    const tree *trees; /* that with most rows first */
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

/* What a piece has on its way: its stack is filled up to position top, by the path on. */
typedef struct {
    back_space w;
    const whale_attention_grad *a;
    int h, top;
    const chain *on;
} back_walk;

/* Drops positions from `pos` on: their gradients are complete. */
static void drop_keys(back_walk *k, int pos) {
    const whale_attention_grad *a = k->a;
    for (int j = pos, n; j < k->top; j += n) {
        int row;
        n = along(k->on, j, k->top - j, &row);
        for (int i = 0; i < n; i++)
            for (int x = 0; x < a->d; x += 16) {
                size_t at = ((size_t)row + i) * a->ldkv + (size_t)k->h * a->d + x, from = ((size_t)j + i) * k->w.dv + x;
                int m = MIN(16, a->d - x);
                v_put(a->dk + at, v_load(k->w.dk + from), m);
                v_put(a->dv + at, v_load(k->w.dval + from), m);
            }
    }
    k->top = pos;
}

/* Puts the keys and values of a chain on the stack, which ends where it begins. */
static void put_keys(back_walk *k, const chain *c) {
    const whale_attention_grad *a = k->a;
    size_t ld = (size_t)a->ldkv, own = (size_t)c->pos * k->w.dv, many = (size_t)c->n * k->w.dv;
    const float *key = a->k + (size_t)k->h * a->d, *value = a->v + (size_t)k->h * a->d;
    k->on = c, k->top = c->pos + c->n;
    run r = {.on = c};
    attend_job from = {.d = a->d, .P = 1, .ld = ld};
    for (int j = c->pos / 16 * 16; j < k->top; j += 16) { /* the first panel may begin with keys of the chain above */
        pack_keys(k->w.kt + (size_t)j * a->d, &r, &from, key, j, k->top);
        pack_keys(k->w.vt + (size_t)j * a->d, &r, &from, value, j, k->top);
    }
    copy_rows(k->w.k + own, key + (size_t)c->row * ld, ld, c->n, a->d, 1.0f);
    memset(k->w.dk + own, 0, many * 4);
    memset(k->w.dval + own, 0, many * 4);
}

/* The query rows of a chain, counted from position 0 of its path: row i is head i % G of the
 * token at position i / G. */
static void back_chain(const back_walk *k, const chain *c) {
    const whale_attention_grad *a = k->a;
    int G = a->H / a->K, start = c->row - c->pos, end = k->top * G;
    for (int i = c->pos * G; i < end; i += k->w.rows) {
        int n = MIN(k->w.rows, end - i), keys = (i + n - 1) / G + 1, height = tile_height(n, tall);
        load_block(&k->w, a, start, k->h, i, n);
        for (int r = 0; r < n; r += height) {
            int m = MIN(height, n - r);
            weights_block(&k->w, a, r, m, i, keys);
            dq_block(&k->w, a, start, k->h, i, r, m, (i + r + m - 1) / G + 1);
        }
        dkv_block(&k->w, a, i, n, keys);
    }
}

static void back_piece(const void *job, int piece, int thread) {
    const back_job *j = job;
    const tree *t = j->trees + piece / j->a->K;
    back_walk k = {.a = j->a, .h = piece % j->a->K};
    back_layout(&k.w, scratch_of(j->dev, thread), j->a, t->depth);
    for (const chain *c = t->first; c < t->first + t->n; c++) {
        drop_keys(&k, c->pos);
        put_keys(&k, c);
        back_chain(&k, c);
    }
    drop_keys(&k, 0);
}

#ifdef HAS_BF16 /* attend16_back.h */
static whale_piece back_piece16;
static size_t back_floats16(const whale_attention_grad *a, int length);
#endif

static size_t back_floats(const whale_attention_grad *a, int length) {
    back_space w;
    return back_layout(&w, NULL, a, length);
}

static int most_rows_first(const void *x, const void *y) {
    const tree *a = x, *b = y;
    return a->rows != b->rows ? (b->rows > a->rows) - (b->rows < a->rows) : (a->first > b->first) - (a->first < b->first);
}

static whale_status attention_backward(whale_device *dev, const whale_attention_grad *a) {
    int deepest = 0, chains = chains_of(a->start, a->until, a->B, NULL);
    double work = 0;
    whale_status st = whale_shared(dev, chains * sizeof(chain) + (size_t)a->B * sizeof(tree));
    if (st != WHALE_OK) return st;
    chain *list = (chain *)(void *)shared_of(dev), *c = list;
    tree *trees = (tree *)(void *)(list + chains);
    chains_of(a->start, a->until, a->B, list);
    for (int b = 0; b < a->B; b++) {
        tree *t = trees + b;
        *t = (tree){.first = c, .rows = a->start[b + 1] - a->start[b]};
        for (; c < list + chains && c->row < a->start[b + 1]; c++, t->n++) {
            t->depth = MAX(t->depth, c->pos + c->n);
            work += 2.5 * c->n * (c->n + 2.0 * c->pos) * a->d * a->H;
        }
        deepest = MAX(deepest, t->depth);
    }
    qsort(trees, (size_t)a->B, sizeof *trees, most_rows_first);
    whale_piece *f = back_piece;
    size_t floats = back_floats(a, deepest);
#ifdef HAS_BF16
    if (in_blocks16(dev, a->precision, 16)) f = back_piece16, floats = back_floats16(a, deepest);
#endif
    st = whale_scratch(dev, floats * sizeof(float));
    back_job j = {a, trees, dev};
    if (st == WHALE_OK && deepest > 0) run_pieces(dev, f, &j, a->B * a->K, work);
    return st;
}
