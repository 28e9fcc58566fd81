/* vmath.h: exp and reductions over rows, on the lanes of lanes_*.h. */

/* e^x, about 1 ulp over the whole range, denormal results included; -inf gives 0, +inf and
 * overflow give inf, not a number stays so. x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 is split
 * so that n times its high part is exact; e^r is its Taylor sum to r^7, whose rest is < 1e-8. */
INLINE vf v_exp(vf x) {
    const vf magic = v_set1(12582912.0f); /* 1.5 * 2^23: adding it rounds to a whole number */
    x = v_min(v_set1(90.0f), v_max(v_set1(-110.0f), x));
    vf t = v_fma(x, v_set1(1.44269504f), magic);
    vf n = v_sub(t, magic);
    vf r = v_fnma(n, v_set1(0x1.62e4p-1f), x);
    r = v_fnma(n, v_set1(0x1.7f7d1cp-20f), r);
    vf p = v_set1(1.0f / 5040);
    p = v_fma(p, r, v_set1(1.0f / 720));
    p = v_fma(p, r, v_set1(1.0f / 120));
    p = v_fma(p, r, v_set1(1.0f / 24));
    p = v_fma(p, r, v_set1(1.0f / 6));
    p = v_fma(p, r, v_set1(0.5f));
    p = v_fma(p, v_mul(r, r), r);
    p = v_add(p, v_set1(1.0f));
    return v_scale2(p, t, n);
}

/* 1 / (1 + e^-x) */
INLINE vf v_sigmoid(vf x) {
    const vf one = v_set1(1.0f);
    return v_div(one, v_add(one, v_exp(v_sub(v_zero(), x))));
}

/* A sum over a row: four vectors of partial sums, element i in lane i % 16 of vector i / 16 % 4. */
typedef struct { vf v[4]; } lane_sums;
INLINE lane_sums sums_zero(void) { return (lane_sums){{v_zero(), v_zero(), v_zero(), v_zero()}}; }
INLINE float sums_total(const lane_sums *s) {
    return v_sum(v_add(v_add(s->v[0], s->v[1]), v_add(s->v[2], s->v[3])));
}

/* Runs body for i = 0, 16, ... with n = lanes that exist and u = i / 16 % 4. The unrolled
 * part gives u as a constant, so that partial sums stay in registers. */
#define FOR_LANES(i, n, u, length, body)                                              \
    do {                                                                              \
        int i = 0;                                                                    \
        const int n_ = (length);                                                      \
        for (; i + 64 <= n_;) {                                                       \
            { enum { u = 0, n = 16 }; body; i += 16; }                                \
            { enum { u = 1, n = 16 }; body; i += 16; }                                \
            { enum { u = 2, n = 16 }; body; i += 16; }                                \
            { enum { u = 3, n = 16 }; body; i += 16; }                                \
        }                                                                             \
        if (i < n_) { enum { u = 0 }; const int n = MIN(16, n_ - i); body; i += 16; } \
        if (i < n_) { enum { u = 1 }; const int n = MIN(16, n_ - i); body; i += 16; } \
        if (i < n_) { enum { u = 2 }; const int n = MIN(16, n_ - i); body; i += 16; } \
        if (i < n_) { enum { u = 3 }; const int n = MIN(16, n_ - i); body; }          \
    } while (0)

/* Masks cost a little: a whole vector goes without. n is a constant where it matters. */
INLINE vf v_get(const float *p, int n) { return n == 16 ? v_load(p) : v_load_n(p, n); }
INLINE void v_put(float *p, vf x, int n) {
    if (n == 16) v_store(p, x);
    else v_store_n(p, x, n);
}
INLINE vf v_get_or(const float *p, int n, vf fill) { return n == 16 ? v_load(p) : v_load_or(p, n, fill); }

/* Largest of z[0..n), n >= 1. */
static float row_max(const float *z, int n) {
    const vf low = v_set1(-INFINITY);
    vf m[4] = {low, low, low, low};
    FOR_LANES(i, w, u, n, m[u] = v_max(m[u], v_get_or(z + i, w, low)));
    return v_max_lane(v_max(v_max(m[0], m[1]), v_max(m[2], m[3])));
}

/* out[i] = e^(z[i]*inv - top), returns their sum; out may be z, or NULL if only the sum is wanted. */
static float row_exp(float *out, const float *z, int n, float inv, float top) {
    lane_sums s = sums_zero();
    const vf vinv = v_set1(inv), vtop = v_set1(top), low = v_set1(-INFINITY);
    FOR_LANES(i, w, u, n, {
        vf x = v_mul(v_get_or(z + i, w, low), vinv);
        vf e = v_exp(v_sub(x, vtop));
        if (out) v_put(out + i, e, w);
        s.v[u] = v_add(s.v[u], e);
    });
    return sums_total(&s);
}
