/* libraries.c of the fake: NVRTC and cuBLASLt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* ---- NVRTC ---- */

struct rt_program_ { char name[64]; };
typedef struct rt_program_ *rt_program;

EXPORT const char *nvrtcGetErrorString(int result) { return result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_OTHER"; }

EXPORT int nvrtcVersion(int *major, int *minor) {
    int version = (int)fake_number("FAKE_NVRTC", 12040);
    *major = version / 1000;
    *minor = version % 1000 / 10;
    return 0;
}

EXPORT int nvrtcGetNumSupportedArchs(int *count) {
    *count = 4;
    return 0;
}

EXPORT int nvrtcGetSupportedArchs(int *archs) {
    const int known[4] = {75, 80, 90, 120};
    for (int i = 0; i < 4; i++) archs[i] = MIN(known[i], (int)fake_number("FAKE_ARCHS", 120));
    return 0;
}

EXPORT int nvrtcCreateProgram(rt_program *p, const char *source, const char *name, int headers, const char *const *texts, const char *const *names) {
    if (!source || headers <= 0 || !texts || !names) return 3;
    *p = calloc(1, sizeof **p);
    snprintf((*p)->name, sizeof (*p)->name, "%s", name);
    return 0;
}

EXPORT int nvrtcDestroyProgram(rt_program *p) {
    free(*p);
    *p = NULL;
    return 0;
}

EXPORT int nvrtcCompileProgram(rt_program p, int count, const char *const *options) {
    fake_note("compile", count);
    if (count < 1 || strncmp(options[0], "--gpu-architecture=sm_", 22)) return 5;
    return p && !getenv("FAKE_COMPILE") ? 0 : 6;
}

EXPORT int nvrtcGetProgramLogSize(rt_program p, size_t *size) {
    *size = strlen(p->name) + 40;
    return 0;
}

EXPORT int nvrtcGetProgramLog(rt_program p, char *text) {
    sprintf(text, getenv("FAKE_COMPILE") ? "%s(1): error: as asked for" : "%s: fine", p->name);
    return 0;
}

EXPORT int nvrtcGetCUBINSize(rt_program p, size_t *size) {
    *size = strlen(p->name) + 6;
    return 0;
}

EXPORT int nvrtcGetCUBIN(rt_program p, char *cubin) {
    sprintf(cubin, "FAKE %s", p->name);
    return 0;
}

/* ---- cuBLASLt ---- */

struct lt_handle_ { int open; };
struct lt_desc_ { int trans_a, trans_b; };
struct lt_layout_ { int type; uint64_t rows, cols; int64_t ld; };
struct lt_preference_ { uint64_t workspace; uint32_t align[4]; };
enum { lt_invalid = 7, lt_refused = 15 };

EXPORT int cublasLtCreate(lt_handle *h) {
    if (getenv("FAKE_BLAS")) return 1;
    *h = calloc(1, sizeof **h);
    return 0;
}

EXPORT int cublasLtDestroy(lt_handle h) {
    free(h);
    return 0;
}

EXPORT int cublasLtMatmulDescCreate(lt_desc *d, int sum, int scale) {
    *d = calloc(1, sizeof **d);
    return sum == lt_sum_float32 && scale == lt_float32 ? 0 : lt_invalid;
}

EXPORT int cublasLtMatmulDescSetAttribute(lt_desc d, int attribute, const void *value, size_t size) {
    if (size != sizeof(int)) return lt_invalid;
    memcpy(attribute == lt_trans_a ? &d->trans_a : &d->trans_b, value, size);
    return attribute == lt_trans_a || attribute == lt_trans_b ? 0 : lt_invalid;
}

EXPORT int cublasLtMatmulDescDestroy(lt_desc d) {
    free(d);
    return 0;
}

EXPORT int cublasLtMatrixLayoutCreate(lt_layout *l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
    *l = calloc(1, sizeof **l);
    **l = (struct lt_layout_){type, rows, cols, ld};
    return ld >= (int64_t)rows ? 0 : lt_invalid;
}

EXPORT int cublasLtMatrixLayoutDestroy(lt_layout l) {
    free(l);
    return 0;
}

EXPORT int cublasLtMatmulPreferenceCreate(lt_preference *p) {
    *p = calloc(1, sizeof **p);
    return 0;
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(lt_preference p, int attribute, const void *value, size_t size) {
    if (attribute == lt_most_workspace && size == 8) memcpy(&p->workspace, value, 8);
    else if (attribute >= lt_align_a && attribute <= lt_align_d && size == 4) memcpy(&p->align[attribute - lt_align_a], value, 4);
    else return lt_invalid;
    return 0;
}

EXPORT int cublasLtMatmulPreferenceDestroy(lt_preference p) {
    free(p);
    return 0;
}

/* A product with a sum of 13 is one that the library has no way for. */
EXPORT int cublasLtMatmulAlgoGetHeuristic(lt_handle h, lt_desc d, lt_layout a, lt_layout b, lt_layout c, lt_layout out, lt_preference p,
                                          int most, lt_heuristic *list, int *count) {
    uint64_t m = d->trans_a ? a->cols : a->rows, k = d->trans_a ? a->rows : a->cols;
    uint64_t n = d->trans_b ? b->rows : b->cols, k2 = d->trans_b ? b->cols : b->rows;
    if (!h || most < 1 || k != k2 || m != out->rows || n != out->cols || c->ld != out->ld || a->type != b->type || out->type != lt_float32)
        return lt_invalid;
    fake_note("heuristic", (long)k);
    *count = k == 13 ? 0 : 1;
    memset(list, 0, sizeof *list);
    for (int i = 0; i < 4; i++) list->algo.data[i] = p->align[i];
    list->algo.data[4] = m ^ n << 16 ^ k << 32;
    list->workspace = k > 40 ? MIN((size_t)4096, p->workspace) : 0;
    return 0;
}

static int aligned(const void *p, uint64_t to) { return to && (uintptr_t)p % to == 0; }

EXPORT int cublasLtMatmul(lt_handle h, lt_desc d, const void *alpha, const void *a, lt_layout la, const void *b, lt_layout lb,
                          const void *beta, const void *c, lt_layout lc, void *out, lt_layout lout, const lt_algo *algo, void *workspace,
                          size_t bytes, cu_stream s) {
    (void)lc;
    uint64_t k = d->trans_a ? la->rows : la->cols;
    if (!h || *(const float *)alpha != 1 || c != out || !aligned(a, algo->data[0]) || !aligned(b, algo->data[1]) ||
        !aligned(out, algo->data[3]) || algo->data[4] != (lout->rows ^ lout->cols << 16 ^ k << 32) || (k > 40 && (!workspace || bytes < 4096)))
        return lt_invalid;
    fake_op op = {.kind = op_product, .product = {.rows = (int)lout->rows, .cols = (int)lout->cols, .K = (int)k, .bf16 = la->type == lt_bfloat16,
                  .trans_a = d->trans_a, .trans_b = d->trans_b, .add = *(const float *)beta == 1, .lda = (size_t)la->ld,
                  .ldb = (size_t)lb->ld, .ldc = (size_t)lout->ld, .a = a, .b = b, .c = out}};
    return fake_ask(s, &op) == cu_ok ? 0 : 13;
}
