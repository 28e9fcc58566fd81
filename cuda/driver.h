/* driver.h: inside of the CUDA device, and what it uses of NVIDIA's libraries. Names, values and
 * layouts are those of their documentation, declared here so that a build needs no toolkit; the
 * libraries are opened at run time by a path that Go found (driver.go).
 *
 *   driver_load.c     opens a library, says what card there is
 *   driver_arena.c    device memory in few large pieces
 *   driver_product.c  matrix products by cuBLASLt
 *   driver.c          the backend of gpu.h: streams, launches, graphs, errors */
#ifndef WHALE_DRIVER_H
#define WHALE_DRIVER_H

#include "card.h"
#include "gpu.h"

/* ---- the driver's interface ---- */

typedef struct cu_context_ *cu_context;
typedef struct cu_module_ *cu_module;
typedef struct cu_function_ *cu_function;
typedef struct cu_stream_ *cu_stream;
typedef struct cu_event_ *cu_event;
typedef struct cu_graph_ *cu_graph;
typedef struct cu_exec_ *cu_exec;
typedef unsigned long long cu_pointer; /* an address of the card */

enum { /* CUresult */
    cu_ok = 0, cu_invalid_value = 1, cu_out_of_memory = 2, cu_out_of_resources = 701, cu_not_supported = 801,
    cu_capture_first = 900, cu_capture_last = 908
};
enum { /* CUdevice_attribute and other choices */
    cu_multiprocessors = 16, cu_memory_khz = 36, cu_bus_bits = 37, cu_major = 75, cu_minor = 76,
    cu_most_shared = 97, cu_func_shared = 8, cu_stream_alone = 1, cu_event_untimed = 2, cu_capture_relaxed = 2
};

/* field, symbol, parameters; all answer a CUresult */
#define DRIVER_CALLS(CALL)                                                                                        \
    CALL(init, cuInit, (unsigned flags))                                                                          \
    CALL(version, cuDriverGetVersion, (int *version))                                                             \
    CALL(error_name, cuGetErrorName, (int error, const char **text))                                              \
    CALL(error_text, cuGetErrorString, (int error, const char **text))                                            \
    CALL(count, cuDeviceGetCount, (int *count))                                                                   \
    CALL(device, cuDeviceGet, (int *device, int ordinal))                                                         \
    CALL(name, cuDeviceGetName, (char *name, int room, int device))                                               \
    CALL(attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))                                \
    CALL(retain, cuDevicePrimaryCtxRetain, (cu_context * context, int device))                                    \
    CALL(release, cuDevicePrimaryCtxRelease_v2, (int device))                                                     \
    CALL(set_current, cuCtxSetCurrent, (cu_context context))                                                      \
    CALL(memory, cuMemGetInfo_v2, (size_t *free, size_t *total))                                                  \
    CALL(alloc, cuMemAlloc_v2, (cu_pointer *p, size_t bytes))                                                     \
    CALL(free, cuMemFree_v2, (cu_pointer p))                                                                      \
    CALL(host_alloc, cuMemHostAlloc, (void **p, size_t bytes, unsigned flags))                                    \
    CALL(host_free, cuMemFreeHost, (void *p))                                                                     \
    CALL(to_card, cuMemcpyHtoDAsync_v2, (cu_pointer to, const void *from, size_t bytes, cu_stream s))             \
    CALL(to_host, cuMemcpyDtoHAsync_v2, (void *to, cu_pointer from, size_t bytes, cu_stream s))                   \
    CALL(on_card, cuMemcpyDtoDAsync_v2, (cu_pointer to, cu_pointer from, size_t bytes, cu_stream s))              \
    CALL(fill, cuMemsetD32Async, (cu_pointer p, unsigned word, size_t words, cu_stream s))                        \
    CALL(zero, cuMemsetD8Async, (cu_pointer p, unsigned char byte, size_t bytes, cu_stream s))                    \
    CALL(fill_rows, cuMemsetD2D32Async, (cu_pointer p, size_t pitch, unsigned word, size_t w, size_t h, cu_stream s)) \
    CALL(load, cuModuleLoadData, (cu_module * module, const void *image))                                         \
    CALL(unload, cuModuleUnload, (cu_module module))                                                              \
    CALL(function, cuModuleGetFunction, (cu_function * f, cu_module module, const char *name))                    \
    CALL(function_set, cuFuncSetAttribute, (cu_function f, int attribute, int value))                             \
    CALL(launch, cuLaunchKernel, (cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                                  unsigned bz, unsigned shared, cu_stream s, void **params, void **extra))        \
    CALL(stream_create, cuStreamCreate, (cu_stream * s, unsigned flags))                                          \
    CALL(stream_destroy, cuStreamDestroy_v2, (cu_stream s))                                                       \
    CALL(stream_wait, cuStreamSynchronize, (cu_stream s))                                                         \
    CALL(event_create, cuEventCreate, (cu_event * e, unsigned flags))                                             \
    CALL(event_destroy, cuEventDestroy_v2, (cu_event e))                                                          \
    CALL(event_record, cuEventRecord, (cu_event e, cu_stream s))                                                  \
    CALL(event_wait, cuEventSynchronize, (cu_event e))                                                            \
    CALL(capture, cuStreamBeginCapture_v2, (cu_stream s, int mode))                                               \
    CALL(capture_end, cuStreamEndCapture, (cu_stream s, cu_graph *graph))                                         \
    CALL(instantiate, cuGraphInstantiateWithFlags, (cu_exec * exec, cu_graph graph, unsigned long long flags))    \
    CALL(graph_launch, cuGraphLaunch, (cu_exec exec, cu_stream s))                                                \
    CALL(graph_destroy, cuGraphDestroy, (cu_graph graph))                                                         \
    CALL(exec_destroy, cuGraphExecDestroy, (cu_exec exec))

/* ---- cuBLASLt; all answer a cublasStatus_t ---- */

typedef struct lt_handle_ *lt_handle;
typedef struct lt_desc_ *lt_desc;
typedef struct lt_layout_ *lt_layout;
typedef struct lt_preference_ *lt_preference;
typedef struct { uint64_t data[8]; } lt_algo;
typedef struct { lt_algo algo; size_t workspace; int state; float waves; int reserved[4]; } lt_heuristic;
enum { /* cudaDataType, cublasComputeType_t, cublasOperation_t, attributes */
    lt_float32 = 0, lt_bfloat16 = 14, lt_sum_float32 = 68, lt_as_is = 0, lt_transposed = 1, lt_trans_a = 3, lt_trans_b = 4,
    lt_most_workspace = 1, lt_align_a = 5, lt_align_b = 6, lt_align_c = 7, lt_align_d = 8
};
#define LT_CALLS(CALL)                                                                                           \
    CALL(create, cublasLtCreate, (lt_handle * h))                                                                \
    CALL(destroy, cublasLtDestroy, (lt_handle h))                                                                \
    CALL(desc, cublasLtMatmulDescCreate, (lt_desc * d, int sum, int scale))                                      \
    CALL(desc_set, cublasLtMatmulDescSetAttribute, (lt_desc d, int attribute, const void *value, size_t size))   \
    CALL(desc_free, cublasLtMatmulDescDestroy, (lt_desc d))                                                      \
    CALL(layout, cublasLtMatrixLayoutCreate, (lt_layout * l, int type, uint64_t rows, uint64_t cols, int64_t ld)) \
    CALL(layout_free, cublasLtMatrixLayoutDestroy, (lt_layout l))                                                \
    CALL(preference, cublasLtMatmulPreferenceCreate, (lt_preference * p))                                        \
    CALL(preference_set, cublasLtMatmulPreferenceSetAttribute, (lt_preference p, int attribute, const void *value, size_t size)) \
    CALL(preference_free, cublasLtMatmulPreferenceDestroy, (lt_preference p))                                    \
    CALL(heuristic, cublasLtMatmulAlgoGetHeuristic, (lt_handle h, lt_desc d, lt_layout a, lt_layout b, lt_layout c, lt_layout out, \
                                                     lt_preference p, int most, lt_heuristic *list, int *count)) \
    CALL(matmul, cublasLtMatmul, (lt_handle h, lt_desc d, const void *alpha, const void *a, lt_layout la, const void *b, \
                                  lt_layout lb, const void *beta, const void *c, lt_layout lc, void *out, lt_layout lout, \
                                  const lt_algo *algo, void *workspace, size_t bytes, cu_stream s))

#define LIBRARY_FIELD(field, symbol, params) int(*field) params;
typedef struct { DRIVER_CALLS(LIBRARY_FIELD) } driver_calls;
typedef struct { LT_CALLS(LIBRARY_FIELD) } lt_calls;

/* ---- driver_load.c. A library stays open until the process ends. ---- */

/* path names a library that the dynamic linker takes. BAD_SHAPE: no library there, try the next
 * path; NO_DEVICE: there is one, and it won't do; why [256] says so. */
whale_status driver_load(const char *path, driver_calls *out, char *why);
whale_status lt_load(const char *path, lt_calls *out, char *why);

/* ---- driver.c: its state ---- */

typedef struct arena_block arena_block;
typedef struct { cu_pointer base; size_t bytes; } arena_segment;
typedef struct {
    arena_block *first; /* all blocks by segment and address */
    arena_segment *segments;
    size_t count, held, used, peak; /* segments; bytes got from the driver; given out; most given out */
} arena;

typedef struct lt_plan lt_plan;
typedef struct {
    lt_calls calls;
    lt_handle handle;
    lt_plan **plans; /* by hash, NULL where free */
    size_t room, count;
    cu_pointer workspace;
} lt_state;

enum { lt_workspace = 32 << 20, stage_slots = 32, stage_bytes = 256 << 10 };

typedef struct {
    driver_calls cu;
    driver_card card;
    int device;
    cu_context context;
    uint64_t serial; /* of this opening, from 1: whose context a thread has current */
    cu_stream stream;
    cu_module modules[16];
    int module_count;
    cu_function kernels[kernel_count];
    size_t shared[kernel_count]; /* bytes a function was allowed */
    char *stage;                 /* pinned, stage_slots pieces */
    cu_event staged[stage_slots];
    int slot;
    int recording;
    arena arena;
    lt_state lt;
    int has_lt;
    char isa[96];
} driver;

/* Turns a CUresult that is not 0 into a status and a line. */
whale_status driver_fail(gpu_backend *b, const char *call, int result);
#define CU(b, call) \
    do { int cu_ = (call); if (cu_ != cu_ok) return driver_fail(b, #call, cu_); } while (0)

/* ---- driver_arena.c ---- */

whale_status arena_alloc(gpu_backend *b, size_t bytes, cu_pointer *out);
void         arena_free(driver *d, cu_pointer p);
whale_status arena_reserve(gpu_backend *b, size_t bytes); /* the arena holds at least so many */
void         arena_close(driver *d);

/* ---- driver_product.c ---- */

whale_status lt_open(gpu_backend *b, const char *path);
void         lt_close(driver *d);
whale_status lt_product(gpu_backend *b, const gpu_product *p);

#endif
