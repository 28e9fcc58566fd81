/* learn.h: cross entropy, sum of squares, AdamW. */

static void xent_row(const whale_xent *a, int t) {
    const float *z = a->z + (size_t)t * a->ldz;
    float *dz = a->dz ? a->dz + (size_t)t * a->ldz : NULL;
    float inv = 1.0f / a->tau, at = z[a->target[t]] * inv, top = row_max(z, a->V) * inv;
    float sum = row_exp(dz, z, a->V, inv, top);
    a->nll[t] = (float)(log((double)sum) - ((double)at - (double)top));
    if (!dz) return;
    float weight = a->weight[t] * inv;
    if (weight == 0) {
        memset(dz, 0, (size_t)a->V * 4);
        return;
    }
    const vf scale = v_set1(weight / sum);
    FOR_LANES(i, n, u, a->V, v_put(dz + i, v_mul(v_get(dz + i, n), scale), n));
    dz[a->target[t]] -= weight;
}

static void xent_piece(const void *job, int piece, int thread) {
    (void)thread;
    const whale_xent *a = job;
    int block = rows_of(a->V), t = piece * block, end = MIN(a->T, t + block);
    for (; t < end; t++) xent_row(a, t);
}

static void xent(whale_device *dev, const whale_xent *a) {
    run_pieces(dev, xent_piece, a, blocks_of((size_t)a->T, rows_of(a->V)), 3.0 * a->T * a->V);
}

/* ---- sum of squares ---- */

typedef struct { const float *x; size_t n; double *part; } sumsq_job;

/* The square of a float is exact in double, so only the order of the additions matters: 16
 * partial sums by i % 16, folded in halves. */
static void sumsq_piece(const void *job, int piece, int thread) {
    (void)thread;
    const sumsq_job *j = job;
    size_t i = (size_t)piece * chunk, end = MIN(j->n, i + chunk);
    double s[16] = {0};
    for (; i + 16 <= end; i += 16)
        for (int l = 0; l < 16; l++) s[l] += (double)j->x[i + l] * (double)j->x[i + l];
    for (int l = 0; i < end; i++, l++) s[l] += (double)j->x[i] * (double)j->x[i];
    for (int w = 8; w > 0; w /= 2)
        for (int l = 0; l < w; l++) s[l] += s[l + w];
    j->part[piece] = s[0];
}

static whale_status sumsq(whale_device *dev, const float *x, size_t n, double *out) {
    int blocks = blocks_of(n, chunk);
    whale_status st = whale_shared(dev, (size_t)blocks * sizeof(double));
    if (st != WHALE_OK) return st;
    sumsq_job j = {x, n, (double *)(void *)shared_of(dev)};
    run_pieces(dev, sumsq_piece, &j, blocks, (double)n);
    double sum = 0;
    for (int b = 0; b < blocks; b++) sum += j.part[b];
    *out = sum;
    return WHALE_OK;
}

/* ---- AdamW ---- */

/* Decay and step are added before they are taken from p: lr * decay is far below the spacing
 * of floats around 1, so 1 - lr * decay would be 1. */
static void adamw_piece(const void *job, int piece, int thread) {
    (void)thread;
    const whale_adamw *a = job;
    size_t i = (size_t)piece * chunk, end = MIN(a->n, i + chunk);
    const vf b1 = v_set1(a->b1), b2 = v_set1(a->b2), eps = v_set1(a->eps), clip = v_set1(a->clip);
    const vf r1 = v_set1((float)(1.0 - (double)a->b1)), r2 = v_set1((float)(1.0 - (double)a->b2));
    const vf step = v_set1((float)((double)a->lr / a->c1)), root = v_set1((float)(1.0 / sqrt(a->c2)));
    const vf decay = v_set1((float)((double)a->lr * (double)a->decay));
    for (; i < end; i += 16) {
        int n = (int)MIN((size_t)16, end - i);
        vf g = v_mul(v_get(a->g + i, n), clip), p = v_get(a->p + i, n);
        vf m = v_fma(r1, g, v_mul(b1, v_get(a->m + i, n)));
        vf v = v_fma(r2, v_mul(g, g), v_mul(b2, v_get(a->v + i, n)));
        vf d = v_div(v_mul(step, m), v_fma(v_sqrt(v), root, eps));
        v_put(a->m + i, m, n);
        v_put(a->v + i, v, n);
        v_put(a->p + i, v_sub(p, v_fma(decay, p, d)), n);
    }
}

static void adamw(whale_device *dev, const whale_adamw *a) {
    run_pieces(dev, adamw_piece, a, blocks_of(a->n, chunk), 4.0 * (double)a->n);
}
