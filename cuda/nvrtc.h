/* nvrtc.h: NVIDIA's compiler for kernels as a shared library, opened at run time. It needs no
 * card. Messages go to why [room]. */
#ifndef WHALE_NVRTC_H
#define WHALE_NVRTC_H

#include <stddef.h>

typedef struct nvrtc nvrtc;

/* path is a file, or a name that the loader finds ("libnvrtc.so.12"). NULL and a line in why if
 * it can't be opened or lacks a call. *version is major * 1000 + minor. Whoever opened it closes it; the library
 * itself stays open until the process ends. */
nvrtc *nvrtc_open(const char *path, int *version, char *why, size_t room);
void nvrtc_close(nvrtc *n);

/* One .cu file with the headers it may include. */
typedef struct {
    const char *name, *text;
    int headers;
    const char *const *header_names, *const *header_texts;
    const char *arch; /* "sm_90" */
} nvrtc_source;

/* What came of it; the caller frees both. image [size] is the cubin, NULL if it failed; log is
 * what the compiler and the assembler said, registers and spills of each kernel included. */
typedef struct { char *image; size_t size; char *log; } nvrtc_result;

/* Answers 0, or 1 and a line in why. May be called by several threads at once. */
int nvrtc_compile(const nvrtc *n, const nvrtc_source *source, nvrtc_result *out, char *why, size_t room);

#endif
