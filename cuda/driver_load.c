/* driver_load.c: opens NVIDIA's libraries and says what card there is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { why_room = card_why };

/* Fills `count` function pointers that lie behind each other. */
static whale_status resolve(const char *path, const char *const *symbols, size_t count, void *out, char *why) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, why_room, "%.240s", dlerror());
        return WHALE_BAD_SHAPE;
    }
    for (size_t i = 0; i < count; i++) {
        void *f = dlsym(library, symbols[i]);
        if (!f) {
            snprintf(why, why_room, "%.120s lacks %s: it is older than this program needs", path, symbols[i]);
            return WHALE_NO_DEVICE;
        }
        memcpy((char *)out + i * sizeof f, &f, sizeof f);
    }
    return WHALE_OK;
}

#define SYMBOL(field, symbol, params) #symbol,

whale_status driver_load(const char *path, driver_calls *out, char *why) {
    static const char *const symbols[] = {DRIVER_CALLS(SYMBOL)};
    return resolve(path, symbols, sizeof symbols / sizeof *symbols, out, why);
}

whale_status lt_load(const char *path, lt_calls *out, char *why) {
    static const char *const symbols[] = {LT_CALLS(SYMBOL)};
    return resolve(path, symbols, sizeof symbols / sizeof *symbols, out, why);
}

static whale_status refuse(const driver_calls *cu, const char *call, int result, char *why) {
    const char *name = NULL, *text = NULL;
    if (cu->error_name(result, &name) != cu_ok || !name) name = "an error";
    if (cu->error_text(result, &text) != cu_ok || !text) text = "unknown";
    snprintf(why, why_room, "the driver has no card for us: %s answers %s (%d): %.120s", call, name, result, text);
    return WHALE_NO_DEVICE;
}

whale_status driver_probe(const char *path, int ordinal, driver_card *out, char *why) {
    driver_calls cu;
    whale_status st = driver_load(path, &cu, why);
    if (st != WHALE_OK) return st;
    *out = (driver_card){.ordinal = ordinal};
    int device, count, shared, r;
#define ASK(call) \
    if ((r = (call)) != cu_ok) return refuse(&cu, #call, r, why)
    ASK(cu.version(&out->driver));
    if (out->driver < driver_least) {
        snprintf(why, why_room, "the driver is for CUDA %d.%d, this program needs %d.%d: install a newer NVIDIA driver",
                 out->driver / 1000, out->driver % 1000 / 10, driver_least / 1000, driver_least % 1000 / 10);
        return WHALE_NO_DEVICE;
    }
    ASK(cu.init(0));
    ASK(cu.count(&count));
    if (ordinal >= count) {
        snprintf(why, why_room, "the driver shows %d cards (CUDA_VISIBLE_DEVICES counts), there is no card %d", count, ordinal);
        return WHALE_NO_DEVICE;
    }
    ASK(cu.device(&device, ordinal));
    ASK(cu.name(out->name, sizeof out->name, device));
    ASK(cu.attribute(&out->major, cu_major, device));
    ASK(cu.attribute(&out->minor, cu_minor, device));
    ASK(cu.attribute(&out->multiprocessors, cu_multiprocessors, device));
    ASK(cu.attribute(&shared, cu_most_shared, device));
#undef ASK
    out->most_shared = (size_t)shared;
    if (cu.attribute(&out->memory_khz, cu_memory_khz, device) != cu_ok) out->memory_khz = 0; /* for a report only */
    if (cu.attribute(&out->bus_bits, cu_bus_bits, device) != cu_ok) out->bus_bits = 0;
    if (out->major >= bfloat16_major) return WHALE_OK;
    snprintf(why, why_room, "%.100s is sm_%d%d, which has no bfloat16: sm_80 or newer is needed", out->name, out->major, out->minor);
    return WHALE_NO_DEVICE;
}

whale_status driver_blas(const char *path, char *why) {
    lt_calls calls;
    return lt_load(path, &calls, why);
}

#define ARCH_CALLS(CALL)                                   \
    CALL(count, nvrtcGetNumSupportedArchs, (int *count))   \
    CALL(list, nvrtcGetSupportedArchs, (int *archs))

whale_status driver_arch(const char *path, int major, int minor, int *arch, char *why) {
    struct { ARCH_CALLS(LIBRARY_FIELD) } rt;
    static const char *const symbols[] = {ARCH_CALLS(SYMBOL)};
    whale_status st = resolve(path, symbols, sizeof symbols / sizeof *symbols, &rt, why);
    if (st != WHALE_OK) return st;
    int count = 0, *list = NULL;
    *arch = 0;
    if (rt.count(&count) == 0 && count > 0 && (list = calloc((size_t)count, sizeof *list)) && rt.list(list) == 0)
        for (int i = 0; i < count; i++)
            if (list[i] / 10 == major && list[i] % 10 <= minor && list[i] > *arch) *arch = list[i];
    free(list);
    if (*arch) return WHALE_OK;
    snprintf(why, why_room, "%.150s does not know sm_%d%d: a newer NVRTC is needed", path, major, minor);
    return WHALE_NO_DEVICE;
}
