/* shim.h: the words of CUDA that the kernels use, for g++: a thread of a block is a fiber, and
 * what a warp or a block does together hands over to the next fiber (run.cpp). The meaning is
 * that of the CUDA documentation, element by element; nothing is faster or more lenient here.
 *
 * Not covered: static __shared__ arrays (kernels have one piece, SHARED), masks other than the
 * whole warp, and blocks whose threads are no multiple of 32. */
#ifndef WHALE_SHIM_H
#define WHALE_SHIM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct simt_index { unsigned x, y, z; };

/* What a running thread sees; one for each thread of the machine that runs blocks. */
struct simt_view {
    simt_index thread, block, block_dim, grid_dim;
    unsigned char *shared;
};
extern __thread simt_view *simt_now __attribute__((tls_model("initial-exec")));

#define threadIdx (simt_now->thread)
#define blockIdx (simt_now->block)
#define blockDim (simt_now->block_dim)
#define gridDim (simt_now->grid_dim)

#define DEVICE static inline __attribute__((always_inline, unused))
#define KERNEL(threads, name, type)                                                        \
    static void name##_thread(const type &a);                                              \
    extern "C" __attribute__((visibility("default"))) void name(const void *args) { name##_thread(*(const type *)args); }         \
    extern "C" __attribute__((visibility("default"))) const unsigned name##_bytes = sizeof(type);  \
    static void name##_thread(const type &a)
#define SHARED(type, name) type *name = (type *)simt_now->shared
#define INF __builtin_inff()
#define __restrict__ __restrict

struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };

/* ---- handing over: run.cpp ---- */

void simt_barrier(); /* returns when all threads of the block are here */
void simt_syncwarp();
/* Leaves size bytes at slot `lane` of the result and returns it when all lanes of the warp did.
 * The result stays until the warp's next exchange but one. */
const unsigned char *simt_exchange(const void *mine, size_t size);
void simt_mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
enum { simt_slot = 16 }; /* bytes from one lane's slot to the next */

#define __syncthreads() simt_barrier()
#define __syncwarp() simt_syncwarp()

template <class T> static inline T simt_from(T x, unsigned lane) {
    T y;
    memcpy(&y, simt_exchange(&x, sizeof x) + lane * simt_slot, sizeof y);
    return y;
}

template <class T> static inline T __shfl_xor_sync(unsigned, T x, int mask) {
    return simt_from(x, (simt_now->thread.x % 32) ^ (unsigned)mask);
}

template <class T> static inline T __shfl_sync(unsigned, T x, int lane) { return simt_from(x, (unsigned)lane % 32); }

/* Lanes below delta keep their own. */
template <class T> static inline T __shfl_up_sync(unsigned, T x, unsigned delta) {
    unsigned lane = simt_now->thread.x % 32;
    return simt_from(x, lane < delta ? lane : lane - delta);
}

static inline unsigned __ballot_sync(unsigned, int predicate) {
    const unsigned char *all = simt_exchange(&predicate, sizeof predicate);
    unsigned bits = 0;
    for (unsigned i = 0; i < 32; i++) {
        int p;
        memcpy(&p, all + i * simt_slot, sizeof p);
        if (p) bits |= 1u << i;
    }
    return bits;
}

static inline int min(int x, int y) { return x < y ? x : y; }
static inline int max(int x, int y) { return x > y ? x : y; }
static inline uint32_t max(uint32_t x, uint32_t y) { return x > y ? x : y; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(unsigned x) { return __builtin_ffs((int)x); }
static inline float __uint_as_float(uint32_t x) { float y; memcpy(&y, &x, 4); return y; }
static inline uint32_t __float_as_uint(float x) { uint32_t y; memcpy(&y, &x, 4); return y; }

/* Blocks may run on several threads of the machine, the threads of one block never do. */
template <class T> static inline T atomicAdd(T *p, T x) { return __atomic_fetch_add(p, x, __ATOMIC_RELAXED); }

static inline float fast_exp(float x) { return expf(x); }

static inline uint32_t simt_bf16(float x) {
    uint32_t u = __float_as_uint(x);
    if ((u & 0x7fffffff) > 0x7f800000) return u >> 16 | 0x40; /* not a number stays one */
    return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

#endif
