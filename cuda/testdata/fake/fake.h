/* fake.h: a card that is not there. One shared library answers as NVIDIA's driver, NVRTC and
 * cuBLASLt do, so that all of driver*.c runs without them: its memory is the machine's, its kernels
 * are those of a simt library. Work waits in the stream until somebody waits for it, as on a card,
 * so that a copy that is not waited for, or memory that is used again too early, shows.
 *
 * Environment, read when it matters:
 *   FAKE_KERNELS   path of the simt library
 *   FAKE_LOG       file to which what happens is appended, a line each
 *   FAKE_VERSION   of the driver, 12040        FAKE_SM      90
 *   FAKE_TOTAL     bytes of the card           FAKE_OTHERS  bytes that other processes hold
 *   FAKE_CARD      file in which processes that share the card count what they hold
 *   FAKE_ALLOC     the n-th cuMemAlloc from now on fails
 *   FAKE_LAUNCH    the n-th kernel is lost, and the card with it
 *   FAKE_INTERRUPT at the n-th kernel the process gets a SIGINT
 *   FAKE_KERNEL    these two count only kernels whose names begin so
 *   FAKE_NVRTC     version, 12040              FAKE_ARCHS   highest sm that NVRTC knows, 120
 *   FAKE_COMPILE   if set, sources do not compile
 *   FAKE_BLAS      if set, cublasLtCreate fails */
#ifndef WHALE_FAKE_H
#define WHALE_FAKE_H

#include "../../driver.h"
#include "../../simt/job.h"

#define EXPORT __attribute__((visibility("default")))

enum { fake_not_initialized = 3, fake_no_image = 200, fake_no_context = 201, fake_not_found = 500, fake_lost = 719, fake_in_capture = 900 };

typedef enum { op_copy, op_fill, op_kernel, op_product } op_kind;

typedef struct {
    int rows, cols, K, bf16, trans_a, trans_b, add; /* as cuBLASLt sees it: columns first */
    size_t lda, ldb, ldc;
    const void *a, *b;
    float *c;
} fake_product;

typedef struct {
    op_kind kind;
    char *to;
    const char *from;
    size_t bytes, pitch, rows; /* fill: rows of bytes, pitch apart */
    uint32_t word;
    const char *name;
    simt_job job;
    unsigned char args[512];
    fake_product product;
} fake_op;

/* What comes next in the stream, or in a recording. */
int fake_ask(cu_stream s, const fake_op *op);
/* The number in an environment variable. */
long fake_number(const char *name, long otherwise);
void fake_note(const char *line, long number);

#endif
