/* isa_amx.c: products of bfloat16 pairs on AMX tiles, and the same in C by the definition of the
 * instructions. All else of a device with AMX is isa_avx512.c. */
#if defined(__x86_64__)
#define _GNU_SOURCE
#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"

static void edge_copy(float *to, size_t to_stride, const float *from, size_t from_stride, int rows, int cols) {
    for (int r = 0; r < rows; r++) memcpy(to + (size_t)r * to_stride, from + (size_t)r * from_stride, (size_t)cols * 4);
}

/* ---- the definition ---- */

static _Thread_local float tile[8][256]; /* 16 rows of 64 bytes */

static void emulated_load(float *to, const float *from, size_t stride) { edge_copy(to, 16, from, stride, 16, 16); }
static void emulated_store(const float *from, float *to, size_t stride) { edge_copy(to, stride, from, 16, 16, 16); }

#define BY_FMA __attribute__((target("avx2,fma")))

/* Denormals are zero, coming and going; the sign stays. */
BY_FMA static inline float flushed(float x) { return fabsf(x) < FLT_MIN ? copysignf(0, x) : x; }
BY_FMA static inline float bfloat(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return flushed(x);
}

/* TDPBF16PS: even and odd factors are summed apart from zero, fused and rounded to nearest even;
 * both sums are added, then they are added to c. */
BY_FMA static void emulated_dot(float *c, const float *a, const float *b) {
    uint32_t x[256], y[256];
    memcpy(x, a, sizeof x);
    memcpy(y, b, sizeof y);
    for (int m = 0; m < 16; m++) {
        float even[16] = {0}, odd[16] = {0};
        for (int k = 0; k < 16; k++) {
            float low = bfloat(x[m * 16 + k] << 16), high = bfloat(x[m * 16 + k] & 0xffff0000);
            for (int n = 0; n < 16; n++) {
                even[n] = flushed(fmaf(low, bfloat(y[k * 16 + n] << 16), even[n]));
                odd[n] = flushed(fmaf(high, bfloat(y[k * 16 + n] & 0xffff0000), odd[n]));
            }
        }
        for (int n = 0; n < 16; n++) c[m * 16 + n] = flushed(flushed(c[m * 16 + n]) + flushed(even[n] + odd[n]));
    }
}

#define TILE_FUNCTION static
#define TILE_ZERO(i) memset(tile[i], 0, sizeof tile[i])
#define TILE_LOAD(i, from, stride) emulated_load(tile[i], from, stride)
#define TILE_DOT(c, a, b) emulated_dot(tile[c], tile[a], tile[b])
#define TILE_STORE(i, to, stride) emulated_store(tile[i], to, stride)
#define MULTIPLY emulated_multiply
#include "amx_tiles.h"

static void nothing(void) {}

static const whale_amx emulated = {"amx-emulated", nothing, emulated_multiply, nothing};

/* ---- the instructions ---- */

#define ON_TILES __attribute__((target("amx-tile,amx-bf16")))

/* gcc 12 does not know that these read and write memory. */
#define FENCE() __asm__ volatile("" ::: "memory")

/* Palette 1, eight tiles of 16 rows of 64 bytes; tiles that held something are zero after it. */
ON_TILES static void tiles_begin(void) {
    _Alignas(64) struct { uint8_t palette, start, unused[14]; uint16_t bytes[16]; uint8_t rows[16]; } shape = {.palette = 1};
    _Static_assert(sizeof shape == 64, "what LDTILECFG reads");
    for (int i = 0; i < 8; i++) shape.bytes[i] = 64, shape.rows[i] = 16;
    FENCE();
    _tile_loadconfig(&shape);
    FENCE();
}
ON_TILES static void tiles_end(void) { _tile_release(); }

#define TILE_FUNCTION ON_TILES static
#define TILE_ZERO(i) _tile_zero(i)
#define TILE_LOAD(i, from, stride) do { FENCE(); _tile_loadd(i, from, (stride) * 4); } while (0)
#define TILE_DOT(c, a, b) _tile_dpbf16ps(c, a, b)
#define TILE_STORE(i, to, stride) do { _tile_stored(i, to, (stride) * 4); FENCE(); } while (0)
#define MULTIPLY tiles_multiply
#include "amx_tiles.h"

static const whale_amx tiles = {"amx", tiles_begin, tiles_multiply, tiles_end};

/* Whether the instructions multiply small whole numbers, exact in any order, as the definition does. */
static int as_defined(void) {
    enum { rows = 21, cols = 39, pairs = 23 };
    static const float small[5] = {-2, -1, 0, 1, 3};
    _Alignas(64) uint32_t a[2 * 2 * 256] = {0}, b[3 * pairs * 16];
    float af[2 * 2 * 256], bf[3 * pairs * 16], c[2][rows * cols];
    uint32_t bits[5];
    memcpy(bits, small, sizeof bits);
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < pairs; k++) a[(r / 16 * 2 + k / 16) * 256 + r % 16 * 16 + k % 16] = bits[(r + k) % 5] >> 16 | bits[(r * k) % 5];
    for (int i = 0; i < 3 * pairs * 16; i++) b[i] = bits[i % 5] >> 16 | bits[i / 16 % 5];
    memcpy(af, a, sizeof a);
    memcpy(bf, b, sizeof b);
    for (int i = 0; i < 2; i++) {
        const whale_amx *way = i ? &tiles : &emulated;
        for (int n = 0; n < rows * cols; n++) c[i][n] = (float)n;
        amx_block block = {.a = af, .b = bf, .bv = pairs * 16, .c = c[i], .cr = cols, .pairs = pairs, .load = 1, .rows = rows, .cols = cols};
        way->begin();
        way->multiply(&block);
        way->end();
    }
    return !memcmp(c[0], c[1], sizeof c[0]);
}

const whale_amx *whale_find_amx(const char *isa) {
    enum { ask_permission = 0x1023, tile_data = 18 }; /* ARCH_REQ_XCOMP_PERM of this process, for all its threads */
    if (!strcmp(isa, "amx-emulated")) return &emulated;
    if ((isa[0] && strcmp(isa, "amx")) || !__builtin_cpu_supports("amx-tile") || !__builtin_cpu_supports("amx-bf16")) return NULL;
    if (syscall(SYS_arch_prctl, ask_permission, tile_data) != 0 || !as_defined()) return NULL;
    return &tiles;
}
#endif
