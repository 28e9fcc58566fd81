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
    return z[lo];
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

/* Draws among the ids with weight e > 0, ascending. */
static int draw_id(const float *e, int n, double u, double *total) {
    double sum = 0, upto = 0;
    for (int i = 0; i < n; i++) sum += e[i];
    *total = sum;
    int last = 0;
    for (int i = 0; i < n; i++) {
        if (e[i] <= 0) continue;
        upto += e[i];
        last = i;
        if (upto > u * sum) break;
    }
    return last;
}

/* e and work hold V floats each. */
static void sample_row(const whale_sample *a, int t, float *e, float *work) {
    const float *z = a->z + (size_t)t * a->ldz;
    int greedy = !(a->tau[t] > 1e-5f), n = a->valid, id;
    float inv = greedy ? 1.0f : 1.0f / a->tau[t];
    float top = row_max(z, a->V) * inv;
    float full = row_exp(NULL, z, a->V, inv, top);
    double behaviour = 0;
    if (greedy) {
        id = first_largest(z, n);
    } else {
        float best = row_max(z, n) * inv;
        double total;
        row_exp(e, z, n, inv, best);
        if (a->top_k[t] > 0 && a->top_k[t] < n) {
            memcpy(work, z, (size_t)n * 4);
            float least = kth_largest(work, n, a->top_k[t]);
            for (int i = 0; i < n; i++)
                if (z[i] < least) e[i] = 0;
        }
        if (a->top_p[t] < 1) {
            double sum = 0;
            for (int i = 0; i < n; i++) sum += e[i];
            memcpy(work, e, (size_t)n * 4);
            float least = lightest_kept(work, n, (double)a->top_p[t] * sum);
            for (int i = 0; i < n; i++)
                if (e[i] < least) e[i] = 0;
        }
        id = draw_id(e, n, a->u[t], &total);
        behaviour = log((double)e[id]) - log(total);
    }
    a->host_id[t] = id;
    if (a->host_logp) a->host_logp[t] = -(float)(log((double)full) - ((double)(z[id] * inv) - (double)top));
    if (a->host_behaviour) a->host_behaviour[t] = (float)behaviour;
}

typedef struct { const whale_sample *a; whale_device *dev; } sample_job;

static void sample_piece(const void *job, int piece, int thread) {
    const sample_job *j = job;
    float *e = scratch_of(j->dev, thread);
    int block = MAX(1, rows_of(j->a->V) / 4), t = piece * block, end = MIN(j->a->T, t + block);
    for (; t < end; t++) sample_row(j->a, t, e, e + j->a->V);
}

static whale_status sample(whale_device *dev, const whale_sample *a) {
    whale_status st = whale_scratch(dev, 2 * (size_t)a->V * sizeof(float));
    if (st != WHALE_OK) return st;
    sample_job j = {a, dev};
    run_pieces(dev, sample_piece, &j, blocks_of((size_t)a->T, MAX(1, rows_of(a->V) / 4)), 8.0 * a->T * a->V);
    return WHALE_OK;
}
