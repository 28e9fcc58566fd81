/* whale.h: the one C interface of the numeric library.
 *
 * Every device implements exactly these calls: the CPU, a CUDA card, and simt, which runs the
 * CUDA kernels on the CPU thread by thread.
 * All calls return a whale_status; the text of the last failure of a device is
 * whale_error(dev). Pointers named without `host_` are device memory got from
 * whale_alloc; on the CPU device that is ordinary memory, 64-byte aligned.
 * No call keeps a pointer after it returns. Calls on one device are serial:
 * the caller holds a lock or uses one goroutine.
 *
 * Shapes, one alphabet for the whole project:
 *   T  rows, one row = one token of one sequence, sequences packed one after the other
 *   B  sequences       D  hidden width      I  intermediate width   V  vocabulary rows
 *   H  query heads     K  key/value heads   d  head width           L  layers
 *   N, M  output and input width of a matrix product (weights are stored [N, M], as in
 *         Hugging Face files)
 *   P  tokens in a cache page
 * A matrix [rows, n] is row-major; `ld` is the distance between rows in floats.
 *
 * Accumulate rule: outputs of forward ops are overwritten (=). Gradients are added
 * to (+=) unless the field says otherwise; whoever starts an optimizer batch zeroes them.
 *
 * Bits: each output element of every op is computed by one fixed order of operations
 * that depends on its own row and the shapes' widths only. It does not depend on the
 * number of rows in the call, on the other rows, or on the number of threads. Weight
 * gradients depend on the rows of the call in their order, never on the threads. That is the
 * CPU device. Elsewhere the same call gives the same bits again, but the order may follow the
 * number of rows: a row among others is within rounding of the row alone.
 */
#ifndef WHALE_H
#define WHALE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    WHALE_OK = 0,
    WHALE_NO_MEMORY = 1,   /* the device has no room; nothing was changed */
    WHALE_BAD_SHAPE = 2,   /* an argument breaks the contract; nothing was changed */
    WHALE_NO_DEVICE = 3,   /* kind not available on this machine */
    WHALE_BROKEN = 4       /* sticky: the device is lost, every later call answers this */
} whale_status;

typedef struct whale_device whale_device;

/* kind "cpu", "simt" or "cuda"; threads >= 1 is the number of cores the device may use (the calling
 * thread is one of them; the others park when idle). isa "" = best of the machine,
 * or "amx", "avx512", "avx2", "portable" to force a path (tests run all of them, and "amx-emulated",
 * where C stands in for the instructions of AMX); of simt and cuda, see
 * simt_open and driver_open in gpu.h. kernels is where a device finds its compiled kernels; "" for the CPU. On failure one
 * line that says why goes to why [room]. */
whale_status whale_open(const char *kind, int threads, const char *isa, const char *kernels, whale_device **out, char *why, size_t room);
void         whale_close(whale_device *dev);
const char  *whale_error(whale_device *dev);
const char  *whale_isa(whale_device *dev);

whale_status whale_alloc(whale_device *dev, size_t bytes, void **out);   /* zeroed */
/* Memory for ids, positions, pages and the like, n of them, zeroed. Only whale_upload writes it, so
 * that a device which can't look into its memory keeps a copy and checks indices before it launches. */
whale_status whale_alloc_indices(whale_device *dev, size_t n, int32_t **out);
void         whale_free(whale_device *dev, void *p);
whale_status whale_upload(whale_device *dev, void *dst, const void *host_src, size_t bytes);
whale_status whale_download(whale_device *dev, void *host_dst, const void *src, size_t bytes);
whale_status whale_copy(whale_device *dev, void *dst, const void *src, size_t bytes);


/* Memory of a card, in bytes: all that it has, what no process holds, what this device got of it,
 * what it has given out, the most it had since the last reserve, what of that it takes for
 * itself at most; and bytes a second that its memory can move,
 * by its clock and width (0: not known). All 0 on a device that is no card. */
typedef struct { size_t card_total, card_free, held, used, peak, workspace; double bandwidth; } whale_room;
whale_status whale_measure(whale_device *dev, whale_room *out);
/* Holds at least so many bytes from here on, in one piece where it can. NO_MEMORY if the card has
 * not so many free. Nothing on a device that is no card. */
whale_status whale_reserve(whale_device *dev, size_t bytes);
/* Waits until all is done that was asked for; what went wrong on the way is told here at the latest. */
whale_status whale_sync(whale_device *dev);

/* Graphs: what is asked for between record and end is noted instead of done, and replay does it, with
 * the contents that memory has by then: pointers and shapes are those of the recording. Only
 * operators may be recorded that need no new memory; indices are checked when they are recorded, not
 * when they are replayed. NO_DEVICE: this device has no graphs. BAD_SHAPE of a replay: memory of the
 * device's own moved since; drop the graph and record it anew. Whoever ended a recording drops it. */
whale_status whale_record(whale_device *dev);
whale_status whale_end(whale_device *dev, void **graph);
whale_status whale_replay(whale_device *dev, void *graph);
void         whale_drop(whale_device *dev, void *graph);

/* x[0..n) = value */
whale_status whale_fill(whale_device *dev, float *x, size_t n, float value);
/* y[0..n) += x[0..n) */
whale_status whale_add(whale_device *dev, float *y, const float *x, size_t n);

/* ---- embedding: y[t,:] = table[ids[t],:]; an id outside [0,V) is WHALE_BAD_SHAPE ---- */
typedef struct { int T, D, V; const int32_t *ids; const float *table; float *y; } whale_embed;
whale_status whale_embed_forward(whale_device *dev, const whale_embed *a);
/* dtable[ids[t],:] += dy[t,:], rows taken in order t = 0..T-1 */
typedef struct { int T, D, V; const int32_t *ids; const float *dy; float *dtable; } whale_embed_grad;
whale_status whale_embed_backward(whale_device *dev, const whale_embed_grad *a);

/* ---- RMSNorm over the last n of [rows, n], spec/models.md 1.1 (plain flavour) ----
 * Row r of x starts at x + (r / heads) * ldx + (r % heads) * n: heads > 1 norms each head
 * of a fused projection in place (QK-norm); heads = 1, ldx = n is the ordinary case.
 * rows counts norm rows (T * heads). rstd [rows] is written for the backward. y may be x
 * only if the backward is not wanted (generation). */
typedef struct {
    int rows, n, heads, ldx, ldy; float eps;
    const float *x, *w; float *y, *rstd; /* rstd may be NULL */
} whale_rmsnorm;
whale_status whale_rmsnorm_forward(whale_device *dev, const whale_rmsnorm *a);
/* dx (+= if accumulate, else =; dx may be dy when not accumulating), dw [n] += */
typedef struct {
    int rows, n, heads, ldx, lddy, lddx; int accumulate;
    const float *dy, *x, *w, *rstd; float *dx, *dw;
} whale_rmsnorm_grad;
whale_status whale_rmsnorm_backward(whale_device *dev, const whale_rmsnorm_grad *a);

/* ---- precision of a product, and weights in the order in which a device reads them ----
 * BF16 rounds both factors to bfloat16 (to nearest even; denormals become 0) and sums in float32,
 * two neighbouring indices at a step; weights, gradients and everything else stay float32. Not
 * every machine has it: whale_has says, and a product that asks for it elsewhere is NO_DEVICE.
 * BF16X3 splits each factor into the bfloat16 nearest to it and the bfloat16 nearest to the rest:
 * high by high, high by low and low by high, summed in float32 in blocks of 512 indices, err by
 * some 4e-6 of a product's size. A factor that is infinite, or rounds to infinity, gives no number. It runs
 * where BF16 runs on the CPU, and pays on AMX only: on vectors it is slower than float32.
 * With AMX a step is 32 indices, even and odd ones apart: bits are those of the instruction set.
 * INT8 is for generation: forward products with a packed weight, nothing else (BAD_SHAPE). Weights
 * and rows of x are rounded to 8 bits in blocks of 64 summed indices with a scale each, the blocks'
 * sums are exact and added in ascending order; every device that has it gives the same bits.
 * whale_pack_weight writes a copy of w to `packed` [whale_packed_floats], which forward products
 * of that precision then read instead of w, with the same bits: worth it where few rows are
 * multiplied many times. It is stale once w changes. */
typedef enum { WHALE_FLOAT32 = 0, WHALE_BF16 = 1, WHALE_INT8 = 2, WHALE_BF16X3 = 3 } whale_precision;
int    whale_has(whale_device *dev, whale_precision precision);
size_t whale_packed_floats(whale_device *dev, whale_precision precision, int N, int M); /* 0: reads w itself */
typedef struct { int N, M; whale_precision precision; const float *w; float *packed; } whale_pack;
whale_status whale_pack_weight(whale_device *dev, const whale_pack *a);

/* ---- matrix products. Weights w [N, M] contiguous ----
 * forward:   y[t,n]  = (accumulate ? y[t,n] : 0) + sum_m x[t,m] w[n,m]
 * backward x: dx[t,m] = (accumulate ? dx[t,m] : 0) + sum_n dy[t,n] w[n,m]
 * backward w: dw[n,m] += sum_t dy[t,n] x[t,m]
 * Each element is one chain of fused multiply-adds over the summed index in ascending
 * order (backward w: over t), so y of a row is the same bits for every T. */
typedef struct {
    int T, N, M, ldx, ldy; int accumulate; whale_precision precision;
    const float *x, *w, *packed; /* packed: NULL, or what whale_pack_weight made of w */
    float *y;
} whale_matmul;
whale_status whale_matmul_forward(whale_device *dev, const whale_matmul *a);
typedef struct {
    int T, N, M, lddy, lddx; int accumulate; whale_precision precision;
    const float *dy, *w, *packed; /* packed: as in whale_matmul; devices that gain nothing by it read w */
    float *dx;
} whale_matmul_grad_x;
whale_status whale_matmul_backward_x(whale_device *dev, const whale_matmul_grad_x *a);
typedef struct {
    int T, N, M, lddy, ldx; whale_precision precision; const float *dy, *x; float *dw;
} whale_matmul_grad_w;
whale_status whale_matmul_backward_w(whale_device *dev, const whale_matmul_grad_w *a);

/* ---- RoPE, rotate-half, spec/models.md 1.2, in place on `heads` heads of width d ----
 * Row t, head h starts at x + t*ld + h*d. pos [T]; table cos/sin [max_pos, R/2] each, R <= d
 * rotary dims. inverse = 1 rotates back (the backward). pos outside the table: BAD_SHAPE. */
typedef struct {
    int T, heads, d, R, ld, max_pos, inverse;
    const int32_t *pos; const float *cos, *sin; float *x;
} whale_rope;
whale_status whale_rope_apply(whale_device *dev, const whale_rope *a);

/* ---- causal GQA attention over packed sequences (training), spec/models.md 1.3 ----
 * start [B+1]: sequence b owns rows start[b]..start[b+1). until [T], or NULL: the sequences are trees,
 * for rows that begin alike and share what they have in common; they lie in pre-order, and row r
 * is part of the paths that end in rows r..until[r]-1, so these are the rows that see it. NULL: every
 * sequence is one path, until its end. A row has the same bits in a tree and alone.
 * q, k, v, o row strides ldq, ldkv, ldo;
 * head h of row t: q + t*ldq + h*d. scale = d^-1/2. lse [T, H] = log-sum-exp of the scaled
 * scores, written for the backward (may be NULL). precision BF16 lets the device round factors to
 * bfloat16; BF16X3 is float32. */
typedef struct {
    int T, B, H, K, d, ldq, ldkv, ldo; float scale; whale_precision precision;
    const int32_t *start, *until; const float *q, *k, *v; float *o, *lse;
} whale_attention;
whale_status whale_attention_forward(whale_device *dev, const whale_attention *a);
/* dq, dk, dv are overwritten (=), with the strides of q, k, v. do_ has the stride of o. */
typedef struct {
    int T, B, H, K, d, ldq, ldkv, ldo; float scale; whale_precision precision;
    const int32_t *start, *until; const float *q, *k, *v, *o, *lse, *do_; float *dq, *dk, *dv;
} whale_attention_grad;
whale_status whale_attention_backward(whale_device *dev, const whale_attention_grad *a);

/* ---- attention over a paged cache (generation): prefill chunks and decode are one op ----
 * The cache of one layer: kpages, vpages [pages] pages of whale_page_floats each. That is [P, K*d] in
 * float32, and where whale_page_floats says less for BF16, in bfloat16: on a card two to a float, on
 * the CPU in an order of its own (blocks16.h). Row t belongs to sequence seq[t] at position pos[t]; page_table [B, max_pages] maps position / P to a page; a page outside
 * [0, pages) is WHALE_BAD_SHAPE. store writes the rows'
 * keys (after norm and RoPE) and values to their pages; attend reads positions 0..pos[t].
 * All rows of a call are stored before any is attended, in one precision. Same bits as whale_attention_forward
 * for the same row (both walk the keys in the same blocks of absolute position). */
typedef struct {
    int T, B, H, K, d, P, pages, max_pages, ldq, ldkv, ldo; float scale; whale_precision precision;
    const int32_t *seq, *pos, *page_table;
    const float *q, *k, *v; float *kpages, *vpages; float *o;
} whale_paged;
size_t whale_page_floats(whale_device *dev, whale_precision precision, int K, int d, int P);
whale_status whale_paged_store(whale_device *dev, const whale_paged *a);
whale_status whale_paged_attend(whale_device *dev, const whale_paged *a);

/* ---- SwiGLU: gu [T, 2I] holds gate then up of each row; y[t,i] = silu(gate) * up ---- */
typedef struct { int T, I; const float *gu; float *y; } whale_swiglu;
whale_status whale_swiglu_forward(whale_device *dev, const whale_swiglu *a);
/* dgu [T, 2I] overwritten; may be gu */
typedef struct { int T, I; const float *gu, *dy; float *dgu; } whale_swiglu_grad;
whale_status whale_swiglu_backward(whale_device *dev, const whale_swiglu_grad *a);

/* ---- cross entropy on a block of logits [T, V], spec/models.md 1.6, spec/rsft.md 2 ----
 * nll[t] = logsumexp(z_t / tau) - z_t[y_t] / tau. If dz is not NULL:
 * dz = weight[t] / tau * (softmax(z / tau) - onehot(y)), may be z. Columns >= V of a row are not read. */
typedef struct {
    int T, V, ldz; float tau; const int32_t *target; const float *weight; /* [T], already divided by N */
    float *z, *dz; float *nll;
} whale_xent;
whale_status whale_xent_loss(whale_device *dev, const whale_xent *a);

/* ---- optimizer ---- */
/* host_out = sum of squares in double, in a fixed order */
whale_status whale_sumsq(whale_device *dev, const float *x, size_t n, double *host_out);
/* AdamW, decoupled decay, spec/rsft.md 3; g is scaled by clip first; bias corrections are c1 = 1-b1^t, c2 = 1-b2^t */
typedef struct {
    size_t n; float lr, b1, b2, eps, decay, clip; double c1, c2;
    float *p, *m, *v; const float *g;
} whale_adamw;
whale_status whale_adamw_step(whale_device *dev, const whale_adamw *a);

/* ---- sampling, spec/models.md 7: z/tau -> top_k (ties kept) -> top_p -> inverse CDF at u ----
 * One row of logits a sample; the candidates are walked in ascending id. top_p keeps an id if those
 * strictly more probable weigh less than p (ties stay together). tau <= 1e-5 is greedy (first
 * argmax; logp is taken at tau 1, behaviour is 0). Ids >= valid are never sampled (padding rows). logp [T] is the log-probability under the FULL
 * softmax of z/tau (what the trainer computes; equal to the behaviour when top_k and top_p are off);
 * behaviour [T] is under the truncated distribution. u [T] in [0,1). */
typedef struct {
    int T, V, ldz, valid; const float *z;
    const float *tau, *top_p; const int32_t *top_k; const double *u;  /* each [T]; host memory on every device */
    int32_t *host_id; float *host_logp, *host_behaviour;
} whale_sample;
whale_status whale_sample_rows(whale_device *dev, const whale_sample *a);

#ifdef __cplusplus
}
#endif
#endif
