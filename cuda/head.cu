/* head.cu: what is done with a row of logits: the loss and its gradient, and drawing an id.
 * A block is a row. Both take log-sum-exp from the same function, so what the policy reports
 * has the bits of what the trainer computes. */
#include "warp.cuh"

enum { head_warps = 8 };

/* Largest x = z * inv and the sum of e^(x - top) over [0, n), for all threads. shared: 2 * 8 floats. */
struct row_total { float top, sum; };

DEVICE void merge(row_total &t, float top, float sum) {
    float most = fmaxf(t.top, top);
    float mine = t.top == -INF ? 0.0f : t.sum * expf(t.top - most), other = top == -INF ? 0.0f : sum * expf(top - most);
    t.top = most, t.sum = mine + other;
}

DEVICE row_total log_sum_exp(const float *z, int n, float inv, float *shared) {
    row_total t = {-INF, 0};
    for (int i = threadIdx.x; i < n; i += 256) {
        float x = z[i] * inv;
        if (x > t.top) t.sum = t.sum * expf(t.top - x) + 1, t.top = x;
        else if (x != -INF) t.sum += expf(x - t.top);
    }
    for (int d = 16; d > 0; d /= 2) {
        float top = __shfl_xor_sync(0xffffffffu, t.top, d), sum = __shfl_xor_sync(0xffffffffu, t.sum, d);
        /* both partners add in the same order */
        row_total low = lane_id() & d ? row_total{top, sum} : t;
        row_total high = lane_id() & d ? t : row_total{top, sum};
        merge(low, high.top, high.sum);
        t = low;
    }
    if (lane_id() == 0) shared[warp_id()] = t.top, shared[head_warps + warp_id()] = t.sum;
    __syncthreads();
    t = {shared[0], shared[head_warps]};
    for (int w = 1; w < head_warps; w++) merge(t, shared[w], shared[head_warps + w]);
    __syncthreads(); /* shared may be used again */
    return t;
}

DEVICE float negative_log(row_total t, float at) { return (float)(log((double)t.sum) - ((double)at - (double)t.top)); }

/* nll = log-sum-exp(z / tau) - z[target] / tau, and dz = weight / tau (softmax - onehot), exact 0
 * for weight 0. Reads the row twice, the second time from cache, and writes it once: 8 V bytes.
 * Bound: memory. */
KERNEL(256, cross_entropy, whale_xent) {
    SHARED(float, shared);
    const float *z = a.z + (size_t)blockIdx.x * a.ldz;
    float inv = 1.0f / a.tau, at = z[a.target[blockIdx.x]] * inv;
    row_total t = log_sum_exp(z, a.V, inv, shared);
    if (threadIdx.x == 0) a.nll[blockIdx.x] = negative_log(t, at);
    if (!a.dz) return;
    float *dz = a.dz + (size_t)blockIdx.x * a.ldz;
    float weight = a.weight[blockIdx.x] * inv, scale = weight / t.sum;
    int target = a.target[blockIdx.x];
    for (int i = threadIdx.x; i < a.V; i += 256) {
        float g = weight == 0 ? 0.0f : expf(z[i] * inv - t.top) * scale;
        dz[i] = i == target && weight != 0 ? g - weight : g;
    }
}

/* ---- sampling ---- */

typedef unsigned long long mass_t; /* a weight e^(x - top) <= 1 in units of 2^-40: sums are exact in any order */

/* Whole numbers in the order of floats. -0 counts as 0. */
DEVICE uint32_t order_key(float x) {
    uint32_t u = __float_as_uint(x + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

struct draw_space {
    mass_t mass[256], of_warp[head_warps];
    uint32_t count[256];
    float total[2 * head_warps];
    int id;
};
static_assert(sizeof(draw_space) <= draw_bytes, "see kernels.h");

struct drawing {
    const float *z;
    int n;             /* ids that may be drawn */
    float inv, top;    /* weight of i is e^(z[i] inv - top) */
    uint32_t least;    /* an id is a candidate if its key is not below */
};

DEVICE float weight_of(const drawing &d, int i) { return expf(d.z[i] * d.inv - d.top); }
DEVICE mass_t mass_of(const drawing &d, int i) {
    return order_key(d.z[i]) >= d.least ? (mass_t)(weight_of(d, i) * 1099511627776.0f) : 0;
}

/* The key of the k-th largest, 1 <= k <= n: its bytes are found one by one from the highest, by
 * counting those that begin with the bytes known so far. */
DEVICE uint32_t kth_key(const drawing &d, uint32_t k, draw_space *s) {
    uint32_t prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        s->count[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < d.n; i += 256) {
            uint32_t key = order_key(d.z[i]);
            if (shift == 24 || key >> (shift + 8) == prefix) atomicAdd(&s->count[key >> shift & 255], 1u);
        }
        __syncthreads();
        int bin = 255;
        for (; bin > 0 && s->count[bin] < k; bin--) k -= s->count[bin];
        prefix = prefix << 8 | bin;
        __syncthreads(); /* the counts were read */
    }
    return prefix;
}

/* The key of the lightest candidate that is kept if those strictly heavier must weigh less than
 * limit > 0 together: found like kth_key, by weight. */
DEVICE uint32_t lightest_key(const drawing &d, mass_t limit, draw_space *s) {
    uint32_t prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        s->mass[threadIdx.x] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < d.n; i += 256) {
            uint32_t key = order_key(d.z[i]);
            mass_t m = shift == 24 || key >> (shift + 8) == prefix ? mass_of(d, i) : 0;
            if (m) atomicAdd(&s->mass[key >> shift & 255], m);
        }
        __syncthreads();
        int bin = 255;
        for (; bin > 0 && s->mass[bin] < limit; bin--) limit -= s->mass[bin];
        prefix = prefix << 8 | bin;
        __syncthreads(); /* the sums were read */
    }
    return prefix;
}

/* Ids of a warp: a stretch, so that warps are in ascending order. */
DEVICE int stretch_of(int n) { return (n + head_warps * 32 - 1) / (head_warps * 32) * 32; }

/* Weight of all candidates; of_warp holds that of each warp's stretch. */
DEVICE mass_t total_mass(const drawing &d, draw_space *s) {
    int size = stretch_of(d.n), first = warp_id() * size, last = min(d.n, first + size);
    mass_t sum = 0;
    for (int i = first + lane_id(); i < last; i += 32) sum += mass_of(d, i);
    for (int x = 16; x > 0; x /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, x);
    if (lane_id() == 0) s->of_warp[warp_id()] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < head_warps; w++) sum += s->of_warp[w];
    return sum;
}

/* The candidate at which the running weight passes target, which is below the total of
 * total_mass. All threads get it. */
DEVICE int candidate_at(const drawing &d, mass_t target, draw_space *s) {
    int size = stretch_of(d.n), warp = 0;
    mass_t before = 0;
    while (warp < head_warps - 1 && before + s->of_warp[warp] <= target) before += s->of_warp[warp++];
    if (warp == warp_id()) {
        for (int at = warp * size; at < d.n; at += 32) {
            int i = at + lane_id();
            mass_t upto = i < d.n ? mass_of(d, i) : 0;
            for (int x = 1; x < 32; x *= 2) {
                mass_t left = __shfl_up_sync(0xffffffffu, upto, x);
                if (lane_id() >= x) upto += left;
            }
            uint32_t passed = __ballot_sync(0xffffffffu, before + upto > target);
            if (passed) {
                if (lane_id() == 0) s->id = at + __ffs(passed) - 1;
                break;
            }
            before += __shfl_sync(0xffffffffu, upto, 31);
        }
    }
    __syncthreads();
    return s->id;
}

/* The first of the largest of z[0..n). */
DEVICE int first_largest(const drawing &d, draw_space *s) {
    mass_t best = 0; /* key, then the complement of the id */
    for (int i = threadIdx.x; i < d.n; i += 256) {
        mass_t x = (mass_t)order_key(d.z[i]) << 32 | (0xffffffffu - (uint32_t)i);
        if (x > best) best = x;
    }
    for (int x = 16; x > 0; x /= 2) {
        mass_t other = __shfl_xor_sync(0xffffffffu, best, x);
        if (other > best) best = other;
    }
    if (lane_id() == 0) s->of_warp[warp_id()] = best;
    __syncthreads();
    for (int w = 0; w < head_warps; w++)
        if (s->of_warp[w] > best) best = s->of_warp[w];
    __syncthreads();
    return (int)(0xffffffffu - (uint32_t)best);
}

/* One id of a row, spec/models.md 7: top_k keeps ties, then top_p, then the inverse of the
 * cumulative weight at u in ascending id. Nothing is sorted: thresholds are found by counting,
 * four passes each, and weights are computed again in each pass instead of stored. 4 V bytes a
 * pass from the second cache: 3 passes, 7 with top_k, 11 with both. Bound: that cache. */
KERNEL(256, sample_rows, sample_args) {
    SHARED(draw_space, s);
    sample_row *row = a.row + blockIdx.x;
    const float *z = a.z + (size_t)blockIdx.x * a.ldz;
    bool greedy = !(row->tau > 1e-5f);
    drawing d = {z, a.valid, greedy ? 1.0f : 1.0f / row->tau, 0, 0};
    row_total full = log_sum_exp(z, a.V, d.inv, s->total);
    d.top = a.valid < a.V ? log_sum_exp(z, a.valid, d.inv, s->total).top : full.top; /* padding may outweigh all */
    int id;
    float behaviour = 0;
    if (greedy) {
        id = first_largest(d, s);
    } else {
        if (row->top_k > 0 && row->top_k < a.valid) d.least = kth_key(d, row->top_k, s);
        mass_t total = total_mass(d, s);
        if (row->top_p < 1 && total > 0) {
            double limit = (double)row->top_p * (double)total;
            d.least = max(d.least, lightest_key(d, limit < 1 ? 1 : (mass_t)ceil(limit), s));
            total = total_mass(d, s);
        }
        if (total > 0) {
            mass_t target = (mass_t)(row->u * (double)total);
            id = candidate_at(d, target < total ? target : total - 1, s);
            behaviour = (float)(log((double)weight_of(d, id)) - log((double)total / 1099511627776.0));
        } else {
            id = first_largest(d, s); /* no number among the logits */
        }
    }
    if (threadIdx.x != 0) return;
    row->id = id;
    row->logp = -negative_log(full, z[id] * d.inv);
    row->behaviour = behaviour;
}
