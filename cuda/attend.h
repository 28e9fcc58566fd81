/* attend.h: causal grouped-query attention, forward. Packed sequences and the paged cache go
 * through the same code, so a row has the same bits in both.
 *
 * A run is a block of query tokens of one sequence at consecutive positions. A piece is one
 * run (or a group of them, see below) under one key/value head: its rows are (token, query head of the group), G = H / K to a
 * token. For a tile of rows:
 *     scores  s[r][j] = q[r] k[j], one chain over the head width
 *     weights s[r][j] = e^(s[r][j] - max), their sum in 16 lanes by j % 16
 *     output  o[r] = (sum over j ascending of s[r][j] v[j]) / sum
 * where j is the position of the key on the row's path and stops at the row's own: a row
 * never meets a key or value that it may not see, finite or not. */

typedef struct {
    int row, tokens, pos;   /* first row of the call, its position in the sequence */
    const float *k, *v;     /* head 0 of row 0 of the call, or of page 0 */
    const int32_t *pages;   /* where the positions are: in these pages of the cache, */
    const chain *on;        /* or, without pages, in rows ld apart */
} run;

/* Runs [first, first + n) that one piece takes together. If n > 1 they are of one token each and
 * their first `shared` positions lie on the same pages. */
typedef struct { int first, n, shared; } group;

typedef struct {
    const run *runs;
    const group *groups;
    int H, K, d, P, ldq, ldo;
    size_t ld;              /* distance between positions (within a page) */
    int bf16;               /* attend16.h */
    float scale;
    const float *q;
    float *o, *lse;
    whale_device *dev;
} attend_job;

enum { attend_rows = 112 }; /* rows of a piece, or one token if its group is larger */

/* The next n floats of a thread's scratch, on a cache line. */
INLINE float *take(float *base, size_t *used, size_t n) {
    float *at = base ? base + *used : NULL;
    *used += (n + 15) / 16 * 16;
    return at;
}

/* Positions from j on that lie ld apart, at most n. *at is that of j. */
INLINE int stretch(const run *r, const float *base, size_t ld, int P, int j, int n, const float **at) {
    if (!r->pages) {
        int row, many = along(r->on, j, n, &row);
        return *at = base + (size_t)row * ld, many;
    }
    *at = base + ((size_t)r->pages[j / P] * (size_t)P + (size_t)(j % P)) * ld;
    return MIN(n, P - j % P);
}

/* Keys j0..j0+16 of the run, turned: dst[i][c] = k[j0 + c][i]. */
static void pack_keys(float *dst, const run *r, const attend_job *a, const float *base, int j0, int keys) {
    const float *at;
    int n = MIN(16, keys - j0);
    if (stretch(r, base, a->ld, a->P, j0, n, &at) >= n) {
        pack_across(dst, at, a->ld, n, a->d);
        return;
    }
    float rows[16 * 16];
    for (int i = 0; i < a->d; i += 16) { /* the 16 keys lie on several pages or chains */
        int w = MIN(16, a->d - i);
        for (int c = 0; c < n; c++) {
            stretch(r, base, a->ld, a->P, j0 + c, 1, &at);
            memcpy(rows + c * 16, at + i, (size_t)w * 4);
        }
        pack_across(dst + (size_t)i * 16, rows, 16, n, w);
    }
}

/* Scratch of one piece. */
typedef struct {
    float *q;      /* [rows, d], scaled */
    float *kt;     /* panels of 16 keys, [d, 16] each: all of them, or the current few */
    float *v;      /* [keys, dv], unless values are read in place */
    float *s;      /* [tall, ls] scores, then weights */
    float *o;      /* [tall, dv] */
    float *inv;    /* [tall] 1 / sum */
    int ls, dv;    /* distance between rows of s, of v and o */
    int in_place;
} attend_space;

/* A single tile of rows reads keys and values once: then keys are turned a few at a time and
 * values are not copied. */
enum { once_keys = 128 };
INLINE int reads_once(int rows, int d) { return rows <= tall && d % 16 == 0; }

/* Lays a piece's arrays out from base, which may be NULL; returns the floats they take. */
static size_t attend_layout(attend_space *w, float *base, const attend_job *a, int rows, int keys) {
    size_t used = 0, d = (size_t)a->d;
    w->ls = round16(keys) + 16, w->dv = round16(a->d), w->in_place = reads_once(rows, a->d);
    w->q = take(base, &used, (size_t)rows * d);
    w->kt = take(base, &used, (size_t)(w->in_place ? once_keys : round16(keys)) * d);
    w->v = take(base, &used, w->in_place ? 0 : (size_t)keys * (size_t)w->dv);
    w->s = take(base, &used, (size_t)tall1 * (size_t)w->ls);
    w->o = take(base, &used, (size_t)tall1 * (size_t)w->dv);
    w->inv = take(base, &used, tall1);
    return used;
}

/* Rows [row, row + rows) of the tile against keys [from, to) of r. */
typedef struct { const run *r; int row, rows, from, to; } span;

/* Scores of a span under key/value head h. from is 0 unless keys are turned as they are read. */
static void scores(const attend_job *a, const attend_space *w, int h, span p) {
    tile t = {.a = w->q + (size_t)p.row * a->d, .ar = (size_t)a->d, .ak = 1, .b = w->kt, .bk = 16,
              .bv = (size_t)a->d * 16, .c = w->s + (size_t)p.row * w->ls, .cr = (size_t)w->ls, .K = a->d, .cols = p.to};
    if (!w->in_place) {
        tile_row(t, p.rows);
        return;
    }
    const float *k = p.r->k + (size_t)h * a->d;
    for (int j = p.from; j < p.to; j += once_keys) {
        t.c = w->s + (size_t)p.row * w->ls + j, t.cols = MIN(once_keys, p.to - j);
        for (int c = 0; c < t.cols; c += 16) pack_keys(w->kt + (size_t)c * a->d, p.r, a, k, j + c, p.to);
        tile_row(t, p.rows);
    }
}

/* Outputs of a span, continued from what keys before from gave. */
static void weigh(const attend_job *a, const attend_space *w, int h, span p) {
    const float *v = p.r->v + (size_t)h * a->d;
    for (int j = p.from, keys; j < p.to; j += keys) {
        const float *at = w->v + (size_t)j * w->dv;
        keys = p.to - j;
        if (w->in_place) keys = stretch(p.r, v, a->ld, a->P, j, keys, &at);
        tile t = {.a = w->s + (size_t)p.row * w->ls + j, .ar = (size_t)w->ls, .ak = 1, .b = at,
                  .bk = w->in_place ? a->ld : (size_t)w->dv, .bv = 16, .c = w->o + (size_t)p.row * w->dv,
                  .cr = (size_t)w->dv, .K = keys, .load = j > 0, .cols = a->d};
        tile_row(t, p.rows);
    }
}

/* Tile row c belongs to row `row` of the call and query head `head`; it sees the first keys. */
static void soften(const attend_job *a, const attend_space *w, int c, int keys, size_t row, int head) {
    float *s = w->s + (size_t)c * w->ls, top = row_max(s, keys), sum = row_exp(s, s, keys, 1.0f, top);
    w->inv[c] = 1.0f / sum;
    if (a->lse) a->lse[row * a->H + head] = (float)((double)top + log((double)sum));
}

static void put_out(const attend_job *a, const attend_space *w, int c, size_t row, int head) {
    float *o = a->o + row * a->ldo + (size_t)head * a->d;
    const vf inv = v_set1(w->inv[c]);
    for (int x = 0; x < a->d; x += 16)
        v_put(o + x, v_mul(v_load(w->o + (size_t)c * w->dv + x), inv), MIN(16, a->d - x));
}

/* q[i] = scaled query i of the run under key/value head h, rows ordered by token, then head. */
static void get_queries(float *q, const attend_job *a, const run *r, int h) {
    int G = a->H / a->K;
    const vf scale = v_set1(a->scale);
    for (int i = 0; i < r->tokens * G; i++, q += a->d) {
        const float *from = a->q + ((size_t)r->row + i / G) * a->ldq + (size_t)(h * G + i % G) * a->d;
        for (int x = 0; x < a->d; x += 16) {
            int n = MIN(16, a->d - x);
            v_put(q + x, v_mul(v_get(from + x, n), scale), n);
        }
    }
}

/* One tile: rows [i, i+n) of the run under key/value head h. */
static void attend_tile(const attend_job *a, const run *r, attend_space w, int h, int i, int n) {
    int G = a->H / a->K, first = r->pos + i / G + 1, last = r->pos + (i + n - 1) / G + 1;
    w.q += (size_t)i * a->d;
    scores(a, &w, h, (span){r, 0, n, 0, last});
    for (int c = 0; c < n; c++)
        soften(a, &w, c, r->pos + (i + c) / G + 1, (size_t)r->row + (i + c) / G, h * G + (i + c) % G);
    weigh(a, &w, h, (span){r, 0, n, 0, first});
    for (int c = 0, same; c < n; c += same) { /* the keys that only the later tokens of the tile may see */
        same = MIN(n - c, G - (i + c) % G);
        weigh(a, &w, h, (span){r, c, same, first, r->pos + (i + c) / G + 1});
    }
    for (int c = 0; c < n; c++) put_out(a, &w, c, (size_t)r->row + (i + c) / G, h * G + (i + c) % G);
}

/* A run of several tiles: its keys are turned and its values copied once. */
static void attend_run(const attend_job *a, const run *r, int h, int thread) {
    int rows = r->tokens * (a->H / a->K), keys = r->pos + r->tokens;
    attend_space w;
    attend_layout(&w, scratch_of(a->dev, thread), a, rows, keys);
    get_queries(w.q, a, r, h);
    if (!w.in_place) {
        const float *k = r->k + (size_t)h * a->d, *v = r->v + (size_t)h * a->d, *at;
        for (int j = 0; j < keys; j += 16) pack_keys(w.kt + (size_t)j * a->d, r, a, k, j, keys);
        for (int j = 0, n; j < keys; j += n) {
            n = stretch(r, v, a->ld, a->P, j, keys - j, &at);
            for (int x = 0; x < a->d; x += 16) {
                int m = MIN(16, a->d - x);
                for (int c = 0; c < n; c++)
                    v_store(w.v + (size_t)(j + c) * w.dv + x, v_get(at + (size_t)c * a->ld + x, m));
            }
        }
    }
    int height = tile_height(rows, tall);
    for (int i = 0; i < rows; i += height) attend_tile(a, r, w, h, i, MIN(height, rows - i));
}

/* Runs of one token each that share the pages of their first positions (samples of one prompt):
 * the shared keys are read once for all. */
static void attend_shared(const attend_job *a, const group *g, int h, int thread) {
    const run *r = a->runs + g->first;
    int G = a->H / a->K, keys = 0;
    for (int c = 0; c < g->n; c++) keys = MAX(keys, r[c].pos + 1);
    attend_space w;
    attend_layout(&w, scratch_of(a->dev, thread), a, g->n * G, keys);
    for (int c = 0; c < g->n; c++) get_queries(w.q + (size_t)c * G * a->d, a, r + c, h);
    scores(a, &w, h, (span){r, 0, g->n * G, 0, g->shared});
    for (int c = 0; c < g->n; c++) scores(a, &w, h, (span){r + c, c * G, G, g->shared, r[c].pos + 1});
    for (int c = 0; c < g->n * G; c++) soften(a, &w, c, r[c / G].pos + 1, (size_t)r[c / G].row, h * G + c % G);
    weigh(a, &w, h, (span){r, 0, g->n * G, 0, g->shared});
    for (int c = 0; c < g->n; c++) weigh(a, &w, h, (span){r + c, c * G, G, g->shared, r[c].pos + 1});
    for (int c = 0; c < g->n * G; c++) put_out(a, &w, c, (size_t)r[c / G].row, h * G + c % G);
}

static void attend_piece(const void *job, int piece, int thread) {
    const attend_job *a = job;
    const group *g = &a->groups[piece / a->K];
    if (g->n > 1) attend_shared(a, g, piece % a->K, thread);
    else attend_run(a, a->runs + g->first, piece % a->K, thread);
}

#ifdef HAS_BF16 /* attend16.h */
static whale_piece attend_piece16;
static size_t attend_floats16(const attend_job *a, int rows, int keys, int paged);
#endif

static size_t attend_floats(const attend_job *a, int rows, int keys) {
    attend_space w;
#ifdef HAS_BF16
    if (a->bf16) return attend_floats16(a, rows, keys, a->runs->pages != NULL);
#endif
    return attend_layout(&w, NULL, a, rows, keys);
}

static whale_status attend(whale_device *dev, attend_job *a, int groups) {
    size_t most = 0;
    whale_piece *f = attend_piece;
    double work = 0;
#ifdef HAS_BF16
    if (a->bf16) f = attend_piece16;
#endif
    for (int i = 0; i < groups; i++) {
        int tokens = 0, keys = 0;
        for (const run *r = a->runs + a->groups[i].first, *end = r + a->groups[i].n; r < end; r++) {
            tokens += r->tokens;
            keys = MAX(keys, r->pos + r->tokens);
        }
        size_t floats = attend_floats(a, tokens * (a->H / a->K), keys);
        most = MAX(most, floats);
        work += 2.0 * tokens * a->H * keys * a->d;
    }
    whale_status st = whale_scratch(dev, most * sizeof(float));
    a->dev = dev;
    if (st == WHALE_OK) run_pieces(dev, f, a, groups * a->K, work);
    return st;
}

static whale_status attention_forward(whale_device *dev, const whale_attention *a) {
    int G = a->H / a->K, bf16 = in_blocks16(dev, a->precision, 16), n = 0;
    int block = MAX(1, (bf16 ? 4 : 1) * attend_rows / G), chains = chains_of(a->start, a->until, a->B, NULL);
    size_t most = (size_t)a->T / block + chains;
    whale_status st = whale_shared(dev, most * (sizeof(run) + sizeof(group)) + chains * sizeof(chain));
    if (st != WHALE_OK) return st;
    run *runs = (run *)(void *)shared_of(dev);
    chain *list = (chain *)(void *)(runs + most);
    group *groups = (group *)(void *)(list + chains);
    chains_of(a->start, a->until, a->B, list);
    for (const chain *c = list; c < list + chains; c++) {
        /* The latest positions first: they take longest. */
        int even = tile_height(c->n, block);
        for (int t = (c->n - 1) / even * even; t >= 0; t -= even, n++) {
            runs[n] = (run){c->row + t, MIN(even, c->n - t), c->pos + t, a->k, a->v, NULL, c};
            groups[n] = (group){n, 1, 0};
        }
    }
    attend_job j = {.runs = runs, .groups = groups, .H = a->H, .K = a->K, .d = a->d, .P = 1, .ldq = a->ldq, .ldo = a->ldo,
                    .ld = (size_t)a->ldkv, .bf16 = bf16, .scale = a->scale, .q = a->q, .o = a->o, .lse = a->lse};
    return attend(dev, &j, n);
}
