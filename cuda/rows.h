/* rows.h: operators that work row by row. A piece is a block of rows, or of columns where a
 * gradient sums over rows. */

enum { chunk = 16384 }; /* elements of a piece of a flat array */

INLINE int blocks_of(size_t n, int size) { return (int)((n + (size_t)size - 1) / (size_t)size); }

/* Rows of a piece when a row costs `width`: about 16k elements, fixed by the shape alone. */
INLINE int rows_of(int width) { return MAX(1, chunk / MAX(1, width)); }

typedef struct { float *y; const float *x; size_t n; float value; } flat_job;

static void fill_piece(const void *job, int piece, int thread) {
    (void)thread;
    const flat_job *j = job;
    size_t i = (size_t)piece * chunk, end = MIN(j->n, i + chunk);
    const vf v = v_set1(j->value);
    for (; i + 16 <= end; i += 16) v_store(j->y + i, v);
    v_store_n(j->y + i, v, (int)(end - i));
}

static void fill(whale_device *dev, float *x, size_t n, float value) {
    flat_job j = {x, NULL, n, value};
    run_pieces(dev, fill_piece, &j, blocks_of(n, chunk), (double)n / 4);
}

static void add_piece(const void *job, int piece, int thread) {
    (void)thread;
    const flat_job *j = job;
    size_t i = (size_t)piece * chunk, end = MIN(j->n, i + chunk);
    for (; i + 16 <= end; i += 16) v_store(j->y + i, v_add(v_load(j->y + i), v_load(j->x + i)));
    int n = (int)(end - i);
    v_store_n(j->y + i, v_add(v_load_n(j->y + i, n), v_load_n(j->x + i, n)), n);
}

static void add(whale_device *dev, float *y, const float *x, size_t n) {
    flat_job j = {y, x, n, 0};
    run_pieces(dev, add_piece, &j, blocks_of(n, chunk), (double)n / 2);
}

/* ---- embedding ---- */

static void embed_piece(const void *job, int piece, int thread) {
    (void)thread;
    const whale_embed *a = job;
    int block = rows_of(a->D), t = piece * block, end = MIN(a->T, t + block);
    for (; t < end; t++) memcpy(a->y + (size_t)t * a->D, a->table + (size_t)a->ids[t] * a->D, (size_t)a->D * 4);
}

static void embed_forward(whale_device *dev, const whale_embed *a) {
    run_pieces(dev, embed_piece, a, blocks_of((size_t)a->T, rows_of(a->D)), (double)a->T * a->D / 4);
}

enum { embed_cols = 64 };

/* A piece is a block of columns: rows that name the same id are added in order. */
static void embed_grad_piece(const void *job, int piece, int thread) {
    (void)thread;
    const whale_embed_grad *a = job;
    int c0 = piece * embed_cols, cols = MIN(embed_cols, a->D - c0);
    for (int t = 0; t < a->T; t++) {
        float *to = a->dtable + (size_t)a->ids[t] * a->D + c0;
        const float *from = a->dy + (size_t)t * a->D + c0;
        for (int i = 0; i < cols; i += 16) {
            int n = MIN(16, cols - i);
            v_put(to + i, v_add(v_get(to + i, n), v_get(from + i, n)), n);
        }
    }
}

static void embed_backward(whale_device *dev, const whale_embed_grad *a) {
    run_pieces(dev, embed_grad_piece, a, blocks_of((size_t)a->D, embed_cols), (double)a->T * a->D);
}

/* ---- RMSNorm ---- */

INLINE size_t norm_row(int r, int n, int heads, int ld) {
    return (size_t)(r / heads) * (size_t)ld + (size_t)(r % heads) * (size_t)n;
}

static void rmsnorm_piece(const void *job, int piece, int thread) {
    (void)thread;
    const whale_rmsnorm *a = job;
    int block = rows_of(a->n), r = piece * block, end = MIN(a->rows, r + block);
    for (; r < end; r++) {
        const float *x = a->x + norm_row(r, a->n, a->heads, a->ldx);
        float *y = a->y + norm_row(r, a->n, a->heads, a->ldy);
        lane_sums s = sums_zero();
        FOR_LANES(i, n, u, a->n, { vf v = v_get(x + i, n); s.v[u] = v_fma(v, v, s.v[u]); });
        float rstd = 1.0f / sqrtf(sums_total(&s) / (float)a->n + a->eps);
        const vf scale = v_set1(rstd);
        FOR_LANES(i, n, u, a->n, v_put(y + i, v_mul(v_get(a->w + i, n), v_mul(v_get(x + i, n), scale)), n));
        if (a->rstd) a->rstd[r] = rstd;
    }
}

static void rmsnorm_forward(whale_device *dev, const whale_rmsnorm *a) {
    run_pieces(dev, rmsnorm_piece, a, blocks_of((size_t)a->rows, rows_of(a->n)), (double)a->rows * a->n);
}

typedef struct { const whale_rmsnorm_grad *a; float *dw; } rmsnorm_grad_job;

/* dx of a block of rows, and the block's share of dw. dy of a row is read before dx is written
 * over it, element by element, so dx may be dy. */
static void rmsnorm_grad_piece(const void *job, int piece, int thread) {
    (void)thread;
    const rmsnorm_grad_job *j = job;
    const whale_rmsnorm_grad *a = j->a;
    int block = rows_of(a->n), r = piece * block, end = MIN(a->rows, r + block);
    float *dw = j->dw + (size_t)piece * a->n;
    memset(dw, 0, (size_t)a->n * 4);
    for (; r < end; r++) {
        const float *x = a->x + norm_row(r, a->n, a->heads, a->ldx);
        const float *dy = a->dy + norm_row(r, a->n, a->heads, a->lddy);
        float *dx = a->dx + norm_row(r, a->n, a->heads, a->lddx);
        const vf scale = v_set1(a->rstd[r]);
        lane_sums s = sums_zero();
        FOR_LANES(i, n, u, a->n, {
            vf g = v_get(dy + i, n);
            vf hat = v_mul(v_get(x + i, n), scale);
            v_put(dw + i, v_fma(g, hat, v_get(dw + i, n)), n);
            s.v[u] = v_fma(v_mul(g, v_get(a->w + i, n)), hat, s.v[u]);
        });
        const vf mean = v_set1(sums_total(&s) / (float)a->n);
        FOR_LANES(i, n, u, a->n, {
            vf m = v_mul(v_get(dy + i, n), v_get(a->w + i, n));
            vf hat = v_mul(v_get(x + i, n), scale);
            vf g = v_mul(scale, v_fnma(hat, mean, m));
            if (a->accumulate) g = v_add(v_get(dx + i, n), g);
            v_put(dx + i, g, n);
        });
    }
}

static whale_status rmsnorm_backward(whale_device *dev, const whale_rmsnorm_grad *a) {
    int blocks = blocks_of((size_t)a->rows, rows_of(a->n));
    whale_status st = whale_shared(dev, (size_t)blocks * (size_t)a->n * sizeof(float));
    if (st != WHALE_OK) return st;
    rmsnorm_grad_job j = {a, shared_of(dev)};
    run_pieces(dev, rmsnorm_grad_piece, &j, blocks, 2.0 * a->rows * a->n);
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < a->n; i++) a->dw[i] += j.dw[(size_t)b * a->n + i];
    return WHALE_OK;
}

/* ---- RoPE ---- */

static void rope_piece(const void *job, int piece, int thread) {
    (void)thread;
    const whale_rope *a = job;
    int block = rows_of(a->heads * a->d), t = piece * block, end = MIN(a->T, t + block), half = a->R / 2;
    const vf sign = v_set1(a->inverse ? -1.0f : 1.0f);
    for (; t < end; t++) {
        const float *cos = a->cos + (size_t)a->pos[t] * half, *sin = a->sin + (size_t)a->pos[t] * half;
        for (int h = 0; h < a->heads; h++) {
            float *x = a->x + (size_t)t * a->ld + (size_t)h * a->d;
            for (int i = 0; i < half; i += 16) {
                int n = MIN(16, half - i);
                vf c = v_get(cos + i, n), s = v_mul(v_get(sin + i, n), sign);
                vf lo = v_get(x + i, n), hi = v_get(x + i + half, n);
                v_put(x + i, v_fnma(hi, s, v_mul(lo, c)), n);
                v_put(x + i + half, v_fma(lo, s, v_mul(hi, c)), n);
            }
        }
    }
}

static void rope(whale_device *dev, const whale_rope *a) {
    run_pieces(dev, rope_piece, a, blocks_of((size_t)a->T, rows_of(a->heads * a->d)), (double)a->T * a->heads * a->R);
}

/* ---- SwiGLU ---- */

static void swiglu_piece(const void *job, int piece, int thread) {
    (void)thread;
    const whale_swiglu *a = job;
    int block = rows_of(a->I), t = piece * block, end = MIN(a->T, t + block);
    for (; t < end; t++) {
        const float *g = a->gu + (size_t)t * 2 * a->I, *up = g + a->I;
        float *y = a->y + (size_t)t * a->I;
        FOR_LANES(i, n, u, a->I, {
            vf x = v_get(g + i, n);
            v_put(y + i, v_mul(v_mul(x, v_sigmoid(x)), v_get(up + i, n)), n);
        });
    }
}

static void swiglu_forward(whale_device *dev, const whale_swiglu *a) {
    run_pieces(dev, swiglu_piece, a, blocks_of((size_t)a->T, rows_of(a->I)), 2.0 * a->T * a->I);
}

static void swiglu_grad_piece(const void *job, int piece, int thread) {
    (void)thread;
    const whale_swiglu_grad *a = job;
    int block = rows_of(a->I), t = piece * block, end = MIN(a->T, t + block);
    const vf one = v_set1(1.0f);
    for (; t < end; t++) {
        const float *gate = a->gu + (size_t)t * 2 * a->I, *up = gate + a->I, *dy = a->dy + (size_t)t * a->I;
        float *dg = a->dgu + (size_t)t * 2 * a->I, *du = dg + a->I;
        FOR_LANES(i, n, u, a->I, {
            vf x = v_get(gate + i, n);
            vf w = v_get(up + i, n);
            vf e = v_get(dy + i, n);
            vf s = v_sigmoid(x);
            vf slope = v_mul(s, v_fma(x, v_sub(one, s), one));
            v_put(du + i, v_mul(e, v_mul(x, s)), n);
            v_put(dg + i, v_mul(v_mul(e, w), slope), n);
        });
    }
}

static void swiglu_backward(whale_device *dev, const whale_swiglu_grad *a) {
    run_pieces(dev, swiglu_grad_piece, a, blocks_of((size_t)a->T, rows_of(a->I)), 3.0 * a->T * a->I);
}
