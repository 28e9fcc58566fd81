/* lanes_avx512.h: vf, a vector of 16 floats, in one AVX-512 register.
 * The three lanes_*.h files define the same calls; see lanes_portable.h for their meaning. */
#include <immintrin.h>

#define ISA_NAME "avx512"
#define HAS_BF16     /* product16.h; runs only if the processor has it too */
#define TILE_TALL 14 /* rows of the widest register tile: 14 x 2 accumulators, 3 of 32 registers left */

typedef __m512 vf;

INLINE vf v_zero(void) { return _mm512_setzero_ps(); }
INLINE vf v_set1(float x) { return _mm512_set1_ps(x); }
INLINE vf v_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void v_store(float *p, vf x) { _mm512_storeu_ps(p, x); }
INLINE __mmask16 v_mask(int n) { return (__mmask16)((1u << n) - 1); }
INLINE vf v_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(v_mask(n), p); }
INLINE vf v_load_or(const float *p, int n, vf fill) { return _mm512_mask_loadu_ps(fill, v_mask(n), p); }
INLINE void v_store_n(float *p, vf x, int n) { _mm512_mask_storeu_ps(p, v_mask(n), x); }
INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
INLINE vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
INLINE vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vf v_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
/* Keeps a broadcast in its register: gcc would otherwise load it again for every use. */
INLINE vf v_pin(vf a) { __asm__("" : "+v"(a)); return a; }
INLINE vf v_scale2(vf a, vf magic_n, vf n) { (void)magic_n; return _mm512_scalef_ps(a, n); }

INLINE float v_sum(vf x) {
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    b = _mm_add_ss(b, _mm_movehdup_ps(b));
    return _mm_cvtss_f32(b);
}
INLINE float v_max_lane(vf x) { return _mm512_reduce_max_ps(x); }

INLINE void v_transpose(vf r[16]) {
    vf t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

/* r[i] = column i of the 16 x 16 block at src: r[i][c] = src[c*ld + i]. Quarters of four rows are
 * put together as they are loaded, which leaves half the shuffles of a transpose. */
INLINE void v_load_across(vf r[16], const float *src, size_t ld) {
    for (int q = 0; q < 4; q++) {
        vf v[4], t[4];
        for (int j = 0; j < 4; j++) {
            const float *p = src + (size_t)j * ld + 4 * q;
            v[j] = _mm512_castps128_ps512(_mm_loadu_ps(p));
            v[j] = _mm512_insertf32x4(v[j], _mm_loadu_ps(p + 4 * ld), 1);
            v[j] = _mm512_insertf32x4(v[j], _mm_loadu_ps(p + 8 * ld), 2);
            v[j] = _mm512_insertf32x4(v[j], _mm_loadu_ps(p + 12 * ld), 3);
        }
        t[0] = _mm512_unpacklo_ps(v[0], v[1]);
        t[1] = _mm512_unpackhi_ps(v[0], v[1]);
        t[2] = _mm512_unpacklo_ps(v[2], v[3]);
        t[3] = _mm512_unpackhi_ps(v[2], v[3]);
        r[4 * q] = _mm512_shuffle_ps(t[0], t[2], 0x44);
        r[4 * q + 1] = _mm512_shuffle_ps(t[0], t[2], 0xee);
        r[4 * q + 2] = _mm512_shuffle_ps(t[1], t[3], 0x44);
        r[4 * q + 3] = _mm512_shuffle_ps(t[1], t[3], 0xee);
    }
}
