/* nvrtc.c: see nvrtc.h. The prototypes are those of the NVRTC documentation. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "nvrtc.h"

typedef struct program *program; /* nvrtcProgram */

struct nvrtc {
    const char *(*text)(int);
    int (*version)(int *, int *);
    int (*create)(program *, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(program, int, const char *const *);
    int (*log_size)(program, size_t *);
    int (*log)(program, char *);
    int (*image_size)(program, size_t *);
    int (*image)(program, char *);
    int (*destroy)(program *);
};

nvrtc *nvrtc_open(const char *path, int *version, char *why, size_t room) {
    nvrtc *n = calloc(1, sizeof *n);
    void *library = n ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        snprintf(why, room, "%s", n ? dlerror() : "no memory");
        free(n);
        return NULL;
    }
    const struct { const char *name; void **to; } calls[] = {
        {"nvrtcGetErrorString", (void **)&n->text}, {"nvrtcVersion", (void **)&n->version},
        {"nvrtcCreateProgram", (void **)&n->create}, {"nvrtcCompileProgram", (void **)&n->compile},
        {"nvrtcGetProgramLogSize", (void **)&n->log_size}, {"nvrtcGetProgramLog", (void **)&n->log},
        {"nvrtcGetCUBINSize", (void **)&n->image_size}, {"nvrtcGetCUBIN", (void **)&n->image},
        {"nvrtcDestroyProgram", (void **)&n->destroy},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (!(*calls[i].to = dlsym(library, calls[i].name))) {
            snprintf(why, room, "%s is too old: it lacks %s", path, calls[i].name);
            free(n);
            dlclose(library);
            return NULL;
        }
    int major = 0, minor = 0;
    n->version(&major, &minor);
    *version = major * 1000 + minor;
    return n;
}

/* Takes a text of the program; NULL if there is none. */
static char *take(program p, int (*size_of)(program, size_t *), int (*get)(program, char *), size_t *size) {
    *size = 0;
    char *text = NULL;
    if (size_of(p, size) == 0 && *size > 0) text = calloc(1, *size + 1);
    if (text && get(p, text) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

int nvrtc_compile(const nvrtc *n, const nvrtc_source *source, nvrtc_result *out, char *why, size_t room) {
    char arch[64];
    snprintf(arch, sizeof arch, "--gpu-architecture=%.20s", source->arch);
    const char *options[] = {arch, "-std=c++17", "-default-device", "--ptxas-options=-v"};
    program p = NULL;
    *out = (nvrtc_result){0};
    int st = n->create(&p, source->text, source->name, source->headers, source->header_texts, source->header_names);
    if (st == 0) st = n->compile(p, (int)(sizeof options / sizeof options[0]), options);
    size_t size;
    if (p) out->log = take(p, n->log_size, n->log, &size);
    if (p && st == 0) out->image = take(p, n->image_size, n->image, &out->size);
    if (p) n->destroy(&p);
    if (st == 0 && out->image) return 0;
    snprintf(why, room, "%s for %s: %s", source->name, source->arch, st ? n->text(st) : "no image");
    return 1;
}

void nvrtc_close(nvrtc *n) { free(n); }
