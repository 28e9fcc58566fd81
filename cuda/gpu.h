/* gpu.h: inside of the devices that run the kernels of the .cu files. gpu.c carries out every
 * call of whale.h over a backend, which knows memory, launches and nothing of models: simt.c
 * runs the kernels on the CPU, thread by thread; driver.c is a CUDA card. */
#ifndef WHALE_GPU_H
#define WHALE_GPU_H

#include "device.h"
#include "kernels.h"

/* One kernel launch. args is copied before launch returns. */
typedef struct {
    gpu_kernel kernel;
    unsigned grid[3], threads; /* threads of a block */
    size_t shared;             /* bytes of shared memory of a block */
    const void *args;
    size_t size;               /* bytes of args */
} gpu_launch;

/* C [rows, cols] = (accumulate ? C : 0) + A B^T as in product_args, but with strides that a BLAS
 * takes: a_along: A is [K, rows] rather than [rows, K]; b_along likewise; lda, ldb, ldc are the
 * distances between their rows. bf16: A and B hold bfloat16, else float32. C is float32. */
typedef struct {
    int rows, cols, K, accumulate, bf16, a_along, b_along;
    size_t lda, ldb, ldc;
    const void *a, *b;
    float *c;
} gpu_product;

typedef struct gpu_backend gpu_backend;

/* What a backend must do. Every call is made by one thread at a time, in the order in which it
 * is to take effect; launches, copies and products may return before they are done. A status
 * that is not OK comes with a line in `error`. BROKEN is for a device that is lost: it is
 * remembered, and nothing but free and close follows. */
struct gpu_backend {
    const char *isa;      /* "simt", "sm_90" */
    char *error;          /* [256] of the device */
    size_t most_shared;   /* bytes of shared memory that a block may ask for */
    void *state;          /* the backend's own */

    void (*close)(gpu_backend *b);
    whale_status (*alloc)(gpu_backend *b, size_t bytes, void **out); /* zeroed, 256-byte aligned */
    void (*free)(gpu_backend *b, void *p);                           /* after all work that was asked for */
    whale_status (*upload)(gpu_backend *b, void *dst, const void *host, size_t bytes);   /* host may change at once */
    whale_status (*download)(gpu_backend *b, void *host, const void *src, size_t bytes); /* waits */
    whale_status (*copy)(gpu_backend *b, void *dst, const void *src, size_t bytes);
    whale_status (*fill)(gpu_backend *b, void *dst, uint32_t word, size_t words);
    whale_status (*launch)(gpu_backend *b, const gpu_launch *l);
    whale_status (*sync)(gpu_backend *b);
    /* NULL, or NO_DEVICE of a shape: gpu.c multiplies with the kernels of product.cu. */
    whale_status (*product)(gpu_backend *b, const gpu_product *p);
    /* NULL: no graphs. Between record and end, work is noted instead of done; replay does it. A
     * graph holds pointers and shapes, not contents. */
    whale_status (*record)(gpu_backend *b);
    whale_status (*end)(gpu_backend *b, void **graph);
    whale_status (*replay)(gpu_backend *b, void *graph);
    void (*drop)(gpu_backend *b, void *graph);
    /* NULL: as whale.h says of a device that is no card. */
    whale_status (*reserve)(gpu_backend *b, size_t bytes);
    whale_status (*room)(gpu_backend *b, whale_room *out);
};

/* ---- backends: fill in *b or answer NO_DEVICE with a line in b->error ---- */

/* kernels is the path of the compiled kernels (simt/run.cpp says of what); order is "" or
 * "forward", "reverse", "shuffle": how the threads of a block take turns; "library": forward,
 * products by a plain loop instead of kernels; "checked": forward, every access is examined. */
whale_status simt_open(gpu_backend *b, const char *kernels, const char *order, int threads);

/* where has four lines: the folder of cubins, one for each .cu file; the library of the driver; that
 * of cuBLASLt, or empty; the number of the card. way "own": products by product.cu all the same. */
whale_status driver_open(gpu_backend *b, const char *where, const char *way);

/* ---- gpu.c, for gpu_op.c ---- */

/* Index memory with its copy on the host, where op.c looks at it. */
typedef struct { char *begin; size_t bytes; char *host; } index_range;

struct gpu {
    gpu_backend b;
    int broken;          /* the device is lost */
    index_range *ranges; /* by address */
    size_t count, room;
    void *scratch;       /* of the call at hand */
    size_t scratch_bytes;
    uint64_t moved;      /* how often scratch did: recorded graphs point into it */
};

#define ALIVE(dev) \
    do { if ((dev)->gpu->broken) return WHALE_BROKEN; } while (0)
#define TRY(call) \
    do { whale_status st_ = (call); if (st_ != WHALE_OK) return st_; } while (0)

/* Remembers a lost device; the line that says why stays in dev->error. */
whale_status gpu_note(whale_device *dev, whale_status st);
/* Room for the call at hand; contents are lost. */
whale_status gpu_scratch(whale_device *dev, size_t bytes, void **out);
/* Launches l; its threads and the third number of its grid are filled in. A grid of no blocks is no work. */
whale_status gpu_launch_kernel(whale_device *dev, gpu_launch l);

/* ---- gpu.c, gpu_op.c ---- */

whale_status gpu_open(whale_device *dev, const char *kind, const char *isa, const char *kernels, int threads);
void         gpu_close(whale_device *dev);
const char  *gpu_isa(whale_device *dev);
whale_status gpu_alloc(whale_device *dev, size_t bytes, int indices, void **out);
void         gpu_free(whale_device *dev, void *p);
whale_status gpu_upload(whale_device *dev, void *dst, const void *host, size_t bytes);
whale_status gpu_download(whale_device *dev, void *host, const void *src, size_t bytes);
whale_status gpu_copy(whale_device *dev, void *dst, const void *src, size_t bytes);
whale_status gpu_measure(whale_device *dev, whale_room *out);
whale_status gpu_reserve(whale_device *dev, size_t bytes);
whale_status gpu_sync(whale_device *dev);
whale_status gpu_record(whale_device *dev);
whale_status gpu_end(whale_device *dev, void **graph);
whale_status gpu_replay(whale_device *dev, void *graph);
void         gpu_drop(whale_device *dev, void *graph);
whale_status gpu_fill(whale_device *dev, float *x, size_t n, float value);
whale_status gpu_add(whale_device *dev, float *y, const float *x, size_t n);
whale_status gpu_embed_forward(whale_device *dev, const whale_embed *a);
whale_status gpu_embed_backward(whale_device *dev, const whale_embed_grad *a);
whale_status gpu_rmsnorm_forward(whale_device *dev, const whale_rmsnorm *a);
whale_status gpu_rmsnorm_backward(whale_device *dev, const whale_rmsnorm_grad *a);
size_t       gpu_packed_floats(whale_precision precision, int N, int M);
whale_status gpu_pack_weight(whale_device *dev, const whale_pack *a);
whale_status gpu_matmul_forward(whale_device *dev, const whale_matmul *a);
whale_status gpu_matmul_backward_x(whale_device *dev, const whale_matmul_grad_x *a);
whale_status gpu_matmul_backward_w(whale_device *dev, const whale_matmul_grad_w *a);
whale_status gpu_rope(whale_device *dev, const whale_rope *a);
whale_status gpu_attention_forward(whale_device *dev, const whale_attention *a);
whale_status gpu_attention_backward(whale_device *dev, const whale_attention_grad *a);
whale_status gpu_paged_store(whale_device *dev, const whale_paged *a);
whale_status gpu_paged_attend(whale_device *dev, const whale_paged *a);
whale_status gpu_swiglu_forward(whale_device *dev, const whale_swiglu *a);
whale_status gpu_swiglu_backward(whale_device *dev, const whale_swiglu_grad *a);
whale_status gpu_xent_loss(whale_device *dev, const whale_xent *a);
whale_status gpu_sumsq(whale_device *dev, const float *x, size_t n, double *host_out);
whale_status gpu_adamw(whale_device *dev, const whale_adamw *a);
whale_status gpu_sample(whale_device *dev, const whale_sample *a);

#endif
