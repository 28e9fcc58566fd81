/* device.h: inside of a device. The outside is whale.h. A device is the CPU, with a table of
 * operators for its instruction set, or runs the CUDA kernels (gpu.h). */
#ifndef WHALE_DEVICE_H
#define WHALE_DEVICE_H

#include "amx.h"
#include "whale.h"

#define INLINE static inline __attribute__((always_inline, unused))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* One operator table per instruction set. Arguments were checked by op.c; what is left to go
 * wrong is memory for scratch. */
typedef struct {
    const char *isa;
    void (*fill)(whale_device *, float *, size_t, float);
    void (*add)(whale_device *, float *, const float *, size_t);
    void (*embed_forward)(whale_device *, const whale_embed *);
    void (*embed_backward)(whale_device *, const whale_embed_grad *);
    void (*rmsnorm_forward)(whale_device *, const whale_rmsnorm *);
    whale_status (*rmsnorm_backward)(whale_device *, const whale_rmsnorm_grad *);
    void (*pack_weight)(whale_device *, const whale_pack *);
    void (*pack_weight8)(whale_device *, const whale_pack *);
    whale_status (*matmul_forward8)(whale_device *, const whale_matmul *);
    whale_status (*matmul_forward)(whale_device *, const whale_matmul *);
    whale_status (*matmul_backward_x)(whale_device *, const whale_matmul_grad_x *);
    whale_status (*matmul_backward_w)(whale_device *, const whale_matmul_grad_w *);
    void (*rope)(whale_device *, const whale_rope *);
    whale_status (*attention_forward)(whale_device *, const whale_attention *);
    whale_status (*attention_backward)(whale_device *, const whale_attention_grad *);
    void (*paged_store16)(whale_device *, const whale_paged *); /* for in_blocks16 */
    whale_status (*paged_attend)(whale_device *, const whale_paged *);
    void (*swiglu_forward)(whale_device *, const whale_swiglu *);
    void (*swiglu_backward)(whale_device *, const whale_swiglu_grad *);
    void (*xent)(whale_device *, const whale_xent *);
    whale_status (*sumsq)(whale_device *, const float *, size_t, double *);
    void (*adamw)(whale_device *, const whale_adamw *);
    whale_status (*sample)(whale_device *, const whale_sample *);
    double (*fma_loop)(whale_device *, int rounds);
} whale_ops;

extern const whale_ops whale_ops_portable;
#if defined(__x86_64__)
extern const whale_ops whale_ops_avx2, whale_ops_avx512;
#endif

typedef struct whale_pool whale_pool;
typedef struct gpu gpu;

struct whale_device {
    gpu *gpu;          /* NULL on the CPU; else nothing below is used but error */
    const whale_ops *ops;
    const whale_ops *ops8; /* whose products in 8 bits run: ops, unless its processor lacks the instructions */
    int bf16;          /* products in bfloat16 can run */
    const whale_amx *amx; /* what they run on then; NULL: vectors */
    int threads;
    whale_pool *pool;  /* NULL when threads is 1 */
    char **scratch;    /* [threads + 1] buffers; the last is shared by all threads of a call */
    size_t *scratch_bytes;
    char error[256];
};

/* ---- pool.c ---- */

/* One piece of a parallel job; pieces are numbered 0..n-1 and run once each, in no order, on
 * thread `thread` (0 is the caller). The result may not depend on which thread runs what. */
typedef void whale_piece(const void *job, int piece, int thread);

whale_pool *whale_pool_start(int threads); /* threads - 1 workers; NULL if they can't be had */
void whale_pool_stop(whale_pool *p);

/* Runs all pieces and returns when all are done. p may be NULL: the caller runs them. */
void whale_pool_run(whale_pool *p, whale_piece *f, const void *job, int n);

/* Runs `rounds` of multiply-adds in registers on all threads; returns the operations done. For
 * benchmarks: no product can be faster. */
double whale_fma_loop(whale_device *dev, int rounds);

/* ---- device.c, gpu.c ---- */

/* n indices at p where the host can read them; NULL if that is not memory of indices. */
const int32_t *gpu_on_host(whale_device *dev, const int32_t *p, size_t n);
static inline const int32_t *on_host(whale_device *dev, const int32_t *p, size_t n) { return dev->gpu ? gpu_on_host(dev, p, n) : p; }

/* Room for every thread of the next job. Contents are lost. */
whale_status whale_scratch(whale_device *dev, size_t bytes);
/* Room that all threads of the next job share. Contents are lost. */
whale_status whale_shared(whale_device *dev, size_t bytes);

static inline float *scratch_of(const whale_device *dev, int thread) { return (float *)dev->scratch[thread]; }
static inline float *shared_of(const whale_device *dev) { return (float *)dev->scratch[dev->threads]; }

/* Whether the CPU attends in bfloat16 and keeps pages of P positions in blocks of it (blocks16.h). */
static inline int in_blocks16(const whale_device *dev, whale_precision precision, int P) {
    return !dev->gpu && dev->bf16 && precision == WHALE_BF16 && P % 16 == 0;
}

/* Multiply-adds that take about as long as waking a thread: some microseconds. */
enum { worth_waking = 200000 };

/* Runs a job of `work` multiply-adds or so: on the caller alone if waking others costs more. */
static inline void run_pieces(whale_device *dev, whale_piece *f, const void *job, int n, double work) {
    whale_pool_run(n > 1 && work > worth_waking ? dev->pool : NULL, f, job, n);
}

#endif
