/* job.h: what simt.c hands to run.cpp. */
#ifndef WHALE_JOB_H
#define WHALE_JOB_H

#include <stddef.h>
#include <stdint.h>

/* A buffer of device memory for the checked build: [begin, end) lies between guard zones of
 * simt_guard bytes; shadow has one simt_shadow for each 4 bytes. */
enum { simt_guard = 256 };
typedef struct { uint32_t launch, block, epoch, warp_epoch; uint16_t thread, warp; } simt_access;
typedef struct { simt_access write, read; } simt_shadow;
typedef struct { char *begin, *end; simt_shadow *shadow; } simt_range;

typedef enum { simt_forward, simt_reverse, simt_shuffle } simt_order;

typedef struct {
    const char *name;
    void (*kernel)(const void *args);
    const void *args;
    unsigned grid[3], threads;
    size_t shared;
    simt_order order;
    uint32_t launch;          /* number of this launch, from 1 */
    const simt_range *ranges; /* by address; checked build only */
    size_t range_count;
} simt_job;

/* Runs blocks [first, last) of the grid on the calling thread. Returns 0, or 1 and a line in
 * error[256]. Several threads may run different blocks of a job. */
typedef int simt_blocks_fn(const simt_job *job, uint64_t first, uint64_t last, char *error);

#endif
