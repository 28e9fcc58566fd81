/* attend16.h: causal grouped-query attention in bfloat16, forward. The way through runs, groups and
 * tiles is that of attend.h; queries, keys, values and weights are rounded, the softmax and all sums
 * are float32:
 *     scores  s[r][j] = q[r] k[j], two neighbouring columns at a step, in units of ln 2
 *     weights w[r][j] = 2^(s[r][j] - max), their sum in 16 lanes by j % 16 before they are rounded
 *     output  o[r] = (sum over pairs of j ascending of w[r][j] v[j]) / sum
 * Packed rows and the cache have the same bits. */

typedef struct {
    float *q;                     /* [rows][dv/2] pairs, scaled by scale / ln 2 */
    const float **k, **v;         /* [blocks] of the run's positions */
    float *kt, *vt, *rows;        /* blocks made of rows, and room for 16 rows; nothing for a cache */
    float *s, *w, *o, *inv;       /* [tall][ls], [tall][ls/2] pairs, [tall][dv], [tall] */
    int dv, ls;
} space16;

static size_t layout16(space16 *w, float *base, const attend_job *a, int rows, int keys, int paged) {
    size_t used = 0, blocks = ((size_t)keys + 15) / 16;
    w->dv = round16(a->d), w->ls = round16(keys) + 32;
    w->q = take(base, &used, (size_t)rows * (size_t)w->dv / 2 + 16);
    w->k = (const float **)(void *)take(base, &used, 2 * (blocks + 1));
    w->v = (const float **)(void *)take(base, &used, 2 * (blocks + 1));
    w->kt = take(base, &used, paged ? 0 : blocks * block16(a->d));
    w->vt = take(base, &used, paged ? 0 : blocks * block16(a->d));
    w->rows = take(base, &used, paged ? 0 : (size_t)16 * (size_t)w->dv);
    w->s = take(base, &used, (size_t)tall * (size_t)w->ls);
    w->w = take(base, &used, (size_t)tall * (size_t)w->ls / 2 + 16);
    w->o = take(base, &used, (size_t)tall * (size_t)w->dv);
    w->inv = take(base, &used, tall);
    return used;
}

/* Lists the blocks of positions [from, keys) of a run in the cache; from is a multiple of P. */
static void list_blocks(space16 *w, const attend_job *a, const run *r, int h, int from, int keys) {
    int each = a->P / 16;
    size_t size = block16(a->d);
    for (int i = from / 16; i < (keys + 15) / 16; i++) {
        size_t at = (((size_t)r->pages[i / each] * (size_t)a->K + (size_t)h) * (size_t)each + (size_t)(i % each)) * size;
        w->k[i] = r->k + at, w->v[i] = r->v + at;
    }
}

/* Positions [j, j + n) of a run, *ld apart: where they lie, or in buf if they are on several chains. */
static const float *rows_of16(const run *r, const float *base, size_t *ld, int d, int j, int n, float *buf) {
    const float *at;
    if (stretch(r, base, *ld, 1, j, n, &at) >= n) return at;
    for (int c = 0; c < n; c++) {
        stretch(r, base, *ld, 1, j + c, 1, &at);
        memcpy(buf + (size_t)c * round16(d), at, (size_t)d * 4);
    }
    return *ld = (size_t)round16(d), buf;
}

/* Makes the blocks of positions [0, keys) of a run in rows. */
static void make_blocks(space16 *w, const attend_job *a, const run *r, int h, int keys) {
    size_t size = block16(a->d);
    for (int i = 0, j = 0; j < keys; i++, j += 16) {
        int n = MIN(16, keys - j);
        float *kt = w->kt + (size_t)i * size, *vt = w->vt + (size_t)i * size;
        for (int values = 0; values < 2; values++) {
            size_t ld = a->ld;
            const float *at = rows_of16(r, (values ? r->v : r->k) + (size_t)h * a->d, &ld, a->d, j, n, w->rows);
            if (values) values16(vt, at, ld, n, a->d);
            else keys16(kt, at, ld, n, a->d);
        }
        w->k[i] = kt, w->v[i] = vt;
    }
}

static void get_queries16(float *q, const attend_job *a, const run *r, int h) {
    int G = a->H / a->K, dv = round16(a->d);
    const vf scale = v_set1(a->scale * 1.44269504f);
    for (int i = 0; i < r->tokens * G; i++, q += dv / 2) {
        const float *from = a->q + ((size_t)r->row + i / G) * a->ldq + (size_t)(h * G + i % G) * a->d;
        for (int x = 0; x < a->d; x += 32) {
            int n = a->d - x;
            vf lo = v_mul(v_get(from + x, MIN(16, n)), scale), hi = n > 16 ? v_mul(v_get(from + x + 16, MIN(16, n - 16)), scale) : v_zero();
            __m512i pairs = (__m512i)_mm512_cvtne2ps_pbh(hi, lo);
            if (n > 16) v_store(q + x / 2, (vf)pairs);
            else _mm256_storeu_si256((__m256i *)(void *)(q + x / 2), _mm512_castsi512_si256(pairs));
        }
    }
}

/* 2^x for x <= 0, off by 4e-5 of it at most, which rounding to bfloat16 hides. */
INLINE vf v_exp2_near(vf x) {
    x = v_max(v_set1(-200.0f), x); /* what is not a number stays so */
    vf n = _mm512_roundscale_ps(x, 0), f = v_sub(x, n);
    vf p = v_fma(v_set1(0.0096181291f), f, v_set1(0.0555041087f));
    p = v_fma(p, f, v_set1(0.2402265070f));
    p = v_fma(p, f, v_set1(0.6931471806f));
    p = v_fma(p, f, v_set1(1.0f));
    return v_scale2(p, n, n);
}

/* Tile row c belongs to row `row` of the call and query head `head`; it sees the first keys. */
static void soften16(const attend_job *a, const space16 *w, int c, int keys, size_t row, int head) {
    const float *s = w->s + (size_t)c * w->ls;
    float *pairs = w->w + (size_t)c * w->ls / 2;
    float top = row_max(s, keys);
    const vf vtop = v_set1(top), low = v_set1(-INFINITY);
    vf even = v_zero(), odd = v_zero();
    int j = 0;
    for (; j + 32 <= keys; j += 32) {
        vf lo = v_exp2_near(v_sub(v_load(s + j), vtop)), hi = v_exp2_near(v_sub(v_load(s + j + 16), vtop));
        even = v_add(even, lo), odd = v_add(odd, hi);
        v_store(pairs + j / 2, (vf)_mm512_cvtne2ps_pbh(hi, lo));
    }
    if (j < keys) {
        int n = keys - j, m = MIN(16, n);
        vf lo = v_exp2_near(v_sub(v_get_or(s + j, m, low), vtop)), hi = v_zero();
        lo = _mm512_maskz_mov_ps(v_mask(m), lo);
        if (n > 16) hi = _mm512_maskz_mov_ps(v_mask(n - 16), v_exp2_near(v_sub(v_get_or(s + j + 16, n - 16, low), vtop)));
        even = v_add(even, lo), odd = v_add(odd, hi);
        v_store(pairs + j / 2, (vf)_mm512_cvtne2ps_pbh(hi, lo));
    }
    float sum = v_sum(v_add(even, odd));
    w->inv[c] = 1.0f / sum;
    if (a->lse) a->lse[row * a->H + head] = (float)((double)top * 0.6931471805599453 + log((double)sum));
}

static void put_out16(const attend_job *a, const space16 *w, int c, size_t row, int head) {
    float *o = a->o + row * a->ldo + (size_t)head * a->d;
    const vf inv = v_set1(w->inv[c]);
    for (int x = 0; x < a->d; x += 16)
        v_put(o + x, v_mul(v_load(w->o + (size_t)c * w->dv + x), inv), MIN(16, a->d - x));
}

/* Scores of tile rows [c, c + n), whose queries begin at row q, against positions [from, to). */
static void scores16(const attend_job *a, const space16 *w, int c, int q, int n, int from, int to) {
    score_blocks((score16){.a = w->q + (size_t)q * w->dv / 2, .ar = (size_t)w->dv / 2, .block = w->k + from / 16,
                           .c = w->s + (size_t)c * w->ls + from, .cr = (size_t)w->ls, .K = (a->d + 1) / 2},
                 n, (to + 15) / 16 - from / 16);
}

static void outputs16(const space16 *w, int c, int n, int from, int to) {
    if (to > from)
        weigh_blocks((weigh16){.a = w->w + (size_t)c * w->ls / 2, .ar = (size_t)w->ls / 2, .block = w->v,
                               .c = w->o + (size_t)c * w->dv, .cr = (size_t)w->dv}, n, w->dv, from, to);
}

/* One tile: rows [i, i+n) of the run under key/value head h. */
static void attend_tile16(const attend_job *a, const run *r, const space16 *w, int h, int i, int n) {
    int G = a->H / a->K, first = (r->pos + i / G + 1) / 2 * 2, last = r->pos + (i + n - 1) / G + 1;
    scores16(a, w, 0, i, n, 0, last);
    for (int c = 0; c < n; c++)
        soften16(a, w, c, r->pos + (i + c) / G + 1, (size_t)r->row + (i + c) / G, h * G + (i + c) % G);
    outputs16(w, 0, n, 0, first);
    for (int c = 0, same; c < n; c += same) { /* the keys that only the later tokens of the tile may see */
        same = MIN(n - c, G - (i + c) % G);
        outputs16(w, c, same, first, r->pos + (i + c) / G + 1);
    }
    for (int c = 0; c < n; c++) put_out16(a, w, c, (size_t)r->row + (i + c) / G, h * G + (i + c) % G);
}

static void attend_run16(const attend_job *a, const run *r, int h, int thread) {
    int rows = r->tokens * (a->H / a->K), keys = r->pos + r->tokens, height = tile_height(rows, tall);
    space16 w;
    layout16(&w, scratch_of(a->dev, thread), a, rows, keys, r->pages != NULL);
    get_queries16(w.q, a, r, h);
    if (r->pages) list_blocks(&w, a, r, h, 0, keys);
    else make_blocks(&w, a, r, h, keys);
    for (int i = 0; i < rows; i += height) attend_tile16(a, r, &w, h, i, MIN(height, rows - i));
}

/* Runs of one token each that share the pages of their first positions. */
static void attend_shared16(const attend_job *a, const group *g, int h, int thread) {
    const run *r = a->runs + g->first;
    int G = a->H / a->K, keys = 0;
    for (int c = 0; c < g->n; c++) keys = MAX(keys, r[c].pos + 1);
    space16 w;
    layout16(&w, scratch_of(a->dev, thread), a, g->n * G, keys, 1);
    for (int c = 0; c < g->n; c++) get_queries16(w.q + (size_t)(c * G) * w.dv / 2, a, r + c, h);
    list_blocks(&w, a, r, h, 0, g->shared);
    scores16(a, &w, 0, 0, g->n * G, 0, g->shared);
    for (int c = 0; c < g->n; c++) {
        if (r[c].pos + 1 <= g->shared) continue;
        list_blocks(&w, a, r + c, h, g->shared, r[c].pos + 1);
        scores16(a, &w, c * G, c * G, G, g->shared, r[c].pos + 1);
    }
    for (int c = 0; c < g->n * G; c++) soften16(a, &w, c, r[c / G].pos + 1, (size_t)r[c / G].row, h * G + c % G);
    outputs16(&w, 0, g->n * G, 0, g->shared);
    for (int c = 0; c < g->n; c++) {
        list_blocks(&w, a, r + c, h, g->shared, r[c].pos + 1);
        outputs16(&w, c * G, G, g->shared, r[c].pos + 1);
    }
    for (int c = 0; c < g->n * G; c++) put_out16(a, &w, c, (size_t)r[c / G].row, h * G + c % G);
}

static void attend_piece16(const void *job, int piece, int thread) {
    const attend_job *a = job;
    const group *g = &a->groups[piece / a->K];
    if (g->n > 1) attend_shared16(a, g, piece % a->K, thread);
    else attend_run16(a, a->runs + g->first, piece % a->K, thread);
}

static size_t attend_floats16(const attend_job *a, int rows, int keys, int paged) {
    space16 w;
    return layout16(&w, NULL, a, rows, keys, paged);
}
