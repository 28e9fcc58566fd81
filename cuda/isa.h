/* isa.h: all operators of the CPU device, compiled once per instruction set.
 *
 * The includer (isa_avx512.c, isa_avx2.c, isa_portable.c) sets the target and includes its
 * lanes_*.h first. Everything here is static but the table. */
#ifdef HAS_BF16
static void paged_store16(whale_device *dev, const whale_paged *a); /* blocks16.h */
#define PAGED_STORE16 paged_store16
#else
#define PAGED_STORE16 NULL
#endif
#include "vmath.h"
#include "tile.h"
#include "product.h"
#include "rows.h"
#include "chains.h"
#include "attend.h"
#include "attend_paged.h"
#include "attend_back.h"
#include "learn.h"
#include "draw.h"

#define OPS_TABLE(name)                                    \
    const whale_ops name = {                               \
        .isa = ISA_NAME,                                   \
        .fill = fill,                                      \
        .add = add,                                        \
        .embed_forward = embed_forward,                    \
        .embed_backward = embed_backward,                  \
        .rmsnorm_forward = rmsnorm_forward,                \
        .rmsnorm_backward = rmsnorm_backward,              \
        .pack_weight = pack_weight,                        \
        .pack_weight8 = pack_weight8,                      \
        .matmul_forward8 = matmul_forward8,                \
        .matmul_forward = matmul_forward,                  \
        .matmul_backward_x = matmul_backward_x,            \
        .matmul_backward_w = matmul_backward_w,            \
        .rope = rope,                                      \
        .attention_forward = attention_forward,            \
        .attention_backward = attention_backward,          \
        .paged_store16 = PAGED_STORE16,                    \
        .paged_attend = paged_attend,                      \
        .swiglu_forward = swiglu_forward,                  \
        .swiglu_backward = swiglu_backward,                \
        .xent = xent,                                      \
        .sumsq = sumsq,                                    \
        .adamw = adamw,                                    \
        .sample = sample,                                  \
        .fma_loop = fma_loop,                              \
    }
