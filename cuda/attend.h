/* attend.h: causal grouped-query attention, forward. Packed sequences and the paged cache go
 * through the same code, so a row has the same bits in both.
 *
 * A run is a block of query tokens of one sequence at consecutive positions. A piece is one
 * run under one key/value head: its rows are (token, query head of the group), G = H / K to a
 * token. For a tile of rows:
 *     scores  s[r][j] = q[r] k[j], one chain over the head width
 *     weights s[r][j] = e^(s[r][j] - max), their sum in 16 lanes by j % 16
 *     output  o[r] = (sum over j ascending of s[r][j] v[j]) / sum
 * where j is the absolute position of the key and stops at the row's own position: a row
 * never meets a key or value that it may not see, finite or not. */

typedef struct {
    int row, tokens, pos;   /* first row of the call, its position in the sequence */
    const float *k, *v;     /* head 0 of position 0, or of page 0 */
    const int32_t *pages;   /* NULL: positions follow each other, ld apart */
} run;

typedef struct {
    const run *runs;
    int H, K, d, P, ldq, ldo, most_keys, most_rows;
    size_t ld;              /* distance between positions (within a page) */
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

/* Positions from j on that lie ld apart, at most n. *at is the row of j. */
INLINE int stretch(const run *r, const float *base, size_t ld, int P, int j, int n, const float **at) {
    if (!r->pages) return *at = base + (size_t)j * ld, n;
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
    for (int i = 0; i < a->d; i += 16) { /* the 16 keys lie on several pages */
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
    int ls, dv, in_place;
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

/* Scores of tile rows [i, i+n) against keys [0, keys). */
static void scores(const attend_job *a, const run *r, const attend_space *w, const float *k, int i, int n, int keys) {
    tile t = {.a = w->q + (size_t)i * a->d, .ar = (size_t)a->d, .ak = 1, .b = w->kt, .bk = 16,
              .bv = (size_t)a->d * 16, .c = w->s, .cr = (size_t)w->ls, .K = a->d, .cols = keys};
    if (!w->in_place) {
        tile_row(t, n);
        return;
    }
    for (int j = 0; j < keys; j += once_keys) {
        t.c = w->s + j, t.cols = MIN(once_keys, keys - j);
        for (int c = 0; c < t.cols; c += 16) pack_keys(w->kt + (size_t)c * a->d, r, a, k, j + c, keys);
        tile_row(t, n);
    }
}

/* o[row0..row0+n) of the tile, continued over keys [j, end). */
static void weigh(const attend_job *a, const run *r, const attend_space *w, const float *v, int row0, int n, int j, int end) {
    while (j < end) {
        const float *at = w->v + (size_t)j * w->dv;
        int keys = end - j;
        if (w->in_place) keys = stretch(r, v, a->ld, a->P, j, keys, &at);
        tile t = {.a = w->s + (size_t)row0 * w->ls + j, .ar = (size_t)w->ls, .ak = 1, .b = at,
                  .bk = w->in_place ? a->ld : (size_t)w->dv, .bv = 16, .c = w->o + (size_t)row0 * w->dv,
                  .cr = (size_t)w->dv, .K = keys, .load = j > 0, .cols = a->d};
        tile_row(t, n);
        j += keys;
    }
}

/* One tile: rows [i, i+n) of the piece under key/value head h. */
static void attend_tile(const attend_job *a, const run *r, const attend_space *w, int h, int i, int n) {
    int G = a->H / a->K, first = r->pos + i / G + 1, last = r->pos + (i + n - 1) / G + 1;
    const float *k = r->k + (size_t)h * a->d, *v = r->v + (size_t)h * a->d;
    scores(a, r, w, k, i, n, last);
    for (int c = 0; c < n; c++) {
        float *s = w->s + (size_t)c * w->ls;
        int keys = r->pos + (i + c) / G + 1;
        float top = row_max(s, keys), sum = row_exp(s, s, keys, 1.0f, top);
        w->inv[c] = 1.0f / sum;
        if (a->lse) {
            size_t row = (size_t)r->row + (i + c) / G;
            a->lse[row * a->H + h * G + (i + c) % G] = (float)((double)top + log((double)sum));
        }
    }
    weigh(a, r, w, v, 0, n, 0, first);
    for (int c = 0; c < n;) { /* the keys that only the later tokens of the tile may see */
        int keys = r->pos + (i + c) / G + 1, same = MIN(n - c, G - (i + c) % G);
        weigh(a, r, w, v, c, same, first, keys);
        c += same;
    }
    for (int c = 0; c < n; c++) {
        float *o = a->o + ((size_t)r->row + (i + c) / G) * a->ldo + (size_t)(h * G + (i + c) % G) * a->d;
        const vf inv = v_set1(w->inv[c]);
        for (int x = 0; x < a->d; x += 16) {
            int m = MIN(16, a->d - x);
            v_put(o + x, v_mul(v_load(w->o + (size_t)c * w->dv + x), inv), m);
        }
    }
}

static void attend_piece(const void *job, int piece, int thread) {
    const attend_job *a = job;
    const run *r = &a->runs[piece / a->K];
    int h = piece % a->K, G = a->H / a->K, rows = r->tokens * G, keys = r->pos + r->tokens;
    attend_space w;
    attend_layout(&w, scratch_of(a->dev, thread), a, rows, keys);
    const vf scale = v_set1(a->scale);
    for (int i = 0; i < rows; i++) {
        const float *q = a->q + ((size_t)r->row + i / G) * a->ldq + (size_t)(h * G + i % G) * a->d;
        for (int x = 0; x < a->d; x += 16) {
            int n = MIN(16, a->d - x);
            v_put(w.q + (size_t)i * a->d + x, v_mul(v_get(q + x, n), scale), n);
        }
    }
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
    for (int i = 0; i < rows; i += height) attend_tile(a, r, &w, h, i, MIN(height, rows - i));
}

static whale_status attend(whale_device *dev, attend_job *a, int runs) {
    size_t most = 0;
    attend_space w;
    double work = 0;
    for (int i = 0; i < runs; i++) {
        int rows = a->runs[i].tokens * (a->H / a->K), keys = a->runs[i].pos + a->runs[i].tokens;
        size_t floats = attend_layout(&w, NULL, a, rows, keys);
        most = MAX(most, floats);
        work += 2.0 * rows * a->K * keys * a->d;
    }
    whale_status st = whale_scratch(dev, most * sizeof(float));
    a->dev = dev;
    if (st == WHALE_OK) run_pieces(dev, attend_piece, a, runs * a->K, work);
    return st;
}

static whale_status attention_forward(whale_device *dev, const whale_attention *a) {
    int G = a->H / a->K, block = MAX(1, attend_rows / G), n = 0;
    whale_status st = whale_shared(dev, ((size_t)a->T / block + a->B) * sizeof(run));
    if (st != WHALE_OK) return st;
    run *runs = (run *)(void *)shared_of(dev);
    for (int b = 0; b < a->B; b++) {
        int start = a->start[b], length = a->start[b + 1] - start;
        size_t at = (size_t)start * a->ldkv;
        if (length == 0) continue;
        /* The latest positions first: they take longest. */
        int even = tile_height(length, block);
        for (int t = (length - 1) / even * even; t >= 0; t -= even)
            runs[n++] = (run){start + t, MIN(even, length - t), t, a->k + at, a->v + at, NULL};
    }
    attend_job j = {.runs = runs, .H = a->H, .K = a->K, .d = a->d, .P = 1, .ldq = a->ldq, .ldo = a->ldo,
                    .ld = (size_t)a->ldkv, .scale = a->scale, .q = a->q, .o = a->o, .lse = a->lse};
    return attend(dev, &j, n);
}

/* Rows that continue the row before them, in the same sequence, form a run. */
static whale_status paged_attend(whale_device *dev, const whale_paged *a) {
    int G = a->H / a->K, block = MAX(1, attend_rows / G), n = 0;
    whale_status st = whale_shared(dev, (size_t)a->T * sizeof(run));
    if (st != WHALE_OK) return st;
    run *runs = (run *)(void *)shared_of(dev);
    for (int t = 0; t < a->T; t++) {
        run *last = n ? &runs[n - 1] : NULL;
        if (last && last->tokens < block && a->seq[t] == a->seq[t - 1] && a->pos[t] == a->pos[t - 1] + 1) last->tokens++;
        else runs[n++] = (run){t, 1, a->pos[t], a->kpages, a->vpages, a->page_table + (size_t)a->seq[t] * a->max_pages};
    }
    attend_job j = {.runs = runs, .H = a->H, .K = a->K, .d = a->d, .P = a->P, .ldq = a->ldq, .ldo = a->ldo,
                    .ld = (size_t)a->K * (size_t)a->d, .scale = a->scale, .q = a->q, .o = a->o};
    return attend(dev, &j, n);
}
