/* draw.h: sampling of ids from rows of logits. */

/* The threshold that keeps the k largest of z[0..n) with ties: the k-th largest value.
 * z is reordered. 1 <= k <= n. */
static float kth_largest(float *z, int n, int k) {
    int lo = 0, hi = n; /* the k-th largest of all is the k-th largest of z[lo..hi) */
    while (hi - lo > 1) {
        float a = z[lo], b = z[lo + (hi - lo) / 2], c = z[hi - 1];
        float pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        int more = lo, same, i;
        for (i = lo; i < hi; i++)
            if (z[i] > pivot) { float x = z[i]; z[i] = z[more]; z[more++] = x; }
        for (same = more, i = more; i < hi; i++)
            if (z[i] == pivot) { float x = z[i]; z[i] = z[same]; z[same++] = x; }
        if (k <= more - lo) hi = more;
        else if (k <= same - lo) return pivot;
        else if (same == lo) break; /* only what is not a number is left */
        else k -= same - lo, lo = same;
    }
    return lo < n ? z[lo] : -INFINITY;
}

/* kth_largest without reordering z; work holds n floats. For a small k of many, the k-th of 64
 * maxima of a share each is a lower bound, and few values reach it. */
static float top_k_threshold(const float *z, int n, int k, float *work) {
    if (k > 64 || n < 256) {
        memcpy(work, z, (size_t)n * 4);
        return kth_largest(work, n, k);
    }
    const vf low = v_set1(-INFINITY);
    vf m[4] = {low, low, low, low};
    FOR_LANES(i, w, u, n, m[u] = v_max(m[u], v_get_or(z + i, w, low)));
    for (int u = 0; u < 4; u++) v_store(work + u * 16, m[u]);
    float bound = kth_largest(work, 64, k);
    int found = 0;
    for (int i = 0; i < n; i++)
        if (z[i] >= bound) work[found++] = z[i];
    return kth_largest(work, found, k);
}

/* The smallest weight that top_p keeps: one is kept if those strictly heavier weigh less than
 * `mass` together. e is reordered. The heaviest is always kept. */
static float lightest_kept(float *e, int n, double mass) {
    int lo = 0, hi = n;
    double above = 0; /* weight of what was found heavier than everything in e[lo..hi) */
    float kept = row_max(e, n);
    while (lo < hi) {
        float a = e[lo], b = e[lo + (hi - lo) / 2], c = e[hi - 1];
        float pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        int more = lo, same, i;
        double heavier = 0, equal = 0;
        for (i = lo; i < hi; i++)
            if (e[i] > pivot) { float x = e[i]; e[i] = e[more]; e[more++] = x; heavier += x; }
        for (same = more, i = more; i < hi; i++)
            if (e[i] == pivot) { float x = e[i]; e[i] = e[same]; e[same++] = x; equal += x; }
        if (same == lo) break;
        if (above + heavier >= mass) { hi = more; continue; }
        kept = pivot;
        if (above + heavier + equal >= mass) break;
        above += heavier + equal, lo = same;
    }
    return kept;
}

static int first_largest(const float *z, int n) {
    float top = row_max(z, n);
    for (int i = 0; i < n; i++)
        if (z[i] == top) return i;
    return 0;
}

/* The ids that may be drawn, ascending, with their weights. */
typedef struct {
    float *e;     /* [V] */
    int32_t *id;  /* [V] */
    float *work;  /* [V] */
    int n;
} candidates;

static void keep_top_k(candidates *c, const float *z, int k) {
    float least = top_k_threshold(z, c->n, k, c->work);
    int kept = 0;
    for (int i = 0; i < c->n; i++)
        if (z[i] >= least) c->e[kept] = c->e[i], c->id[kept++] = i;
    c->n = kept;
}

static void keep_top_p(candidates *c, double p) {
    double sum = 0;
    for (int i = 0; i < c->n; i++) sum += c->e[i];
    /* Together the weights up to `light` are less than what may be cut off. */
    double light = (1 - p) * sum / c->n * (1 - 1e-6);
    int heavy = 0, kept = 0;
    for (int i = 0; i < c->n; i++)
        if (c->e[i] > light) c->work[heavy++] = c->e[i];
    if (heavy == 0) return;
    float least = lightest_kept(c->work, heavy, p * sum);
    for (int i = 0; i < c->n; i++)
        if (c->e[i] >= least) c->e[kept] = c->e[i], c->id[kept++] = c->id[i];
    c->n = kept;
}

/* The candidate at which the running weight passes u of the total; never one of weight 0. */
static int draw(const candidates *c, double u, double *total) {
    double sum = 0, upto = 0;
    for (int i = 0; i < c->n; i++) sum += c->e[i];
    *total = sum;
    int last = 0;
    for (int i = 0; i < c->n; i++) {
        if (c->e[i] <= 0) continue;
        upto += c->e[i];
        last = i;
        if (upto > u * sum) break;
    }
    return last;
}

static void sample_row(const whale_sample *a, int t, candidates c) {
    const float *z = a->z + (size_t)t * a->ldz;
    int greedy = !(a->tau[t] > 1e-5f), id;
    float inv = greedy ? 1.0f : 1.0f / a->tau[t];
    float top = row_max(z, a->V) * inv;
    float full = row_exp(greedy ? NULL : c.e, z, a->V, inv, top);
    double behaviour = 0;
    c.n = a->valid;
    if (!greedy) {
        if (c.n < a->V) row_exp(c.e, z, c.n, inv, row_max(z, c.n) * inv); /* padding may outweigh all */
        int cut = a->top_k[t] > 0 && a->top_k[t] < c.n;
        if (cut) keep_top_k(&c, z, a->top_k[t]);
        else if (a->top_p[t] < 1)
            for (int i = 0; i < c.n; i++) c.id[i] = i;
        if (a->top_p[t] < 1 && c.n > 0) keep_top_p(&c, (double)a->top_p[t]);
        double total;
        int at = draw(&c, a->u[t], &total);
        id = !cut && !(a->top_p[t] < 1) ? at : c.n > 0 ? c.id[at] : first_largest(z, a->valid);
        behaviour = c.n > 0 ? log((double)c.e[at]) - log(total) : 0;
    } else {
        id = first_largest(z, c.n);
    }
    a->host_id[t] = id;
    if (a->host_logp) a->host_logp[t] = -(float)(log((double)full) - ((double)(z[id] * inv) - (double)top));
    if (a->host_behaviour) a->host_behaviour[t] = (float)behaviour;
}

typedef struct { const whale_sample *a; whale_device *dev; } sample_job;

static void sample_piece(const void *job, int piece, int thread) {
    const sample_job *j = job;
    float *e = scratch_of(j->dev, thread);
    candidates c = {e, (int32_t *)(void *)(e + 2 * (size_t)j->a->V), e + j->a->V, 0};
    int block = MAX(1, rows_of(j->a->V) / 4), t = piece * block, end = MIN(j->a->T, t + block);
    for (; t < end; t++) sample_row(j->a, t, c);
}

static whale_status sample(whale_device *dev, const whale_sample *a) {
    whale_status st = whale_scratch(dev, (3 * (size_t)a->V + 64) * sizeof(float));
    if (st != WHALE_OK) return st;
    sample_job j = {a, dev};
    run_pieces(dev, sample_piece, &j, blocks_of((size_t)a->T, MAX(1, rows_of(a->V) / 4)), 8.0 * a->T * a->V);
    return WHALE_OK;
}
