/* lanes_avx2.h: vf, a vector of 16 floats, in two AVX2 registers.
 * Every call does the same operations as lanes_avx512.h, so both give the same bits. */
#include <immintrin.h>

#define ISA_NAME "avx2"
#define TILE_TALL 6 /* rows of the widest register tile: 6 x 1 x 2 accumulators of 16 registers */

typedef struct { __m256 a, b; } vf;

static const int32_t lane_mask[32] = {
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
};
INLINE __m256i v_mask(int n, int half) { return _mm256_loadu_si256((const __m256i *)(lane_mask + 16 - n + 8 * half)); }

INLINE vf v_zero(void) { return (vf){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
INLINE vf v_set1(float x) { __m256 v = _mm256_set1_ps(x); return (vf){v, v}; }
INLINE vf v_load(const float *p) { return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void v_store(float *p, vf x) { _mm256_storeu_ps(p, x.a); _mm256_storeu_ps(p + 8, x.b); }
/* A half that holds no lane must not be addressed: it may lie outside the object. */
INLINE vf v_load_n(const float *p, int n) {
    vf x = {_mm256_maskload_ps(p, v_mask(n, 0)), _mm256_setzero_ps()};
    if (n > 8) x.b = _mm256_maskload_ps(p + 8, v_mask(n, 1));
    return x;
}
INLINE vf v_load_or(const float *p, int n, vf fill) {
    vf x = v_load_n(p, n);
    return (vf){_mm256_blendv_ps(fill.a, x.a, _mm256_castsi256_ps(v_mask(n, 0))),
                _mm256_blendv_ps(fill.b, x.b, _mm256_castsi256_ps(v_mask(n, 1)))};
}
INLINE void v_store_n(float *p, vf x, int n) {
    _mm256_maskstore_ps(p, v_mask(n, 0), x.a);
    if (n > 8) _mm256_maskstore_ps(p + 8, v_mask(n, 1), x.b);
}
INLINE vf v_add(vf x, vf y) { return (vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
INLINE vf v_sub(vf x, vf y) { return (vf){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
INLINE vf v_mul(vf x, vf y) { return (vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
INLINE vf v_div(vf x, vf y) { return (vf){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
INLINE vf v_max(vf x, vf y) { return (vf){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
INLINE vf v_min(vf x, vf y) { return (vf){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
INLINE vf v_sqrt(vf x) { return (vf){_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
INLINE vf v_fma(vf x, vf y, vf z) { return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
INLINE vf v_fnma(vf x, vf y, vf z) { return (vf){_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)}; }
INLINE vf v_pin(vf x) { return x; }

/* Two powers of two, each in range: the product rounds once, as scalef does. */
INLINE __m256 v_scale2_half(__m256 a, __m256 magic_n) {
    __m256i n = _mm256_sub_epi32(_mm256_castps_si256(magic_n), _mm256_set1_epi32(0x4b400000));
    __m256i n1 = _mm256_srai_epi32(n, 1), n2 = _mm256_sub_epi32(n, n1), bias = _mm256_set1_epi32(127);
    a = _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n1, bias), 23)));
    return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n2, bias), 23)));
}
INLINE vf v_scale2(vf x, vf magic_n, vf n) {
    (void)n;
    return (vf){v_scale2_half(x.a, magic_n.a), v_scale2_half(x.b, magic_n.b)};
}

INLINE float v_sum(vf x) {
    __m256 a = _mm256_add_ps(x.a, x.b);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    b = _mm_add_ss(b, _mm_movehdup_ps(b));
    return _mm_cvtss_f32(b);
}
INLINE float v_max_lane(vf x) {
    __m256 a = _mm256_max_ps(x.a, x.b);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

/* 8 x 8 transpose of r[0..8), in place. */
INLINE void v_transpose8(__m256 r[8]) {
    __m256 t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    for (int i = 0; i < 8; i++) r[i] = t[i];
}
INLINE void v_transpose(vf r[16]) {
    __m256 q[8], s[8];
    for (int half = 0; half < 2; half++) { /* the two diagonal 8 x 8 blocks */
        for (int i = 0; i < 8; i++) q[i] = half ? r[i + 8].b : r[i].a;
        v_transpose8(q);
        for (int i = 0; i < 8; i++) *(half ? &r[i + 8].b : &r[i].a) = q[i];
    }
    for (int i = 0; i < 8; i++) q[i] = r[i].b, s[i] = r[i + 8].a;
    v_transpose8(q);
    v_transpose8(s);
    for (int i = 0; i < 8; i++) r[i].b = s[i], r[i + 8].a = q[i];
}

/* r[i] = column i of the 16 x 16 block at src: r[i][c] = src[c*ld + i]. */
INLINE void v_load_across(vf r[16], const float *src, size_t ld) {
    for (int c = 0; c < 16; c++) r[c] = v_load(src + (size_t)c * ld);
    v_transpose(r);
}
