/* lanes_portable.h: vf, a vector of 16 floats, in plain C. The definition of what the calls
 * mean; lanes_avx512.h and lanes_avx2.h follow it.
 *
 * v_fma is a multiplication and an addition, each rounded: a fused one without hardware costs
 * a library call. So this path differs from the others in the last bits; everything else
 * (order of operations, lanes) is the same. */

#define ISA_NAME "portable"
#define TILE_TALL 2

typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));

INLINE vf v_zero(void) { return (vf){0}; }
INLINE vf v_set1(float x) { return (vf){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
INLINE vf v_load(const float *p) { vf x; memcpy(&x, p, sizeof x); return x; }
INLINE void v_store(float *p, vf x) { memcpy(p, &x, sizeof x); }
/* The first n of 16 lanes (0 <= n <= 16), the others 0 or fill. */
INLINE vf v_load_or(const float *p, int n, vf fill) { memcpy(&fill, p, (size_t)n * 4); return fill; }
INLINE vf v_load_n(const float *p, int n) { return v_load_or(p, n, v_zero()); }
INLINE void v_store_n(float *p, vf x, int n) { memcpy(p, &x, (size_t)n * 4); }
INLINE vf v_add(vf a, vf b) { return a + b; }
INLINE vf v_sub(vf a, vf b) { return a - b; }
INLINE vf v_mul(vf a, vf b) { return a * b; }
INLINE vf v_div(vf a, vf b) { return a / b; }
INLINE vf v_choose(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }
/* If one of the two is not a number, the second is the answer. */
INLINE vf v_max(vf a, vf b) { return v_choose(a > b, a, b); }
INLINE vf v_min(vf a, vf b) { return v_choose(a < b, a, b); }
INLINE vf v_sqrt(vf a) { for (int i = 0; i < 16; i++) a[i] = sqrtf(a[i]); return a; }
INLINE vf v_fma(vf a, vf b, vf c) { return a * b + c; }
INLINE vf v_fnma(vf a, vf b, vf c) { return c - a * b; }
INLINE vf v_pin(vf a) { return a; }

/* a * 2^n for whole n in [-160, 130]; magic_n = n + 1.5 * 2^23, whose low bits are n. */
INLINE vf v_scale2(vf a, vf magic_n, vf n) {
    (void)n;
    vi k = (vi)magic_n - 0x4b400000, k1 = k >> 1, k2 = k - k1;
    a *= (vf)((k1 + 127) << 23);
    return a * (vf)((k2 + 127) << 23);
}

/* Lane i + 8 onto i, i + 4 onto i, i + 2 onto i, i + 1 onto i. */
INLINE float v_sum(vf x) {
    for (int w = 8; w > 0; w /= 2)
        for (int i = 0; i < w; i++) x[i] += x[i + w];
    return x[0];
}
INLINE float v_max_lane(vf x) {
    float m = x[0];
    for (int i = 1; i < 16; i++) m = m > x[i] ? m : x[i];
    return m;
}
INLINE void v_transpose(vf r[16]) {
    float t[16][16];
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) t[j][i] = r[i][j];
    memcpy(r, t, sizeof t);
}

/* r[i] = column i of the 16 x 16 block at src: r[i][c] = src[c*ld + i]. */
INLINE void v_load_across(vf r[16], const float *src, size_t ld) {
    for (int c = 0; c < 16; c++) r[c] = v_load(src + (size_t)c * ld);
    v_transpose(r);
}
